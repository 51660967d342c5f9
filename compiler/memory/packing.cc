#include "compiler/memory/packing.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

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
  // `first` is the order of equals.
  Packer(absl::Span<const uint64_t> bytes, uint64_t alignment,
         const ConflictMatrix& conflicts, std::vector<int> first)
      : n_(static_cast<int>(bytes.size())),
        conflicts_(conflicts),
        first_(std::move(first)) {
    for (uint64_t b : bytes) size_.push_back(AlignUp(b, alignment));
    for (int b = 0; b < n_; ++b) {
      uint64_t count = 0, sum = size_[b];
      ForConflicts(b, [&](int other) {
        ++count;
        sum += size_[other];
      });
      degree_.push_back(count);
      crowd_.push_back(sum);
    }
  }

  // Each block in turn at the lowest offset where it overlaps no conflicting
  // one that is placed.
  Packing Place(const std::vector<int>& order) const {
    struct Placed {
      uint64_t begin, end;
      int block;
    };
    Packing out;
    out.offsets.assign(n_, 0);
    std::vector<Placed> placed;  // by begin
    placed.reserve(n_);
    for (int b : order) {
      const uint64_t* row = conflicts_.Row(b).data();
      uint64_t at = 0;
      for (const Placed& p : placed) {
        if (p.begin >= at + size_[b]) break;
        if (row[p.block / 64] >> (p.block % 64) & 1) at = std::max(at, p.end);
      }
      out.offsets[b] = at;
      out.bytes = std::max(out.bytes, at + size_[b]);
      const auto after = std::upper_bound(
          placed.begin(), placed.end(), at,
          [](uint64_t begin, const Placed& p) { return begin < p.begin; });
      placed.insert(after, {at, at + size_[b], b});
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
      if (crowd_[start] <= bound) continue;  // no larger clique has it
      if (work > kBoundBudget) break;
      uint64_t sum = size_[start];
      absl::Span<const uint64_t> row = conflicts_.Row(start);
      std::vector<uint64_t> open(row.begin(), row.end());
      for (int b : by_size) {
        if (!(open[b / 64] >> (b % 64) & 1)) continue;
        sum += size_[b];
        row = conflicts_.Row(b);
        for (size_t w = 0; w < open.size(); ++w) open[w] &= row[w];
        work += degree_[b];
      }
      bound = std::max(bound, sum);
    }
    return bound;
  }

  template <typename Key>
  std::vector<int> OrderBy(Key key) const {
    std::vector<int> order = first_;
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return key(a) > key(b); });
    return order;
  }

  Packing Best(uint64_t lower_bound) const {
    std::vector<std::vector<int>> orders = {
        OrderBy([&](int b) { return size_[b]; }),
        OrderBy([&](int b) { return size_[b] * degree_[b]; }),
        OrderBy([&](int b) { return crowd_[b]; }),
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

  template <typename Visit>
  void ForConflicts(int b, const Visit& visit) const {
    absl::Span<const uint64_t> row = conflicts_.Row(b);
    for (size_t w = 0; w < row.size(); ++w) {
      for (uint64_t bits = row[w]; bits != 0; bits &= bits - 1) {
        visit(static_cast<int>(w * 64) + __builtin_ctzll(bits));
      }
    }
  }

  const int n_;
  const ConflictMatrix& conflicts_;
  const std::vector<int> first_;
  std::vector<uint64_t> size_;
  std::vector<uint64_t> degree_;  // conflicts
  // Total bytes of a block and all that conflict with it.
  std::vector<uint64_t> crowd_;
};

}  // namespace

Packing PackBlocks(absl::Span<const Block> blocks, uint64_t alignment) {
  const int n = static_cast<int>(blocks.size());
  std::vector<uint64_t> bytes;
  for (const Block& b : blocks) bytes.push_back(b.bytes);
  ConflictMatrix conflicts(n);
  for (int i = 0; i < n; ++i) {
    for (int j = i + 1; j < n; ++j) {
      if (bytes[i] == 0 || bytes[j] == 0) continue;
      if (blocks[i].first <= blocks[j].last &&
          blocks[j].first <= blocks[i].last) {
        conflicts.Set(i, j);
      }
    }
  }
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  return Packer(bytes, alignment, conflicts, std::move(order))
      .Best(MostLiveBytes(blocks, alignment));
}

Packing PackConflicting(absl::Span<const uint64_t> bytes, uint64_t alignment,
                        const ConflictMatrix& conflicts,
                        absl::Span<const int> order) {
  Packer packer(bytes, alignment, conflicts,
                std::vector<int>(order.begin(), order.end()));
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
