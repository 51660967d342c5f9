#include "compiler/transforms/algebraic_simplify.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/transforms/rewrite.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

bool IsPositiveZero(double v) { return v == 0 && !std::signbit(v); }
bool IsNegativeZero(double v) { return v == 0 && std::signbit(v); }

// Every value of `narrow` is a value of `wide`.
bool Contains(DType wide, DType narrow) {
  using D = DType;
  auto in = [narrow](std::initializer_list<DType> list) {
    return std::find(list.begin(), list.end(), narrow) != list.end();
  };
  switch (wide) {
    case D::kF32:
      return in({D::kF16, D::kBF16, D::kI8, D::kU8, D::kI16, D::kBool});
    case D::kF64:
      return in({D::kF32, D::kF16, D::kBF16, D::kI8, D::kU8, D::kI16, D::kI32,
                 D::kBool});
    case D::kI16:
      return in({D::kI8, D::kU8, D::kBool});
    case D::kI32:
      return in({D::kI8, D::kU8, D::kI16, D::kBool});
    case D::kI64:
      return in({D::kI8, D::kU8, D::kI16, D::kI32, D::kBool});
    default:
      return false;
  }
}

bool IsReshaping(const Node& node) {
  return node.Is(OpId::kReshape) || node.Is(OpId::kFlatten) ||
         node.Is(OpId::kSqueeze) || node.Is(OpId::kUnsqueeze);
}

std::vector<int64_t> PermOf(const Graph& graph, const Node& transpose) {
  OpView view = graph.View(transpose);
  if (view.Has("perm") && !view.Ints("perm").empty()) return view.Ints("perm");
  std::vector<int64_t> perm(view.input(0).shape.rank());
  for (size_t i = 0; i < perm.size(); ++i) perm[i] = perm.size() - 1 - i;
  return perm;
}

bool IsIdentity(const std::vector<int64_t>& perm) {
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

class Simplifier {
 public:
  explicit Simplifier(Graph* graph) : graph_(*graph) {}

  absl::StatusOr<bool> Run();

 private:
  // What takes the place of the node's result; invalid: it stays.
  absl::StatusOr<Value> Simplify(const Node& node);
  Value NeutralOperand(const Node& node) const;
  Value Involution(const Node& node) const;
  Value SameBoth(const Node& node, int first) const;
  Value NoMovement(const Node& node) const;
  Value CastAway(const Node& node) const;
  absl::StatusOr<Value> Magnitude(const Node& node);
  absl::StatusOr<Value> Transposed(const Node& node);
  absl::StatusOr<Value> Reshaped(const Node& node);
  // `op` applied to `x` in the node's place.
  absl::StatusOr<Value> Rebuild(const Node& node, absl::string_view op, Value x,
                                AttrMap attrs);

  bool MayTakePlace(const Node& node, Value v) const;
  // The node that makes operand 0, where it has op `id` and is in no control
  // order.
  const Node* Producer(const Node& node, OpId id) const {
    const Node* from = graph_.node(node.input(0));
    return from->Is(id) && SamePlacement(*from, node) ? from : nullptr;
  }

  Graph& graph_;
};

absl::StatusOr<bool> Simplifier::Run() {
  bool any = false;
  for (bool changed = true; changed;) {
    changed = false;
    WEFT_ASSIGN_OR_RETURN(std::vector<const Node*> order,
                          std::as_const(graph_).TopologicalOrder());
    for (const Node* node : order) {
      if (!IsPure(*node) || HasControlEdges(graph_, *node)) continue;
      if (node->inputs().empty() || node->num_outputs() != 1) continue;
      // Nobody reads it: leave it to dce, or this would not come to an end.
      if (graph_.Uses(node->output(0)).empty()) continue;
      WEFT_ASSIGN_OR_RETURN(Value v, Simplify(*node));
      if (!v.valid() || !MayTakePlace(*node, v)) continue;
      WEFT_RETURN_IF_ERROR(ReplaceNode(&graph_, node->id(), {v}));
      changed = true;
    }
    any = any || changed;
  }
  return any;
}

bool Simplifier::MayTakePlace(const Node& node, Value v) const {
  if (graph_.type(v) != node.output_type(0)) return false;
  const Node& from = *graph_.node(v);
  return (node.device.empty() || node.device == from.device) &&
         (node.stage == -1 || node.stage == from.stage);
}

absl::StatusOr<Value> Simplifier::Simplify(const Node& node) {
  switch (node.schema().id) {
    case OpId::kIdentity:
      return node.input(0);
    case OpId::kAdd:
    case OpId::kSub:
    case OpId::kMul:
    case OpId::kDiv:
      return NeutralOperand(node);
    case OpId::kNeg:
    case OpId::kNot:
    case OpId::kRelu:
      return Involution(node);
    case OpId::kAbs:
      return Magnitude(node);
    case OpId::kMax:
    case OpId::kMin:
      return SameBoth(node, 0);
    case OpId::kWhere:
      return SameBoth(node, 1);
    case OpId::kCast:
      return CastAway(node);
    case OpId::kTranspose:
      return Transposed(node);
    case OpId::kReshape:
    case OpId::kFlatten:
    case OpId::kSqueeze:
    case OpId::kUnsqueeze:
      return Reshaped(node);
    case OpId::kExpand:
    case OpId::kSlice:
    case OpId::kPad:
    case OpId::kConcat:
    case OpId::kSplit:
      return NoMovement(node);
    default:
      return Value();
  }
}

// x op neutral element.
Value Simplifier::NeutralOperand(const Node& node) const {
  bool is_float = IsFloat(node.output_type(0).dtype);
  for (int side = 0; side < 2; ++side) {
    double c = 0;
    if (!IsSplat(graph_, node.input(1 - side), &c)) continue;
    bool neutral = false;
    switch (node.schema().id) {
      case OpId::kMul:
        neutral = c == 1;
        break;
      case OpId::kDiv:
        neutral = side == 0 && c == 1;
        break;
      case OpId::kAdd:
        neutral = is_float ? IsNegativeZero(c) : c == 0;
        break;
      default:  // Sub
        neutral = side == 0 && (is_float ? IsPositiveZero(c) : c == 0);
        break;
    }
    // A constant that broadcasts x gives another type: x cannot take its place.
    if (neutral && graph_.type(node.input(side)) == node.output_type(0)) {
      return node.input(side);
    }
  }
  return Value();
}

// f(f(x)): x for Neg and Not, f(x) for Relu.
Value Simplifier::Involution(const Node& node) const {
  const Node* inner = graph_.node(node.input(0));
  if (!inner->Is(node.schema().id)) return Value();
  return node.Is(OpId::kRelu) ? inner->output(0) : inner->input(0);
}

Value Simplifier::SameBoth(const Node& node, int first) const {
  return node.input(first) == node.input(first + 1) ? node.input(first)
                                                    : Value();
}

Value Simplifier::NoMovement(const Node& node) const {
  OpView view = graph_.View(node);
  auto all = [&view](absl::string_view attr, int64_t value) {
    if (!view.Has(attr)) return true;
    const std::vector<int64_t>& items = view.Ints(attr);
    return std::all_of(items.begin(), items.end(),
                       [value](int64_t v) { return v == value; });
  };
  if (view.num_inputs() != 1 || view.input(0) != view.output(0)) return Value();
  if (node.Is(OpId::kSlice) && !all("steps", 1)) return Value();
  if (node.Is(OpId::kPad) && !all("pads", 0)) return Value();
  return node.input(0);
}

Value Simplifier::CastAway(const Node& node) const {
  const TensorType& type = node.output_type(0);
  if (graph_.type(node.input(0)) == type) return node.input(0);
  const Node* inner = graph_.node(node.input(0));
  if (!inner->Is(OpId::kCast)) return Value();
  bool exact = graph_.type(inner->input(0)) == type &&
               Contains(inner->output_type(0).dtype, type.dtype);
  return exact ? inner->input(0) : Value();
}

absl::StatusOr<Value> Simplifier::Rebuild(const Node& node,
                                          absl::string_view op, Value x,
                                          AttrMap attrs) {
  WEFT_ASSIGN_OR_RETURN(
      Node * made,
      AddInPlaceOf(
          &graph_, node, "simplified", op, {x}, std::move(attrs),
          absl::StrCat("algebraic_simplify: shorter form of ", node.name())));
  return made->output(0);
}

// Abs(Abs(x)) and Abs(Neg(x)).
absl::StatusOr<Value> Simplifier::Magnitude(const Node& node) {
  const Node* inner = graph_.node(node.input(0));
  if (inner->Is(OpId::kAbs)) return inner->output(0);
  if (inner->Is(OpId::kNeg)) {
    return Rebuild(node, "Abs", inner->input(0), node.attrs());
  }
  return Value();
}

absl::StatusOr<Value> Simplifier::Transposed(const Node& node) {
  std::vector<int64_t> perm = PermOf(graph_, node);
  if (IsIdentity(perm)) return node.input(0);
  const Node* inner = Producer(node, OpId::kTranspose);
  if (inner == nullptr) return Value();
  std::vector<int64_t> first = PermOf(graph_, *inner);
  std::vector<int64_t> both;
  for (int64_t axis : perm) both.push_back(first[axis]);
  if (IsIdentity(both)) return inner->input(0);
  return Rebuild(node, "Transpose", inner->input(0), {{"perm", both}});
}

absl::StatusOr<Value> Simplifier::Reshaped(const Node& node) {
  const TensorType& type = node.output_type(0);
  if (graph_.type(node.input(0)) == type) return node.input(0);
  const Node* inner = graph_.node(node.input(0));
  if (!IsReshaping(*inner) || !SamePlacement(*inner, node)) return Value();
  if (graph_.type(inner->input(0)) == type) return inner->input(0);
  // 0 would mean "as the operand": such shapes are left alone.
  std::vector<int64_t> dims(type.shape.dims().begin(), type.shape.dims().end());
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return Value();
  return Rebuild(node, "Reshape", inner->input(0),
                 {{"shape", std::move(dims)}});
}

class AlgebraicSimplifyPass : public Pass {
 public:
  absl::string_view Name() const override { return "algebraic_simplify"; }
  absl::StatusOr<bool> Run(Graph& graph, PassContext&) override {
    return Simplifier(&graph).Run();
  }
};

}  // namespace

std::unique_ptr<Pass> CreateAlgebraicSimplifyPass() {
  return std::make_unique<AlgebraicSimplifyPass>();
}

}  // namespace weft
