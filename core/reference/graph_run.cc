#include "core/reference/interpreter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/graph/rates.h"
#include "core/reference/evaluate.h"

namespace weft {
namespace {

class Interpreter {
 public:
  Interpreter(const Graph& graph, const Feeds& feeds,
              absl::Span<const Feeds> micro_feeds)
      : graph_(graph),
        feeds_(feeds),
        micro_feeds_(micro_feeds),
        micro_batches_(std::max<size_t>(1, micro_feeds.size())),
        acts_(graph.id_bound()) {}

  absl::StatusOr<InterpretResult> Run();

 private:
  using Results = std::vector<Literal>;

  absl::Status Act(const Node& node, size_t act);
  absl::StatusOr<Results> Compute(const Node& node, size_t act);
  absl::StatusOr<Results> Fed(const Node& node, size_t act) const;
  absl::StatusOr<Results> Accumulated(const Node& node) const;
  void Record(const Node& node, const Results& results);

  const Literal& Read(Value v, size_t act) const {
    const std::vector<Results>& acts = acts_[v.node];
    return acts[std::min(act, acts.size() - 1)][v.index];
  }

  absl::Status Error(const Node& node, absl::string_view message) const {
    return MakeError(
        ErrorCode::kBadValue,
        absl::StrCat("node '", node.name(), "' (", node.op(), "): ", message));
  }

  const Graph& graph_;
  const Feeds& feeds_;
  absl::Span<const Feeds> micro_feeds_;
  size_t micro_batches_;
  std::vector<std::vector<Results>> acts_;  // by node id, then by act
  InterpretResult result_;
};

absl::StatusOr<InterpretResult> Interpreter::Run() {
  WEFT_ASSIGN_OR_RETURN(std::vector<const Node*> order,
                        graph_.TopologicalOrder());
  WEFT_ASSIGN_OR_RETURN(std::vector<Rate> rates, InferRates(graph_));
  for (const Node* node : order) {
    bool micro = rates[node->id()] == Rate::kMicro;
    size_t count = micro ? micro_batches_ : 1;
    for (size_t act = 0; act < count; ++act) {
      WEFT_RETURN_IF_ERROR(Act(*node, act));
    }
  }
  return std::move(result_);
}

absl::Status Interpreter::Act(const Node& node, size_t act) {
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

absl::StatusOr<Interpreter::Results> Interpreter::Compute(const Node& node,
                                                          size_t act) {
  switch (node.schema().id) {
    case OpId::kInput:
    case OpId::kDataSource:
    case OpId::kVariable:
    case OpId::kCounter:
    case OpId::kRecv:
      return Fed(node, act);
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

absl::StatusOr<Interpreter::Results> Interpreter::Fed(const Node& node,
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

absl::StatusOr<Interpreter::Results> Interpreter::Accumulated(
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

void Interpreter::Record(const Node& node, const Results& results) {
  for (int i = 0; i < node.num_updated(); ++i) {
    result_.variables.insert_or_assign(graph_.node(node.input(i))->name(),
                                       results[i]);
  }
}

}  // namespace

absl::StatusOr<InterpretResult> Interpret(const Graph& graph,
                                          const Feeds& feeds,
                                          absl::Span<const Feeds> micro_feeds) {
  return Interpreter(graph, feeds, micro_feeds).Run();
}

}  // namespace weft
