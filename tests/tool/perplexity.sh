#!/usr/bin/env bash
# perplexity.sh PHASOR FOLDER: models of bytes and of tokens on a text, with caches and scalings; what is refused.
set -euo pipefail
phasor=$1 folder=$2
here=$(dirname "$0")
. "$here/expect.sh"
rm -rf "$folder"
mkdir -p "$folder"
i=0
while test "$i" -lt 60; do echo "line $i of a text"; i=$((i + 1)); done >"$folder/text"
"$phasor" train --text "$folder/text" --length 16 --batch 4 --hidden 16 --heads 2 --layers 1 --steps 5 \
  --out "$folder/run" 2>"$folder/log"
python3 -B "$here/../support/text_model.py" "$folder/model"

perplexity() { "$phasor" perplexity "$@" --text "$folder/text"; }
expect 0 '^ +8 +[0-9]+ .*' '^ +16 +5 +80 ' 'by position' '^15 +' -- perplexity "$folder/run" --length 8,16 --rows 5
for cache in float bf16 f16 int8; do
  expect 0 '^ +16 ' -- perplexity "$folder/run" --length 16 --rows 5 --cache "$cache"
  expect 0 '^ +16 ' -- perplexity "$folder/model" --length 16 --rows 5 --cache "$cache" --precision bf16
done
for scaling in linear ntk dynamic yarn; do
  expect 0 "$scaling rotary.*factor 2" -- perplexity "$folder/model" --length 128 --rope-scaling "$scaling"
done
expect 0 'factor 5' -- perplexity "$folder/model" --length 16 --rope-scaling yarn --factor 5

expect 2 '--factor: given without --rope-scaling' -- perplexity "$folder/model" --factor 2
expect 2 '--cache: int4, expected float, bf16, f16 or int8' -- perplexity "$folder/model" --cache int4
expect 2 '--length: 99999, expected at most what --text has' -- perplexity "$folder/model" --length 99999
rm "$folder/model/tokenizer.json"
expect 2 'model/tokenizer.json: no such file, expected it' -- perplexity "$folder/model"
expect 2 'no_such_folder: no such folder' -- perplexity no_such_folder
expect 2 'no_such_text: cannot be read' -- "$phasor" perplexity "$folder/run" --text no_such_text
