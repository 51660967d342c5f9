// Ops that give one value to all: each operand's result is the same, and may be
// the memory of that operand, for any of them; a weft.ReduceToAll with
// `squares` has one result more. Collectives in place are made of them
// (compiler/collectives/collective.h).
//
//   if (GivesToAll(node.schema())) ..;   // weft.ReduceToAll, weft.CopyToAll
//
// Threading: thread-safe.
#ifndef WEFT_CORE_OPS_TO_ALL_H_
#define WEFT_CORE_OPS_TO_ALL_H_

#include "core/ops/schema.h"

namespace weft {

inline bool GivesToAll(const OpSchema& schema) {
  return schema.id == OpId::kReduceToAll || schema.id == OpId::kCopyToAll;
}

}  // namespace weft

#endif  // WEFT_CORE_OPS_TO_ALL_H_
