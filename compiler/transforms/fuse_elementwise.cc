#include "compiler/transforms/fuse_elementwise.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/transforms/rewrite.h"
#include "compiler/transforms/waves.h"
#include "core/base/status_macros.h"
#include "core/graph/rates.h"
#include "core/ops/fused.h"

namespace weft {
namespace {

constexpr int kMaxOperands = 16;
constexpr int kMaxResults = 4;

struct Region {
  std::vector<int32_t> nodes;       // in topological order
  DType compute = DType::kInvalid;  // kInvalid: any will do
  int instructions = 0;
  bool fusable = false;  // false: a node that takes part in no fusion
};

// The dtype that a region with this node computes in; kInvalid where the node
// has truth values only.
DType ComputeTypeOf(const OpView& op) {
  DType compute = FusedProgram::ComputeType(op.output(0).dtype);
  for (int i = 0; i < op.num_inputs() && compute == DType::kInvalid; ++i) {
    compute = FusedProgram::ComputeType(op.input(i).dtype);
  }
  return compute;
}

int CountInstructions(const OpView& op) {
  FusedProgram program(op.num_inputs());
  std::vector<int> operands(op.num_inputs());
  for (int i = 0; i < op.num_inputs(); ++i) operands[i] = i;
  program.AddNode(op, operands);
  return static_cast<int>(program.instructions().size());
}

class Fuser {
 public:
  Fuser(Graph* graph, int max_instructions)
      : graph_(*graph),
        max_instructions_(std::min(max_instructions, kMaxFusedInstructions)) {}

  absl::StatusOr<bool> Run();

 private:
  void Visit(const Node& node);
  void DrawInTruthValues(const Node& node);
  bool CanJoin(const Node& from, const Node& node) const;
  bool FitsTogether(int a, int b) const;
  bool HasDetour(int from, int to);
  void Merge(int from, int into);
  int StretchOf(int position);
  void Predecessors(int region, std::vector<int>* out) const;

  std::vector<Value> Operands(const std::vector<int32_t>& nodes) const;
  std::vector<Value> Results(const std::vector<int32_t>& nodes) const;
  absl::StatusOr<bool> Emit(const Region& region);
  bool BuildProgram(const Region& region, bool inline_constants,
                    std::vector<Value>* operands, AttrMap* attrs) const;

  const Node& NodeOf(Value v) const { return *graph_.node(v); }
  bool IsTruth(Value v) const { return graph_.type(v).dtype == DType::kBool; }

  Graph& graph_;
  int max_instructions_;
  std::vector<Rate> rates_;
  std::vector<int32_t> waves_;
  std::vector<int> position_;    // by node id, in topological order
  std::vector<int> region_of_;   // by node id
  std::vector<Region> regions_;  // by first member's visit; empty when merged
  // By position: one before it in its stretch, or itself. A stretch is a run of
  // positions that no region of several nodes sticks out of.
  std::vector<int> stretch_;
  int search_ = 0;            // of HasDetour, by number
  std::vector<int> seen_in_;  // by region: the last search that met it
};

absl::StatusOr<bool> Fuser::Run() {
  WEFT_ASSIGN_OR_RETURN(std::vector<const Node*> order,
                        std::as_const(graph_).TopologicalOrder());
  WEFT_ASSIGN_OR_RETURN(rates_, InferRates(graph_));
  waves_ = WavesOf(graph_, order);
  position_.assign(graph_.id_bound(), 0);
  region_of_.assign(graph_.id_bound(), -1);
  for (size_t i = 0; i < order.size(); ++i) {
    position_[order[i]->id()] = static_cast<int>(i);
    region_of_[order[i]->id()] = static_cast<int>(i);
    regions_.emplace_back();
    regions_.back().nodes = {order[i]->id()};
  }
  seen_in_.assign(regions_.size(), 0);
  stretch_.resize(regions_.size());
  std::iota(stretch_.begin(), stretch_.end(), 0);
  for (const Node* node : order) Visit(*node);
  bool changed = false;
  for (const Region& region : regions_) {
    if (region.nodes.size() < 2 || !region.fusable) continue;
    WEFT_ASSIGN_OR_RETURN(bool emitted, Emit(region));
    changed = changed || emitted;
  }
  return changed;
}

void Fuser::Visit(const Node& node) {
  if (!node.schema().elementwise || !IsPure(node) || node.num_outputs() != 1 ||
      HasControlEdges(graph_, node)) {
    return;
  }
  OpView view = graph_.View(node);
  DType compute = ComputeTypeOf(view);
  if (!FusedProgram::CanHold(
          view, compute == DType::kInvalid ? DType::kF32 : compute)) {
    return;
  }
  int own = region_of_[node.id()];
  regions_[own].compute = compute;
  regions_[own].instructions = CountInstructions(view);
  regions_[own].fusable = regions_[own].instructions <= max_instructions_;
  if (!regions_[own].fusable) return;
  DrawInTruthValues(node);
  // A truth value goes to its reader, not to its operands: who reads it much
  // later makes it again from them, and need not keep it.
  if (IsTruth(node.output(0))) return;
  for (Value v : node.inputs()) {
    if (!v.valid() || IsTruth(v) || !CanJoin(NodeOf(v), node)) continue;
    int from = region_of_[v.node];
    int into = region_of_[node.id()];
    if (from == into || !FitsTogether(from, into)) continue;
    if (!HasDetour(from, into)) Merge(from, into);
  }
}

// Those that nobody else reads: they are no operands then.
void Fuser::DrawInTruthValues(const Node& node) {
  for (Value v : node.inputs()) {
    if (!v.valid() || !IsTruth(v) || !CanJoin(NodeOf(v), node)) continue;
    bool only_reader = true;
    for (const auto& [user, position] : graph_.Uses(v)) {
      only_reader = only_reader && user == node.id();
    }
    int from = region_of_[v.node];
    int into = region_of_[node.id()];
    if (!only_reader || from == into || !FitsTogether(from, into)) continue;
    if (!HasDetour(from, into)) Merge(from, into);
  }
}

bool Fuser::CanJoin(const Node& from, const Node& node) const {
  return regions_[region_of_[from.id()]].fusable && SamePlacement(from, node) &&
         from.output_type(0).shape == node.output_type(0).shape &&
         rates_[from.id()] == rates_[node.id()];
}

bool Fuser::FitsTogether(int a, int b) const {
  const Region& x = regions_[a];
  const Region& y = regions_[b];
  if (x.compute != y.compute && x.compute != DType::kInvalid &&
      y.compute != DType::kInvalid) {
    return false;
  }
  if (x.instructions + y.instructions > max_instructions_) return false;
  std::vector<int32_t> both = x.nodes;
  both.insert(both.end(), y.nodes.begin(), y.nodes.end());
  const std::vector<Value> results = Results(both);
  return static_cast<int>(Operands(both).size()) <= kMaxOperands &&
         static_cast<int>(results.size()) <= kMaxResults &&
         std::all_of(results.begin(), results.end(), [&](Value v) {
           return waves_[v.node] == waves_[results[0].node];
         });
}

void Fuser::Predecessors(int region, std::vector<int>* out) const {
  for (int32_t id : regions_[region].nodes) {
    const Node& node = *graph_.node(id);
    for (Value v : node.inputs()) {
      if (v.valid()) out->push_back(region_of_[v.node]);
    }
    for (int32_t from : node.control_inputs()) {
      out->push_back(region_of_[from]);
    }
  }
}

// True where a path leads from region `from` to region `to` through a third
// one: as one node the two would wait for themselves. Regions made so far have
// none. What lies before the stretch of `from` is on no such path: edges lead
// to later positions, and regions back to none of another stretch.
bool Fuser::HasDetour(int from, int to) {
  ++search_;
  const int first = StretchOf(position_[regions_[from].nodes[0]]);
  std::vector<int> pending;
  std::vector<int> before;
  // True where the search has come back to `from`, other than straight from
  // `to`.
  auto follow = [&](int region) {
    before.clear();
    Predecessors(region, &before);
    for (int r : before) {
      if (r == from && region != to) return true;
      if (r == from || r == to || seen_in_[r] == search_) continue;
      seen_in_[r] = search_;
      if (position_[regions_[r].nodes[0]] < first) continue;
      pending.push_back(r);
    }
    return false;
  };
  follow(to);
  while (!pending.empty()) {
    int region = pending.back();
    pending.pop_back();
    if (follow(region)) return true;
  }
  return false;
}

void Fuser::Merge(int from, int into) {
  Region& a = regions_[from];
  Region& b = regions_[into];
  for (int32_t id : a.nodes) region_of_[id] = into;
  b.nodes.insert(b.nodes.end(), a.nodes.begin(), a.nodes.end());
  std::sort(b.nodes.begin(), b.nodes.end(), [this](int32_t x, int32_t y) {
    return position_[x] < position_[y];
  });
  b.instructions += a.instructions;
  if (b.compute == DType::kInvalid) b.compute = a.compute;
  a = Region();
  const int first = position_[b.nodes.front()];
  const int last = position_[b.nodes.back()];
  for (int at = StretchOf(last); at > first; at = StretchOf(last)) {
    stretch_[at] = at - 1;
  }
}

// The first position of its stretch.
int Fuser::StretchOf(int position) {
  int first = position;
  while (stretch_[first] != first) first = stretch_[first];
  while (position != first) {
    position = std::exchange(stretch_[position], first);
  }
  return first;
}

// Values that the nodes read and do not make, in the order of first use.
std::vector<Value> Fuser::Operands(const std::vector<int32_t>& nodes) const {
  absl::flat_hash_set<int32_t> inside(nodes.begin(), nodes.end());
  absl::flat_hash_set<Value> seen;
  std::vector<Value> operands;
  for (int32_t id : nodes) {
    for (Value v : graph_.node(id)->inputs()) {
      if (inside.contains(v.node) || !seen.insert(v).second) continue;
      operands.push_back(v);
    }
  }
  return operands;
}

// Values that the nodes make and others read.
std::vector<Value> Fuser::Results(const std::vector<int32_t>& nodes) const {
  absl::flat_hash_set<int32_t> inside(nodes.begin(), nodes.end());
  std::vector<Value> results;
  for (int32_t id : nodes) {
    Value v = graph_.node(id)->output(0);
    for (const auto& [user, position] : graph_.Uses(v)) {
      if (inside.contains(user)) continue;
      results.push_back(v);
      break;
    }
  }
  return results;
}

// False where the operands left do not have the region's shape.
bool Fuser::BuildProgram(const Region& region, bool inline_constants,
                         std::vector<Value>* operands, AttrMap* attrs) const {
  std::vector<std::pair<Value, double>> constants;
  operands->clear();
  Shape shape;
  for (Value v : Operands(region.nodes)) {
    double value = 0;
    if (inline_constants && graph_.type(v).shape.num_elements() == 1 &&
        IsSplat(graph_, v, &value)) {
      constants.emplace_back(v, value);
      continue;
    }
    operands->push_back(v);
    absl::StatusOr<Shape> wider = BroadcastShapes(shape, graph_.type(v).shape);
    if (!wider.ok()) return false;
    shape = *wider;
  }
  if (operands->empty() ||
      shape != graph_.node(region.nodes[0])->output_type(0).shape) {
    return false;
  }
  FusedProgram program(static_cast<int>(operands->size()));
  absl::flat_hash_map<Value, int> codes;
  for (size_t i = 0; i < operands->size(); ++i) {
    codes[(*operands)[i]] = static_cast<int>(i);
  }
  for (const auto& [v, value] : constants) codes[v] = program.Constant(value);
  for (int32_t id : region.nodes) {
    const Node& node = *graph_.node(id);
    std::vector<int> arguments;
    for (Value v : node.inputs()) arguments.push_back(codes.at(v));
    int code = program.AddNode(graph_.View(node), arguments);
    codes[node.output(0)] = code;
  }
  bool one_type = true;
  for (Value v : Results(region.nodes)) {
    program.outputs.push_back(codes.at(v));
    program.types.push_back(graph_.type(v).dtype);
    one_type = one_type &&
               program.types.back() == graph_.type(operands->front()).dtype;
  }
  if (one_type) program.types.clear();  // the default
  *attrs = program.ToAttrs();
  return !program.instructions().empty();
}

absl::StatusOr<bool> Fuser::Emit(const Region& region) {
  std::vector<Value> results = Results(region.nodes);
  if (results.empty()) return false;
  std::vector<Value> operands;
  AttrMap attrs;
  if (!BuildProgram(region, /*inline_constants=*/true, &operands, &attrs) &&
      !BuildProgram(region, /*inline_constants=*/false, &operands, &attrs)) {
    return false;
  }
  const Node& last = NodeOf(results.back());
  std::vector<std::string> names;
  for (int32_t id : region.nodes) names.push_back(graph_.node(id)->name());
  WEFT_ASSIGN_OR_RETURN(
      Node * fused,
      graph_.Add("weft.fused", absl::StrCat(last.name(), "/fused"), operands,
                 std::move(attrs), static_cast<int>(results.size())));
  fused->device = last.device;
  fused->stage = last.stage;
  fused->provenance.push_back(
      absl::StrCat("fuse_elementwise: ", absl::StrJoin(names, ", ")));
  for (size_t i = 0; i < results.size(); ++i) {
    WEFT_RETURN_IF_ERROR(
        graph_.ReplaceUses(results[i], fused->output(static_cast<int>(i))));
  }
  for (auto it = region.nodes.rbegin(); it != region.nodes.rend(); ++it) {
    WEFT_RETURN_IF_ERROR(graph_.Remove(*it));
  }
  return true;
}

class FuseElementwisePass : public Pass {
 public:
  absl::string_view Name() const override { return "fuse_elementwise"; }
  absl::StatusOr<bool> Run(Graph& graph, PassContext& context) override {
    return Fuser(&graph, context.settings.max_fused).Run();
  }
};

}  // namespace

std::unique_ptr<Pass> CreateFuseElementwisePass() {
  return std::make_unique<FuseElementwisePass>();
}

}  // namespace weft
