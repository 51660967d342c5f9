#include "tools/weft/rank_programs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/pass/pass.h"
#include "compiler/placement/device_names.h"
#include "compiler/sharding/norms.h"
#include "compiler/transforms/dce.h"
#include "core/base/error.h"
#include "core/base/pattern.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"

namespace weft {
namespace {

// Parameters that are smaller stay whole: their messages would cost more than
// the memory is worth.
constexpr int64_t kSmallParameter = 4096;  // bytes

constexpr char kTrain[] = "train";

std::map<std::string, NdSbp> VariablesOf(const Graph& graph,
                                         const Sharding& sharding) {
  std::map<std::string, NdSbp> out;
  for (const Node* node : graph.Nodes()) {
    if (node->Is(OpId::kVariable)) {
      out[node->name()] = sharding.of(node->output(0));
    }
  }
  return out;
}

bool IsParameter(const Graph& graph, const Node& node) {
  if (!node.Is(OpId::kVariable)) return false;
  const OpView view = graph.View(node);
  return view.String("role") == "parameter" && view.Int("trainable") != 0;
}

}  // namespace

RankPrograms::RankPrograms(const job::Job& job, const RankShare& share)
    : job_(job), share_(share) {}

std::vector<Mesh> RankPrograms::MeshesOf(const std::vector<int>& axes) const {
  std::vector<Mesh> out;
  std::vector<int> at =
      share_.mesh.CoordinatesOf(static_cast<int>(share_.rank));
  for (int stage = 0; stage < share_.SizeOf(share_.pipe); ++stage) {
    if (share_.pipe >= 0) at[share_.pipe] = stage;
    out.push_back(share_.mesh.Through(share_.mesh.MemberAt(at), axes));
  }
  return out;
}

ShardingSpec RankPrograms::SpecOf(const std::vector<int>& axes) const {
  ShardingSpec spec;
  spec.meshes = MeshesOf(axes);
  spec.micro_batches = static_cast<int>(share_.all_micro_batches);
  spec.topology.mapped_bytes = share_.mapped_bytes;
  spec.hosts = share_.hosts;
  return spec;
}

absl::StatusOr<LoweringOptions> RankPrograms::OptionsOf(
    const ShardingSpec& spec) const {
  LoweringOptions options;
  options.member =
      spec.meshes[share_.PlaceOn(share_.pipe)].MemberOf(share_.rank);
  WEFT_ASSIGN_OR_RETURN(options.algorithm, AlgorithmOfJob(job_));
  options.fixed_order = job_.logical_shards() != 0;
  options.chunk_elements =
      static_cast<int64_t>(job_.collectives().chunk_elements());
  options.first_decides =
      !share_.unlike_data.empty() && spec.mesh().AxisNamed("data") >= 0;
  return options;
}

absl::Status RankPrograms::AddConstraints(const Graph& train,
                                          ShardingSpec* spec) const {
  for (const job::Sharding& sharding : job_.sharding()) {
    const int axis = spec->mesh().AxisNamed(sharding.axis());
    if (axis < 0) continue;
    WEFT_ASSIGN_OR_RETURN(Sbp sbp, SbpOf(sharding));
    WEFT_ASSIGN_OR_RETURN(Pattern pattern, Pattern::Compile(sharding.value()));
    const size_t before = spec->constraints.size();
    std::vector<std::string> names;
    for (const Node* node : train.Nodes()) {
      for (int o = 0; o < node->num_outputs(); ++o) {
        const Value v = node->output(o);
        names.push_back(train.ValueName(v));
        if (!pattern.MatchesAll(names.back())) continue;
        spec->constraints.push_back(
            {v, axis, sbp,
             absl::StrCat("sharding of '", sharding.value(), "'")});
      }
    }
    if (spec->constraints.size() != before) continue;
    return MakeError(ErrorCode::kBadJob,
                     absl::StrCat("sharding of '", sharding.value(),
                                  "' matches the whole name of no value of "
                                  "training",
                                  DidYouMean(sharding.value(), names),
                                  " (weft plan show --graph lists them)"));
  }
  return absl::OkStatus();
}

void RankPrograms::AddZero(const Graph& train, ShardingSpec* spec) const {
  if (share_.zero == 0) return;
  std::set<Value> said;
  for (const ShardingConstraint& c : spec->constraints) said.insert(c.value);
  for (const Node* node : train.Nodes()) {
    const Value v = node->output(0);
    if (!IsParameter(train, *node) || said.count(v) != 0) continue;
    const TensorType& type = train.type(v);
    if (type.num_bytes() < kSmallParameter) continue;
    for (int d = 0; d < type.shape.rank(); ++d) {
      if (type.shape.dim(d) % spec->mesh().size() != 0) continue;
      spec->constraints.push_back({v, 0, Sbp::Split(d), "zero"});
      break;
    }
  }
  // Summed over ranks before micro-batches, sums have another order.
  const bool any_order =
      job_.logical_shards() == 0 || share_.micro_batches == 1;
  spec->split_gradients = share_.zero >= 2 && any_order;
}

// ---- values ----

absl::Status RankPrograms::SplitValues(Graphs* graphs) {
  const std::vector<int> axes = share_.value_axes();
  if (axes.empty()) return absl::OkStatus();
  Graph& train = graphs->at(kTrain);
  // What nobody reads, as the gradient of the data, is not to be paid for.
  PassContext context;
  WEFT_RETURN_IF_ERROR(CreateDcePass()->Run(train, context).status());
  WEFT_RETURN_IF_ERROR(DecomposeNorms(&train));
  if (share_.placed()) WEFT_RETURN_IF_ERROR(NameStages(graphs));
  ShardingSpec spec = SpecOf(axes);
  WEFT_RETURN_IF_ERROR(AddConstraints(train, &spec));
  WEFT_ASSIGN_OR_RETURN(Sharding sharding, ChooseSharding(train, spec));
  const std::map<std::string, NdSbp> variables = VariablesOf(train, sharding);
  WEFT_ASSIGN_OR_RETURN(LoweringOptions options, OptionsOf(spec));
  options.narrow_wire = narrow_wire();
  WEFT_ASSIGN_OR_RETURN(train, LowerSharding(train, spec, sharding, options));
  return LowerOthers(spec, variables, graphs);
}

absl::Status RankPrograms::LowerOthers(
    const ShardingSpec& training, const std::map<std::string, NdSbp>& variables,
    Graphs* graphs) const {
  for (auto& [program, graph] : *graphs) {
    if (program == kTrain) continue;
    ShardingSpec spec;
    spec.meshes = training.meshes;
    for (const Node* node : std::as_const(graph).Nodes()) {
      const auto found = variables.find(node->name());
      if (!node->Is(OpId::kVariable) || found == variables.end()) continue;
      for (int axis = 0; axis < spec.mesh().num_axes(); ++axis) {
        spec.constraints.push_back(
            {node->output(0), axis, found->second[axis],
             absl::StrCat("training (for '", program, "')")});
      }
    }
    absl::StatusOr<Sharding> sharding = ChooseSharding(graph, spec);
    if (!sharding.ok()) {
      return Annotate(sharding.status(),
                      absl::StrCat("program '", program, "'"));
    }
    WEFT_ASSIGN_OR_RETURN(LoweringOptions options, OptionsOf(spec));
    WEFT_ASSIGN_OR_RETURN(graph,
                          LowerSharding(graph, spec, *sharding, options));
  }
  return absl::OkStatus();
}

// ---- micro-batches ----

absl::Status RankPrograms::TakeShare(Graphs* graphs) {
  if (share_.SizeOf(share_.data) > 1) {
    WEFT_RETURN_IF_ERROR(ShareMicroBatches(graphs));
  }
  if (share_.placed()) return ShareNodes(graphs);
  return absl::OkStatus();
}

absl::Status RankPrograms::ShareMicroBatches(Graphs* graphs) {
  Graph& train = graphs->at(kTrain);
  if (share_.placed()) WEFT_RETURN_IF_ERROR(NameStages(graphs));
  ShardingSpec spec = SpecOf({share_.data});
  spec.shares_micro_batches = true;
  WEFT_RETURN_IF_ERROR(AddConstraints(train, &spec));
  AddZero(train, &spec);
  const bool splits = !spec.constraints.empty();
  const bool agree = !share_.unlike_data.empty();
  if (splits) {
    WEFT_RETURN_IF_ERROR(DecomposeNorms(&train));
  } else if (job_.logical_shards() == 0 && !share_.placed()) {
    // With logical shards a norm has the bits that one rank computes.
    WEFT_RETURN_IF_ERROR(
        SplitNorms(&train, spec.mesh().size(), LoweringOptions().bundle_bytes));
  }
  WEFT_ASSIGN_OR_RETURN(Sharding sharding, ChooseSharding(train, spec));
  const std::map<std::string, NdSbp> variables = VariablesOf(train, sharding);
  WEFT_ASSIGN_OR_RETURN(LoweringOptions options, OptionsOf(spec));
  options.gather_each_use = share_.zero == 3;
  options.narrow_wire = narrow_wire();
  WEFT_ASSIGN_OR_RETURN(train, LowerSharding(train, spec, sharding, options));
  return splits || agree ? LowerOthers(spec, variables, graphs)
                         : absl::OkStatus();
}

// ---- nodes ----

void RankPrograms::ApplyHomes(Graph* graph) const {
  for (Node* node : graph->Nodes()) {
    const auto home = home_.find(node->name());
    if (node->Is(OpId::kVariable) && home != home_.end()) {
      node->device = home->second;
    }
  }
}

void RankPrograms::TakeHomes(const RankAssignment& where, const Graph& train) {
  for (const Node* node : train.Nodes()) {
    if (!node->Is(OpId::kVariable)) continue;
    const auto device =
        SplitDevice(node->device, node->name(), share_.SizeOf(share_.pipe));
    const std::string local = device.ok() ? device->second : "";
    home_[node->name()] = absl::StrCat("w", where.rank[node->id()],
                                       local.empty() ? "" : "/", local);
  }
}

absl::StatusOr<RankAssignment> RankPrograms::Assign(Graph* graph,
                                                    int micro_batches) const {
  for (Node* node : graph->Nodes()) {
    if (node->Is(OpId::kOutput)) node->device = "w0";
  }
  PipelineSpec pipeline = share_.pipeline;
  if (micro_batches == 1) pipeline.stages = 0;  // nothing to overlap
  pipeline.ranks = share_.SizeOf(share_.pipe);
  pipeline.micro_batches = micro_batches;
  return AssignRanks(*graph, pipeline);
}

template <typename Take>
absl::Status RankPrograms::ForEachAssigned(int micro_batches, Graphs* graphs,
                                           const Take& take) {
  Graph& train = graphs->at(kTrain);
  WEFT_ASSIGN_OR_RETURN(RankAssignment where, Assign(&train, micro_batches));
  TakeHomes(where, train);
  WEFT_RETURN_IF_ERROR(take(&where, &train));
  for (auto& [program, graph] : *graphs) {
    if (program == kTrain) continue;
    ApplyHomes(&graph);
    WEFT_ASSIGN_OR_RETURN(where, Assign(&graph, 1));
    WEFT_RETURN_IF_ERROR(take(&where, &graph));
  }
  return absl::OkStatus();
}

absl::Status RankPrograms::NameStages(Graphs* graphs) {
  const int stages = share_.SizeOf(share_.pipe);
  return ForEachAssigned(
      static_cast<int>(share_.all_micro_batches), graphs,
      [stages](RankAssignment* where, Graph* graph) -> absl::Status {
        for (Node* node : graph->Nodes()) {
          const int stage = where->rank[node->id()];
          if (stage < 0) continue;  // a constant
          WEFT_ASSIGN_OR_RETURN(
              auto device, SplitDevice(node->device, node->name(), stages));
          node->device = absl::StrCat(
              "w", stage, device.second.empty() ? "" : "/", device.second);
          // So that what is made of it is of the same phase on all ranks.
          if (!where->phase.empty()) node->stage = where->phase[node->id()];
        }
        return absl::OkStatus();
      });
}

absl::Status RankPrograms::ShareNodes(Graphs* graphs) {
  // The ranks of the stages that go with this one's place on the other axes.
  const std::vector<Mesh> stages = MeshesOf({});
  const int rank = static_cast<int>(share_.rank);
  return ForEachAssigned(
      static_cast<int>(share_.micro_batches), graphs,
      [&](RankAssignment* where, Graph* graph) -> absl::Status {
        where->ranks = static_cast<int>(share_.ranks);
        for (int& r : where->rank) {
          if (r >= 0) r = stages[r].rank(0);
        }
        where->topology.mapped_bytes = share_.mapped_bytes;
        where->hosts = share_.hosts;
        where->narrow_wire = narrow_wire() && graph == &graphs->at(kTrain);
        WEFT_ASSIGN_OR_RETURN(*graph, GraphOfRank(*graph, *where, rank));
        return absl::OkStatus();
      });
}

}  // namespace weft
