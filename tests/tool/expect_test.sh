#!/usr/bin/env bash
# expect_test.sh: expect itself. What must fail, fails: a wrong code, a missing word, a crash after the right words.
set -euo pipefail
. "$(dirname "$0")/expect.sh"

# fails REASON ARGUMENT...: expect with these arguments fails and says why.
fails() {
  local said
  if said=$(expect "${@:2}"); then
    echo "passed, expected a failure: expect ${*:2}"
    exit 1
  fi
  [[ $said == *"$1"* ]] || { echo "expect ${*:2} said: $said, expected: $1"; exit 1; }
}

says() { echo "$2" && return "$1"; }
crashes() { bash -c 'echo done; kill -SEGV $$'; }

expect 0 -- true
expect 2 'length: -4' 'expected 1' -- says 2 'length: -4, expected 1 or more'
expect 139 'done' -- crashes
fails 'code 1, expected 0' 0 -- false
fails 'code 0, expected 2' 2 'right words' -- says 0 'right words'
fails 'no line with: width' 2 'length' 'width' -- says 2 'length: -4'
fails 'code 139, expected 0' 0 'done' -- crashes
fails 'code 139, expected 2' 2 'done' -- crashes
