#!/usr/bin/env bash
# run.sh SOURCE BUILD COMPILER: installs components of a finished build in a folder of their own and has a
# consumer project find, link and run them. Run by ctest.
set -euo pipefail
source=$1 build=$2 compiler=$3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The consumer needs the flags of the library where these are sanitizers.
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

# install PREFIX COMPONENT...
install() {
  local prefix=$1 component
  for component in "${@:2}"; do
    cmake --install "$build" --prefix "$prefix" --component "$component" >>"$work/log"
  done
}

# configure PREFIX COMPONENT: in an empty folder, finding phasor in the prefix and nowhere else.
configure() {
  rm -rf "$work/consumer"
  cmake -S "$source/tests/install" -B "$work/consumer" -G "$(cached CMAKE_GENERATOR)" \
    -D CMAKE_CXX_COMPILER="$compiler" -D CMAKE_CXX_FLAGS="$(cached CMAKE_CXX_FLAGS)" \
    -D CMAKE_BUILD_TYPE="$(cached CMAKE_BUILD_TYPE)" -D phasor_ROOT="$1" \
    -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF -D COMPONENT="$2" >"$work/log" 2>&1
}

# works PREFIX COMPONENT: a consumer of the component configures, builds and runs.
works() {
  echo "$2:"
  if configure "$@" && cmake --build "$work/consumer" >>"$work/log" 2>&1; then
    "$work/consumer/consumer"
  else
    cat "$work/log"
    return 1
  fi
}

# fails PREFIX COMPONENT: configuring stops, with a message that names the component.
fails() {
  echo "$2, which is not in $(basename "$1"):"
  if configure "$@" || ! grep -E "component.*\b$2\b" "$work/log"; then
    cat "$work/log"
    echo "expected find_package to fail and to name the component $2"
    return 1
  fi
}

install "$work/core-only" core
works "$work/core-only" core
fails "$work/core-only" position

install "$work/all" core position attention layers models training
works "$work/all" position
works "$work/all" attention
works "$work/all" layers
works "$work/all" models
works "$work/all" training
fails "$work/all" no_such_part
