#include "compiler/transforms/mixed_precision.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/transforms/rewrite.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

bool IsProduct(const Node& node) {
  return node.Is(OpId::kMatMul) || node.Is(OpId::kGemm) || node.Is(OpId::kConv);
}

// Runs in the 16-bit format where its operands come in it.
bool Follows(const Node& node) {
  switch (node.schema().id) {
    case OpId::kAdd:
    case OpId::kSub:
    case OpId::kMul:
    case OpId::kMax:
    case OpId::kMin:
    case OpId::kNeg:
    case OpId::kAbs:
    case OpId::kRelu:
    case OpId::kLeakyRelu:
    case OpId::kSigmoid:
    case OpId::kTanh:
    case OpId::kGelu:
    case OpId::kIdentity:
    case OpId::kWhere:
    case OpId::kReshape:
    case OpId::kFlatten:
    case OpId::kTranspose:
    case OpId::kConcat:
    case OpId::kSplit:
    case OpId::kSlice:
    case OpId::kPad:
    case OpId::kExpand:
    case OpId::kSqueeze:
    case OpId::kUnsqueeze:
    case OpId::kMaxPool:
    case OpId::kAveragePool:
    case OpId::kGlobalAveragePool:
    case OpId::kDropoutTraining:
      return true;
    default:
      return false;
  }
}

class Rewriter {
 public:
  Rewriter(Graph* graph, DType low) : graph_(*graph), low_(low) {}

  absl::StatusOr<bool> Run() {
    WEFT_ASSIGN_OR_RETURN(std::vector<const Node*> order,
                          std::as_const(graph_).TopologicalOrder());
    std::vector<int32_t> ids, replaced;
    for (const Node* node : order) ids.push_back(node->id());
    for (int32_t id : ids) {
      const Node& node = *graph_.node(id);
      if (HasControlEdges(graph_, node) || !RunsInLow(node)) {
        WEFT_RETURN_IF_ERROR(ReadInF32(id));
        continue;
      }
      WEFT_RETURN_IF_ERROR(Lower(node));
      replaced.push_back(id);
    }
    for (auto it = replaced.rbegin(); it != replaced.rend(); ++it) {
      WEFT_RETURN_IF_ERROR(graph_.Remove(*it));
    }
    return !replaced.empty();
  }

 private:
  bool IsF32(Value v) const {
    return v.valid() && graph_.type(v).dtype == DType::kF32;
  }

  bool RunsInLow(const Node& node) const {
    if (IsProduct(node)) return IsF32(node.output(0));
    if (!Follows(node)) return false;
    bool any = false;
    for (Value v : node.inputs()) {
      if (!IsF32(v)) continue;
      const bool made_low = lowered_.contains(v);
      if (!made_low && AsConstant(graph_, v) == nullptr) return false;
      any = any || made_low;
    }
    return any;
  }

  // A node in the place of `node` that computes in the 16-bit format. Readers
  // still read the old one; each is visited later.
  absl::Status Lower(const Node& node) {
    std::vector<Value> inputs;
    for (Value v : node.inputs()) {
      if (!IsF32(v)) {
        inputs.push_back(v);
        continue;
      }
      WEFT_ASSIGN_OR_RETURN(Value low, InLow(v));
      inputs.push_back(low);
    }
    WEFT_ASSIGN_OR_RETURN(
        Node * made, AddInPlaceOf(&graph_, node, DTypeName(low_), node.op(),
                                  inputs, node.attrs(),
                                  absl::StrCat("mixed_precision: ", node.name(),
                                               " in ", DTypeName(low_)),
                                  node.num_outputs()));
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (made->output_type(i) == node.output_type(i)) {
        WEFT_RETURN_IF_ERROR(
            graph_.ReplaceUses(node.output(i), made->output(i)));
      } else {
        lowered_[node.output(i)] = made->output(i);
      }
    }
    return absl::OkStatus();
  }

  // `v`, an f32 value of the old graph, in the 16-bit format.
  absl::StatusOr<Value> InLow(Value v) {
    if (auto it = lowered_.find(v); it != lowered_.end()) return it->second;
    return Cast(v, low_, &narrowed_[v]);
  }

  // Operands that are made in the 16-bit format are read through a Cast.
  absl::Status ReadInF32(int32_t id) {
    for (int i = 0; i < static_cast<int>(graph_.node(id)->inputs().size());
         ++i) {
      auto it = lowered_.find(graph_.node(id)->input(i));
      if (it == lowered_.end()) continue;
      WEFT_ASSIGN_OR_RETURN(
          Value wide, Cast(it->second, DType::kF32, &widened_[it->first]));
      WEFT_RETURN_IF_ERROR(graph_.SetInput(id, i, wide));
    }
    return absl::OkStatus();
  }

  // One Cast of a value, shared by all that read it, beside what made it.
  absl::StatusOr<Value> Cast(Value v, DType to, Value* made) {
    if (made->valid()) return *made;
    const Node& from = *graph_.node(v);
    WEFT_ASSIGN_OR_RETURN(
        Node * cast,
        AddInPlaceOf(&graph_, from, absl::StrCat("to_", DTypeName(to)), "Cast",
                     {v}, {{"to", to}},
                     absl::StrCat("mixed_precision: ", from.name(), " for ",
                                  DTypeName(to))));
    *made = cast->output(0);
    return *made;
  }

  Graph& graph_;
  DType low_;
  absl::flat_hash_map<Value, Value> lowered_;   // f32 of the old graph: 16 bits
  absl::flat_hash_map<Value, Value> narrowed_;  // by Cast
  absl::flat_hash_map<Value, Value> widened_;   // by Cast
};

class MixedPrecisionPass : public Pass {
 public:
  absl::string_view Name() const override { return "mixed_precision"; }
  absl::StatusOr<bool> Run(Graph& graph, PassContext&) override {
    return MixedPrecision(&graph, DType::kBF16);
  }
};

}  // namespace

absl::StatusOr<bool> MixedPrecision(Graph* graph, DType low) {
  return Rewriter(graph, low).Run();
}

std::unique_ptr<Pass> CreateMixedPrecisionPass() {
  return std::make_unique<MixedPrecisionPass>();
}

}  // namespace weft
