// Literal: a small immutable host tensor, dense and row-major: constants of a
// graph, expected values of tests, results of folding. Copies share bytes.
//
//   Literal a = Literal::Of<float>({2, 2}, {1, 2, 3, 4});
//   a.data<float>()[3];     // 4
//   a.ToDoubles();          // {1, 2, 3, 4}
//
// Threading: thread-compatible; the shared bytes never change.
#ifndef WEFT_CORE_TYPES_LITERAL_H_
#define WEFT_CORE_TYPES_LITERAL_H_

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/types/shape.h"

namespace weft {

// Conversions between storage formats, round to nearest even.
float Bf16ToFloat(uint16_t bits);
uint16_t FloatToBf16(float value);
float F16ToFloat(uint16_t bits);
uint16_t FloatToF16(float value);

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kI8;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::kI16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};

class Literal {
 public:
  Literal() = default;  // invalid dtype, no bytes

  // `bytes.size()` must equal the type's num_bytes().
  Literal(TensorType type, std::string bytes);

  template <typename T>
  static Literal Of(Shape shape, std::vector<T> values) {
    std::string bytes(values.size() * sizeof(T), '\0');
    for (size_t i = 0; i < values.size(); ++i) {
      T v = values[i];
      std::memcpy(&bytes[i * sizeof(T)], &v, sizeof(T));
    }
    return Literal({DTypeOf<T>::value, std::move(shape)}, std::move(bytes));
  }
  template <typename T>
  static Literal Scalar(T value) {
    return Of<T>(Shape(), {value});
  }
  // Each value converted (and rounded) to `type.dtype`; bool is value != 0.
  static Literal FromDoubles(TensorType type, absl::Span<const double> values);
  // Every element `value`.
  static Literal Splat(TensorType type, double value);

  const TensorType& type() const { return type_; }
  absl::string_view bytes() const { return bytes_ ? *bytes_ : empty_; }
  template <typename T>
  absl::Span<const T> data() const {
    return {reinterpret_cast<const T*>(bytes().data()),
            bytes().size() / sizeof(T)};
  }

  // Every element as double (i64 beyond 2^53 loses bits).
  std::vector<double> ToDoubles() const;

  // Same type and same bytes.
  friend bool operator==(const Literal& a, const Literal& b) {
    return a.type_ == b.type_ && a.bytes() == b.bytes();
  }

 private:
  static const std::string empty_;
  TensorType type_;
  std::shared_ptr<const std::string> bytes_;
};

}  // namespace weft

#endif  // WEFT_CORE_TYPES_LITERAL_H_
