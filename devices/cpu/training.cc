// Scalars of a training step: gradient norm, clipping factor, learning rate,
// loss scale.
#include "devices/cpu/factories.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/reduction.h"

WEFT_CPU_BEGIN
namespace {

constexpr int64_t kNormBlock = 4096;

int64_t NormBlocks(int64_t n) { return (n + kNormBlock - 1) / kNormBlock; }

// The sum of each block of 4096 elements.
template <class T>
void SumSquares(const T* x, int64_t n, double* sums) {
  const int64_t blocks = NormBlocks(n);
  const int64_t group = RowBlock(blocks, kNormBlock, kPlain);
  ParallelBlocks(blocks, group, [=](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      sums[b] = ReduceBlock<SumOf, double>(
          b * kNormBlock, std::min(n, (b + 1) * kNormBlock), [x](int64_t k) {
            const double v = static_cast<double>(static_cast<Compute<T>>(x[k]));
            return v * v;
          });
    }
  });
}

bool CheckScalarResult(const Op& op) {
  return op.Check(op.out[0].count == 1 && (op.out[0].dtype == WEFT_F32 ||
                                           op.out[0].dtype == WEFT_F64),
                  "the result is not a scalar float");
}

void WriteScalar(const Args& a, uint32_t dtype, double value) {
  if (dtype == WEFT_F64) {
    a.Output<double>(0)[0] = value;
  } else {
    a.Output<float>(0)[0] = static_cast<float>(value);
  }
}

// Blocks of 4096 elements of each operand, summed in double; a balanced tree
// over all blocks in operand order; `finish` of that.
std::unique_ptr<Kernel> MakeOfSquares(const Op& op, double (*finish)(double)) {
  struct Part {
    uint32_t dtype;
    int64_t count;
  };
  std::vector<Part> parts;
  uint64_t blocks = 0;
  for (const Tensor& t : op.in) {
    if (!op.Check(IsFloatType(t.dtype), "an operand that is not a float")) {
      return nullptr;
    }
    parts.push_back({t.dtype, t.count});
    blocks += static_cast<uint64_t>(NormBlocks(t.count));
  }
  const uint32_t dtype = op.out[0].dtype;
  auto run = [parts = std::move(parts), dtype, finish](const Args& a) {
    double* const first = static_cast<double*>(a.workspace);
    double* sums = first;
    for (size_t i = 0; i < parts.size(); ++i) {
      const int64_t n = parts[i].count;
      const int k = static_cast<int>(i);
      switch (parts[i].dtype) {
        case WEFT_F32:
          SumSquares(a.Input<float>(k), n, sums);
          break;
        case WEFT_F64:
          SumSquares(a.Input<double>(k), n, sums);
          break;
        case WEFT_F16:
          SumSquares(a.Input<Half>(k), n, sums);
          break;
        default:
          SumSquares(a.Input<Bfloat>(k), n, sums);
          break;
      }
      sums += NormBlocks(n);
    }
    TreeOf<SumOf, double> tree;
    for (const double* sum = first; sum != sums; ++sum) tree.Add(*sum);
    WriteScalar(a, dtype, finish(tree.Result()));
  };
  return MakeKernel(std::move(run), 0, blocks * sizeof(double));
}

}  // namespace

std::unique_ptr<Kernel> MakeGlobalNorm(const Op& op) {
  if (!op.Arity(1, WEFT_MAX_OPERANDS, 1, 1) || !CheckScalarResult(op)) {
    return nullptr;
  }
  return MakeOfSquares(op, [](double sum) { return std::sqrt(sum); });
}

std::unique_ptr<Kernel> MakeSumOfSquares(const Op& op) {
  if (!op.Arity(1, 1) || !CheckScalarResult(op)) return nullptr;
  return MakeOfSquares(op, [](double sum) { return sum; });
}

// min(1, clip_norm / norm); NaN stays NaN.
std::unique_ptr<Kernel> MakeClipScale(const Op& op) {
  if (!op.Arity(1, 1) || !CheckScalarResult(op) ||
      !op.Check(op.in[0].count == 1 && op.in[0].dtype == op.out[0].dtype,
                "the norm is not a scalar of the result's type")) {
    return nullptr;
  }
  const double clip = op.Float("clip_norm", 1.0);
  const uint32_t dtype = op.out[0].dtype;
  return MakeKernel([clip, dtype](const Args& a) {
    const double norm = dtype == WEFT_F64
                            ? a.Input<double>(0)[0]
                            : static_cast<double>(a.Input<float>(0)[0]);
    const double ratio = clip / norm;
    WriteScalar(a, dtype, ratio > 1.0 ? 1.0 : ratio);
  });
}

// Weft defines the value bit by bit, so that all devices agree: in double, in
// this order of operations. While step < warmup_steps it is base times
// (step + 1) / warmup_steps; after that the schedule's.
std::unique_ptr<Kernel> MakeLearningRate(const Op& op) {
  if (!op.Arity(1, 1) || !CheckScalarResult(op) ||
      !op.Check(op.in[0].dtype == WEFT_I64 && op.in[0].count == 2,
                "the counter is not i64[2]")) {
    return nullptr;
  }
  const std::string schedule = op.String("schedule", "constant");
  const bool stepped = schedule == "step", cosine = schedule == "cosine";
  if (!stepped && !cosine && schedule != "constant") {
    return op.Unsupported("an unknown schedule");
  }
  const double base = op.Float("base", 0.0), gamma = op.Float("gamma", 0.1);
  const double final_rate = op.Float("final", 0.0);
  const int64_t warmup = op.Int("warmup_steps", 0);
  const int64_t total = op.Int("total_steps", 0);
  const int64_t step_size = op.Int("step_size", 0);
  if (!op.Check(!stepped || step_size > 0, "step_size must be positive") ||
      !op.Check(!cosine || total > warmup,
                "total_steps must be above warmup_steps")) {
    return nullptr;
  }
  const uint32_t dtype = op.out[0].dtype;
  return MakeKernel([=](const Args& a) {
    const int64_t step = a.Input<int64_t>(0)[0];
    double rate = base;
    if (step < warmup) {
      rate = base * static_cast<double>(step + 1) / static_cast<double>(warmup);
    } else if (stepped) {
      rate = base * std::pow(gamma, static_cast<double>(step / step_size));
    } else if (cosine) {
      double progress = static_cast<double>(step - warmup) /
                        static_cast<double>(total - warmup);
      if (progress > 1.0) progress = 1.0;
      rate = final_rate +
             (base - final_rate) *
                 (0.5 * (1.0 + std::cos(3.14159265358979323846 * progress)));
    }
    WriteScalar(a, dtype, rate);
  });
}

// (scale, good_steps, norm): the scale falls where the norm is not finite, not
// below 1, and grows after growth_interval finite ones in a row, unless to
// infinity.
std::unique_ptr<Kernel> MakeLossScaleUpdate(const Op& op) {
  if (!op.Arity(3, 2)) return nullptr;
  bool fits = true;
  for (const auto* list : {&op.in, &op.out}) {
    for (const Tensor& t : *list) {
      fits = fits && t.dtype == WEFT_F32 && t.count == 1;
    }
  }
  if (!op.Check(fits, "an operand that is no f32 scalar")) return nullptr;
  const auto growth = static_cast<float>(op.Float("growth_factor", 2.0));
  const auto backoff = static_cast<float>(op.Float("backoff_factor", 0.5));
  const auto interval = static_cast<float>(op.Int("growth_interval", 2000));
  return MakeKernel(
      [=](const Args& a) {
        const float scale = a.Input<float>(0)[0];
        const float good_steps = a.Input<float>(1)[0] + 1.0f;
        float next = scale, steps = 0.0f;
        if (!std::isfinite(a.Input<float>(2)[0])) {
          next = std::max(1.0f, backoff * scale);
        } else if (good_steps < interval) {
          steps = good_steps;
        } else if (std::isfinite(growth * scale)) {
          next = growth * scale;
        }
        a.Output<float>(0)[0] = next;
        a.Output<float>(1)[0] = steps;
      },
      1u);
}

WEFT_CPU_END
