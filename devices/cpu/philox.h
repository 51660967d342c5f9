// Random numbers by counter: Philox4x32-10. Weft defines what each element of a
// random tensor is, so that every device gives the same; this is that
// definition again, for this plugin, and a test holds the two equal.
//
//   element i of the step's logical tensor: lane i % 4 of block i / 4
//   counter words {block, step}, key words k = mix(mix(seed) ^ stream), low
//   first uniform: (word >> 8) / 2^24 normal: Box-Muller over the pairs of
//   lanes (0, 1) and (2, 3), in double
//
// Words are made for two vectors of blocks at once: 64-bit lanes hold one word
// each, of which a multiplication reads the lower half only.
//
//   RandomSource source(seed, stream, step);
//   source.ForEachBlock(first, count, [&](const RandomBlock& b, int64_t i,
//                                         int lane, int n) { ... });
//
// Threading: value types.
#ifndef WEFT_DEVICES_CPU_PHILOX_H_
#define WEFT_DEVICES_CPU_PHILOX_H_

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

#if WEFT_CPU_LEVEL == WEFT_CPU_avx512
inline constexpr int kWordLanes = 8;
#elif WEFT_CPU_LEVEL == WEFT_CPU_avx2
inline constexpr int kWordLanes = 4;
#else
inline constexpr int kWordLanes = 2;
#endif
typedef uint64_t WordVector __attribute__((vector_size(kWordLanes * 8)));

// The products of the lower halves of all lanes.
inline WordVector MultiplyWords(const WordVector& a, const WordVector& b) {
#if WEFT_CPU_LEVEL == WEFT_CPU_avx512
  // (Without the mask GCC warns of a value that its header leaves undefined.)
  return (WordVector)_mm512_maskz_mul_epu32(0xff, (__m512i)a, (__m512i)b);
#elif WEFT_CPU_LEVEL == WEFT_CPU_avx2
  return (WordVector)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif WEFT_CPU_LEVEL == WEFT_CPU_sse4
  return (WordVector)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

// u(i) >= ratio exactly where the upper 24 bits of word i are at least this.
inline uint32_t KeepThreshold(double ratio) {
  return static_cast<uint32_t>(std::ceil(ratio * 16777216.0));
}

// The words behind four neighbouring elements.
struct RandomBlock {
  uint32_t words[4];

  double Uniform(int lane) const { return Fraction(words[lane]); }
  double Normal(int lane) const {
    const int pair = lane & 2;
    const double u1 = Fraction(words[pair]) + 1.0 / 16777216.0;  // never 0
    const double radius = std::sqrt(-2.0 * std::log(u1));
    const double angle = 6.28318530717958647693 * Fraction(words[pair + 1]);
    return radius * ((lane & 1) == 0 ? std::cos(angle) : std::sin(angle));
  }

 private:
  static double Fraction(uint32_t word) {
    return (word >> 8) * (1.0 / 16777216.0);
  }
};

class RandomSource {
 public:
  RandomSource(int64_t seed, int64_t stream, int64_t step)
      : step_(static_cast<uint64_t>(step)) {
    const uint64_t k =
        Mix(Mix(static_cast<uint64_t>(seed)) ^ static_cast<uint64_t>(stream));
    key_[0] = static_cast<uint32_t>(k);
    key_[1] = static_cast<uint32_t>(k >> 32);
  }

  RandomBlock Block(uint64_t index) const {
    uint32_t c[4] = {
        static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
        static_cast<uint32_t>(step_), static_cast<uint32_t>(step_ >> 32)};
    uint32_t k[2] = {key_[0], key_[1]};
    for (int round = 0; round < 10; ++round) {
      const uint64_t a = uint64_t{0xD2511F53u} * c[0];
      const uint64_t b = uint64_t{0xCD9E8D57u} * c[2];
      c[0] = static_cast<uint32_t>(b >> 32) ^ c[1] ^ k[0];
      c[2] = static_cast<uint32_t>(a >> 32) ^ c[3] ^ k[1];
      c[1] = static_cast<uint32_t>(b);
      c[3] = static_cast<uint32_t>(a);
      k[0] += 0x9E3779B9u;
      k[1] += 0xBB67AE85u;
    }
    return RandomBlock{{c[0], c[1], c[2], c[3]}};
  }

  // The words of kGroups * kWordLanes blocks from `index` on, in order.
  template <int kGroups>
  __attribute__((noinline)) void Words(uint64_t index, uint32_t* out) const {
    uint64_t counts[kWordLanes];
    for (int i = 0; i < kWordLanes; ++i) {
      counts[i] = index + static_cast<uint64_t>(i);
    }
    WordVector c[kGroups][4] = {};
    for (int g = 0; g < kGroups; ++g) {
      std::memcpy(&c[g][0], counts, sizeof counts);
      c[g][0] += static_cast<uint64_t>(g * kWordLanes);
      c[g][1] = c[g][0] >> 32;
      c[g][2] = WordVector{} + step_;
      c[g][3] = c[g][2] >> 32;
    }
    uint32_t k[2] = {key_[0], key_[1]};
    for (int round = 0; round < 10; ++round) {
      for (int g = 0; g < kGroups; ++g) {
        const WordVector a = MultiplyWords(WordVector{} + 0xD2511F53u, c[g][0]);
        const WordVector b = MultiplyWords(WordVector{} + 0xCD9E8D57u, c[g][2]);
        c[g][0] = (b >> 32) ^ c[g][1] ^ (WordVector{} + k[0]);
        c[g][2] = (a >> 32) ^ c[g][3] ^ (WordVector{} + k[1]);
        c[g][1] = b;
        c[g][3] = a;
      }
      k[0] += 0x9E3779B9u;
      k[1] += 0xBB67AE85u;
    }
    for (int g = 0; g < kGroups; ++g) {
      const WordVector low = WordVector{} + 0xffffffffu;
      const WordVector first = (c[g][0] & low) | (c[g][1] << 32);
      const WordVector second = (c[g][2] & low) | (c[g][3] << 32);
      uint64_t pairs[2 * kWordLanes];
      for (int i = 0; i < kWordLanes; ++i) {
        pairs[2 * i] = first[i];
        pairs[2 * i + 1] = second[i];
      }
      std::memcpy(out + g * 4 * kWordLanes, pairs, sizeof pairs);
    }
  }

  // f(words, i, n): the words of elements [i, i + n) of [0, count), the first
  // of which is element `first` of the logical tensor.
  template <class F>
  void ForEachWords(uint64_t first, int64_t count, F f) const {
    constexpr int kFew = 4 * kWordLanes;
    uint32_t words[8 * kWordLanes];
    int lane = static_cast<int>(first % 4);
    uint64_t block = first / 4;
    for (int64_t i = 0; i < count;) {
      int64_t made = 2 * kFew;
      if (lane + count - i <= kFew) {
        Words<1>(block, words);
        made = kFew;
      } else {
        Words<2>(block, words);
      }
      const int64_t n = std::min<int64_t>(made - lane, count - i);
      f(words + lane, i, n);
      i += n;
      block += static_cast<uint64_t>(made) / 4;
      lane = 0;
    }
  }

  // out[i] = factor for the elements that stay by this threshold, 0 for others.
  template <class T>
  void KeepFactors(uint64_t first, int64_t count, uint32_t threshold, T factor,
                   T* out) const {
    ForEachWords(first, count,
                 [=](const uint32_t* words, int64_t i, int64_t n) {
                   for (int64_t j = 0; j < n; ++j) {
                     out[i + j] = (words[j] >> 8) >= threshold ? factor : T(0);
                   }
                 });
  }

  // Elements [first, first + count) of the logical tensor, block by block:
  // f(block, i, lane, n) for n elements from local index i on, the first of
  // them in the lane given.
  template <class F>
  void ForEachBlock(uint64_t first, int64_t count, F f) const {
    for (int64_t i = 0; i < count;) {
      const uint64_t at = first + static_cast<uint64_t>(i);
      const int lane = static_cast<int>(at % 4);
      const int n = static_cast<int>(std::min<int64_t>(4 - lane, count - i));
      f(Block(at / 4), i, lane, n);
      i += n;
    }
  }

 private:
  static uint64_t Mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

  uint64_t step_;
  uint32_t key_[2];
};

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_PHILOX_H_
