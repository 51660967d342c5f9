// Images in blocks of channels, [N,C/16,H,W,16]: a pixel is 16 numbers that lie
// together, one for each channel of a block, and a *plane* is the H*W pixels of
// one image and block. Kernels compute with pixels as with numbers; each
// channel is on its own, so that no bit depends on how many a register holds.
//
//   Pixel<float> sum = Pixel<float>::Splat(0);
//   for (int64_t i = 0; i < pixels; ++i) sum = sum + LoadPixel(x, i);
//   StorePixel(sum, y, o);
//
// Threading: value types and pure functions.
#ifndef WEFT_DEVICES_CPU_CHANNEL_BLOCKS_H_
#define WEFT_DEVICES_CPU_CHANNEL_BLOCKS_H_

#include "devices/cpu/target.h"
#include "devices/cpu/window.h"

WEFT_CPU_BEGIN

#if WEFT_CPU_LEVEL >= WEFT_CPU_avx512
inline constexpr int kRegisterBytes = 64;
#elif WEFT_CPU_LEVEL >= WEFT_CPU_avx2
inline constexpr int kRegisterBytes = 32;
#else
inline constexpr int kRegisterBytes = 16;
#endif

template <class T>
struct Pixel {
  typedef T Vector __attribute__((vector_size(kRegisterBytes)));
  static constexpr int kWidth = kRegisterBytes / static_cast<int>(sizeof(T));
  static constexpr int kVectors = kChannelBlock / kWidth;

  static Pixel Splat(T value) {
    Pixel p;
    for (Vector& v : p.v) v = Vector{} + value;
    return p;
  }

  Vector v[kVectors];
};

// f of the vectors of pixels, one by one.
template <class T, class F>
Pixel<T> MapPixels(const Pixel<T>& a, const Pixel<T>& b, F f) {
  Pixel<T> out;
  for (int i = 0; i < Pixel<T>::kVectors; ++i) out.v[i] = f(a.v[i], b.v[i]);
  return out;
}
template <class T, class F>
Pixel<T> MapPixels(const Pixel<T>& a, const Pixel<T>& b, const Pixel<T>& c,
                   F f) {
  Pixel<T> out;
  for (int i = 0; i < Pixel<T>::kVectors; ++i) {
    out.v[i] = f(a.v[i], b.v[i], c.v[i]);
  }
  return out;
}

template <class T>
Pixel<T> operator+(const Pixel<T>& a, const Pixel<T>& b) {
  return MapPixels(a, b, [](auto x, auto y) { return x + y; });
}
template <class T>
Pixel<T> operator-(const Pixel<T>& a, const Pixel<T>& b) {
  return MapPixels(a, b, [](auto x, auto y) { return x - y; });
}
template <class T>
Pixel<T> operator*(const Pixel<T>& a, const Pixel<T>& b) {
  return MapPixels(a, b, [](auto x, auto y) { return x * y; });
}
template <class T>
Pixel<T> operator*(const Pixel<T>& a, T b) {
  return a * Pixel<T>::Splat(b);
}
template <class T>
Pixel<T> operator/(const Pixel<T>& a, T b) {
  return MapPixels(a, Pixel<T>::Splat(b), [](auto x, auto y) { return x / y; });
}

template <class T>
Pixel<T> Relu(const Pixel<T>& a) {  // keeps NaN
  return MapPixels(a, Pixel<T>::Splat(T(0)),
                   [](auto x, auto zero) { return x < zero ? zero : x; });
}

template <class T>
Pixel<T> LoadPixel(const T* plane, int64_t i) {
  Pixel<T> p;
  std::memcpy(p.v, plane + i * kChannelBlock, sizeof p.v);
  return p;
}
template <class T>
void StorePixel(const Pixel<T>& p, T* plane, int64_t i) {
  std::memcpy(plane + i * kChannelBlock, p.v, sizeof p.v);
}

// Sum of f(i) over [begin, end): four sums of every fourth, then their tree.
template <class T, class F>
Pixel<T> SumOfPixels(int64_t begin, int64_t end, F f) {
  Pixel<T> sums[4];
  for (Pixel<T>& sum : sums) sum = Pixel<T>::Splat(T(0));
  int64_t i = begin;
  for (; i + 4 <= end; i += 4) {
    for (int k = 0; k < 4; ++k) sums[k] = sums[k] + f(i + k);
  }
  for (int k = 0; i < end; ++i, ++k) sums[k] = sums[k] + f(i);
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

// Pixels that are summed at once: they stay in the first cache. Longer sums are
// trees over such runs.
inline constexpr int64_t kPixelRun = 128;

// f(begin, end) for the runs of a plane.
template <class F>
void ForEachRun(int64_t pixels, F f) {
  for (int64_t i = 0; i < pixels; i += kPixelRun) {
    f(i, std::min(pixels, i + kPixelRun));
  }
}

// A balanced tree over values that come one by one; `merge(a, b)` makes one of
// an earlier and a later one.
template <class V, class Merge>
class RunTree {
 public:
  explicit RunTree(Merge merge) : merge_(merge) {}

  void Add(V value) {
    for (uint64_t bits = count_++; bits & 1; bits >>= 1) {
      value = merge_(levels_[--depth_], value);
    }
    levels_[depth_++] = value;
  }
  // Pre-condition: something was added.
  V Result() const {
    V value = levels_[depth_ - 1];
    for (int i = depth_ - 2; i >= 0; --i) value = merge_(levels_[i], value);
    return value;
  }

 private:
  Merge merge_;
  uint64_t count_ = 0;
  int depth_ = 0;
  V levels_[48];
};

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_CHANNEL_BLOCKS_H_
