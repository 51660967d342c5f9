#include "core/reference/graph_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/reference/evaluate.h"

namespace weft {
namespace {

absl::Status Error(const Node& node, absl::string_view message) {
  return MakeError(
      ErrorCode::kBadValue,
      absl::StrCat("node '", node.name(), "' (", node.op(), "): ", message));
}

}  // namespace

GraphRun::GraphRun(const Graph& graph, const Feeds& feeds,
                   absl::Span<const Feeds> micro_feeds)
    : graph_(graph),
      feeds_(feeds),
      micro_feeds_(micro_feeds),
      micro_batches_(std::max<size_t>(1, micro_feeds.size())),
      acts_(graph.id_bound()) {}

absl::Status GraphRun::Prepare() {
  WEFT_ASSIGN_OR_RETURN(order_, graph_.TopologicalOrder());
  WEFT_ASSIGN_OR_RETURN(rates_, InferRates(graph_));
  return absl::OkStatus();
}

bool GraphRun::CanAct(const Node& node) const {
  for (Value v : node.inputs()) {
    if (v.valid() && !IsDone(v.node)) return false;
  }
  for (int32_t from : node.control_inputs()) {
    if (!IsDone(from)) return false;
  }
  return true;
}

absl::Status GraphRun::Act(const Node& node) {
  for (size_t act = 0; act < ActsOf(node); ++act) {
    WEFT_RETURN_IF_ERROR(ActOnce(node, act));
  }
  return absl::OkStatus();
}

absl::Status GraphRun::ActOnce(const Node& node, size_t act) {
  absl::StatusOr<Results> results = Compute(node, act);
  if (!results.ok()) return results.status();
  Record(node, *results);
  if (node.Is(OpId::kOutput)) {
    result_.outputs[graph_.View(node).String("name")].push_back(
        Read(node.input(0), act));
  }
  acts_[node.id()].push_back(*std::move(results));
  return absl::OkStatus();
}

absl::StatusOr<GraphRun::Results> GraphRun::Compute(const Node& node,
                                                    size_t act) {
  switch (node.schema().id) {
    case OpId::kInput:
    case OpId::kDataSource:
    case OpId::kVariable:
    case OpId::kCounter:
      return Fed(node, act);
    case OpId::kRecv: {
      auto it = received_.find(node.id());
      if (it == received_.end()) return Fed(node, act);
      if (node.num_outputs() == 0) return Results{};
      return Results{it->second[act]};
    }
    case OpId::kSend:
      return Results{};
    case OpId::kConstant:
      return Results{node.attrs().Find("value")->tensor()};
    case OpId::kCopy:
      return Results{Read(node.input(0), act)};
    case OpId::kOutput:
      return Results(node.num_outputs(), Read(node.input(0), act));
    case OpId::kAccumulate:
      return Accumulated(node);
    default:
      break;
  }
  std::vector<Literal> operands;
  for (Value v : node.inputs()) {
    operands.push_back(v.valid() ? Read(v, act) : Literal());
  }
  return Evaluate(graph_.View(node), operands);
}

absl::StatusOr<GraphRun::Results> GraphRun::Fed(const Node& node,
                                                size_t act) const {
  const std::vector<Literal>* values = nullptr;
  if (act < micro_feeds_.size()) {
    auto it = micro_feeds_[act].find(node.name());
    if (it != micro_feeds_[act].end()) values = &it->second;
  }
  if (values == nullptr) {
    auto it = feeds_.find(node.name());
    if (it != feeds_.end()) values = &it->second;
  }
  if (values == nullptr && node.Is(OpId::kCounter)) {
    const int64_t batch =
        graph_.View(node).Int("first") + static_cast<int64_t>(act);
    return Results{Literal::Of<int64_t>({2}, {0, batch})};
  }
  if (values == nullptr) return Error(node, "no value was given for it");
  if (static_cast<int>(values->size()) != node.num_outputs()) {
    return Error(node, absl::StrCat("has ", node.num_outputs(), " results, ",
                                    values->size(), " values were given"));
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    if ((*values)[i].type() != node.output_type(i)) {
      return Error(node, absl::StrCat("result ", i, " is ",
                                      node.output_type(i).ToString(),
                                      ", the value given is ",
                                      (*values)[i].type().ToString()));
    }
  }
  return *values;
}

absl::StatusOr<GraphRun::Results> GraphRun::Accumulated(
    const Node& node) const {
  size_t count = graph_.View(node).Int("count");
  if (count != micro_batches_) {
    return Error(node,
                 absl::StrCat("sums ", count, " micro-batches, the step has ",
                              micro_batches_));
  }
  std::vector<Literal> parts;
  for (size_t act = 0; act < count; ++act) {
    parts.push_back(Read(node.input(0), act));
  }
  WEFT_ASSIGN_OR_RETURN(Literal sum, TreeSum(parts));
  return Results{std::move(sum)};
}

void GraphRun::Record(const Node& node, const Results& results) {
  for (int i = 0; i < node.num_updated(); ++i) {
    result_.variables.insert_or_assign(graph_.node(node.input(i))->name(),
                                       results[i]);
  }
}

}  // namespace weft
