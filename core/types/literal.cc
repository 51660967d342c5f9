#include "core/types/literal.h"

#include <cmath>
#include <limits>
#include <utility>

namespace weft {
namespace {

template <typename To, typename From>
To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// Out-of-range values saturate, NaN becomes 0: never undefined behaviour.
template <typename T>
T ToInteger(double v) {
  if (std::isnan(v)) return 0;
  if (v <= static_cast<double>(std::numeric_limits<T>::min())) {
    return std::numeric_limits<T>::min();
  }
  if (v >= static_cast<double>(std::numeric_limits<T>::max())) {
    return std::numeric_limits<T>::max();
  }
  return static_cast<T>(v);
}

void StoreDouble(DType dtype, double v, char* out) {
  auto put = [out](auto x) { std::memcpy(out, &x, sizeof(x)); };
  switch (dtype) {
    case DType::kF32:
      return put(static_cast<float>(v));
    case DType::kF64:
      return put(v);
    case DType::kF16:
      return put(FloatToF16(static_cast<float>(v)));
    case DType::kBF16:
      return put(FloatToBf16(static_cast<float>(v)));
    case DType::kI8:
      return put(ToInteger<int8_t>(v));
    case DType::kU8:
      return put(ToInteger<uint8_t>(v));
    case DType::kI16:
      return put(ToInteger<int16_t>(v));
    case DType::kI32:
      return put(ToInteger<int32_t>(v));
    case DType::kI64:
      return put(ToInteger<int64_t>(v));
    case DType::kBool:
      return put(static_cast<uint8_t>(v != 0));
    case DType::kInvalid:
      return;
  }
}

double LoadDouble(DType dtype, const char* in) {
  auto get = [in](auto x) {
    std::memcpy(&x, in, sizeof(x));
    return x;
  };
  switch (dtype) {
    case DType::kF32:
      return get(float{});
    case DType::kF64:
      return get(double{});
    case DType::kF16:
      return F16ToFloat(get(uint16_t{}));
    case DType::kBF16:
      return Bf16ToFloat(get(uint16_t{}));
    case DType::kI8:
      return get(int8_t{});
    case DType::kU8:
      return get(uint8_t{});
    case DType::kI16:
      return get(int16_t{});
    case DType::kI32:
      return get(int32_t{});
    case DType::kI64:
      return static_cast<double>(get(int64_t{}));
    case DType::kBool:
      return get(uint8_t{}) != 0;
    case DType::kInvalid:
      return 0;
  }
  return 0;
}

}  // namespace

float Bf16ToFloat(uint16_t bits) {
  return BitCast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t FloatToBf16(float value) {
  uint32_t bits = BitCast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float F16ToFloat(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 0x1f;
  uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
    float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return BitCast<float>(BitCast<uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) {
    return BitCast<float>(sign | 0x7f800000u | (mantissa << 13));
  }
  return BitCast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t FloatToF16(float value) {
  uint32_t bits = BitCast<uint32_t>(value);
  uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  if (magnitude < 6.103515625e-05f) {  // below 2^-14: subnormal
    return sign |
           static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 24)));
  }
  uint32_t m = BitCast<uint32_t>(magnitude);
  m += 0xfff + ((m >> 13) & 1);
  return sign | static_cast<uint16_t>((m >> 13) - (112u << 10));
}

const std::string Literal::empty_;

Literal::Literal(TensorType type, std::string bytes)
    : type_(std::move(type)),
      bytes_(std::make_shared<const std::string>(std::move(bytes))) {}

Literal Literal::FromDoubles(TensorType type, absl::Span<const double> values) {
  size_t size = DTypeSize(type.dtype);
  std::string bytes(values.size() * size, '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    StoreDouble(type.dtype, values[i], &bytes[i * size]);
  }
  return Literal(std::move(type), std::move(bytes));
}

Literal Literal::Splat(TensorType type, double value) {
  std::vector<double> values(type.shape.num_elements(), value);
  return FromDoubles(std::move(type), values);
}

std::vector<double> Literal::ToDoubles() const {
  size_t size = DTypeSize(type_.dtype);
  std::vector<double> out(type_.shape.num_elements());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = LoadDouble(type_.dtype, bytes().data() + i * size);
  }
  return out;
}

}  // namespace weft
