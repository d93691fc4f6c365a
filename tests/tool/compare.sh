#!/bin/sh
# compare.sh PHASOR FOLDER: a small comparison, interrupted, resumed without repeating, and refused with other settings.
set -eu
phasor=$1
folder=$2
rm -rf "$folder"

compare() {  # SEEDS ENCODINGS FOLDER
  "$phasor" compare --task copy --symbols 8 --length 16 --batch 4 --hidden 32 --heads 2 --steps 20 --seeds "$1" \
    --eval-lengths 16,32 --encodings "$2" --out "$3"
}
encodings=rope,learned,rope+yarn,w2-alibi

compare 2 $encodings "$folder" >"$folder.out" 2>"$folder.log" || { cat "$folder.log"; exit 1; }
grep -q 'learned at 32: not possible, its table ends at position 15' "$folder.out"
grep -q 'rope+yarn: the model trained as rope' "$folder.out"
grep -q 'report.html' "$folder.out"
test -s "$folder/report.html"
test "$(find "$folder/trials" -name '*.json' -path '*/trials/*seed?-rate0.003.json' | wc -l)" -eq 6

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

# Stopped by Ctrl-C in the middle of its second training, and resumed, it finds the same.
scores() {  # FOLDER
  python3 -c '
import json, sys
for e in json.load(open(sys.argv[1] + "/results.json"))["encodings"]:
    print(e["name"], e["scores"], e.get("runs"), e.get("by_position"))' "$1"
}
long() {  # FOLDER
  exec "$phasor" compare --task copy --symbols 8 --length 16 --batch 4 --hidden 32 --heads 2 --steps 400 \
    --eval-lengths 16 --encodings rope,alibi --out "$1"
}
rm -rf "$folder-whole" "$folder-stopped"
(long "$folder-whole") >"$folder.out" 2>"$folder.log"
(long "$folder-stopped") >"$folder.out" 2>"$folder.log" &
pid=$!
while ! test -e "$folder-stopped/trials/alibi-seed1-rate0.003/training.json"; do kill -0 "$pid"; sleep 0.02; done
kill -INT "$pid"
code=0
wait "$pid" || code=$?
test "$code" -eq 130 || { echo "interrupted, it ended with $code"; cat "$folder.log"; exit 1; }
grep -q 'stopped and saved' "$folder.log"
test ! -e "$folder-stopped/results.json"
(long "$folder-stopped") >"$folder.out" 2>"$folder.log"
if grep 'rope-seed1.*step ' "$folder.log"; then echo "what was done was trained again"; exit 1; fi
if grep 'alibi-seed1.* step 40/' "$folder.log"; then echo "it began anew"; exit 1; fi
scores "$folder-whole" >"$folder.whole"
scores "$folder-stopped" >"$folder.stopped"
cmp "$folder.whole" "$folder.stopped"

code=0
compare 3 $encodings "$folder" 2>"$folder.log" || code=$?
test "$code" -eq 2
grep -q 'has a comparison with seeds 1,2, expected 1,2,3' "$folder.log" || { cat "$folder.log"; exit 1; }
code=0
compare 2 rope,spiral "$folder-other" 2>"$folder.log" || code=$?
test "$code" -eq 2
grep -q 'spiral' "$folder.log"
echo "as expected"
