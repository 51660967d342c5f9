#include "runtime/data/sample_order.h"

#include <numeric>
#include <utility>

#include "absl/numeric/int128.h"
#include "core/base/hash.h"
#include "core/ops/philox.h"

namespace weft::data {

SampleOrder::SampleOrder(const OrderOptions& options)
    : options_(options),
      per_epoch_(options.tail == Tail::kDrop
                     ? options.samples / options.batch * options.batch
                     : options.samples) {}

int64_t SampleOrder::At(int64_t position) {
  int64_t epoch = position / per_epoch_;
  int64_t within = position % per_epoch_;
  return options_.shuffle ? Of(epoch).index[within] : within;
}

int64_t SampleOrder::StepsOf(int64_t epochs) const {
  return (epochs * per_epoch_ + options_.batch - 1) / options_.batch;
}

const SampleOrder::Permutation& SampleOrder::Of(int64_t epoch) {
  Permutation& p = permutations_[epoch % 2];
  if (p.epoch == epoch) return p;
  p.epoch = epoch;
  p.index.resize(options_.samples);
  std::iota(p.index.begin(), p.index.end(), 0u);
  constexpr int64_t kStream = RandomStream("data/order");
  const PhiloxKey key =
      MakePhiloxKey(static_cast<int64_t>(options_.seed), kStream);
  PhiloxBlock block{};
  for (int64_t i = options_.samples - 1; i > 0; --i) {
    // Two draws of 64 bits from each block.
    int64_t draw = options_.samples - 1 - i;
    if (draw % 2 == 0) block = RandomBlock(key, epoch, draw / 2);
    int half = 2 * static_cast<int>(draw % 2);
    uint64_t word = static_cast<uint64_t>(block[half + 1]) << 32 | block[half];
    // The high half of word * (i + 1): uniform to within 2^-32.
    uint64_t j =
        absl::Uint128High64(absl::uint128(word) * static_cast<uint64_t>(i + 1));
    std::swap(p.index[i], p.index[j]);
  }
  return p;
}

}  // namespace weft::data
