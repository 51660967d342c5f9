#include "compiler/partition/by_rank.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/collectives/narrow.h"
#include "compiler/partition/phases.h"
#include "compiler/placement/device_names.h"
#include "compiler/rates/rates.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/graph/rates.h"

namespace weft {
namespace {

constexpr int kUnknown = -1;

class Assigner {
 public:
  Assigner(const Graph& graph, int ranks, int micro_batches) : graph_(graph) {
    out_.ranks = ranks;
    out_.micro_batches = micro_batches;
    out_.rank.assign(graph.id_bound(), kUnknown);
    out_.reason.resize(graph.id_bound());
  }

  absl::StatusOr<RankAssignment> Run() {
    WEFT_ASSIGN_OR_RETURN(order_, graph_.TopologicalOrder());
    set_.resize(graph_.id_bound());
    std::iota(set_.begin(), set_.end(), 0);
    for (const Node* node : order_) {
      WEFT_ASSIGN_OR_RETURN(
          auto device, SplitDevice(node->device, node->name(), out_.ranks));
      out_.rank[node->id()] = device.first;
      if (device.first != kUnknown) named_[node->id()] = node->id();
    }
    WEFT_RETURN_IF_ERROR(JoinState());
    FollowOperands();
    FollowReaders();
    for (const Node* node : order_) {
      if (node->Is(OpId::kConstant)) {
        out_.rank[node->id()] = kUnknown;
      } else if (RankOf(*node) == kUnknown) {
        Set(*node, 0, "nothing says where");
      }
    }
    for (const Node* node : order_) {
      if (node->Is(OpId::kConstant)) continue;
      out_.rank[node->id()] = RankOf(*node);
    }
    return std::move(out_);
  }

 private:
  // Nodes that must be on one rank are a set, named by one of them, which has
  // the rank.
  int32_t SetOf(int32_t node) {
    while (set_[node] != node) node = set_[node] = set_[set_[node]];
    return node;
  }
  int RankOf(const Node& node) { return out_.rank[SetOf(node.id())]; }

  void Set(const Node& node, int rank, const std::string& why) {
    out_.rank[SetOf(node.id())] = rank;
    out_.reason[node.id()] = absl::StrCat("by rank: on rank ", rank, ", ", why);
  }

  // State and what updates it are on one rank.
  absl::Status JoinState() {
    for (const Node* node : order_) {
      for (int i = 0; i < node->num_updated(); ++i) {
        WEFT_RETURN_IF_ERROR(Join(*node, *graph_.node(node->input(i))));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Join(const Node& update, const Node& state) {
    const int32_t a = SetOf(update.id()), b = SetOf(state.id());
    if (a == b) return absl::OkStatus();
    const int rank_a = out_.rank[a], rank_b = out_.rank[b];
    if (rank_a != kUnknown && rank_b != kUnknown && rank_a != rank_b) {
      const Node& says_a = *graph_.node(named_[a]);
      const Node& says_b = *graph_.node(named_[b]);
      return MakeError(
          ErrorCode::kBadGraph,
          absl::StrCat("'", update.name(), "' updates '", state.name(),
                       "', so they are on one rank, but '", says_a.name(),
                       "' is on '", says_a.device, "' and '", says_b.name(),
                       "' on '", says_b.device, "'"));
    }
    set_[a] = b;
    if (rank_b == kUnknown && rank_a != kUnknown) {
      out_.rank[b] = rank_a;
      named_[b] = named_[a];
    }
    const Node& follows = rank_b == kUnknown ? state : update;
    if (follows.device.empty() && out_.rank[b] != kUnknown) {
      Set(follows, out_.rank[b],
          absl::StrCat("with '", graph_.node(named_[b])->name(), "'"));
    }
    return absl::OkStatus();
  }

  void FollowOperands() {
    for (const Node* node : order_) {
      if (RankOf(*node) != kUnknown || node->Is(OpId::kConstant)) continue;
      for (Value v : node->inputs()) {
        if (!v.valid() || RankOf(*graph_.node(v)) == kUnknown) continue;
        Set(*node, RankOf(*graph_.node(v)),
            absl::StrCat("where '", graph_.node(v)->name(), "' is"));
        break;
      }
    }
  }

  // Against the order: what is read comes after who reads it.
  void FollowReaders() {
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      const Node& node = **it;
      if (RankOf(node) != kUnknown || node.Is(OpId::kConstant)) continue;
      const int32_t reader = FirstReader(node);
      if (reader < 0) continue;
      Set(node, RankOf(*graph_.node(reader)),
          absl::StrCat("where '", graph_.node(reader)->name(), "' reads it"));
    }
  }

  int32_t FirstReader(const Node& node) {
    int32_t first = -1;
    for (int i = 0; i < node.num_outputs(); ++i) {
      for (auto [reader, position] : graph_.Uses(node.output(i))) {
        if (RankOf(*graph_.node(reader)) == kUnknown) continue;
        if (first < 0 || reader < first) first = reader;
      }
    }
    return first;
  }

  const Graph& graph_;
  std::vector<const Node*> order_;
  std::vector<int32_t> set_;          // union-find over nodes
  std::map<int32_t, int32_t> named_;  // set -> the node whose device says where
  RankAssignment out_;
};

// The graph of one rank, node by node in the order of the whole.
class Splitter {
 public:
  Splitter(const Graph& graph, const RankAssignment& where, int rank)
      : graph_(graph), where_(where), rank_(rank), out_(graph.name()) {}

  absl::StatusOr<Graph> Run() {
    WEFT_ASSIGN_OR_RETURN(std::vector<const Node*> order,
                          graph_.TopologicalOrder());
    WEFT_ASSIGN_OR_RETURN(rates_, InferRates(graph_));
    WEFT_ASSIGN_OR_RETURN(sections_,
                          ClassifyRates(graph_, where_.micro_batches));
    if (!where_.phase.empty()) {
      WEFT_ASSIGN_OR_RETURN(phases_, PhaseOrder::Create(where_.pipeline));
    }
    local_.assign(graph_.id_bound(), -1);
    for (const Node* node : order) WEFT_RETURN_IF_ERROR(Add(*node));
    return std::move(out_);
  }

 private:
  int RankOf(int32_t node) const { return where_.rank[node]; }
  int StageOf(const Node& node) const {
    return where_.phase.empty() ? node.stage : where_.phase[node.id()];
  }

  absl::Status Add(const Node& node) {
    if (node.Is(OpId::kConstant)) {
      return ReadHere(node) ? CloneNode(node) : absl::OkStatus();
    }
    if (RankOf(node.id()) == rank_) {
      WEFT_RETURN_IF_ERROR(CloneNode(node));
      return SendResults(node);
    }
    return ReceiveResults(node);
  }

  bool ReadHere(const Node& constant) const {
    for (auto [reader, position] : graph_.Uses(constant.output(0))) {
      if (RankOf(reader) == rank_) return true;
    }
    return false;
  }

  absl::Status CloneNode(const Node& node) {
    std::vector<Value> inputs;
    for (Value v : node.inputs()) {
      inputs.push_back(v.valid() ? value_.at(v) : Value{});
    }
    WEFT_ASSIGN_OR_RETURN(
        Node * clone, out_.Add(node.op(), node.name(), inputs, AttrsOf(node),
                               node.num_outputs()));
    WEFT_ASSIGN_OR_RETURN(auto device,
                          SplitDevice(node.device, node.name(), where_.ranks));
    clone->device = device.second;
    clone->stage = StageOf(node);
    clone->provenance = node.provenance;
    const std::string& reason = where_.reason[node.id()];
    if (!reason.empty()) clone->provenance.push_back(reason);
    local_[node.id()] = clone->id();
    for (int i = 0; i < node.num_outputs(); ++i) {
      value_[node.output(i)] = clone->output(i);
    }
    for (int32_t from : node.control_inputs()) {
      const int32_t local =
          RankOf(from) == rank_ ? local_[from] : ControlFrom(from);
      if (local >= 0) out_.AddControlInput(clone->id(), local);
    }
    return absl::OkStatus();
  }

  // Channels that the graph has already are between ranks of one stage, neither
  // of which knows when the other reads for the last time: at the end of the
  // stage's way back at the latest.
  AttrMap AttrsOf(const Node& node) const {
    AttrMap attrs = node.attrs();
    const bool channel = node.Is(OpId::kSend) || node.Is(OpId::kRecv);
    if (!channel || !phases_.has_value() || rates_[node.id()] != Rate::kMicro) {
      return attrs;
    }
    const int from = where_.phase[node.id()];
    const int back =
        2 * where_.pipeline.stages - 1 - where_.pipeline.StageOf(from);
    attrs.Set("copies", int64_t{phases_->InFlight(from, back)});
    return attrs;
  }

  int32_t ControlFrom(int32_t from) const {
    auto it = control_.find(from);
    return it == control_.end() ? -1 : it->second;
  }

  // Other ranks that read `v`, or come after its node.
  std::set<int> RanksReading(Value v) const {
    std::set<int> out;
    for (auto [reader, position] : graph_.Uses(v)) out.insert(RankOf(reader));
    out.erase(kUnknown);
    return out;
  }
  std::set<int> RanksAfter(const Node& node) const {
    std::set<int> out;
    for (int32_t after : graph_.ControlUses(node.id())) {
      out.insert(RankOf(after));
    }
    out.erase(kUnknown);
    return out;
  }

  // Transfers of what `node` gives and `readers` take on rank `to` that may be
  // under way. 0: as the rate says.
  int64_t Copies(const Node& node, absl::Span<const int32_t> readers,
                 int to) const {
    if (!phases_.has_value() || rates_[node.id()] != Rate::kMicro) return 0;
    const int from = where_.phase[node.id()];
    int last = from;
    for (int32_t reader : readers) {
      if (RankOf(reader) == to) last = std::max(last, where_.phase[reader]);
    }
    return phases_->InFlight(from, last);
  }
  std::vector<int32_t> Readers(Value v) const {
    std::vector<int32_t> out;
    for (auto [reader, position] : graph_.Uses(v)) out.push_back(reader);
    return out;
  }

  // Attributes of the end of a channel that is on this rank.
  AttrMap Channel(const Node& node, absl::string_view what, int from, int to,
                  int64_t copies) const {
    const bool micro = rates_[node.id()] == Rate::kMicro;
    AttrMap attrs = {{"channel", absl::StrCat(what, ":", from, ">", to)},
                     {"peer", from == rank_ ? to : from},
                     {"rate", micro ? "micro" : "step"}};
    const bool before = where_.micro_batches > 1 &&
                        sections_.section[node.id()] == Section::kBefore;
    if (from == rank_ && before) attrs.Set("before", 1);
    if (copies != 0) attrs.Set("copies", copies);
    return attrs;
  }
  std::string ControlName(const Node& node) const {
    return absl::StrCat(node.name(), "/done");
  }

  absl::StatusOr<Node*> AddEnd(const Node& node, absl::string_view op,
                               absl::string_view name,
                               absl::Span<const Value> inputs, AttrMap attrs,
                               int num_outputs, const std::string& why) {
    WEFT_ASSIGN_OR_RETURN(
        Node * end, out_.Add(op, name, inputs, std::move(attrs), num_outputs));
    end->stage = StageOf(node);
    end->provenance.push_back(absl::StrCat("by rank: ", why));
    return end;
  }

  // On this rank.
  int StageOfFirstReader(const Node& node, Value v) const {
    int first = -1;
    for (int32_t reader : Readers(v)) {
      if (RankOf(reader) != rank_) continue;
      const int stage = StageOf(*graph_.node(reader));
      if (first < 0 || stage < first) first = stage;
    }
    return first < 0 ? StageOf(node) : first;
  }

  bool TravelsNarrow(const Node& node, Value v) const {
    return where_.narrow_wire &&
           MayTravelNarrow(graph_.type(v),
                           {/*sum=*/false, rates_[node.id()] == Rate::kMicro,
                            node.Is(OpId::kVariable)});
  }

  absl::StatusOr<Value> AddCast(const Node& node, const std::string& name,
                                Value v, DType to) {
    WEFT_ASSIGN_OR_RETURN(
        Node * cast,
        AddEnd(node, "Cast", name, {v}, {{"to", to}}, 1, "travels as bf16"));
    return cast->output(0);
  }

  // What is sent of a value: one cast, whatever the number of ranks.
  absl::StatusOr<Value> Travelling(const Node& node, Value v) {
    if (!TravelsNarrow(node, v)) return value_.at(v);
    const auto [at, is_new] = narrow_.try_emplace(v);
    if (is_new) {
      WEFT_ASSIGN_OR_RETURN(
          at->second, AddCast(node, absl::StrCat(graph_.ValueName(v), "/bf16"),
                              value_.at(v), DType::kBF16));
    }
    return at->second;
  }

  // Says so where `to` reads a value of `from` where it lies.
  void SetMapped(const TensorType& type, int from, int to,
                 AttrMap* attrs) const {
    if (where_.topology.Maps(type.num_bytes()) &&
        SameHost(where_.hosts, from, to)) {
      attrs->Set("mapped", 1);
    }
  }

  absl::Status SendResults(const Node& node) {
    for (int i = 0; i < node.num_outputs(); ++i) {
      const Value v = node.output(i);
      const std::string name = graph_.ValueName(v);
      for (int to : RanksReading(v)) {
        if (to == rank_) continue;
        WEFT_ASSIGN_OR_RETURN(const Value local, Travelling(node, v));
        AttrMap attrs =
            Channel(node, name, rank_, to, Copies(node, Readers(v), to));
        SetMapped(out_.type(local), rank_, to, &attrs);
        WEFT_RETURN_IF_ERROR(
            AddEnd(node, "weft.Send", absl::StrCat(name, "/to_rank_", to),
                   {local}, std::move(attrs), 0,
                   absl::StrCat("'", name, "' is read on rank ", to))
                .status());
      }
    }
    for (int to : RanksAfter(node)) {
      if (to == rank_) continue;
      const std::string name = ControlName(node);
      WEFT_ASSIGN_OR_RETURN(
          Node * send,
          AddEnd(node, "weft.Send", absl::StrCat(name, "/to_rank_", to), {},
                 Channel(node, name, rank_, to,
                         Copies(node, graph_.ControlUses(node.id()), to)),
                 0,
                 absl::StrCat("rank ", to, " waits for '", node.name(), "'")));
      out_.AddControlInput(send->id(), local_[node.id()]);
    }
    return absl::OkStatus();
  }

  absl::Status ReceiveResults(const Node& node) {
    const int from = RankOf(node.id());
    for (int i = 0; i < node.num_outputs(); ++i) {
      const Value v = node.output(i);
      if (RanksReading(v).count(rank_) == 0) continue;
      const std::string name = graph_.ValueName(v);
      AttrMap attrs =
          Channel(node, name, from, rank_, Copies(node, Readers(v), rank_));
      const absl::Span<const int64_t> dims = graph_.type(v).shape.dims();
      const bool narrow = TravelsNarrow(node, v);
      const DType dtype = narrow ? DType::kBF16 : graph_.type(v).dtype;
      attrs.Set("dtype", dtype);
      SetMapped({dtype, graph_.type(v).shape}, from, rank_, &attrs);
      attrs.Set("shape", std::vector<int64_t>(dims.begin(), dims.end()));
      attrs.Set("late", 1);
      WEFT_ASSIGN_OR_RETURN(
          Node * recv,
          AddEnd(node, "weft.Recv", absl::StrCat(name, "/from_rank_", from), {},
                 std::move(attrs), 1,
                 absl::StrCat("'", name, "' is made on rank ", from)));
      value_[v] = recv->output(0);
      if (!narrow) continue;
      WEFT_ASSIGN_OR_RETURN(
          value_[v], AddCast(node, absl::StrCat(name, "/wide"), recv->output(0),
                             graph_.type(v).dtype));
      out_.node(value_[v].node)->stage = StageOfFirstReader(node, v);
    }
    if (RanksAfter(node).count(rank_) == 0) return absl::OkStatus();
    const std::string name = ControlName(node);
    WEFT_ASSIGN_OR_RETURN(
        Node * recv,
        AddEnd(node, "weft.Recv", absl::StrCat(name, "/from_rank_", from), {},
               Channel(node, name, from, rank_,
                       Copies(node, graph_.ControlUses(node.id()), rank_)),
               0,
               absl::StrCat("waits for '", node.name(), "' on rank ", from)));
    control_[node.id()] = recv->id();
    return absl::OkStatus();
  }

  const Graph& graph_;
  const RankAssignment& where_;
  const int rank_;
  Graph out_;
  std::vector<Rate> rates_;
  RateTable sections_;
  std::optional<PhaseOrder> phases_;
  std::vector<int32_t> local_;          // by node of the whole; -1: not here
  std::map<Value, Value> value_;        // of the whole, here
  std::map<Value, Value> narrow_;       // as they travel
  std::map<int32_t, int32_t> control_;  // node elsewhere -> its word here
};

}  // namespace

absl::StatusOr<RankAssignment> AssignRanks(const Graph& graph, int ranks,
                                           int micro_batches) {
  return Assigner(graph, ranks, micro_batches).Run();
}

absl::StatusOr<RankAssignment> AssignRanks(const Graph& graph,
                                           const PipelineSpec& pipeline) {
  WEFT_RETURN_IF_ERROR(CheckPipeline(pipeline));
  WEFT_ASSIGN_OR_RETURN(
      RankAssignment out,
      AssignRanks(graph, pipeline.ranks, pipeline.micro_batches));
  if (pipeline.stages == 0 || pipeline.micro_batches == 1) return out;
  out.pipeline = pipeline;
  WEFT_ASSIGN_OR_RETURN(out.phase, PhasesOfNodes(graph, out.rank, pipeline));
  return out;
}

absl::StatusOr<Graph> GraphOfRank(const Graph& graph,
                                  const RankAssignment& assignment, int rank) {
  return Splitter(graph, assignment, rank).Run();
}

}  // namespace weft
