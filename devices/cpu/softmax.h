// One row of softmax, for the kernels of softmax and of its loss.
//
// Threading: free functions.
#ifndef WEFT_DEVICES_CPU_SOFTMAX_H_
#define WEFT_DEVICES_CPU_SOFTMAX_H_

#include "devices/cpu/reduction.h"
#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

// `n` numbers at x, `stride` apart. y may be x.
template <class T>
void SoftmaxRow(const T* x, T* y, int64_t n, int64_t stride) {
  const T max =
      ReduceRow<MaxOf, T>(n, [=](int64_t i) { return x[i * stride]; });
  for (int64_t i = 0; i < n; ++i) y[i * stride] = Exp(x[i * stride] - max);
  const T sum =
      ReduceRow<SumOf, T>(n, [=](int64_t i) { return y[i * stride]; });
  for (int64_t i = 0; i < n; ++i) y[i * stride] /= sum;
}

template <class T>
void LogSoftmaxRow(const T* x, T* y, int64_t n, int64_t stride) {
  const T max =
      ReduceRow<MaxOf, T>(n, [=](int64_t i) { return x[i * stride]; });
  const T sum = ReduceRow<SumOf, T>(
      n, [=](int64_t i) { return Exp(x[i * stride] - max); });
  const T log_sum = std::log(sum);
  for (int64_t i = 0; i < n; ++i) {
    y[i * stride] = (x[i * stride] - max) - log_sum;
  }
}

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_SOFTMAX_H_
