#!/usr/bin/env bash
# other_commands.sh PHASOR FOLDER: the list of encodings, no command, and an output that takes nothing.
set -euo pipefail
phasor=$1
. "$(dirname "$0")/expect.sh"

expect 0 '^  alibi$' '^RoPE types' '^  proportional$' -- "$phasor" encodings
expect 0 '^[0-9]+\.[0-9]+\.[0-9]+$' -- "$phasor" --version
expect 2 -- "$phasor"
to_full_disk() { "$phasor" encodings >/dev/full; }
expect 2 'standard output cannot be written' -- to_full_disk
