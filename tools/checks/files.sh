#!/usr/bin/env bash
# files.sh PATTERN...: the files below this folder whose path ends with one of the
# patterns ("*.cc"), one a line: what git tracks or would track, or every file
# where there is no repository (a source archive, the test of the checks).
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  git ls-files --cached --others --exclude-standard -- "$@" | sort -u |
    while IFS= read -r file; do
      [ ! -f "$file" ] || printf '%s\n' "$file"
    done
else
  for pattern in "$@"; do
    find . -type f -path "*$pattern" -not -path './bazel-*' -printf '%P\n'
  done | sort -u
fi
