// MatMul with numpy semantics: vectors are rows on the left and columns on the
// right, leading dimensions broadcast. Products are summed in double, in order.
#include <algorithm>

#include "devices/sim/kernels.h"

namespace weft_sim {
namespace {

using weft_sdk::Call;
using weft_sdk::Kernel;
using weft_sdk::Op;
using weft_sdk::Tensor;

class MatMul : public Kernel {
 public:
  static bool Match(const Op& op, weft_match* answer) {
    if (op.num_in() != 2 || op.in(0).rank() < 1 || op.in(1).rank() < 1) {
      return false;
    }
    const Sizes s(op);
    return op.all(op.out(0).dtype()) && IsFloat(op.out(0).dtype()) &&
           s.k == s.k_right && s.ok &&
           op.out(0).numel() == s.batches * s.m * s.n;
  }
  explicit MatMul(const Op& op) : type_(op.out(0).dtype()), s_(op) {}

  void Launch(const Call& call) const override {
    WithType(type_, [&](auto zero) {
      using T = decltype(zero);
      for (int64_t b = 0; b < s_.batches; ++b) {
        One(call.in<T>(0) + s_.left[b] * s_.m * s_.k,
            call.in<T>(1) + s_.right[b] * s_.k * s_.n,
            call.out<T>(0) + b * s_.m * s_.n);
      }
    });
  }

 private:
  struct Sizes {
    explicit Sizes(const Op& op) {
      const Tensor& a = op.in(0);
      const Tensor& b = op.in(1);
      m = a.rank() == 1 ? 1 : a.dim(-2);
      k = a.dim(-1);
      k_right = b.rank() == 1 ? b.dim(0) : b.dim(-2);
      n = b.rank() == 1 ? 1 : b.dim(-1);
      const std::vector<int64_t> da = Leading(a);
      const std::vector<int64_t> db = Leading(b);
      const size_t rank = std::max(da.size(), db.size());
      std::vector<int64_t> dims(rank), sa(rank), sb(rank);
      int64_t na = 1;
      int64_t nb = 1;
      for (size_t i = 1; i <= rank; ++i) {
        const int64_t x = i <= da.size() ? da[da.size() - i] : 1;
        const int64_t y = i <= db.size() ? db[db.size() - i] : 1;
        ok = ok && (x == y || x == 1 || y == 1);
        dims[rank - i] = x == 1 ? y : x;
        sa[rank - i] = x == 1 ? 0 : na;
        sb[rank - i] = y == 1 ? 0 : nb;
        na *= x;
        nb *= y;
      }
      if (!ok) return;
      ForEach(dims, sa, 0, [&](int64_t, int64_t p) { left.push_back(p); });
      ForEach(dims, sb, 0, [&](int64_t, int64_t p) { right.push_back(p); });
      batches = static_cast<int64_t>(left.size());
    }
    static std::vector<int64_t> Leading(const Tensor& t) {
      std::vector<int64_t> dims = t.dims();
      dims.resize(dims.size() > 2 ? dims.size() - 2 : 0);
      return dims;
    }

    int64_t m, n, k, k_right;
    int64_t batches = 0;
    bool ok = true;
    // Which matrix of each operand a batch takes.
    std::vector<int64_t> left, right;
  };

  template <typename T>
  void One(const T* a, const T* b, T* y) const {
    for (int64_t i = 0; i < s_.m; ++i) {
      for (int64_t j = 0; j < s_.n; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < s_.k; ++p) {
          sum += static_cast<double>(a[i * s_.k + p]) *
                 static_cast<double>(b[p * s_.n + j]);
        }
        y[i * s_.n + j] = static_cast<T>(sum);
      }
    }
  }

  uint32_t type_;
  Sizes s_;
};

}  // namespace

void RegisterMatMul(weft_sdk::Registry* kernels) {
  kernels->Add<MatMul>(WEFT_OP_MAT_MUL);
}

}  // namespace weft_sim
