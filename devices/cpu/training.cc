// Scalars of a training step: gradient norm, clipping factor, learning rate,
// loss scale.
#include "devices/cpu/factories.h"
#include "devices/cpu/squares.h"

WEFT_CPU_BEGIN
namespace {

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

// Some elements of an operand, whose squares are summed.
struct Squares {
  int operand = 0;
  uint32_t dtype = 0;
  int64_t begin = 0;
  int64_t count = 0;

  // The sums of their blocks.
  void Sum(const Args& a, double* sums) const {
    switch (dtype) {
      case WEFT_F32:
        return SumSquares(a.Input<float>(operand) + begin, count, sums);
      case WEFT_F64:
        return SumSquares(a.Input<double>(operand) + begin, count, sums);
      case WEFT_F16:
        return SumSquares(a.Input<Half>(operand) + begin, count, sums);
      default:
        return SumSquares(a.Input<Bfloat>(operand) + begin, count, sums);
    }
  }
};

bool CheckFloats(const Op& op) {
  return op.Check(
      std::all_of(op.in.begin(), op.in.end(),
                  [](const Tensor& t) { return IsFloatType(t.dtype); }),
      "an operand that is not a float");
}

}  // namespace

// A balanced tree over the blocks of all operands, in their order.
std::unique_ptr<Kernel> MakeGlobalNorm(const Op& op) {
  if (!op.Arity(1, WEFT_MAX_OPERANDS, 1, 1) || !CheckScalarResult(op) ||
      !CheckFloats(op)) {
    return nullptr;
  }
  std::vector<Squares> operands;
  int64_t blocks = 0;
  for (const Tensor& t : op.in) {
    operands.push_back(
        {static_cast<int>(operands.size()), t.dtype, 0, t.count});
    blocks += SquareBlocks(t.count);
  }
  auto run = [operands = std::move(operands), blocks,
              dtype = op.out[0].dtype](const Args& a) {
    double* const sums = static_cast<double*>(a.workspace);
    double* next = sums;
    for (const Squares& operand : operands) {
      operand.Sum(a, next);
      next += SquareBlocks(operand.count);
    }
    WriteScalar(a, dtype, std::sqrt(TreeOfSums(sums, blocks)));
  };
  return MakeKernel(std::move(run), 0,
                    static_cast<uint64_t>(blocks) * sizeof(double));
}

// A tree for each part of each operand; those of operands follow one another.
std::unique_ptr<Kernel> MakeSumOfSquares(const Op& op) {
  const int64_t parts = op.Int("parts", 1);
  const std::vector<int64_t> lengths = op.Ints("blocks");
  if (!op.Arity(1, WEFT_MAX_OPERANDS, 1, 1) || !CheckFloats(op) ||
      !op.Check(parts >= 1 && op.out[0].count == parts &&
                    op.out[0].dtype == WEFT_F64 &&
                    lengths.size() == (parts == 1 ? 0 : op.in.size()),
                "parts or a result that do not fit the operands")) {
    return nullptr;
  }
  std::vector<Squares> pieces;  // operand after operand
  int64_t blocks = 0;           // of the longest
  for (size_t i = 0; i < op.in.size(); ++i) {
    const Tensor& t = op.in[i];
    const int64_t length = parts == 1 ? t.count : lengths[i];
    if (!op.Check(length <= t.count && length >= (t.count + parts - 1) / parts,
                  "parts that are not an operand")) {
      return nullptr;
    }
    blocks = std::max(blocks, SquareBlocks(length));
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t begin = std::min(t.count, part * length);
      pieces.push_back({static_cast<int>(i), t.dtype, begin,
                        std::min(length, t.count - begin)});
    }
  }
  auto run = [pieces = std::move(pieces), parts](const Args& a) {
    double* const sums = static_cast<double*>(a.workspace);
    double* const out = a.Output<double>(0);
    for (size_t i = 0; i < pieces.size(); ++i) {
      pieces[i].Sum(a, sums);
      const double sum = TreeOfSums(sums, SquareBlocks(pieces[i].count));
      const size_t part = i % static_cast<size_t>(parts);
      out[part] = i == part ? sum : out[part] + sum;
    }
  };
  return MakeKernel(std::move(run), 0,
                    static_cast<uint64_t>(blocks) * sizeof(double));
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
