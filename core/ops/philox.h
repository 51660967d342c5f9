// The definition of random numbers in Weft: Philox4x32-10, a counter-based
// generator (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). A number is a pure function of (seed, stream, step,
// position), so it does not depend on device, thread count, schedule or
// micro-batching.
//
//   PhiloxKey key = MakePhiloxKey(seed, stream);
//   double u = RandomUniformAt(key, step, 17);   // element 17, in [0, 1)
//
// Element i counts within the step's logical tensor: micro-batch m of a tensor
// with n elements holds i = m * n .. m * n + n - 1 (RandomFirstElement). A node
// that makes a part of a tensor says which: core/ops/cuts.h.
//
//   block b = i / 4, lane = i % 4
//   counter = {b low, b high, step low, step high}     (32-bit words)
//   key     = {k low, k high}, k = splitmix64(splitmix64(seed) ^ stream)
//   uniform = (word[lane] >> 8) * 2^-24
//   normal  = sqrt(-2 ln u1) * (cos | sin)(2 pi u2) in even | odd lanes, where
//   a
//             pair of lanes shares words wa, wb (0, 1 or 2, 3):
//             u1 = ((wa >> 8) + 1) * 2^-24 in (0, 1], u2 = (wb >> 8) * 2^-24
//
// All arithmetic is in double; the result is rounded to the dtype at the end.
// Plugins carry their own copy of this text; state_ops_test.cc holds the
// published known answers.
//
// Threading: free functions, thread-safe. Not for cryptography.
#ifndef WEFT_CORE_OPS_PHILOX_H_
#define WEFT_CORE_OPS_PHILOX_H_

#include <array>
#include <cmath>
#include <cstdint>

namespace weft {

using PhiloxKey = std::array<uint32_t, 2>;
using PhiloxBlock = std::array<uint32_t, 4>;

// Ten rounds.
inline PhiloxBlock Philox4x32(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t{0xD2511F53} * counter[0];
    uint64_t p1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(p0)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

// One step of the splitmix64 generator from state `x`: a bijection that mixes
// all bits.
inline uint64_t SplitMix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

inline PhiloxKey MakePhiloxKey(int64_t seed, int64_t stream) {
  uint64_t k = SplitMix64(SplitMix64(static_cast<uint64_t>(seed)) ^
                          static_cast<uint64_t>(stream));
  return {static_cast<uint32_t>(k), static_cast<uint32_t>(k >> 32)};
}

// The four words that elements 4 * block .. 4 * block + 3 of a step share.
inline PhiloxBlock RandomBlock(PhiloxKey key, uint64_t step, uint64_t block) {
  return Philox4x32(
      {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
       static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32)},
      key);
}

// Position of a micro-batch's first element within the step.
inline uint64_t RandomFirstElement(int64_t micro_batch, int64_t num_elements) {
  return static_cast<uint64_t>(micro_batch) *
         static_cast<uint64_t>(num_elements);
}

// A word's upper 24 bits as a number in [0, 1).
inline double WordToUniform(uint32_t word) {
  return (word >> 8) * (1.0 / 16777216.0);
}

inline double RandomUniformAt(PhiloxKey key, uint64_t step, uint64_t element) {
  return WordToUniform(RandomBlock(key, step, element / 4)[element % 4]);
}

// Standard normal, by the method of Box and Muller.
inline double RandomNormalAt(PhiloxKey key, uint64_t step, uint64_t element) {
  constexpr double kTwoPi = 6.28318530717958647693;
  PhiloxBlock words = RandomBlock(key, step, element / 4);
  int pair = element % 4 < 2 ? 0 : 2;
  double u1 = WordToUniform(words[pair]) + 1.0 / 16777216.0;
  double u2 = WordToUniform(words[pair + 1]);
  double radius = std::sqrt(-2.0 * std::log(u1));
  double angle = kTwoPi * u2;
  return radius * (element % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

}  // namespace weft

#endif  // WEFT_CORE_OPS_PHILOX_H_
