#include "core/graph/graph.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/base/utf8.h"

namespace weft {
namespace {

template <typename T>
void InsertSorted(std::vector<T>* list, const T& item) {
  auto it = std::lower_bound(list->begin(), list->end(), item);
  if (it == list->end() || *it != item) list->insert(it, item);
}

template <typename T>
void EraseSorted(std::vector<T>* list, const T& item) {
  auto it = std::lower_bound(list->begin(), list->end(), item);
  if (it != list->end() && *it == item) list->erase(it);
}

std::string Quoted(const Node& node) {
  return absl::StrCat("node '", node.name(), "' (", node.op(), ")");
}

// Checkpoints are JSON and protobuf text, with nodes' names as keys.
absl::Status CheckName(absl::string_view op, absl::string_view name) {
  absl::string_view why;
  if (!IsUtf8(name)) why = "the name is not UTF-8";
  if (name == "__metadata__") why = "checkpoints use this name themselves";
  if (why.empty()) return absl::OkStatus();
  return MakeError(
      ErrorCode::kBadGraph,
      absl::StrCat("node '", absl::CHexEscape(name), "' (", op, "): ", why));
}

}  // namespace

Graph Graph::Clone() const {
  Graph copy(name_);
  copy.nodes_.reserve(nodes_.size());
  for (const auto& node : nodes_) {
    copy.nodes_.push_back(node ? std::make_unique<Node>(*node) : nullptr);
  }
  copy.by_name_ = by_name_;
  copy.next_suffix_ = next_suffix_;
  copy.uses_ = uses_;
  copy.control_uses_ = control_uses_;
  copy.num_live_ = num_live_;
  return copy;
}

absl::StatusOr<Node*> Graph::Add(absl::string_view op, absl::string_view name,
                                 absl::Span<const Value> inputs, AttrMap attrs,
                                 int num_outputs) {
  absl::StatusOr<const OpSchema*> schema = OpRegistry::Global().Find(op);
  if (!schema.ok()) {
    return Annotate(schema.status(), absl::StrCat("node '", name, "'"));
  }
  WEFT_RETURN_IF_ERROR(CheckName(op, name));
  WEFT_RETURN_IF_ERROR(CheckOperands(op, name, inputs));
  auto node = std::make_unique<Node>();
  std::string hint(name);
  if (hint.empty())
    hint = absl::AsciiStrToLower(absl::StripPrefix(op, "weft."));
  node->name_ = UniqueName(hint);
  node->schema_ = *schema;
  node->inputs_.assign(inputs.begin(), inputs.end());
  for (Value v : inputs) {
    node->input_types_.push_back(v.valid() ? type(v) : TensorType());
  }
  if (num_outputs < 0) {
    num_outputs = (*schema)->usual_outputs ? (*schema)->usual_outputs(attrs)
                                           : (*schema)->outputs.min;
  }
  absl::StatusOr<std::vector<TensorType>> types =
      InferTypes(**schema, node->name_, attrs, node->input_types_, num_outputs);
  if (!types.ok()) return WithOperands(types.status(), inputs);
  node->attrs_ = std::move(attrs);
  node->output_types_ = *std::move(types);
  node->id_ = id_bound();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].valid()) AddUse(inputs[i], node->id_, static_cast<int>(i));
  }
  if (node->name_ != hint) ++next_suffix_[hint];
  by_name_[node->name_] = node->id_;
  nodes_.push_back(std::move(node));
  ++num_live_;
  return nodes_.back().get();
}

absl::Status Graph::CheckOperands(absl::string_view op, absl::string_view name,
                                  absl::Span<const Value> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    Value v = inputs[i];
    if (!v.valid()) continue;
    if (!Contains(v.node) || v.index < 0 || v.index >= node(v)->num_outputs()) {
      std::string where =
          Contains(v.node)
              ? absl::StrCat("output ", v.index, " of ", Quoted(*node(v)),
                             ", which has ", node(v)->num_outputs())
              : absl::StrCat("node [", v.node, "], which is not in the graph");
      return MakeError(ErrorCode::kBadGraph,
                       absl::StrCat("node '", name, "' (", op, "): operand ", i,
                                    " is ", where));
    }
  }
  return absl::OkStatus();
}

absl::Status Graph::WithOperands(const absl::Status& status,
                                 absl::Span<const Value> inputs) const {
  if (inputs.empty()) return status;
  std::vector<std::string> parts;
  for (Value v : inputs) {
    if (!v.valid()) {
      parts.push_back("none");
      continue;
    }
    parts.push_back(absl::StrCat("'", ValueName(v), "' (", node(v)->op(), ") ",
                                 type(v).ToString()));
  }
  return MakeError(ErrorCodeOf(status),
                   absl::StrCat(status.message(),
                                "; operands: ", absl::StrJoin(parts, ", ")));
}

std::string Graph::ValueName(Value v) const {
  if (!v.valid()) return "_";
  if (!Contains(v.node)) return absl::StrCat("[", v.node, "]:", v.index);
  if (v.index == 0) return node(v)->name();
  return absl::StrCat(node(v)->name(), ":", v.index);
}

const Node* Graph::FindNode(absl::string_view name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : node(it->second);
}

Node* Graph::FindNode(absl::string_view name) {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : node(it->second);
}

std::vector<const Node*> Graph::Nodes() const {
  std::vector<const Node*> live;
  live.reserve(num_live_);
  for (const auto& node : nodes_) {
    if (node) live.push_back(node.get());
  }
  return live;
}

std::vector<Node*> Graph::Nodes() {
  std::vector<Node*> live;
  live.reserve(num_live_);
  for (auto& node : nodes_) {
    if (node) live.push_back(node.get());
  }
  return live;
}

absl::Span<const std::pair<int32_t, int>> Graph::Uses(Value v) const {
  auto it = uses_.find(v);
  if (it == uses_.end()) return {};
  return it->second;
}

std::vector<int32_t> Graph::ControlUses(int32_t id) const {
  auto it = control_uses_.find(id);
  return it == control_uses_.end() ? std::vector<int32_t>() : it->second;
}

bool Graph::IsControlUse(int32_t id, int32_t node) const {
  auto it = control_uses_.find(id);
  return it != control_uses_.end() &&
         std::binary_search(it->second.begin(), it->second.end(), node);
}

void Graph::AddUse(Value v, int32_t node, int position) {
  InsertSorted(&uses_[v], {node, position});
}

void Graph::DropUse(Value v, int32_t node, int position) {
  auto it = uses_.find(v);
  if (it == uses_.end()) return;
  EraseSorted(&it->second, {node, position});
  if (it->second.empty()) uses_.erase(it);
}

absl::Status Graph::SetInput(int32_t node, int position, Value v) {
  Node* user = this->node(node);
  WEFT_RETURN_IF_ERROR(CheckOperands(user->op(), user->name(), {v}));
  TensorType new_type = v.valid() ? type(v) : TensorType();
  if (new_type != user->input_types_[position]) {
    return MakeError(
        ErrorCode::kBadGraph,
        absl::StrCat(Quoted(*user), ": operand ", position, " has type ",
                     user->input_types_[position].ToString(), ", '",
                     ValueName(v), "' has ", new_type.ToString()));
  }
  Value& slot = user->inputs_[position];
  if (slot.valid()) DropUse(slot, node, position);
  slot = v;
  if (v.valid()) AddUse(v, node, position);
  return absl::OkStatus();
}

absl::Status Graph::ReplaceUses(Value from, Value to) {
  auto it = uses_.find(from);
  if (it == uses_.end() || from == to) return absl::OkStatus();
  // All at once: one by one, each would move the rest of both lists.
  UseList moved, kept;
  for (const auto& use : it->second) {
    (use.first == to.node ? kept : moved).push_back(use);
  }
  if (moved.empty()) return absl::OkStatus();
  const auto [first, first_position] = moved.back();
  // Checks the value and its type, for all of them.
  WEFT_RETURN_IF_ERROR(SetInput(first, first_position, to));
  moved.pop_back();
  for (const auto& [user, position] : moved) {
    this->node(user)->inputs_[position] = to;
  }
  UseList& now = uses_[to];
  UseList all;
  all.reserve(now.size() + moved.size());
  std::merge(now.begin(), now.end(), moved.begin(), moved.end(),
             std::back_inserter(all));
  now = std::move(all);
  if (kept.empty()) {
    uses_.erase(from);
  } else {
    uses_[from] = std::move(kept);
  }
  return absl::OkStatus();
}

absl::Status Graph::SetAttr(int32_t node, absl::string_view name, Attr value) {
  Node* target = this->node(node);
  AttrMap attrs = target->attrs_;
  attrs.Set(name, std::move(value));
  absl::StatusOr<std::vector<TensorType>> types =
      InferTypes(*target->schema_, target->name_, attrs, target->input_types_,
                 target->num_outputs());
  if (!types.ok()) return WithOperands(types.status(), target->inputs_);
  for (int i = 0; i < target->num_outputs(); ++i) {
    if ((*types)[i] != target->output_type(i) &&
        uses_.contains(target->output(i))) {
      return MakeError(
          ErrorCode::kBadGraph,
          absl::StrCat(Quoted(*target), ": attribute '", name,
                       "' would change output ", i, " from ",
                       target->output_type(i).ToString(), " to ",
                       (*types)[i].ToString(), ", which is in use"));
    }
  }
  target->attrs_ = std::move(attrs);
  target->output_types_ = *std::move(types);
  return absl::OkStatus();
}

void Graph::AddControlInput(int32_t node, int32_t from) {
  InsertSorted(&this->node(node)->control_inputs_, from);
  InsertSorted(&control_uses_[from], node);
}

void Graph::RemoveControlInput(int32_t node, int32_t from) {
  EraseSorted(&this->node(node)->control_inputs_, from);
  auto it = control_uses_.find(from);
  if (it == control_uses_.end()) return;
  EraseSorted(&it->second, node);
  if (it->second.empty()) control_uses_.erase(it);
}

absl::Status Graph::Remove(int32_t node) {
  Node* victim = this->node(node);
  for (int i = 0; i < victim->num_outputs(); ++i) {
    for (const auto& [user, position] : Uses(victim->output(i))) {
      return MakeError(
          ErrorCode::kBadGraph,
          absl::StrCat(Quoted(*victim), ": output ", i, " is still operand ",
                       position, " of ", Quoted(*this->node(user))));
    }
  }
  if (auto it = control_uses_.find(node); it != control_uses_.end()) {
    return MakeError(
        ErrorCode::kBadGraph,
        absl::StrCat(Quoted(*victim), ": is still a control input of ",
                     Quoted(*this->node(it->second[0]))));
  }
  for (size_t i = 0; i < victim->inputs_.size(); ++i) {
    if (victim->inputs_[i].valid()) {
      DropUse(victim->inputs_[i], node, static_cast<int>(i));
    }
  }
  for (int32_t from : std::vector<int32_t>(victim->control_inputs_)) {
    RemoveControlInput(node, from);
  }
  by_name_.erase(victim->name_);
  nodes_[node].reset();
  --num_live_;
  return absl::OkStatus();
}

std::string Graph::UniqueName(absl::string_view hint) const {
  if (!by_name_.contains(hint)) return std::string(hint);
  auto it = next_suffix_.find(hint);
  for (int i = it == next_suffix_.end() ? 1 : it->second + 1;; ++i) {
    std::string name = absl::StrCat(hint, "_", i);
    if (!by_name_.contains(name)) return name;
  }
}

std::vector<Value> GraphEmitter::Emit(absl::string_view op,
                                      absl::Span<const Value> inputs,
                                      AttrMap attrs, int num_outputs) {
  std::vector<Value> outputs(std::max(num_outputs, 1));
  if (!status_.ok()) return outputs;
  std::string name =
      absl::StrCat(scope_, scope_.empty() ? "" : "/",
                   absl::AsciiStrToLower(absl::StripPrefix(op, "weft.")));
  absl::StatusOr<Node*> node =
      graph_->Add(op, name, inputs, std::move(attrs), num_outputs);
  if (!node.ok()) {
    status_ = node.status();
    return outputs;
  }
  (*node)->device = device_;
  (*node)->stage = stage_;
  if (!provenance_.empty()) (*node)->provenance.push_back(provenance_);
  outputs.clear();
  for (int i = 0; i < (*node)->num_outputs(); ++i) {
    outputs.push_back((*node)->output(i));
  }
  return outputs;
}

TensorType GraphEmitter::type(Value value) const {
  return value.valid() ? graph_->type(value) : TensorType();
}

}  // namespace weft
