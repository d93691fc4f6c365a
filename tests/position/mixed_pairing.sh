#!/usr/bin/env bash
# mixed_pairing.sh INCLUDE COMPILER...: the right pairing compiles, the wrong one does not, and for the right reason.
set -euo pipefail
here=$(dirname "$0")
include=$1 compiler=("${@:2}")
. "$here/../tool/expect.sh"

compile() {  # MIX_PAIRINGS
  "${compiler[@]}" -std=c++20 -fsyntax-only -DMIX_PAIRINGS="$1" -I"$include/core" -I"$include/position" "$here/mixed_pairing.cc"
}
expect 0 -- compile 0
expect 1 'AdjacentTable|RotaryTable<phasor::Pairing::half>' -- compile 1
