// What it costs to make a rank's plan: from a model to a plan that is proven,
// for growing models and numbers of ranks. Each rank runs two micro-batches of
// a step; the plan is that of rank 0. The one device answers at once and
// runs all ops, so this is the compiler alone.
//
//   compile --layers=25,50,100,200 --ranks=1,8,64
//   compile --model=resnet18 --ranks=1
//   compile --layers=12 --width=512 --ranks=48,64
//   compile --layers=50 --ranks=64 --algorithm=ring
//
// RESULT lines (benchmarks/result.h), one a metric: nodes after passes and
// after they are shared out, tasks, bytes of the plan, seconds of each phase
// and of all. The plan's hash comes in a line of its own: two compilers that
// make the same plans print the same hashes.
#include "compiler/compile.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/result.h"
#include "compiler/collectives/kinds.h"
#include "compiler/memory/state_layout.h"
#include "compiler/pass/registry.h"
#include "compiler/placement/capability_cache.h"
#include "compiler/placement/placement.h"
#include "compiler/sharding/lower.h"
#include "compiler/sharding/sharding.h"
#include "compiler/testing/fake_oracle.h"
#include "compiler/training/training.h"
#include "core/base/status_macros.h"
#include "core/graph/graph.h"
#include "glog/logging.h"
#include "models/model.h"

namespace weft::benchmarks {
namespace {

struct Options {
  std::string model = "gpt";
  std::vector<int> layers = {25, 50, 100, 200};
  std::vector<int> ranks = {1, 8, 64};
  int width = 8;
  std::string algorithm = "auto";
  bool tree = false;
  int parts = 1;
};

// Seconds by phase, in order.
class Phases {
 public:
  void Done(absl::string_view phase) {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> took = now - last_;
    seconds_.emplace_back(phase, took.count());
    last_ = now;
  }
  const std::vector<std::pair<std::string, double>>& seconds() const {
    return seconds_;
  }

 private:
  std::chrono::steady_clock::time_point last_ =
      std::chrono::steady_clock::now();
  std::vector<std::pair<std::string, double>> seconds_;
};

absl::StatusOr<Graph> BuildTraining(const Options& options, int layers,
                                    int ranks) {
  models::ModelInput input;
  input.batch = std::max(2, options.parts);
  models::ModelArgs args;
  training::TrainingSpec spec;
  spec.micro_batches = 2 * ranks / options.parts;
  spec.optimizer.kind = training::OptimizerSpec::Kind::kAdamW;
  spec.optimizer.clip_norm = 1;
  spec.optimizer.weight_decay = 0.01;
  if (options.model == "gpt") {
    input.classes = 16;
    input.context = 8;
    args = {{"layers", absl::StrCat(layers)},
            {"width", absl::StrCat(options.width)},
            {"heads", absl::StrCat(std::max(2, options.parts))}};
  } else {
    input.image = Shape({28, 28});
    spec.data.image = input.image;
  }
  spec.data.classes = input.classes;
  spec.data.context = input.context;
  WEFT_ASSIGN_OR_RETURN(Graph model,
                        models::BuildModel(options.model, args, input));
  return training::BuildTrainGraph(model, spec);
}

absl::Status RunPasses(const std::vector<plan::Device>& devices,
                       CapabilityOracle* oracle, Graph* graph) {
  WEFT_ASSIGN_OR_RETURN(Pipeline pipeline, MakeNamedPipeline("default"));
  PassContext context;
  context.settings.training = true;
  PlacementOptions placing;
  placing.devices = devices;
  CapabilityCache cache(oracle);
  context.settings.runs_as_kernel = [&](const Graph& g, const Node& node) {
    return RunsAsKernel(g, node, placing, &cache);
  };
  return pipeline.Run(*graph, context).status();
}

absl::StatusOr<CollectiveAlgorithm> AlgorithmOf(const Options& options) {
  for (int i = 0; i < kNumCollectiveAlgorithms; ++i) {
    const auto algorithm = static_cast<CollectiveAlgorithm>(i);
    if (Name(algorithm) == options.algorithm) return algorithm;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no algorithm '", options.algorithm, "'"));
}

// Rank 0's part on one axis of a mesh.
absl::Status TakeShare(const Options& options, int axis, int micro_batches,
                       const Mesh& mesh, Graph* graph) {
  ShardingSpec spec;
  spec.meshes = {mesh.Through(0, {axis})};
  spec.shares_micro_batches = axis == 0;
  spec.micro_batches = micro_batches;
  LoweringOptions lowering;
  WEFT_ASSIGN_OR_RETURN(lowering.algorithm, AlgorithmOf(options));
  lowering.fixed_order = options.tree;
  WEFT_ASSIGN_OR_RETURN(Sharding sharding, ChooseSharding(*graph, spec));
  WEFT_ASSIGN_OR_RETURN(*graph,
                        LowerSharding(*graph, spec, sharding, lowering));
  return absl::OkStatus();
}

absl::Status Run(const Options& options, int layers, int ranks) {
  FakeOracle oracle;
  CompileOptions compile;
  compile.devices = {HostDevice()};
  compile.micro_batches = 2;
  compile.ranks = static_cast<uint32_t>(ranks);

  Phases phases;
  compile.done = [&](absl::string_view step) { phases.Done(step); };
  WEFT_ASSIGN_OR_RETURN(Graph graph, BuildTraining(options, layers, ranks));
  phases.Done("build");
  WEFT_ASSIGN_OR_RETURN(Mesh mesh,
                        Mesh::Create({{"data", ranks / options.parts},
                                      {"model", options.parts}}));
  const int micro_batches = compile.micro_batches * mesh.axis(0).size;
  if (options.parts > 1) {
    WEFT_RETURN_IF_ERROR(TakeShare(options, 1, micro_batches, mesh, &graph));
    phases.Done("values");
  }
  WEFT_RETURN_IF_ERROR(RunPasses(compile.devices, &oracle, &graph));
  phases.Done("passes");
  const int nodes = graph.num_nodes();
  if (mesh.axis(0).size > 1) {
    WEFT_RETURN_IF_ERROR(TakeShare(options, 0, micro_batches, mesh, &graph));
  }
  phases.Done("lowering");
  WEFT_ASSIGN_OR_RETURN(plan::Plan plan, Compile(graph, compile, oracle));

  std::string name = options.model;
  if (options.model == "gpt") absl::StrAppend(&name, " L=", layers);
  absl::StrAppend(&name, " R=", ranks);
  const auto print = [&](absl::string_view metric, double value,
                         const char* unit) {
    PrintResult("compile", name, std::string(metric), {value}, unit);
  };
  print("nodes", nodes, "");
  print("nodes of the rank", graph.num_nodes(), "");
  print("tasks", plan.tasks_size(), "");
  print("channels", plan.channels_size(), "");
  print("plan", plan.ByteSizeLong() / 1024.0, "KiB");
  double all = 0;
  for (const auto& [phase, seconds] : phases.seconds()) {
    print(phase, seconds, "s");
    all += seconds;
  }
  print("all", all, "s");
  print("all, of a task", 1e6 * all / plan.tasks_size(), "us");
  std::printf("# %s: plan %s\n", name.c_str(),
              absl::StrCat(absl::Hex(plan.hash(), absl::kZeroPad16)).c_str());
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("What it costs to make a rank's plan");
  app.add_option("--model", options.model, "gpt, mlp, lenet, resnet18");
  app.add_option("--layers", options.layers, "of gpt")->delimiter(',');
  app.add_option("--width", options.width, "of gpt, an even number");
  app.add_option("--ranks", options.ranks)->delimiter(',');
  app.add_option("--algorithm", options.algorithm, "of the sums over ranks");
  app.add_option("--parts", options.parts,
                 "ranks of an axis that shares values; divides --ranks");
  app.add_flag("--tree", options.tree, "only sums of the order class TREE");
  CLI11_PARSE(app, argc, argv);
  if (options.model != "gpt") options.layers = {0};
  for (int ranks : options.ranks) {
    for (int layers : options.layers) {
      const absl::Status done = Run(options, layers, ranks);
      CHECK(done.ok()) << done;
    }
  }
  return 0;
}

}  // namespace
}  // namespace weft::benchmarks

int main(int argc, char** argv) { return weft::benchmarks::Main(argc, argv); }
