// One row of softmax, for the kernels of softmax and of its loss.
//
// Threading: free functions.
#ifndef WEFT_DEVICES_CPU_SOFTMAX_H_
#define WEFT_DEVICES_CPU_SOFTMAX_H_

#include "devices/cpu/reduction.h"
#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

// f(stride) with 1 as a constant, so that loops over neighbours are vectorised.
template <class F>
void WithStride(int64_t stride, F f) {
  if (stride == 1) return f(std::integral_constant<int64_t, 1>());
  f(stride);
}

// The largest of n > 0 numbers; a NaN is above all. Their order makes no
// difference to what is computed with it, so there are more lanes than
// ReduceRow() has: a comparison need not wait for the one before.
template <class T, class S>
T RowMax(const T* x, int64_t n, S stride) {
  constexpr int kWide = 4 * kLanes;
  if (n < kWide) {
    return ReduceRow<MaxOf, T>(n, [=](int64_t i) { return x[i * stride]; });
  }
  T lanes[kWide];
  std::fill(lanes, lanes + kWide, MaxOf::Identity<T>());
  int64_t i = 0;
  for (; i + kWide <= n; i += kWide) {
    for (int l = 0; l < kWide; ++l) {
      lanes[l] = MaxOf::Apply<T>(lanes[l], x[(i + l) * stride]);
    }
  }
  for (int l = 0; i < n; ++i, ++l) {
    lanes[l] = MaxOf::Apply<T>(lanes[l], x[i * stride]);
  }
  return ReduceRow<MaxOf, T>(kWide, [&](int64_t l) { return lanes[l]; });
}

// f(begin, end) for pieces of the row x, each after the same piece of the row
// behind it was asked for: exp takes long enough for it to come.
template <class T, class S, class F>
void InPieces(const T* x, int64_t n, S stride, F f) {
  constexpr int64_t kPiece = 8 * kLanes;
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t end = std::min(n, i + kPiece);
    const char* next = reinterpret_cast<const char*>(x + (n + i) * stride);
    const int64_t bytes = (end - i) * static_cast<int64_t>(sizeof(T));
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(next + at);
    f(i, end);
  }
}

// y = exp(x - max), whose sum it gives.
template <class T, class S>
T ExpRow(const T* x, T* y, int64_t n, S s, T* max) {
  const T most = RowMax(x, n, s);
  InPieces(x, n, s, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i * s] = Exp(x[i * s] - most);
  });
  *max = most;
  return ReduceRow<SumOf, T>(n, [=](int64_t i) { return y[i * s]; });
}

// `n` numbers at x, `stride` apart. y may be x.
template <class T>
void SoftmaxRow(const T* x, T* y, int64_t n, int64_t stride) {
  WithStride(stride, [=](auto s) {
    T max;
    const T sum = ExpRow(x, y, n, s, &max);
    const T factor = T(1) / sum;  // much cheaper than n divisions
    for (int64_t i = 0; i < n; ++i) y[i * s] *= factor;
  });
}

template <class T>
void LogSoftmaxRow(const T* x, T* y, int64_t n, int64_t stride) {
  WithStride(stride, [=](auto s) {
    const T max = RowMax(x, n, s);
    auto f = [=](int64_t i) { return Exp(x[i * s] - max); };
    TreeOf<SumOf, T> tree;  // as ReduceRow() would add it
    for (int64_t block = 0; block < n; block += kRowBlock) {
      LanesOf<SumOf, T> lanes;
      InPieces(x + block * s, std::min(n - block, kRowBlock), s,
               [&, block](int64_t begin, int64_t end) {
                 lanes.Add(block + begin, block + end, f);
               });
      tree.Add(lanes.Result());
    }
    const T log_sum = std::log(tree.Result());
    for (int64_t i = 0; i < n; ++i) y[i * s] = (x[i * s] - max) - log_sum;
  });
}

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_SOFTMAX_H_
