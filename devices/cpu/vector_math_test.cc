// The errors that vector_math.h states, against the C library in double, over
// floats of every exponent and both signs.
#include "devices/cpu/vector_math.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace weft_cpu {
namespace {

using sse4::FloatFromBits;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The largest error of f, in units in the last place of the right float, over
// every kStep-th float in [low, high]. Fails where a special value is wrong.
template <class F, class G>
double WorstUlp(F f, G right, float low = -kInfinity, float high = kInfinity) {
  constexpr uint64_t kStep = 4999;  // a prime: all exponents, varied fractions
  double worst = 0;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += kStep) {
    const float x = FloatFromBits(static_cast<uint32_t>(bits));
    if (x == x && (x < low || x > high)) continue;
    const float got = f(x);
    const double want = right(static_cast<double>(x));
    const float rounded = static_cast<float>(want);
    if (std::isnan(rounded) || std::isinf(rounded)) {
      EXPECT_EQ(std::isnan(got), std::isnan(rounded)) << x;
      if (std::isinf(rounded)) {
        EXPECT_EQ(got, rounded) << x;
      }
      continue;
    }
    int exponent = rounded == 0 ? -126 : std::ilogb(rounded);
    const double ulp = std::ldexp(1.0, std::max(exponent, -126) - 23);
    const double error = std::fabs(static_cast<double>(got) - want) / ulp;
    EXPECT_FALSE(std::isnan(got)) << x;
    worst = std::max(worst, error);
  }
  return worst;
}

TEST(VectorMathTest, Exp) {
  EXPECT_LE(WorstUlp([](float x) { return sse4::Exp(x); },
                     [](double x) { return std::exp(x); }),
            1.0);
}
TEST(VectorMathTest, ExpBelow) {
  EXPECT_LE(WorstUlp([](float x) { return x == x ? sse4::ExpBelow(x) : x; },
                     [](double x) { return std::exp(x); }, -87.3f, 0.0f),
            1.0);
  EXPECT_EQ(sse4::ExpBelow(0.0f), 1.0f);
  for (float x : {-87.31f, -100.0f, -1e30f, -kInfinity}) {
    EXPECT_EQ(sse4::ExpBelow(x), 0.0f) << x;
  }
}
TEST(VectorMathTest, Log) {
  EXPECT_LE(WorstUlp([](float x) { return sse4::Log(x); },
                     [](double x) { return std::log(x); }),
            1.0);
}
TEST(VectorMathTest, Tanh) {
  EXPECT_LE(WorstUlp([](float x) { return sse4::Tanh(x); },
                     [](double x) { return std::tanh(x); }),
            1.5);
}
TEST(VectorMathTest, Erf) {
  EXPECT_LE(WorstUlp([](float x) { return sse4::Erf(x); },
                     [](double x) { return std::erf(x); }),
            2.5);
}
// The largest error of f, absolute.
template <class F, class G>
double WorstError(F f, G right) {
  double worst = 0;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4999) {
    const float x = FloatFromBits(static_cast<uint32_t>(bits));
    const float got = f(x);
    EXPECT_EQ(std::isnan(got), std::isnan(x)) << x;
    if (std::isnan(x)) continue;
    worst = std::max(worst, std::fabs(got - right(static_cast<double>(x))));
  }
  return worst;
}

double RightCdf(double x) { return 0.5 * std::erfc(-x / M_SQRT2); }

TEST(VectorMathTest, NormalCdf) {
  EXPECT_LE(WorstError([](float x) { return sse4::NormalCdf(x); }, RightCdf),
            2e-7);
  EXPECT_EQ(sse4::NormalCdf(0.0f), 0.5f);
  EXPECT_EQ(sse4::NormalCdf(kInfinity), 1.0f);
  EXPECT_EQ(sse4::NormalCdf(-kInfinity), 0.0f);
}

TEST(VectorMathTest, GeluSlope) {
  auto right = [](double x) {
    if (std::fabs(x) > 40) return x > 0 ? 1.0 : 0.0;
    return RightCdf(x) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
  };
  EXPECT_LE(WorstError([](float x) { return sse4::GeluSlope(x); }, right),
            3e-7);
  EXPECT_EQ(sse4::GeluSlope(0.0f), 0.5f);
  EXPECT_EQ(sse4::GeluSlope(kInfinity), 1.0f);
  EXPECT_EQ(sse4::GeluSlope(-kInfinity), 0.0f);
  for (double x : {-50.0, -3.0, 0.0, 0.7, 50.0}) {
    EXPECT_DOUBLE_EQ(sse4::GeluSlope(x), right(x));
  }
}

TEST(VectorMathTest, OfZeroAndOne) {
  EXPECT_EQ(sse4::Exp(0.0f), 1.0f);
  EXPECT_EQ(sse4::Log(1.0f), 0.0f);
  EXPECT_EQ(sse4::Tanh(0.0f), 0.0f);
  EXPECT_TRUE(std::signbit(sse4::Tanh(-0.0f)));
  EXPECT_TRUE(std::signbit(sse4::Erf(-0.0f)));
}

}  // namespace
}  // namespace weft_cpu
