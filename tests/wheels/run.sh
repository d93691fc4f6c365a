#!/usr/bin/env bash
# run.sh DIST: what `make wheels` made, in bare systems without compiler and headers: Debian 12 (Python 3.11), Ubuntu
# 22.04 (older, Python 3.10) and Debian 13 (newer, Python 3.13) install a wheel with pip and run the programs of README
# and guide; Debian 11, whose Python is too old, runs the tool. The wheel for aarch64 runs under QEMU, and the sdist is
# built here. Run as root by `make test-wheels`. The systems are kept in build/wheels/roots.
set -euo pipefail
cd "$(dirname "$0")/../.."
dist=$(realpath "$1")
roots=$PWD/build/wheels/roots
python=$PWD/build/wheels/venv/bin/python
mkdir -p "$roots"

# Mirrors: of Debian the one that apt uses; Ubuntu is tested where its mirror is given.
# shellcheck disable=SC2016  # apt expands it
debian=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | grep --max-count=1 '/debian/$')}
ubuntu=${UBUNTU_MIRROR:-}
export TORCH_PACKAGES=${TORCH_PACKAGES:-}

# ubuntu_keyring: Debian 12 has no package of Ubuntu's keys.
ubuntu_keyring() {
  local deb=ubuntu-keyring_2021.03.26_all.deb
  curl --silent --fail --output "$roots/$deb" "$ubuntu/pool/main/u/ubuntu-keyring/$deb"
  echo "0d0e7ed6b112f5d03eabf3c7eb01ebdacf9c57714b279e90495cfc58c8c4520f  $roots/$deb" | sha256sum --check --quiet
  dpkg-deb -x "$roots/$deb" "$roots/keys"
}

# make_root NAME SUITE MIRROR OPTION...: a bare system, unless it is there.
make_root() {
  [[ ! -e $roots/$1.made ]] || return 0
  rm -rf "${roots:?}/$1"
  debootstrap --variant=minbase "${@:4}" "$2" "$roots/$1" "$3" >"$roots/$1.log" || { tail "$roots/$1.log"; return 1; }
  touch "$roots/$1.made"
}

# inside NAME COMMAND...: in this system, with a /proc of its own that ends with the command, and torch's packages in /torch.
# shellcheck disable=SC2016  # the words are for the inner shell
inside() {
  unshare --mount --pid --fork sh -c 'mount -t proc proc "$0/proc" && mkdir -p "$0/torch" &&
    { [ -z "$TORCH_PACKAGES" ] || mount --bind "$TORCH_PACKAGES" "$0/torch"; } && exec chroot "$0" "$@"' "$roots/$1" "${@:2}"
}

# wheel TAG ARCH: its file.
wheel() { find "$dist" -name "phasor_attention-*-$1-*_$2.whl" | grep .; }

# download VERSION ARCH FOLDER PACKAGE...: wheels for another Python.
download() {
  "$python" -m pip download --quiet --only-binary=:all: --python-version "$1" --platform "manylinux_2_28_$2" \
    --platform "manylinux_2_17_$2" --platform "manylinux2014_$2" --dest "$3" "${@:4}"
}

# programs NAME SUITE MIRROR VERSION TAG OPTION...: pip installs the wheel, and the programs print what they should.
programs() {
  local name=$1 root=$roots/$1
  echo "$name, Python $4, wheel $5:"
  make_root "$name" "$2" "$3" --include=python3,python3-venv "${@:6}"
  rm -rf "$root/phasor" "$root/venv"
  mkdir -p "$root/phasor/wheels" "$root/phasor/python" "$root/phasor/tests/golden"
  cp "$(wheel "$5" x86_64)" "$root/phasor/wheels"
  download "$4" x86_64 "$root/phasor/wheels" numpy pytest exceptiongroup tomli typing_extensions # the last three: pytest for Python 3.10
  cp -r README.md docs include examples "$root/phasor"
  cp -r python/tests "$root/phasor/python"
  cp tests/golden/tokenizers.json "$root/phasor/tests/golden"
  inside "$name" sh -c '! command -v cc gcc g++ clang c++' || { echo "expected no compiler"; return 1; }
  inside "$name" ldd --version | sed -n 1p
  inside "$name" python3 -m venv /venv
  inside "$name" /venv/bin/pip --isolated install --quiet --no-index --find-links /phasor/wheels phasor-attention pytest
  inside "$name" /venv/bin/phasor --version
  inside "$name" sh -c 'cd /phasor && /venv/bin/python -m pytest --quiet -p no:cacheprovider python/tests/test_guide.py \
    python/tests/test_package.py python/tests/test_tokenizer.py -k "guide or readme or tool or missing or tokenizer"'
}

# torch NAME: the README's programs with torch and transformers, whose packages come after those of the wheel's environment;
# and that phasor runs on torch's threads, whichever is imported first.
torch() {
  echo "$1, with torch:"
  cp -r python/tests_torch "$roots/$1/phasor/python"
  echo /torch >"$roots/$1/venv/lib/python3.11/site-packages/torch.pth"
  inside "$1" sh -c 'cd /phasor && /venv/bin/python -m pytest --quiet -p no:cacheprovider \
    python/tests_torch/test_documents.py python/tests_torch/test_threads.py -k "README or threads"'
}

# tool NAME SUITE MIRROR: the tool of the wheel runs and finds its numbers right.
tool() {
  echo "$1, the tool:"
  make_root "$1" "$2" "$3"
  "$python" -m zipfile -e "$(wheel abi3 x86_64)" "$roots/$1/wheel"
  chmod +x "$roots/$1/wheel/phasor/bin/phasor"
  inside "$1" ldd --version | sed -n 1p
  inside "$1" /wheel/phasor/bin/phasor verify | tail -n 1
}

# aarch64: Debian 12's Python and the wheel, unpacked; QEMU finds libraries there and needs no help of the kernel.
aarch64() {
  local root=$roots/arm64 deb
  echo "aarch64, Python 3.11:"
  if [[ ! -e $roots/arm64.made ]]; then
    rm -rf "$root"
    debootstrap --foreign --arch=arm64 --variant=minbase --include=python3 bookworm "$root" "$debian" >"$roots/arm64.log"
    for deb in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$deb" "$root"; done
    touch "$roots/arm64.made"
  fi
  rm -rf "$root/wheels" "$root/site"
  download 3.11 aarch64 "$root/wheels" numpy pytest ml_dtypes
  "$python" -m pip install --quiet --no-deps --ignore-requires-python --only-binary=:all: --python-version 3.11 \
    --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64 \
    --target "$root/site" "$(wheel cp311 aarch64)" "$root"/wheels/*.whl
  # What the tests start in turn: a script, which QEMU gives to the kernel as it is.
  printf '#!/bin/sh\nexec qemu-aarch64-static -L %s %s/usr/bin/python3.11 "$@"\n' "$root" "$root" >"$root/python"
  printf 'import sys\nsys.executable = "%s/python"\n' "$root" >"$root/site/sitecustomize.py"
  chmod +x "$root/python" "$root/site/phasor/bin/phasor"
  qemu-aarch64-static -L "$root" "$root/site/phasor/bin/phasor" --version
  PYTHONPATH=$root/site "$root/python" -m pytest --quiet -p no:cacheprovider "${aarch64_tests[@]}"
}
aarch64_tests=(python/tests/test_attention.py python/tests/test_biases.py python/tests/test_gradients.py python/tests/test_rotary.py python/tests/test_w2.py
  python/tests/test_tokenizer.py)  # the guide's programs are of real sizes: minutes each under QEMU

# sdist: as pip builds it where there is a compiler, which is told to be the one that ccache has the library of, in a
# folder that lies to the sources as that of `make python`.
sdist() {
  local sources=$roots/sdist
  echo "the sdist:"
  rm -rf "$sources" "$roots/from-sdist"
  mkdir "$sources"
  tar -xzf "$(find "$dist" -name '*.tar.gz')" -C "$sources" --strip-components=1
  python3 -m venv "$roots/from-sdist"
  "$roots/from-sdist/bin/pip" install --quiet --config-settings=build-dir=build/wheel \
    --config-settings=cmake.define.CMAKE_CXX_COMPILER=g++ --config-settings=cmake.define.PHASOR_WARNINGS_AS_ERRORS=ON "$sources"
  (cd "$roots" && from-sdist/bin/python -c 'import phasor; print(phasor.__version__)' && from-sdist/bin/phasor --version)
}

programs debian12 bookworm "$debian" 3.11 cp311
if [[ $TORCH_PACKAGES ]]; then
  torch debian12
else
  echo "torch: not tested, TORCH_PACKAGES does not name the site-packages of an environment of Python 3.11 that has it"
fi
if [[ $ubuntu ]]; then
  ubuntu_keyring
  programs ubuntu22.04 jammy "$ubuntu" 3.10 cp310 --components=main,universe --keyring="$roots/keys/usr/share/keyrings/ubuntu-archive-keyring.gpg"
else
  echo "ubuntu22.04: not tested, UBUNTU_MIRROR does not name a mirror"
fi
programs debian13 trixie "$debian" 3.13 abi3
tool debian11 bullseye "$debian"
aarch64
sdist
echo "all passed"
