#include "compiler/sharding/lower.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/boxing/boxing.h"
#include "compiler/collectives/narrow.h"
#include "compiler/placement/device_names.h"
#include "compiler/sharding/agree.h"
#include "compiler/sharding/bundles.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/graph/rates.h"
#include "core/ops/signatures.h"

namespace weft {
namespace {

// Text of a layout in the name of a node.
std::string NameOf(const NdSbp& sbp) {
  std::string out;
  for (char c : ToString(sbp)) {
    if (c == '(' || c == ',') out += '_';
    if (c != '(' && c != ')' && c != ',' && c != ' ') out += c;
  }
  return out;
}

class Lowerer {
 public:
  Lowerer(const Graph& whole, const ShardingSpec& spec,
          const Sharding& sharding, const LoweringOptions& options)
      : whole_(whole),
        spec_(spec),
        sharding_(sharding),
        options_(options),
        at_(spec.mesh().CoordinatesOf(options.member)),
        out_(whole.name()) {
    const OrderClass order =
        options.fixed_order ? OrderClass::kTree : OrderClass::kNone;
    for (const Mesh& mesh : spec.meshes) {
      costs_.push_back(std::make_unique<BoxingCosts>(mesh, spec.topology,
                                                     spec.hosts, order));
    }
  }

  absl::StatusOr<Graph> Run() {
    WEFT_ASSIGN_OR_RETURN(rates_, InferRates(whole_));
    WEFT_ASSIGN_OR_RETURN(std::vector<const Node*> order,
                          whole_.TopologicalOrder());
    WEFT_RETURN_IF_ERROR(TakeShare(order));
    FindAfterSums(order);
    // All sums come before who reads one: they are sent when the first is read.
    WEFT_ASSIGN_OR_RETURN(order, whole_.TopologicalOrder(after_sums_));
    lowered_.assign(whole_.id_bound(), -1);
    std::vector<const Node*> ends;
    for (const Node* node : order) {
      WEFT_ASSIGN_OR_RETURN(const bool end, IsDecided(*node));
      if (end) {
        ends.push_back(node);
      } else {
        WEFT_RETURN_IF_ERROR(LowerOnce(*node));
      }
    }
    WEFT_RETURN_IF_ERROR(LowerDecided(ends));
    return std::move(out_);
  }

 private:
  bool shares() const { return spec_.shares_micro_batches; }

  // What a sum over micro-batches comes before.
  void FindAfterSums(absl::Span<const Node* const> order) {
    after_sums_.assign(whole_.id_bound(), 0);
    const auto note = [&](int32_t from, int32_t to) {
      if (after_sums_[from] != 0 || whole_.node(from)->Is(OpId::kAccumulate)) {
        after_sums_[to] = 1;
      }
    };
    for (const Node* node : order) {
      for (Value v : node->inputs()) {
        if (v.valid()) note(v.node, node->id());
      }
      for (int32_t from : node->control_inputs()) note(from, node->id());
    }
  }

  // Micro-batches of a member.
  absl::Status TakeShare(absl::Span<const Node* const> order) {
    if (!shares()) return absl::OkStatus();
    const int members = spec_.mesh().size();
    if (spec_.micro_batches % members != 0) {
      return MakeError(ErrorCode::kBadValue,
                       absl::StrCat("a step has ", spec_.micro_batches,
                                    " micro-batches, which ", members,
                                    " ranks cannot share equally"));
    }
    here_ = spec_.micro_batches / members;
    bundles_ = MakeBundles(whole_, WantedWhole(order), options_.bundle_bytes,
                           options_.narrow_wire);
    return absl::OkStatus();
  }

  // Sums over the members that somebody reads whole, in the order in which
  // micro-batches make what they add: what is ready first is sent first, and
  // the other ranks have the time of all that follows to make theirs.
  std::vector<int32_t> WantedWhole(absl::Span<const Node* const> order) const {
    std::vector<int32_t> out;
    for (const Node* node : order) {
      for (int o = 0; o < node->num_outputs(); ++o) {
        for (auto [reader, position] : whole_.Uses(node->output(o))) {
          const Node& sum = *whole_.node(reader);
          if (sum.Is(OpId::kAccumulate) && IsWantedWhole(sum)) {
            out.push_back(reader);
          }
        }
      }
    }
    return out;
  }

  bool IsWantedWhole(const Node& sum) const {
    const Value v = sum.output(0);
    if (!sharding_.of(v)[0].is_partial()) return false;
    const auto uses = whole_.Uses(v);
    return std::any_of(uses.begin(), uses.end(), [this](const auto& use) {
      return sharding_.nodes[use.first].inputs[use.second][0].is_broadcast();
    });
  }

  // ---- one node ----

  // A gradient of which a part is kept is summed where it is made, so that the
  // whole of it is not kept until all are made.
  absl::Status LowerOnce(const Node& node) {
    if (lowered_[node.id()] >= 0) return absl::OkStatus();
    WEFT_RETURN_IF_ERROR(Lower(node));
    if (!spec_.split_gradients) return absl::OkStatus();
    for (int o = 0; o < node.num_outputs(); ++o) {
      for (auto [reader, position] : whole_.Uses(node.output(o))) {
        const Node& sum = *whole_.node(reader);
        if (sum.Is(OpId::kAccumulate) && sum.control_inputs().empty()) {
          WEFT_RETURN_IF_ERROR(LowerOnce(sum));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Value>> Operands(const Node& node) {
    std::vector<Value> inputs;
    std::map<std::pair<Value, NdSbp>, Value> read;  // each once
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      const Value v = node.input(static_cast<int>(i));
      if (!v.valid()) {
        inputs.push_back({});
        continue;
      }
      const NdSbp& way = sharding_.nodes[node.id()].inputs[i];
      const auto [at, is_new] = read.try_emplace({v, way});
      if (is_new) {
        WEFT_ASSIGN_OR_RETURN(at->second, Read(v, way, node));
      }
      inputs.push_back(at->second);
    }
    return inputs;
  }

  absl::Status Lower(const Node& node) {
    WEFT_ASSIGN_OR_RETURN(std::vector<Value> inputs, Operands(node));
    if (shares() && node.Is(OpId::kAccumulate) && here_ == 1) {
      lowered_[node.id()] = inputs[0].node;
      return Made(node, {inputs[0]});
    }
    const std::vector<Value> own = OwnSquares(node);
    return own.empty() ? Add(node, inputs) : AddOwnPart(node, own);
  }

  // ---- norms of what members reduce (norms.h) ----

  bool IsOfParts(const Node& node) const {
    return node.Is(OpId::kSumOfSquares) && whole_.View(node).Int("parts") > 1;
  }

  // Where to leave the squares of this member's part of the sum `v`; null where
  // nobody asks for them.
  Value* SquaresOf(Value v) {
    const auto uses = whole_.Uses(v);
    const bool asked = std::any_of(
        uses.begin(), uses.end(),
        [this](const auto& use) { return IsOfParts(*whole_.node(use.first)); });
    return shares() && asked ? &squares_[v] : nullptr;
  }

  // Of the parts that this member has reduced of all operands; empty where one
  // was not reduced by members.
  std::vector<Value> OwnSquares(const Node& node) const {
    std::vector<Value> out;
    if (!IsOfParts(node)) return out;
    for (Value v : node.inputs()) {
      const auto found = squares_.find(v);
      if (found == squares_.end() || !found->second.valid()) return {};
      out.push_back(found->second);
    }
    return out;
  }

  // Each member adds what it has and takes the others' parts from them.
  absl::Status AddOwnPart(const Node& node, const std::vector<Value>& squares) {
    GraphEmitter emit(&out_, absl::StrCat(node.name(), "/own"),
                      "sharding: of what this member reduced");
    emit.set_placement(node.device, node.stage);
    Value own = squares[0];
    for (size_t i = 1; i < squares.size(); ++i) {
      own = emit.Emit1("Add", {own, squares[i]});
    }
    own = emit.Emit1("Reshape", {own}, {{"shape", std::vector<int64_t>{1}}});
    WEFT_RETURN_IF_ERROR(emit.status());
    WEFT_ASSIGN_OR_RETURN(
        const Value all,
        AddBoxed(node.output(0), own, {Sbp::Split(0)}, {Sbp::Broadcast()},
                 absl::StrCat(node.name(), "/all"), /*micro=*/false,
                 node.output_type(0)));
    lowered_[node.id()] = all.node;
    return Made(node, {all});
  }

  absl::Status Add(const Node& node, const std::vector<Value>& inputs) {
    const NodeSharding& sharding = sharding_.nodes[node.id()];
    WEFT_ASSIGN_OR_RETURN(AttrMap attrs, Attrs(node, sharding));
    WEFT_ASSIGN_OR_RETURN(
        Node * local, out_.Add(node.op(), node.name(), inputs, std::move(attrs),
                               node.num_outputs()));
    local->device = node.device;
    local->stage = node.stage;
    local->provenance = node.provenance;
    if (!sharding_.why[node.id()].empty()) {
      local->provenance.push_back(
          absl::StrCat("sharding: ", sharding_.why[node.id()]));
    }
    lowered_[node.id()] = local->id();
    for (int32_t from : node.control_inputs()) {
      if (lowered_[from] != local->id()) {
        out_.AddControlInput(local->id(), lowered_[from]);
      }
    }
    std::vector<Value> results;
    for (int o = 0; o < node.num_outputs(); ++o) {
      results.push_back(local->output(o));
    }
    return Made(node, results);
  }

  // What there is of it, and what its readers find.
  absl::Status Made(const Node& node, const std::vector<Value>& results) {
    for (size_t o = 0; o < results.size(); ++o) {
      const Value v = node.output(static_cast<int>(o));
      local_[{v, sharding_.nodes[node.id()].outputs[o]}] = results[o];
      if (sharding_.given.count(v) == 0) continue;
      WEFT_RETURN_IF_ERROR(Box(v, sharding_.nodes[node.id()].outputs[o],
                               sharding_.of(v), nullptr)
                               .status());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<AttrMap> Attrs(const Node& node,
                                const NodeSharding& sharding) const {
    if (shares() && node.Is(OpId::kAccumulate)) {
      AttrMap attrs = node.attrs();
      attrs.Set("count", here_);
      return attrs;
    }
    if (shares() && rates_[node.id()] == Rate::kMicro) {
      AttrMap attrs = node.attrs();
      if (node.Is(OpId::kCounter)) attrs.Set("first", at_[0] * here_);
      return attrs;
    }
    AttrMap attrs = node.attrs();
    std::vector<TensorType> in = {whole_.View(node).inputs().begin(),
                                  whole_.View(node).inputs().end()};
    std::vector<TensorType> out = {node.output_types().begin(),
                                   node.output_types().end()};
    for (int axis = 0; axis < spec_.mesh().num_axes(); ++axis) {
      const int parts = spec_.mesh().axis(axis).size;
      const OpSignature signature = OfAxis(sharding, axis);
      WEFT_ASSIGN_OR_RETURN(
          AttrMap local,
          LocalAttrs(OpView(node.schema(), node.name(), attrs, in, out),
                     signature, parts, at_[axis]));
      attrs = std::move(local);
      WEFT_RETURN_IF_ERROR(TakeParts(signature.inputs, parts, &in));
      WEFT_RETURN_IF_ERROR(TakeParts(signature.outputs, parts, &out));
    }
    return attrs;
  }

  static OpSignature OfAxis(const NodeSharding& sharding, int axis) {
    OpSignature out;
    for (const NdSbp& sbp : sharding.inputs) out.inputs.push_back(sbp[axis]);
    for (const NdSbp& sbp : sharding.outputs) out.outputs.push_back(sbp[axis]);
    return out;
  }

  // ---- one operand ----

  absl::StatusOr<Value> Read(Value v, const NdSbp& way, const Node& reader) {
    const NdSbp& found = sharding_.of(v);
    if (options_.gather_each_use && found != way &&
        rates_[reader.id()] == Rate::kMicro &&
        whole_.node(v)->Is(OpId::kVariable)) {
      WEFT_ASSIGN_OR_RETURN(int reads, StageOf(reader));
      WEFT_ASSIGN_OR_RETURN(int lies, StageOf(*whole_.node(v)));
      // Another stage gets it whole, once a step.
      if (reads == lies) return Box(v, found, way, &reader);
    }
    const auto known = local_.find({v, way});
    if (known != local_.end()) return known->second;
    if (shares() && !bundles_.empty() && way[0].is_broadcast() &&
        whole_.node(v)->Is(OpId::kAccumulate) && found[0].is_partial()) {
      WEFT_RETURN_IF_ERROR(SumBundles());
      return local_.at({v, way});
    }
    return Box(v, found, way, nullptr);
  }

  // `reader`: whose own copy it is, made in its stage; null: for all.
  absl::StatusOr<Value> Box(Value v, const NdSbp& from, const NdSbp& to,
                            const Node* reader) {
    const auto local = local_.find({v, from});
    if (local == local_.end()) {
      return MakeError(ErrorCode::kInternal,
                       absl::StrCat("'", whole_.ValueName(v),
                                    "' is read before it is made"));
    }
    if (from == to) return local->second;
    const bool sums = shares() && from[0].is_micro();
    const bool micro = rates_[v.node] == Rate::kMicro || reader != nullptr;
    std::string name = absl::StrCat(whole_.ValueName(v), "/", NameOf(to));
    if (reader != nullptr) absl::StrAppend(&name, "/", reader->name());
    WEFT_ASSIGN_OR_RETURN(
        Value boxed,
        AddBoxed(v, local->second, sums ? NdSbp{Sbp::Partial()} : from, to,
                 name, micro, whole_.type(v), reader));
    if (reader == nullptr) local_[{v, to}] = boxed;
    return boxed;
  }

  absl::StatusOr<Value> AddBoxed(Value like, Value local, const NdSbp& from,
                                 const NdSbp& to, const std::string& name,
                                 bool micro, const TensorType& type,
                                 const Node* reader = nullptr) {
    const Node& node = *whole_.node(like);
    WEFT_ASSIGN_OR_RETURN(int stage, StageOf(node));
    Boxing b;
    b.costs = costs_[stage].get();
    b.rank = spec_.meshes[stage].rank(options_.member);
    b.from = from;
    b.to = to;
    b.name = name;
    b.value = whole_.ValueName(like);
    b.rate = micro ? "micro" : "step";
    b.algorithm = options_.algorithm;
    b.chunk_elements = options_.chunk_elements;
    b.narrow = options_.narrow_wire &&
               MayTravelNarrow(
                   type, {HasPartial(from), micro, node.Is(OpId::kVariable)});
    b.device = node.device;
    b.stage = reader != nullptr ? reader->stage : node.stage;
    b.squares = to[0].is_broadcast() ? SquaresOf(like) : nullptr;
    const int32_t first = out_.id_bound();
    WEFT_ASSIGN_OR_RETURN(Value boxed, AddBoxing(&out_, b, local, type));
    // What is sent here is read by micro-batches there.
    const bool before = !micro && spec_.micro_batches > 1 &&
                        after_sums_[node.id()] == 0 &&
                        !node.Is(OpId::kAccumulate);
    for (int32_t id = first; before && id < out_.id_bound(); ++id) {
      if (!out_.Contains(id) || !out_.node(id)->Is(OpId::kSend)) continue;
      WEFT_RETURN_IF_ERROR(out_.SetAttr(id, "before", 1));
    }
    return boxed;
  }

  absl::StatusOr<int> StageOf(const Node& node) const {
    if (spec_.meshes.size() == 1) return 0;
    WEFT_ASSIGN_OR_RETURN(auto device,
                          SplitDevice(node.device, node.name(),
                                      static_cast<int>(spec_.meshes.size())));
    return std::max(0, device.first);
  }

  // ---- what the first member decides ----

  // A node that ends a step: an update or output that is not of micro-batches.
  bool EndsStep(const Node& node) const {
    return (node.Is(OpId::kOutput) ||
            node.schema().effect == OpEffect::kUpdate) &&
           rates_[node.id()] != Rate::kMicro;
  }

  absl::StatusOr<bool> IsDecided(const Node& node) const {
    if (!options_.first_decides || !EndsStep(node)) return false;
    const std::vector<int32_t> waiting = whole_.ControlUses(node.id());
    if (waiting.empty()) return true;
    return MakeError(
        ErrorCode::kBadGraph,
        absl::StrCat("'", whole_.node(waiting[0])->name(), "' waits for '",
                     node.name(),
                     "', where ranks have to agree first; nothing may"));
  }

  // An end with what it reads, and of that what all take from the first.
  struct End {
    const Node* node = nullptr;
    std::vector<Value> inputs;
    std::vector<std::pair<int, size_t>> own;  // operand, position in own_
    // Of whole state: the assignments in the update's place.
    std::vector<int32_t> assigns;
  };

  absl::Status LowerDecided(const std::vector<const Node*>& nodes) {
    std::vector<End> ends;
    for (const Node* node : nodes) {
      WEFT_ASSIGN_OR_RETURN(End end, EndOf(*node));
      ends.push_back(std::move(end));
    }
    AgreeOptions options;
    options.member = options_.member;
    options.topology = spec_.topology;
    options.hosts = spec_.hosts;
    options.bundle_bytes = options_.bundle_bytes;
    WEFT_ASSIGN_OR_RETURN(options.after, ComeBeforeAgreement());
    WEFT_ASSIGN_OR_RETURN(std::vector<Value> agreed,
                          TakeFromFirst(own_, options, &out_));
    for (End& end : ends) WEFT_RETURN_IF_ERROR(Finish(agreed, &end));
    return absl::OkStatus();
  }

  // What the first may wait for: the last Sends of the step, and what ends the
  // micro-batches.
  absl::StatusOr<std::map<const Mesh*, std::vector<int32_t>>>
  ComeBeforeAgreement() const {
    WEFT_ASSIGN_OR_RETURN(std::vector<Rate> rates, InferRates(out_));
    std::map<const Mesh*, std::vector<int32_t>> out;
    for (const Node* node : out_.Nodes()) {
      bool counts = node->Is(OpId::kAccumulate);
      if (node->Is(OpId::kSend) && rates[node->id()] != Rate::kMicro) {
        counts = true;
        for (int32_t after : out_.ControlUses(node->id())) {
          counts = counts && !out_.node(after)->Is(OpId::kSend);
        }
      }
      if (!counts) continue;
      WEFT_ASSIGN_OR_RETURN(int stage, StageOf(*node));
      out[&spec_.meshes[stage]].push_back(node->id());
    }
    return out;
  }

  absl::StatusOr<End> EndOf(const Node& node) {
    End end;
    end.node = &node;
    WEFT_ASSIGN_OR_RETURN(end.inputs, Operands(node));
    const NodeSharding& sharding = sharding_.nodes[node.id()];
    const bool whole_state =
        node.num_updated() > 0 && sharding.inputs[0][0].is_broadcast();
    if (whole_state && node.schema().decompose != nullptr) {
      WEFT_RETURN_IF_ERROR(ComputeNewState(&end));
      return end;
    }
    for (int i = node.num_updated(); i < static_cast<int>(end.inputs.size());
         ++i) {
      const Value v = node.input(i);
      if (!v.valid() || !sharding.inputs[i][0].is_broadcast()) continue;
      // Equal from the start.
      const Node& made_by = *whole_.node(v);
      if (made_by.Is(OpId::kConstant) || made_by.Is(OpId::kVariable)) continue;
      WEFT_RETURN_IF_ERROR(TakeOwn(node, end.inputs[i], i, &end));
    }
    return end;
  }

  // The update as a computation of new values, and assignments of them.
  absl::Status ComputeNewState(End* end) {
    const Node& node = *end->node;
    GraphEmitter emit(
        &out_, node.name(),
        absl::StrCat("sharding: part of '", node.name(), "' (", node.op(),
                     "), which the first member decides"));
    emit.set_placement(node.device, node.stage);
    std::vector<Value> results =
        node.schema().decompose(whole_.View(node), end->inputs, emit);
    WEFT_RETURN_IF_ERROR(emit.status());
    for (int i = 0; i < node.num_updated(); ++i) {
      if (out_.node(results[i])->schema().effect != OpEffect::kUpdate) {
        results[i] = emit.Emit1("weft.Assign", {end->inputs[i], results[i]});
        WEFT_RETURN_IF_ERROR(emit.status());
      }
      end->assigns.push_back(results[i].node);
      WEFT_RETURN_IF_ERROR(
          TakeOwn(node, out_.node(results[i])->input(1), i, end));
    }
    return absl::OkStatus();
  }

  absl::Status TakeOwn(const Node& node, Value local, int position, End* end) {
    WEFT_ASSIGN_OR_RETURN(int stage, StageOf(node));
    const OwnValue own{local, &spec_.meshes[stage], node.device, node.stage};
    const auto [at, is_new] =
        known_.try_emplace({local, own.device, own.stage}, own_.size());
    if (is_new) own_.push_back(own);
    end->own.emplace_back(position, at->second);
    return absl::OkStatus();
  }

  absl::Status Finish(const std::vector<Value>& agreed, End* end) {
    for (auto [position, own] : end->own) {
      if (end->assigns.empty()) {
        end->inputs[position] = agreed[own];
      } else {
        WEFT_RETURN_IF_ERROR(
            out_.SetInput(end->assigns[position], 1, agreed[own]));
      }
    }
    if (end->assigns.empty()) return Add(*end->node, end->inputs);
    for (int32_t assign : end->assigns) {
      for (int32_t from : end->node->control_inputs()) {
        out_.AddControlInput(assign, lowered_[from]);
      }
    }
    return absl::OkStatus();
  }

  // ---- sums over the members ----

  // All are joined before the first is summed: no rank keeps another waiting
  // for what it could have sent.
  absl::Status SumBundles() {
    const std::vector<Bundle> bundles = std::exchange(bundles_, {});
    std::vector<Value> joined;
    for (const Bundle& bundle : bundles) {
      WEFT_RETURN_IF_ERROR(CheckChunks(bundle));
      WEFT_ASSIGN_OR_RETURN(
          joined.emplace_back(),
          Join(TogetherOf(whole_, bundle), PartsOf(bundle), &out_));
    }
    for (size_t b = 0; b < bundles.size(); ++b) {
      WEFT_RETURN_IF_ERROR(SumBundle(bundles[b], joined[b]));
    }
    return absl::OkStatus();
  }

  std::vector<Value> PartsOf(const Bundle& bundle) const {
    std::vector<Value> parts;
    for (int32_t id : bundle.sums) {
      parts.push_back(local_.at({whole_.node(id)->output(0), partial_}));
    }
    return parts;
  }

  absl::Status SumBundle(const Bundle& bundle, Value joined) {
    const Together together = TogetherOf(whole_, bundle);
    const Node& first = *whole_.node(bundle.sums[0]);
    WEFT_ASSIGN_OR_RETURN(
        const Value total,
        AddBoxed(first.output(0), joined, partial_, {Sbp::Broadcast()},
                 together.name, /*micro=*/false, out_.type(joined)));
    WEFT_ASSIGN_OR_RETURN(std::vector<Value> totals,
                          TakeApart(together, PartsOf(bundle), total, &out_));
    for (size_t i = 0; i < totals.size(); ++i) {
      local_[{whole_.node(bundle.sums[i])->output(0), {Sbp::Broadcast()}}] =
          totals[i];
    }
    return absl::OkStatus();
  }

  // Each chunk is some tasks and channels of the plan.
  absl::Status CheckChunks(const Bundle& bundle) const {
    constexpr int64_t kMaxChunks = 256;
    if (options_.chunk_elements == 0) return absl::OkStatus();
    const int64_t chunks = bundle.elements / options_.chunk_elements;
    if (chunks <= kMaxChunks) return absl::OkStatus();
    return MakeError(
        ErrorCode::kBadValue,
        absl::StrCat("chunk_elements is ", options_.chunk_elements,
                     ": the sum of '", whole_.node(bundle.sums[0])->name(),
                     "' over ranks, ", bundle.elements,
                     " elements, would travel in ", chunks, " chunks; at most ",
                     kMaxChunks, " are possible"));
  }

  const Graph& whole_;
  const ShardingSpec& spec_;
  const Sharding& sharding_;
  const LoweringOptions& options_;
  const std::vector<int> at_;  // the member's coordinates
  const NdSbp partial_ = {Sbp::Partial()};
  Graph out_;
  std::vector<std::unique_ptr<BoxingCosts>> costs_;  // by stage
  std::vector<Rate> rates_;
  std::vector<int32_t> after_sums_;  // by node id: 1 for what comes after one
  int64_t here_ = 1;                 // micro-batches of this member
  std::vector<Bundle> bundles_;      // that nobody has read yet
  std::vector<int32_t> lowered_;     // by node of the whole
  std::map<std::pair<Value, NdSbp>, Value> local_;
  std::map<Value, Value> squares_;  // by sum: of the part reduced here
  // What the first member decides, and where it is in that list.
  std::vector<OwnValue> own_;
  std::map<std::tuple<Value, std::string, int>, size_t> known_;
};

}  // namespace

absl::StatusOr<Graph> LowerSharding(const Graph& whole,
                                    const ShardingSpec& spec,
                                    const Sharding& sharding,
                                    const LoweringOptions& options) {
  return Lowerer(whole, spec, sharding, options).Run();
}

}  // namespace weft
