// exp, tanh, erf, log, the normal distribution function and GELU's slope of a
// float, free of branches and calls, so that loops over them are vectorised; of
// a double, what the C library has.
//
// Each is a polynomial (minimax fits made for this file) of a reduced argument,
// or, of the last two, a quotient of two. Largest errors over all floats
// (vector_math_test holds them to it), in units in the last place:
//
//   Exp, ExpBelow 1   Log 1   Tanh 1.5   Erf 2.5
//
// NormalCdf and GeluSlope are for sums and products with numbers near 1: their
// errors are 2e-7 and 3e-7, whatever the value; far to the left of 0 nothing of
// it is left.
//
// Special values are those of the C library; results below the smallest normal
// float lose bits gradually, as they should.
//
// Threading: free functions.
#ifndef WEFT_DEVICES_CPU_VECTOR_MATH_H_
#define WEFT_DEVICES_CPU_VECTOR_MATH_H_

#include "devices/cpu/half.h"
#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

// 2^n for n in [-126, 127].
inline float PowerOfTwo(int32_t n) {
  return FloatFromBits(static_cast<uint32_t>(n + 127) << 23);
}

inline float Exp(float x) {
  // x = n ln 2 + r. Below -104 the result is 0, above 89 infinite.
  float c = x < -104.0f ? -104.0f : x;
  c = c > 89.0f ? 89.0f : c;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: the sum has no fraction
  const float shifted = c * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (c - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 0.000198909827f;
  p = p * r + 0.00139336427f;
  p = p * r + 0.00833331093f;
  p = p * r + 0.041666465f;
  p = p * r + 0.166666667f;
  p = p * r + 0.500000001f;
  const float y = p * (r * r) + r + 1.0f;
  // Two factors: n may be 128, and -150 for what is not normal any more.
  const int32_t k = static_cast<int32_t>(BitsOf(shifted)) -
                    static_cast<int32_t>(BitsOf(kRound));
  const int32_t half = k >> 1;
  const float up = y * PowerOfTwo(half) * PowerOfTwo(k - half);
  return x != x ? x : up;
}
inline double Exp(double x) { return std::exp(x); }

// exp(x) for x <= 0, cheaper: what is below the smallest normal number is 0. Of
// a NaN nothing is said.
inline float ExpBelow(float x) {
  constexpr float kLeast = -87.3f;  // 2^n is normal from here on
  const float c = x < kLeast ? kLeast : x;
  constexpr float kRound = 12582912.0f;  // as in Exp()
  const float shifted = c * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (c - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 0.000198909827f;
  p = p * r + 0.00139336427f;
  p = p * r + 0.00833331093f;
  p = p * r + 0.041666465f;
  p = p * r + 0.166666667f;
  p = p * r + 0.500000001f;
  const float y = p * (r * r) + r + 1.0f;
  // The lowest bits of `shifted` are those of n.
  const float up = FloatFromBits(BitsOf(y) + (BitsOf(shifted) << 23));
  return x < kLeast ? 0.0f : up;
}
inline double ExpBelow(double x) { return std::exp(x); }

inline float Tanh(float x) {
  const float m = std::fabs(x), square = x * x;
  float p = -0.0060451651f;
  p = p * square + 0.0209613291f;
  p = p * square - 0.0538432632f;
  p = p * square + 0.133327188f;
  p = p * square - 0.333333284f;
  const float near = m + m * square * p;
  const float far = 1.0f - 2.0f / (Exp(m + m) + 1.0f);
  return std::copysign(m < 0.625f ? near : far, x);
}
inline double Tanh(double x) { return std::tanh(x); }

// erf(x) for |x| < 0.92.
inline float ErfNear(float x) {
  const float square = x * x;
  float p = 8.38707456e-5f;
  p = p * square - 0.000814708112f;
  p = p * square + 0.00520145633f;
  p = p * square - 0.0268595881f;
  p = p * square + 0.112836994f;
  p = p * square - 0.37612634f;
  p = p * square + 1.12837917f;
  return x * p;
}

// erfc(z) for z >= 0.92: exp(-z^2) / z * q(1 / z).
inline float ErfcFar(float z) {
  z = z > 10.2f ? 10.2f : z;
  const float u = 1.0f / z;
  float q = -0.0393479468f;
  q = q * u + 0.277281538f;
  q = q * u - 0.860947085f;
  q = q * u + 1.52944360f;
  q = q * u - 1.65739087f;
  q = q * u + 1.00762765f;
  q = q * u - 0.126670296f;
  q = q * u - 0.265430378f;
  q = q * u - 0.00120886967f;
  q = q * u + 0.564226225f;
  // z^2 to twice the precision: the square of the upper 12 bits is exact.
  const float high = FloatFromBits(BitsOf(z) & 0xfffff000u);
  const float rest = (z - high) * (z + high);
  return Exp(-high * high) * Exp(-rest) * u * q;
}

inline float Erf(float x) {
  const float magnitude = std::fabs(x);
  const float far = 1.0f - ErfcFar(magnitude < 0.92f ? 0.92f : magnitude);
  const float large = x < 0 ? -far : far;
  const float y = magnitude < 0.92f ? ErfNear(x) : large;
  return x != x ? x : y;
}
inline double Erf(double x) { return std::erf(x); }

// The share of a normal distribution that lies below x: 1/2 + x P(x^2) /
// Q(x^2), and 0 and 1 from 5.5 on, where 2e-8 are left.
inline float NormalCdf(float x) {
  constexpr float kFar = 5.5f;
  float c = x < -kFar ? -kFar : x;
  c = c > kFar ? kFar : c;
  const float square = c * c;
  float p = 2.27497852e-8f;
  p = p * square + 6.35181384e-6f;
  p = p * square + 0.000168805741f;
  p = p * square + 0.0046771397f;
  p = p * square + 0.0338508661f;
  p = p * square + 0.398942235f;
  float q = 1.19749351e-6f;
  q = q * square + 7.3640198e-5f;
  q = q * square + 0.00188433404f;
  q = q * square + 0.0286448208f;
  q = q * square + 0.25151746f;
  q = q * square + 1.0f;
  float y = c * p / q;
  y = y < -0.5f ? -0.5f : y;
  y = y > 0.5f ? 0.5f : y;
  return 0.5f + y;
}
inline double NormalCdf(double x) {
  return 0.5 * std::erfc(x * -0.70710678118654752440);
}

// The derivative of x NormalCdf(x), which is NormalCdf(x) plus x times the
// density: in the same way, 0 and 1 from 6.2 on.
inline float GeluSlope(float x) {
  constexpr float kFar = 6.2f;
  float c = x < -kFar ? -kFar : x;
  c = c > kFar ? kFar : c;
  const float square = c * c;
  float p = 1.87271171e-8f;
  p = p * square + 1.12462551e-6f;
  p = p * square + 3.41613690e-5f;
  p = p * square + 0.0002773340972f;
  p = p * square + 0.0136993521f;
  p = p * square - 0.0182511672f;
  p = p * square + 0.797884514f;
  float q = 1.37597562e-9f;
  q = q * square + 3.96195276e-7f;
  q = q * square + 1.129582716e-5f;
  q = q * square + 0.000264272392f;
  q = q * square + 0.00418491665f;
  q = q * square + 0.0456573548f;
  q = q * square + 0.310458304f;
  q = q * square + 1.0f;
  float y = 0.5f + c * p / q;
  y = x < -kFar ? 0.0f : y;
  return x > kFar ? 1.0f : y;
}
inline double GeluSlope(double x) {
  double c = x < -40.0 ? -40.0 : x;  // nothing is multiplied by an infinity
  c = c > 40.0 ? 40.0 : c;
  return NormalCdf(c) + c * (0.39894228040143267794 * std::exp(-0.5 * (c * c)));
}

inline float Log(float x) {
  // x = 2^n m with m in [sqrt(1/2), sqrt(2)); what is not normal is made so.
  const bool tiny = x < 1.17549435e-38f;
  const uint32_t bits = BitsOf(tiny ? x * 8388608.0f : x);
  const uint32_t shifted = bits - 0x3f3504f3u;  // of sqrt(1/2)
  const int32_t n = (static_cast<int32_t>(shifted) >> 23) - (tiny ? 23 : 0);
  const float m = FloatFromBits((shifted & 0x007fffffu) + 0x3f3504f3u);
  const float f = m - 1.0f, square = f * f;
  float p = 0.0697161147f;
  p = p * f - 0.114797338f;
  p = p * f + 0.116854199f;
  p = p * f - 0.124256873f;
  p = p * f + 0.142490576f;
  p = p * f - 0.166678023f;
  p = p * f + 0.200007157f;
  p = p * f - 0.249999970f;
  p = p * f + 0.333333312f;
  const float e = static_cast<float>(n);
  float y = f * square * p + e * -2.12194440e-4f;
  y = (y - 0.5f * square) + f + e * 0.693359375f;
  y = x == std::numeric_limits<float>::infinity() ? x : y;
  y = x == 0 ? -std::numeric_limits<float>::infinity() : y;
  y = x < 0 ? std::numeric_limits<float>::quiet_NaN() : y;
  return x != x ? x : y;
}
inline double Log(double x) { return std::log(x); }

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_VECTOR_MATH_H_
