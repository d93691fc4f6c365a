#!/usr/bin/env bash
# train.sh PHASOR FOLDER: a training says what it did; a second one in its folder, and sizes nobody has, are refused.
set -euo pipefail
phasor=$1 folder=$2
here=$(dirname "$0")
. "$here/expect.sh"
. "$here/small_training.sh"
rm -rf "$folder"

expect 0 '3 steps, training loss' 'validation loss' -- small_training "$phasor" "$folder"
expect 2 '--out: .*has a training in it, expected --resume' -- "$phasor" train --task copy --out "$folder"
expect 2 '--steps: given with --resume, expected only --out' -- "$phasor" train --resume --steps 9 --out "$folder"

# refused NAME VALUE OPTION...: the message has the setting's name and value, and nothing is written.
refused() {
  expect 2 "$1.*: $2.*, expected " -- "$phasor" train --task copy --out "$folder-refused" "${@:3}"
  [[ ! -e $folder-refused ]]
}
refused '--hidden' 0 --hidden 0
refused 'layers' 9223372036854775807 --layers 9223372036854775807
refused 'batch' 1000000000000 --batch 1000000000000
