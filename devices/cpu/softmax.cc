// Softmax and LogSoftmax along one axis.
#include "devices/cpu/softmax.h"

#include "devices/cpu/factories.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/via_float.h"

WEFT_CPU_BEGIN
namespace {

std::unique_ptr<Kernel> SoftmaxFloat(const Op& op) {
  if (!op.Arity(1, 1)) return nullptr;
  const Tensor& x = op.in[0];
  if (!op.Check(x.dtype == op.out[0].dtype, "the types differ") ||
      !op.Check(x.SameDims(op.out[0]), "the shapes differ")) {
    return nullptr;
  }
  const int axis = op.Axis(op.Int("axis", -1), x.rank);
  if (axis < 0) return nullptr;
  const int64_t outer = Product(x.dims, 0, axis), n = x.dims[axis];
  const int64_t inner = Product(x.dims, axis + 1, x.rank);
  const bool log = op.id == WEFT_OP_LOG_SOFTMAX;
  return WithF32F64(x.dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel(
        [=](const Args& a) {
          const int64_t rows = outer * inner;
          const int64_t block = RowBlock(rows, n, kCostly);
          const bool far = inner == 1 && RowsAreFar<T>(rows, n);
          ParallelBlocks(rows, block, [&](int64_t begin, int64_t end) {
            RowPlace<T> place(far);
            for (int64_t r = begin; r < end; ++r) {
              const int64_t at = r / inner * n * inner + r % inner;
              const T* row = a.Input<T>(0) + at;
              T* to = place.Of(a.Output<T>(0) + at);
              log ? LogSoftmaxRow(row, to, n, inner)
                  : SoftmaxRow(row, to, n, inner);
              place.Write(a.Output<T>(0) + at, n);
            }
          });
        },
        InPlaceMask(op));
  });
}

}  // namespace

std::unique_ptr<Kernel> MakeSoftmax(const Op& op) {
  return ViaFloat(op, SoftmaxFloat);
}

WEFT_CPU_END
