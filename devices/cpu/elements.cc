#if defined(__SSE2__)
#include <emmintrin.h>  // before target.h
#endif

#include "devices/cpu/elements.h"
#include "devices/cpu/numeric.h"

WEFT_CPU_BEGIN
namespace {

template <class S, class D>
void Each(const void* from, int64_t n, void* to) {
  const S* __restrict x = static_cast<const S*>(from);
  D* __restrict y = static_cast<D*>(to);
  for (int64_t i = 0; i < n; ++i) y[i] = Convert<D>(x[i]);
}

// A cast of bool is not vectorised.
template <class D>
void Truth(const void* from, int64_t n, void* to) {
  const uint8_t* __restrict x = static_cast<const uint8_t*>(from);
  D* __restrict y = static_cast<D*>(to);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] != 0 ? D(1) : D(0);
}

template <class D>
void Wrapping(const void* from, int64_t n, void* to) {
  const uint64_t* __restrict x = static_cast<const uint64_t*>(from);
  D* __restrict y = static_cast<D*>(to);
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<D>(x[i]);
}

void ExactBfloat(const void* from, int64_t n, void* to) {
  const uint32_t* __restrict x = static_cast<const uint32_t*>(from);
  uint16_t* __restrict y = static_cast<uint16_t*>(to);
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<uint16_t>(x[i] >> 16);
}

void ExactHalf(const void* from, int64_t n, void* to) {
  const float* __restrict x = static_cast<const float*>(from);
  uint16_t* __restrict y = static_cast<uint16_t*>(to);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = BitsOf(x[i]);
    const uint32_t nan =
        (bits >> 16 & 0x8000u) | 0x7c00u | (bits >> 13 & 0x3ffu);
    y[i] = x[i] != x[i] ? static_cast<uint16_t>(nan) : Half(x[i]).bits;
  }
}

template <class U>
void GatherOf(const void* from, int64_t stride, int64_t n, void* to) {
  const U* __restrict x = static_cast<const U*>(from);
  U* __restrict y = static_cast<U*>(to);
  if (stride == 0) {
    std::fill_n(y, n, *x);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i * stride];
  }
}

Converter LoadFloat(uint32_t dtype) {
  switch (dtype) {
    case WEFT_F16:
      return Each<Half, float>;
    case WEFT_BF16:
      return Each<Bfloat, float>;
    case WEFT_BOOL:
      return Truth<float>;
    case WEFT_I8:
      return Each<int8_t, float>;
    case WEFT_U8:
      return Each<uint8_t, float>;
    case WEFT_I16:
      return Each<int16_t, float>;
    case WEFT_I32:
      return Each<int32_t, float>;
    default:
      return nullptr;
  }
}

Converter LoadDouble(uint32_t dtype) {
  switch (dtype) {
    case WEFT_F32:
      return Each<float, double>;
    case WEFT_F16:
      return Each<Half, double>;
    case WEFT_BF16:
      return Each<Bfloat, double>;
    case WEFT_BOOL:
      return Truth<double>;
    case WEFT_I8:
      return Each<int8_t, double>;
    case WEFT_U8:
      return Each<uint8_t, double>;
    case WEFT_I16:
      return Each<int16_t, double>;
    case WEFT_I32:
      return Each<int32_t, double>;
    case WEFT_I64:
      return Each<int64_t, double>;
    default:
      return nullptr;
  }
}

Converter LoadInteger(uint32_t dtype) {
  switch (dtype) {
    case WEFT_BOOL:
      return Truth<int64_t>;
    case WEFT_I8:
      return Each<int8_t, int64_t>;
    case WEFT_U8:
      return Each<uint8_t, int64_t>;
    case WEFT_I16:
      return Each<int16_t, int64_t>;
    case WEFT_I32:
      return Each<int32_t, int64_t>;
    default:
      return nullptr;
  }
}

Converter StoreFloat(uint32_t dtype, bool exact) {
  switch (dtype) {
    case WEFT_F16:
      return exact ? ExactHalf : Each<float, Half>;
    case WEFT_BF16:
      return exact ? ExactBfloat : Each<float, Bfloat>;
    case WEFT_BOOL:
      return Each<float, Bool>;
    default:
      return nullptr;
  }
}

Converter StoreDouble(uint32_t dtype) {
  switch (dtype) {
    case WEFT_F32:
      return Each<double, float>;
    case WEFT_F16:
      return Each<double, Half>;
    case WEFT_BF16:
      return Each<double, Bfloat>;
    case WEFT_BOOL:
      return Each<double, Bool>;
    case WEFT_I8:
      return Each<double, int8_t>;
    case WEFT_U8:
      return Each<double, uint8_t>;
    case WEFT_I16:
      return Each<double, int16_t>;
    case WEFT_I32:
      return Each<double, int32_t>;
    case WEFT_I64:
      return Each<double, int64_t>;
    default:
      return nullptr;
  }
}

Converter StoreInteger(uint32_t dtype, bool wrap) {
  switch (dtype) {
    case WEFT_F32:
      return Each<int64_t, float>;
    case WEFT_BF16:
      return Each<int64_t, Bfloat>;
    case WEFT_BOOL:
      return Each<int64_t, Bool>;
    case WEFT_I8:
      return wrap ? Wrapping<int8_t> : Each<int64_t, int8_t>;
    case WEFT_U8:
      return wrap ? Wrapping<uint8_t> : Each<int64_t, uint8_t>;
    case WEFT_I16:
      return wrap ? Wrapping<int16_t> : Each<int64_t, int16_t>;
    case WEFT_I32:
      return wrap ? Wrapping<int32_t> : Each<int64_t, int32_t>;
    default:
      return nullptr;
  }
}

uint32_t Native(Wide wide) {
  return wide == Wide::kFloat    ? WEFT_F32
         : wide == Wide::kDouble ? WEFT_F64
                                 : WEFT_I64;
}

}  // namespace

Wide WideOf(uint32_t dtype) {
  if (dtype == WEFT_F64) return Wide::kDouble;
  return IsIntegerType(dtype) ? Wide::kInteger : Wide::kFloat;
}

Converter FindLoad(uint32_t dtype, Wide wide, bool* found) {
  Converter load = wide == Wide::kFloat    ? LoadFloat(dtype)
                   : wide == Wide::kDouble ? LoadDouble(dtype)
                                           : LoadInteger(dtype);
  *found = load != nullptr || dtype == Native(wide);
  return load;
}

Converter FindStore(Wide wide, uint32_t dtype, Narrowing narrowing,
                    bool* found) {
  Converter store = wide == Wide::kFloat
                        ? StoreFloat(dtype, narrowing == Narrowing::kExact)
                    : wide == Wide::kDouble
                        ? StoreDouble(dtype)
                        : StoreInteger(dtype, narrowing == Narrowing::kWrap);
  *found = store != nullptr || dtype == Native(wide);
  return store;
}

void Gather(const void* from, int64_t size, int64_t stride, int64_t n,
            void* to) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(size * n));
    return;
  }
  switch (size) {
    case 1:
      return GatherOf<uint8_t>(from, stride, n, to);
    case 2:
      return GatherOf<uint16_t>(from, stride, n, to);
    case 4:
      return GatherOf<uint32_t>(from, stride, n, to);
    default:
      return GatherOf<uint64_t>(from, stride, n, to);
  }
}

void CopyPastCaches(const char* from, int64_t bytes, char* to) {
#if defined(__SSE2__)
  if (reinterpret_cast<uintptr_t>(to) % 16 == 0) {
    for (; bytes >= 64; bytes -= 64, from += 64, to += 64) {
      for (int64_t i = 0; i < 64; i += 16) {
        _mm_stream_si128(
            reinterpret_cast<__m128i*>(to + i),
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
      }
    }
  }
#endif
  std::memcpy(to, from, static_cast<size_t>(bytes));
}

void FinishPastCaches() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

WEFT_CPU_END
