// One row of softmax, for the kernels of softmax and of its loss: a pass for
// the maximum, one for exp and its sum, one for the result, all in the L1
// cache.
//
// Threading: free functions.
#ifndef WEFT_DEVICES_CPU_SOFTMAX_H_
#define WEFT_DEVICES_CPU_SOFTMAX_H_

#include "devices/cpu/elements.h"
#include "devices/cpu/reduction.h"
#include "devices/cpu/target.h"
#include "devices/cpu/vector_math.h"

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
  for (int width = kWide / 2; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) {
      lanes[l] = MaxOf::Apply<T>(lanes[l], lanes[l + width]);
    }
  }
  return lanes[0];
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

// The sum of exp(x - max) of a row, as ReduceRow() would add it; keep(i, e) has
// each of them.
template <class T, class S, class F>
T SumOfExp(const T* x, int64_t n, S s, T max, F keep) {
  auto sum = [=](auto exp) {
    TreeOf<SumOf, T> tree;
    for (int64_t block = 0; block < n; block += kRowBlock) {
      LanesOf<SumOf, T> lanes;
      InPieces(x + block * s, std::min(n - block, kRowBlock), s,
               [&, block](int64_t begin, int64_t end) {
                 lanes.Add(block + begin, block + end, [=](int64_t i) {
                   const T e = exp(x[i * s] - max);
                   keep(i, e);
                   return e;
                 });
               });
      tree.Add(lanes.Result());
    }
    return tree.Result();
  };
  if (max - max == T(0)) return sum([](T v) { return ExpBelow(v); });
  return sum([](T v) { return Exp(v); });  // infinite or NaN
}

// y = exp(x - max), whose sum it gives. y may be x.
template <class T, class S>
T ExpRow(const T* x, T* y, int64_t n, S s, T* max) {
  *max = RowMax(x, n, s);
  return SumOfExp(x, n, s, *max, [=](int64_t i, T e) { y[i * s] = e; });
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
    const T sum = SumOfExp(x, n, s, max, [](int64_t, T) {});
    const T log_sum = std::log(sum);
    for (int64_t i = 0; i < n; ++i) y[i * s] = (x[i * s] - max) - log_sum;
  });
}

// Where rows of a large result are made: in a buffer in the cache, from where
// Write() copies them past the caches; those of a small one in their place.
//
//   const bool far = RowsAreFar<T>(rows, n);
//   RowPlace<T> place(far);             // for each block of rows
//   T* row = place.Of(y);
//   ...                                 // row[0 .. n)
//   place.Write(y, n);
template <class T>
class RowPlace {
 public:
  explicit RowPlace(bool far) : far_(far) {}
  ~RowPlace() {
    if (far_) FinishPastCaches();
  }
  RowPlace(const RowPlace&) = delete;
  RowPlace& operator=(const RowPlace&) = delete;

  T* Of(T* row) { return far_ ? buffer_ : row; }
  void Write(T* row, int64_t n) const {
    if (!far_) return;
    CopyPastCaches(reinterpret_cast<const char*>(buffer_),
                   n * static_cast<int64_t>(sizeof(T)),
                   reinterpret_cast<char*>(row));
  }

  static constexpr int64_t kMost = 16384 / sizeof(T);

 private:
  bool far_;
  alignas(64) T buffer_[kMost];
};

// True for dense rows of n that are worth a RowPlace of their own.
template <class T>
bool RowsAreFar(int64_t rows, int64_t n) {
  return n <= RowPlace<T>::kMost && n >= 64 &&
         rows * n * static_cast<int64_t>(sizeof(T)) >= kStreamBytes;
}

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_SOFTMAX_H_
