// Uses of every op, for tests of what holds for all of them: that parts done by
// members of a mesh make what the whole op gives.
//
//   for (const OpUse& use : SignatureUses()) ..
//
// Extents are multiples of 12 where they may be cut, so that 2, 3, and 2 and
// then 2 members can share them.
//
// Threading: thread-safe. For tests only.
#ifndef WEFT_CORE_REFERENCE_SIGNATURE_USES_H_
#define WEFT_CORE_REFERENCE_SIGNATURE_USES_H_

#include <map>
#include <string>
#include <vector>

#include "core/ops/attr.h"

namespace weft {

struct OpUse {
  std::string op;
  AttrMap attrs;
  // "x[12,3]": of the float dtype that is tested; "f32[]" is as it says, "" an
  // absent operand, "i64[2]" the counter.
  std::vector<std::string> inputs;
  int num_outputs = -1;  // < 0: the schema's minimum
  double low = -1, high = 1;
  int integers = 4;  // those of operands are below
};

std::vector<OpUse> SignatureUses();

// Ops that have no use, each with the reason.
std::map<std::string, std::string> OpsWithoutSignatures();

}  // namespace weft

#endif  // WEFT_CORE_REFERENCE_SIGNATURE_USES_H_
