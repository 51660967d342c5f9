// Random tensors and the dropout of training. All are pure functions of seed,
// stream and the counter {step, micro-batch}; see philox.h.
#include "devices/cpu/cuts.h"
#include "devices/cpu/factories.h"
#include "devices/cpu/numeric.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/philox.h"

WEFT_CPU_BEGIN
namespace {

bool CheckCounter(const Op& op, const Tensor& counter) {
  return op.Check(counter.dtype == WEFT_I64 && counter.count == 2,
                  "the counter is not i64[2]");
}

// Where the elements of this micro-batch begin in the step's tensor.
uint64_t FirstElement(const int64_t* counter, int64_t count) {
  return static_cast<uint64_t>(counter[1]) * static_cast<uint64_t>(count);
}

}  // namespace

std::unique_ptr<Kernel> MakeRandom(const Op& op) {
  if (!op.Arity(1, 1) || !CheckCounter(op, op.in[0])) return nullptr;
  if (!op.Check(op.DType("dtype", op.out[0].dtype) == op.out[0].dtype,
                "the result is not of the type 'dtype'")) {
    return nullptr;
  }
  const bool normal = op.id == WEFT_OP_RANDOM_NORMAL;
  const double base = normal ? op.Float("mean", 0.0) : op.Float("low", 0.0);
  const double range =
      normal ? op.Float("scale", 1.0) : op.Float("high", 1.0) - base;
  const int64_t seed = op.Int("seed", 0), stream = op.Int("stream", 0);
  const int64_t count = op.out[0].count;
  Cuts cuts;
  if (!cuts.Read(op, op.out[0].dims, op.out[0].rank)) return nullptr;
  return WithFloat(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([=](const Args& a) {
      const int64_t* counter = a.Input<int64_t>(0);
      T* y = a.Output<T>(0);
      const RandomSource source(seed, stream, counter[0]);
      const uint64_t first = FirstElement(counter, cuts.count());
      const auto fill = [&](int64_t position, int64_t at, int64_t n) {
        source.ForEachBlock(
            first + static_cast<uint64_t>(position), n,
            [&](const RandomBlock& block, int64_t i, int lane, int count) {
              for (int k = 0; k < count; ++k) {
                const double r =
                    normal ? block.Normal(lane + k) : block.Uniform(lane + k);
                y[at + i + k] = static_cast<T>(base + r * range);
              }
            });
      };
      ParallelElements(count, kCostly, [&](int64_t begin, int64_t end) {
        cuts.ForEachRun(begin, end, fill);
      });
    });
  });
}

std::unique_ptr<Kernel> MakeDropoutTraining(const Op& op) {
  if (!op.Arity(2, 2, 1, 2) || !CheckCounter(op, op.in[1])) return nullptr;
  const bool has_mask = op.HasOutput(1);
  if (!op.Check(
          op.in[0].dtype == op.out[0].dtype && op.in[0].SameDims(op.out[0]),
          "operand and result differ") ||
      !op.Check(!has_mask || (op.out[1].dtype == WEFT_BOOL &&
                              op.out[1].SameDims(op.out[0])),
                "a mask that does not fit")) {
    return nullptr;
  }
  const double ratio = op.Float("ratio", 0.5);
  if (!op.Check(ratio >= 0 && ratio <= 1, "ratio outside of [0, 1]")) {
    return nullptr;
  }
  const int64_t seed = op.Int("seed", 0), stream = op.Int("stream", 0);
  const int64_t count = op.out[0].count;
  Cuts cuts;
  if (!cuts.Read(op, op.out[0].dims, op.out[0].rank)) return nullptr;
  return WithFloat(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    using C = Compute<T>;
    return MakeKernel(
        [=](const Args& a) {
          const T* x = a.Input<T>(0);
          const int64_t* counter = a.Input<int64_t>(1);
          T* y = a.Output<T>(0);
          uint8_t* mask = has_mask ? a.Output<uint8_t>(1) : nullptr;
          const C kept = static_cast<C>(1 - ratio);
          const uint32_t threshold = KeepThreshold(ratio);
          const RandomSource source(seed, stream, counter[0]);
          const uint64_t first = FirstElement(counter, cuts.count());
          const auto drop = [&](int64_t position, int64_t at, int64_t count) {
            source.ForEachWords(
                first + static_cast<uint64_t>(position), count,
                [&](const uint32_t* words, int64_t i, int64_t n) {
                  const T* from = x + at + i;
                  T* to = y + at + i;
                  if (mask != nullptr) {
                    uint8_t* keep = mask + at + i;
                    for (int64_t k = 0; k < n; ++k) {
                      keep[k] = (words[k] >> 8) >= threshold;
                    }
                  }
                  for (int64_t k = 0; k < n; ++k) {
                    const C v = static_cast<C>(from[k]) / kept;
                    to[k] =
                        static_cast<T>((words[k] >> 8) >= threshold ? v : C(0));
                  }
                });
          };
          ParallelElements(count, kCostly, [&](int64_t begin, int64_t end) {
            cuts.ForEachRun(begin, end, drop);
          });
        },
        InPlaceMask(op) & 1u);
  });
}

std::unique_ptr<Kernel> MakeDropoutGrad(const Op& op) {
  if (!op.Arity(2, 1) ||
      !op.Check(op.in[0].dtype == op.out[0].dtype &&
                    op.in[0].SameDims(op.out[0]) &&
                    op.in[1].dtype == WEFT_BOOL && op.in[1].SameDims(op.out[0]),
                "operands that do not fit")) {
    return nullptr;
  }
  const double ratio = op.Float("ratio", 0.5);
  const int64_t count = op.out[0].count;
  return WithFloat(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    using C = Compute<T>;
    return MakeKernel(
        [=](const Args& a) {
          const T* dy = a.Input<T>(0);
          const uint8_t* mask = a.Input<uint8_t>(1);
          T* dx = a.Output<T>(0);
          const C kept = static_cast<C>(1 - ratio);
          ParallelElements(count, kPlain, [=](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
              const C factor = mask[i] != 0 ? C(1) : C(0);
              dx[i] = static_cast<T>(static_cast<C>(dy[i]) * factor / kept);
            }
          });
        },
        InPlaceMask(op) & 1u);
  });
}

WEFT_CPU_END
