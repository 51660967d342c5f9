#!/usr/bin/env bash
# compile_headers.sh CXX BAZEL_BIN header...: each header, included first and
# alone, compiles. C headers of the plugin ABI compile as C11 as well.
cxx=$1 bin=$2
shift 2
status=0
for header in "$@"; do
  "$cxx" -std=c++17 -fsyntax-only -I. -I"$bin" -x c++ - <<<"#include \"$header\"" ||
    { echo "$header does not compile alone"; status=1; }
  case "$header" in
    plugins/abi/*.h)
      # With a declaration behind it: C knows no empty translation unit.
      gcc -std=c11 -Wall -Wextra -pedantic -Werror -fsyntax-only -I. -x c - \
        < <(printf '#include "%s"\nextern int weft_declared;\n' "$header") ||
        { echo "$header is not C11"; status=1; }
      ;;
  esac
done
exit $status
