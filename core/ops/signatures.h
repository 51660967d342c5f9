// Signatures: the legal ways to do one use of an op on the members of a mesh
// axis, and what each member then does.
//
//   for (const OpSignature& s : SignaturesOf(graph.View(*matmul), 4)) ..
//   // B, B -> B    S(0), B -> S(0)    B, S(1) -> S(1)    S(1), S(0) -> P(sum)
//   WEFT_ASSIGN_OR_RETURN(AttrMap mine, LocalAttrs(view, s, 4, /*index=*/2));
//
// Schemas list them for one axis (OpSchema::signatures). On several axes, each
// takes its own, one after the other: the op that the first axis leaves, with
// the parts as its operands and the local attributes, is what the second cuts.
//
// What each kind of op has: docs/signatures.md.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_OPS_SIGNATURES_H_
#define WEFT_CORE_OPS_SIGNATURES_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/mesh/sbp.h"
#include "core/ops/schema.h"

namespace weft {

// B of all first, then those that the schema lists and `parts` members can do:
// every split divides, and inference of a member's op gives the parts of the
// results. Each once. Splits that are legal for any number of groups come with
// one group, and with each of `groups`: those that neighbours have.
// Pre-condition: `op` has its outputs.
std::vector<OpSignature> SignaturesOf(const OpView& op, int parts,
                                      absl::Span<const int> groups = {});

// Types of operands or results become those of one member's parts.
// kShapeMismatch as of PartShape; `types` is then unspecified. Pre-condition:
// one sbp for each.
absl::Status TakeParts(absl::Span<const Sbp> sbp, int parts,
                       std::vector<TensorType>* types);

// Attributes of the op that member `index` does on its parts. Pre-condition:
// `signature` is one of SignaturesOf(op, parts, ..).
absl::StatusOr<AttrMap> LocalAttrs(const OpView& op,
                                   const OpSignature& signature, int parts,
                                   int index);

}  // namespace weft

#endif  // WEFT_CORE_OPS_SIGNATURES_H_
