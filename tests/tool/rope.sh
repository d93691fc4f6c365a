#!/usr/bin/env bash
# rope.sh PHASOR FOLDER: what `phasor rope` prints, and what it refuses.
set -euo pipefail
phasor=$1
here=$(dirname "$0")
. "$here/expect.sh"
config=$here/../configs/gemma3.json

expect 0 'pairs +0-28 kept, 29-34 blended, 35-63 interpolated' -- "$phasor" rope
expect 0 'sliding_attention' '"rope_type": "default"' -- "$phasor" rope --json --length 4097 --config "$config"
expect 0 -- "$phasor" rope --config /dev/stdin < <(cat "$config")

expect 2 'phasor: .*no_such_file.json' -- "$phasor" rope --config no_such_file.json
expect 2 'cannot be read' -- "$phasor" rope --config ''
for length in -4 0 1e400 99999999999999999999; do
  expect 2 "--length: $length, expected .* 1 " -- "$phasor" rope "--length=$length"
done
