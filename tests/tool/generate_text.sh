#!/usr/bin/env bash
# generate_text.sh PHASOR FOLDER: text after a prompt, drawn at random; and a text that changed before --resume.
set -euo pipefail
phasor=$1 folder=$2
. "$(dirname "$0")/expect.sh"
rm -rf "$folder"
mkdir -p "$folder"
i=0
while test "$i" -lt 60; do echo "line $i of a text"; i=$((i + 1)); done >"$folder/text"
"$phasor" train --text "$folder/text" --length 16 --batch 4 --hidden 16 --heads 2 --layers 1 --steps 5 \
  --out "$folder/run" 2>"$folder/log"

write() {  # SEED
  "$phasor" generate "$folder/run" --prompt 'line ' --temperature 1 --top-k 50 --top-p 0.95 --max-tokens 20 --seed "$1"
}
write 1 >"$folder/one"
write 1 >"$folder/same"
write 2 >"$folder/two"
cmp "$folder/one" "$folder/same"
if cmp -s "$folder/one" "$folder/two"; then echo "another seed wrote the same"; exit 1; fi
test "$(head -c 5 "$folder/one")" = 'line '
test "$(wc -c <"$folder/one")" -eq 26 # the prompt, the new tokens, the end of the line

# A prompt that is read once: the same text with the file and without it, for the same prompt and for a longer one.
for prompt in 'line 1 of' 'line 1 of' 'line 1 of a'; do
  "$phasor" generate "$folder/run" --prompt "$prompt" --max-tokens 4 --prompt-cache "$folder/cache" >"$folder/one"
  "$phasor" generate "$folder/run" --prompt "$prompt" --max-tokens 4 >"$folder/two"
  cmp "$folder/one" "$folder/two"
done
expect 2 'of a cache that stores keys otherwise' -- \
  "$phasor" generate "$folder/run" --prompt 'line' --max-tokens 4 --cache bf16 --prompt-cache "$folder/cache"

expect 2 '--top-p: 3, expected above 0 and at most 1' -- "$phasor" generate "$folder/run" --prompt 'line ' --top-p 3
[[ $output != 'line '* ]] || { echo "the prompt was printed before the option was refused"; exit 1; }

echo more >>"$folder/text"
expect 2 'bytes that the training began with' -- "$phasor" train --resume --out "$folder/run"
echo "as expected"
