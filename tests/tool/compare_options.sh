#!/usr/bin/env bash
# compare_options.sh PHASOR FOLDER: a text, a budget, two rates, both directions, a rate that diverges; and the report
# of encodings that were added later.
set -euo pipefail
phasor=$1 folder=$2
. "$(dirname "$0")/expect.sh"
rm -rf "$folder"
mkdir -p "$folder"
i=0
while test "$i" -lt 60; do echo "line $i of a text"; i=$((i + 1)); done >"$folder/a text.txt"

compare() {  # NAME OPTION...
  name=$1
  shift
  "$phasor" compare --length 16 --batch 4 --hidden 16 --heads 2 --layers 1 --eval-lengths 16,32 \
    --out "$folder/$name" "$@" >"$folder/$name.out" 2>"$folder/$name.log" || { cat "$folder/$name.log"; exit 1; }
}
contains() {  # TEXT FILE
  grep -q -e "$1" "$folder/$2" || { echo "$2 has no: $1"; cut -c 1-2000 "$folder/$2"; exit 1; }
}

compare text --text "$folder/a text.txt" --encodings rope --budget-seconds 0.5 --learning-rates 0.001,0.003
contains 'loss at 16' text.out
contains '0.5 s for all trainings' text/report.html
contains '"␣"' text/results.json
test "$(find "$folder/text/trials" -name '*.json' -path '*trials/rope*rate*.json' ! -path '*rate*/*' | wc -l)" -eq 2

compare both --task ago --symbols 8 --bidirectional --steps 5 --encodings none
compare both --task ago --symbols 8 --bidirectional --steps 5 --encodings none,alibi
contains 'encodings none,alibi' both/report.html
if grep -q 'Lines that end early' "$folder/both/report.html"; then echo "all learn the same steps"; exit 1; fi

compare diverged --task recall --symbols 8 --steps 5 --encodings rope,alibi --learning-rates 1e25
contains 'rope at 16, 32: not possible, training diverged after step' diverged.out
contains 'alibi at 16, 32: not possible, training diverged' diverged.out
contains '"chance":0.25' diverged/results.json

# The command of the report can be pasted, also with a blank in a name.
pasted=$(python3 - "$folder/text/results.json" <<'PYTHON'
import json, shlex, sys
print(shlex.split(json.load(open(sys.argv[1]))["settings"]["command"])[3])
PYTHON
)
test "$pasted" = "$folder/a text.txt"

# A text that changed is another task.
echo more >>"$folder/a text.txt"
expect 2 'has a comparison with task' -- "$phasor" compare --length 16 --batch 4 --hidden 16 --heads 2 --layers 1 \
  --eval-lengths 16,32 --out "$folder/text" --text "$folder/a text.txt" --encodings rope --budget-seconds 0.5 \
  --learning-rates 0.001,0.003
echo "as expected"
