#include "tools/weft/trainer.h"

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/observe/run_directory.h"
#include "tools/weft/prepare.h"
#include "tools/weft/process_rank.h"
#include "tools/weft/scalar_sinks.h"
#include "tools/weft/state_io.h"
#include "tools/weft/training_run.h"
#include "tools/weft/virtual_ranks.h"

namespace weft {

absl::StatusOr<std::string> ResumedDirectory(const TrainOptions& options) {
  std::string directory = RunDirectoryOf(*options.os, options.resume);
  if (!directory.empty() || !options.job_path.empty()) return directory;
  return MakeError(ErrorCode::kCheckpointMissing,
                   absl::StrCat("'", options.resume,
                                "' is no run directory and lies in none (no "
                                "resolved_job.txtpb); a checkpoint alone needs "
                                "the job file too"));
}

std::string RunDirectoryOf(Os& os, const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path at =
      (fs::absolute(path, error).lexically_normal() / "").parent_path();
  for (int above = 0; above <= 2; ++above) {
    if (os.Exists(at / "resolved_job.txtpb")) return at.string();
    at = at.parent_path();
  }
  return "";
}

std::string MetricsText(const EvalResult& eval) {
  if (eval.text) {
    return absl::StrFormat("test perplexity %.4f  bits per byte %.4f",
                           eval.perplexity, eval.bits_per_byte);
  }
  return absl::StrFormat("test accuracy %.4f", eval.accuracy);
}

absl::StatusOr<TrainResult> Train(const TrainOptions& options) {
  if (options.worker.has_value()) return TrainProcessRank(options);
  TrainOptions resolved = options;
  if (!options.resume.empty()) {
    WEFT_ASSIGN_OR_RETURN(resolved.resume, ResumedDirectory(options));
  }
  WEFT_ASSIGN_OR_RETURN(job::Job job, ReadJob(resolved));
  absl::StatusOr<observe::RunDirectory> directory =
      resolved.resume.empty()
          ? observe::RunDirectory::Create(*options.os, *options.clock,
                                          options.runs_dir, job.name())
          : observe::RunDirectory::Open(*options.os, resolved.resume);
  if (!directory.ok()) return directory.status();
  if (options.virtual_ranks > 1) {
    return TrainVirtualRanks(options, job, *std::move(directory));
  }
  TrainingRun run(options, job, *std::move(directory));
  return run.Execute();
}

absl::StatusOr<EvalResult> Evaluate(const TrainOptions& options) {
  TrainOptions resolved = options;
  WEFT_ASSIGN_OR_RETURN(resolved.resume, ResumedDirectory(options));
  WEFT_ASSIGN_OR_RETURN(job::Job job, ReadJob(resolved));
  WEFT_RETURN_IF_ERROR(TakeOffRanks(&job));
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Prepared> prepared,
                        Prepare(options, job));
  if (prepared->eval_reader == nullptr) {
    return MakeError(
        ErrorCode::kBadJob,
        "the job names no data.eval, and no eval_fraction of a text");
  }
  WEFT_ASSIGN_OR_RETURN(checkpoint::Loaded loaded,
                        checkpoint::Load(*options.os, options.resume));
  StateBuffers state(prepared->programs.training());
  WEFT_RETURN_IF_ERROR(state.Fill(loaded));
  EvalSums sums;
  ScalarSinks sinks(EvaluationMetrics(job),
                    [&](uint64_t step, const ScalarSinks::Values& values) {
                      sums.Add(values);
                      return absl::OkStatus();
                    });
  WEFT_ASSIGN_OR_RETURN(
      auto session,
      runtime::Session::Create(prepared->devices.pointers(),
                               SessionOptionsOf(options, *prepared)));
  runtime::Bindings eval = sinks.bindings();
  eval.sources["eval"] = prepared->eval_reader.get();
  WEFT_RETURN_IF_ERROR(session->LoadProgram(prepared->programs.plans.at("load"),
                                            state.LoadBindings()));
  WEFT_RETURN_IF_ERROR(
      session->LoadProgram(prepared->programs.plans.at("eval"), eval));
  WEFT_RETURN_IF_ERROR(session->Run("load", 0, 1).status());
  WEFT_RETURN_IF_ERROR(
      session->Run("eval", 0, prepared->eval_reader->StepsOf(1)).status());
  return sums.Result(prepared->eval_bytes);
}

}  // namespace weft
