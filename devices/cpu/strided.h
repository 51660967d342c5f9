// Loops over tensors that differ only in strides: what broadcasting, strided
// operands and dense data have in common. Adjacent dimensions that all operands
// walk alike are merged once, at kernel_open; a dense operation becomes one
// run.
//
//   LoopPlan<2> plan(op.out[0], {&op.in[0]});       // operand 0 is the result
//   plan.ForEachRun([&](const int64_t* offsets, const int64_t* strides,
//                       int64_t n) { ... });        // offsets in elements
//
// Threading: immutable after construction.
#ifndef WEFT_DEVICES_CPU_STRIDED_H_
#define WEFT_DEVICES_CPU_STRIDED_H_

#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

// Strides of `in` over the dims of `out` by numpy's rule, 0 where broadcast.
// False where the shapes do not fit.
bool BroadcastStrides(const Tensor& in, const Tensor& out, int64_t* strides);

// True if the dims of `out` are the broadcast of those of the inputs given.
bool IsBroadcastOf(const Tensor& out, const std::vector<const Tensor*>& inputs);

template <int N>
class LoopPlan {
 public:
  LoopPlan() = default;

  // Over the dims of `out` (operand 0). ok() is false where an operand does not
  // broadcast to them.
  LoopPlan(const Tensor& out, std::initializer_list<const Tensor*> inputs) {
    int64_t strides[N][WEFT_MAX_RANK];
    int k = 0;
    ok_ = BroadcastStrides(out, out, strides[k++]);
    for (const Tensor* in : inputs) {
      ok_ = ok_ && BroadcastStrides(*in, out, strides[k++]);
    }
    if (ok_) Build(out.rank, out.dims, strides);
  }

  // Over `dims` with the strides given.
  LoopPlan(int rank, const int64_t* dims,
           const int64_t (*strides)[WEFT_MAX_RANK]) {
    Build(rank, dims, strides);
  }

  bool ok() const { return ok_; }
  int64_t count() const { return count_; }
  int rank() const { return rank_; }
  const std::array<int64_t, N>& strides(int dim) const { return strides_[dim]; }
  int64_t dim(int i) const { return dims_[i]; }

  template <class F>
  void ForEachRun(F f) const {
    ForEachRun(0, count_, f);
  }

  // The same for elements [begin, end) of the row-major order.
  template <class F>
  void ForEachRun(int64_t begin, int64_t end, F f) const {
    if (begin >= end) return;
    int64_t offsets[N] = {0};
    int64_t index[WEFT_MAX_RANK] = {0};
    const int last = rank_ - 1;
    const int64_t* inner = strides_[last].data();
    int64_t rest = begin;
    for (int d = last; d >= 0; --d) {
      index[d] = rest % dims_[d];
      rest /= dims_[d];
      for (int k = 0; k < N; ++k) offsets[k] += strides_[d][k] * index[d];
    }
    int64_t skipped = index[last];  // of the first run
    while (true) {
      const int64_t n = std::min(dims_[last] - skipped, end - begin);
      f(offsets, inner, n);
      begin += n;
      if (begin == end) return;
      for (int k = 0; k < N; ++k) offsets[k] -= inner[k] * skipped;
      skipped = 0;
      for (int d = last - 1; d >= 0; --d) {
        for (int k = 0; k < N; ++k) offsets[k] += strides_[d][k];
        if (++index[d] < dims_[d]) break;
        for (int k = 0; k < N; ++k) offsets[k] -= strides_[d][k] * dims_[d];
        index[d] = 0;
      }
    }
  }

 private:
  void Build(int rank, const int64_t* dims,
             const int64_t (*strides)[WEFT_MAX_RANK]) {
    count_ = Product(dims, 0, rank);
    rank_ = 0;
    for (int i = 0; i < rank; ++i) {
      if (dims[i] == 1) continue;
      if (rank_ > 0 && Merges(strides, i, dims[i])) {
        dims_[rank_ - 1] *= dims[i];
      } else {
        dims_[rank_++] = dims[i];
      }
      for (int k = 0; k < N; ++k) strides_[rank_ - 1][k] = strides[k][i];
    }
    if (rank_ == 0) {
      dims_[0] = 1;
      strides_[0].fill(1);
      rank_ = 1;
    }
  }

  bool Merges(const int64_t (*strides)[WEFT_MAX_RANK], int i,
              int64_t dim) const {
    for (int k = 0; k < N; ++k) {
      if (strides_[rank_ - 1][k] != strides[k][i] * dim) return false;
    }
    return true;
  }

  bool ok_ = true;
  int rank_ = 1;
  int64_t count_ = 0;
  int64_t dims_[WEFT_MAX_RANK] = {0};
  std::array<int64_t, N> strides_[WEFT_MAX_RANK] = {};
};

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_STRIDED_H_
