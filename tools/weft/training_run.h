// TrainingRun: one run of Train (trainer.h), step by step, with the state that
// its steps share.
//
//   StartSession -> StartState (init, or load when resuming) -> TrainLoop:
//     train up to the next evaluation or checkpoint, evaluate, save, again
//
// With several ranks each has a TrainingRun of its own, which runs the same
// programs for the same steps. The first, which *leads*, tells people and
// leaves the files; the others leave what concerns them alone (traces, errors,
// and the log of a process).
// They stop together: at the end of a chunk of steps all ask each other.
//
// Sinks call OnStep and OnEvalBatch on a worker while the calling thread is in
// Session::Run and now and then writes the steps since to metrics.jsonl
// (WriteSteps): a write for each of them would take the worker, which computes,
// long. What both touch meanwhile is behind mu_.
//
// Threading: one thread makes and executes it. Ownership: borrows the options
// and the job.
#ifndef WEFT_TOOLS_WEFT_TRAINING_RUN_H_
#define WEFT_TOOLS_WEFT_TRAINING_RUN_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/proto/checkpoint.pb.h"
#include "core/proto/job.pb.h"
#include "runtime/observe/metrics.h"
#include "runtime/observe/progress.h"
#include "runtime/observe/run_directory.h"
#include "runtime/observe/run_log.h"
#include "runtime/observe/trace.h"
#include "runtime/session/session.h"
#include "tools/weft/prepare.h"
#include "tools/weft/profiler.h"
#include "tools/weft/scalar_sinks.h"
#include "tools/weft/state_io.h"
#include "tools/weft/trainer.h"

namespace weft {

// Sums over the batches of an evaluation.
struct EvalSums {
  double loss = 0;
  double weight = 0;
  double correct = 0;  // of images

  void Add(const ScalarSinks::Values& values) {
    loss += values[0];
    weight += values[1];
    if (values.size() > 2) correct += values[2];
  }
  // `text_bytes`: what the samples stand for; 0 for images.
  EvalResult Result(int64_t text_bytes) const;
};

// The run directory that `options.resume` names, or lies in. Empty for a
// checkpoint outside of one, which needs a job file beside it.
absl::StatusOr<std::string> ResumedDirectory(const TrainOptions& options);

class TrainingRun {
 public:
  TrainingRun(const TrainOptions& options, const job::Job& job,
              observe::RunDirectory directory)
      : options_(options), job_(job), directory_(std::move(directory)) {
    result_.run_directory = directory_.path();
  }

  // Everything from the job to the last checkpoint. A failure also leaves
  // errors/rank_00000.json, or, where nothing of a new run has begun yet, no
  // run directory. Call once.
  absl::StatusOr<TrainResult> Execute();

 private:
  struct SeenStep {
    uint64_t step;
    ScalarSinks::Values values;
  };

  absl::Status ExecuteSteps();
  void ForgetFailures();
  // At the end of a run: an error file, or no directory where it had not begun.
  void LeaveFailure(const absl::Status& status);
  // From any thread, after which the process ends: the error file.
  void LeaveLastWords(const absl::Status& status);
  absl::Status SavePlan();
  // The plans of all ranks fit together: proved by the first.
  absl::Status ProveJob();
  // Of a program, on all ranks.
  absl::StatusOr<uint64_t> TasksOfAll(const std::string& program);
  absl::Status ProveProgram(const std::string& program);
  // Where they are too many to be proved: whether both ends of all channels say
  // the same.
  absl::Status StartSession();
  absl::Status LoadPrograms();
  absl::Status StartState();
  absl::Status Resume();
  void SayWhatChanged();
  absl::Status OpenMetrics();
  absl::Status TrainLoop();
  absl::Status RunEvaluation();
  absl::Status SaveCheckpoint(bool last);
  // After a save, of all ranks that have what was saved.
  absl::Status CompareState() const;
  absl::Status WriteProfile();
  absl::Status WriteTrace();
  absl::StatusOr<uint64_t> RunSteps(uint64_t steps);
  absl::StatusOr<uint64_t> RunTogether(uint64_t steps);
  absl::StatusOr<uint64_t> AgreeOnSteps(uint64_t step);
  absl::StatusOr<uint64_t> RunAlone(uint64_t step, uint64_t steps,
                                    const runtime::RunOptions& run);
  bool leads() const { return options_.link.rank == 0; }
  // "errors/rank_00001.json".
  std::string RankFile(absl::string_view folder,
                       absl::string_view suffix) const;
  absl::Status OnStep(uint64_t step, const ScalarSinks::Values& values);
  // The lines of metrics.jsonl of what OnStep has seen.
  absl::Status WriteSteps();
  observe::MetricsRecord RecordOf(const SeenStep& seen) const;
  absl::Status OnEvalBatch(const ScalarSinks::Values& values);
  uint64_t NextStop() const;
  // The first step later than `after` that an evaluation follows.
  uint64_t NextEvalStep(uint64_t after) const;
  checkpoint::TrainState State() const;
  void Describe();
  void Talk(const std::string& line);

  const TrainOptions& options_;
  const job::Job& job_;
  observe::RunDirectory directory_;
  TrainResult result_;
  std::unique_ptr<observe::RunLog> log_;
  std::unique_ptr<Prepared> prepared_;
  std::unique_ptr<StateBuffers> state_;
  std::unique_ptr<ScalarSinks> train_sinks_;
  std::unique_ptr<ScalarSinks> eval_sinks_;
  std::vector<std::string> train_names_;
  std::unique_ptr<runtime::TraceLog> trace_;
  std::unique_ptr<Profiler> profiler_;  // null: not asked for
  std::unique_ptr<observe::Progress> progress_;
  std::unique_ptr<runtime::Session> session_;
  // Everything that the job asks for is there and fits: from here on, a failure
  // is the run's.
  bool begun_ = false;
  uint64_t step_ = 0;                 // updates done, at rest
  std::atomic<uint64_t> reached_{0};  // updates done, for other threads
  uint64_t nanoseconds_a_step_ = 0;   // of the last that ranks ran together
  uint64_t first_step_ = 0;  // of this run, which may go on with another
  static constexpr uint64_t kNever = ~uint64_t{0};
  uint64_t gathered_step_ = kNever;  // of the state that the leader has
  uint64_t saved_step_ = kNever;     // of the last good checkpoint
  absl::Status save_error_;          // of the last save, where it failed
  // The history that a resumed run continues has step_'s evaluation already.
  bool evaluated_ = false;
  EvalSums sums_;
  std::unique_ptr<observe::MetricsLog> metrics_;  // of the first rank
  Mutex mu_;
  std::vector<SeenStep> seen_ WEFT_GUARDED_BY(mu_);  // and not written
};

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_TRAINING_RUN_H_
