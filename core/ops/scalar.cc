#include "core/ops/scalar.h"

#include <cmath>

namespace weft {
namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;     // 1 / sqrt(2)
constexpr double kSqrtTwoByPi = 0.79788456080286535588;  // sqrt(2 / pi)

double Max(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  return a > b ? a : b;
}

double Min(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  return a < b ? a : b;
}

// Both branches keep exp() from overflowing.
double Sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  double e = std::exp(x);
  return e / (1 + e);
}

double Softplus(double x) {
  return Max(x, 0) + std::log1p(std::exp(-std::fabs(x)));
}

double Sign(double x) {
  if (x > 0) return 1;
  return x < 0 ? -1 : x;  // keeps NaN and the zero's sign
}

}  // namespace

int ScalarArity(OpId op) {
  switch (op) {
    case OpId::kAdd:
    case OpId::kSub:
    case OpId::kMul:
    case OpId::kDiv:
    case OpId::kPow:
    case OpId::kMax:
    case OpId::kMin:
    case OpId::kEqual:
    case OpId::kLess:
    case OpId::kLessOrEqual:
    case OpId::kGreater:
    case OpId::kGreaterOrEqual:
    case OpId::kAnd:
    case OpId::kOr:
    case OpId::kLeakyRelu:
      return 2;
    case OpId::kNeg:
    case OpId::kAbs:
    case OpId::kExp:
    case OpId::kLog:
    case OpId::kSqrt:
    case OpId::kRelu:
    case OpId::kSigmoid:
    case OpId::kTanh:
    case OpId::kErf:
    case OpId::kSoftplus:
    case OpId::kGelu:
    case OpId::kSign:
    case OpId::kReciprocal:
    case OpId::kNot:
    case OpId::kIdentity:
      return 1;
    case OpId::kWhere:
      return 3;
    default:
      return 0;
  }
}

double ScalarValue(OpId op, double a, double b, double c) {
  switch (op) {
    case OpId::kAdd:
      return a + b;
    case OpId::kSub:
      return a - b;
    case OpId::kMul:
      return a * b;
    case OpId::kDiv:
      return a / b;
    case OpId::kPow:
      return std::pow(a, b);
    case OpId::kMax:
      return Max(a, b);
    case OpId::kMin:
      return Min(a, b);
    case OpId::kEqual:
      return a == b;
    case OpId::kLess:
      return a < b;
    case OpId::kLessOrEqual:
      return a <= b;
    case OpId::kGreater:
      return a > b;
    case OpId::kGreaterOrEqual:
      return a >= b;
    case OpId::kAnd:
      return a != 0 && b != 0;
    case OpId::kOr:
      return a != 0 || b != 0;
    case OpId::kNeg:
      return -a;
    case OpId::kAbs:
      return std::fabs(a);
    case OpId::kExp:
      return std::exp(a);
    case OpId::kLog:
      return std::log(a);
    case OpId::kSqrt:
      return std::sqrt(a);
    case OpId::kRelu:
      return Max(a, 0);
    case OpId::kLeakyRelu:
      return a < 0 ? b * a : a;
    case OpId::kSigmoid:
      return Sigmoid(a);
    case OpId::kTanh:
      return std::tanh(a);
    case OpId::kErf:
      return std::erf(a);
    case OpId::kSoftplus:
      return Softplus(a);
    case OpId::kGelu:
      return 0.5 * a * (1 + std::erf(a * kSqrtHalf));
    case OpId::kSign:
      return Sign(a);
    case OpId::kReciprocal:
      return 1 / a;
    case OpId::kNot:
      return a == 0;
    case OpId::kIdentity:
      return a;
    case OpId::kWhere:
      return a != 0 ? b : c;
    default:
      return std::nan("");
  }
}

double GeluTanh(double x) {
  return 0.5 * x * (1 + std::tanh(kSqrtTwoByPi * (x + 0.044715 * x * x * x)));
}

double GeluSlope(double x, bool tanh) {
  if (std::fabs(x) > 100) return x > 0 ? 1 : 0;  // no inf * 0 on the way
  if (!tanh) {
    const double pdf = kSqrtTwoByPi / 2 * std::exp(-0.5 * x * x);
    return 0.5 * std::erfc(-x * kSqrtHalf) + x * pdf;
  }
  // With s = (1 + tanh(u)) / 2, the value is x s and 1 - tanh(u)^2 4 s (1 - s).
  const double u = kSqrtTwoByPi * (x + 0.044715 * x * x * x);
  const double s = 1 / (1 + std::exp(-2 * u));
  const double inner_slope = kSqrtTwoByPi * (1 + 3 * 0.044715 * x * x);
  return s + 2 * x * s * (1 - s) * inner_slope;
}

}  // namespace weft
