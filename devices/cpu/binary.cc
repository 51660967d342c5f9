// Add Sub Mul Div Pow Max Min, on every float and integer type.
#include "devices/cpu/factories.h"
#include "devices/cpu/map.h"
#include "devices/cpu/scalar_ops.h"

WEFT_CPU_BEGIN
namespace {

template <class T, class O>
std::unique_ptr<Kernel> Make(const Op& op, const LoopPlan<3>& plan) {
  return MakeKernel(
      [plan](const Args& a) {
        Map2(plan, a.Output<T>(0), a.Input<T>(0), a.Input<T>(1), [](T x, T y) {
          using C = Compute<T>;
          return static_cast<T>(
              O::template Apply<C>(static_cast<C>(x), static_cast<C>(y)));
        });
      },
      InPlaceMask(op));
}

}  // namespace

std::unique_ptr<Kernel> MakeBinary(const Op& op) {
  if (!op.Arity(2, 1)) return nullptr;
  if (op.in[0].dtype != op.in[1].dtype || op.in[0].dtype != op.out[0].dtype) {
    return op.Invalid("operands of different types");
  }
  if (!IsBroadcastOf(op.out[0], {&op.in[0], &op.in[1]})) {
    return op.Invalid("the result is not the broadcast of the operands");
  }
  LoopPlan<3> plan(op.out[0], {&op.in[0], &op.in[1]});
  return WithNumber(op.in[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    switch (op.id) {
      case WEFT_OP_ADD:
        return Make<T, AddOp>(op, plan);
      case WEFT_OP_SUB:
        return Make<T, SubOp>(op, plan);
      case WEFT_OP_MUL:
        return Make<T, MulOp>(op, plan);
      case WEFT_OP_DIV:
        return Make<T, DivOp>(op, plan);
      case WEFT_OP_POW:
        return Make<T, PowOp>(op, plan);
      case WEFT_OP_MAX:
        return Make<T, MaxOp>(op, plan);
      case WEFT_OP_MIN:
        return Make<T, MinOp>(op, plan);
      default:
        return nullptr;
    }
  });
}

WEFT_CPU_END
