// The order of samples in training: one endless stream of seeded permutations.
// Position p of the stream is a function of (seed, size, p) alone, so a run
// that resumes at any position sees what the first run would have seen, and no
// reader keeps state.
//
//   SampleOrder order({.samples = 60000, .batch = 128, .seed = 1});
//   int64_t index = order.At(step * 128 + i);
//
// CARRY: permutations follow each other without a gap; a batch may take its
// last samples from the next one. DROP: what does not fill a whole batch at the
// end of a permutation is left out.
//
// A permutation is Fisher and Yates' shuffle with Philox numbers (core/ops/
// philox.h): key from the seed, counter = (draw, permutation).
//
// Threading: thread-compatible; keeps the last two permutations.
#ifndef WEFT_RUNTIME_DATA_SAMPLE_ORDER_H_
#define WEFT_RUNTIME_DATA_SAMPLE_ORDER_H_

#include <cstdint>
#include <vector>

namespace weft::data {

enum class Tail { kCarry, kDrop };

struct OrderOptions {
  int64_t samples = 0;  // > 0
  int64_t batch = 1;    // of a step; <= samples with kDrop
  uint64_t seed = 0;
  bool shuffle = true;
  Tail tail = Tail::kCarry;
};

class SampleOrder {
 public:
  explicit SampleOrder(const OrderOptions& options);

  // Index of the sample at `position` >= 0 of the stream.
  int64_t At(int64_t position);

  // Samples of the stream in one epoch: all, or with kDrop those of whole
  // batches.
  int64_t samples_per_epoch() const { return per_epoch_; }

  // Steps after which `epochs` epochs are done, rounded up to whole steps.
  int64_t StepsOf(int64_t epochs) const;

 private:
  struct Permutation {
    int64_t epoch = -1;
    std::vector<uint32_t> index;
  };
  const Permutation& Of(int64_t epoch);

  OrderOptions options_;
  int64_t per_epoch_;
  Permutation permutations_[2];  // by epoch modulo 2
};

}  // namespace weft::data

#endif  // WEFT_RUNTIME_DATA_SAMPLE_ORDER_H_
