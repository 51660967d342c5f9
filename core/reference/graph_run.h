// GraphRun: a step of one graph, in progress: the caller says which node acts
// next. Interpret() and InterpretJob() are loops around it.
//
//   GraphRun run(graph, feeds, micro_feeds);
//   WEFT_RETURN_IF_ERROR(run.Prepare());
//   for (const Node* node : run.order()) WEFT_RETURN_IF_ERROR(run.Act(*node));
//   InterpretResult result = run.TakeResult();
//
// Threading: thread-compatible. Ownership: refers to the graph and the feeds.
#ifndef WEFT_CORE_REFERENCE_GRAPH_RUN_H_
#define WEFT_CORE_REFERENCE_GRAPH_RUN_H_

#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/graph/rates.h"
#include "core/reference/interpreter.h"

namespace weft {

class GraphRun {
 public:
  GraphRun(const Graph& graph, const Feeds& feeds,
           absl::Span<const Feeds> micro_feeds);

  // Must come first. kBadGraph for a cycle.
  absl::Status Prepare();

  // Operands first; among the ready, the smallest id.
  const std::vector<const Node*>& order() const { return order_; }
  // How often the node acts in a step.
  size_t ActsOf(const Node& node) const {
    return rates_[node.id()] == Rate::kMicro ? micro_batches_ : 1;
  }
  bool IsDone(int32_t node) const { return !acts_[node].empty(); }
  // Whether all that must act before the node has.
  bool CanAct(const Node& node) const;
  // All acts of the node. Pre-condition: CanAct() and not done. Errors: as
  // Interpret().
  absl::Status Act(const Node& node);

  // What operand or result `v` was in an act. Pre-condition: its node is done.
  const Literal& Read(Value v, size_t act) const {
    const std::vector<Results>& acts = acts_[v.node];
    return acts[std::min(act, acts.size() - 1)][v.index];
  }
  // What a weft.Recv gives, one value for each of its acts; else it is fed.
  void Receive(const Node& recv, std::vector<Literal> values) {
    received_[recv.id()] = std::move(values);
  }

  InterpretResult TakeResult() { return std::move(result_); }

 private:
  using Results = std::vector<Literal>;

  absl::Status ActOnce(const Node& node, size_t act);
  absl::StatusOr<Results> Compute(const Node& node, size_t act);
  absl::StatusOr<Results> Fed(const Node& node, size_t act) const;
  absl::StatusOr<Results> Accumulated(const Node& node) const;
  void Record(const Node& node, const Results& results);

  const Graph& graph_;
  const Feeds& feeds_;
  absl::Span<const Feeds> micro_feeds_;
  size_t micro_batches_;
  std::vector<const Node*> order_;
  std::vector<Rate> rates_;
  std::vector<std::vector<Results>> acts_;  // by node id, then by act
  std::map<int32_t, std::vector<Literal>> received_;
  InterpretResult result_;
};

}  // namespace weft

#endif  // WEFT_CORE_REFERENCE_GRAPH_RUN_H_
