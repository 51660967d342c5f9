// Trainer: a job from its file to a trained model. It opens the devices, reads
// the data, builds and compiles the programs, runs them in a session, and
// leaves metrics, checkpoints and errors in a run directory.
//
//   TrainOptions options;
//   options.job_path = "examples/fashion_mnist_mlp.txtpb";
//   WEFT_ASSIGN_OR_RETURN(TrainResult result, Train(options));
//   result.eval.accuracy;
//
// One run: init or load, then train up to the next evaluation or checkpoint,
// evaluate or save, and so on; at the end evaluate and save. A stop on request
// (Session::RequestStop, through `on_session`) finishes the step, saves, and is
// said in the result.
//
// A job that is refused leaves nothing. From the moment that everything that it
// asks for is there and fits, errors leave errors/rank_00000.json in the run
// directory.
//
// Threading: one run at a time.
#ifndef WEFT_TOOLS_WEFT_TRAINER_H_
#define WEFT_TOOLS_WEFT_TRAINER_H_

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/pass/pipeline.h"
#include "core/base/clock.h"
#include "core/base/env.h"
#include "core/base/os.h"
#include "plugins/host/plugin.h"
#include "plugins/host/transport.h"
#include "runtime/observe/profile_report.h"
#include "runtime/pool/host_threads.h"
#include "runtime/rendezvous/rendezvous.h"
#include "runtime/rendezvous/worker_spec.h"
#include "runtime/session/session.h"
#include "runtime/wire/wire.h"

namespace weft {

// Which steps a profile records: `steps` of them after `warm_up` others.
struct ProfileWindow {
  uint64_t warm_up = 5;
  uint64_t steps = 50;
};

// One rank of several, or one process that others watch. Borrows what it
// points to.
struct RankLink {
  uint32_t rank = 0;
  uint32_t ranks = 1;
  runtime::Rendezvous* rendezvous = nullptr;       // null: no other ranks
  std::vector<runtime::WireTransport> transports;  // the best first
  const runtime::HostThreads* threads = nullptr;   // of all ranks of a process
  DomainConfig domain;          // of this rank, without options
  uint32_t ranks_of_host = 1;   // that take of the same memory
  uint32_t ranks_on_cores = 1;  // processes that take of the same cores
  bool process = false;         // it has one of its own, with a log of its own
};

struct TrainOptions {
  std::string job_path;           // empty with `resume`: the run's own job
  std::vector<std::string> sets;  // --set
  std::string runs_dir = "runs";  // where a run directory is made
  std::string resume;             // run directory or checkpoint to go on from
  LoadOptions plugins;
  Environment env;
  PipelineOptions dumps;
  uint64_t launch_order_seed = 0;        // CompileOptions
  std::optional<ProfileWindow> profile;  // Train: recorded on the way
  // Prepare: whether a job that does not fit in memory is refused. Off for who
  // only looks at plans.
  bool check_memory = true;
  bool progress = true;
  std::FILE* talk = stderr;  // where a run says what it does
  int64_t started_ns = 0;    // RealClock at the program's start; 0: not timed
  // Ranks as threads of this process; Train runs them all.
  uint32_t virtual_ranks = 1;
  // This process is a rank of several, or launched as if; Train runs that one.
  std::optional<runtime::WorkerSpec> worker;
  // Transports between ranks, the best first: "shm,grpc". Empty or "auto": what
  // suits ranks of their kind.
  std::string transport;
  // Options of the one transport, as a device's: "delay_max=8&...".
  std::string transport_options;
  // Of ranks that are processes: how long one may be silent, and how long all
  // have to come.
  uint64_t peer_timeout_ns = 3'500'000'000;
  uint64_t join_timeout_ns = 300'000'000'000;
  RankLink link;  // of the one rank that a run is
  Os* os = &RealOs();
  Clock* clock = &RealClock();
  // Called with the session before it runs and with null before it goes.
  std::function<void(runtime::Session*)> on_session;
};

struct EvalResult {
  double loss = 0;           // mean over samples
  bool text = false;         // of text, not of images
  double accuracy = 0;       // of images
  double samples = 0;        // images or tokens; 0: not evaluated
  double perplexity = 0;     // of text: e^loss; 0 for images
  double bits_per_byte = 0;  // of text, whatever its tokens are
};

// For people, without the loss: "test accuracy 0.9123".
std::string MetricsText(const EvalResult& eval);

struct TrainResult {
  std::string run_directory;
  std::string checkpoint;  // the last one
  uint64_t steps = 0;      // of the whole training, resumed steps included
  bool stopped = false;    // on request, before the last step
  uint64_t new_steps = 0;  // of those, done by this call
  double final_loss = 0;   // of the last one, where there is a new one
  EvalResult eval;
  double first_step_seconds = 0;  // from the start of the program
  double inflate_seconds = 0;     // of that, reading and inflating data
  std::map<std::string, uint64_t> device_bytes;  // allocated, by device
  // Of options.profile, unless the run was stopped before.
  std::optional<runtime::ProfileReport> profile;
};

absl::StatusOr<TrainResult> Train(const TrainOptions& options);

// The run directory that `path`, of a run or a checkpoint, names or lies in;
// empty where there is none.
std::string RunDirectoryOf(Os& os, const std::string& path);

// Evaluates a checkpoint on the job's evaluation data; makes no run directory.
// `options.resume` names the checkpoint.
absl::StatusOr<EvalResult> Evaluate(const TrainOptions& options);

// Trains for the steps of `window` and says where their time went. Makes no run
// directory and keeps nothing; the job's own number of steps does not matter.
// kBadValue for a window without steps.
absl::StatusOr<runtime::ProfileReport> Profile(const TrainOptions& options,
                                               const ProfileWindow& window);

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_TRAINER_H_
