// Graph::TopologicalOrder.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "core/graph/graph.h"

namespace weft {
namespace {

// Those that exchange something with other ranks, in their own order: who is
// ready before its turn waits for it.
class Turns {
 public:
  // `in_order`: of the nodes that take turns, ids.
  Turns(int32_t id_bound, std::vector<int32_t> in_order)
      : in_order_(std::move(in_order)), state_(id_bound, State::kFree) {
    for (int32_t id : in_order_) state_[id] = State::kComing;
  }

  // Whether a node that is ready may go; else it is kept.
  bool MayGo(int32_t id) {
    if (state_[id] == State::kFree || in_order_[next_] == id) return true;
    state_[id] = State::kWaiting;
    ++waiting_;
    return false;
  }

  // Whom `id`, which has gone, kept waiting; -1: nobody.
  int32_t Gone(int32_t id) {
    if (state_[id] == State::kFree) return -1;
    state_[id] = State::kGone;
    while (next_ < in_order_.size() && HasGone()) ++next_;
    return next_ < in_order_.size() && IsWaiting() ? Take(next_) : -1;
  }

  // The first that waits goes where the one before it can't; -1: none waits.
  int32_t OutOfTurn() {
    if (waiting_ == 0) return -1;
    size_t at = next_;
    while (state_[in_order_[at]] != State::kWaiting) ++at;
    return Take(at);
  }

 private:
  enum class State : uint8_t { kFree, kComing, kWaiting, kGone };

  bool HasGone() const { return state_[in_order_[next_]] == State::kGone; }
  bool IsWaiting() const { return state_[in_order_[next_]] == State::kWaiting; }
  int32_t Take(size_t at) {
    --waiting_;
    state_[in_order_[at]] = State::kComing;
    return in_order_[at];
  }

  const std::vector<int32_t> in_order_;
  size_t next_ = 0;  // in it: who has not gone
  int waiting_ = 0;
  std::vector<State> state_;  // by node
};

bool TakesTurns(const Node& node) {
  return node.Is(OpId::kSend) || node.Is(OpId::kRecv);
}

// Data and control predecessors, each as often as there are edges from it.
template <typename Visit>
void ForEdges(const Node& node, const Visit& visit) {
  for (Value v : node.inputs()) {
    if (v.valid()) visit(v.node);
  }
  for (int32_t from : node.control_inputs()) visit(from);
}

// By node: how many edges lead to it, and where those lead that leave it.
class Edges {
 public:
  Edges(int32_t id_bound, absl::Span<const Node* const> nodes)
      : missing(id_bound, 0), begin_(id_bound + 1, 0) {
    for (const Node* node : nodes) {
      ForEdges(*node, [&](int32_t from) {
        ++begin_[from + 1];
        ++missing[node->id()];
      });
    }
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    successors_.resize(begin_.back());
    std::vector<int> next(begin_.begin(), begin_.end() - 1);
    for (const Node* node : nodes) {
      ForEdges(*node,
               [&](int32_t from) { successors_[next[from]++] = node->id(); });
    }
  }

  absl::Span<const int32_t> SuccessorsOf(int32_t id) const {
    return absl::MakeConstSpan(successors_)
        .subspan(begin_[id], begin_[id + 1] - begin_[id]);
  }

  std::vector<int> missing;  // of those that lead to it

 private:
  std::vector<int> begin_;  // of node i in successors_, up to that of i + 1
  std::vector<int32_t> successors_;
};

// Every node that misses an edge has a predecessor that does, too: walking
// backwards must come round.
absl::Status CycleError(const Graph& graph, const std::vector<int>& missing) {
  const auto left = [&](int32_t id) { return missing[id] > 0; };
  int32_t at = 0;
  while (!graph.Contains(at) || !left(at)) ++at;
  std::vector<int32_t> path;
  std::vector<bool> seen(missing.size(), false);
  while (!seen[at]) {
    seen[at] = true;
    path.push_back(at);
    int32_t next = -1;
    ForEdges(*graph.node(at), [&](int32_t from) {
      if (left(from)) next = from;
    });
    at = next;
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  path.push_back(at);
  std::reverse(path.begin(), path.end());
  const std::string names =
      absl::StrJoin(path, " -> ", [&](std::string* out, int32_t id) {
        absl::StrAppend(out, "'", graph.node(id)->name(), "'");
      });
  return MakeError(
      ErrorCode::kBadGraph,
      absl::StrCat("graph '", graph.name(), "' has a cycle: ", names));
}

}  // namespace

absl::StatusOr<std::vector<const Node*>> Graph::TopologicalOrder() const {
  std::vector<int32_t> place(nodes_.size());
  std::iota(place.begin(), place.end(), 0);
  return TopologicalOrder(place);
}

absl::StatusOr<std::vector<const Node*>> Graph::TopologicalOrder(
    absl::Span<const int32_t> place) const {
  const std::vector<const Node*> nodes = Nodes();
  Edges edges(id_bound(), nodes);
  std::vector<int32_t> in_order;
  for (const Node* node : nodes) {
    if (TakesTurns(*node)) in_order.push_back(node->id());
  }
  std::stable_sort(in_order.begin(), in_order.end(),
                   [&](int32_t a, int32_t b) { return place[a] < place[b]; });
  Turns turns(id_bound(), std::move(in_order));
  using Ready = std::pair<int32_t, int32_t>;  // place, id
  std::priority_queue<Ready, std::vector<Ready>, std::greater<Ready>> ready;
  const auto push = [&](int32_t id) { ready.push({place[id], id}); };
  const auto is_ready = [&](int32_t id) {
    if (turns.MayGo(id)) push(id);
  };
  for (const Node* node : nodes) {
    if (edges.missing[node->id()] == 0) is_ready(node->id());
  }
  std::vector<const Node*> order;
  order.reserve(num_live_);
  while (true) {
    if (ready.empty()) {
      const int32_t early = turns.OutOfTurn();
      if (early < 0) break;
      push(early);
    }
    const int32_t id = ready.top().second;
    ready.pop();
    order.push_back(node(id));
    const int32_t kept = turns.Gone(id);
    if (kept >= 0) push(kept);
    for (int32_t to : edges.SuccessorsOf(id)) {
      if (--edges.missing[to] == 0) is_ready(to);
    }
  }
  if (static_cast<int>(order.size()) == num_live_) return order;
  return CycleError(*this, edges.missing);
}

}  // namespace weft
