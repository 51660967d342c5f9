// Element types as C++ types: the type a kernel stores (Storage) and the one it
// computes in (Compute: float for the 16-bit formats), dispatch on the dtype of
// a descriptor, and conversion between any two.
//
//   return WithFloat(op.in[0].dtype, [&](auto tag) {
//     using T = typename decltype(tag)::Storage;
//     return MakeRelu<T>(op);
//   });                            // a null kernel where no case fits
//
// Threading: stateless.
#ifndef WEFT_DEVICES_CPU_NUMERIC_H_
#define WEFT_DEVICES_CPU_NUMERIC_H_

#include "devices/cpu/half.h"
#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

// bool is stored as one byte, 0 or 1; kernels read any nonzero byte as true.
struct Bool {
  uint8_t byte;
  Bool() = default;
  explicit Bool(bool value) : byte(value ? 1 : 0) {}
  explicit operator bool() const { return byte != 0; }
};

template <class T>
struct ComputeOf {
  using type = T;
};
template <>
struct ComputeOf<Half> {
  using type = float;
};
template <>
struct ComputeOf<Bfloat> {
  using type = float;
};
template <class T>
using Compute = typename ComputeOf<T>::type;

template <class T>
struct Tag {
  using Storage = T;
};

template <class F>
std::unique_ptr<Kernel> WithF32F64(uint32_t dtype, F f) {
  if (dtype == WEFT_F32) return f(Tag<float>());
  if (dtype == WEFT_F64) return f(Tag<double>());
  return nullptr;
}

template <class F>
std::unique_ptr<Kernel> WithFloat(uint32_t dtype, F f) {
  if (dtype == WEFT_F16) return f(Tag<Half>());
  if (dtype == WEFT_BF16) return f(Tag<Bfloat>());
  return WithF32F64(dtype, f);
}

template <class F>
std::unique_ptr<Kernel> WithInteger(uint32_t dtype, F f) {
  if (dtype == WEFT_I8) return f(Tag<int8_t>());
  if (dtype == WEFT_U8) return f(Tag<uint8_t>());
  if (dtype == WEFT_I16) return f(Tag<int16_t>());
  if (dtype == WEFT_I32) return f(Tag<int32_t>());
  if (dtype == WEFT_I64) return f(Tag<int64_t>());
  return nullptr;
}

// Every float and integer type.
template <class F>
std::unique_ptr<Kernel> WithNumber(uint32_t dtype, F f) {
  std::unique_ptr<Kernel> k = WithFloat(dtype, f);
  return k != nullptr ? std::move(k) : WithInteger(dtype, f);
}

// Bytes of an element; 0 for an unknown dtype.
inline int64_t SizeOf(uint32_t dtype) {
  return static_cast<int64_t>(weft_sdk::SizeOf(dtype));
}

inline bool IsFloatType(uint32_t dtype) {
  return dtype >= WEFT_F32 && dtype <= WEFT_F64;
}
inline bool IsIntegerType(uint32_t dtype) {
  return dtype >= WEFT_I8 && dtype <= WEFT_I64;
}

// `value` in 53 bits, rounded to odd (half.h) where it has more.
inline double DoubleToOdd(int64_t value) {
  constexpr int64_t kExact = int64_t{1} << 53, kLow = (1 << 11) - 1;
  if (value > -kExact && value < kExact) return static_cast<double>(value);
  return static_cast<double>((value & ~kLow) |
                             ((value & kLow) != 0 ? kLow + 1 : 0));
}

// A value of type S as a D: floats round once; an integer result truncates
// towards zero and saturates, NaN gives 0; bool is "not zero".
template <class D, class S>
inline D Convert(S s) {
  if constexpr (std::is_same_v<S, Bool>) {
    return Convert<D>(static_cast<uint8_t>(s.byte != 0));
  } else if constexpr (std::is_same_v<S, Half> || std::is_same_v<S, Bfloat>) {
    if constexpr (std::is_same_v<S, D>) return s;
    return Convert<D>(static_cast<float>(s));
  } else if constexpr (std::is_same_v<D, Bool>) {
    return Bool(s != S(0));
  } else if constexpr (std::is_same_v<D, Half> || std::is_same_v<D, Bfloat>) {
    if constexpr (std::is_same_v<S, float>) return D(s);
    if constexpr (std::is_same_v<S, int64_t>) return D(DoubleToOdd(s));
    return D(static_cast<double>(s));
  } else if constexpr (std::is_floating_point_v<D>) {
    return static_cast<D>(s);
  } else if constexpr (std::is_floating_point_v<S>) {
    // 2^k bounds are exact in every float type; max itself may not be.
    constexpr S kEnd =
        static_cast<S>(std::numeric_limits<D>::max() / 2 + 1) * 2;
    if (s != s) return 0;
    if (s >= kEnd) return std::numeric_limits<D>::max();
    if (s <= static_cast<S>(std::numeric_limits<D>::min())) {
      return std::numeric_limits<D>::min();
    }
    return static_cast<D>(s);
  } else {
    int64_t wide = static_cast<int64_t>(s);
    if (wide > static_cast<int64_t>(std::numeric_limits<D>::max())) {
      return std::numeric_limits<D>::max();
    }
    if (wide < static_cast<int64_t>(std::numeric_limits<D>::min())) {
      return std::numeric_limits<D>::min();
    }
    return static_cast<D>(wide);
  }
}

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_NUMERIC_H_
