#include "compiler/placement/placement.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/placement/device_names.h"
#include "compiler/placement/kernel_desc.h"
#include "compiler/transforms/decompose.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

using Role = PlacedNode::Role;

constexpr uint32_t kNoDevice = ~uint32_t{0};
constexpr int kDeepest = 8;  // parts of parts of a decomposition

bool RenamesBytes(const Node& node) {
  switch (node.schema().id) {
    case OpId::kReshape:
    case OpId::kFlatten:
    case OpId::kSqueeze:
    case OpId::kUnsqueeze:
    case OpId::kIdentity:
    case OpId::kCopy:
      return true;
    default:
      return false;
  }
}

class Placer {
 public:
  Placer(Graph graph, const PlacementOptions& options, const StateLayout& state,
         CapabilityCache* cache)
      : options_(options),
        state_(state),
        cache_(cache),
        out_{std::move(graph)} {}

  absl::StatusOr<Placement> Run() {
    out_.place.resize(graph().id_bound());
    std::iota(out_.place.begin(), out_.place.end(), 0);
    WEFT_RETURN_IF_ERROR(ReadConstantsByKernel());
    MarkViews();
    // Decomposition appends nodes, which are placed in turn. Node pointers stay
    // valid; ids of removed nodes become holes.
    for (int32_t id = 0; id < graph().id_bound(); ++id) {
      if (!graph().Contains(id)) continue;
      out_.nodes.resize(graph().id_bound());
      WEFT_RETURN_IF_ERROR(Place(graph().node(id)));
    }
    out_.nodes.resize(graph().id_bound());
    for (const Node* node : std::as_const(graph()).Nodes()) {
      if (out_.nodes[node->id()].role != Role::kAccumulate) continue;
      WEFT_RETURN_IF_ERROR(PlaceAccumulate(*node));
    }
    return std::move(out_);
  }

  bool RunsAsKernel(const Graph& graph, const Node& node) const {
    absl::StatusOr<uint32_t> target = Target(graph, node);
    if (!target.ok()) return false;
    const OpView view = graph.View(node);
    if (Supports(*target, view)) return true;
    if (*target == 0 || options_.strict) return false;
    return !DecomposesView(graph, node, {*target}) && AnySupports(view);
  }

 private:
  Graph& graph() { return out_.graph; }

  // The session and wires read registers, not constants.
  static bool ReadsRegister(const Node& node) {
    return node.Is(OpId::kOutput) ||
           (node.Is(OpId::kSend) && !node.inputs().empty());
  }

  // A result that is a constant is computed by an Identity.
  absl::Status ReadConstantsByKernel() {
    for (const Node* node : std::as_const(graph()).Nodes()) {
      if (!ReadsRegister(*node)) continue;
      Value v = node->input(0);
      if (!graph().node(v)->Is(OpId::kConstant)) continue;
      WEFT_ASSIGN_OR_RETURN(
          Node * copy,
          graph().Add("Identity", absl::StrCat(node->name(), "/constant"),
                      {v}));
      copy->provenance = {absl::StrCat("placement: gives the constant '",
                                       graph().node(v)->name(),
                                       "' a register that can be read")};
      WEFT_RETURN_IF_ERROR(graph().SetInput(node->id(), 0, copy->output(0)));
      out_.place.resize(graph().id_bound(), out_.place[node->id()]);
    }
    return absl::OkStatus();
  }

  void MarkViews() {
    std::vector<const Node*> nodes = std::as_const(graph()).Nodes();
    view_.assign(graph().id_bound(), false);
    for (const Node* node : nodes) {
      view_[node->id()] = RenamesBytes(*node) &&
                          node->control_inputs().empty() &&
                          graph().ControlUses(node->id()).empty();
    }
    // The session sees a register's own shape: what it reads is no view of
    // another shape, nor of a constant.
    for (const Node* node : nodes) {
      if (!ReadsRegister(*node)) continue;
      Value v = node->input(0);
      Value root = v;
      while (view_[root.node]) root = graph().node(root)->input(0);
      const bool reshaped =
          node->Is(OpId::kOutput) && graph().type(root) != graph().type(v);
      if (reshaped || graph().node(root)->Is(OpId::kConstant)) {
        view_[v.node] = false;
      }
    }
  }

  absl::Status Place(Node* node) {
    PlacedNode& placed = out_.nodes[node->id()];
    const int32_t id = node->id();
    if (id < static_cast<int32_t>(view_.size()) ? bool(view_[id])
                                                : IsNewView(*node)) {
      placed.role = Role::kView;
      return absl::OkStatus();
    }
    switch (node->schema().id) {
      case OpId::kConstant:
        placed.role = Role::kConstant;
        return absl::OkStatus();
      case OpId::kVariable:
        return PlaceVariable(*node, &placed);
      case OpId::kCounter:
      case OpId::kDataSource:
        placed.role = Role::kSource;
        placed.io = true;
        return absl::OkStatus();
      case OpId::kOutput:
        placed.role = Role::kSink;
        return absl::OkStatus();
      case OpId::kSend:
        placed.role = Role::kSend;
        return absl::OkStatus();
      case OpId::kRecv:
        placed.role = Role::kRecv;
        return absl::OkStatus();
      case OpId::kAccumulate:
        placed.role = Role::kAccumulate;  // placed when its operand is
        return absl::OkStatus();
      default:
        return PlaceKernel(node);
    }
  }

  // Of nodes that a decomposition made.
  bool IsNewView(const Node& node) const {
    return RenamesBytes(node) && MayReadViews(out_.graph, node);
  }

  // Whether those who read `node`, views of its operands in place of it, find
  // registers of the shape that they want.
  static bool MayReadViews(const Graph& graph, const Node& node) {
    const auto is_constant = [&graph](Value v) {
      while (v.valid() && RenamesBytes(*graph.node(v))) {
        v = graph.node(v)->input(0);
      }
      return v.valid() && graph.node(v)->Is(OpId::kConstant);
    };
    const bool constant =
        std::any_of(node.inputs().begin(), node.inputs().end(), is_constant);
    for (int o = 0; o < node.num_outputs(); ++o) {
      for (auto [use, position] : graph.Uses(node.output(o))) {
        const Node& reader = *graph.node(use);
        if (ReadsRegister(reader) && (constant || reader.Is(OpId::kOutput))) {
          return false;
        }
      }
    }
    return true;
  }

  absl::Status PlaceVariable(const Node& node, PlacedNode* placed) {
    placed->role = Role::kVariable;
    const StatePlace* place = state_.Find(node.name());
    if (place == nullptr || place->type != node.output_type(0)) {
      return MakeError(
          ErrorCode::kBadGraph,
          absl::StrCat(
              "variable '", node.name(), "' of type ",
              node.output_type(0).ToString(), " is ",
              place == nullptr
                  ? std::string("not in the state layout")
                  : absl::StrCat("laid out as ", place->type.ToString())));
    }
    placed->device = place->device;
    return absl::OkStatus();
  }

  absl::StatusOr<uint32_t> Target(const Graph& graph, const Node& node) const {
    const uint32_t readers = TargetOfReaders(graph, node);
    return readers != kNoDevice ? readers : OwnTarget(graph, node);
  }

  // Where all readers of a node that reads nothing want to be; kNoDevice where
  // they differ, or the node says itself where it is.
  uint32_t TargetOfReaders(const Graph& graph, const Node& node) const {
    uint32_t all = kNoDevice;
    if (!node.inputs().empty() || !node.device.empty()) return all;
    for (int o = 0; o < node.num_outputs(); ++o) {
      for (auto [reader, position] : graph.Uses(node.output(o))) {
        if (ReadsRegister(*graph.node(reader))) return kNoDevice;
        auto target = OwnTarget(graph, *graph.node(reader));
        if (!target.ok() || (all != kNoDevice && all != *target)) {
          return kNoDevice;
        }
        all = *target;
      }
    }
    return all;
  }

  absl::StatusOr<uint32_t> OwnTarget(const Graph& graph,
                                     const Node& node) const {
    if (!node.device.empty()) {
      std::string name = node.device;
      if (options_.ranks > 0) {
        WEFT_ASSIGN_OR_RETURN(auto split,
                              SplitDevice(name, node.name(), options_.ranks));
        name = split.second;
      }
      auto device = FindDevice(options_.devices, name);
      if (device.ok()) return device;
      return Annotate(device.status(),
                      absl::StrCat("node '", node.name(), "'"));
    }
    if (node.schema().effect == OpEffect::kUpdate) {
      const StatePlace* place = state_.Find(graph.node(node.input(0))->name());
      if (place != nullptr) return place->device;
    }
    return options_.default_device;
  }

  absl::Status PlaceKernel(Node* node) {
    WEFT_ASSIGN_OR_RETURN(uint32_t target, Target(graph(), *node));
    const bool is_default = target == options_.default_device;
    const std::string& name = options_.devices[target].name();
    if (Supports(target, graph().View(*node))) {
      std::string reason;
      if (node->device == kIoDevice) {
        reason = "placement: on the host's I/O stream, as asked";
      } else if (!node->device.empty()) {
        reason = absl::StrCat("placement: on ", name, ", as asked");
      } else if (!is_default) {
        reason =
            absl::StrCat("placement: on ", name,
                         node->inputs().empty() ? ", where its readers are"
                                                : ", where its state lies");
      }
      Use(*node, target, std::move(reason));
      return absl::OkStatus();
    }
    const bool fallback = target != 0 && !options_.strict;
    if (Decomposes(*node, {target})) return Decompose(*node, name);
    if (fallback && Supports(0, graph().View(*node))) {
      Use(*node, 0,
          absl::StrCat("placement: on ", options_.devices[0].name(),
                       " by host fallback, ", name, " has no kernel for ",
                       node->op()));
      return absl::OkStatus();
    }
    for (uint32_t other = 1; fallback && other < options_.devices.size();
         ++other) {
      if (!Supports(other, graph().View(*node))) continue;
      Use(*node, other,
          absl::StrCat("placement: on ", options_.devices[other].name(), ", ",
                       name, " has no kernel for ", node->op(),
                       ", nor has the host"));
      return absl::OkStatus();
    }
    if (fallback && Decomposes(*node, {target, 0})) {
      return Decompose(*node, name);
    }
    return MakeError(
        ErrorCode::kNoKernel,
        absl::StrCat(fallback ? "no device" : name,
                     fallback ? " can" : " cannot", " run ", node->op(),
                     " (node '", node->name(),
                     "'), nor its decomposition; asked: ", name,
                     options_.strict ? " (strict: no other device)" : "", "; ",
                     WhoHasIt(*node), "; operands: ", OperandTypes(*node)));
  }

  // "cpu:0 has a kernel, sim:0 has none".
  std::string WhoHasIt(const Node& node) const {
    std::string out;
    for (uint32_t d = 0; d < options_.devices.size(); ++d) {
      absl::StrAppend(
          &out, d == 0 ? "" : ", ", options_.devices[d].name(),
          Supports(d, out_.graph.View(node)) ? " has a kernel" : " has none");
    }
    return out;
  }

  std::string OperandTypes(const Node& node) const {
    std::string out;
    for (Value v : node.inputs()) {
      absl::StrAppend(&out, out.empty() ? "" : ", ",
                      v.valid() ? out_.graph.type(v).ToString() : "absent");
    }
    return out;
  }

  bool AnySupports(const OpView& op) const {
    for (uint32_t d = 0; d < options_.devices.size(); ++d) {
      if (Supports(d, op)) return true;
    }
    return false;
  }

  bool Supports(uint32_t device, const OpView& op) const {
    return cache_->Match(device, DescribeKernel(op)).supported;
  }

  // True where every part of the op's decomposition has a kernel on one of
  // `devices`, or decomposes in turn.
  bool Decomposes(const Node& node, absl::Span<const uint32_t> devices) const {
    return DecomposesView(out_.graph, node, devices);
  }

  bool DecomposesView(const Graph& graph, const Node& node,
                      absl::Span<const uint32_t> devices, int depth = 0) const {
    if (!node.schema().decompose || depth == kDeepest) return false;
    Graph trial("trial");
    std::vector<Value> inputs;
    for (Value v : node.inputs()) {
      if (!v.valid()) {
        inputs.push_back(v);
        continue;
      }
      const TensorType& type = graph.type(v);
      auto dims = type.shape.dims();
      auto input = trial.Add(
          "weft.Input", "", {},
          {{"dtype", type.dtype},
           {"shape", std::vector<int64_t>(dims.begin(), dims.end())}});
      if (!input.ok()) return false;
      inputs.push_back((*input)->output(0));
    }
    GraphEmitter emitter(&trial, "trial", "");
    node.schema().decompose(graph.View(node), inputs, emitter);
    if (!emitter.status().ok()) return false;
    if (node.schema().effect == OpEffect::kUpdate &&
        !AssignsAll(graph, node, devices)) {
      return false;
    }
    int kernels = 0;
    for (const Node* part : std::as_const(trial).Nodes()) {
      if (part->Is(OpId::kInput) || part->Is(OpId::kConstant)) continue;
      if (RenamesBytes(*part)) continue;
      ++kernels;
      bool can = false;
      for (uint32_t d : devices) can = can || Supports(d, trial.View(*part));
      if (!can && !DecomposesView(trial, *part, devices, depth + 1)) {
        return false;
      }
    }
    if (kernels > 0) return true;
    // Views alone wait for nobody, and nobody can wait for them.
    return depth == 0 && node.control_inputs().empty() &&
           graph.ControlUses(node.id()).empty() && MayReadViews(graph, node);
  }

  // The new values of a decomposed update are stored by weft.Assign.
  bool AssignsAll(const Graph& graph, const Node& node,
                  absl::Span<const uint32_t> devices) const {
    auto assign = OpRegistry::Global().Find("weft.Assign");
    if (!assign.ok()) return false;
    for (int i = 0; i < node.num_outputs(); ++i) {
      const TensorType& type = graph.type(node.input(i));
      std::vector<TensorType> operands = {type, type};
      std::vector<TensorType> results = {type};
      AttrMap attrs;
      OpView view(**assign, node.name(), attrs, operands, results);
      bool can = false;
      for (uint32_t d : devices) can = can || Supports(d, view);
      if (!can) return false;
    }
    return true;
  }

  absl::Status Decompose(const Node& node, absl::string_view device) {
    const int32_t first_new = graph().id_bound();
    const int32_t place = out_.place[node.id()];
    const std::string why =
        absl::StrCat("placement: part of '", node.name(), "', ", device,
                     " has no kernel for ", node.op());
    WEFT_RETURN_IF_ERROR(DecomposeNode(&graph(), node.id()));
    out_.place.resize(graph().id_bound(), place);
    for (int32_t part = first_new; part < graph().id_bound(); ++part) {
      if (!graph().Contains(part)) continue;
      graph().node(part)->provenance.push_back(why);
    }
    return absl::OkStatus();
  }

  void Use(const Node& node, uint32_t device, std::string reason) {
    PlacedNode& placed = out_.nodes[node.id()];
    placed.role = node.schema().effect == OpEffect::kUpdate ? Role::kUpdate
                                                            : Role::kCompute;
    placed.io = node.device == kIoDevice;
    placed.reason = std::move(reason);
    SetKernel(DescribeKernel(graph().View(node)), device, cache_, &placed);
  }

  absl::Status PlaceAccumulate(const Node& node) {
    PlacedNode& placed = out_.nodes[node.id()];
    const Value root = out_.Root(node.input(0));
    const uint32_t home = out_.nodes[root.node].device;
    WEFT_ASSIGN_OR_RETURN(const OpSchema* add,
                          OpRegistry::Global().Find("Add"));
    const TensorType& type = node.output_type(0);
    std::vector<TensorType> operands = {type, type};
    std::vector<TensorType> results = {type};
    AttrMap attrs;
    plan::Kernel kernel =
        DescribeKernel(OpView(*add, node.name(), attrs, operands, results));
    for (uint32_t device : {home, 0u}) {
      if (device != home && options_.strict) break;
      if (!SetKernel(kernel, device, cache_, &placed)) continue;
      if (device != home) {
        placed.reason = absl::StrCat(
            "placement: on ", options_.devices[0].name(), " by host fallback, ",
            options_.devices[home].name(), " has no kernel for Add");
      }
      return absl::OkStatus();
    }
    return MakeError(
        ErrorCode::kNoKernel,
        absl::StrCat("node '", node.name(), "' adds ", type.ToString(),
                     ", for which no device has a kernel; asked: ",
                     options_.devices[home].name(),
                     options_.strict || home == 0
                         ? ""
                         : absl::StrCat(", ", options_.devices[0].name())));
  }

  const PlacementOptions& options_;
  const StateLayout& state_;
  CapabilityCache* cache_;
  Placement out_;
  std::vector<bool> view_;  // of the nodes that were given
};

}  // namespace

bool SetKernel(plan::Kernel kernel, uint32_t device, CapabilityCache* cache,
               PlacedNode* placed) {
  const MatchAnswer answer = cache->Match(device, kernel);
  if (!answer.supported) return false;
  placed->device = device;
  placed->in_place = answer.in_place;
  placed->kernel = std::move(kernel);
  placed->kernel.set_device(device);
  placed->kernel.set_workspace_bytes(answer.workspace_bytes);
  placed->kernel.set_host_in(answer.host_in);
  placed->kernel.set_host_out(answer.host_out);
  return true;
}

Value Placement::Root(Value v) const {
  while (nodes[v.node].role == PlacedNode::Role::kView) {
    v = graph.node(v)->input(0);
  }
  return v;
}

absl::StatusOr<Placement> PlaceNodes(Graph graph,
                                     const PlacementOptions& options,
                                     const StateLayout& state,
                                     CapabilityCache* cache) {
  return Placer(std::move(graph), options, state, cache).Run();
}

bool RunsAsKernel(const Graph& graph, const Node& node,
                  const PlacementOptions& options, CapabilityCache* cache) {
  const StateLayout state;
  return Placer(Graph("none"), options, state, cache).RunsAsKernel(graph, node);
}

std::string ToString(const Placement& placement,
                     absl::Span<const plan::Device> devices) {
  std::string out;
  for (const Node* node : placement.graph.Nodes()) {
    const PlacedNode& placed = placement.nodes[node->id()];
    absl::StrAppend(&out, node->name(), ": ", node->op());
    if (placed.role == PlacedNode::Role::kView) {
      absl::StrAppend(&out, " is a view");
    } else if (placed.role != PlacedNode::Role::kConstant) {
      absl::StrAppend(&out, " on ", devices[placed.device].name(),
                      placed.io ? " (io)" : "");
    }
    absl::StrAppend(&out, "\n");
  }
  return out;
}

}  // namespace weft
