#include "tools/weft/programs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/compile.h"
#include "compiler/pass/registry.h"
#include "compiler/pipeline/stages.h"
#include "compiler/placement/capability_cache.h"
#include "compiler/placement/device_names.h"
#include "compiler/placement/placement.h"
#include "core/base/error.h"
#include "core/base/pattern.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"
#include "models/model.h"
#include "tools/weft/rank_programs.h"

namespace weft {
namespace {

using training::OptimizerSpec;
using training::ScheduleSpec;
using training::TrainingSpec;

constexpr uint64_t kMaxGraphText = uint64_t{64} << 20;

ScheduleSpec MakeSchedule(const job::Schedule& schedule, int64_t total_steps) {
  ScheduleSpec spec;
  if (schedule.has_constant()) {
    spec.kind = "constant";
    spec.base = schedule.constant().base();
    spec.warmup_steps = schedule.constant().warmup_steps();
  } else if (schedule.has_step()) {
    spec.kind = "step";
    spec.base = schedule.step().base();
    spec.warmup_steps = schedule.step().warmup_steps();
    spec.step_size = schedule.step().step_size();
    spec.gamma = schedule.step().gamma();
  } else {
    spec.kind = "cosine";
    spec.base = schedule.cosine().base();
    spec.warmup_steps = schedule.cosine().warmup_steps();
    spec.total_steps = schedule.cosine().total_steps() != 0
                           ? schedule.cosine().total_steps()
                           : total_steps;
    spec.final = schedule.cosine().final();
  }
  return spec;
}

template <typename Proto>
void SetDecay(const Proto& proto, OptimizerSpec* spec) {
  spec->weight_decay = proto.weight_decay();
  spec->decay_exclude = proto.decay_exclude();
}

void SetAdam(const job::Adam& adam, OptimizerSpec* spec) {
  spec->beta1 = adam.beta1();
  spec->beta2 = adam.beta2();
  spec->epsilon = adam.epsilon();
  SetDecay(adam, spec);
}

training::LossScaleSpec MakeLossScale(const job::LossScale& scale) {
  using Kind = training::LossScaleSpec::Kind;
  training::LossScaleSpec spec;
  if (scale.has_fixed()) {
    spec.kind = Kind::kFixed;
    spec.value = scale.fixed();
  } else if (scale.has_dynamic()) {
    spec.kind = Kind::kDynamic;
    spec.value = scale.dynamic().init_scale();
    spec.growth_factor = scale.dynamic().growth_factor();
    spec.backoff_factor = scale.dynamic().backoff_factor();
    spec.growth_interval = scale.dynamic().growth_interval();
  }
  return spec;
}

absl::Status CheckSchedule(const ScheduleSpec& spec) {
  if (spec.kind == "cosine" && spec.total_steps <= spec.warmup_steps) {
    return MakeError(
        ErrorCode::kBadJob,
        absl::StrCat("optimizer.schedule.cosine: warmup_steps is ",
                     spec.warmup_steps, ", the schedule has ", spec.total_steps,
                     " steps; warm-up must be shorter"));
  }
  return absl::OkStatus();
}

OptimizerSpec MakeOptimizer(const job::Optimizer& optimizer,
                            int64_t total_steps) {
  using Kind = OptimizerSpec::Kind;
  OptimizerSpec spec;
  if (optimizer.has_sgd()) {
    spec.momentum = optimizer.sgd().momentum();
    spec.nesterov = optimizer.sgd().nesterov();
    SetDecay(optimizer.sgd(), &spec);
  } else if (optimizer.has_adagrad()) {
    spec.kind = Kind::kAdagrad;
    spec.epsilon = optimizer.adagrad().epsilon();
    SetDecay(optimizer.adagrad(), &spec);
  } else {
    spec.kind = optimizer.has_adam() ? Kind::kAdam : Kind::kAdamW;
    SetAdam(optimizer.has_adam() ? optimizer.adam() : optimizer.adamw(), &spec);
  }
  spec.clip_norm = optimizer.clip_norm();
  spec.schedule = MakeSchedule(optimizer.schedule(), total_steps);
  return spec;
}

// Gives nodes whose name a scope matches the scope's device; later scopes win.
absl::Status ApplyPlacement(const job::Job& job, Graph* graph) {
  for (const job::Placement& placement : job.placement()) {
    absl::StatusOr<Pattern> scope = Pattern::Compile(placement.scope());
    if (!scope.ok()) return Annotate(scope.status(), "placement scope");
    bool used = false;
    std::vector<std::string> names;
    for (Node* node : graph->Nodes()) {
      names.push_back(node->name());
      if (!scope->MatchesAll(node->name())) continue;
      node->device = placement.device();
      used = true;
    }
    if (used) continue;
    return MakeError(
        ErrorCode::kBadJob,
        absl::StrCat("placement scope '", placement.scope(),
                     "' matches the whole name of no node of the model",
                     DidYouMean(placement.scope(), names),
                     " (weft plan show --graph lists them)"));
  }
  return absl::OkStatus();
}

// Nodes of a pipeline are on the ranks of their stages.
absl::Status PlaceStages(const job::Job& job, const RankShare& share,
                         Graph* model) {
  WEFT_RETURN_IF_ERROR(
      CutIntoStages(static_cast<int>(job.pipeline().stages()), model));
  for (Node* node : model->Nodes()) {
    if (node->stage < 0) continue;
    node->device = absl::StrCat("w", share.pipeline.RankOf(node->stage),
                                node->device.empty() ? "" : "/", node->device);
  }
  return absl::OkStatus();
}

// Where some nodes are on ranks, the others are on the first. In a pipeline the
// ranks are the stages.
absl::Status PlaceRest(const RankShare& share, Graph* model) {
  for (Node* node : model->Nodes()) {
    WEFT_ASSIGN_OR_RETURN(auto device, SplitDevice(node->device, node->name(),
                                                   share.SizeOf(share.pipe)));
    if (share.pipeline.stages > 0) node->stage = std::max(device.first, 0);
    if (device.first >= 0) continue;
    node->device =
        node->device.empty() ? "w0" : absl::StrCat("w0/", node->device);
  }
  if (share.pipeline.stages == 0) return absl::OkStatus();
  return CheckStagesFlow(*model);
}

absl::Status PlaceOnRanks(const job::Job& job, const RankShare& share,
                          Graph* model) {
  if (!share.placed()) return absl::OkStatus();
  return job.pipeline().stages() > 0 ? PlaceStages(job, share, model)
                                     : PlaceRest(share, model);
}

absl::StatusOr<int64_t> CountLogits(const Graph& model) {
  for (const Node* node : model.Nodes()) {
    if (!node->Is(OpId::kOutput)) continue;
    const Shape& shape = model.type(node->input(0)).shape;
    if (model.View(*node).String("name") == "logits" && shape.rank() == 2) {
      return shape.dim(1);
    }
  }
  return MakeError(ErrorCode::kBadGraph,
                   absl::StrCat("model '", model.name(),
                                "' needs a weft.Output named \"logits\" of "
                                "shape [batch, classes]"));
}

// What types and ranges allow and training cannot do.
absl::Status CheckNodes(const Graph& model) {
  for (const Node* node : model.Nodes()) {
    if (node->Is(OpId::kEmpty)) {
      return MakeError(
          ErrorCode::kBadGraph,
          absl::StrCat("node '", node->name(), "' (", node->op(),
                       ") has no value; only collectives, which write it, "
                       "have a use for one"));
    }
    if (!node->Is(OpId::kVariable)) continue;
    const OpView view = model.View(*node);
    const DType dtype = node->output_type(0).dtype;
    if (view.String("role") == "parameter" && view.Int("trainable") != 0 &&
        !IsFloat(dtype)) {
      return MakeError(
          ErrorCode::kBadGraph,
          absl::StrCat("node '", node->name(), "' (", node->op(),
                       "): a trainable parameter of ", DTypeName(dtype),
                       " has no gradient; set trainable: 0"));
    }
    if (view.String("init") == "uniform" &&
        !(view.Float("low") <= view.Float("high"))) {
      return MakeError(
          ErrorCode::kBadAttribute,
          absl::StrCat("node '", node->name(), "' (", node->op(),
                       "): init \"uniform\" from low ", view.Float("low"),
                       " to high ", view.Float("high")));
    }
  }
  return absl::OkStatus();
}

// A graph text says its own batch, which the job has to feed.
absl::Status CheckBatch(const Graph& model, const job::Job& job,
                        const RankShare& share) {
  int64_t batch = job.batch_size() / share.all_micro_batches;
  for (const Node* node : model.Nodes()) {
    if (!node->Is(OpId::kInput)) continue;
    const Shape& shape = node->output_type(0).shape;
    if (shape.rank() > 0 && shape.dim(0) == batch) continue;
    return MakeError(
        ErrorCode::kShapeMismatch,
        absl::StrCat("model input '", node->name(), "' is ",
                     node->output_type(0).ToString(), ", the job gives ", batch,
                     " samples at a time (batch_size ", job.batch_size(), ", ",
                     share.all_micro_batches, " micro-batches)"));
  }
  return absl::OkStatus();
}

struct Build {
  const std::vector<plan::Device>& devices;
  const std::string& compute_device;
  CapabilityOracle& oracle;
  const ProgramOptions& options;
  const RankShare& share;
  int register_copies;
};

absl::Status CheckDumps(const std::string& passes,
                        const std::vector<std::string>& names) {
  absl::StatusOr<Pattern> pattern = Pattern::Compile(passes);
  if (!pattern.ok()) return Annotate(pattern.status(), "--dump-passes");
  for (const std::string& name : names) {
    if (pattern->MatchesAll(name)) return absl::OkStatus();
  }
  const std::set<std::string> known(names.begin(), names.end());
  return MakeError(ErrorCode::kBadValue,
                   absl::StrCat("--dump-passes '", passes,
                                "' matches the whole name of no pass; there "
                                "are: ",
                                absl::StrJoin(known, ", ")));
}

absl::Status RunPasses(const Build& build, const std::string& program,
                       uint64_t seed, Graph* graph) {
  PipelineOptions dumps = build.options.dumps;
  const bool dump = !dumps.dump_to.empty();
  if (dump) dumps.dump_to = JoinPath(dumps.dump_to, program);
  WEFT_ASSIGN_OR_RETURN(Pipeline pipeline,
                        MakeNamedPipeline("default", std::move(dumps)));
  if (dump) {
    WEFT_RETURN_IF_ERROR(
        CheckDumps(build.options.dumps.dump_passes, pipeline.Names()));
  }
  PassContext context;
  context.settings.training = program == "train";
  context.settings.seed = seed;
  PlacementOptions placing;
  placing.devices = build.devices;
  placing.strict = build.options.strict;
  placing.ranks =
      static_cast<int>(build.share.placed() ? build.share.ranks : 0);
  WEFT_ASSIGN_OR_RETURN(placing.default_device,
                        FindDevice(build.devices, build.compute_device));
  CapabilityCache cache(&build.oracle);
  // Unlike ranks share a graph that suits no device more than another.
  if (build.share.unlike.empty()) {
    context.settings.runs_as_kernel = [&](const Graph& g, const Node& node) {
      return RunsAsKernel(g, node, placing, &cache);
    };
  }
  return Annotate(pipeline.Run(*graph, context).status(),
                  absl::StrCat("program '", program, "'"));
}

absl::StatusOr<plan::Plan> CompileProgram(const Build& build,
                                          const std::string& program,
                                          const Graph& graph,
                                          const StateLayout& state) {
  CompileOptions options;
  options.program = program;
  options.devices = build.devices;
  options.default_device = build.compute_device;
  options.micro_batches =
      program == "train" ? static_cast<int>(build.share.micro_batches) : 1;
  options.rank = build.share.rank;
  options.ranks = build.share.ranks;
  if (program == "train") options.pipeline = build.share.pipeline;
  if (build.register_copies > 0) {
    options.register_copies = build.register_copies;
  }
  if (program == "load") options.register_copies = options.io_copies = 1;
  options.launch_order_seed = build.options.launch_order_seed;
  options.strict = build.options.strict;
  absl::StatusOr<plan::Plan> plan =
      Compile(graph, options, state, build.oracle);
  if (!plan.ok()) {
    return Annotate(plan.status(), absl::StrCat("program '", program, "'"));
  }
  return plan;
}

}  // namespace

absl::StatusOr<Graph> BuildJobModel(Os& os, const job::Job& job,
                                    const DataInfo& data, int64_t batch) {
  if (job.model().has_builtin()) {
    const job::Builtin& builtin = job.model().builtin();
    models::ModelArgs args(builtin.args().begin(), builtin.args().end());
    models::ModelInput input;
    input.batch = batch;
    input.image = data.image;
    input.classes = data.classes;
    input.context = data.context;
    return models::BuildModel(builtin.name(), args, input);
  }
  const std::string& path = job.model().graph_text().path();
  absl::StatusOr<std::string> text = os.ReadFile(path, kMaxGraphText);
  if (!text.ok()) {
    return MakeError(
        ErrorCode::kDataMissing,
        absl::StrCat("model.graph_text: ", text.status().message()));
  }
  absl::StatusOr<Graph> graph = ParseGraph(*text);
  if (!graph.ok()) return Annotate(graph.status(), path);
  WEFT_RETURN_IF_ERROR(Annotate(VerifyGraph(*graph), path));
  WEFT_RETURN_IF_ERROR(Annotate(CheckNodes(*graph), path));
  return graph;
}

uint64_t StateBytes(const Graph& train) {
  uint64_t bytes = 0;
  for (const Node* node : train.Nodes()) {
    if (node->Is(OpId::kVariable)) bytes += node->output_type(0).num_bytes();
  }
  return bytes;
}

absl::StatusOr<TrainingSpec> MakeTrainingSpec(const job::Job& job,
                                              const DataInfo& data,
                                              int64_t classes,
                                              int64_t micro_batches) {
  TrainingSpec spec;
  spec.data.image = data.image;
  spec.data.context = data.context;
  spec.data.classes = classes;
  spec.data.mean = job.data().normalize().mean();
  spec.data.std = job.data().normalize().std();
  spec.optimizer = MakeOptimizer(job.optimizer(), data.total_steps);
  WEFT_RETURN_IF_ERROR(CheckSchedule(spec.optimizer.schedule));
  spec.label_smoothing = job.loss().softmax_cross_entropy().label_smoothing();
  if (job.precision().compute() == job::Precision::BF16) {
    spec.compute = DType::kBF16;
  } else if (job.precision().compute() == job::Precision::F16) {
    spec.compute = DType::kF16;
  }
  spec.loss_scale = MakeLossScale(job.precision().loss_scale());
  spec.recompute = job.runtime().recompute();
  spec.micro_batches = static_cast<int>(micro_batches);
  spec.seed = job.seed();
  return spec;
}

namespace {

absl::StatusOr<Programs> BuildAsAsked(Os& os, const job::Job& job,
                                      const DataInfo& data,
                                      const std::vector<plan::Device>& devices,
                                      const std::string& compute_device,
                                      CapabilityOracle& oracle,
                                      const ProgramOptions& options) {
  RankShare share;
  if (options.share.has_value()) {
    share = *options.share;
  } else {
    WEFT_ASSIGN_OR_RETURN(share, ShareOfRank(job, 0, 1));
  }
  int64_t micro_batch = job.batch_size() / share.all_micro_batches;
  WEFT_ASSIGN_OR_RETURN(Graph model, BuildJobModel(os, job, data, micro_batch));
  WEFT_RETURN_IF_ERROR(CheckBatch(model, job, share));
  WEFT_RETURN_IF_ERROR(ApplyPlacement(job, &model));
  WEFT_RETURN_IF_ERROR(PlaceOnRanks(job, share, &model));
  Programs out;
  WEFT_ASSIGN_OR_RETURN(out.classes, CountLogits(model));
  WEFT_ASSIGN_OR_RETURN(
      TrainingSpec spec,
      MakeTrainingSpec(job, data, out.classes, share.all_micro_batches));
  WEFT_ASSIGN_OR_RETURN(Graph train, training::BuildTrainGraph(model, spec));
  if (StateBytes(train) > options.max_state_bytes) {
    return MakeError(ErrorCode::kOutOfMemory,
                     absl::StrCat("model '", model.name(),
                                  "': the variables of training "
                                  "take ",
                                  StateBytes(train), " bytes, at most ",
                                  options.max_state_bytes, " can be had"));
  }
  WEFT_ASSIGN_OR_RETURN(Graph init,
                        training::BuildInitGraph(train, job.seed()));
  WEFT_ASSIGN_OR_RETURN(Graph save, training::BuildSaveGraph(train));
  WEFT_ASSIGN_OR_RETURN(Graph load, training::BuildLoadGraph(train));
  // The order of the map is the order of the state: training's comes last by
  // name, so it is added to the layout first, below.
  out.graphs.emplace("train", std::move(train));
  out.graphs.emplace("init", std::move(init));
  out.graphs.emplace("save", std::move(save));
  out.graphs.emplace("load", std::move(load));
  if (data.has_eval) {
    WEFT_ASSIGN_OR_RETURN(Graph eval, training::BuildEvalGraph(model, spec));
    out.graphs.emplace("eval", std::move(eval));
  }
  Build build{devices,
              compute_device,
              oracle,
              options,
              share,
              static_cast<int>(job.runtime().register_copies() != 0
                                   ? job.runtime().register_copies()
                                   : job.data().prefetch())};
  std::vector<const Graph*> layout_order = {&out.graphs.at("train")};
  RankPrograms mine(job, share);
  if (share.differ() || share.zero > 0 || job.sharding_size() > 0) {
    out.whole = out.graphs.at("train").Clone();
  }
  WEFT_RETURN_IF_ERROR(mine.SplitValues(&out.graphs));
  for (auto& [program, graph] : out.graphs) {
    WEFT_RETURN_IF_ERROR(RunPasses(build, program, job.seed(), &graph));
  }
  WEFT_RETURN_IF_ERROR(mine.TakeShare(&out.graphs));
  for (const auto& [program, graph] : out.graphs) {
    if (program != "train") layout_order.push_back(&graph);
  }
  WEFT_ASSIGN_OR_RETURN(out.state,
                        PlanState(layout_order, devices, compute_device));
  for (const auto& [program, graph] : out.graphs) {
    WEFT_ASSIGN_OR_RETURN(out.plans[program],
                          CompileProgram(build, program, graph, out.state));
  }
  return out;
}

// Of all arenas of the training plan.
uint64_t TrainingBytes(const Programs& programs) {
  uint64_t bytes = 0;
  for (const plan::Arena& arena : programs.plans.at("train").arenas()) {
    bytes += arena.bytes();
  }
  return bytes;
}

}  // namespace

absl::StatusOr<Programs> BuildPrograms(Os& os, const job::Job& job,
                                       const DataInfo& data,
                                       const std::vector<plan::Device>& devices,
                                       const std::string& compute_device,
                                       CapabilityOracle& oracle,
                                       const ProgramOptions& options) {
  auto build = [&](const job::Job& as, const ProgramOptions& with) {
    return BuildAsAsked(os, as, data, devices, compute_device, oracle, with);
  };
  // Ranks must take the same form of the graph, whatever their own parts of it
  // would gain.
  const bool alone = !options.share.has_value() || options.share->ranks == 1;
  if (job.runtime().recompute() == 0 || !alone) return build(job, options);
  // What is computed again may cost fusions and layouts that kept less alive.
  job::Job keeps_all = job;
  keeps_all.mutable_runtime()->set_recompute(0);
  ProgramOptions trial = options;
  trial.dumps = {};  // written below, of what is chosen alone
  WEFT_ASSIGN_OR_RETURN(Programs asked, build(job, trial));
  WEFT_ASSIGN_OR_RETURN(Programs kept, build(keeps_all, trial));
  const uint64_t with = TrainingBytes(asked), without = TrainingBytes(kept);
  const bool pays = with < without;
  Programs chosen = std::move(pays ? asked : kept);
  if (!options.dumps.dump_to.empty()) {
    WEFT_ASSIGN_OR_RETURN(chosen, build(pays ? job : keeps_all, options));
  }
  chosen.recompute_note =
      absl::StrCat("runtime.recompute: ", with, " bytes with it, ", without,
                   " without: ", pays ? "computes again" : "keeps all");
  return chosen;
}

}  // namespace weft
