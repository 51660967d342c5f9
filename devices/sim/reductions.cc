// Reductions, one result after the other, each summed in double in index order.
#include <cmath>
#include <limits>
#include <type_traits>

#include "devices/sim/kernels.h"

namespace weft_sim {
namespace {

using weft_sdk::Call;
using weft_sdk::Kernel;
using weft_sdk::Op;

// The dimensions to reduce, one bit each; 0 where an axis is out of range.
bool ReadAxes(const Op& op, std::vector<bool>* reduced) {
  const int rank = op.in(0).rank();
  const std::vector<int64_t> axes = op.Ints("axes");
  reduced->assign(rank, axes.empty());
  for (int64_t axis : axes) {
    const int64_t at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank) return false;
    (*reduced)[at] = true;
  }
  return true;
}

template <typename T, typename Wide>
Wide Start(uint32_t op) {
  switch (op) {
    case WEFT_OP_REDUCE_SUM:
      return 0;
    case WEFT_OP_REDUCE_PROD:
      return 1;
    case WEFT_OP_REDUCE_MAX:
      return std::numeric_limits<T>::has_infinity
                 ? -std::numeric_limits<T>::infinity()
                 : std::numeric_limits<T>::lowest();
    default:
      return std::numeric_limits<T>::has_infinity
                 ? std::numeric_limits<T>::infinity()
                 : std::numeric_limits<T>::max();
  }
}

// Floats in double; integers in unsigned arithmetic, which wraps around.
template <typename Wide>
Wide Combine(uint32_t op, Wide a, Wide b) {
  if constexpr (std::is_floating_point_v<Wide>) {
    switch (op) {
      case WEFT_OP_REDUCE_SUM:
        return a + b;
      case WEFT_OP_REDUCE_PROD:
        return a * b;
      case WEFT_OP_REDUCE_MAX:
        return std::isnan(a) || a > b ? a : b;
      default:
        return std::isnan(a) || a < b ? a : b;
    }
  } else {
    switch (op) {
      case WEFT_OP_REDUCE_SUM:
        return static_cast<Wide>(uint64_t(a) + uint64_t(b));
      case WEFT_OP_REDUCE_PROD:
        return static_cast<Wide>(uint64_t(a) * uint64_t(b));
      case WEFT_OP_REDUCE_MAX:
        return a > b ? a : b;
      default:
        return a < b ? a : b;
    }
  }
}

class Reduce : public Kernel {
 public:
  static bool Match(const Op& op, weft_match* answer) {
    std::vector<bool> reduced;
    return op.num_in() == 1 && op.all(op.out(0).dtype()) &&
           IsNumber(op.out(0).dtype()) && ReadAxes(op, &reduced) &&
           op.out(0).numel() == Kept(op, reduced);
  }
  explicit Reduce(const Op& op) : op_(op.id()), type_(op.out(0).dtype()) {
    std::vector<bool> reduced;
    ReadAxes(op, &reduced);
    // Kept dimensions outside, reduced ones inside.
    const std::vector<int64_t> dims = op.in(0).dims();
    std::vector<int64_t> strides(dims.size());
    int64_t dense = 1;
    for (size_t d = dims.size(); d-- > 0;) {
      strides[d] = dense;
      dense *= dims[d];
    }
    for (size_t d = 0; d < dims.size(); ++d) {
      (reduced[d] ? in_dims_ : out_dims_).push_back(dims[d]);
      (reduced[d] ? in_strides_ : out_strides_).push_back(strides[d]);
    }
  }

  void Launch(const Call& call) const override {
    WithType(type_, [&](auto zero) {
      using T = decltype(zero);
      using Wide =
          std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
      const T* x = call.in<T>(0);
      T* y = call.out<T>(0);
      ForEach(out_dims_, out_strides_, 0, [&](int64_t i, int64_t base) {
        Wide total = Start<T, Wide>(op_);
        ForEach(in_dims_, in_strides_, base, [&](int64_t, int64_t position) {
          total = Combine<Wide>(op_, total, x[position]);
        });
        y[i] = static_cast<T>(total);
      });
    });
  }

 private:
  static int64_t Kept(const Op& op, const std::vector<bool>& reduced) {
    int64_t n = 1;
    for (size_t d = 0; d < reduced.size(); ++d) {
      if (!reduced[d]) n *= op.in(0).dim(static_cast<int>(d));
    }
    return n;
  }

  uint32_t op_, type_;
  std::vector<int64_t> out_dims_, out_strides_, in_dims_, in_strides_;
};

// The first of equal maxima; NaN counts as the largest.
class ArgMax : public Kernel {
 public:
  static bool Match(const Op& op, weft_match* answer) {
    return op.num_in() == 1 && op.out(0).dtype() == WEFT_I64 &&
           IsNumber(op.in(0).dtype()) && Axis(op, "axis", op.in(0).rank()) >= 0;
  }
  explicit ArgMax(const Op& op)
      : type_(op.in(0).dtype()), n_(op.out(0).numel()) {
    const int axis = Axis(op, "axis", op.in(0).rank());
    extent_ = op.in(0).dim(axis);
    inner_ = op.in(0).numel(axis + 1, op.in(0).rank());
  }
  void Launch(const Call& call) const override {
    WithType(type_, [&](auto zero) {
      using T = decltype(zero);
      int64_t* y = call.out<int64_t>(0);
      for (int64_t i = 0; i < n_; ++i) {
        const T* row =
            call.in<T>(0) + i / inner_ * extent_ * inner_ + i % inner_;
        int64_t best = 0;
        for (int64_t k = 1; k < extent_; ++k) {
          const T a = row[best * inner_];
          const T b = row[k * inner_];
          if (a != a) break;  // NaN
          if (b > a || b != b) best = k;
        }
        y[i] = best;
      }
    });
  }

 private:
  uint32_t type_;
  int64_t n_, extent_, inner_;
};

}  // namespace

void RegisterReductions(weft_sdk::Registry* kernels) {
  kernels->Add<Reduce>({WEFT_OP_REDUCE_SUM, WEFT_OP_REDUCE_PROD,
                        WEFT_OP_REDUCE_MAX, WEFT_OP_REDUCE_MIN});
  kernels->Add<ArgMax>(WEFT_OP_ARG_MAX);
}

}  // namespace weft_sim
