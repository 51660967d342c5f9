// Sbp: how a logical value lies on the members of one mesh axis. NdSbp: on all
// axes of a mesh, one Sbp for each.
//
//   B        each member has the whole value
//   S(d)     each has one part of dimension d, in the order of the axis
//   S(d,g)   dimension d is g groups of equal size; each member has its part of
//            every group: of a projection to [q | k | v] that is split by
//            heads, S(1,3). S(d) is S(d,1).
//   P(op)    each has a value of the whole shape, and the reduction over the
//            members is the value; op is sum, prod, max or min
//   M        each has the values of its own micro-batches (axis "data"): the
//            whole value of the micro-batch that the member is at
//
//   NdSbp sbp = {Sbp::Broadcast(), Sbp::Split(1)};
//   ToString(sbp);                              // "(B, S(1))"
//   LocalShape(Shape({8, 12}), sbp, mesh);      // on data=2 x model=4: [8,3]
//
// Axes apply in their order: with (S(0), S(0)) the first axis cuts the value,
// the second each of its parts. A member's part of a split is of the same size
// as all others'.
//
// Threading: value types and free functions.
#ifndef WEFT_CORE_MESH_SBP_H_
#define WEFT_CORE_MESH_SBP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/mesh/mesh.h"
#include "core/types/literal.h"
#include "core/types/reduce_op.h"
#include "core/types/shape.h"

namespace weft {

struct Sbp {
  enum class Kind : uint8_t { kBroadcast, kSplit, kPartial, kMicro };

  Kind kind = Kind::kBroadcast;
  int dim = 0;                   // kSplit
  int groups = 1;                // kSplit
  ReduceOp op = ReduceOp::kSum;  // kPartial

  static Sbp Broadcast() { return {}; }
  static Sbp Split(int dim, int groups = 1) {
    return {Kind::kSplit, dim, groups, ReduceOp::kSum};
  }
  static Sbp Partial(ReduceOp op = ReduceOp::kSum) {
    return {Kind::kPartial, 0, 1, op};
  }
  static Sbp Micro() { return {Kind::kMicro, 0, 1, ReduceOp::kSum}; }

  bool is_broadcast() const { return kind == Kind::kBroadcast; }
  bool is_split() const { return kind == Kind::kSplit; }
  bool is_partial() const { return kind == Kind::kPartial; }
  bool is_micro() const { return kind == Kind::kMicro; }

  friend bool operator==(Sbp a, Sbp b) {
    return a.kind == b.kind && a.dim == b.dim && a.groups == b.groups &&
           a.op == b.op;
  }
  friend bool operator!=(Sbp a, Sbp b) { return !(a == b); }
  // Any order, for maps.
  friend bool operator<(Sbp a, Sbp b) {
    if (a.kind != b.kind) return a.kind < b.kind;
    if (a.dim != b.dim) return a.dim < b.dim;
    if (a.groups != b.groups) return a.groups < b.groups;
    return a.op < b.op;
  }
};

using NdSbp = std::vector<Sbp>;

// One way to do an op on the members of an axis, each with what the operands'
// sbp give it: its results are then what the results' sbp say.
struct OpSignature {
  std::vector<Sbp> inputs;  // by operand; B where one is absent
  std::vector<Sbp> outputs;

  friend bool operator==(const OpSignature& a, const OpSignature& b) {
    return a.inputs == b.inputs && a.outputs == b.outputs;
  }
};

std::string ToString(Sbp sbp);           // "S(1,3)"
std::string ToString(const NdSbp& sbp);  // "(B, S(1,3))"; of one axis "S(1,3)"
std::string ToString(const OpSignature& signature);  // "S(0), B -> S(0)"

// The reverse. kBadValue names the text.
absl::StatusOr<Sbp> ParseSbp(absl::string_view text);

// The shape of a part of `whole` on an axis of `parts` members. kShapeMismatch,
// naming both numbers, for a dimension that there is not, and one that `parts`
// times the groups do not divide.
absl::StatusOr<Shape> PartShape(const Shape& whole, Sbp sbp, int parts);

// The shape that each member has; errors as above. Pre-condition: one sbp for
// each axis.
absl::StatusOr<Shape> LocalShape(const Shape& whole, const NdSbp& sbp,
                                 const Mesh& mesh);

// Part `index` of `parts`. B and M: `whole` itself. P: `whole` in part 0 and
// the op's neutral element in the others. Pre-condition: PartShape is ok.
Literal PartOf(const Literal& whole, Sbp sbp, int parts, int index);

// The reverse, of one part for each member of an axis. B and M: part 0.
// Pre-condition: parts of one type.
Literal JoinParts(const std::vector<Literal>& parts, Sbp sbp);

// What `member` has of `whole`, and the reverse of all members'.
Literal LocalPart(const Literal& whole, const NdSbp& sbp, const Mesh& mesh,
                  int member);
Literal WholeOf(const std::vector<Literal>& locals, const NdSbp& sbp,
                const Mesh& mesh);

}  // namespace weft

#endif  // WEFT_CORE_MESH_SBP_H_
