#!/usr/bin/env bash
# eval.sh PHASOR FOLDER: a trained model on longer rows and under each RoPE scaling, and what cannot be evaluated.
set -euo pipefail
phasor=$1 folder=$2
here=$(dirname "$0")
. "$here/expect.sh"
. "$here/small_training.sh"
rm -rf "$folder"
small_training "$phasor" "$folder" 2>&1

expect 0 'rows without a mistake' 'positions' -- "$phasor" eval "$folder" --length 32 --rows 8
for scaling in linear ntk dynamic yarn; do
  expect 0 "$scaling rotary.*factor 2" 'rows of 32' -- \
    "$phasor" eval "$folder" --length 32 --rows 8 --rope-scaling "$scaling"
done

expect 2 'factor: nan, expected more than 0 and finite' -- "$phasor" eval "$folder" --rope-scaling yarn --factor nan
expect 2 'phasor: .*spiral.*yarn' -- "$phasor" eval "$folder" --rope-scaling spiral
expect 2 '10 different tokens, expected at most the model.s 9' -- "$phasor" eval "$folder" --rows 8 --symbols 9
expect 2 'expected at least 101 for task ago' -- "$phasor" eval "$folder" --rows 8 --task ago --distance 100
expect 2 'phasor: .*no_such_folder' -- "$phasor" eval no_such_folder
