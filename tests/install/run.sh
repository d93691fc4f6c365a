#!/usr/bin/env bash
# run.sh SOURCE BUILD COMPILER: installs components of a finished build in a folder of their own and has a
# consumer project find, link and run them, with CMake and with pkg-config; builds the README's C++ program as it is
# printed; installs shared libraries; and uses the sources without installing. Run by ctest.
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

# example FOLDER PROGRAM PATTERN OPTION...: a project of examples/cpp builds, and its program prints the pattern.
example() {
  echo "examples/cpp/$1:"
  must configure "$source/examples/cpp/$1" "${@:4}"
  must cmake --build "$work/consumer"
  "$work/consumer/$2" | grep -E "$3"
}

# pkg_config PREFIX: a program without CMake.
pkg_config() {
  local flags file twice
  echo "attention, with pkg-config:"
  file=$(find "$1" -name phasor.pc)
  twice=$(sed -n 's/^\([A-Z][A-Za-z.]*\):.*/\1/p' "$file" | sort | uniq --repeated)
  [[ ! $twice ]] || { echo "$file: $twice twice, which some pkg-configs refuse"; return 1; }
  flags=$(PKG_CONFIG_PATH=$(dirname "$file") pkg-config --cflags --libs phasor)
  # shellcheck disable=SC2046,SC2086  # lists of words
  must "$compiler" $(cached CMAKE_CXX_FLAGS) "$source/tests/install/attention.cc" $flags -o "$work/with-pkg-config"
  "$work/with-pkg-config"
}

# shared: the parts up to position as shared libraries, which carry the version, are found beside the tool of a prefix
# and by a consumer.
shared() {
  local name library
  echo "position, shared:"
  must configure "$source" "${quick[@]}" -D BUILD_SHARED_LIBS=ON -D PHASOR_BUILD_TOOLS=OFF -D PHASOR_BUILD_TESTS=OFF -D PHASOR_BUILD_EXAMPLES=OFF
  must cmake --build "$work/consumer" --target phasor_position
  must cmake --install "$work/consumer" --prefix "$work/shared" --component core
  must cmake --install "$work/consumer" --prefix "$work/shared" --component position
  for name in core position; do
    library=$(find "$work/shared" -name "libphasor_$name.so.*.*.*")
    objdump -p "$library" | grep -E "SONAME +libphasor_$name\.so\.[0-9]+\.[0-9]+$"
  done
  works "$work/shared" position
}

# What makes sources quick to compile; sanitizers are not what is tested.
quick=(-D CMAKE_CXX_FLAGS=-O0 -D PHASOR_ONE_TARGET=ON)

# headers WITH PROGRAM: a consumer that builds phasor as a part of itself and links phasor::attention finds the headers of
# this program. Only the program is compiled: kernels take minutes.
headers() {
  local object=$2.o
  echo "headers of $2, from the sources with $1:"
  must configure "$source/tests/install" "${quick[@]}" -D PHASOR="$source" -D WITH="$1" -D COMPONENT=attention -D PROGRAM="$2"
  [[ $generator != Ninja ]] || object=CMakeFiles/consumer.dir/$2.cc.o
  must cmake --build "$work/consumer" --target "$object"
}

# warns PATTERN FOLDER OPTION...: configuring without a build type says so.
warns() {
  echo "no build type in $(basename "$2"):"
  must configure "${@:2}" -D CMAKE_BUILD_TYPE=
  grep -E "$1" "$work/log"
}

install "$work/core-only" core
works "$work/core-only" core
fails "$work/core-only" position

install "$work/up-to-attention" core position attention
works "$work/up-to-attention" attention

install "$work/all" core position text attention layers models training
works "$work/all" position
works "$work/all" text
works "$work/all" layers
works "$work/all" models
works "$work/all" training
fails "$work/all" no_such_part
readme "$work/all"
example find_package window 'on the average [4-7]\.' -D phasor_ROOT="$work/all"
pkg_config "$work/all"

shared
example fetch_content frequencies 'pair 63: +5063255\.8 -> +20253023\.2' "${quick[@]}"
warns 'CMAKE_BUILD_TYPE is not set, so nothing is optimised' "$source/examples/cpp/fetch_content" "${quick[@]}"
warns 'CMAKE_BUILD_TYPE is not set, Release is used' "$source" "${quick[@]}" -D PHASOR_BUILD_TESTS=OFF
headers add_subdirectory attention
headers FetchContent layers # which phasor::attention does not link: all headers are there, as after installation
