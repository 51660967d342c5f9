#!/usr/bin/env bash
# tidy.sh BAZEL_BIN SECONDS [file.cc...]: clang-tidy over the files, as many at a
# time as there are cores. A file takes seconds, so it begins none after SECONDS
# and then says how many it left out; exit status 77 where that is all of them.
bin=$1 seconds=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WORK=$work BIN=$bin END=$(($(date +%s) + seconds))
# Arguments: number, file.
one() {
  if [ "$(date +%s)" -ge "$END" ]; then
    echo "$2" >> "$WORK/left"
  elif ! clang-tidy --quiet "$2" -- -std=c++17 -I. -I"$BIN" > "$WORK/$1" 2>"$WORK/$1.err"; then
    { cat "$WORK/$1"; grep 'error:' "$WORK/$1.err"; echo "in $2"; } >> "$WORK/bad"
  fi
}
export -f one
for file in "$@"; do printf '%s\0' "$((++number))" "$file"; done |
  xargs -0 -r -n 2 -P "$(nproc)" bash -c 'one "$@"' _
[ ! -f "$work/bad" ] || { cat "$work/bad"; exit 1; }
[ -f "$work/left" ] || exit 0
left=$(wc -l < "$work/left")
echo "$left of $# files not reached in $seconds s"
[ "$left" -lt $# ] || exit 77
