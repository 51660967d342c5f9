#include "core/reference/eager.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/reference/evaluate.h"

namespace weft {
namespace {

// Decompositions end in primitives after a few levels; more is a cycle.
constexpr int kMaxDepth = 16;

}  // namespace

Value EagerEmitter::Add(Literal literal) {
  nodes_.push_back({std::move(literal)});
  return {static_cast<int32_t>(nodes_.size()) - 1, 0};
}

std::vector<Value> EagerEmitter::Emit(absl::string_view op,
                                      absl::Span<const Value> inputs,
                                      AttrMap attrs, int num_outputs) {
  std::vector<Value> invalid(num_outputs > 0 ? num_outputs : 1);
  if (!status_.ok()) return invalid;
  absl::StatusOr<std::vector<Value>> out =
      TryEmit(op, inputs, attrs, num_outputs);
  if (out.ok()) return *std::move(out);
  status_ = std::move(out).status();
  return invalid;
}

absl::StatusOr<std::vector<Value>> EagerEmitter::TryEmit(
    absl::string_view op, absl::Span<const Value> inputs, const AttrMap& attrs,
    int num_outputs) {
  WEFT_ASSIGN_OR_RETURN(const OpSchema* schema, OpRegistry::Global().Find(op));
  std::vector<Literal> literals;
  std::vector<TensorType> types;
  for (Value v : inputs) {
    literals.push_back(v.valid() ? literal(v) : Literal());
    types.push_back(literals.back().type());
  }
  WEFT_ASSIGN_OR_RETURN(std::vector<TensorType> outputs,
                        InferTypes(*schema, op, attrs, types, num_outputs));
  OpView view(*schema, op, attrs, types, outputs);

  if (mode_ == Mode::kPrimitives && schema->decompose != nullptr) {
    if (depth_ >= kMaxDepth) {
      return view.Error(ErrorCode::kInternal, "decomposition does not end");
    }
    ++depth_;
    std::vector<Value> values = schema->decompose(view, inputs, *this);
    --depth_;
    WEFT_RETURN_IF_ERROR(status_);
    return values;
  }
  std::vector<Literal> results;
  WEFT_ASSIGN_OR_RETURN(results, Evaluate(view, literals));
  nodes_.push_back(std::move(results));
  std::vector<Value> values;
  for (int i = 0; i < static_cast<int>(outputs.size()); ++i) {
    values.push_back({static_cast<int32_t>(nodes_.size()) - 1, i});
  }
  return values;
}

}  // namespace weft
