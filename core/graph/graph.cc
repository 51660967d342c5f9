#include "core/graph/graph.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <queue>

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

absl::StatusOr<std::vector<const Node*>> Graph::TopologicalOrder() const {
  std::vector<int32_t> place(nodes_.size());
  std::iota(place.begin(), place.end(), 0);
  return TopologicalOrder(place);
}

namespace {

// Those that exchange something with other ranks, in their own order: who is
// ready before its turn waits for it.
class Turns {
 public:
  // `in_order`: of the nodes that take turns, ids.
  Turns(int32_t id_bound, std::vector<int32_t> in_order)
      : in_order_(std::move(in_order)), state_(id_bound, State::kFree) {
    for (int32_t id : in_order_) state_[id] = State::kComing;
  }

  // Whether a node that is ready may go; else it is kept.
  bool MayGo(int32_t id) {
    if (state_[id] == State::kFree || in_order_[next_] == id) return true;
    state_[id] = State::kWaiting;
    ++waiting_;
    return false;
  }

  // Whom `id`, which has gone, kept waiting; -1: nobody.
  int32_t Gone(int32_t id) {
    if (state_[id] == State::kFree) return -1;
    state_[id] = State::kGone;
    while (next_ < in_order_.size() && HasGone()) ++next_;
    return next_ < in_order_.size() && IsWaiting() ? Take(next_) : -1;
  }

  // The first that waits goes where the one before it can't; -1: none waits.
  int32_t OutOfTurn() {
    if (waiting_ == 0) return -1;
    size_t at = next_;
    while (state_[in_order_[at]] != State::kWaiting) ++at;
    return Take(at);
  }

 private:
  enum class State : uint8_t { kFree, kComing, kWaiting, kGone };

  bool HasGone() const { return state_[in_order_[next_]] == State::kGone; }
  bool IsWaiting() const { return state_[in_order_[next_]] == State::kWaiting; }
  int32_t Take(size_t at) {
    --waiting_;
    state_[in_order_[at]] = State::kComing;
    return in_order_[at];
  }

  const std::vector<int32_t> in_order_;
  size_t next_ = 0;  // in it: who has not gone
  int waiting_ = 0;
  std::vector<State> state_;  // by node
};

bool TakesTurns(const Node& node) {
  return node.Is(OpId::kSend) || node.Is(OpId::kRecv);
}

}  // namespace

absl::StatusOr<std::vector<const Node*>> Graph::TopologicalOrder(
    absl::Span<const int32_t> place) const {
  const auto for_edges = [](const Node& node, const auto& visit) {
    for (Value v : node.inputs()) {
      if (v.valid()) visit(v.node);
    }
    for (int32_t from : node.control_inputs()) visit(from);
  };
  std::vector<int> missing(nodes_.size(), 0);  // predecessors, by edge
  // Successors of node i: from begin[i] on, up to those of node i + 1.
  std::vector<int> begin(nodes_.size() + 1, 0);
  const std::vector<const Node*> nodes = Nodes();
  for (const Node* node : nodes) {
    for_edges(*node, [&](int32_t from) {
      ++begin[from + 1];
      ++missing[node->id()];
    });
  }
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<int32_t> successors(begin.back());
  std::vector<int> next(begin.begin(), begin.end() - 1);
  using Ready = std::pair<int32_t, int32_t>;  // place, id
  std::priority_queue<Ready, std::vector<Ready>, std::greater<Ready>> ready;
  std::vector<int32_t> in_order;
  for (const Node* node : nodes) {
    if (TakesTurns(*node)) in_order.push_back(node->id());
  }
  std::stable_sort(in_order.begin(), in_order.end(),
                   [&](int32_t a, int32_t b) { return place[a] < place[b]; });
  Turns turns(id_bound(), std::move(in_order));
  const auto push = [&](int32_t id) { ready.push({place[id], id}); };
  const auto is_ready = [&](int32_t id) {
    if (turns.MayGo(id)) push(id);
  };
  for (const Node* node : nodes) {
    for_edges(*node,
              [&](int32_t from) { successors[next[from]++] = node->id(); });
    if (missing[node->id()] == 0) is_ready(node->id());
  }
  std::vector<const Node*> order;
  order.reserve(num_live_);
  while (true) {
    if (ready.empty()) {
      const int32_t early = turns.OutOfTurn();
      if (early < 0) break;
      push(early);
    }
    const int32_t id = ready.top().second;
    ready.pop();
    order.push_back(node(id));
    const int32_t kept = turns.Gone(id);
    if (kept >= 0) push(kept);
    for (int i = begin[id]; i < begin[id + 1]; ++i) {
      if (--missing[successors[i]] == 0) is_ready(successors[i]);
    }
  }
  if (static_cast<int>(order.size()) == num_live_) return order;
  // Every node left has a predecessor that is left: walking backwards must
  // come round.
  auto left = [&](int32_t id) { return missing[id] > 0; };
  int32_t at = 0;
  while (nodes_[at] == nullptr || !left(at)) ++at;
  std::vector<int32_t> path;
  std::vector<bool> seen(nodes_.size(), false);
  while (!seen[at]) {
    seen[at] = true;
    path.push_back(at);
    int32_t next = -1;
    for (Value v : node(at)->inputs()) {
      if (v.valid() && left(v.node)) next = v.node;
    }
    for (int32_t from : node(at)->control_inputs()) {
      if (left(from)) next = from;
    }
    at = next;
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  path.push_back(at);
  std::reverse(path.begin(), path.end());
  std::string names =
      absl::StrJoin(path, " -> ", [this](std::string* out, int32_t id) {
        absl::StrAppend(out, "'", node(id)->name(), "'");
      });
  return MakeError(ErrorCode::kBadGraph,
                   absl::StrCat("graph '", name_, "' has a cycle: ", names));
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
