#include "compiler/collectives/cost.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/collectives/schedule.h"
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

class Meter {
 public:
  Meter(const CollectiveGroup& group, const Topology& topology,
        const Schedule& schedule, int64_t bytes)
      : topology_(topology),
        host_of_(HostOfPosition(group)),
        sent_(group.size, 0) {
    // Where each place begins.
    const std::vector<int64_t> sizes = BlockSizes(bytes, schedule.num_blocks);
    begin_ = {0};
    for (int block : schedule.order)
      begin_.push_back(begin_.back() + sizes[block]);
  }

  void Add(const ScheduleStep& step);
  CollectiveCost Total() {
    cost_.rank_bytes = *std::max_element(sent_.begin(), sent_.end());
    return cost_;
  }

 private:
  const Topology& topology_;
  std::vector<int> host_of_;
  std::vector<int64_t> begin_;
  std::vector<int64_t> sent_;
  CollectiveCost cost_;
};

void Meter::Add(const ScheduleStep& step) {
  const size_t ranks = sent_.size();
  std::vector<double> out(ranks, 0), in(ranks, 0), reduce(ranks, 0);
  double latency = -1;
  for (const Move& move : step.moves) {
    const int64_t bytes =
        begin_[move.source + move.count] - begin_[move.source];
    if (bytes == 0) continue;
    const bool across = host_of_[move.from] != host_of_[move.to];
    const Link& link = across ? topology_.across : topology_.in_host;
    const double busy = link.per_message_s + bytes / link.bytes_per_s;
    latency = std::max(latency, link.latency_s);
    out[move.from] += busy;
    in[move.to] += busy;
    if (move.action != MoveAction::kStore) {
      reduce[move.to] += bytes / topology_.reduce_bytes_per_s;
    }
    sent_[move.from] += bytes;
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

}  // namespace

CollectiveCost CostOf(CollectiveKind kind, CollectiveAlgorithm algorithm,
                      int64_t bytes, const CollectiveGroup& group,
                      const Topology& topology) {
  const Schedule schedule = MakeSchedule(kind, algorithm, group);
  Meter meter(group, topology, schedule, bytes);
  for (const ScheduleStep& step : schedule.steps) meter.Add(step);
  return meter.Total();
}

absl::StatusOr<CollectiveChoice> ChooseAlgorithm(CollectiveKind kind,
                                                 int64_t bytes,
                                                 const CollectiveGroup& group,
                                                 const Topology& topology,
                                                 OrderClass required) {
  CollectiveChoice choice;
  bool found = false;
  for (int i = 1; i < kNumCollectiveAlgorithms; ++i) {
    const auto algorithm = static_cast<CollectiveAlgorithm>(i);
    absl::StrAppend(&choice.explain, Name(algorithm), ": ");
    const std::string why_not = WhyNot(kind, algorithm, group);
    if (!why_not.empty()) {
      absl::StrAppend(&choice.explain, "no (", why_not, ")\n");
      continue;
    }
    const OrderClass order = OrderClassOf(kind, algorithm);
    const bool fits = required == OrderClass::kNone ||
                      order == OrderClass::kNone || order == required;
    const CollectiveCost cost = CostOf(kind, algorithm, bytes, group, topology);
    absl::StrAppendFormat(&choice.explain,
                          "%.2f us, %d steps, %d bytes sent by one rank, %d by "
                          "all, %d across hosts",
                          cost.seconds * 1e6, cost.steps, cost.rank_bytes,
                          cost.total_bytes, cost.across_bytes);
    if (order != OrderClass::kNone) {
      absl::StrAppend(&choice.explain, ", order ", Name(order));
    }
    absl::StrAppend(
        &choice.explain,
        fits ? "\n" : absl::StrCat(" (", Name(required), " is asked for)\n"));
    if (!fits || (found && cost.seconds >= choice.cost.seconds)) continue;
    found = true;
    choice.algorithm = algorithm;
    choice.cost = cost;
  }
  if (found) return choice;
  return MakeError(
      ErrorCode::kBadValue,
      absl::StrCat("no algorithm does ", Name(kind), " over ", group.size,
                   " ranks in order ", Name(required), ":\n", choice.explain));
}

}  // namespace weft
