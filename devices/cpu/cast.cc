// Cast between any two types.
#include "devices/cpu/factories.h"
#include "devices/cpu/map.h"
#include "devices/cpu/numeric.h"

WEFT_CPU_BEGIN
namespace {

template <class S, class D>
std::unique_ptr<Kernel> Make(const Op& op) {
  LoopPlan<2> plan(op.out[0], {&op.in[0]});
  return MakeKernel(
      [plan](const Args& a) {
        Map1(plan, a.Output<D>(0), a.Input<S>(0),
             [](S x) { return Convert<D>(x); });
      },
      InPlaceMask(op));
}

template <class F>
std::unique_ptr<Kernel> WithAny(uint32_t dtype, F f) {
  if (dtype == WEFT_BOOL) return f(Tag<Bool>());
  return WithNumber(dtype, f);
}

}  // namespace

std::unique_ptr<Kernel> MakeCast(const Op& op) {
  if (!op.Arity(1, 1)) return nullptr;
  if (!op.Check(op.DType("to", op.out[0].dtype) == op.out[0].dtype,
                "the result is not of the type 'to'") ||
      !op.Check(op.in[0].SameDims(op.out[0]), "the shapes differ")) {
    return nullptr;
  }
  return WithAny(op.in[0].dtype, [&](auto from) {
    using S = typename decltype(from)::Storage;
    return WithAny(op.out[0].dtype, [&](auto to) {
      return Make<S, typename decltype(to)::Storage>(op);
    });
  });
}

WEFT_CPU_END
