#!/usr/bin/env bash
# compare_refused.sh PHASOR FOLDER: a comparison that cannot be done is refused before it trains or writes anything.
set -euo pipefail
phasor=$1 folder=$2
. "$(dirname "$0")/expect.sh"
rm -rf "$folder"
mkdir -p "$folder"
printf 'a short text' >"$folder/short.txt"

refused() {  # TEXT OPTION...
  expect 2 "$1" -- "$phasor" compare --length 16 --layers 1 --out "$folder/out" "${@:2}"
  [[ ! -e $folder/out ]] || { echo "${*:2} was refused, but wrote $folder/out"; exit 1; }
}

refused 'rows of 1 tokens, expected at least 2 for task copy' --task copy --eval-lengths 16,1
refused 'rows of 4 tokens, expected at least 5 for task ago' --task ago --eval-lengths 16,4
refused 'spiral' --encodings rope,rope+spiral
refused 'longrope' --encodings rope,rope+longrope
refused '--eval-lengths: 16 twice, expected it once' --eval-lengths 16,16
refused '--learning-rates: 0.003 twice, expected it once' --learning-rates 0.003,0.0030000001
refused '--encodings: rope twice, expected it once' --encodings rope,rope
refused 'bidirectional' --task copy --bidirectional
refused 'head_dim' --hidden 18 --heads 2 --encodings none,rope
refused '--batch: 0, expected 1 to' --batch 0
refused 'short.txt' --text "$folder/short.txt"
refused '--budget-seconds: inf, expected more than 0 and finite' --budget-seconds inf
echo "as expected"
