#!/bin/sh
# Writes weft_op_ids.h from the registry that core owns (core/ops/op_ids.inc), so
# that the ABI needs no header of core. Usage: make_op_ids.sh op_ids.inc > out.h
set -eu
cat <<'HEAD'
/* Operator ids: generated from core/ops/op_ids.inc, where each is described, by
 * plugins/abi/make_op_ids.sh. A test holds the two equal. */
#ifndef WEFT_PLUGINS_ABI_WEFT_OP_IDS_H_
#define WEFT_PLUGINS_ABI_WEFT_OP_IDS_H_

HEAD
sed -n 's/^WEFT_OP(\([0-9]*\), \([A-Za-z0-9]*\), .*/\1 \2/p' "$1" |
  while read -r id name; do
    upper=$(printf '%s' "$name" | sed 's/\([a-z0-9]\)\([A-Z]\)/\1_\2/g' |
      tr '[:lower:]' '[:upper:]')
    printf '#define WEFT_OP_%s %su\n' "$upper" "$id"
  done
cat <<'TAIL'

#endif /* WEFT_PLUGINS_ABI_WEFT_OP_IDS_H_ */
TAIL
