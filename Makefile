# The front door. Each target first sees to the packages it needs (scripts/packages), then does its work.
FUZZ_SECONDS ?= 30
JOBS := $(shell getconf _NPROCESSORS_ONLN)
VENV := build/goldens-venv
PEERS_VENV := build/peers-venv

# $(call configure,PRESET), $(call build,PRESET[,TARGET]), $(call check,PRESET). Configuring is silent but for
# warnings and errors; ninja uses all cores by itself.
configure = cmake --preset $(1) >/dev/null
build = $(configure) && cmake --build --preset $(1) $(if $(2),--target $(2))
check = $(build) && ctest --preset $(1) --parallel $(JOBS) --progress

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test bench bench-peers lint goldens sanitize clang fuzz clean

help:
	@echo "make TARGET, where TARGET is one of"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Build the tool, check its numbers (verify), explain a rotary configuration (rope)
	@scripts/packages test
	@$(call build,release,tools/phasor/phasor)
	build/release/tools/phasor/phasor verify
	build/release/tools/phasor/phasor rope

test: ## Build everything and run all tests
	@scripts/packages test
	@$(call check,release)

bench: ## Measure the speed of the kernels on this machine
	@scripts/packages bench
	@$(call build,bench)
	build/bench/benchmarks/phasor_bench

bench-peers: ## Measure beside torch and ONNX Runtime (downloads both), and write docs/performance.md's table
	@scripts/packages bench-peers
	@$(call build,bench,benchmarks/phasor_case)
	@test -x $(PEERS_VENV)/bin/python || python3 -m venv $(PEERS_VENV)
	$(PEERS_VENV)/bin/pip install --quiet --requirement benchmarks/peers/requirements.txt
	$(PEERS_VENV)/bin/python benchmarks/peers/compare.py --write

lint: ## Check format, static analysis, scripts and links
	@scripts/packages lint
	@$(call configure,release)
	@scripts/lint

sanitize: ## Run the tests under the address, undefined-behaviour and thread sanitizers
	@scripts/packages sanitize
	@$(call check,asan)
	@$(call check,tsan)

clang: ## Build everything with clang and run all tests
	@scripts/packages clang
	@$(call check,clang)

fuzz: ## Feed the config reader malformed input for FUZZ_SECONDS (30)
	@scripts/packages fuzz
	@$(call build,fuzz)
	@mkdir -p build/fuzz/corpus  # libFuzzer adds what it finds to the first folder; the second is only read
	build/fuzz/tests/fuzz/fuzz_rope_config -max_total_time=$(FUZZ_SECONDS) -verbosity=0 -print_final_stats=1 \
	  -artifact_prefix=build/fuzz/ build/fuzz/corpus tests/fuzz/corpus

goldens: ## Rewrite the golden files from Hugging Face transformers (downloads torch)
	@scripts/packages goldens
	@test -x $(VENV)/bin/python || python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet "torch==2.15.*" "transformers==5.22.*" numpy
	$(VENV)/bin/python tests/golden/make_goldens.py
	$(VENV)/bin/python tests/golden/make_models.py
	$(VENV)/bin/python tests/golden/make_layers.py

clean: ## Remove everything that was built
	rm -rf build
