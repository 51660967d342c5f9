#include "compiler/order/linear.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/channel_name.h"
#include "core/base/error.h"

namespace weft {
namespace {

using Kind = Work::Kind;
// Section, phase, class, position, work: smaller goes first.
using Key = std::tuple<int, int, int, uint64_t, int>;

// On a stream without order, or a copy of what comes from there: it is ready
// early, and early in the order it cuts no chain. Not so what other ranks send:
// that rank may wait for what comes before it here.
bool RunsAhead(const Partition& parts, const Work& work) {
  if (work.kind == Kind::kSink || work.channel >= 0) return false;
  if (!parts.streams[work.stream].ordered) return true;
  if (work.kind != Kind::kCopy) return false;
  const Work& from =
      parts.works[parts.buffers[work.operands[0].buffer].producer];
  return !parts.streams[from.stream].ordered && from.channel < 0;
}

Key KeyOf(const Partition& parts, int w, uint64_t seed) {
  const Work& work = parts.works[w];
  int klass = 2;
  if (work.kind == Kind::kShared) klass = 0;
  if (RunsAhead(parts, work)) klass = 1;
  uint64_t position = seed == 0 ? static_cast<uint64_t>(work.rank)
                                : Mix(seed ^ Mix(static_cast<uint64_t>(w)));
  return {static_cast<int>(work.section), work.phase, klass, position, w};
}

// What collectives send and receive, in the order in which it was made, for
// each section and phase: who comes too early waits for its turn.
class Turns {
 public:
  explicit Turns(const Partition& parts) : parts_(parts) {
    for (size_t w = 0; w < parts.works.size(); ++w) {
      const Work& work = parts.works[w];
      if (!Takes(work)) continue;
      to_go_[GroupOf(work)].insert({work.node, static_cast<int>(w)});
    }
  }

  // Whether ready work `w` may go now; else it is kept.
  bool MayGo(int w) {
    const Work& work = parts_.works[w];
    if (!Takes(work)) return true;
    if (to_go_.at(GroupOf(work)).begin()->second == w) return true;
    waiting_.insert(w);
    return false;
  }

  // Whom `w`, which goes, has held up; -1: nobody.
  int Gone(int w) {
    const Work& work = parts_.works[w];
    if (!Takes(work)) return -1;
    std::set<Turn>& left = to_go_.at(GroupOf(work));
    left.erase({work.node, w});
    if (left.empty()) return -1;
    const int next = left.begin()->second;
    return waiting_.erase(next) != 0 ? next : -1;
  }

  // One that goes out of turn, where the turn waits for it; -1: none waits.
  int OutOfTurn() {
    if (waiting_.empty()) return -1;
    const int first = *waiting_.begin();
    waiting_.erase(waiting_.begin());
    return first;
  }

 private:
  using Group = std::pair<int, int>;     // section, phase
  using Turn = std::pair<int32_t, int>;  // node, work

  static Group GroupOf(const Work& work) {
    return {static_cast<int>(work.section), work.phase};
  }
  bool Takes(const Work& work) const {
    const bool moves_data =
        (work.kind == Kind::kSend && !work.operands.empty()) ||
        (work.kind == Kind::kRecv && !work.results.empty());
    return moves_data && !CollectiveOf(parts_, work).empty();
  }

  const Partition& parts_;
  std::map<Group, std::set<Turn>> to_go_;
  std::set<int> waiting_;
};

// Walks back from any work that is not done until one repeats.
absl::Status CycleError(const Partition& parts, const std::vector<bool>& done) {
  int w = 0;
  while (done[w]) ++w;
  std::vector<int> path;
  std::vector<int> seen(parts.works.size(), -1);
  while (seen[w] < 0) {
    seen[w] = static_cast<int>(path.size());
    path.push_back(w);
    for (int p : PredecessorsOf(parts, w)) {
      if (!done[p]) {
        w = p;
        break;
      }
    }
  }
  std::string names;
  for (size_t i = seen[w]; i < path.size(); ++i) {
    absl::StrAppend(&names, "'", parts.works[path[i]].name, "' waits for ");
  }
  absl::StrAppend(&names, "'", parts.works[w].name, "'");
  return MakeError(
      ErrorCode::kBadGraph,
      absl::StrCat("no order of acts is possible: ", names,
                   " (an update waits for all that read the old value; copy "
                   "the value first where it is needed later)"));
}

}  // namespace

std::string CollectiveOf(const Partition& parts, const Work& end) {
  if (end.channel < 0) return "";
  const ChannelParts name = PartsOf(parts.channels[end.channel].name());
  return name.agreed.empty() ? "" : absl::StrCat(name.stem, "#", name.agreed);
}

uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

absl::StatusOr<std::vector<int>> LinearOrder(const Partition& parts,
                                             uint64_t seed) {
  const int n = static_cast<int>(parts.works.size());
  std::vector<int> missing(n, 0);
  std::vector<std::vector<int>> next(n);
  std::set<Key> ready;
  Turns turns(parts);
  const auto is_ready = [&](int w) {
    if (turns.MayGo(w)) ready.insert(KeyOf(parts, w, seed));
  };
  for (int w = 0; w < n; ++w) {
    for (int p : PredecessorsOf(parts, w)) {
      next[p].push_back(w);
      ++missing[w];
    }
    if (missing[w] == 0) is_ready(w);
  }
  std::vector<int> order;
  std::vector<bool> done(n, false);
  while (true) {
    if (ready.empty()) {
      const int early = turns.OutOfTurn();
      if (early < 0) break;
      ready.insert(KeyOf(parts, early, seed));
    }
    const int w = std::get<4>(*ready.begin());
    ready.erase(ready.begin());
    order.push_back(w);
    done[w] = true;
    for (int s : next[w]) {
      if (--missing[s] == 0) is_ready(s);
    }
    const int held_up = turns.Gone(w);
    if (held_up >= 0) ready.insert(KeyOf(parts, held_up, seed));
  }
  if (static_cast<int>(order.size()) < n) return CycleError(parts, done);
  return order;
}

}  // namespace weft
