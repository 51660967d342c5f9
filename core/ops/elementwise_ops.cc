// Elementwise ops: one table row per op. A row names the function's domain,
// what an element costs, its derivative and, unless it is a primitive, its
// formula in primitives. The functions themselves are in scalar.cc.
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/expr.h"
#include "core/ops/families.h"
#include "core/ops/infer.h"
#include "core/ops/schema.h"
#include "core/ops/signature_rules.h"

namespace weft {
namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;     // 1 / sqrt(2)
constexpr double kTwoBySqrtPi = 1.12837916709551257390;  // 2 / sqrt(pi)
constexpr double kNormalPeak = 0.39894228040143267794;   // 1 / sqrt(2 pi)
constexpr double kSqrtTwoByPi = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double kGeluCubic = 0.044715;

// Rough flops an element: a plain instruction, a division or root, and a
// polynomial or table function.
constexpr double kCheap = 1;
constexpr double kDivision = 4;
constexpr double kTranscendental = 16;

enum class Domain { kAny, kNumeric, kFloat, kBool };

absl::Status RequireDomain(const OpView& op, int i, Domain domain) {
  switch (domain) {
    case Domain::kAny:
      return absl::OkStatus();
    case Domain::kNumeric:
      return RequireNumeric(op, i);
    case Domain::kFloat:
      return RequireFloat(op, i);
    case Domain::kBool:
      return RequireDType(op, i, DType::kBool);
  }
  return absl::OkStatus();
}

// The common shape of operands i and j; the message names both.
absl::StatusOr<Shape> Broadcast(const OpView& op, const Shape& a,
                                const Shape& b) {
  absl::StatusOr<Shape> shape = BroadcastShapes(a, b);
  if (shape.ok()) return shape;
  return op.Error(ErrorCode::kShapeMismatch, shape.status().message());
}

OpSchema::CostFn PerElement(double flops) {
  return [flops](const OpView& op) {
    return Cost{flops * OutputElements(op), BytesMoved(op).bytes};
  };
}

// --- One operand -----------------------------------------------------------

using Unary = Expr (*)(const Expr& x);
// dy times the derivative at x, where the function gave y.
using UnaryGradient = Expr (*)(const Expr& x, const Expr& y, const Expr& dy);

struct UnaryRow {
  OpId id;
  Domain domain;
  double flops;
  UnaryGradient gradient;  // null: zero almost everywhere
  Unary decompose;         // null: a primitive
};

// The standard normal distribution function and density.
Expr NormalCdf(const Expr& x) {
  return 0.5 * (1.0 + Apply("Erf", {x * kSqrtHalf}));
}
Expr NormalPdf(const Expr& x) {
  return kNormalPeak * Apply("Exp", {-0.5 * (x * x)});
}

const UnaryRow kUnary[] = {
    {OpId::kNeg, Domain::kNumeric, kCheap,
     [](const Expr& x, const Expr& y, const Expr& dy) { return -dy; }, nullptr},
    {OpId::kAbs, Domain::kNumeric, kCheap,
     [](const Expr& x, const Expr& y, const Expr& dy) {
       return dy * Apply("Sign", {x});
     },
     nullptr},
    {OpId::kExp, Domain::kFloat, kTranscendental,
     [](const Expr& x, const Expr& y, const Expr& dy) { return dy * y; },
     nullptr},
    {OpId::kLog, Domain::kFloat, kTranscendental,
     [](const Expr& x, const Expr& y, const Expr& dy) { return dy / x; },
     nullptr},
    {OpId::kSqrt, Domain::kFloat, kDivision,
     [](const Expr& x, const Expr& y, const Expr& dy) { return 0.5 * dy / y; },
     nullptr},
    {OpId::kRelu, Domain::kNumeric, kCheap,
     [](const Expr& x, const Expr& y, const Expr& dy) {
       // y > 0 just where x > 0, and y lives on for whoever reads it: x need
       // not.
       return Where(Apply("Greater", {y, y.Like(0)}), dy, dy.Like(0));
     },
     [](const Expr& x) {
       return Apply("Max", {x, x.Like(0)});
     }},
    {OpId::kSigmoid, Domain::kFloat, kTranscendental,
     [](const Expr& x, const Expr& y, const Expr& dy) {
       return dy * (y * (1.0 - y));
     },
     [](const Expr& x) { return 1.0 / (1.0 + Apply("Exp", {-x})); }},
    {OpId::kTanh, Domain::kFloat, kTranscendental,
     [](const Expr& x, const Expr& y, const Expr& dy) {
       return dy * (1.0 - y * y);
     },
     nullptr},
    {OpId::kErf, Domain::kFloat, kTranscendental,
     [](const Expr& x, const Expr& y, const Expr& dy) {
       return dy * (kTwoBySqrtPi * Apply("Exp", {-(x * x)}));
     },
     nullptr},
    {OpId::kSoftplus, Domain::kFloat, 2 * kTranscendental,
     [](const Expr& x, const Expr& y, const Expr& dy) {
       return dy * Apply("Sigmoid", {x});
     },
     // max(x, 0) + log(1 + exp(-|x|)): exp never overflows.
     [](const Expr& x) {
       Expr small = Apply("Exp", {-Apply("Abs", {x})});
       return Apply("Max", {x, x.Like(0)}) + Apply("Log", {1.0 + small});
     }},
    {OpId::kSign, Domain::kNumeric, kCheap, nullptr, nullptr},
    {OpId::kReciprocal, Domain::kFloat, kDivision,
     [](const Expr& x, const Expr& y, const Expr& dy) {
       return -(dy * (y * y));
     },
     nullptr},
    {OpId::kNot, Domain::kBool, kCheap, nullptr, nullptr},
    {OpId::kIdentity, Domain::kAny, 0,
     [](const Expr& x, const Expr& y, const Expr& dy) { return dy; },
     [](const Expr& x) { return x; }},
};

OpSchema MakeUnary(const UnaryRow& row) {
  OpSchema schema(row.id);
  schema.inputs = {1, 1};
  schema.elementwise = true;
  schema.cost = PerElement(row.flops);
  schema.infer = [domain = row.domain](const OpView& op,
                                       std::vector<TensorType>* out) {
    WEFT_RETURN_IF_ERROR(RequireDomain(op, 0, domain));
    return SameAsInput(op, out);
  };
  if (UnaryGradient gradient = row.gradient) {
    schema.gradient = [gradient](const GradientContext& g) {
      Expr x(g.emit, g.inputs[0]), y(g.emit, g.outputs[0]);
      Expr dy(g.emit, g.output_grads[0]);
      return std::vector<Value>{gradient(x, y, dy)};
    };
  } else {
    schema.gradient = ZeroGradient;
  }
  if (Unary decompose = row.decompose) {
    schema.decompose = [decompose](const OpView& op,
                                   absl::Span<const Value> inputs,
                                   NodeEmitter& emit) {
      return std::vector<Value>{decompose(Expr(emit, inputs[0]))};
    };
  }
  return schema;
}

// --- Two operands ----------------------------------------------------------

// The gradients of both operands, of the broadcast shape.
using BinaryGradient = std::pair<Expr, Expr> (*)(const Expr& a, const Expr& b,
                                                 const Expr& y, const Expr& dy);

struct BinaryRow {
  OpId id;
  Domain domain;
  bool gives_bool;
  bool commutative;
  double flops;
  BinaryGradient gradient;  // null: zero almost everywhere
};

// d a^b/da = b a^(b-1), which is 0 (and not 0 * inf) where b = 0;
// d a^b/db = a^b log a, taken as 0 where a <= 0 has no logarithm.
std::pair<Expr, Expr> PowGradient(const Expr& a, const Expr& b, const Expr& y,
                                  const Expr& dy) {
  Expr slope = b * Apply("Pow", {a, b - 1.0});
  Expr da = Where(Apply("Equal", {b, b.Like(0)}), dy.Like(0), dy * slope);
  Expr positive = Apply("Greater", {a, a.Like(0)});
  Expr log_a = Apply("Log", {Where(positive, a, a.Like(1))});
  return {da, dy * (y * log_a)};
}

// Ties belong to the first operand, so that the two gradients add up to dy.
std::pair<Expr, Expr> ChoiceGradient(const Expr& first_wins, const Expr& dy) {
  return {Where(first_wins, dy, dy.Like(0)), Where(first_wins, dy.Like(0), dy)};
}

const BinaryRow kBinary[] = {
    {OpId::kAdd, Domain::kNumeric, false, true, kCheap,
     [](const Expr& a, const Expr& b, const Expr& y, const Expr& dy) {
       return std::make_pair(dy, dy);
     }},
    {OpId::kSub, Domain::kNumeric, false, false, kCheap,
     [](const Expr& a, const Expr& b, const Expr& y, const Expr& dy) {
       return std::make_pair(dy, -dy);
     }},
    {OpId::kMul, Domain::kNumeric, false, true, kCheap,
     [](const Expr& a, const Expr& b, const Expr& y, const Expr& dy) {
       return std::make_pair(dy * b, dy * a);
     }},
    {OpId::kDiv, Domain::kNumeric, false, false, kDivision,
     [](const Expr& a, const Expr& b, const Expr& y, const Expr& dy) {
       Expr da = dy / b;
       return std::make_pair(da, -(da * y));
     }},
    {OpId::kPow, Domain::kFloat, false, false, 2 * kTranscendental,
     PowGradient},
    {OpId::kMax, Domain::kNumeric, false, true, kCheap,
     [](const Expr& a, const Expr& b, const Expr& y, const Expr& dy) {
       return ChoiceGradient(Apply("GreaterOrEqual", {a, b}), dy);
     }},
    {OpId::kMin, Domain::kNumeric, false, true, kCheap,
     [](const Expr& a, const Expr& b, const Expr& y, const Expr& dy) {
       return ChoiceGradient(Apply("LessOrEqual", {a, b}), dy);
     }},
    {OpId::kEqual, Domain::kAny, true, true, kCheap, nullptr},
    {OpId::kLess, Domain::kNumeric, true, false, kCheap, nullptr},
    {OpId::kLessOrEqual, Domain::kNumeric, true, false, kCheap, nullptr},
    {OpId::kGreater, Domain::kNumeric, true, false, kCheap, nullptr},
    {OpId::kGreaterOrEqual, Domain::kNumeric, true, false, kCheap, nullptr},
    {OpId::kAnd, Domain::kBool, true, true, kCheap, nullptr},
    {OpId::kOr, Domain::kBool, true, true, kCheap, nullptr},
};

OpSchema MakeBinary(const BinaryRow& row) {
  OpSchema schema(row.id);
  schema.inputs = {2, 2};
  schema.elementwise = true;
  schema.commutative = row.commutative;
  schema.cost = PerElement(row.flops);
  schema.infer = [row](const OpView& op, std::vector<TensorType>* out) {
    WEFT_RETURN_IF_ERROR(RequireDomain(op, 0, row.domain));
    WEFT_RETURN_IF_ERROR(RequireSameDType(op, 0, 1));
    WEFT_ASSIGN_OR_RETURN(Shape shape,
                          Broadcast(op, op.input(0).shape, op.input(1).shape));
    *out = {{row.gives_bool ? DType::kBool : op.input(0).dtype, shape}};
    return absl::OkStatus();
  };
  if (BinaryGradient gradient = row.gradient) {
    schema.gradient = [gradient](const GradientContext& g) {
      Expr a(g.emit, g.inputs[0]), b(g.emit, g.inputs[1]);
      Expr y(g.emit, g.outputs[0]), dy(g.emit, g.output_grads[0]);
      auto [da, db] = gradient(a, b, y, dy);
      return std::vector<Value>{SumTo(da, g.op.input(0).shape),
                                SumTo(db, g.op.input(1).shape)};
    };
  } else {
    schema.gradient = ZeroGradient;
  }
  return schema;
}

// --- Ops with attributes or more operands ----------------------------------

OpSchema MakeLeakyRelu() {
  OpSchema schema(OpId::kLeakyRelu);
  schema.inputs = {1, 1};
  schema.attrs = {AttrSpec::Default("alpha", 0.01)};
  schema.elementwise = true;
  schema.cost = PerElement(2 * kCheap);
  schema.infer = [](const OpView& op, std::vector<TensorType>* out) {
    WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
    return SameAsInput(op, out);
  };
  schema.gradient = [](const GradientContext& g) {
    Expr x(g.emit, g.inputs[0]), dy(g.emit, g.output_grads[0]);
    Expr negative = Apply("Less", {x, x.Like(0)});
    return std::vector<Value>{Where(negative, g.op.Float("alpha") * dy, dy)};
  };
  schema.decompose = [](const OpView& op, absl::Span<const Value> inputs,
                        NodeEmitter& emit) {
    Expr x(emit, inputs[0]);
    Expr negative = Apply("Less", {x, x.Like(0)});
    return std::vector<Value>{Where(negative, op.Float("alpha") * x, x)};
  };
  return schema;
}

// The argument of tanh in the approximate Gelu, and its derivative.
Expr GeluInner(const Expr& x) {
  return kSqrtTwoByPi * (x + kGeluCubic * (x * (x * x)));
}
Expr GeluInnerSlope(const Expr& x) {
  return kSqrtTwoByPi * (1.0 + (3 * kGeluCubic) * (x * x));
}

OpSchema MakeGelu() {
  OpSchema schema(OpId::kGelu);
  schema.inputs = {1, 1};
  schema.attrs = {AttrSpec::Default("approximate", "none")};
  schema.elementwise = true;
  schema.cost = PerElement(kTranscendental);
  schema.infer = [](const OpView& op, std::vector<TensorType>* out) {
    WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
    WEFT_RETURN_IF_ERROR(RequireOneOf(op, "approximate", {"none", "tanh"}));
    return SameAsInput(op, out);
  };
  schema.gradient = [](const GradientContext& g) -> std::vector<Value> {
    Expr x(g.emit, g.inputs[0]), dy(g.emit, g.output_grads[0]);
    return {Apply("weft.GeluGrad", {dy, x},
                  {{"approximate", g.op.String("approximate")}})};
  };
  schema.decompose = [](const OpView& op, absl::Span<const Value> inputs,
                        NodeEmitter& emit) -> std::vector<Value> {
    Expr x(emit, inputs[0]);
    if (op.String("approximate") == "none") return {x * NormalCdf(x)};
    return {x * (0.5 * (1.0 + Apply("Tanh", {GeluInner(x)})))};
  };
  return schema;
}

// No part of fused regions: as one loop it is several times as fast as its
// instructions one by one.
OpSchema MakeGeluGrad() {
  OpSchema schema(OpId::kGeluGrad);
  schema.inputs = {2, 2};
  schema.attrs = {AttrSpec::Default("approximate", "none")};
  schema.cost = PerElement(2 * kTranscendental);
  schema.signatures = ElementwiseSignatures;
  schema.infer = [](const OpView& op, std::vector<TensorType>* out) {
    WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
    WEFT_RETURN_IF_ERROR(RequireSameType(op, 0, 1));
    WEFT_RETURN_IF_ERROR(RequireOneOf(op, "approximate", {"none", "tanh"}));
    return SameAsInput(op, out);
  };
  schema.decompose = [](const OpView& op, absl::Span<const Value> inputs,
                        NodeEmitter& emit) -> std::vector<Value> {
    Expr dy(emit, inputs[0]), x(emit, inputs[1]);
    if (op.String("approximate") == "none") {
      return {dy * (NormalCdf(x) + x * NormalPdf(x))};
    }
    Expr t = Apply("Tanh", {GeluInner(x)});
    Expr curve = (1.0 - t * t) * GeluInnerSlope(x);
    return {dy * (0.5 * (1.0 + t) + 0.5 * (x * curve))};
  };
  return schema;
}

OpSchema MakeCast() {
  OpSchema schema(OpId::kCast);
  schema.inputs = {1, 1};
  schema.attrs = {AttrSpec::Required("to", AttrKind::kDType)};
  schema.elementwise = true;
  schema.infer = [](const OpView& op, std::vector<TensorType>* out) {
    if (DTypeSize(op.Type("to")) == 0) {
      return op.Error(ErrorCode::kBadAttribute, "attribute 'to' is no dtype");
    }
    *out = {{op.Type("to"), op.input(0).shape}};
    return absl::OkStatus();
  };
  schema.gradient = [](const GradientContext& g) -> std::vector<Value> {
    DType from = g.op.input(0).dtype;
    if (!IsFloat(from) || !IsFloat(g.op.Type("to"))) return {Value{}};
    return {Cast(Expr(g.emit, g.output_grads[0]), from)};
  };
  return schema;
}

absl::Status InferWhere(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireDType(op, 0, DType::kBool));
  WEFT_RETURN_IF_ERROR(RequireSameDType(op, 1, 2));
  WEFT_ASSIGN_OR_RETURN(Shape branches,
                        Broadcast(op, op.input(1).shape, op.input(2).shape));
  WEFT_ASSIGN_OR_RETURN(Shape shape,
                        Broadcast(op, op.input(0).shape, branches));
  *out = {{op.input(1).dtype, shape}};
  return absl::OkStatus();
}

OpSchema MakeWhere() {
  OpSchema schema(OpId::kWhere);
  schema.inputs = {3, 3};
  schema.elementwise = true;
  schema.cost = PerElement(kCheap);
  schema.infer = InferWhere;
  schema.gradient = [](const GradientContext& g) -> std::vector<Value> {
    Expr condition(g.emit, g.inputs[0]), dy(g.emit, g.output_grads[0]);
    return {Value{},
            SumTo(Where(condition, dy, dy.Like(0)), g.op.input(1).shape),
            SumTo(Where(condition, dy.Like(0), dy), g.op.input(2).shape)};
  };
  return schema;
}

}  // namespace

void RegisterElementwiseOps(OpRegistry* registry) {
  for (const UnaryRow& row : kUnary) registry->Add(MakeUnary(row));
  for (const BinaryRow& row : kBinary) registry->Add(MakeBinary(row));
  registry->Add(MakeLeakyRelu());
  registry->Add(MakeGelu());
  registry->Add(MakeGeluGrad());
  registry->Add(MakeCast());
  registry->Add(MakeWhere());
}

}  // namespace weft
