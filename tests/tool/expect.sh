# shellcheck shell=bash
# Sourced by the tests of the command line.
#
# expect CODE [PATTERN...] -- COMMAND...
#
# The command ends with this exit code, and each pattern, an extended regular expression, matches a line of what it
# prints on either stream. A program that a signal ends has a code of 128 or more, so a crash never passes. What it
# printed is then in $output.
expect() {
  local expected=$1 patterns=() pattern code=0
  shift
  while [[ $1 != -- ]]; do
    patterns+=("$1")
    shift
  done
  shift
  output=$("$@" 2>&1) || code=$?
  if [[ $code != "$expected" ]]; then
    printf '%s\nended with code %s, expected %s; it printed:\n%s\n' "$*" "$code" "$expected" "$output"
    exit 1
  fi
  for pattern in "${patterns[@]}"; do
    grep -qE -e "$pattern" <<<"$output" && continue
    printf '%s\nprinted no line with: %s\nbut:\n%s\n' "$*" "$pattern" "$output"
    exit 1
  done
}
