#include "compiler/collectives/cost.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/collectives/schedule.h"
#include "core/base/align.h"
#include "core/base/error.h"

namespace weft {
namespace {

std::vector<int> HostOfPosition(const CollectiveGroup& group) {
  std::vector<int> host_of(group.size, 0);
  for (size_t h = 0; h < group.hosts.size(); ++h) {
    for (int position : group.hosts[h]) {
      if (position >= 0 && position < group.size) {
        host_of[position] = static_cast<int>(h);
      }
    }
  }
  return host_of;
}

// Who copies what a move stores, where it is mapped.
enum class Copier { kReader, kOwner, kNobody };

class Meter {
 public:
  Meter(const CollectiveGroup& group, const Topology& topology,
        const CollectiveSchedule& schedule, int64_t bytes, Copier copier)
      : topology_(topology),
        copier_(copier),
        host_of_(HostOfPosition(group)),
        sent_(group.size, 0),
        messages_(group.size, 0) {
    // Where each place begins.
    const std::vector<int64_t> sizes = BlockSizes(bytes, schedule.num_blocks);
    begin_ = {0};
    for (int block : schedule.order)
      begin_.push_back(begin_.back() + sizes[block]);
  }

  void Add(const CollectiveStep& step);
  CollectiveCost Total() {
    cost_.rank_bytes = *std::max_element(sent_.begin(), sent_.end());
    cost_.messages = *std::max_element(messages_.begin(), messages_.end());
    return cost_;
  }

 private:
  const Topology& topology_;
  const Copier copier_;
  std::vector<int> host_of_;
  std::vector<int64_t> begin_;
  std::vector<int64_t> sent_;
  std::vector<int> messages_;
  CollectiveCost cost_;
};

void Meter::Add(const CollectiveStep& step) {
  const size_t ranks = sent_.size();
  std::vector<double> out(ranks, 0), in(ranks, 0), reduce(ranks, 0);
  double latency = -1;
  for (const CollectiveMove& move : step.moves) {
    const int64_t bytes =
        begin_[move.source + move.count] - begin_[move.source];
    if (bytes == 0) continue;
    const bool across = host_of_[move.from] != host_of_[move.to];
    const LinkCost& link = across ? topology_.across : topology_.in_host;
    const bool mapped = !across && topology_.Maps(bytes);
    const double busy =
        link.per_message_s + (mapped ? 0 : bytes / link.bytes_per_s);
    latency = std::max(latency, link.latency_s);
    out[move.from] += busy;
    in[move.to] += busy;
    const bool stored = move.action == CollectiveAction::kStore;
    if (!stored || (mapped && copier_ != Copier::kNobody)) {
      const bool by_owner = stored && copier_ == Copier::kOwner;
      reduce[by_owner ? move.from : move.to] +=
          bytes / topology_.reduce_bytes_per_s;
    }
    sent_[move.from] += bytes;
    ++messages_[move.from];
    ++messages_[move.to];
    cost_.total_bytes += bytes;
    if (across) cost_.across_bytes += bytes;
  }
  if (latency < 0) return;  // nothing was sent
  double busiest = 0;
  for (size_t r = 0; r < ranks; ++r) {
    busiest = std::max(busiest, std::max(out[r], in[r]) + reduce[r]);
  }
  cost_.seconds += latency + busiest;
  ++cost_.steps;
}

struct Candidate {
  CollectiveAlgorithm algorithm;
  std::string why_not;  // "": it can
  OrderClass order = OrderClass::kNone;
  CollectiveCost cost;
  bool fits = false;  // can, and in the order that is asked for
  bool few = false;   // messages
};

std::string Line(const Candidate& c, OrderClass required) {
  if (!c.why_not.empty()) {
    return absl::StrCat(Name(c.algorithm), ": no (", c.why_not, ")");
  }
  std::string line = absl::StrFormat(
      "%s: %.2f us, %d steps, %d bytes sent by one rank, %d by all, %d across "
      "hosts",
      Name(c.algorithm), c.cost.seconds * 1e6, c.cost.steps, c.cost.rank_bytes,
      c.cost.total_bytes, c.cost.across_bytes);
  if (c.order != OrderClass::kNone) {
    absl::StrAppend(&line, ", order ", Name(c.order));
  }
  if (!c.fits) absl::StrAppend(&line, " (", Name(required), " is asked for)");
  if (!c.few) absl::StrAppend(&line, ", ", c.cost.messages, " messages");
  return line;
}

// How much longer a sum may take for a smaller plan.
constexpr double kWorthFewMessages = 4;

// Of those that fit; null where none does.
const Candidate* Cheapest(const std::vector<Candidate>& all, bool few) {
  const Candidate* best = nullptr;
  for (const Candidate& c : all) {
    if (!c.fits || (few && !c.few)) continue;
    if (best == nullptr || c.cost.seconds < best->cost.seconds) best = &c;
  }
  return best;
}

}  // namespace

bool SameHost(const std::vector<std::vector<int>>& hosts, int a, int b) {
  const auto host_of = [&hosts](int rank) {
    for (size_t h = 0; h < hosts.size(); ++h) {
      if (std::find(hosts[h].begin(), hosts[h].end(), rank) != hosts[h].end()) {
        return static_cast<int>(h);
      }
    }
    return 0;
  };
  return host_of(a) == host_of(b);
}

bool InPlace(CollectiveKind kind, CollectiveAlgorithm algorithm, int64_t bytes,
             const CollectiveGroup& group, const Topology& topology,
             const CollectiveManner& manner) {
  const bool sums = kind == CollectiveKind::kAllReduce &&
                    algorithm == CollectiveAlgorithm::kThreeStage;
  const bool gathers = kind == CollectiveKind::kAllGather &&
                       algorithm == CollectiveAlgorithm::kDirect &&
                       !manner.micro;
  if ((!sums && !gathers) || manner.cut || manner.narrow || group.size < 2 ||
      group.size > kMostInPlace) {
    return false;
  }
  for (int p = 1; p < group.size; ++p) {
    if (!SameHost(group.hosts, 0, p)) return false;
  }
  const int64_t block = bytes / group.size;
  if (!topology.Maps(block)) return false;
  if (gathers) return block % kInPlaceAlignment == 0;
  // With all blocks but the last one rounded up something is left for that.
  return block > group.size * kInPlaceAlignment;
}

int64_t BlockInPlace(int64_t elements, int ranks, DType dtype) {
  const uint64_t line = kInPlaceAlignment / DTypeSize(dtype);
  return static_cast<int64_t>(
      AlignUp(static_cast<uint64_t>((elements + ranks - 1) / ranks), line));
}

int FewMessages(int ranks) {
  int doublings = 0;
  while ((int64_t{1} << doublings) < ranks) ++doublings;
  return std::max(32, 4 * doublings);
}

CollectiveCost CostOf(CollectiveKind kind, CollectiveAlgorithm algorithm,
                      int64_t bytes, const CollectiveGroup& group,
                      const Topology& topology,
                      const CollectiveManner& manner) {
  const CollectiveSchedule schedule = MakeSchedule(kind, algorithm, group);
  Copier copier = Copier::kReader;
  if (InPlace(kind, algorithm, bytes, group, topology, manner)) {
    copier = Reduces(kind) ? Copier::kNobody : Copier::kOwner;
  }
  Meter meter(group, topology, schedule, bytes, copier);
  for (const CollectiveStep& step : schedule.steps) meter.Add(step);
  CollectiveCost cost = meter.Total();
  if (kind == CollectiveKind::kAllGather && copier == Copier::kReader &&
      cost.steps > 0) {
    cost.seconds +=
        BlockSizes(bytes, group.size)[0] / topology.reduce_bytes_per_s;
  }
  return cost;
}

absl::StatusOr<CollectiveChoice> ChooseAlgorithm(
    CollectiveKind kind, int64_t bytes, const CollectiveGroup& group,
    const Topology& topology, OrderClass required,
    const CollectiveManner& manner) {
  std::vector<Candidate> all;
  all.reserve(kNumCollectiveAlgorithms);
  for (int i = 1; i < kNumCollectiveAlgorithms; ++i) {
    Candidate c{static_cast<CollectiveAlgorithm>(i)};
    c.why_not = WhyNot(kind, c.algorithm, group);
    if (c.why_not.empty()) {
      c.order = OrderClassOf(kind, c.algorithm);
      c.cost = CostOf(kind, c.algorithm, bytes, group, topology, manner);
      c.fits = required == OrderClass::kNone || c.order == OrderClass::kNone ||
               c.order == required;
      c.few = c.cost.messages <= FewMessages(group.size);
    }
    all.push_back(std::move(c));
  }
  const Candidate* best = Cheapest(all, false);
  const Candidate* few = Cheapest(all, true);
  if (few != nullptr &&
      few->cost.seconds < kWorthFewMessages * best->cost.seconds) {
    best = few;
  }
  std::string explain;
  for (const Candidate& c : all) {
    absl::StrAppend(&explain, Line(c, required),
                    &c == best ? " (chosen)\n" : "\n");
  }
  if (best != nullptr)
    return CollectiveChoice{best->algorithm, best->cost, explain};
  return MakeError(
      ErrorCode::kBadValue,
      absl::StrCat("no algorithm does ", Name(kind), " over ", group.size,
                   " ranks in order ", Name(required), ":\n", explain));
}

}  // namespace weft
