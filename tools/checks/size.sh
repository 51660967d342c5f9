#!/usr/bin/env bash
# Size budgets: files of at most 800 lines and functions of at most 100, with
# 400 and 40 as the aim. Exceptions stand in size_exceptions.txt with a reason.
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
status=0
allowed() { grep -qs "^$1[[:space:]]" tools/checks/size_exceptions.txt; }
while IFS= read -r file; do
  lines=$(wc -l <"$file")
  if [ "$lines" -gt 800 ] && ! allowed "$file"; then
    echo "$file has $lines lines, at most 800"
    status=1
  fi
done < <(git ls-files -- '*.cc' '*.h' '*.hpp' '*.proto' '*.sh' '*.py' '*.bzl')
# In the Google style a function that starts in column 0 ends with "}" there.
while IFS= read -r file; do
  allowed "$file" && continue
  awk -v file="$file" '
    /^[A-Za-z].*\) (const )?(override )?\{$/ || /^    .*\) (const )?\{$/ && !start { start = NR; name = $0 }
    /^}/ { if (start && NR - start > 100 && name !~ /^namespace/) {
             printf "%s:%d: %d lines: %s\n", file, start, NR - start, name; bad = 1 }
           start = 0 }
    END { exit bad }' "$file" || status=1
done < <(git ls-files -- '*.cc')
exit $status
