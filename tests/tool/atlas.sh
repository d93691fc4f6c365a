#!/usr/bin/env bash
# atlas.sh PHASOR FOLDER: the atlas page is written, and refused where it cannot be.
set -euo pipefail
phasor=$1 folder=$2
here=$(dirname "$0")
. "$here/expect.sh"
rm -rf "$folder" && mkdir -p "$folder"

expect 0 -- "$phasor" atlas --output "$folder/atlas.html" --config "$here/../configs/gemma3.json"
grep -q '</html>' "$folder/atlas.html"
expect 2 'phasor: ' "$folder.*not a regular file" -- "$phasor" atlas --output "$folder"
