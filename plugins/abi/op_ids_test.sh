#!/bin/sh
# The header of operator ids is what the registry of core says.
# Usage: op_ids_test.sh make_op_ids.sh op_ids.inc weft_op_ids.h
set -eu
sh "$1" "$2" > "$TEST_TMPDIR/expected.h"
grep -q WEFT_OP_MAT_MUL "$TEST_TMPDIR/expected.h" || {
  echo "the generator found no operator"
  exit 1
}
diff -u "$TEST_TMPDIR/expected.h" "$3" || {
  echo "run: sh $1 $2 > $3"
  exit 1
}
