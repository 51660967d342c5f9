#!/usr/bin/env bash
# Every row of the error table has a page docs/errors/WEFT-nnnn.md with its
# title, and every page a row.
status=0
while IFS=$'\t' read -r number title; do
  page=docs/errors/WEFT-$number.md
  if [ ! -f "$page" ]; then
    echo "$page is missing"
    status=1
  elif ! head -1 "$page" | grep -qF "$title"; then
    echo "$page does not start with '# WEFT-$number: $title'"
    status=1
  fi
done < <(sed -n 's/^WEFT_ERROR(\([0-9]*\), .*"\(.*\)")$/\1\t\2/p' core/base/error_table.inc)
for page in docs/errors/WEFT-*.md; do
  number=$(basename "$page" .md)
  grep -q "^WEFT_ERROR(${number#WEFT-}," core/base/error_table.inc ||
    { echo "$page has no row in core/base/error_table.inc"; status=1; }
done
exit $status
