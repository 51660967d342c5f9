#include "compiler/partition/phases.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/graph/rates.h"

namespace weft {
namespace {

class PhaseFinder {
 public:
  PhaseFinder(const Graph& graph, absl::Span<const int> rank,
              const PipelineSpec& pipeline)
      : graph_(graph),
        rank_(rank),
        pipeline_(pipeline),
        phase_(graph.id_bound(), -1) {}

  absl::StatusOr<std::vector<int>> Run() {
    WEFT_ASSIGN_OR_RETURN(std::vector<const Node*> order,
                          graph_.TopologicalOrder());
    WEFT_ASSIGN_OR_RETURN(rates_, InferRates(graph_));
    for (const Node* node : order) {
      if (IsMicro(*node)) WEFT_RETURN_IF_ERROR(Find(*node));
    }
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      if (!IsMicro(**it) || !IsSource(**it) || (*it)->stage >= 0) continue;
      FollowReaders(**it);
    }
    return std::move(phase_);
  }

 private:
  bool IsMicro(const Node& node) const {
    return rates_[node.id()] == Rate::kMicro || node.Is(OpId::kAccumulate);
  }
  static bool IsSource(const Node& node) {
    return node.inputs().empty() && node.control_inputs().empty();
  }

  absl::Status Find(const Node& node) {
    // What is waited for longest.
    int32_t latest = -1;
    int phase = std::max(node.stage, 0);
    auto follow = [&](int32_t before) {
      if (phase_[before] < 0 || phase_[before] < phase) return;
      phase = phase_[before];
      latest = before;
    };
    for (Value v : node.inputs()) {
      if (v.valid()) follow(v.node);
    }
    for (int32_t before : node.control_inputs()) follow(before);
    if (IsSource(node)) {
      phase_[node.id()] = phase;
      return absl::OkStatus();
    }
    const int rank = rank_[node.id()];
    while (phase < pipeline_.phases() && pipeline_.RankOf(phase) != rank) {
      ++phase;
    }
    if (phase < pipeline_.phases()) {
      phase_[node.id()] = phase;
      return absl::OkStatus();
    }
    return Late(node, latest);
  }

  absl::Status Late(const Node& node, int32_t latest) const {
    const std::string what =
        absl::StrCat("the pipeline cannot flow: '", node.name(),
                     "' is on rank ", rank_[node.id()]);
    if (latest < 0) {
      return MakeError(ErrorCode::kBadJob,
                       absl::StrCat(what, ", which has no work from stage ",
                                    node.stage, " on"));
    }
    const bool forward = pipeline_.IsForward(phase_[latest]);
    return MakeError(
        ErrorCode::kBadJob,
        absl::StrCat(what, " and comes after '", graph_.node(latest)->name(),
                     "', which is ", forward ? "forward" : "backward",
                     " work of stage ", pipeline_.StageOf(phase_[latest]),
                     " on rank ", rank_[latest]));
  }

  void FollowReaders(const Node& source) {
    int first = pipeline_.phases();
    for (int i = 0; i < source.num_outputs(); ++i) {
      for (auto [reader, position] : graph_.Uses(source.output(i))) {
        if (phase_[reader] >= 0) first = std::min(first, phase_[reader]);
      }
    }
    for (int32_t after : graph_.ControlUses(source.id())) {
      if (phase_[after] >= 0) first = std::min(first, phase_[after]);
    }
    if (first < pipeline_.phases()) phase_[source.id()] = first;
  }

  const Graph& graph_;
  const absl::Span<const int> rank_;
  const PipelineSpec& pipeline_;
  std::vector<Rate> rates_;
  std::vector<int> phase_;  // by node
};

}  // namespace

absl::StatusOr<std::vector<int>> PhasesOfNodes(const Graph& graph,
                                               absl::Span<const int> rank,
                                               const PipelineSpec& pipeline) {
  return PhaseFinder(graph, rank, pipeline).Run();
}

}  // namespace weft
