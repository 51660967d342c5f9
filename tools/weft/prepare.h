// Everything that comes before a session: the resolved job, its open devices,
// its data, and the compiled programs. Commands that only look (plan show) stop
// here.
//
// Threading: thread-compatible.
#ifndef WEFT_TOOLS_WEFT_PREPARE_H_
#define WEFT_TOOLS_WEFT_PREPARE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/job.pb.h"
#include "runtime/data/samples.h"
#include "runtime/pool/host_threads.h"
#include "runtime/session/session.h"
#include "tools/weft/devices.h"
#include "tools/weft/programs.h"
#include "tools/weft/ranks.h"
#include "tools/weft/trainer.h"

namespace weft {

struct Prepared {
  job::Job job;
  RankShare share;
  // Before the devices: kernels may use the threads until the last one closes.
  std::unique_ptr<runtime::HostThreads> own_threads;
  // These or, of one rank of several, those of the process.
  const runtime::HostThreads* threads = nullptr;
  bool binds = true;  // the first worker takes the first core
  JobDevices devices;
  std::unique_ptr<data::Samples> train_data;
  std::unique_ptr<data::Samples> eval_data;  // null: nothing to evaluate on
  std::string fingerprint;                   // of the training data
  double read_seconds = 0;                   // of all data, from its files
  int64_t eval_bytes = 0;  // of the text that is predicted; 0 for images
  DataInfo info;           // what the data says about the programs
  std::unique_ptr<data::BatchReader> train_reader;
  std::unique_ptr<data::BatchReader> eval_reader;  // null without eval_data
  int64_t total_steps = 0;
  Programs programs;

  double EpochOf(uint64_t step) const;
};

// The sink of a dynamic loss scale.
inline constexpr absl::string_view kLossScaleMetric = "loss_scale";

// The names of the training program's sinks, one number a step each.
std::vector<std::string> TrainingMetrics(const job::Job& job);

// The same of the evaluation program: sums over a batch.
std::vector<std::string> EvaluationMetrics(const job::Job& job);

// Reads the job file of `options`, or the resolved job of the run to resume.
absl::StatusOr<job::Job> ReadJob(const TrainOptions& options);

// The rest. `job` is resolved. Readers point into the result: it does not move.
absl::StatusOr<std::unique_ptr<Prepared>> Prepare(const TrainOptions& options,
                                                  const job::Job& job);

// Workers at most of one of `ranks` that share `cores`; 0: as many as its plans
// have. Who reads data waits for nothing but a core: without one of its own it
// would only make others give theirs up.
uint32_t MaxWorkers(uint32_t cores, uint32_t ranks);

// How a session of these programs uses the threads and the cores.
runtime::SessionOptions SessionOptionsOf(const TrainOptions& options,
                                         const Prepared& prepared);

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_PREPARE_H_
