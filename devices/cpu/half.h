// The 16-bit float formats as storage types: they convert to float, and from
// float or double with one rounding (to nearest, ties to even). Arithmetic is
// done in float by the kernels, never on these types.
//
//   Half h(1.5f);  float f = h;       Bfloat b(0.1);  // rounds once
//
// Threading: value types.
#ifndef WEFT_DEVICES_CPU_HALF_H_
#define WEFT_DEVICES_CPU_HALF_H_

#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

inline float FloatFromBits(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

inline uint32_t BitsOf(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  return bits;
}

// `value` rounded to odd: when the conversion is not exact, the last bit is
// set. A further rounding to a format at least two bits narrower then gives
// what one rounding of `value` would give.
inline float RoundToOdd(double value) {
  float f = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(f) == value) return f;
  uint32_t bits = BitsOf(f);
  if (std::isinf(f)) return FloatFromBits(bits - 1);  // the largest finite
  bool away = std::fabs(static_cast<double>(f)) > std::fabs(value);
  if (away) --bits;
  return FloatFromBits(bits | 1u);
}

struct Half {
  uint16_t bits;

  Half() = default;
  explicit Half(float value) : bits(Round(value)) {}
  explicit Half(double value) : bits(Round(RoundToOdd(value))) {}

  operator float() const {
    uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    uint32_t exponent = (bits >> 10) & 0x1fu;
    uint32_t fraction = bits & 0x3ffu;
    if (exponent == 0x1f) {
      return FloatFromBits(sign | 0x7f800000u | fraction << 13);
    }
    if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact
      float magnitude = static_cast<float>(fraction) * 5.9604644775390625e-8f;
      return FloatFromBits(sign | BitsOf(magnitude));
    }
    return FloatFromBits(sign | (exponent + 112) << 23 | fraction << 13);
  }

 private:
  static uint16_t Round(float value) {
    uint32_t in = BitsOf(value);
    uint16_t sign = static_cast<uint16_t>(in >> 16 & 0x8000u);
    uint32_t magnitude = in & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | 0x7e00u;   // quiet NaN
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // >= 65520: infinity
    if (magnitude < 0x38800000u) {  // below 2^-14: subnormal result
      // Adding 0.5 leaves 2^-24 as the last bit of the sum, rounded by the
      // float addition itself.
      float sum = FloatFromBits(magnitude) + 0.5f;
      return sign | static_cast<uint16_t>(BitsOf(sum) - BitsOf(0.5f));
    }
    uint32_t odd = magnitude >> 13 & 1u;
    magnitude += 0xfffu + odd;  // a carry may run into the exponent: right
    return sign | static_cast<uint16_t>((magnitude - 0x38000000u) >> 13);
  }
};

struct Bfloat {
  uint16_t bits;

  Bfloat() = default;
  explicit Bfloat(float value) : bits(Round(value)) {}
  explicit Bfloat(double value) : bits(Round(RoundToOdd(value))) {}

  operator float() const {
    return FloatFromBits(static_cast<uint32_t>(bits) << 16);
  }

 private:
  static uint16_t Round(float value) {
    uint32_t in = BitsOf(value);
    if ((in & 0x7fffffffu) > 0x7f800000u) {
      return static_cast<uint16_t>(in >> 16 | 0x40u);  // stay a NaN
    }
    return static_cast<uint16_t>((in + 0x7fffu + (in >> 16 & 1u)) >> 16);
  }
};

static_assert(sizeof(Half) == 2 && sizeof(Bfloat) == 2, "storage formats");

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_HALF_H_
