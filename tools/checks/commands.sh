#!/usr/bin/env bash
# Targets that the pages tell the reader to build, run or test exist.
here=$(dirname "${BASH_SOURCE[0]}")
status=0
mapfile -t pages < <("$here/files.sh" '*.md')
while IFS= read -r target; do
  package=${target#//}
  name=${package##*:}
  package=${package%%:*}
  [ "$name" != "$package" ] || name=${package##*/}
  # weft_plugin("x") makes x_plugin.
  grep -qsE "\"($name|${name%_plugin})\"" "${package:-.}/BUILD.bazel" || {
    echo "no target $target"
    status=1
  }
done < <(grep -ohE 'bazelw (run|build|test) [^`]*//[a-zA-Z0-9_/:.-]+' "${pages[@]}" |
  grep -oE '//[a-zA-Z0-9_/:.-]+' | grep -v '\.\.\.' | sort -u)
exit $status
