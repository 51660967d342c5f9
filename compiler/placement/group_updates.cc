#include "compiler/placement/group_updates.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/placement/kernel_desc.h"
#include "core/base/status_macros.h"
#include "core/ops/update.h"

namespace weft {
namespace {

// As plugins/abi has it, WEFT_MAX_OPERANDS.
constexpr int kMaxOperands = 64;

constexpr int64_t kSmallBytes = 16 << 10;
constexpr int64_t kSmallBytesOfGroup = 64 << 10;

// Updates of single variables that may be one, in the order of the graph.
struct Candidates {
  std::vector<int32_t> together;
  std::vector<int32_t> small;
};

class Grouper {
 public:
  Grouper(Placement* placement, CapabilityCache* cache)
      : placement_(*placement), graph_(placement->graph), cache_(cache) {}

  absl::StatusOr<int> Run() {
    std::map<std::string, Candidates> by_kind;
    for (const Node* node : std::as_const(graph_).Nodes()) {
      if (!MayJoin(*node)) continue;
      Candidates& kind = by_kind[KindOf(*node)];
      if (WaitsForGradient(*node)) {
        kind.together.push_back(node->id());
      } else if (GradientBytes(*node) <= kSmallBytes) {
        kind.small.push_back(node->id());
      }
    }
    int made = 0;
    for (const auto& [text, kind] : by_kind) {
      for (const auto* ids : {&kind.together, &kind.small}) {
        const bool small = ids == &kind.small;
        for (const std::vector<int32_t>& group : Cut(*ids, small)) {
          if (group.size() < 2) continue;
          WEFT_ASSIGN_OR_RETURN(bool done, Make(group, small));
          made += done ? 1 : 0;
        }
      }
    }
    return made;
  }

 private:
  static UpdateLayout LayoutOf(const Node& node) {
    return LayoutOfUpdate(node.schema(),
                          static_cast<int>(node.inputs().size()));
  }

  bool IsVariable(Value v) const {
    return graph_.node(placement_.Root(v))->Is(OpId::kVariable);
  }

  bool MayJoin(const Node& node) const {
    const PlacedNode& placed = placement_.nodes[node.id()];
    if (placed.role != PlacedNode::Role::kUpdate ||
        !UpdatesMany(node.schema()) || LayoutOf(node).variables != 1 ||
        !node.control_inputs().empty() ||
        !graph_.ControlUses(node.id()).empty()) {
      return false;
    }
    for (int i = 0; i < static_cast<int>(node.inputs().size()); ++i) {
      const Value v = node.input(i);
      if (!v.valid()) continue;
      const bool state = i < node.num_updated();
      if (state != IsVariable(v)) return false;
      if (state && placement_.nodes[v.node].device != placed.device) {
        return false;
      }
    }
    return true;
  }

  // Equal for updates that one kernel could do.
  std::string KindOf(const Node& node) const {
    plan::Kernel kernel = DescribeKernel(graph_.View(node));
    kernel.clear_inputs();
    kernel.clear_outputs();
    const UpdateLayout layout = LayoutOf(node);
    std::string kind =
        absl::StrCat(placement_.nodes[node.id()].device, " ", node.stage, " ",
                     static_cast<int>(node.output_type(0).dtype));
    for (int i = 0; i < layout.shared; ++i) {
      const Value v = node.input(layout.Shared(i));
      absl::StrAppend(&kind, " ", v.node, ":", v.index);
    }
    return absl::StrCat(kind, " ", StableBytes(kernel));
  }

  // Whether an operand that its kind shares is computed from its gradient.
  bool WaitsForGradient(const Node& node) {
    const UpdateLayout layout = LayoutOf(node);
    const int32_t gradient = node.input(layout.Gradient(0)).node;
    for (int i = 0; i < layout.shared; ++i) {
      const Value v = node.input(layout.Shared(i));
      if (v.valid() && Ancestors(v.node)[gradient]) return true;
    }
    return false;
  }

  // By node: whether `id` needs it.
  const std::vector<bool>& Ancestors(int32_t id) {
    auto [it, inserted] = ancestors_.try_emplace(id);
    std::vector<bool>& needed = it->second;
    if (!inserted) return needed;
    needed.assign(graph_.id_bound(), false);
    std::vector<int32_t> open = {id};
    while (!open.empty()) {
      const Node& node = *graph_.node(open.back());
      open.pop_back();
      for (Value v : node.inputs()) {
        if (!v.valid() || needed[v.node]) continue;
        needed[v.node] = true;
        open.push_back(v.node);
      }
    }
    return needed;
  }

  int64_t GradientBytes(const Node& node) const {
    return graph_.type(node.input(LayoutOf(node).Gradient(0))).num_bytes();
  }

  // Into groups that keep to the limits.
  std::vector<std::vector<int32_t>> Cut(const std::vector<int32_t>& ids,
                                        bool small) const {
    std::vector<std::vector<int32_t>> groups;
    int64_t bytes = 0;
    for (int32_t id : ids) {
      const UpdateLayout layout = LayoutOf(*graph_.node(id));
      const size_t most = (kMaxOperands - layout.shared) / (layout.slots + 1);
      bytes += GradientBytes(*graph_.node(id));
      if (groups.empty() || groups.back().size() >= most ||
          (small && bytes > kSmallBytesOfGroup)) {
        groups.emplace_back();
        bytes = GradientBytes(*graph_.node(id));
      }
      groups.back().push_back(id);
    }
    return groups;
  }

  std::string Why(const std::vector<int32_t>& ids, bool small) const {
    const std::string names =
        absl::StrJoin(ids, "', '", [this](std::string* out, int32_t id) {
          absl::StrAppend(out, graph_.node(id)->name());
        });
    return absl::StrCat("group_updates: '", names, "' in one launch; ",
                        small ? "their gradients are small"
                              : "their gradients live together anyway");
  }

  // Puts one node in the place of all; false where the device can't run it.
  absl::StatusOr<bool> Make(const std::vector<int32_t>& ids, bool small) {
    const Node& first = *graph_.node(ids.front());
    const UpdateLayout layout = LayoutOf(first);
    std::vector<Value> state, gradients, operands;
    for (int32_t id : ids) {
      absl::Span<const Value> inputs = graph_.node(id)->inputs();
      state.insert(state.end(), inputs.begin(), inputs.begin() + layout.slots);
      gradients.push_back(inputs[layout.Gradient(0)]);
    }
    operands = state;
    operands.insert(operands.end(), gradients.begin(), gradients.end());
    operands.insert(operands.end(), first.inputs().begin() + layout.Shared(0),
                    first.inputs().end());
    const uint32_t device = placement_.nodes[first.id()].device;
    WEFT_ASSIGN_OR_RETURN(
        Node * group,
        graph_.Add(
            first.op(),
            absl::StrCat(first.name(), "..", graph_.node(ids.back())->name()),
            operands, first.attrs(), static_cast<int>(state.size())));
    group->device = first.device;
    group->stage = first.stage;
    group->provenance = first.provenance;
    group->provenance.push_back(Why(ids, small));
    placement_.nodes.resize(graph_.id_bound());
    // An update is read by nothing else of its step: the end will do.
    placement_.place.resize(graph_.id_bound(), group->id());
    PlacedNode placed;
    placed.role = PlacedNode::Role::kUpdate;
    placed.reason = placement_.nodes[first.id()].reason;
    if (!SetKernel(DescribeKernel(graph_.View(*group)), device, cache_,
                   &placed) ||
        placed.kernel.workspace_bytes() > 0) {
      WEFT_RETURN_IF_ERROR(graph_.Remove(group->id()));
      return false;
    }
    placement_.nodes[group->id()] = std::move(placed);
    for (int32_t id : ids) WEFT_RETURN_IF_ERROR(graph_.Remove(id));
    return true;
  }

  Placement& placement_;
  Graph& graph_;
  CapabilityCache* cache_;
  std::map<int32_t, std::vector<bool>> ancestors_;
};

}  // namespace

absl::StatusOr<int> GroupUpdates(Placement* placement, CapabilityCache* cache) {
  return Grouper(placement, cache).Run();
}

}  // namespace weft
