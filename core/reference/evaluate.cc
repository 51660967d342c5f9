#include "core/reference/evaluate.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/tree_fold.h"
#include "core/ops/activation.h"
#include "core/ops/image_layout.h"
#include "core/reference/evaluators.h"

namespace weft {

using reference::Evaluator;
using reference::EvaluatorTable;
using reference::Tensor;

namespace {

// Every integer up to here is a double.
constexpr double kExactIntegers = 9007199254740992.0;  // 2^53

const EvaluatorTable& Table() {
  static const EvaluatorTable* table = [] {
    auto* t = new EvaluatorTable();
    reference::AddElementwiseEvaluators(t);
    reference::AddShapeEvaluators(t);
    reference::AddReduceEvaluators(t);
    reference::AddRandomEvaluators(t);
    reference::AddUpdateEvaluators(t);
    reference::AddSystemEvaluators(t);
    reference::AddLinearAlgebraEvaluators(t);
    reference::AddConvEvaluators(t);
    reference::AddPoolEvaluators(t);
    reference::AddNormEvaluators(t);
    reference::AddAttentionEvaluators(t);
    reference::AddLossEvaluators(t);
    return t;
  }();
  return *table;
}

absl::Status CheckExact(const OpView& op, DType dtype,
                        absl::Span<const double> values) {
  if (dtype != DType::kI64) return absl::OkStatus();
  for (double v : values) {
    if (std::fabs(v) > kExactIntegers) {
      return op.Error(ErrorCode::kBadValue,
                      absl::StrCat("the integer ", v,
                                   " is beyond 2^53, where reference values "
                                   "are no longer exact"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> Load(const OpView& op,
                                         absl::Span<const Literal> inputs) {
  if (static_cast<int>(inputs.size()) != op.num_inputs()) {
    return op.Error(ErrorCode::kBadArity,
                    absl::StrCat("has ", op.num_inputs(), " operands, got ",
                                 inputs.size(), " values"));
  }
  std::vector<Tensor> in(inputs.size());
  for (int i = 0; i < op.num_inputs(); ++i) {
    if (inputs[i].type() != op.input(i)) {
      return op.Error(
          ErrorCode::kShapeMismatch,
          absl::StrCat("operand ", i, " is ", op.input(i).ToString(),
                       ", got a value of ", inputs[i].type().ToString()));
    }
    if (!op.has_input(i)) continue;
    in[i] = {inputs[i].type().shape, inputs[i].ToDoubles()};
    WEFT_RETURN_IF_ERROR(CheckExact(op, op.input(i).dtype, in[i].v));
  }
  return in;
}

// ---- Layouts
//
// Evaluators know images as [N,C,H,W] only: other ones are turned, values and
// types.

// Position i of [N,C,H,W] as a position of [N,C/16,H,W,16].
int64_t InBlocks(const Shape& image, int64_t i) {
  const int64_t pixels = image.dim(2) * image.dim(3);
  const int64_t plane = i / pixels, channel = plane % image.dim(1);
  const int64_t block = plane / kChannelBlock;  // C is a multiple
  return (block * pixels + i % pixels) * kChannelBlock +
         channel % kChannelBlock;
}

absl::Status EvaluateInNchw(const OpView& op, const Evaluator& evaluator,
                            std::vector<Tensor> in, std::vector<Tensor>* out) {
  const ImageUses& uses = *ImagesOf(op.schema().id);
  AttrMap attrs = op.attrs();
  std::vector<TensorType> in_types, out_types;
  for (int i = 0; i < op.num_inputs(); ++i) in_types.push_back(op.input(i));
  for (const TensorType& type : op.outputs()) out_types.push_back(type);
  auto blocked = [&op](const ImageUse& use, size_t count) {
    return use.index < static_cast<int>(count) &&
           *LayoutOf(op, use.attr) == ImageLayout::kNchw16c;
  };
  for (const ImageUse& use : uses.inputs) {
    attrs.Erase(use.attr);
    if (!blocked(use, in.size())) continue;
    Tensor& t = in[use.index];
    if (t.v.empty() && t.shape.rank() == 0) continue;  // absent
    Tensor turned{FromBlocks(t.shape), std::vector<double>(t.v.size())};
    for (size_t i = 0; i < t.v.size(); ++i) {
      turned.v[i] = t.v[InBlocks(turned.shape, static_cast<int64_t>(i))];
    }
    t = std::move(turned);
    in_types[use.index].shape = t.shape;
  }
  for (const ImageUse& use : uses.outputs) {
    attrs.Erase(use.attr);
    if (!blocked(use, out->size())) continue;
    Tensor& t = (*out)[use.index];
    t.shape = FromBlocks(t.shape);
    out_types[use.index].shape = t.shape;
  }
  WEFT_RETURN_IF_ERROR(evaluator(
      OpView(op.schema(), op.name(), attrs, in_types, out_types), in, out));
  for (const ImageUse& use : uses.outputs) {
    if (!blocked(use, out->size())) continue;
    Tensor& t = (*out)[use.index];
    Tensor turned{ToBlocks(t.shape), std::vector<double>(t.v.size())};
    for (size_t i = 0; i < t.v.size(); ++i) {
      turned.v[InBlocks(t.shape, static_cast<int64_t>(i))] = t.v[i];
    }
    t = std::move(turned);
  }
  return absl::OkStatus();
}

}  // namespace

namespace reference {

std::vector<int64_t> BroadcastStrides(const Shape& from, const Shape& to) {
  std::vector<int64_t> strides(to.rank(), 0);
  absl::InlinedVector<int64_t, 4> dense = from.Strides();
  int extra = to.rank() - from.rank();
  for (int d = 0; d < from.rank(); ++d) {
    if (from.dim(d) != 1) strides[d + extra] = dense[d];
  }
  return strides;
}

}  // namespace reference

bool CanEvaluate(const OpSchema& schema) {
  return schema.id == OpId::kConstant || Table().Find(schema.id) != nullptr;
}

absl::StatusOr<std::vector<Literal>> Evaluate(
    const OpView& op, absl::Span<const Literal> inputs) {
  if (op.schema().id == OpId::kConstant) {  // exact for every dtype
    return std::vector<Literal>{op.Get("value").tensor()};
  }
  const Evaluator* evaluator = Table().Find(op.schema().id);
  if (evaluator == nullptr) {
    return op.Error(ErrorCode::kUnknownOp,
                    "has no value that follows from its operands");
  }
  WEFT_ASSIGN_OR_RETURN(std::vector<Tensor> in, Load(op, inputs));
  std::vector<Tensor> out;
  for (const TensorType& type : op.outputs()) {
    out.push_back(
        {type.shape, std::vector<double>(type.shape.num_elements(), 0)});
  }
  WEFT_RETURN_IF_ERROR(HasBlockedImages(op)
                           ? EvaluateInNchw(op, *evaluator, std::move(in), &out)
                           : (*evaluator)(op, in, &out));
  if (HasActivation(op)) {
    for (double& y : out[0].v) y = y < 0 ? 0 : y;  // a NaN stays
  }
  std::vector<Literal> results;
  for (size_t i = 0; i < out.size(); ++i) {
    const TensorType& type = op.output(static_cast<int>(i));
    WEFT_RETURN_IF_ERROR(CheckExact(op, type.dtype, out[i].v));
    results.push_back(Literal::FromDoubles(type, out[i].v));
  }
  return results;
}

absl::StatusOr<Literal> TreeSum(absl::Span<const Literal> parts) {
  if (parts.empty()) {
    return MakeError(ErrorCode::kBadArity, "a sum of no parts");
  }
  const TensorType& type = parts[0].type();
  for (const Literal& part : parts) {
    if (part.type() == type) continue;
    return MakeError(ErrorCode::kShapeMismatch,
                     absl::StrCat("parts of one sum are ", type.ToString(),
                                  " and ", part.type().ToString()));
  }
  TreeFold<Literal> fold([&type](const Literal& a, const Literal& b) {
    std::vector<double> sum = a.ToDoubles();
    std::vector<double> more = b.ToDoubles();
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
    return Literal::FromDoubles(type, sum);
  });
  for (const Literal& part : parts) fold.Take(part);
  return fold.Total();
}

}  // namespace weft
