// Ops that move elements: gathers, slices, strided copies. A dimension that an
// op takes from end to end may be cut; one that it picks from stays whole, but
// where a result of several equal operands is cut in groups. Partial values
// stay partial where nothing is added to them.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>

#include "core/base/status_macros.h"
#include "core/ops/expr.h"
#include "core/ops/family_signatures.h"
#include "core/ops/infer.h"
#include "core/ops/signature_rules.h"
#include "core/ops/slice.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;

int AxisOf(const OpView& op, const Shape& shape) {
  return *AxisAttr(op, "axis", shape.rank());
}

std::vector<int> EveryOperand(const OpView& op) {
  std::vector<int> out;
  for (int i = 0; i < op.num_inputs(); ++i) out.push_back(i);
  return out;
}

bool OneExtent(absl::Span<const TensorType> types, int axis) {
  for (const TensorType& type : types) {
    if (type.shape.dim(axis) != types[0].shape.dim(axis)) return false;
  }
  return true;
}

}  // namespace

// ---- Concat, Split, Slice, Pad ----------------------------------------------

std::vector<OpSignature> ConcatSignatures(const OpView& op) {
  const int n = op.num_inputs(), axis = AxisOf(op, op.output(0).shape);
  SignatureList list(op);
  SplitAlike(op, op.output(0).shape.rank(), axis, &list);
  if (OneExtent(op.inputs(), axis)) {
    list.Add({std::vector<Sbp>(n, Sbp::Split(axis)), {Sbp::Split(axis, n)}});
  }
  list.AnyPartial(EveryOperand(op));
  return list.Take();
}

std::vector<OpSignature> SplitSignatures(const OpView& op) {
  const int n = static_cast<int>(op.outputs().size());
  const int axis = AxisOf(op, op.input(0).shape);
  SignatureList list(op);
  SplitAlike(op, op.input(0).shape.rank(), axis, &list);
  if (OneExtent(op.outputs(), axis)) {
    list.Add({{Sbp::Split(axis, n)}, std::vector<Sbp>(n, Sbp::Split(axis))});
  }
  list.AnyPartial({0});
  return list.Take();
}

absl::Status LocalSplitAttrs(const OpView& op, const OpSignature& signature,
                             int parts, int index, AttrMap* attrs) {
  const Sbp sbp = signature.inputs[0];
  if (!sbp.is_split() || sbp.dim != AxisOf(op, op.input(0).shape)) {
    return absl::OkStatus();
  }
  Ints split = op.Ints("split");
  for (int64_t& extent : split) extent /= parts;
  attrs->Set("split", std::move(split));
  return absl::OkStatus();
}

std::vector<OpSignature> SliceSignatures(const OpView& op) {
  const SliceSpec spec = *SliceSpec::FromOp(op);
  const Shape& from = op.input(0).shape;
  SignatureList list(op);
  for (int d = 0; d < from.rank(); ++d) {
    const bool all = spec.step[d] == 1 && spec.extent[d] == from.dim(d);
    if (all) list.Split({d}, {d});
  }
  list.AnyPartial({0});
  return list.Take();
}

// Positions may count from the end: those of the cut dimension say all of it.
absl::Status LocalSliceAttrs(const OpView& op, const OpSignature& signature,
                             int parts, int index, AttrMap* attrs) {
  const Sbp sbp = signature.inputs[0];
  if (!sbp.is_split()) return absl::OkStatus();
  const int rank = op.input(0).shape.rank();
  Ints starts = op.Ints("starts"), ends = op.Ints("ends");
  const Ints& axes = op.Ints("axes");
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = axes.empty() ? static_cast<int64_t>(i) : axes[i];
    if ((axis < 0 ? axis + rank : axis) != sbp.dim) continue;
    starts[i] = 0;
    ends[i] = op.input(0).shape.dim(sbp.dim) / parts;
  }
  attrs->Set("starts", std::move(starts));
  attrs->Set("ends", std::move(ends));
  return absl::OkStatus();
}

std::vector<OpSignature> PadSignatures(const OpView& op) {
  const int rank = op.input(0).shape.rank();
  const Ints& pads = op.Ints("pads");
  SignatureList list(op);
  for (int d = 0; d < rank; ++d) {
    if (pads[d] == 0 && pads[rank + d] == 0) list.Split({d}, {d});
  }
  if (op.Float("value") == 0) list.Partial(ReduceOp::kSum, {0});
  return list.Take();
}

// ---- Gather -----------------------------------------------------------------

std::vector<OpSignature> GatherSignatures(const OpView& op) {
  const Shape& data = op.input(0).shape;
  const int axis = AxisOf(op, data), places = op.input(1).shape.rank();
  SignatureList list(op);
  for (int i = 0; i < places; ++i) list.Split({kWhole, i}, {axis + i});
  for (int d = 0; d < data.rank(); ++d) {
    if (d == axis) continue;
    list.Split({d, kWhole}, {d < axis ? d : d - 1 + places});
  }
  list.AnyPartial({0});
  return list.Take();
}

// Members that scatter other positions add to the same places.
std::vector<OpSignature> GatherGradSignatures(const OpView& op) {
  const Shape& data = op.output(0).shape;
  const int axis = AxisOf(op, data), places = op.input(1).shape.rank();
  SignatureList list(op);
  for (int i = 0; i < places; ++i) list.Split({axis + i, i}, {kSummed});
  for (int d = 0; d < data.rank(); ++d) {
    if (d == axis) continue;
    list.Split({d < axis ? d : d - 1 + places, kWhole}, {d});
  }
  list.Partial(ReduceOp::kSum, {0});
  return list.Take();
}

// ---- weft.StridedCopy, weft.Iota --------------------------------------------

namespace {

// The copy when dimension `dim` of its result is cut, if it reads dimension
// `from` of the operand from end to end with it, and all else stays within the
// positions inside of one of `from`, or steps over whole ones. Positions
// outside of `from` then lie closer together on a member by `parts`.
struct CutCopy {
  int from = kWhole;
  Ints strides;
  int64_t offset = 0;
};

// A dimension that the result repeats: the operand is whole.
CutCopy RepeatedCopy(const OpView& op) {
  return {kWhole, op.Ints("strides"), op.Int("offset")};
}

std::optional<CutCopy> CopyCutAt(const OpView& op, int dim, int from,
                                 int parts) {
  const Shape& in = op.input(0).shape;
  const Shape& out = op.output(0).shape;
  const int64_t stride = StridesOf(in)[from], extent = in.dim(from);
  CutCopy cut = {from, op.Ints("strides"), op.Int("offset")};
  if (cut.strides[dim] != stride || out.dim(dim) != extent) {
    return std::nullopt;
  }
  const int64_t outer = stride * extent;  // from one of the next to another
  int64_t low = cut.offset % outer, high = low;
  for (int d = 0; d < out.rank(); ++d) {
    const int64_t step = cut.strides[d];
    if (d == dim || out.dim(d) == 1) continue;
    if (step % outer == 0) {
      cut.strides[d] = step / parts;
    } else {
      (step < 0 ? low : high) += step * (out.dim(d) - 1);
    }
  }
  if (low < 0 || high >= stride) return std::nullopt;
  cut.offset = cut.offset / outer * (outer / parts) + cut.offset % outer;
  return cut;
}

// By the dimension of the operand, or kWhole.
std::vector<int> CuttableFrom(const OpView& op, int dim) {
  std::vector<int> out;
  if (op.Ints("strides")[dim] == 0) out.push_back(kWhole);
  for (int from = 0; from < op.input(0).shape.rank(); ++from) {
    if (op.input(0).shape.dim(from) < 2) continue;
    if (CopyCutAt(op, dim, from, 1).has_value()) out.push_back(from);
  }
  return out;
}

}  // namespace

std::vector<OpSignature> StridedCopySignatures(const OpView& op) {
  SignatureList list(op);
  list.AnyPartial({0});
  if (op.output(0).shape.num_elements() == 0) return list.Take();
  for (int d = 0; d < op.output(0).shape.rank(); ++d) {
    for (int from : CuttableFrom(op, d)) list.Split({from}, {d});
  }
  return list.Take();
}

absl::Status LocalStridedCopyAttrs(const OpView& op,
                                   const OpSignature& signature, int parts,
                                   int index, AttrMap* attrs) {
  const Sbp sbp = signature.outputs[0], from = signature.inputs[0];
  if (!sbp.is_split()) return absl::OkStatus();
  std::optional<CutCopy> cut = from.is_split()
                                   ? CopyCutAt(op, sbp.dim, from.dim, parts)
                                   : RepeatedCopy(op);
  if (!cut.has_value()) {
    return op.Error(ErrorCode::kBadValue, "cannot be cut there");
  }
  WEFT_ASSIGN_OR_RETURN(const Shape local,
                        PartShape(op.output(0).shape, sbp, parts));
  attrs->Set("shape", DimsOf(local));
  attrs->Set("strides", std::move(cut->strides));
  attrs->Set("offset", cut->offset);
  return absl::OkStatus();
}

std::vector<OpSignature> IotaSignatures(const OpView& op) {
  SignatureList list(op);
  SplitAlike(op, op.output(0).shape.rank(), AxisOf(op, op.output(0).shape),
             &list);
  return list.Take();
}

}  // namespace weft
