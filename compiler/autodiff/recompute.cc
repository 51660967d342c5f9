#include "compiler/autodiff/recompute.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/rates.h"

namespace weft {
namespace {

constexpr int64_t kWorthIt = 64 << 10;  // bytes
constexpr double kFlopsPerByte = 10;

double TimeOf(const Graph& graph, const Node& node) {
  if (!node.schema().cost) return 0;
  const Cost cost = node.schema().cost(graph.View(node));
  return static_cast<double>(cost.bytes) +
         static_cast<double>(cost.flops) / kFlopsPerByte;
}

bool IsOnePass(const Node& node) {
  return node.schema().elementwise || node.Is(OpId::kLayerNormalization) ||
         node.Is(OpId::kBatchNormTraining);
}

struct Candidate {
  std::vector<Value> again;  // itself and what else is to be made for it
  uint64_t bytes;
};

class Chooser {
 public:
  Chooser(const Graph& graph, int32_t first_gradient,
          const std::vector<Rate>& rates)
      : graph_(graph), first_gradient_(first_gradient), rates_(rates) {}

  absl::flat_hash_set<Value> Choose(double percent) const {
    double left = 0;
    std::vector<Candidate> candidates;
    for (const Node* node : graph_.Nodes()) {
      left += TimeOf(graph_, *node) * percent / 100;
      Candidate candidate;
      if (IsWorthIt(*node) && CanBeMade(node->output(0), &candidate.again)) {
        candidate.bytes = node->output_type(0).num_bytes();
        candidates.push_back(std::move(candidate));
      }
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [this](const Candidate& a, const Candidate& b) {
                       return static_cast<double>(a.bytes) * TimeOfAll(b, {}) >
                              static_cast<double>(b.bytes) * TimeOfAll(a, {});
                     });
    absl::flat_hash_set<Value> chosen;
    for (const Candidate& candidate : candidates) {
      const double time = TimeOfAll(candidate, chosen);
      if (time > left) continue;
      left -= time;
      chosen.insert(candidate.again.begin(), candidate.again.end());
    }
    return chosen;
  }

 private:
  bool IsForward(int32_t node) const { return node < first_gradient_; }

  // Made in the forward pass and read by a gradient.
  bool IsKept(Value v) const {
    if (!IsForward(v.node)) return false;
    for (const auto& [user, position] : graph_.Uses(v)) {
      if (!IsForward(user)) return true;
    }
    return false;
  }

  bool IsWorthIt(const Node& node) const {
    return node.num_outputs() > 0 && IsKept(node.output(0)) &&
           node.output_type(0).num_bytes() >= kWorthIt;
  }

  bool IsThere(Value v) const {
    const Node& from = *graph_.node(v);
    return from.Is(OpId::kVariable) || from.Is(OpId::kConstant) || IsKept(v);
  }

  // Adds `v` and what must be made for it to `again`.
  bool CanBeMade(Value v, std::vector<Value>* again) const {
    if (std::find(again->begin(), again->end(), v) != again->end()) return true;
    const Node& node = *graph_.node(v);
    // What follows from variables alone is there for the whole step, and can
    // wait for nothing that happens in each micro-batch.
    if (!IsForward(node.id()) || rates_[node.id()] != Rate::kMicro ||
        !IsOnePass(node) || v.index != 0 ||
        node.schema().effect != OpEffect::kPure ||
        !node.control_inputs().empty() || node.inputs().empty()) {
      return false;
    }
    again->push_back(v);
    return std::all_of(
        node.inputs().begin(), node.inputs().end(), [&](Value input) {
          return !input.valid() || IsThere(input) || CanBeMade(input, again);
        });
  }

  double TimeOfAll(const Candidate& candidate,
                   const absl::flat_hash_set<Value>& made) const {
    double time = 0;
    for (Value v : candidate.again) {
      if (!made.contains(v)) time += TimeOf(graph_, *graph_.node(v));
    }
    return time;
  }

  const Graph& graph_;
  int32_t first_gradient_;
  const std::vector<Rate>& rates_;
};

}  // namespace

absl::flat_hash_set<Value> ChooseRecomputation(const Graph& graph,
                                               int32_t first_gradient,
                                               double percent) {
  const absl::StatusOr<std::vector<Rate>> rates = InferRates(graph);
  if (!rates.ok()) return {};  // a cycle, which has no gradients
  return Chooser(graph, first_gradient, *rates).Choose(percent);
}

}  // namespace weft
