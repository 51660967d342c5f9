// Comparisons, logic on bool, and the choice by a bool.
#include "devices/cpu/factories.h"
#include "devices/cpu/map.h"
#include "devices/cpu/scalar_ops.h"

WEFT_CPU_BEGIN
namespace {

template <class T, class O>
std::unique_ptr<Kernel> MakeComparison(const LoopPlan<3>& plan) {
  return MakeKernel([plan](const Args& a) {
    Map2(plan, a.Output<Bool>(0), a.Input<T>(0), a.Input<T>(1), [](T x, T y) {
      using C = Compute<T>;
      return Bool(O::template Apply<C>(static_cast<C>(x), static_cast<C>(y)));
    });
  });
}

bool CheckPair(const Op& op) {
  if (!op.Arity(2, 1)) return false;
  return op.Check(op.in[0].dtype == op.in[1].dtype,
                  "operands of different types") &&
         op.Check(op.out[0].dtype == WEFT_BOOL, "the result is not bool") &&
         op.Check(IsBroadcastOf(op.out[0], {&op.in[0], &op.in[1]}),
                  "the result is not the broadcast of the operands");
}

// The element type as an unsigned integer of its size: a choice moves bits.
template <class U>
std::unique_ptr<Kernel> MakeSelect(const Op& op, const LoopPlan<4>& plan) {
  return MakeKernel(
      [plan](const Args& a) {
        U* z = a.Output<U>(0);
        const uint8_t* c = a.Input<uint8_t>(0);
        const U* x = a.Input<U>(1);
        const U* y = a.Input<U>(2);
        auto run = [&](const int64_t* at, const int64_t* step, int64_t n) {
          U* zp = z + at[0];
          const uint8_t* cp = c + at[1];
          const U* xp = x + at[2];
          const U* yp = y + at[3];
          if (step[1] == 1 && step[2] == 1 && step[3] == 1) {
            for (int64_t i = 0; i < n; ++i) {
              const U chosen = xp[i], other = yp[i];  // both: no branch
              zp[i] = cp[i] ? chosen : other;
            }
            return;
          }
          for (int64_t i = 0; i < n; ++i) {
            zp[i] = cp[i * step[1]] ? xp[i * step[2]] : yp[i * step[3]];
          }
        };
        ParallelElements(plan.count(), kPlain, [&](int64_t begin, int64_t end) {
          plan.ForEachRun(begin, end, run);
        });
      },
      InPlaceMask(op));
}

}  // namespace

std::unique_ptr<Kernel> MakeCompare(const Op& op) {
  if (!CheckPair(op)) return nullptr;
  LoopPlan<3> plan(op.out[0], {&op.in[0], &op.in[1]});
  if (op.in[0].dtype == WEFT_BOOL && op.id == WEFT_OP_EQUAL) {
    return MakeKernel([plan](const Args& a) {
      Map2(plan, a.Output<Bool>(0), a.Input<Bool>(0), a.Input<Bool>(1),
           [](Bool x, Bool y) { return Bool((x.byte != 0) == (y.byte != 0)); });
    });
  }
  return WithNumber(op.in[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    switch (op.id) {
      case WEFT_OP_EQUAL:
        return MakeComparison<T, EqualOp>(plan);
      case WEFT_OP_LESS:
        return MakeComparison<T, LessOp>(plan);
      case WEFT_OP_LESS_OR_EQUAL:
        return MakeComparison<T, LessOrEqualOp>(plan);
      case WEFT_OP_GREATER:
        return MakeComparison<T, GreaterOp>(plan);
      case WEFT_OP_GREATER_OR_EQUAL:
        return MakeComparison<T, GreaterOrEqualOp>(plan);
      default:
        return nullptr;
    }
  });
}

std::unique_ptr<Kernel> MakeLogical(const Op& op) {
  if (!CheckPair(op)) return nullptr;
  if (!op.Check(op.in[0].dtype == WEFT_BOOL, "operands are not bool")) {
    return nullptr;
  }
  LoopPlan<3> plan(op.out[0], {&op.in[0], &op.in[1]});
  bool is_and = op.id == WEFT_OP_AND;
  return MakeKernel(
      [plan, is_and](const Args& a) {
        auto run = [&](auto f) {
          Map2(plan, a.Output<Bool>(0), a.Input<Bool>(0), a.Input<Bool>(1), f);
        };
        if (is_and) {
          run([](Bool x, Bool y) { return Bool(x.byte != 0 && y.byte != 0); });
        } else {
          run([](Bool x, Bool y) { return Bool((x.byte | y.byte) != 0); });
        }
      },
      InPlaceMask(op));
}

std::unique_ptr<Kernel> MakeNot(const Op& op) {
  if (!op.Arity(1, 1)) return nullptr;
  if (!op.Check(op.in[0].dtype == WEFT_BOOL && op.out[0].dtype == WEFT_BOOL,
                "operand and result must be bool") ||
      !op.Check(op.in[0].SameDims(op.out[0]), "shapes differ")) {
    return nullptr;
  }
  LoopPlan<2> plan(op.out[0], {&op.in[0]});
  return MakeKernel(
      [plan](const Args& a) {
        Map1(plan, a.Output<Bool>(0), a.Input<Bool>(0),
             [](Bool x) { return Bool(x.byte == 0); });
      },
      InPlaceMask(op));
}

std::unique_ptr<Kernel> MakeWhere(const Op& op) {
  if (!op.Arity(3, 1)) return nullptr;
  const Tensor& out = op.out[0];
  if (!op.Check(op.in[0].dtype == WEFT_BOOL, "the condition is not bool") ||
      !op.Check(op.in[1].dtype == out.dtype && op.in[2].dtype == out.dtype,
                "operands of different types") ||
      !op.Check(IsBroadcastOf(out, {&op.in[0], &op.in[1], &op.in[2]}),
                "the result is not the broadcast of the operands")) {
    return nullptr;
  }
  LoopPlan<4> plan(out, {&op.in[0], &op.in[1], &op.in[2]});
  switch (SizeOf(out.dtype)) {
    case 1:
      return MakeSelect<uint8_t>(op, plan);
    case 2:
      return MakeSelect<uint16_t>(op, plan);
    case 4:
      return MakeSelect<uint32_t>(op, plan);
    default:
      return MakeSelect<uint64_t>(op, plan);
  }
}

WEFT_CPU_END
