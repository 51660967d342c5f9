// Integer arithmetic of the reference: exact modulo 2^n, as two's complement
// hardware wraps around, which double arithmetic is not.
//
//   IntegerValue(OpId::kAdd, DType::kI8, 127, 1)    // -128
//   IntegerValue(OpId::kDiv, DType::kI32, -7, 2)    // -3, towards zero
//   IntegerValue(OpId::kDiv, DType::kI32, 1, 0)     // 0, and no trap
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_REFERENCE_INTEGERS_H_
#define WEFT_CORE_REFERENCE_INTEGERS_H_

#include <cstdint>

#include "core/ops/scalar.h"
#include "core/types/dtype.h"

namespace weft {
namespace reference {

// `bits` as a value of the dtype.
inline double WrapInteger(DType dtype, uint64_t bits) {
  switch (dtype) {
    case DType::kI8:
      return static_cast<int8_t>(bits);
    case DType::kU8:
      return static_cast<uint8_t>(bits);
    case DType::kI16:
      return static_cast<int16_t>(bits);
    case DType::kI32:
      return static_cast<int32_t>(bits);
    default:
      return static_cast<double>(static_cast<int64_t>(bits));
  }
}

// An elementwise op on integers; ops that cannot overflow are ScalarValue().
// Pre-condition: a and b are values of the dtype.
inline double IntegerValue(OpId id, DType dtype, double a, double b) {
  auto x = static_cast<int64_t>(a);
  auto y = static_cast<int64_t>(b);
  auto ux = static_cast<uint64_t>(x);
  auto uy = static_cast<uint64_t>(y);
  switch (id) {
    case OpId::kAdd:
      return WrapInteger(dtype, ux + uy);
    case OpId::kSub:
      return WrapInteger(dtype, ux - uy);
    case OpId::kMul:
      return WrapInteger(dtype, ux * uy);
    case OpId::kDiv:
      return y == 0 ? 0 : WrapInteger(dtype, static_cast<uint64_t>(x / y));
    case OpId::kNeg:
      return WrapInteger(dtype, -ux);
    case OpId::kAbs:
      return WrapInteger(dtype, x < 0 ? -ux : ux);
    default:
      return ScalarValue(id, a, b);
  }
}

}  // namespace reference
}  // namespace weft

#endif  // WEFT_CORE_REFERENCE_INTEGERS_H_
