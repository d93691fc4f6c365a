#!/usr/bin/env bash
# train_out.sh PHASOR FOLDER: a folder that cannot be saved in, or has somebody's model, is refused before training.
set -euo pipefail
phasor=$1 folder=$2
. "$(dirname "$0")/expect.sh"
rm -rf "$folder"
mkdir -p "$folder"

train() {  # OUT
  "$phasor" train --task copy --symbols 8 --length 16 --batch 4 --hidden 16 --heads 2 --layers 1 --steps 4 --out "$1"
}

refused() {  # OUT TEXT
  expect 2 "$2" -- train "$1"
  [[ $output != *'step '* ]] || { echo "trained before it refused: $output"; exit 1; }
}

mkdir -p "$folder/foreign" "$folder/shards" "$folder/parent/child"
echo '{"model_type": "llama"}' >"$folder/foreign/config.json"
touch "$folder/shards/model.safetensors.index.json" "$folder/file"
refused "$folder/foreign" 'has a model in it \(config.json\), expected a folder without one'
test "$(cat "$folder/foreign/config.json")" = '{"model_type": "llama"}'
refused "$folder/shards" 'has a model in it \(model.safetensors.index.json\)'
refused '' '--out: "", expected the name of a folder'
refused "$folder/file" 'is there and not a folder'
refused "$folder/parent" 'has the folder child in it'
refused "$folder/none/run" 'cannot be written \(No such file or directory\)'

# What a save that was killed between its two steps has put aside is a training, and a model.
train "$folder/run" 2>"$folder/log"
mv "$folder/run" "$folder/.run.previous"
refused "$folder/run" 'has a training in it'
"$phasor" generate "$folder/run" --tokens 1 --max-tokens 2 >"$folder/log"
test -z "$(find "$folder" -name '.*.new-*')"
echo "as expected"
