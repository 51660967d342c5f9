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

// `n` numbers at x, `stride` apart. y may be x.
template <class T>
void SoftmaxRow(const T* x, T* y, int64_t n, int64_t stride) {
  WithStride(stride, [=](auto s) {
    const T max = ReduceRow<MaxOf, T>(n, [=](int64_t i) { return x[i * s]; });
    for (int64_t i = 0; i < n; ++i) y[i * s] = Exp(x[i * s] - max);
    const T sum = ReduceRow<SumOf, T>(n, [=](int64_t i) { return y[i * s]; });
    const T factor = T(1) / sum;  // much cheaper than n divisions
    for (int64_t i = 0; i < n; ++i) y[i * s] *= factor;
  });
}

template <class T>
void LogSoftmaxRow(const T* x, T* y, int64_t n, int64_t stride) {
  WithStride(stride, [=](auto s) {
    const T max = ReduceRow<MaxOf, T>(n, [=](int64_t i) { return x[i * s]; });
    const T sum =
        ReduceRow<SumOf, T>(n, [=](int64_t i) { return Exp(x[i * s] - max); });
    const T log_sum = std::log(sum);
    for (int64_t i = 0; i < n; ++i) y[i * s] = (x[i * s] - max) - log_sum;
  });
}

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_SOFTMAX_H_
