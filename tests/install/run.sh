#!/usr/bin/env bash
# run.sh SOURCE BUILD COMPILER: installs components of a finished build in a folder of their own and has a
# consumer project find, link and run them; builds the README's C++ program as it is printed; and uses the
# sources without installing. Run by ctest.
set -euo pipefail
source=$1 build=$2 compiler=$3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The consumer needs the flags of the library where these are sanitizers.
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
generator=$(cached CMAKE_GENERATOR)

# install PREFIX COMPONENT...
install() {
  local prefix=$1 component
  for component in "${@:2}"; do
    cmake --install "$build" --prefix "$prefix" --component "$component" >>"$work/log"
  done
}

# configure FOLDER OPTION...: a project, in an empty build folder.
configure() {
  rm -rf "$work/consumer"
  cmake -S "$1" -B "$work/consumer" -G "$generator" -D CMAKE_CXX_COMPILER="$compiler" \
    -D CMAKE_CXX_FLAGS="$(cached CMAKE_CXX_FLAGS)" -D CMAKE_BUILD_TYPE="$(cached CMAKE_BUILD_TYPE)" \
    -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF "${@:2}" >"$work/log" 2>&1
}

# must COMMAND...: or the log is shown.
must() {
  if ! "$@" >>"$work/log" 2>&1; then
    cat "$work/log"
    return 1
  fi
}

# works PREFIX COMPONENT: a consumer of the component configures, builds and runs.
works() {
  echo "$2, installed in $(basename "$1"):"
  must configure "$source/tests/install" -D phasor_ROOT="$1" -D COMPONENT="$2"
  must cmake --build "$work/consumer"
  "$work/consumer/consumer"
}

# fails PREFIX COMPONENT: configuring stops, with a message that names the component.
fails() {
  echo "$2, which is not in $(basename "$1"):"
  if configure "$source/tests/install" -D phasor_ROOT="$1" -D COMPONENT="$2" ||
    ! grep -E "component.*\b$2\b" "$work/log"; then
    cat "$work/log"
    echo "expected find_package to fail and to name the component $2"
    return 1
  fi
}

# block LANGUAGE: the first fenced block of this language in the README.
block() { awk -v begin='```'"$1" '$0 == "```" && inside { exit } inside { print } $0 == begin { inside = 1 }' "$source/README.md"; }

# readme PREFIX: its C++ program and its CMakeLists.txt, pasted into an empty folder. What the program prints is tested
# elsewhere.
readme() {
  echo "the README's program:"
  mkdir "$work/readme"
  block cpp >"$work/readme/attention.cc"
  block cmake >"$work/readme/CMakeLists.txt"
  must configure "$work/readme" -D phasor_ROOT="$1"
  must cmake --build "$work/consumer"
  "$work/consumer/example"
}

# sources WITH COMPONENT TARGET: a consumer that builds phasor as a part of itself, up to this target. Flags that make it
# quick to compile; sanitizers are not what is tested.
sources() {
  echo "$2, from the sources with $1:"
  must configure "$source/tests/install" -D CMAKE_CXX_FLAGS=-O0 -D PHASOR_ONE_TARGET=ON -D PHASOR="$source" -D WITH="$1" -D COMPONENT="$2"
  must cmake --build "$work/consumer" --target "$3"
}

install "$work/core-only" core
works "$work/core-only" core
fails "$work/core-only" position

install "$work/up-to-attention" core position attention
works "$work/up-to-attention" attention

install "$work/all" core position attention layers models training
works "$work/all" position
works "$work/all" layers
works "$work/all" models
works "$work/all" training
fails "$work/all" no_such_part
readme "$work/all"

sources FetchContent core consumer
"$work/consumer/consumer"
# The kernels take minutes to compile, so of the consumer only its own file is: it finds its headers.
if [[ $generator == Ninja ]]; then object=CMakeFiles/consumer.dir/attention.cc.o; else object=attention.o; fi
sources add_subdirectory attention "$object"
