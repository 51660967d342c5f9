// From a job to plans: builds the model, its programs (init, load, train, eval,
// save) and compiles each over one state layout.
//
//   WEFT_ASSIGN_OR_RETURN(
//       Programs p, BuildPrograms(RealOs(), job, info, devices.plan(),
//                                 /*compute_device=*/"sim:0", oracle));
//   p.plans.at("train");
//
// Threading: thread-safe as long as the oracle is.
#ifndef WEFT_TOOLS_WEFT_PROGRAMS_H_
#define WEFT_TOOLS_WEFT_PROGRAMS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/capability.h"
#include "compiler/memory/state_layout.h"
#include "compiler/pass/pipeline.h"
#include "compiler/training/training.h"
#include "core/base/os.h"
#include "core/graph/graph.h"
#include "core/proto/job.pb.h"
#include "core/proto/plan.pb.h"
#include "tools/weft/ranks.h"

namespace weft {

// What a job's data says about its programs.
struct DataInfo {
  Shape image;          // of one sample; nothing for text
  int64_t classes = 0;  // that the labels have; of text, its vocabulary
  int64_t total_steps = 0;
  bool has_eval = false;
  int64_t context = 0;  // tokens of one sample; 0: images
};

struct ProgramOptions {
  PipelineOptions dumps;
  uint64_t launch_order_seed = 0;
  bool strict = false;
  // kOutOfMemory for a model whose variables take more.
  uint64_t max_state_bytes = ~uint64_t{0};
  // Whose programs they are; none: those of a job on one rank.
  std::optional<RankShare> share;
};

struct Programs {
  int64_t classes = 0;  // of the model
  // By program name; logical graphs after their passes, and what they became.
  std::map<std::string, Graph> graphs;
  std::map<std::string, plan::Plan> plans;
  StateLayout state;
  // Where ranks do different things: the training program of all, which has all
  // variables, whole.
  std::optional<Graph> whole;
  const Graph& training() const {
    return whole.has_value() ? *whole : graphs.at("train");
  }
  // What became of a job's runtime.recompute; empty where it is 0.
  std::string recompute_note;
};

// The model of a job: its input and logits, nothing else. `batch`: samples of a
// micro-batch.
absl::StatusOr<Graph> BuildJobModel(Os& os, const job::Job& job,
                                    const DataInfo& data, int64_t batch);

// Of all variables of a training program.
uint64_t StateBytes(const Graph& train);

// Of a step of all ranks. Pre-condition: `job` is resolved (tools/weft/job.h).
absl::StatusOr<training::TrainingSpec> MakeTrainingSpec(const job::Job& job,
                                                        const DataInfo& data,
                                                        int64_t classes,
                                                        int64_t micro_batches);

// With runtime.recompute both forms are compiled, and the one whose training
// takes less memory is taken: keeping all where they are equal.
absl::StatusOr<Programs> BuildPrograms(Os& os, const job::Job& job,
                                       const DataInfo& data,
                                       const std::vector<plan::Device>& devices,
                                       const std::string& compute_device,
                                       CapabilityOracle& oracle,
                                       const ProgramOptions& options = {});

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_PROGRAMS_H_
