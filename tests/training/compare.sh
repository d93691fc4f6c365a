#!/bin/sh
# compare.sh PHASOR FOLDER: a small comparison, interrupted, resumed without repeating, and refused with other settings.
set -eu
phasor=$1
folder=$2
rm -rf "$folder"

compare() {  # SEEDS ENCODINGS FOLDER
  "$phasor" compare --task copy --symbols 8 --length 16 --batch 4 --hidden 32 --heads 2 --steps 20 --seeds "$1" \
    --encodings "$2" --out "$3"
}
encodings=rope,learned,rope+yarn,w2-alibi

compare 2 $encodings "$folder" >"$folder.out" 2>"$folder.log" || { cat "$folder.log"; exit 1; }
grep -q 'learned at 32, 64, 128: not possible, its table ends at position 15' "$folder.out"
grep -q 'rope+yarn: the model trained as rope' "$folder.out"
grep -q 'report.html' "$folder.out"
test -s "$folder/report.html"
test "$(ls "$folder"/trials/*.json | wc -l)" -eq 6

# A lost result is found again from its model; nothing is trained, and scores are the same.
cp "$folder/trials/rope-seed2-rate0.003.json" "$folder/before.json"
rm "$folder/trials/rope-seed2-rate0.003.json" "$folder/results.json"
compare 2 $encodings "$folder" >"$folder.out" 2>"$folder.log"
if grep 'step ' "$folder.log"; then echo "something was trained again"; exit 1; fi
python3 - "$folder/before.json" "$folder/trials/rope-seed2-rate0.003.json" <<'PYTHON'
import json, sys
before, after = [json.load(open(path))["encodings"] for path in sys.argv[1:]]
assert [e["scores"] for e in before] == [e["scores"] for e in after]
assert [e.get("runs") for e in before] == [e.get("runs") for e in after]
PYTHON

code=0
compare 3 $encodings "$folder" 2>"$folder.log" || code=$?
test "$code" -eq 2
grep -q 'has a comparison with seeds 1,2, expected 1,2,3' "$folder.log" || { cat "$folder.log"; exit 1; }
code=0
compare 2 rope,spiral "$folder-other" 2>"$folder.log" || code=$?
test "$code" -eq 2
grep -q 'spiral' "$folder.log"
echo "as expected"
