// What self-attention and its gradient are made of: one head of one sample,
// packed, and a block of scores that lies transposed, a row for each key and a
// lane for each query of a group. So the largest score of a query, its sum and
// its mask are operations of whole vectors, none of which goes across lanes,
// and each of the products (tile_product.h) reads its left operand along a row.
//
//   Pack(s, qkv, row, factor, q);            // [Pad(tokens), padded head]
//   TransposeGroup(s, q + begin * head, qt);     // [head, kGroup]
//   Scores(s, begin, block, k, qt, weights);     // [keys, kGroup]
//   WeightedSum<false>(s, begin, block, weights, v, y);   // [kGroup, head]
//
// Threading: free functions.
#ifndef WEFT_DEVICES_CPU_ATTENTION_TILES_H_
#define WEFT_DEVICES_CPU_ATTENTION_TILES_H_

#include "devices/cpu/attention.h"
#include "devices/cpu/reduction.h"
#include "devices/cpu/target.h"
#include "devices/cpu/tile_product.h"
#include "devices/cpu/vector_math.h"

WEFT_CPU_BEGIN

constexpr int64_t kGroup = 32;  // queries
constexpr int64_t kKeys = 128;  // of a block; a multiple of kGroup

template <class T>
constexpr int64_t kVectorLanes = kVectorBytes / static_cast<int64_t>(sizeof(T));
// Lanes of a cache line, the least that is worth skipping.
template <class T>
constexpr int64_t kLineLanes = kPadBytes / static_cast<int64_t>(sizeof(T));

inline int64_t PadToGroup(int64_t tokens) {
  return (tokens + kGroup - 1) / kGroup * kGroup;
}

// Hands out aligned pieces of a workspace; without one it measures.
template <class T>
class Pieces {
 public:
  explicit Pieces(T* base) : base_(base) {}
  T* Take(int64_t n) {
    T* piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += PadTo<T>(n);
    return piece;
  }
  int64_t used() const { return used_; }

 private:
  T* base_;
  int64_t used_ = 0;
};

// ---- Operands ---------------------------------------------------------------

// y = factor * x for one row; adds to `bad` 0 times each of it, which is NaN
// for what is not finite.
template <class T>
void PackRow(const HeadShape& s, const T* x, T factor, T* y, Vector<T>* bad) {
  constexpr int64_t kLanes = kVectorLanes<T>;
  const int64_t whole = s.head / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    const Vector<T> v = LoadVector(x + i) * factor;
    StoreVector(y + i, v);
    *bad += v * T(0);
  }
  for (int64_t i = whole; i < s.padded(); ++i) {
    y[i] = i < s.head ? factor * x[i] : T(0);
    (*bad)[0] += y[i] * T(0);
  }
}

// to [PadToGroup(tokens), padded head] = factor * from, rows of which are `row`
// apart; 0 in what is padded. True where all of it is finite.
template <class T>
bool Pack(const HeadShape& s, const T* from, int64_t row, T factor, T* to) {
  const int64_t padded = s.padded();
  Vector<T> bad[4] = {};  // no addition waits for the one before
  int64_t r = 0;
  for (; r + 4 <= s.tokens; r += 4) {
#pragma GCC unroll 4
    for (int64_t j = 0; j < 4; ++j) {
      PackRow(s, from + (r + j) * row, factor, to + (r + j) * padded, &bad[j]);
    }
  }
  for (; r < s.tokens; ++r) {
    PackRow(s, from + r * row, factor, to + r * padded, &bad[0]);
  }
  std::fill(to + r * padded, to + PadToGroup(s.tokens) * padded, T(0));
  const Vector<T> all = (bad[0] + bad[1]) + (bad[2] + bad[3]);
  T sum = 0;
  for (int64_t l = 0; l < kVectorLanes<T>; ++l) sum += all[l];
  return sum == 0;
}

// to, rows of which are `row` apart, = factor * the first n packed rows.
template <class T>
void Unpack(const HeadShape& s, const T* from, int64_t n, T factor, T* to,
            int64_t row) {
  const int64_t padded = s.padded();
  for (int64_t r = 0; r < n; ++r) {
    const T* __restrict x = from + r * padded;
    T* __restrict y = to + r * row;
    for (int64_t i = 0; i < s.head; ++i) y[i] = factor * x[i];
  }
}

// to [16, 16] = the transpose of from.
template <class T>
void TransposeTile(const T* from, int64_t from_row, T* to, int64_t to_row) {
  if constexpr (sizeof(T) == 4) {
    Transpose16(from, from_row, to, to_row);
  } else {
    for (int64_t i = 0; i < 16; ++i) {
      for (int64_t j = 0; j < 16; ++j) {
        to[j * to_row + i] = from[i * from_row + j];
      }
    }
  }
}

// to [padded head, kGroup] = the transpose of kGroup packed rows.
template <class T>
void TransposeGroup(const HeadShape& s, const T* from, T* to) {
  const int64_t padded = s.padded();
  for (int64_t i = 0; i < padded; i += 16) {
    for (int64_t q = 0; q < kGroup; q += 16) {
      TransposeTile(from + q * padded + i, padded, to + i * kGroup + q, kGroup);
    }
  }
}

// Asks for the memory of the next item, a row at each tile of a product: all of
// them at once would wait for each other. (Assembly, as GCC 12 takes a function
// that only prefetches for one without effect.)
template <class T>
class Ahead {
 public:
  explicit Ahead(const HeadShape& s) : head_(s.head), rows_(s.tokens) {}

  // `first`: row 0 of an operand or result; `row`: between rows.
  void Add(const T* first, int64_t row) { pieces_[n_++] = {first, row}; }
  void Row() {
    if (n_ == 0 || row_ == rows_) return;
    for (int p = 0; p < n_; ++p) {
      const T* x = pieces_[p].first + row_ * pieces_[p].row;
      for (int64_t i = 0; i < head_; i += kLineLanes<T>) Ask(x + i);
    }
    ++row_;
  }

 private:
  struct Piece {
    const T* first;
    int64_t row;
  };
  static void Ask(const T* x) {
#if defined(__x86_64__)
    asm volatile("prefetcht0 %0" : : "m"(*x));
#else
    __builtin_prefetch(x);
#endif
  }

  int64_t head_, rows_, row_ = 0;
  int n_ = 0;
  Piece pieces_[8];
};

// ---- Blocks of scores -------------------------------------------------------

// Keys [begin, end), of those that a group of queries sees.
struct KeyBlock {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// f(block) for the keys that the group from `first` to `end` sees.
template <class F>
void ForEachBlock(const HeadShape& s, int64_t end, F f) {
  const int64_t seen = s.causal ? end : s.tokens;
  for (int64_t c = 0; c < seen; c += kKeys) {
    f(KeyBlock{c, std::min(seen, c + kKeys)});
  }
}

// Of the block's keys, how many from the first on query `query` sees.
inline int64_t SeenOf(const HeadShape& s, const KeyBlock& block,
                      int64_t query) {
  if (!s.causal) return block.size();
  return std::clamp<int64_t>(query + 1 - block.begin, 0, block.size());
}

// to [keys of the block, kGroup] = rows . columns, where `rows` are packed keys
// or values and `columns` a transposed group of n queries from `begin` on.
// Lines of lanes whose queries see nothing of a key may be left as they were.
template <class T>
void Scores(const HeadShape& s, int64_t begin, int64_t n, const KeyBlock& block,
            const T* rows, const T* columns, T* to) {
  const int64_t head = s.padded(), lanes = PadTo<T>(n);
  const int64_t line = std::min(kLineLanes<T>, lanes);
  // What the last query of the first line of lanes sees, and the rest.
  const int64_t all = SeenOf(s, block, begin + line - 1);
  const T* a = rows + block.begin * head;
  Multiply<false>(all, lanes, s.head, a, head, 1, columns, kGroup, to, kGroup);
  if (all == block.size() || lanes == line) return;
  Multiply<false>(block.size() - all, lanes - line, s.head, a + all * head,
                  head, 1, columns + line, kGroup, to + all * kGroup + line,
                  kGroup);
}

// y [n, padded head] = (or +=) the rows of `rows`, packed, each weighted by the
// row's line of `weights` [keys of the block, kGroup].
template <class T>
void WeightedSum(const HeadShape& s, bool add, int64_t begin, int64_t n,
                 const KeyBlock& block, const T* weights, const T* rows, T* y,
                 Ahead<T>* ahead) {
  const int64_t head = s.padded();
  const T* b = rows + block.begin * head;
  for (int64_t q = 0; q < n; q += kTileRows) {
    ahead->Row();
    const int64_t m = std::min<int64_t>(kTileRows, n - q);
    const int64_t seen = SeenOf(s, block, begin + q + m - 1);
    if (add) {
      Multiply<true>(m, s.head, seen, weights + q, 1, kGroup, b, head,
                     y + q * head, head);
    } else {
      Multiply<false>(m, s.head, seen, weights + q, 1, kGroup, b, head,
                      y + q * head, head);
    }
  }
}

// y [tokens, padded head] at the block's keys += the n rows of `rows`, packed
// and from the group's first query on, each weighted by its lane of `weights`.
template <class T>
void AddToKeys(const HeadShape& s, int64_t begin, int64_t n,
               const KeyBlock& block, const T* weights, const T* rows, T* y,
               Ahead<T>* ahead) {
  const int64_t head = s.padded();
  for (int64_t k = 0; k < block.size(); k += kTileRows) {
    ahead->Row();
    const int64_t m = std::min<int64_t>(kTileRows, block.size() - k);
    const int64_t key = block.begin + k;
    const int64_t first = s.causal ? std::max<int64_t>(0, key - begin) : 0;
    Multiply<true>(m, s.head, n - first, weights + k * kGroup + first, kGroup,
                   1, rows + first * head, head, y + key * head, head);
  }
}

// What stays of a vector of numbers, one for each query, beside a key: all, or
// those from lane `first` on, where the diagonal goes through.
template <class T>
struct AllSeen {
  Vector<T> operator()(const Vector<T>& x, const Vector<T>&) const { return x; }
};
template <class T>
struct SeenFrom {
  Vector<T> operator()(const Vector<T>& x, const Vector<T>& otherwise) const {
    return lane >= first ? x : otherwise;
  }
  Vector<T> lane, first;
};

// f(key, hide) for the keys of the block that any of a vector of queries, the
// first of which is `query`, sees: hide(x, otherwise) is `otherwise` in lanes
// that do not see it. Gives the first key that none sees.
template <class T, class F>
int64_t ForEachKey(const HeadShape& s, const KeyBlock& block, int64_t query,
                   F f) {
  const int64_t all = SeenOf(s, block, query);
  const int64_t some = SeenOf(s, block, query + kVectorLanes<T> - 1);
  for (int64_t k = 0; k < all; ++k) f(k, AllSeen<T>());
  SeenFrom<T> seen;
  for (int64_t l = 0; l < kVectorLanes<T>; ++l) {
    seen.lane[l] = static_cast<T>(l);
  }
  for (int64_t k = all; k < some; ++k) {
    seen.first = Vector<T>{} + static_cast<T>(block.begin + k - query);
    f(k, seen);
  }
  return some;
}

// to [keys of the block, kGroup] = the factors of the weights of n queries from
// `begin` on; `rows` is scratch of that size. A query's own lie one after the
// other, so they are transposed.
template <class T>
void KeepFactors(const HeadShape& s, const Dropping<T>& dropping, int64_t item,
                 int64_t begin, int64_t n, const KeyBlock& block, T* rows,
                 T* to) {
  std::fill(rows, rows + kGroup * kKeys, T(0));
  for (int64_t q = 0; q < n; ++q) {
    dropping.Factors(item, begin + q, block.begin, SeenOf(s, block, begin + q),
                     rows + q * kKeys);
  }
  for (int64_t k = 0; k < block.size(); k += 16) {
    for (int64_t q = 0; q < kGroup; q += 16) {
      TransposeTile(rows + q * kKeys + k, kKeys, to + k * kGroup + q, kGroup);
    }
  }
}

// ---- Arithmetic -------------------------------------------------------------

// exp of each lane, to 2 units in the last place; what is below the smallest
// normal number may be 0.
#if WEFT_CPU_LEVEL == WEFT_CPU_avx512
inline Vector<float> ExpOf(const Vector<float>& lanes) {
  // Where an operand is NaN, vmaxps and vminps give the second one.
  // (The masks keep a warning of GCC's headers away.)
  constexpr __mmask16 kAll = 0xffff;
  __m512 x = _mm512_maskz_max_ps(kAll, _mm512_set1_ps(-104.0f), (__m512)lanes);
  x = _mm512_maskz_min_ps(kAll, _mm512_set1_ps(89.0f), x);
  const __m512 round = _mm512_set1_ps(12582912.0f);  // as in Exp()
  const __m512 n = _mm512_sub_ps(
      _mm512_fmadd_ps(x, _mm512_set1_ps(1.44269504f), round), round);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
  __m512 p = _mm512_set1_ps(0.000198909827f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.00139336427f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.00833331093f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.041666465f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.166666667f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.500000001f));
  p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r);
  return (Vector<float>)_mm512_maskz_scalef_ps(
      kAll, _mm512_add_ps(p, _mm512_set1_ps(1.0f)), n);
}
#else
inline Vector<float> ExpOf(const Vector<float>& lanes) {
  typedef int32_t Bits __attribute__((vector_size(kVectorBytes)));
  constexpr float kLeast = -87.3f, kMost = 88.7f;  // 2^n is normal between them
  Vector<float> x = lanes < kLeast ? Vector<float>{} + kLeast : lanes;
  x = x > kMost ? Vector<float>{} + kMost : x;
  const Vector<float> shifted = x * 1.44269504f + 12582912.0f;
  const Vector<float> n = shifted - 12582912.0f;
  const Vector<float> r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  Vector<float> p = Vector<float>{} + 0.000198909827f;
  p = p * r + 0.00139336427f;
  p = p * r + 0.00833331093f;
  p = p * r + 0.041666465f;
  p = p * r + 0.166666667f;
  p = p * r + 0.500000001f;
  // 2^n in two factors, as n may be 128.
  const Bits k = (Bits)shifted - static_cast<int32_t>(BitsOf(12582912.0f));
  const Bits half = k >> 1;
  Vector<float> y = p * (r * r) + r + 1.0f;
  y *= (Vector<float>)((half + 127) << 23);
  y *= (Vector<float>)((k - half + 127) << 23);
  y = lanes < kLeast ? Vector<float>{} : y;
  y = lanes > kMost ? Vector<float>{} + std::numeric_limits<float>::infinity()
                    : y;
  return lanes == lanes ? y : lanes;
}
#endif
inline Vector<double> ExpOf(Vector<double> x) {
  for (int64_t l = 0; l < kVectorLanes<double>; ++l) x[l] = Exp(x[l]);
  return x;
}

template <class T>
T DotRow(const T* x, const T* y, int64_t n) {
  return ReduceRow<SumOf, T>(n, [=](int64_t i) { return x[i] * y[i]; });
}

// to[r] = x's row r . y's row r, `row` apart, for the tokens: the bits of
// DotRow().
template <class T>
void DotRows(const HeadShape& s, const T* x, int64_t x_row, const T* y,
             int64_t y_row, T* to) {
  int64_t done = 0;
#if WEFT_CPU_LEVEL == WEFT_CPU_avx512
  // 16 rows at once: their sums of 16 lanes, transposed, are added in the
  // order of the tree.
  if constexpr (sizeof(T) == 4) {
    const bool fits = s.head % 16 == 0 && s.head <= kRowBlock;
    for (; fits && done + 16 <= s.tokens; done += 16) {
      alignas(64) T sums[16][16], columns[16][16];
      for (int64_t r = 0; r < 16; ++r) {
        Vector<T> sum = {};
        for (int64_t i = 0; i < s.head; i += 16) {
          sum += LoadVector(x + (done + r) * x_row + i) *
                 LoadVector(y + (done + r) * y_row + i);
        }
        StoreVector(sums[r], sum);
      }
      Transpose16(sums[0], 16, columns[0], 16);
      for (int width = 8; width > 0; width /= 2) {
        for (int l = 0; l < width; ++l) {
          StoreVector(columns[l],
                      LoadVector(columns[l]) + LoadVector(columns[l + width]));
        }
      }
      StoreVector(to + done, LoadVector(columns[0]));
    }
  }
#endif
  for (int64_t r = done; r < s.tokens; ++r) {
    to[r] = DotRow(x + r * x_row, y + r * y_row, s.head);
  }
}

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_ATTENTION_TILES_H_
