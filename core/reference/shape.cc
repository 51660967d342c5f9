// Shape and data movement: every op is "read x at some position" for each
// position of the result.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/infer.h"
#include "core/ops/slice.h"
#include "core/reference/evaluators.h"

namespace weft {
namespace reference {
namespace {

using Ints = std::vector<int64_t>;

Ints StridesOf(const Shape& shape) {
  absl::InlinedVector<int64_t, 4> strides = shape.Strides();
  return Ints(strides.begin(), strides.end());
}

// y[i] = x[offset + i . strides].
void ReadStrided(const Tensor& x, int64_t offset,
                 absl::Span<const int64_t> strides, Tensor* y) {
  for (Index it(y->shape); !it.done(); it.Next()) {
    y->v[it.position()] = x.v[offset + it.Dot(strides)];
  }
}

// Identity, Reshape and its relatives: the elements as they lie.
absl::Status SameElements(const OpView& op, absl::Span<const Tensor> in,
                          std::vector<Tensor>* out) {
  (*out)[0].v = in[0].v;
  return absl::OkStatus();
}

absl::Status Transpose(const OpView& op, absl::Span<const Tensor> in,
                       std::vector<Tensor>* out) {
  Ints dense = StridesOf(in[0].shape);
  Ints strides(dense.rbegin(), dense.rend());
  if (op.Has("perm")) {
    const Ints& perm = op.Ints("perm");
    for (size_t d = 0; d < perm.size(); ++d) strides[d] = dense[perm[d]];
  }
  ReadStrided(in[0], 0, strides, &(*out)[0]);
  return absl::OkStatus();
}

absl::Status Expand(const OpView& op, absl::Span<const Tensor> in,
                    std::vector<Tensor>* out) {
  Tensor& y = (*out)[0];
  ReadStrided(in[0], 0, BroadcastStrides(in[0].shape, y.shape), &y);
  return absl::OkStatus();
}

absl::Status Slice(const OpView& op, absl::Span<const Tensor> in,
                   std::vector<Tensor>* out) {
  WEFT_ASSIGN_OR_RETURN(SliceSpec spec, SliceSpec::FromOp(op));
  Ints dense = StridesOf(in[0].shape), strides = dense;
  int64_t offset = 0;
  for (size_t d = 0; d < dense.size(); ++d) {
    offset += dense[d] * spec.start[d];
    strides[d] = dense[d] * spec.step[d];
  }
  ReadStrided(in[0], offset, strides, &(*out)[0]);
  return absl::OkStatus();
}

absl::Status StridedCopy(const OpView& op, absl::Span<const Tensor> in,
                         std::vector<Tensor>* out) {
  ReadStrided(in[0], op.Int("offset"), op.Ints("strides"), &(*out)[0]);
  return absl::OkStatus();
}

// Results are zeros until they are written.
absl::Status Empty(const OpView&, absl::Span<const Tensor>,
                   std::vector<Tensor>*) {
  return absl::OkStatus();
}

absl::Status Split(const OpView& op, absl::Span<const Tensor> in,
                   std::vector<Tensor>* out) {
  WEFT_ASSIGN_OR_RETURN(int axis, AxisAttr(op, "axis", in[0].shape.rank()));
  Ints strides = StridesOf(in[0].shape);
  int64_t begin = 0;
  for (Tensor& y : *out) {
    ReadStrided(in[0], begin * strides[axis], strides, &y);
    begin += y.shape.dim(axis);
  }
  return absl::OkStatus();
}

absl::Status Concat(const OpView& op, absl::Span<const Tensor> in,
                    std::vector<Tensor>* out) {
  Tensor& y = (*out)[0];
  WEFT_ASSIGN_OR_RETURN(int axis, AxisAttr(op, "axis", y.shape.rank()));
  Ints strides = StridesOf(y.shape);
  int64_t begin = 0;
  for (const Tensor& x : in) {
    for (Index it(x.shape); !it.done(); it.Next()) {
      y.v[begin * strides[axis] + it.Dot(strides)] = x.v[it.position()];
    }
    begin += x.shape.dim(axis);
  }
  return absl::OkStatus();
}

absl::Status Pad(const OpView& op, absl::Span<const Tensor> in,
                 std::vector<Tensor>* out) {
  const Tensor& x = in[0];
  Tensor& y = (*out)[0];
  const Ints& pads = op.Ints("pads");
  Ints strides = StridesOf(x.shape);
  for (Index it(y.shape); !it.done(); it.Next()) {
    int64_t from = 0;
    bool inside = true;
    for (int d = 0; d < x.shape.rank(); ++d) {
      int64_t at = it.at()[d] - pads[d];
      inside = inside && at >= 0 && at < x.shape.dim(d);
      from += at * strides[d];
    }
    y.v[it.position()] = inside ? x.v[from] : op.Float("value");
  }
  return absl::OkStatus();
}

// The indices as positions of an axis: negative ones count from its end.
absl::StatusOr<Ints> Positions(const OpView& op, const Tensor& indices,
                               int64_t extent) {
  Ints positions;
  for (double v : indices.v) {
    auto i = static_cast<int64_t>(v);
    if (i < -extent || i >= extent) {
      return op.Error(ErrorCode::kBadValue,
                      absl::StrCat("index ", i, " is out of range for ", extent,
                                   " elements"));
    }
    positions.push_back(i < 0 ? i + extent : i);
  }
  return positions;
}

// Calls f(position in data, position in the gathered tensor) for every pair
// that Gather relates, in row-major order of the gathered tensor.
template <typename F>
absl::Status ForEachGathered(const OpView& op, const Shape& data,
                             const Tensor& indices, F f) {
  WEFT_ASSIGN_OR_RETURN(int axis, AxisAttr(op, "axis", data.rank()));
  WEFT_ASSIGN_OR_RETURN(Ints positions, Positions(op, indices, data.dim(axis)));
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < axis; ++d) outer *= data.dim(d);
  for (int d = axis + 1; d < data.rank(); ++d) inner *= data.dim(d);
  int64_t gathered = 0;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t p : positions) {
      for (int64_t i = 0; i < inner; ++i) {
        f((o * data.dim(axis) + p) * inner + i, gathered++);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Gather(const OpView& op, absl::Span<const Tensor> in,
                    std::vector<Tensor>* out) {
  return ForEachGathered(op, in[0].shape, in[1], [&](int64_t x, int64_t y) {
    (*out)[0].v[y] = in[0].v[x];
  });
}

absl::Status GatherGrad(const OpView& op, absl::Span<const Tensor> in,
                        std::vector<Tensor>* out) {
  Tensor& dx = (*out)[0];
  return ForEachGathered(op, dx.shape, in[1],
                         [&](int64_t x, int64_t y) { dx.v[x] += in[0].v[y]; });
}

absl::Status Iota(const OpView& op, absl::Span<const Tensor> in,
                  std::vector<Tensor>* out) {
  Tensor& y = (*out)[0];
  WEFT_ASSIGN_OR_RETURN(int axis, AxisAttr(op, "axis", y.shape.rank()));
  for (Index it(y.shape); !it.done(); it.Next()) {
    y.v[it.position()] = static_cast<double>(it.at()[axis]);
  }
  return absl::OkStatus();
}

}  // namespace

void AddShapeEvaluators(EvaluatorTable* table) {
  for (OpId id :
       {OpId::kReshape, OpId::kFlatten, OpId::kSqueeze, OpId::kUnsqueeze}) {
    table->Add(id, SameElements);
  }
  table->Add(OpId::kTranspose, Transpose);
  table->Add(OpId::kConcat, Concat);
  table->Add(OpId::kSplit, Split);
  table->Add(OpId::kSlice, Slice);
  table->Add(OpId::kPad, Pad);
  table->Add(OpId::kExpand, Expand);
  table->Add(OpId::kGather, Gather);
  table->Add(OpId::kGatherGrad, GatherGrad);
  table->Add(OpId::kStridedCopy, StridedCopy);
  table->Add(OpId::kIota, Iota);
  table->Add(OpId::kEmpty, Empty);
}

}  // namespace reference
}  // namespace weft
