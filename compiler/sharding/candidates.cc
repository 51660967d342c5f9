#include "compiler/sharding/candidates.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/ops/fused.h"
#include "core/ops/signatures.h"

namespace weft {
namespace {

// An op as a member has it after the first axes.
struct LocalOp {
  AttrMap attrs;
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;

  OpView View(const Node& node) const {
    return OpView(node.schema(), node.name(), attrs, inputs, outputs);
  }
};

// What is made of multiply-adds of blocks.
bool IsProduct(const OpSchema& schema) {
  switch (schema.id) {
    case OpId::kMatMul:
    case OpId::kGemm:
    case OpId::kConv:
    case OpId::kConvGradInput:
    case OpId::kConvGradWeights:
    case OpId::kSelfAttention:
    case OpId::kSelfAttentionGrad:
      return true;
    default:
      return false;
  }
}

NodeSharding Empty(const Node& node) {
  NodeSharding out;
  out.inputs.resize(node.inputs().size());
  out.outputs.resize(node.num_outputs());
  return out;
}

void Append(const OpSignature& signature, NodeSharding* out) {
  for (size_t i = 0; i < out->inputs.size(); ++i) {
    out->inputs[i].push_back(signature.inputs[i]);
  }
  for (size_t i = 0; i < out->outputs.size(); ++i) {
    out->outputs[i].push_back(signature.outputs[i]);
  }
}

// State is what every member keeps: of equals, the smallest.
constexpr double kSecondsPerStateByte = 1e-15;

bool IsState(const Node& node) { return node.Is(OpId::kVariable); }

}  // namespace

Candidates::Candidates(const Graph& graph, const ShardingSpec& spec,
                       const std::vector<Rate>& rates,
                       const std::map<Value, Said>& said)
    : graph_(graph), spec_(spec), rates_(rates), said_(said) {
  std::set<int> groups = {1};
  const auto add = [&](Sbp sbp) {
    // No groups in a schema's list: any number of them.
    if (sbp.is_split() && sbp.groups > 0) groups.insert(sbp.groups);
  };
  for (const auto& [value, axes] : said) {
    for (const std::optional<Sbp>& sbp : axes) {
      if (sbp.has_value()) add(*sbp);
    }
  }
  for (const Node* node : graph.Nodes()) {
    if (node->schema().signatures == nullptr) continue;
    for (const OpSignature& s : node->schema().signatures(graph.View(*node))) {
      for (Sbp sbp : s.inputs) add(sbp);
      for (Sbp sbp : s.outputs) add(sbp);
    }
  }
  groups_.assign(groups.begin(), groups.end());
  splits_ = !spec.shares_micro_batches || !said.empty();
}

bool Candidates::IsFused(Value v) const {
  const auto fuses = [this](const Node& node) {
    if (!node.schema().elementwise || node.num_outputs() != 1) return false;
    const OpView view = graph_.View(node);
    return FusedProgram::CanHold(view, DType::kF32) ||
           FusedProgram::CanHold(view, DType::kF64);
  };
  if (!v.valid() || !fuses(*graph_.node(v))) return false;
  const auto uses = graph_.Uses(v);
  if (uses.size() != 1) return false;
  const Node& reader = *graph_.node(uses[0].first);
  return fuses(reader) && reader.output_type(0).shape == graph_.type(v).shape;
}

double Candidates::SecondsOf(const OpView& op, const Fused& fused,
                             const ComputeRate& rate) {
  Cost cost;
  if (op.schema().cost != nullptr) {
    cost = op.schema().cost(op);
  } else {
    for (const TensorType& t : op.inputs()) cost.bytes += t.num_bytes();
    for (const TensorType& t : op.outputs()) cost.bytes += t.num_bytes();
  }
  for (size_t i : fused.inputs) cost.bytes -= op.inputs()[i].num_bytes();
  for (size_t o : fused.outputs) cost.bytes -= op.outputs()[o].num_bytes();
  const double flops_per_s =
      IsProduct(op.schema()) ? rate.flops_per_s : rate.other_flops_per_s;
  return std::max(cost.flops / flops_per_s, cost.bytes / rate.bytes_per_s);
}

bool Candidates::IsMicro(Value v) const {
  return v.valid() && rates_[v.node] == Rate::kMicro;
}

absl::StatusOr<std::vector<NodeSharding>> Candidates::Of(const Node& node) {
  if (spec_.shares_micro_batches &&
      (rates_[node.id()] == Rate::kMicro || node.Is(OpId::kAccumulate))) {
    return OfMicroBatches(node);
  }
  static const auto* free = new Said();
  std::vector<NodeSharding> out;
  if (IsState(node)) {
    const auto it = said_.find(node.output(0));
    out = OfVariable(node, it == said_.end() ? *free : it->second);
  } else {
    out = OfSignatures(node);
  }
  if (!out.empty()) return out;
  return MakeError(
      ErrorCode::kBadGraph,
      absl::StrCat("node '", node.name(), "' (", node.op(),
                   ") has no signature on the mesh ", spec_.mesh().ToString(),
                   " that keeps state as the job wants it"));
}

std::vector<NodeSharding> Candidates::OfMicroBatches(const Node& node) const {
  NodeSharding out = Empty(node);
  for (size_t i = 0; i < out.inputs.size(); ++i) {
    out.inputs[i] = {IsMicro(node.input(i)) ? Sbp::Micro() : Sbp::Broadcast()};
  }
  if (!node.Is(OpId::kAccumulate)) {
    for (NdSbp& sbp : out.outputs) sbp = {Sbp::Micro()};
    return {out};
  }
  out.outputs = {{Sbp::Partial()}};
  if (!spec_.split_gradients) return {out};
  const std::optional<Sbp> split = SplitOfUpdate(node);
  if (split.has_value()) out = {{{*split}}, {{*split}}, 0};
  return {out};
}

std::optional<Sbp> Candidates::SplitOfUpdate(const Node& gradient) const {
  for (auto [reader, position] : graph_.Uses(gradient.output(0))) {
    const Node& update = *graph_.node(reader);
    if (update.num_updated() == 0) continue;
    const auto said = said_.find(update.input(0));
    if (said == said_.end() || !said->second[0].has_value()) continue;
    if (graph_.type(update.input(0)).shape != gradient.output_type(0).shape) {
      continue;
    }
    if (said->second[0]->is_split()) return said->second[0];
  }
  return std::nullopt;
}

std::vector<NodeSharding> Candidates::OfVariable(const Node& node,
                                                 const Said& said) const {
  const TensorType& type = node.output_type(0);
  std::vector<std::pair<NdSbp, Shape>> states = {{{}, type.shape}};
  for (int axis = 0; axis < spec_.mesh().num_axes(); ++axis) {
    const int parts = spec_.mesh().axis(axis).size;
    std::vector<Sbp> ways = {Sbp::Broadcast()};
    if (!said.empty() && said[axis].has_value()) {
      ways = {*said[axis]};
    } else if (!spec_.shares_micro_batches) {
      for (int d = 0; d < type.shape.rank(); ++d) {
        for (int groups : groups_) ways.push_back(Sbp::Split(d, groups));
      }
    }
    std::vector<std::pair<NdSbp, Shape>> more;
    for (const auto& [sbp, shape] : states) {
      for (Sbp way : ways) {
        absl::StatusOr<Shape> part = PartShape(shape, way, parts);
        if (!part.ok()) continue;
        more.emplace_back(sbp, *part);
        more.back().first.push_back(way);
      }
    }
    states = std::move(more);
  }
  if (states.size() > kMaxCandidates) states.resize(kMaxCandidates);
  std::vector<NodeSharding> out;
  for (auto& [sbp, shape] : states) {
    const TensorType local{type.dtype, shape};
    out.push_back({{}, {sbp}, kSecondsPerStateByte * local.num_bytes()});
  }
  return out;
}

NodeSharding Candidates::AllBroadcast(const Node& node) const {
  NodeSharding out = Empty(node);
  const NdSbp all(spec_.mesh().num_axes());
  std::fill(out.inputs.begin(), out.inputs.end(), all);
  std::fill(out.outputs.begin(), out.outputs.end(), all);
  return out;
}

// Whether an update leaves its state as the user wants it. What is left out
// here is not among those that the limit counts.
bool Candidates::Agrees(const Node& node, const OpSignature& signature,
                        int axis) const {
  for (int i = 0; i < node.num_updated(); ++i) {
    const auto it = said_.find(node.input(i));
    if (it == said_.end() || !it->second[axis].has_value()) continue;
    if (signature.inputs[i] != *it->second[axis]) return false;
  }
  return true;
}

Candidates::Fused Candidates::FusedOf(const Node& node) const {
  Fused fused;
  for (size_t i = 0; i < node.inputs().size(); ++i) {
    if (IsFused(node.input(static_cast<int>(i)))) fused.inputs.push_back(i);
  }
  for (int o = 0; o < node.num_outputs(); ++o) {
    if (IsFused(node.output(o))) fused.outputs.push_back(o);
  }
  return fused;
}

bool Candidates::IsAlike(const Known& known, const Node& node,
                         const Fused& fused) const {
  const Node& other = *known.node;
  const OpView a = graph_.View(other), b = graph_.View(node);
  if (a.inputs() != b.inputs() || a.outputs() != b.outputs()) return false;
  for (int i = 0; i < static_cast<int>(node.inputs().size()); ++i) {
    if (node.input(i).valid() != other.input(i).valid()) return false;
  }
  return fused.inputs == known.fused.inputs &&
         fused.outputs == known.fused.outputs && other.attrs() == node.attrs();
}

std::vector<NodeSharding> Candidates::OfSignatures(const Node& node) {
  if (!splits_) return {AllBroadcast(node)};
  const Fused fused = FusedOf(node);
  // What is said of state differs from node to node.
  if (node.num_updated() != 0 && !said_.empty()) return MakeWays(node, fused);
  constexpr size_t kMostKnown = 16;
  std::vector<Known>& known = known_[node.schema().id];
  for (auto it = known.rbegin(); it != known.rend(); ++it) {
    if (IsAlike(*it, node, fused)) return it->ways;
  }
  if (known.size() == kMostKnown) known.erase(known.begin());
  known.push_back({&node, fused, MakeWays(node, fused)});
  return known.back().ways;
}

std::vector<NodeSharding> Candidates::MakeWays(const Node& node,
                                               const Fused& fused) const {
  std::vector<std::pair<NodeSharding, LocalOp>> ways;
  ways.emplace_back(Empty(node), LocalOp{node.attrs(),
                                         {graph_.View(node).inputs().begin(),
                                          graph_.View(node).inputs().end()},
                                         {node.output_types().begin(),
                                          node.output_types().end()}});
  for (int axis = 0; axis < spec_.mesh().num_axes(); ++axis) {
    const int parts = spec_.mesh().axis(axis).size;
    std::vector<std::pair<NodeSharding, LocalOp>> more;
    for (const auto& [so_far, op] : ways) {
      const OpView view = op.View(node);
      for (const OpSignature& s : SignaturesOf(view, parts, groups_)) {
        if (!Agrees(node, s, axis)) continue;
        absl::StatusOr<AttrMap> attrs = LocalAttrs(view, s, parts, 0);
        if (!attrs.ok()) continue;
        LocalOp local{*std::move(attrs), op.inputs, op.outputs};
        if (!TakeParts(s.inputs, parts, &local.inputs).ok() ||
            !TakeParts(s.outputs, parts, &local.outputs).ok()) {
          continue;
        }
        more.emplace_back(so_far, std::move(local));
        Append(s, &more.back().first);
      }
    }
    ways = std::move(more);
  }
  std::vector<NodeSharding> out;
  for (auto& [sharding, op] : ways) {
    sharding.seconds = SecondsOf(op.View(node), fused, spec_.rate);
    out.push_back(std::move(sharding));
  }
  // B of all stays the first: it is what always goes.
  if (out.size() > kMaxCandidates) {
    std::stable_sort(out.begin() + 1, out.end(),
                     [](const NodeSharding& a, const NodeSharding& b) {
                       return a.seconds < b.seconds;
                     });
    out.resize(kMaxCandidates);
  }
  return out;
}

}  // namespace weft
