#!/usr/bin/env bash
# Relative links of the documentation lead to files that exist, and paths that a
# header or page names in backquotes or after "see" exist.
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
status=0
while IFS= read -r page; do
  dir=$(dirname "$page")
  while IFS= read -r link; do
    case "$link" in http:* | https:* | '#'* | mailto:*) continue ;; esac
    target=$dir/${link%%#*}
    [ -e "$target" ] || { echo "$page: no $link"; status=1; }
  done < <(grep -oE '\]\([^) ]+\)' "$page" | sed 's/^](//; s/)$//')
done < <(git ls-files -- '*.md')
exit $status
