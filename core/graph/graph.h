// Graph: one logical program in static single assignment form. A node is the
// use of an op (core/ops): operands, attributes, results with static types,
// control inputs, the user's name, and constraints for placement. State lives
// in weft.Variable nodes; weft.Output nodes deliver results to the session.
//
//   Graph g("mlp");
//   WEFT_ASSIGN_OR_RETURN(Node* x, g.Add("weft.Input", "x", {},
//       {{"dtype", DType::kF32}, {"shape", std::vector<int64_t>{8, 4}}}));
//   WEFT_ASSIGN_OR_RETURN(Node* y, g.Add("Relu", "y", {x->output(0)}));
//
// Types are inferred when a node is added; a graph never holds a node whose
// operands do not fit. Node ids are dense, stable and never reused; removed
// nodes leave a hole. Text form: core/graph/text.h. Invariants:
// core/graph/verify.h.
//
// Threading: thread-compatible. Ownership: the graph owns its nodes; Node
// pointers stay valid until the node is removed or the graph destroyed.
#ifndef WEFT_CORE_GRAPH_GRAPH_H_
#define WEFT_CORE_GRAPH_GRAPH_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/schema.h"

namespace weft {

class Graph;

class Node {
 public:
  int32_t id() const { return id_; }
  const std::string& name() const { return name_; }
  const OpSchema& schema() const { return *schema_; }
  absl::string_view op() const { return schema_->name; }
  bool Is(OpId id) const { return schema_->id == id; }

  const AttrMap& attrs() const { return attrs_; }
  absl::Span<const Value> inputs() const { return inputs_; }
  Value input(int i) const { return inputs_[i]; }
  int num_outputs() const { return static_cast<int>(output_types_.size()); }
  const TensorType& output_type(int i) const { return output_types_[i]; }
  absl::Span<const TensorType> output_types() const { return output_types_; }
  Value output(int i) const { return {id_, i}; }
  // Of an update: its first operands, which its results replace. Else 0.
  int num_updated() const {
    return schema_->effect == OpEffect::kUpdate ? num_outputs() : 0;
  }
  // Nodes that must have acted before this one; no data. Ascending ids.
  absl::Span<const int32_t> control_inputs() const { return control_inputs_; }

  // Placement: "" = anywhere; else "cpu:0", "sim", ... (compiler/placement).
  std::string device;
  // Pipeline stage hint; -1 = none.
  int stage = -1;
  // Which pass made or changed this node, and why: "autodiff: gradient of fc1".
  std::vector<std::string> provenance;

 private:
  friend class Graph;
  int32_t id_ = -1;
  std::string name_;
  const OpSchema* schema_ = nullptr;
  AttrMap attrs_;
  std::vector<Value> inputs_;
  std::vector<TensorType> input_types_;  // kept in step with inputs_
  std::vector<TensorType> output_types_;
  std::vector<int32_t> control_inputs_;
};

class Graph {
 public:
  explicit Graph(std::string name) : name_(std::move(name)) {}
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;
  Graph Clone() const;

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  // Adds a node; infers its output types. An empty or taken `name` is made
  // unique ("relu", "relu_1"). `num_outputs` < 0: as the schema's minimum.
  // Errors: kBadGraph for a name that no checkpoint could keep; kUnknownOp,
  // kBadArity, kUnknownAttribute, kBadAttribute, kShapeMismatch,
  // kDTypeMismatch, each naming the node, the shapes and the nodes that they
  // come from.
  absl::StatusOr<Node*> Add(absl::string_view op, absl::string_view name,
                            absl::Span<const Value> inputs, AttrMap attrs = {},
                            int num_outputs = -1);

  // Pre-condition: the node exists.
  Node* node(int32_t id) { return nodes_[id].get(); }
  const Node* node(int32_t id) const { return nodes_[id].get(); }
  Node* node(Value v) { return node(v.node); }
  const Node* node(Value v) const { return node(v.node); }
  const Node* FindNode(absl::string_view name) const;  // null where absent
  Node* FindNode(absl::string_view name);
  const TensorType& type(Value v) const {
    return nodes_[v.node]->output_types_[v.index];
  }

  int num_nodes() const { return num_live_; }
  int32_t id_bound() const { return static_cast<int32_t>(nodes_.size()); }
  bool Contains(int32_t id) const {
    return id >= 0 && id < id_bound() && nodes_[id] != nullptr;
  }

  // The user's form of a value: "fc1", "split:1"; "_" where invalid.
  std::string ValueName(Value v) const;

  // Live nodes by id: the order of creation.
  std::vector<const Node*> Nodes() const;
  std::vector<Node*> Nodes();

  // Data and control predecessors first; among the ready, the smallest id. What
  // ranks exchange (weft.Send, weft.Recv) comes in the order of ids as far as
  // edges let it: it was made in one order on all ranks, and a pass that finds
  // more to do on one of them leaves it so. kBadGraph names a cycle's nodes.
  absl::StatusOr<std::vector<const Node*>> TopologicalOrder() const;
  // The same; among the ready, the smallest place, then the smallest id.
  // Pre-condition: one place for each id.
  absl::StatusOr<std::vector<const Node*>> TopologicalOrder(
      absl::Span<const int32_t> place) const;

  // (node id, operand position) of every use of `v`, ascending. No copy: valid
  // until a use of any value changes.
  absl::Span<const std::pair<int32_t, int>> Uses(Value v) const;
  // Nodes with a control input from `id`, ascending.
  std::vector<int32_t> ControlUses(int32_t id) const;
  // Whether `node` is one of them, without copying them.
  bool IsControlUse(int32_t id, int32_t node) const;

  // Rewrites. Operand types must not change (kBadGraph). ReplaceUses leaves the
  // uses by `to`'s own node alone, so that y = f(x) may take x's place.
  absl::Status SetInput(int32_t node, int position, Value v);
  absl::Status ReplaceUses(Value from, Value to);
  // Re-infers the node's types; refuses a change of an output type in use.
  absl::Status SetAttr(int32_t node, absl::string_view name, Attr value);
  // Pre-condition: both exist and differ. No effect where it is there already.
  void AddControlInput(int32_t node, int32_t from);
  void RemoveControlInput(int32_t node, int32_t from);
  // kBadGraph where an output or the node itself is still in use.
  absl::Status Remove(int32_t node);
  // `hint`, made unique in this graph.
  std::string UniqueName(absl::string_view hint) const;

  // No copies: valid until the node is changed or removed.
  OpView View(const Node& node) const {
    return OpView(*node.schema_, node.name_, node.attrs_, node.input_types_,
                  node.output_types_);
  }

 private:
  using UseList = std::vector<std::pair<int32_t, int>>;

  absl::Status CheckOperands(absl::string_view op, absl::string_view name,
                             absl::Span<const Value> inputs) const;
  absl::Status WithOperands(const absl::Status& status,
                            absl::Span<const Value> inputs) const;
  void AddUse(Value v, int32_t node, int position);
  void DropUse(Value v, int32_t node, int position);

  std::string name_;
  std::vector<std::unique_ptr<Node>> nodes_;
  absl::flat_hash_map<std::string, int32_t> by_name_;
  absl::flat_hash_map<std::string, int> next_suffix_;  // where to start looking
  absl::flat_hash_map<Value, UseList> uses_;           // ascending
  absl::flat_hash_map<int32_t, std::vector<int32_t>>
      control_uses_;  // ascending
  int num_live_ = 0;
};

// A NodeEmitter that adds to `graph`. Emitted nodes are named
// "<scope>/<op in lower case>", get `provenance`, `device` and `stage`.
class GraphEmitter : public NodeEmitter {
 public:
  GraphEmitter(Graph* graph, std::string scope, std::string provenance)
      : graph_(graph),
        scope_(std::move(scope)),
        provenance_(std::move(provenance)) {}

  std::vector<Value> Emit(absl::string_view op, absl::Span<const Value> inputs,
                          AttrMap attrs, int num_outputs) override;
  TensorType type(Value value) const override;
  absl::Status status() const override { return status_; }

  void set_scope(std::string scope) { scope_ = std::move(scope); }
  void set_provenance(std::string p) { provenance_ = std::move(p); }
  void set_placement(std::string device, int stage) {
    device_ = std::move(device);
    stage_ = stage;
  }

 private:
  Graph* graph_;
  std::string scope_;
  std::string provenance_;
  std::string device_;
  int stage_ = -1;
  absl::Status status_;
};

}  // namespace weft

#endif  // WEFT_CORE_GRAPH_GRAPH_H_
