#!/bin/sh
# compare_refused.sh PHASOR FOLDER: a comparison that cannot be done is refused before it trains or writes anything.
set -eu
phasor=$1
folder=$2
rm -rf "$folder"
mkdir -p "$folder"
printf 'a short text' >"$folder/short.txt"

refused() {  # TEXT OPTION...
  text=$1
  shift
  code=0
  "$phasor" compare --length 16 --layers 1 --steps 5 --out "$folder/out" "$@" >"$folder/log" 2>&1 || code=$?
  if ! test "$code" -eq 2 || ! grep -q -e "$text" "$folder/log" || test -e "$folder/out"; then
    echo "$* ended with $code, expected: $text, and no folder"
    cat "$folder/log"
    exit 1
  fi
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
refused '--batch: 0, expected 1 or more' --batch 0
refused 'short.txt' --text "$folder/short.txt"
"$phasor" compare --budget-seconds inf --out "$folder/out" >"$folder/log" 2>&1 && exit 1
grep -q -e '--budget-seconds: inf, expected more than 0 and finite' "$folder/log"
test ! -e "$folder/out"
echo "as expected"
