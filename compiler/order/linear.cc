#include "compiler/order/linear.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
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

// What reads a peer's memory goes as early as the last of it: the peer, which
// waits for that, sends nothing later before (Releases, order.h).
int PositionOf(const Partition& parts, const Work& work) {
  int last = -1;
  for (const WorkOperand& o : work.operands) {
    if (o.buffer < 0) continue;
    const Buffer& buffer = parts.buffers[o.buffer];
    if (buffer.where != Buffer::Where::kPeer || buffer.lent) continue;
    last = std::max(last, parts.works[buffer.producer].rank);
  }
  return last < 0 ? work.rank : std::min(work.rank, last);
}

Key KeyOf(const Partition& parts, int w, uint64_t seed) {
  const Work& work = parts.works[w];
  int klass = 2;
  if (work.kind == Kind::kShared) klass = 0;
  if (RunsAhead(parts, work)) klass = 1;
  uint64_t position = seed == 0 ? static_cast<uint64_t>(PositionOf(parts, work))
                                : Mix(seed ^ Mix(static_cast<uint64_t>(w)));
  return {static_cast<int>(work.section), work.phase, klass, position, w};
}

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
  for (int w = 0; w < n; ++w) {
    for (int p : PredecessorsOf(parts, w)) {
      next[p].push_back(w);
      ++missing[w];
    }
    if (missing[w] == 0) ready.insert(KeyOf(parts, w, seed));
  }
  std::vector<int> order;
  std::vector<bool> done(n, false);
  while (!ready.empty()) {
    int w = std::get<4>(*ready.begin());
    ready.erase(ready.begin());
    order.push_back(w);
    done[w] = true;
    for (int s : next[w]) {
      if (--missing[s] == 0) ready.insert(KeyOf(parts, s, seed));
    }
  }
  if (static_cast<int>(order.size()) < n) return CycleError(parts, done);
  return order;
}

}  // namespace weft
