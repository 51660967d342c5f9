// Kernels that move elements and do not look at them: copies under another
// shape, strided copies, gather, and the positions of Iota.
#include <cstring>

#include "devices/sim/kernels.h"

namespace weft_sim {
namespace {

using weft_sdk::Call;
using weft_sdk::Error;
using weft_sdk::Kernel;
using weft_sdk::Op;

// The same bytes, another shape.
class CopyBytes : public Kernel {
 public:
  static bool Match(const Op& op, weft_match* answer) {
    answer->in_place = 1;
    return op.num_in() == 1 && op.in(0).dtype() == op.out(0).dtype() &&
           op.in(0).numel() == op.out(0).numel();
  }
  explicit CopyBytes(const Op& op) : bytes_(op.out(0).bytes()) {}
  void Launch(const Call& call) const override {
    if (bytes_ != 0) {
      std::memmove(call.out<char>(0), call.in<char>(0), bytes_);
    }
  }

 private:
  int64_t bytes_;
};

// y[i] = x[offset + i . strides], elements of any type.
class StridedCopy : public Kernel {
 public:
  static bool Match(const Op& op, weft_match* answer) {
    return op.num_in() == 1 && op.in(0).dtype() == op.out(0).dtype() &&
           op.Ints("strides").size() == op.out(0).dims().size() &&
           op.Ints("shape") == op.out(0).dims() && InBounds(op);
  }
  explicit StridedCopy(const Op& op)
      : size_(weft_sdk::SizeOf(op.out(0).dtype())),
        dims_(op.out(0).dims()),
        strides_(op.Ints("strides")),
        offset_(op.Int("offset")) {}

  void Launch(const Call& call) const override {
    const char* x = call.in<char>(0);
    char* y = call.out<char>(0);
    ForEach(dims_, strides_, offset_, [&](int64_t i, int64_t position) {
      std::memcpy(y + i * size_, x + position * size_, size_);
    });
  }

 private:
  static bool InBounds(const Op& op) {
    if (op.out(0).numel() == 0) return true;
    const std::vector<int64_t> strides = op.Ints("strides");
    __int128 first = op.Int("offset");
    __int128 last = first;
    for (int d = 0; d < op.out(0).rank(); ++d) {
      const __int128 reach = __int128{op.out(0).dim(d) - 1} * strides[d];
      (reach < 0 ? first : last) += reach;
    }
    return first >= 0 && last < op.in(0).numel();
  }

  size_t size_;
  std::vector<int64_t> dims_, strides_;
  int64_t offset_;
};

// Gather and its gradient share the walk: rows of `inner` elements, `extent` of
// them per outer row, chosen by indices.
class Rows {
 public:
  // `data` is the operand that the axis and the indices are of.
  Rows(const Op& op, const std::vector<int64_t>& data, int axis)
      : index_type_(op.in(1).dtype()),
        count_(op.in(1).numel()),
        extent_(data[axis]) {
    for (int d = 0; d < axis; ++d) outer_ *= data[d];
    for (size_t d = axis + 1; d < data.size(); ++d) inner_ *= data[d];
  }

  // visit(row of data, row of the gathered tensor)
  template <typename F>
  void Visit(const Call& call, F&& visit) const {
    for (int64_t o = 0; o < outer_; ++o) {
      for (int64_t j = 0; j < count_; ++j) {
        const int64_t index = index_type_ == WEFT_I32 ? call.in<int32_t>(1)[j]
                                                      : call.in<int64_t>(1)[j];
        const int64_t at = index < 0 ? index + extent_ : index;
        if (at < 0 || at >= extent_) {
          throw Error(WEFT_RANGE, "index " + std::to_string(index) + " of " +
                                      std::to_string(extent_));
        }
        visit(o * extent_ + at, o * count_ + j);
      }
    }
  }

  int64_t inner() const { return inner_; }
  int64_t numel() const { return outer_ * extent_ * inner_; }

 private:
  uint32_t index_type_;
  int64_t count_, extent_;
  int64_t outer_ = 1;
  int64_t inner_ = 1;
};

class Gather : public Kernel {
 public:
  static bool Match(const Op& op, weft_match* answer) {
    return op.num_in() == 2 && op.in(0).dtype() == op.out(0).dtype() &&
           IsInt(op.in(1).dtype()) && Axis(op, "axis", op.in(0).rank()) >= 0;
  }
  explicit Gather(const Op& op)
      : rows_(op, op.in(0).dims(), Axis(op, "axis", op.in(0).rank())),
        row_bytes_(rows_.inner() * weft_sdk::SizeOf(op.out(0).dtype())) {}
  void Launch(const Call& call) const override {
    rows_.Visit(call, [&](int64_t from, int64_t to) {
      std::memcpy(call.out<char>(0) + to * row_bytes_,
                  call.in<char>(0) + from * row_bytes_, row_bytes_);
    });
  }

 private:
  Rows rows_;
  int64_t row_bytes_;
};

// (dy, indices) -> ddata: sums in the order of the indices.
class GatherGrad : public Kernel {
 public:
  static bool Match(const Op& op, weft_match* answer) {
    return op.num_in() == 2 && op.in(0).dtype() == op.out(0).dtype() &&
           IsFloat(op.out(0).dtype()) && IsInt(op.in(1).dtype()) &&
           Axis(op, "axis", op.out(0).rank()) >= 0;
  }
  explicit GatherGrad(const Op& op)
      : type_(op.out(0).dtype()),
        rows_(op, op.out(0).dims(), Axis(op, "axis", op.out(0).rank())) {}
  void Launch(const Call& call) const override {
    WithType(type_, [&](auto zero) {
      using T = decltype(zero);
      const T* dy = call.in<T>(0);
      T* dx = call.out<T>(0);
      for (int64_t i = 0; i < rows_.numel(); ++i) dx[i] = 0;
      const int64_t n = rows_.inner();
      rows_.Visit(call, [&](int64_t to, int64_t from) {
        for (int64_t i = 0; i < n; ++i) dx[to * n + i] += dy[from * n + i];
      });
    });
  }

 private:
  uint32_t type_;
  Rows rows_;
};

class Iota : public Kernel {
 public:
  static bool Match(const Op& op, weft_match* answer) {
    return IsNumber(op.out(0).dtype()) &&
           Axis(op, "axis", op.out(0).rank()) >= 0;
  }
  explicit Iota(const Op& op)
      : type_(op.out(0).dtype()), n_(op.out(0).numel()) {
    const int axis = Axis(op, "axis", op.out(0).rank());
    extent_ = op.out(0).dim(axis);
    inner_ = op.out(0).numel(axis + 1, op.out(0).rank());
  }
  void Launch(const Call& call) const override {
    WithType(type_, [&](auto zero) {
      using T = decltype(zero);
      T* y = call.out<T>(0);
      for (int64_t i = 0; i < n_; ++i) {
        y[i] = static_cast<T>(i / inner_ % extent_);
      }
    });
  }

 private:
  uint32_t type_;
  int64_t n_, extent_, inner_;
};

}  // namespace

void RegisterMovement(weft_sdk::Registry* kernels) {
  kernels->Add<CopyBytes>({WEFT_OP_IDENTITY, WEFT_OP_RESHAPE, WEFT_OP_FLATTEN,
                           WEFT_OP_SQUEEZE, WEFT_OP_UNSQUEEZE});
  kernels->Add<StridedCopy>(WEFT_OP_STRIDED_COPY);
  kernels->Add<Gather>(WEFT_OP_GATHER);
  kernels->Add<GatherGrad>(WEFT_OP_GATHER_GRAD);
  kernels->Add<Iota>(WEFT_OP_IOTA);
}

}  // namespace weft_sim
