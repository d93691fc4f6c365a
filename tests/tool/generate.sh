#!/usr/bin/env bash
# generate.sh PHASOR FOLDER: tokens from a model trained here, and from one of Hugging Face's format.
set -euo pipefail
phasor=$1 folder=$2
here=$(dirname "$0")
. "$here/expect.sh"
. "$here/small_training.sh"
rm -rf "$folder"
small_training "$phasor" "$folder" 2>&1

expect 0 '^[0-9]+ [0-9]+ [0-9]+ [0-9]+$' -- "$phasor" generate "$folder" --tokens 1,2,3 --max-tokens 4
expect 0 '^[0-9]+ [0-9]+ [0-9]+$' -- \
  "$phasor" generate "$here/../golden/pretrained/llama" --tokens 5,6 --max-tokens 3
for precision in storage float bf16; do
  expect 0 '^[0-9]+ [0-9]+ [0-9]+$' -- "$phasor" generate "$folder" --tokens 1,2 --max-tokens 3 --precision "$precision"
  expect 0 '^[0-9]+ [0-9]+$' -- \
    "$phasor" generate "$here/../golden/pretrained/llama" --tokens 5,6 --max-tokens 2 --precision "$precision"
done
expect 2 '--precision: half, expected storage, float or bf16' -- \
  "$phasor" generate "$folder" --tokens 1,2 --precision half
expect 2 'prompt: none, expected --prompt or --tokens' -- "$phasor" generate "$folder"
