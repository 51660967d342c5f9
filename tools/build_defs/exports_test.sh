#!/bin/sh
# A plugin exports its one symbol and carries no code of core: a private copy of
# core would have globals of its own. Usage: exports_test.sh FILE.so
set -eu
so=$1
exported=$(nm -D --defined-only "$so" | awk '{print $3}')
if [ "$exported" != weft_plugin_query ]; then
  echo "$so exports: $exported"
  exit 1
fi
if nm -C "$so" | grep -E ' (weft::|google::protobuf::|fLB::)' | grep -v ' U '; then
  echo "$so contains code of core or of protobuf"
  exit 1
fi
# Hardened, and of no path of its own.
readelf -dW "$so" > "$TEST_TMPDIR/dynamic"
grep -q 'BIND_NOW\|FLAGS.*NOW' "$TEST_TMPDIR/dynamic" || {
  echo "$so: not linked with -z now"
  exit 1
}
if grep -E 'TEXTREL' "$TEST_TMPDIR/dynamic"; then
  echo "$so: has text relocations"
  exit 1
fi
if readelf -lW "$so" | grep -E 'GNU_STACK.*E'; then
  echo "$so: executable stack"
  exit 1
fi
readelf -nW "$so" | grep -q WEFT || {
  echo "$so: no note"
  exit 1
}
