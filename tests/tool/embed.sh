#!/usr/bin/env bash
# embed.sh PHASOR FOLDER: vectors of lines as JSON and as a NumPy file; pooling; what is refused.
set -euo pipefail
phasor=$1 folder=$2
here=$(dirname "$0")
. "$here/expect.sh"
rm -rf "$folder"
mkdir -p "$folder"
python3 -B "$here/../support/embed_model.py" "$folder/model"
python3 -B "$here/../support/text_model.py" "$folder/causal"
printf 'the fox\n\na dog and a fox\r\nfox' >"$folder/text"

embed() { "$phasor" embed "$folder/model" "$@"; }
number='-?[0-9.]+(e-[0-9]+)?'
expect 0 "^\[$number(, $number){15}\]$" -- embed --text "$folder/text"
embed <"$folder/text" >"$folder/read"
test "$(wc -l <"$folder/read")" -eq 4
diff "$folder/read" <(echo "$output")
embed --text "$folder/text" --batch 1 --precision float --output "$folder/x.npy"
python3 -B "$here/embed.py" "$folder/read" "$folder/x.npy" # equal, and of length 1
embed --text "$folder/text" --pooling cls --no-normalize >"$folder/cls"
if cmp -s "$folder/read" "$folder/cls"; then echo "another pooling wrote the same"; exit 1; fi
embed </dev/null >"$folder/nothing"
test ! -s "$folder/nothing"

expect 2 '--pooling: max, expected mean or cls' -- embed --pooling max
expect 2 '--output: x.txt, expected a name in .npy' -- embed --output x.txt
expect 2 '--batch: 0, expected a whole number from 1' -- embed --batch 0
expect 2 'no_such_text: cannot be read' -- embed --text no_such_text
expect 2 'no_such_folder: no such folder' -- "$phasor" embed no_such_folder
expect 2 'pooling: none for a causal model' -- "$phasor" embed "$folder/causal" --text "$folder/text"
echo '[{"type": "x.Transformer", "path": ""}, {"type": "x.Dense", "path": "1_Dense"}]' >"$folder/model/modules.json"
expect 2 'modules.json: modules Transformer, Dense, expected Transformer, Pooling' -- embed --text "$folder/text"
rm "$folder/model/tokenizer.json" "$folder/model/modules.json"
expect 2 'tokenizer.json' -- embed --text "$folder/text"
mkdir "$folder/trained"
touch "$folder/trained/training.json"
expect 2 'trained: written by phasor train, expected an encoder' -- "$phasor" embed "$folder/trained"
