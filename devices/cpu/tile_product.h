// Products of small matrices that lie in the cache: y = a b or y += a b, for
// kernels that multiply between other steps and cannot wait for a call into
// oneDNN. y is kept in registers, a tile at a time.
//
//   // s [rows, columns] = q k'
//   Multiply<false>(rows, columns, size, q, ld, 1, kt, columns, s, columns);
//
// Each element is a sum in order of k. With AVX-512 a term is added by a fused
// multiply-add, elsewhere the product is rounded first: results of the two
// differ as those of oneDNN's products do.
//
// Threading: free functions.
#ifndef WEFT_DEVICES_CPU_TILE_PRODUCT_H_
#define WEFT_DEVICES_CPU_TILE_PRODUCT_H_

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

#if WEFT_CPU_LEVEL == WEFT_CPU_avx512
inline constexpr int kVectorBytes = 64;
inline constexpr int kTileRows = 8;
#elif WEFT_CPU_LEVEL == WEFT_CPU_avx2
inline constexpr int kVectorBytes = 32;
inline constexpr int kTileRows = 4;
#else
inline constexpr int kVectorBytes = 16;
inline constexpr int kTileRows = 4;
#endif

// Columns of y and rows of b are padded to multiples of this many bytes,
// whatever the target.
inline constexpr int64_t kPadBytes = 64;

template <class T>
constexpr int64_t PadTo(int64_t n) {
  constexpr int64_t kPad = kPadBytes / static_cast<int64_t>(sizeof(T));
  return (n + kPad - 1) / kPad * kPad;
}

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kVectorBytes)));
};
template <class T>
using Vector = typename VectorOf<T>::type;

template <class T>
inline Vector<T> LoadVector(const T* from) {
  Vector<T> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

template <class T>
inline void StoreVector(T* to, const Vector<T>& v) {
  std::memcpy(to, &v, sizeof v);
}

// sum + a * b
template <class V, class T>
inline V MulAdd(const V& sum, T a, const V& b) {
#if WEFT_CPU_LEVEL == WEFT_CPU_avx512
  if constexpr (sizeof(T) == 4) {
    return (V)_mm512_fmadd_ps(_mm512_set1_ps(a), (__m512)b, (__m512)sum);
  } else {
    return (V)_mm512_fmadd_pd(_mm512_set1_pd(a), (__m512d)b, (__m512d)sum);
  }
#else
  return sum + a * b;
#endif
}

// What a sum starts from: row i at start + i * row; 0 without kStart.
template <class T>
struct Start {
  const T* at = nullptr;
  int64_t row = 0;
};

// kRows rows by kColumns vectors of y.
template <bool kStart, int kRows, int kColumns, class T>
inline void Tile(int64_t k, const T* a, int64_t a_row, int64_t a_step,
                 const T* b, int64_t b_row, const Start<T>& start, T* y,
                 int64_t y_row) {
  using V = Vector<T>;
  constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));
  V sums[kRows][kColumns];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < kColumns; ++c) {
      sums[r][c] =
          kStart ? LoadVector(start.at + r * start.row + c * kLanes) : V{};
    }
  }
  for (int64_t p = 0; p < k; ++p) {
    V right[kColumns];
#pragma GCC unroll 2
    for (int c = 0; c < kColumns; ++c) {
      right[c] = LoadVector(b + p * b_row + c * kLanes);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const T left = a[r * a_row + p * a_step];
#pragma GCC unroll 2
      for (int c = 0; c < kColumns; ++c) {
        sums[r][c] = MulAdd(sums[r][c], left, right[c]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < kColumns; ++c) {
      std::memcpy(y + r * y_row + c * kLanes, &sums[r][c], sizeof(V));
    }
  }
}

// All m rows by kColumns vectors.
template <bool kStart, int kColumns, int kRows, class T>
void TileRows(int64_t m, int64_t k, const T* a, int64_t a_row, int64_t a_step,
              const T* b, int64_t b_row, const Start<T>& start, T* y,
              int64_t y_row) {
  int64_t i = 0;
  for (; i + kRows <= m; i += kRows) {
    Tile<kStart, kRows, kColumns>(k, a + i * a_row, a_row, a_step, b, b_row,
                                  {start.at + i * start.row, start.row},
                                  y + i * y_row, y_row);
  }
  if constexpr (kRows > 1) {
    if (i < m) {
      TileRows<kStart, kColumns, kRows / 2>(
          m - i, k, a + i * a_row, a_row, a_step, b, b_row,
          {start.at + i * start.row, start.row}, y + i * y_row, y_row);
    }
  }
}

// y [m, n] with y_row between rows, which holds n padded; a's element (i, p) is
// a[i * a_row + p * a_step], b's row p begins at b + p * b_row and is padded as
// y's are.
template <bool kAdd, class T>
void Multiply(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row,
              int64_t a_step, const T* b, int64_t b_row, T* y, int64_t y_row) {
  constexpr int64_t kLanes = kVectorBytes / static_cast<int64_t>(sizeof(T));
  int64_t j = 0;
  for (; j + kLanes < n; j += 2 * kLanes) {
    TileRows<kAdd, 2, kTileRows>(m, k, a, a_row, a_step, b + j, b_row,
                                 Start<T>{y + j, y_row}, y + j, y_row);
  }
  if (j < n) {
    TileRows<kAdd, 1, kTileRows>(m, k, a, a_row, a_step, b + j, b_row,
                                 Start<T>{y + j, y_row}, y + j, y_row);
  }
}

#if WEFT_CPU_LEVEL == WEFT_CPU_avx512
typedef float Floats16 __attribute__((vector_size(64)));
typedef int32_t Choice16 __attribute__((vector_size(64)));

// Where a quarter of 4 comes from: lanes of x below 4, of y from 4 on, the same
// in all quarters.
constexpr Choice16 InQuarters(int a, int b, int c, int d) {
  auto lane = [](int i, int quarter) {
    return (i < 4 ? i : 12 + i) + 4 * quarter;
  };
  return Choice16{lane(a, 0), lane(b, 0), lane(c, 0), lane(d, 0),
                  lane(a, 1), lane(b, 1), lane(c, 1), lane(d, 1),
                  lane(a, 2), lane(b, 2), lane(c, 2), lane(d, 2),
                  lane(a, 3), lane(b, 3), lane(c, 3), lane(d, 3)};
}
// Quarters a, b of x, then c, d of y.
constexpr Choice16 OfQuarters(int a, int b, int c, int d) {
  return Choice16{4 * a,      4 * a + 1,  4 * a + 2,  4 * a + 3,
                  4 * b,      4 * b + 1,  4 * b + 2,  4 * b + 3,
                  4 * c + 16, 4 * c + 17, 4 * c + 18, 4 * c + 19,
                  4 * d + 16, 4 * d + 17, 4 * d + 18, 4 * d + 19};
}

// to [16, 16] = the transpose of from [16, 16], whose rows lie from_row apart.
inline void Transpose16(const float* from, int64_t from_row, float* to,
                        int64_t to_row) {
  Floats16 x[16], y[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    std::memcpy(&x[i], from + i * from_row, sizeof x[i]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    y[i] = __builtin_shuffle(x[i], x[i + 1], InQuarters(0, 4, 1, 5));
    y[i + 1] = __builtin_shuffle(x[i], x[i + 1], InQuarters(2, 6, 3, 7));
  }
  // Quarter q of x[4 i + j] becomes column 4 q + j of rows 4 i to 4 i + 3.
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    x[i] = __builtin_shuffle(y[i], y[i + 2], InQuarters(0, 1, 4, 5));
    x[i + 1] = __builtin_shuffle(y[i], y[i + 2], InQuarters(2, 3, 6, 7));
    x[i + 2] = __builtin_shuffle(y[i + 1], y[i + 3], InQuarters(0, 1, 4, 5));
    x[i + 3] = __builtin_shuffle(y[i + 1], y[i + 3], InQuarters(2, 3, 6, 7));
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const Floats16 even =
        __builtin_shuffle(x[j], x[4 + j], OfQuarters(0, 2, 0, 2));
    const Floats16 odd =
        __builtin_shuffle(x[j], x[4 + j], OfQuarters(1, 3, 1, 3));
    const Floats16 even2 =
        __builtin_shuffle(x[8 + j], x[12 + j], OfQuarters(0, 2, 0, 2));
    const Floats16 odd2 =
        __builtin_shuffle(x[8 + j], x[12 + j], OfQuarters(1, 3, 1, 3));
    const Floats16 columns[4] = {
        __builtin_shuffle(even, even2, OfQuarters(0, 2, 0, 2)),
        __builtin_shuffle(odd, odd2, OfQuarters(0, 2, 0, 2)),
        __builtin_shuffle(even, even2, OfQuarters(1, 3, 1, 3)),
        __builtin_shuffle(odd, odd2, OfQuarters(1, 3, 1, 3))};
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      std::memcpy(to + (4 * q + j) * to_row, &columns[q], sizeof columns[q]);
    }
  }
}
#else
inline void Transpose16(const float* from, int64_t from_row, float* to,
                        int64_t to_row) {
  for (int64_t i = 0; i < 16; ++i) {
    for (int64_t j = 0; j < 16; ++j) {
      to[j * to_row + i] = from[i * from_row + j];
    }
  }
}
#endif

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_TILE_PRODUCT_H_
