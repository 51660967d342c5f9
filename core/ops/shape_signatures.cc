// Ops that give all elements another shape or order. Whatever a value is the
// reduction of, it still is when its elements have moved.
//
// A reshape is cut where the elements before a dimension are as many on both
// sides: [b, t, 3 w] -> [b t, 3 w] falls apart into (b, t | b t) and (3 w | 3
// w). Within such a piece
//
//   the leading dimensions  split alike:      S(0) -> S(0)
//   one dimension of the one side, the k-th of several of the other: the
//   positions of those before the k-th are groups: S(1) -> S(0, b).
#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/base/status_macros.h"
#include "core/ops/expr.h"
#include "core/ops/family_signatures.h"
#include "core/ops/infer.h"
#include "core/ops/signature_rules.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;

// Dimensions [begin, end) of one side of a piece.
struct Run {
  int begin = 0, end = 0;
  bool single() const { return end == begin + 1; }
};

// The next dimension from `d` that is not 1; the rank where there is none.
int SkipOnes(const Shape& shape, int d) {
  while (d < shape.rank() && shape.dim(d) == 1) ++d;
  return d;
}

// `one` is the only dimension of its side.
void SplitInner(const Shape& several, Run run, int one, bool one_is_operand,
                SignatureList* list) {
  int64_t before = 1;
  for (int d = run.begin; d < run.end; ++d) {
    if (d > run.begin && several.dim(d) > 1) {
      OpSignature signature;
      const Sbp split = Sbp::Split(d);
      const Sbp grouped = Sbp::Split(one, static_cast<int>(before));
      signature.inputs = {one_is_operand ? grouped : split};
      signature.outputs = {one_is_operand ? split : grouped};
      list->Add(std::move(signature));
    }
    before *= several.dim(d);
  }
}

}  // namespace

std::vector<OpSignature> ReshapeSignatures(const OpView& op) {
  const Shape& from = op.input(0).shape;
  const Shape& to = op.output(0).shape;
  SignatureList list(op);
  list.AnyPartial({0});
  if (from.num_elements() == 0) return list.Take();
  int i = SkipOnes(from, 0), j = SkipOnes(to, 0);
  while (i < from.rank() && j < to.rank()) {
    Run a = {i, i + 1}, b = {j, j + 1};
    int64_t in_a = from.dim(i), in_b = to.dim(j);
    while (in_a != in_b) {
      if (in_a < in_b) {
        in_a *= from.dim(a.end++);
      } else {
        in_b *= to.dim(b.end++);
      }
    }
    list.Split({a.begin}, {b.begin});
    if (a.single()) SplitInner(to, b, a.begin, true, &list);
    if (b.single()) SplitInner(from, a, b.begin, false, &list);
    i = SkipOnes(from, a.end);
    j = SkipOnes(to, b.end);
  }
  return list.Take();
}

// No axes are all of extent 1: also one that is so on a member alone.
absl::Status LocalSqueezeAttrs(const OpView& op, const OpSignature& signature,
                               int parts, int index, AttrMap* attrs) {
  Ints ones;
  const Shape& from = op.input(0).shape;
  for (int d = 0; d < from.rank(); ++d) {
    if (from.dim(d) == 1) ones.push_back(d);
  }
  if (op.Ints("axes").empty()) attrs->Set("axes", std::move(ones));
  return absl::OkStatus();
}

std::vector<OpSignature> TransposeSignatures(const OpView& op) {
  const int rank = op.input(0).shape.rank();
  SignatureList list(op);
  for (int d = 0; d < rank; ++d) {
    const int from =
        op.Has("perm") ? static_cast<int>(op.Ints("perm")[d]) : rank - 1 - d;
    list.Split({from}, {d});
  }
  list.AnyPartial({0});
  return list.Take();
}

std::vector<OpSignature> ExpandSignatures(const OpView& op) {
  const Shape& to = op.output(0).shape;
  SignatureList list(op);
  for (int d = 0; d < to.rank(); ++d) {
    list.Split({BroadcastDim(op.input(0).shape, to, d)}, {d});
  }
  list.AnyPartial({0});
  return list.Take();
}

// The attribute may have fewer dimensions than the result, and 1 for those that
// stay.
absl::Status LocalExpandAttrs(const OpView& op, const OpSignature& signature,
                              int parts, int index, AttrMap* attrs) {
  const Sbp sbp = signature.outputs[0];
  if (!sbp.is_split()) return absl::OkStatus();
  Ints shape = op.Ints("shape");
  const int dim =
      sbp.dim - (op.output(0).shape.rank() - static_cast<int>(shape.size()));
  if (dim >= 0 && shape[dim] != 1) shape[dim] /= parts;
  attrs->Set("shape", std::move(shape));
  return absl::OkStatus();
}

}  // namespace weft
