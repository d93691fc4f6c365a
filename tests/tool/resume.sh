#!/bin/sh
# resume.sh PHASOR FOLDER: a training that is killed, and one stopped by Ctrl-C, resumed, give the bytes of one that
# ran through.
set -eu
phasor=$1
folder=$2
rm -rf "$folder"
mkdir -p "$folder"

start() {  # NAME
  "$phasor" train --task induction --symbols 8 --length 16 --batch 4 --hidden 32 --heads 2 --steps 400 --save-every 2 \
    --evaluate-every 50 --dropout 0.1 --out "$folder/$1" 2>"$folder/$1.log"
}

# Waits for a save, so that there is something to resume, then sends the signal.
interrupt() {  # NAME SIGNAL
  start "$1" &
  pid=$!
  while ! test -e "$folder/$1/training.json"; do kill -0 "$pid"; sleep 0.02; done
  # The shell of the function runs the program as its child.
  child=$(cat "/proc/$pid/task/$pid/children")
  kill "-$2" "${child:-$pid}"
  code=0
  wait "$pid" || code=$?
  echo "$1: ended with $code"
  if grep -q 'step 400/400' "$folder/$1.log"; then echo "$1: was done before the signal came"; exit 1; fi
}

start whole
interrupt killed KILL
interrupt stopped INT
grep -q 'phasor train --resume --out' "$folder/stopped.log"
test "$code" -eq 130
for name in killed stopped; do
  "$phasor" train --resume --out "$folder/$name" 2>>"$folder/$name.log"
  for file in model.safetensors training.safetensors training.json config.json; do
    cmp "$folder/whole/$file" "$folder/$name/$file"
  done
done
echo "the same bytes"
