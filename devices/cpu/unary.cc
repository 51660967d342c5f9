// Elementwise functions of one operand: Neg Abs Relu Sign on all numbers, the
// others on floats.
#include "devices/cpu/factories.h"
#include "devices/cpu/map.h"
#include "devices/cpu/scalar_ops.h"

WEFT_CPU_BEGIN
namespace {

template <class T, class O, int64_t kCost = kPlain>
std::unique_ptr<Kernel> Make(const Op& op) {
  LoopPlan<2> plan(op.out[0], {&op.in[0]});
  return MakeKernel(
      [plan](const Args& a) {
        auto apply = [](T x) {
          using C = Compute<T>;
          return static_cast<T>(O::template Apply<C>(static_cast<C>(x)));
        };
        Map1(plan, a.Output<T>(0), a.Input<T>(0), apply, kCost);
      },
      InPlaceMask(op));
}

template <class T>
std::unique_ptr<Kernel> MakeLeakyRelu(const Op& op) {
  using C = Compute<T>;
  LoopPlan<2> plan(op.out[0], {&op.in[0]});
  C alpha = static_cast<C>(op.Float("alpha", 0.01));
  return MakeKernel(
      [plan, alpha](const Args& a) {
        Map1(plan, a.Output<T>(0), a.Input<T>(0), [alpha](T x) {
          return static_cast<T>(LeakyReluOp::Apply(static_cast<C>(x), alpha));
        });
      },
      InPlaceMask(op));
}

template <class T>
std::unique_ptr<Kernel> MakeFloat(const Op& op) {
  switch (op.id) {
    case WEFT_OP_EXP:
      return Make<T, ExpOp, kCostly>(op);
    case WEFT_OP_LOG:
      return Make<T, LogOp, kCostly>(op);
    case WEFT_OP_SQRT:
      return Make<T, SqrtOp>(op);
    case WEFT_OP_LEAKY_RELU:
      return MakeLeakyRelu<T>(op);
    case WEFT_OP_SIGMOID:
      return Make<T, SigmoidOp, kCostly>(op);
    case WEFT_OP_TANH:
      return Make<T, TanhOp, kCostly>(op);
    case WEFT_OP_ERF:
      return Make<T, ErfOp, kCostly>(op);
    case WEFT_OP_SOFTPLUS:
      return Make<T, SoftplusOp, kCostly>(op);
    case WEFT_OP_RECIPROCAL:
      return Make<T, ReciprocalOp>(op);
    case WEFT_OP_GELU: {
      std::string kind = op.String("approximate", "none");
      if (kind == "none") return Make<T, GeluOp, kCostly>(op);
      if (kind == "tanh") return Make<T, GeluTanhOp, kCostly>(op);
      return op.Invalid("approximate must be 'none' or 'tanh'");
    }
    default:
      return nullptr;
  }
}

template <class T>
std::unique_ptr<Kernel> MakeNumber(const Op& op) {
  switch (op.id) {
    case WEFT_OP_NEG:
      return Make<T, NegOp>(op);
    case WEFT_OP_ABS:
      return Make<T, AbsOp>(op);
    case WEFT_OP_RELU:
      return Make<T, ReluOp>(op);
    case WEFT_OP_SIGN:
      return Make<T, SignOp>(op);
    default:
      return nullptr;
  }
}

}  // namespace

std::unique_ptr<Kernel> MakeUnary(const Op& op) {
  if (!op.Arity(1, 1)) return nullptr;
  uint32_t dtype = op.in[0].dtype;
  if (!op.Check(dtype == op.out[0].dtype, "the types differ") ||
      !op.Check(op.in[0].SameDims(op.out[0]), "the shapes differ")) {
    return nullptr;
  }
  std::unique_ptr<Kernel> kernel = WithNumber(dtype, [&](auto tag) {
    return MakeNumber<typename decltype(tag)::Storage>(op);
  });
  if (kernel != nullptr) return kernel;
  return WithFloat(dtype, [&](auto tag) {
    return MakeFloat<typename decltype(tag)::Storage>(op);
  });
}

WEFT_CPU_END
