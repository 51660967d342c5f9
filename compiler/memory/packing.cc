#include "compiler/memory/packing.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/align.h"

namespace weft {
namespace {

// How many blocks the improving search may place in all, and how often it may
// fail in a row.
constexpr int kSearchBudget = 40000;
constexpr int kSearchPatience = 100;
// Conflicts that the search for a lower bound may look at: without an end it
// would take the cube of the number of blocks.
constexpr uint64_t kBoundBudget = uint64_t{1} << 25;

class Packer {
 public:
  Packer(absl::Span<const uint64_t> bytes, uint64_t alignment,
         const std::function<bool(int, int)>& conflicts)
      : n_(static_cast<int>(bytes.size())), neighbours_(bytes.size()) {
    for (uint64_t b : bytes) size_.push_back(AlignUp(b, alignment));
    for (int i = 0; i < n_; ++i) {
      for (int j = i + 1; j < n_; ++j) {
        if (size_[i] == 0 || size_[j] == 0 || !conflicts(i, j)) continue;
        neighbours_[i].push_back(j);
        neighbours_[j].push_back(i);
      }
    }
  }

  // Each block in turn at the lowest offset where it overlaps no conflicting
  // one that is placed.
  Packing Place(const std::vector<int>& order) const {
    Packing out;
    out.offsets.assign(n_, 0);
    std::vector<bool> placed(n_, false);
    std::vector<std::pair<uint64_t, uint64_t>> taken;
    for (int b : order) {
      taken.clear();
      for (int other : neighbours_[b]) {
        if (!placed[other]) continue;
        taken.push_back(
            {out.offsets[other], out.offsets[other] + size_[other]});
      }
      std::sort(taken.begin(), taken.end());
      uint64_t at = 0;
      for (auto [begin, end] : taken) {
        if (begin >= at + size_[b]) break;
        at = std::max(at, end);
      }
      out.offsets[b] = at;
      placed[b] = true;
      out.bytes = std::max(out.bytes, at + size_[b]);
    }
    return out;
  }

  // The bytes of some blocks that all conflict with one another, found by
  // taking the largest first: no packing is smaller.
  uint64_t CliqueBound() const {
    std::vector<int> by_size = OrderBy([&](int b) { return size_[b]; });
    uint64_t bound = 0, work = 0;
    for (int start : by_size) {
      if (static_cast<uint64_t>(n_) * size_[start] <= bound) break;
      if (Crowd(start) <= bound) continue;  // no larger clique has it
      if (work > kBoundBudget) break;
      uint64_t sum = size_[start];
      std::vector<bool> open(n_, false);
      for (int b : neighbours_[start]) open[b] = true;
      for (int b : by_size) {
        if (!open[b]) continue;
        sum += size_[b];
        std::vector<bool> both(n_, false);
        for (int c : neighbours_[b]) both[c] = open[c];
        work += neighbours_[b].size();
        open = std::move(both);
      }
      bound = std::max(bound, sum);
    }
    return bound;
  }

  // Total bytes of a block and all that conflict with it: the crowd it is in.
  uint64_t Crowd(int b) const {
    uint64_t sum = size_[b];
    for (int other : neighbours_[b]) sum += size_[other];
    return sum;
  }

  template <typename Key>
  std::vector<int> OrderBy(Key key) const {
    std::vector<int> order(n_);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return key(a) > key(b); });
    return order;
  }

  Packing Best(uint64_t lower_bound) const {
    std::vector<std::vector<int>> orders = {
        OrderBy([&](int b) { return size_[b]; }),
        OrderBy([&](int b) { return size_[b] * neighbours_[b].size(); }),
        OrderBy([&](int b) { return Crowd(b); }),
        OrderBy([](int) { return 0; }),
    };
    std::vector<int> order;
    Packing best;
    for (std::vector<int>& candidate : orders) {
      Packing packing = Place(candidate);
      if (order.empty() || packing.bytes < best.bytes) {
        best = std::move(packing);
        order = std::move(candidate);
      }
      if (best.bytes <= lower_bound) return best;
    }
    return Improve(std::move(order), std::move(best), lower_bound);
  }

 private:
  // Moves a block that reaches the top to an earlier place in the order, as
  // long as that helps.
  Packing Improve(std::vector<int> order, Packing best,
                  uint64_t lower_bound) const {
    uint64_t state = 1;
    const int tries = n_ < 3 ? 0 : kSearchBudget / n_;
    int failed = 0;
    for (int t = 0; t < tries && best.bytes > lower_bound; ++t) {
      if (++failed > kSearchPatience) break;
      std::vector<int> candidate = order;
      auto top = std::find_if(candidate.begin(), candidate.end(), [&](int b) {
        return best.offsets[b] + size_[b] == best.bytes && size_[b] > 0;
      });
      state = state * 6364136223846793005u + 1442695040888963407u;
      int from = static_cast<int>(top - candidate.begin());
      if (t % 3 == 2) from = static_cast<int>((state >> 33) % n_);
      state = state * 6364136223846793005u + 1442695040888963407u;
      int to = static_cast<int>((state >> 33) % (from + 1));
      std::rotate(candidate.begin() + to, candidate.begin() + from,
                  candidate.begin() + from + 1);
      Packing packing = Place(candidate);
      if (packing.bytes <= best.bytes) {
        if (packing.bytes < best.bytes) failed = 0;
        best = std::move(packing);
        order = std::move(candidate);
      }
    }
    return best;
  }

  const int n_;
  std::vector<uint64_t> size_;
  std::vector<std::vector<int>> neighbours_;
};

}  // namespace

Packing PackBlocks(absl::Span<const Block> blocks, uint64_t alignment) {
  std::vector<uint64_t> bytes;
  for (const Block& b : blocks) bytes.push_back(b.bytes);
  Packer packer(bytes, alignment, [&](int i, int j) {
    return blocks[i].first <= blocks[j].last &&
           blocks[j].first <= blocks[i].last;
  });
  return packer.Best(MostLiveBytes(blocks, alignment));
}

Packing PackConflicting(absl::Span<const uint64_t> bytes, uint64_t alignment,
                        const std::function<bool(int, int)>& conflicts) {
  Packer packer(bytes, alignment, conflicts);
  return packer.Best(packer.CliqueBound());
}

uint64_t MostLiveBytes(absl::Span<const Block> blocks, uint64_t alignment) {
  std::map<int, int64_t> change;  // by position
  for (const Block& b : blocks) {
    int64_t size = static_cast<int64_t>(AlignUp(b.bytes, alignment));
    change[b.first] += size;
    change[b.last + 1] -= size;
  }
  int64_t live = 0, most = 0;
  for (auto [position, delta] : change) {
    live += delta;
    most = std::max(most, live);
  }
  return static_cast<uint64_t>(most);
}

}  // namespace weft
