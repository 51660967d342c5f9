// A vendor's device, whole: a matrix product of its own, and the four small
// kernels that keep a perceptron's products on the device. Weft makes MatMul,
// StridedCopy and Add of a Gemm, computes on the host what has no kernel here,
// and puts the copies in. All of f32.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "plugins/sdk/weft_plugin.hpp"

namespace {

// y[m, n] = a[m, k] b[k, n] for f32 matrices without batches. Each row of y is
// summed in the order of k, whatever thread has it: equal bits every time.
class MatMul : public weft_sdk::Kernel {
 public:
  static bool Match(const weft_sdk::Op& op, weft_match* answer) {
    return op.num_in() == 2 && op.num_out() == 1 && op.all(WEFT_F32) &&
           op.in(0).rank() == 2 && op.in(1).rank() == 2;
  }
  explicit MatMul(const weft_sdk::Op& op)
      : m_(op.in(0).dim(0)), k_(op.in(0).dim(1)), n_(op.in(1).dim(1)) {}

  void Launch(const weft_sdk::Call& call) const override {
    const float* a = call.in<float>(0);
    const float* b = call.in<float>(1);
    float* y = call.out<float>(0);
    const int64_t blocks = (m_ + kRows - 1) / kRows;
    weft_sdk::Host::ParallelFor(blocks, [&](uint64_t block) {
      const int64_t begin = static_cast<int64_t>(block) * kRows;
      Rows(a, b, y, begin, std::min(m_, begin + kRows));
    });
  }

 private:
  static constexpr int64_t kRows = 16;   // of one block of work
  static constexpr int64_t kDepth = 64;  // of b that stay in the cache

  void Rows(const float* a, const float* b, float* y, int64_t begin,
            int64_t end) const {
    std::fill(y + begin * n_, y + end * n_, 0.0f);
    for (int64_t p0 = 0; p0 < k_; p0 += kDepth) {
      const int64_t p1 = std::min(k_, p0 + kDepth);
      for (int64_t i = begin; i < end; ++i) {
        float* row = y + i * n_;
        for (int64_t p = p0; p < p1; ++p) {
          const float x = a[i * k_ + p];
          const float* r = b + p * n_;
          for (int64_t j = 0; j < n_; ++j) row[j] += x * r[j];
        }
      }
    }
  }

  int64_t m_, k_, n_;
};

// y[i] = x[offset + i . strides]: how Weft transposes.
class StridedCopy : public weft_sdk::Kernel {
 public:
  static bool Match(const weft_sdk::Op& op, weft_match* answer) {
    return op.all(WEFT_F32) && op.out(0).rank() == 2;
  }
  explicit StridedCopy(const weft_sdk::Op& op)
      : m_(op.out(0).dim(0)),
        n_(op.out(0).dim(1)),
        strides_(op.Ints("strides")),
        offset_(op.Int("offset")) {}

  void Launch(const weft_sdk::Call& call) const override {
    const float* x = call.in<float>(0) + offset_;
    float* y = call.out<float>(0);
    weft_sdk::Host::ParallelFor(m_, [&](uint64_t row) {
      const int64_t i = static_cast<int64_t>(row);
      for (int64_t j = 0; j < n_; ++j) {
        y[i * n_ + j] = x[i * strides_[0] + j * strides_[1]];
      }
    });
  }

 private:
  int64_t m_, n_;
  std::vector<int64_t> strides_;
  int64_t offset_;
};

// y = a + b, where b has the shape of a or of one row of it.
class Sum : public weft_sdk::Kernel {
 public:
  static bool Match(const weft_sdk::Op& op, weft_match* answer) {
    const weft_sdk::Tensor& a = op.in(0);
    const weft_sdk::Tensor& b = op.in(1);
    return op.all(WEFT_F32) && a.same_dims(op.out(0)) &&
           (a.same_dims(b) ||
            (a.rank() == 2 && b.rank() == 1 && a.dim(1) == b.dim(0)));
  }
  explicit Sum(const weft_sdk::Op& op)
      : n_(op.out(0).numel()), row_(op.in(1).numel()) {}

  void Launch(const weft_sdk::Call& call) const override {
    const float* a = call.in<float>(0);
    const float* b = call.in<float>(1);
    float* y = call.out<float>(0);
    for (int64_t i = 0; i < n_; i += row_) {
      for (int64_t j = 0; j < row_; ++j) y[i + j] = a[i + j] + b[j];
    }
  }

 private:
  int64_t n_, row_;
};

class Relu : public weft_sdk::Kernel {
 public:
  static bool Match(const weft_sdk::Op& op, weft_match* answer) {
    answer->in_place = 1;
    return op.all(WEFT_F32);
  }
  explicit Relu(const weft_sdk::Op& op) : n_(op.out(0).numel()) {}
  void Launch(const weft_sdk::Call& call) const override {
    const float* x = call.in<float>(0);
    float* y = call.out<float>(0);
    for (int64_t i = 0; i < n_; ++i) y[i] = x[i] > 0 ? x[i] : 0;
  }

 private:
  int64_t n_;
};

// (parameter, velocity, gradient, rate, multiplier?) -> parameter, velocity; in
// place. One variable at a time: Weft offers several in one launch, and takes
// no for an answer.
class Momentum : public weft_sdk::Kernel {
 public:
  static bool Match(const weft_sdk::Op& op, weft_match* answer) {
    return op.num_out() == 2 && op.num_in() <= 5 && op.all(WEFT_F32) &&
           op.Int("nesterov") == 0;
  }
  explicit Momentum(const weft_sdk::Op& op)
      : n_(op.out(0).numel()),
        scaled_(op.num_in() == 5),
        momentum_(static_cast<float>(op.Float("momentum"))),
        decay_(static_cast<float>(op.Float("weight_decay"))) {}
  void Launch(const weft_sdk::Call& call) const override {
    float* p = call.out<float>(0);
    float* v = call.out<float>(1);
    const float* g = call.in<float>(2);
    const float rate = *call.in<float>(3);
    const float scale = scaled_ ? *call.in<float>(4) : 1.0f;
    if (scale != scale) return;  // NaN: the step is skipped
    for (int64_t i = 0; i < n_; ++i) {
      v[i] = momentum_ * v[i] + (scale * g[i] + decay_ * p[i]);
      p[i] -= rate * v[i];
    }
  }

 private:
  int64_t n_;
  bool scaled_;
  float momentum_, decay_;
};

struct Acme {
  static constexpr char kName[] = "acme";
  static constexpr char kVendor[] = "acme";
  static constexpr char kVersion[] = "1.0";
  using Device = weft_sdk::InlineDevice;

  static bool Describe(uint32_t index, weft_device_info* info) {
    if (index > 0) return false;
    weft_sdk::SetText(info->name, "acme matrix unit");
    info->memory_bytes = uint64_t{1} << 32;
    return true;
  }
  static void Register(weft_sdk::Registry* kernels) {
    kernels->Add<MatMul>(WEFT_OP_MAT_MUL);
    kernels->Add<StridedCopy>(WEFT_OP_STRIDED_COPY);
    kernels->Add<Sum>(WEFT_OP_ADD);
    kernels->Add<Relu>(WEFT_OP_RELU);
    kernels->Add<Momentum>(WEFT_OP_MOMENTUM_UPDATE);
  }
};

}  // namespace

WEFT_INLINE_PLUGIN(Acme, WEFT_ISA_BASELINE)
