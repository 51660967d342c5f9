#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/boxing/plan.h"
#include "compiler/sharding/candidates.h"
#include "compiler/sharding/min_sum.h"
#include "compiler/sharding/sharding.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/graph/rates.h"

namespace weft {
namespace {

constexpr double kImpossible = MinSum::kImpossible;
// Alternatives that an explanation names.
constexpr size_t kAlternatives = 3;

class Chooser {
 public:
  Chooser(const Graph& graph, const ShardingSpec& spec)
      : graph_(graph),
        spec_(spec),
        costs_(spec.mesh(), spec.topology, spec.hosts) {}

  absl::StatusOr<Sharding> Run() {
    WEFT_ASSIGN_OR_RETURN(rates_, InferRates(graph_));
    WEFT_RETURN_IF_ERROR(TakeConstraints());
    Candidates candidates(graph_, spec_, rates_, of_variables_);
    ways_.resize(graph_.id_bound());
    choice_.assign(graph_.id_bound(), 0);
    for (const Node* node : graph_.Nodes()) {
      WEFT_ASSIGN_OR_RETURN(ways_[node->id()], candidates.Of(*node));
    }
    Solve();
    WEFT_RETURN_IF_ERROR(Improve());
    return Result();
  }

 private:
  // ---- what the user says ----

  // By value and axis, who said it first.
  using First = std::map<std::pair<Value, int>, const ShardingConstraint*>;

  absl::Status TakeConstraints() {
    First first;
    std::map<Value, Said> of_values;
    for (const ShardingConstraint& c : spec_.constraints) {
      const auto [at, is_new] = first.try_emplace({c.value, c.axis}, &c);
      if (!is_new && at->second->sbp != c.sbp)
        return Contradiction(*at->second, c);
      if (spec_.shares_micro_batches && rates_[c.value.node] == Rate::kMicro) {
        return MakeError(
            ErrorCode::kBadValue,
            absl::StrCat(c.source, ": the members of mesh axis '",
                         spec_.mesh().axis(c.axis).name,
                         "' have micro-batches of their own, so '",
                         graph_.ValueName(c.value),
                         "' is not one value that could be ", ToString(c.sbp)));
      }
      const Node& node = *graph_.node(c.value);
      if (node.schema().effect == OpEffect::kUpdate) {
        return MakeError(
            ErrorCode::kBadValue,
            absl::StrCat(c.source, ": '", graph_.ValueName(c.value),
                         "' is what an update leaves in '",
                         graph_.ValueName(node.input(c.value.index)),
                         "'; say it of that"));
      }
      const bool variable = node.Is(OpId::kVariable);
      if (variable && !c.sbp.is_split() && !c.sbp.is_broadcast()) {
        return MakeError(
            ErrorCode::kBadValue,
            absl::StrCat(c.source, ": variable '", graph_.ValueName(c.value),
                         "' cannot be ", ToString(c.sbp),
                         "; state is B or split"));
      }
      Said& said = variable ? of_variables_[c.value] : of_values[c.value];
      said.resize(spec_.mesh().num_axes());
      said[c.axis] = c.sbp;
      WEFT_RETURN_IF_ERROR(CheckFits(c, said));
    }
    WEFT_RETURN_IF_ERROR(JoinState(first));
    for (const auto& [value, said] : of_values) {
      NdSbp& sbp = given_[value];
      for (const std::optional<Sbp>& s : said) {
        sbp.push_back(s.value_or(Sbp::Broadcast()));
      }
    }
    return absl::OkStatus();
  }

  // What one node updates together lies alike: a parameter and its moments.
  absl::Status JoinState(const First& first) {
    for (const Node* node : graph_.Nodes()) {
      for (int i = 0; i < node->num_updated(); ++i) {
        const auto said = of_variables_.find(node->input(i));
        if (said == of_variables_.end()) continue;
        const Said all = said->second;
        for (int j = 0; j < node->num_updated(); ++j) {
          const Value other = node->input(j);
          if (graph_.type(other).shape != graph_.type(node->input(i)).shape) {
            continue;
          }
          WEFT_RETURN_IF_ERROR(
              Join(node->input(i), all, other, first, &of_variables_[other]));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status Join(Value value, const Said& all, Value other,
                    const First& first, Said* said) const {
    said->resize(all.size());
    for (size_t axis = 0; axis < all.size(); ++axis) {
      if (!all[axis].has_value()) continue;
      std::optional<Sbp>& at = (*said)[axis];
      if (!at.has_value()) at = all[axis];
      if (*at == *all[axis]) continue;
      const auto source = [&](Value v) {
        const auto found = first.find({v, static_cast<int>(axis)});
        return found == first.end() ? std::string("what is updated with it")
                                    : found->second->source;
      };
      return MakeError(
          ErrorCode::kBadValue,
          absl::StrCat("'", graph_.ValueName(value), "' and '",
                       graph_.ValueName(other),
                       "' are updated together and lie alike, but are to be ",
                       ToString(*all[axis]), " by ", source(value), " and ",
                       ToString(*at), " by ", source(other), " on mesh axis '",
                       spec_.mesh().axis(static_cast<int>(axis)).name, "'"));
    }
    return absl::OkStatus();
  }

  absl::Status Contradiction(const ShardingConstraint& a,
                             const ShardingConstraint& b) const {
    return MakeError(
        ErrorCode::kBadValue,
        absl::StrCat("'", graph_.ValueName(a.value), "' is to be ",
                     ToString(a.sbp), " by ", a.source, " and ",
                     ToString(b.sbp), " by ", b.source, " on mesh axis '",
                     spec_.mesh().axis(a.axis).name, "'"));
  }

  absl::Status CheckFits(const ShardingConstraint& c, const Said& said) const {
    Shape shape = graph_.type(c.value).shape;
    for (int axis = 0; axis < spec_.mesh().num_axes(); ++axis) {
      absl::StatusOr<Shape> part =
          PartShape(shape, said[axis].value_or(Sbp::Broadcast()),
                    spec_.mesh().axis(axis).size);
      if (!part.ok()) {
        return MakeError(
            ErrorCode::kShapeMismatch,
            absl::StrCat(c.source, ": '", graph_.ValueName(c.value),
                         "' on mesh axis '", spec_.mesh().axis(axis).name,
                         "': ", part.status().message()));
      }
      shape = *part;
    }
    return absl::OkStatus();
  }

  // ---- what things cost ----

  double Weight(int32_t node) const {
    if (rates_[node] != Rate::kMicro) return 1;
    const int members = spec_.shares_micro_batches ? spec_.mesh().size() : 1;
    return static_cast<double>(spec_.micro_batches) / members;
  }

  // From how a value's node leaves it to how a reader wants it.
  double BoxingCost(Value v, const NdSbp& from, const NdSbp& to) {
    if (from == to) return 0;
    const bool micro = spec_.shares_micro_batches && from[0].is_micro();
    if (to[0].is_micro()) return kImpossible;
    // Of an Accumulate that takes parts: the micro-batches that the members are
    // at are parts of a sum.
    const NdSbp& real = micro ? partial_ : from;
    const double seconds = costs_.Seconds(real, to, graph_.type(v),
                                          rates_[v.node] == Rate::kMicro) +
                           NumCollectives(real, to) * spec_.rate.collective_s;
    return std::min(seconds, kImpossible) * Weight(v.node);
  }

  // At least; slices and padding move nothing.
  static int NumCollectives(const NdSbp& from, const NdSbp& to) {
    int out = 0;
    for (size_t axis = 0; axis < from.size(); ++axis) {
      const bool stays = from[axis] == to[axis] || from[axis].is_broadcast() ||
                         (from[axis].is_split() && to[axis].is_partial());
      out += stays ? 0 : 1;
    }
    return out;
  }

  // Of a reader that must find the value as it lies.
  bool IsUpdated(const Node& reader, int position) const {
    return position < reader.num_updated();
  }

  double UseCost(Value v, const NdSbp& from, const Node& reader, int position,
                 const NdSbp& to) {
    if (IsUpdated(reader, position) && from != to) return kImpossible;
    return BoxingCost(v, from, to);
  }

  // ---- the choice ----

  void Solve() {
    MinSum problem;
    for (int32_t id = 0; id < graph_.id_bound(); ++id) {
      std::vector<double> costs(std::max<size_t>(1, ways_[id].size()), 0);
      for (size_t c = 0; c < ways_[id].size(); ++c) {
        costs[c] = ways_[id][c].seconds * Weight(id) + GivenCost(id, c);
      }
      problem.AddVariable(std::move(costs));
    }
    for (const Node* node : graph_.Nodes()) {
      for (size_t i = 0; i < node->inputs().size(); ++i) {
        const Value v = node->input(static_cast<int>(i));
        if (v.valid() && given_.count(v) == 0) AddPair(*node, i, v, &problem);
      }
    }
    choice_ = problem.Solve();
  }

  // Of operands and results that the user has fixed: no other choice matters.
  double GivenCost(int32_t id, size_t c) {
    const Node& node = *graph_.node(id);
    const NodeSharding& way = ways_[id][c];
    double cost = 0;
    for (int o = 0; o < node.num_outputs(); ++o) {
      const auto given = given_.find(node.output(o));
      if (given == given_.end()) continue;
      cost += BoxingCost(node.output(o), way.outputs[o], given->second);
    }
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      const Value v = node.input(static_cast<int>(i));
      const auto given = given_.find(v);
      if (given == given_.end()) continue;
      cost +=
          UseCost(v, given->second, node, static_cast<int>(i), way.inputs[i]);
    }
    return cost;
  }

  // In a list that has each once; put at its end where it is new.
  static size_t IndexOf(const NdSbp& sbp, std::vector<const NdSbp*>* list) {
    const auto it =
        std::find_if(list->begin(), list->end(),
                     [&](const NdSbp* known) { return *known == sbp; });
    const size_t index = it - list->begin();
    if (it == list->end()) list->push_back(&sbp);
    return index;
  }

  void AddPair(const Node& reader, size_t i, Value v, MinSum* problem) {
    const std::vector<NodeSharding>& from = ways_[v.node];
    const std::vector<NodeSharding>& to = ways_[reader.id()];
    if (from.size() == 1 && to.size() == 1) return;
    // Many ways leave or read a value alike: each pair is asked for once.
    std::vector<const NdSbp*> made, read;
    std::vector<size_t> of_from, of_to;
    for (const NodeSharding& f : from) {
      of_from.push_back(IndexOf(f.outputs[v.index], &made));
    }
    for (const NodeSharding& t : to) {
      of_to.push_back(IndexOf(t.inputs[i], &read));
    }
    std::vector<double> costs;
    for (const NdSbp* f : made) {
      for (const NdSbp* t : read) {
        costs.push_back(UseCost(v, *f, reader, static_cast<int>(i), *t));
      }
    }
    std::vector<double> table;
    table.reserve(from.size() * to.size());
    for (size_t f : of_from) {
      for (size_t t : of_to) table.push_back(costs[f * read.size() + t]);
    }
    const bool any = std::any_of(costs.begin(), costs.end(),
                                 [](double cost) { return cost != 0; });
    if (any) problem->AddPair(v.node, reader.id(), table);
  }

  const NodeSharding& Chosen(int32_t node) const {
    return ways_[node][choice_[node]];
  }

  // How often each value is read in each way, by node and result; a value may
  // have thousands of readers, and few ways.
  using Ways = std::vector<std::pair<NdSbp, int>>;

  void CountReaders() {
    readers_.resize(graph_.id_bound());
    updates_.resize(graph_.id_bound());
    for (const Node* node : graph_.Nodes()) {
      readers_[node->id()].resize(node->num_outputs());
    }
    for (const Node* node : graph_.Nodes()) {
      CountOperands(*node, 1);
      for (int i = 0; i < node->num_updated(); ++i) {
        updates_[node->input(i).node].emplace_back(node->id(), i);
      }
    }
  }

  void CountOperands(const Node& node, int by) {
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      const Value v = node.input(static_cast<int>(i));
      if (!v.valid()) continue;
      const NdSbp& way = Chosen(node.id()).inputs[i];
      Ways& ways = readers_[v.node][v.index];
      auto at = std::find_if(ways.begin(), ways.end(),
                             [&](const auto& w) { return w.first == way; });
      if (at == ways.end()) at = ways.insert(ways.end(), {way, 0});
      at->second += by;
    }
  }

  void Choose(const Node& node, int choice) {
    CountOperands(node, -1);
    choice_[node.id()] = choice;
    CountOperands(node, 1);
  }

  // All ways of reading it, each once.
  double ValueCost(Value v) {
    const NdSbp& made = Chosen(v.node).outputs[v.index];
    const NdSbp& found = Found(v);
    for (auto [reader, position] : updates_[v.node]) {
      if (Chosen(reader).inputs[position] != found) return kImpossible;
    }
    double cost = BoxingCost(v, made, found);
    for (const auto& [way, readers] : readers_[v.node][v.index]) {
      if (readers > 0) cost += BoxingCost(v, found, way);
    }
    return cost;
  }

  // Of a node's choice, with all others as they are.
  double CostAround(const Node& node) {
    double cost = Chosen(node.id()).seconds * Weight(node.id());
    for (int i = 0; i < static_cast<int>(node.inputs().size()); ++i) {
      const Value v = node.input(i);
      bool is_first = v.valid();
      for (int j = 0; j < i && is_first; ++j) is_first = node.input(j) != v;
      if (is_first) cost += ValueCost(v);
    }
    for (int o = 0; o < node.num_outputs(); ++o) {
      cost += ValueCost(node.output(o));
    }
    return cost;
  }

  // One at a time, by the true cost, in which a way of reading counts once
  // whatever the number of its readers.
  absl::Status Improve() {
    constexpr int kRounds = 20;
    CountReaders();
    // Whose cost may have changed since it was looked at.
    std::vector<bool> is_open(graph_.id_bound(), true);
    for (int round = 0; round < kRounds; ++round) {
      bool changed = false;
      for (const Node* node : graph_.Nodes()) {
        if (ways_[node->id()].size() <= 1 || !is_open[node->id()]) continue;
        is_open[node->id()] = false;
        if (!ImproveNode(*node)) continue;
        OpenAround(*node, &is_open);
        changed = true;
      }
      if (!changed) break;
    }
    for (const Node* node : graph_.Nodes()) {
      for (int i = 0; i < node->num_updated(); ++i) {
        const Value state = node->input(i);
        if (Chosen(node->id()).inputs[i] == Found(state)) continue;
        return MakeError(
            ErrorCode::kBadGraph,
            absl::StrCat("'", node->name(), "' (", node->op(),
                         ") cannot update '", graph_.ValueName(state),
                         "' where that is ", ToString(Found(state)),
                         "; there is no such signature"));
      }
    }
    return absl::OkStatus();
  }

  // Nodes that share a value with this one.
  void OpenAround(const Node& node, std::vector<bool>* is_open) const {
    const auto open_value = [&](Value v) {
      (*is_open)[v.node] = true;
      for (auto [reader, position] : graph_.Uses(v)) (*is_open)[reader] = true;
    };
    for (Value v : node.inputs()) {
      if (v.valid()) open_value(v);
    }
    for (int o = 0; o < node.num_outputs(); ++o) open_value(node.output(o));
  }

  const NdSbp& Found(Value v) const {
    const auto given = given_.find(v);
    return given != given_.end() ? given->second
                                 : Chosen(v.node).outputs[v.index];
  }

  bool ImproveNode(const Node& node) {
    const int before = choice_[node.id()];
    int best = before;
    double least = CostAround(node);
    for (int c = 0; c < static_cast<int>(ways_[node.id()].size()); ++c) {
      if (c == before) continue;
      Choose(node, c);
      const double cost = CostAround(node);
      // What differs by rounding alone is equal.
      if (cost < least * (1 - 1e-9)) {
        least = cost;
        best = c;
      }
    }
    Choose(node, best);
    return best != before;
  }

  // ---- the outcome ----

  Sharding Result() {
    Sharding out;
    out.nodes.resize(graph_.id_bound());
    out.why.resize(graph_.id_bound());
    out.given = given_;
    for (const Node* node : graph_.Nodes()) {
      out.nodes[node->id()] = Chosen(node->id());
      if (ways_[node->id()].size() > 1) out.why[node->id()] = Why(*node);
    }
    return out;
  }

  std::string Why(const Node& node) {
    const int kept = choice_[node.id()];
    std::vector<std::pair<double, int>> others;
    for (int c = 0; c < static_cast<int>(ways_[node.id()].size()); ++c) {
      Choose(node, c);
      others.emplace_back(CostAround(node), c);
    }
    Choose(node, kept);
    const double cost = others[kept].first;
    others.erase(others.begin() + kept);
    std::stable_sort(others.begin(), others.end());
    std::vector<std::string> alternatives;
    for (const auto& [seconds, c] : others) {
      if (alternatives.size() == kAlternatives || seconds >= kImpossible) break;
      alternatives.push_back(absl::StrFormat(
          "%s %.1f us", ToString(ways_[node.id()][c]), seconds * 1e6));
    }
    return absl::StrFormat(
        "%s, %.1f us with the moves around it, of %d ways%s%s",
        ToString(Chosen(node.id())), cost * 1e6, ways_[node.id()].size(),
        alternatives.empty() ? "" : "; next ",
        absl::StrJoin(alternatives, "; "));
  }

  const Graph& graph_;
  const ShardingSpec& spec_;
  BoxingCosts costs_;
  const NdSbp partial_ = {Sbp::Partial()};
  std::vector<Rate> rates_;
  std::map<Value, Said> of_variables_;
  std::map<Value, NdSbp> given_;
  std::vector<std::vector<NodeSharding>> ways_;  // by node id
  std::vector<int> choice_;                      // by node id
  std::vector<std::vector<Ways>> readers_;       // by node id and result
  // By node id: who updates the variable, and at which operand.
  std::vector<std::vector<std::pair<int32_t, int>>> updates_;
};

std::string List(const std::vector<NdSbp>& sbps) {
  return absl::StrJoin(sbps, ", ", [](std::string* out, const NdSbp& sbp) {
    absl::StrAppend(out, ToString(sbp));
  });
}

}  // namespace

std::string ToString(const NodeSharding& node) {
  return absl::StrCat(List(node.inputs), node.inputs.empty() ? "" : " ", "-> ",
                      List(node.outputs));
}

absl::StatusOr<Sharding> ChooseSharding(const Graph& graph,
                                        const ShardingSpec& spec) {
  return Chooser(graph, spec).Run();
}

}  // namespace weft
