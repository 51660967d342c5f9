// Random numbers by counter: Philox4x32-10. Weft defines what each element of a
// random tensor is, so that every device gives the same; this is that
// definition again, for this plugin, and a test holds the two equal.
//
//   element i of the step's logical tensor: lane i % 4 of block i / 4
//   counter words {block, step}, key words k = mix(mix(seed) ^ stream), low
//   first uniform: (word >> 8) / 2^24 normal: Box-Muller over the pairs of
//   lanes (0, 1) and (2, 3), in double
//
//   RandomSource source(seed, stream, step);
//   source.ForEachBlock(first, count, [&](const RandomBlock& b, int64_t i,
//                                         int lane, int n) { ... });
//
// Threading: value types.
#ifndef WEFT_DEVICES_CPU_PHILOX_H_
#define WEFT_DEVICES_CPU_PHILOX_H_

#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

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
