#include "tools/weft/training_run.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/check/check.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/status_macros.h"
#include "core/base/version.h"
#include "core/plan/job.h"
#include "core/plan/plan_file.h"
#include "runtime/bus/futex_word.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/observe/trace_writer.h"
#include "tools/weft/job.h"
#include "tools/weft/memory_limit.h"
#include "tools/weft/steps_together.h"

namespace weft {
namespace {

using observe::MetricsLog;
using observe::MetricsRecord;
using observe::Progress;
using runtime::Session;

constexpr uint64_t kMaxJobText = uint64_t{4} << 20;
constexpr absl::string_view kJobFile = "resolved_job.txtpb";
constexpr absl::string_view kEvalLoss = "eval_loss";

// How many there are, and who says so: a data set that lacks the last class
// makes another model, which should not surprise.
std::string Classes(const Prepared& prepared) {
  const job::Model& model = prepared.job.model();
  if (prepared.info.context > 0) {
    return absl::StrCat("vocabulary ", prepared.info.classes, ", context ",
                        prepared.info.context);
  }
  const bool given =
      !model.has_builtin() || model.builtin().args().contains("classes");
  return absl::StrCat(prepared.programs.classes, " classes (",
                      given ? "the model's" : "the labels of data.train", ")");
}

}  // namespace

EvalResult EvalSums::Result(int64_t text_bytes) const {
  EvalResult result;
  result.loss = loss / weight;
  result.samples = weight;
  result.text = text_bytes > 0;
  if (result.text) {
    result.perplexity = std::exp(result.loss);
    result.bits_per_byte =
        loss / std::log(2.0) / static_cast<double>(text_bytes);
  } else {
    result.accuracy = correct / weight;
  }
  return result;
}

absl::StatusOr<TrainResult> TrainingRun::Execute() {
  const ThreadMemoryReport report(
      [this](const absl::Status& status) { LeaveLastWords(status); });
  absl::Status status =
      CatchOutOfMemory("the run", [this] { return ExecuteSteps(); });
  if (IsError(status, ErrorCode::kOutOfMemory)) {
    for (const auto& [device, bytes] : result_.device_bytes) {
      status =
          Annotate(status, absl::StrCat(device, ", ", bytes, " bytes planned"));
    }
  }
  if (progress_ != nullptr) progress_->Clear();
  if (options_.on_session) options_.on_session(nullptr);
  if (options_.link.rendezvous != nullptr) {
    options_.link.rendezvous->SetActs(options_.link.rank, nullptr);
  }
  if (status.ok() && session_ != nullptr) status = session_->Leave();
  if (!status.ok() && options_.link.rendezvous != nullptr) {
    options_.link.rendezvous->Fail(options_.link.rank, status);
    if (session_ != nullptr) session_->GiveUp(status);
    status = options_.link.rendezvous->Verdict(options_.link.rank, status);
  }
  if (status.ok()) return result_;
  if (log_ != nullptr) {
    log_->Write("training_run.cc", __LINE__, status.ToString());
  }
  LeaveFailure(status);
  return status;
}

// Those of an earlier attempt that this one resumes, perhaps on fewer ranks.
void TrainingRun::ForgetFailures() {
  options_.os->RemoveAll(directory_.File(RankFile("errors", "json")))
      .IgnoreError();
  if (!leads()) return;
  absl::StatusOr<std::vector<std::string>> names =
      options_.os->List(directory_.File("errors"));
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    uint32_t rank = 0;
    absl::string_view number = name;
    if (absl::ConsumePrefix(&number, "rank_") &&
        absl::ConsumeSuffix(&number, ".json") &&
        absl::SimpleAtoi(number, &rank) && rank >= options_.link.ranks) {
      options_.os->RemoveAll(directory_.File(absl::StrCat("errors/", name)))
          .IgnoreError();
    }
  }
}

void TrainingRun::LeaveFailure(const absl::Status& status) {
  if (!begun_ && directory_.is_new()) return directory_.Discard();
  if (!begun_ && !leads()) return;
  LeaveLastWords(status);
}

void TrainingRun::LeaveLastWords(const absl::Status& status) {
  std::string json = observe::FailureJson(
      {status, options_.link.rank, reached_}, *options_.clock);
  // Where even this cannot be written, the status itself still says it.
  directory_.Write(RankFile("errors", "json"), json).IgnoreError();
}

std::string TrainingRun::RankFile(absl::string_view folder,
                                  absl::string_view suffix) const {
  return absl::StrFormat("%s/rank_%05d.%s", folder, options_.link.rank, suffix);
}

void TrainingRun::Talk(const std::string& line) {
  if (log_ != nullptr) log_->Write("training_run.cc", __LINE__, line);
  if (!leads()) return;
  if (progress_ != nullptr) progress_->Clear();
  std::fprintf(options_.talk, "weft: %s\n", line.c_str());
  std::fflush(options_.talk);
}

absl::Status TrainingRun::ExecuteSteps() {
  // One log of a process: it has what the libraries say, too.
  if (leads() || options_.link.process) {
    WEFT_ASSIGN_OR_RETURN(
        log_, observe::RunLog::Open(*options_.os, *options_.clock,
                                    directory_.File(RankFile("logs", "log")),
                                    options_.link.rank, options_.link.ranks));
  }
  ForgetFailures();
  // A run that is resumed keeps its own until this job has proved to fit.
  const bool fresh = options_.resume.empty();
  if (fresh && leads()) {
    WEFT_RETURN_IF_ERROR(directory_.Write(kJobFile, JobText(job_)));
  }
  WEFT_ASSIGN_OR_RETURN(prepared_, Prepare(options_, job_));
  result_.inflate_seconds = prepared_->read_seconds;
  WEFT_RETURN_IF_ERROR(ProveJob());
  if (fresh && leads()) WEFT_RETURN_IF_ERROR(SavePlan());
  state_ = std::make_unique<StateBuffers>(prepared_->programs.training());
  WEFT_RETURN_IF_ERROR(StartSession());
  Describe();
  WEFT_RETURN_IF_ERROR(StartState());
  if (!fresh && leads()) {
    WEFT_RETURN_IF_ERROR(directory_.Write(kJobFile, JobText(job_)));
    WEFT_RETURN_IF_ERROR(SavePlan());
  }
  if (leads()) WEFT_RETURN_IF_ERROR(OpenMetrics());
  if (options_.link.rendezvous != nullptr) {
    options_.link.rendezvous->SetActs(options_.link.rank,
                                      [this] { return session_->acts(); });
  }
  WEFT_RETURN_IF_ERROR(TrainLoop());
  WEFT_RETURN_IF_ERROR(WriteProfile());
  return WriteTrace();
}

absl::Status TrainingRun::OpenMetrics() {
  WEFT_ASSIGN_OR_RETURN(
      metrics_,
      MetricsLog::Open(*options_.os, directory_.File("metrics.jsonl"), step_));
  evaluated_ = absl::StrContains(metrics_->last_kept(), kEvalLoss);
  if (const uint64_t lines = metrics_->unknown_lines(); lines > 0) {
    Talk(absl::StrCat("warning: ", lines,
                      " lines of metrics.jsonl are no "
                      "records; they stay as they are"));
  }
  return absl::OkStatus();
}

absl::Status TrainingRun::ProveJob() {
  runtime::Rendezvous* meeting = options_.link.rendezvous;
  if (meeting == nullptr) return absl::OkStatus();
  for (const auto& [program, plan] : prepared_->programs.plans) {
    WEFT_ASSIGN_OR_RETURN(uint64_t tasks, TasksOfAll(program));
    // Else each has proved its own, and the session compares what goes between.
    if (tasks > kMaxProvedTasks && !prepared_->share.differ()) continue;
    WEFT_RETURN_IF_ERROR(ProveProgram(program));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> TrainingRun::TasksOfAll(const std::string& program) {
  WEFT_ASSIGN_OR_RETURN(
      std::vector<std::string> counts,
      options_.link.rendezvous->AllGather(
          options_.link.rank, absl::StrCat("plan/", program, "/tasks"),
          absl::StrCat(prepared_->programs.plans.at(program).tasks_size())));
  uint64_t all = 0;
  for (const std::string& text : counts) {
    uint64_t count = 0;
    if (!absl::SimpleAtoi(text, &count)) {
      return MakeError(ErrorCode::kBadPlan,
                       absl::StrCat("'", text, "' is no number of tasks"));
    }
    all += count;
  }
  return all;
}

absl::Status TrainingRun::ProveProgram(const std::string& program) {
  runtime::Rendezvous* meeting = options_.link.rendezvous;
  const uint32_t rank = options_.link.rank;
  WEFT_ASSIGN_OR_RETURN(
      std::vector<std::string> texts,
      meeting->AllGather(
          rank, absl::StrCat("plan/", program),
          leads() ? ""
                  : prepared_->programs.plans.at(program).SerializeAsString()));
  if (leads()) {
    std::vector<plan::Plan> others(texts.size());
    std::vector<const plan::Plan*> plans = {
        &prepared_->programs.plans.at(program)};
    for (size_t r = 1; r < texts.size(); ++r) {
      if (!others[r].ParseFromString(texts[r])) {
        return MakeError(ErrorCode::kBadPlan,
                         absl::StrCat("the plan of rank ", r, " is no plan"));
      }
      plans.push_back(&others[r]);
    }
    WEFT_ASSIGN_OR_RETURN(plan::Plan job, plan::JoinRanks(plans));
    // Ranks that do not meet in it have proved their own parts already.
    const bool meet = std::any_of(
        plans.begin(), plans.end(),
        [](const plan::Plan* plan) { return plan->channels_size() != 0; });
    if (meet) WEFT_RETURN_IF_ERROR(check::CheckPlan(job));
  }
  return meeting->AllGather(rank, absl::StrCat("plan/", program, "/proved"), "")
      .status();
}

absl::Status TrainingRun::SavePlan() {
  return plan::SavePlan(*options_.os, directory_.File("plan.pb"),
                        prepared_->programs.plans.at("train"));
}

void TrainingRun::Describe() {
  Talk(absl::StrCat("run directory ", directory_.path()));
  const Prepared& p = *prepared_;
  int64_t parameters = 0;
  for (const Node* node : p.programs.training().Nodes()) {
    if (node->Is(OpId::kVariable) &&
        p.programs.training().View(*node).String("role") == "parameter") {
      parameters += node->output_type(0).shape.num_elements();
    }
  }
  Talk(absl::StrCat(
      "version ", kVersion, ", seed ", job_.seed(), ", device ",
      p.devices.Describe(),
      p.share.ranks > 1 ? absl::StrCat(", ranks ", p.share.ranks) : "",
      ", threads ", p.threads->count(),
      p.threads->bound() ? " bound to cores" : "", ", plan ",
      absl::Hex(p.programs.plans.at("train").hash(), absl::kZeroPad16)));
  Talk(absl::StrCat("model ", p.programs.training().name(), ", ", parameters,
                    " parameters, ", Classes(p), "; ", p.train_data->size(),
                    " training samples, ", p.total_steps, " steps of ",
                    job_.batch_size()));
  if (!p.share.unlike_data.empty()) {
    Talk(absl::StrCat(p.share.unlike_data,
                      " compute updates differently: each updates its part of "
                      "the parameters (zero: ",
                      p.share.zero,
                      "), and what stays whole is updated by the first"));
  }
  if (!p.programs.recompute_note.empty()) Talk(p.programs.recompute_note);
  for (const auto& [device, bytes] : result_.device_bytes) {
    Talk(absl::StrCat("memory ", device, " ",
                      absl::StrFormat("%.1f", bytes / 1e6), " MB"));
  }
}

absl::Status TrainingRun::StartSession() {
  runtime::SessionOptions session_options =
      SessionOptionsOf(options_, *prepared_);
  if (!job_.observe().trace_steps().empty()) {
    runtime::TraceLog::Options trace;
    ParseTraceSteps(job_.observe().trace_steps(), &trace.first_step,
                    &trace.last_step);  // the job is resolved: it parses
    const uint64_t total = prepared_->total_steps;
    if (trace.first_step >= total) {
      return MakeError(
          ErrorCode::kBadJob,
          absl::StrCat("observe.trace_steps is '", job_.observe().trace_steps(),
                       "', the run has the steps 0 to ", total - 1));
    }
    trace_ = std::make_unique<runtime::TraceLog>(trace);
    session_options.trace = trace_.get();
  }
  if (options_.profile.has_value()) {
    WEFT_ASSIGN_OR_RETURN(profiler_,
                          Profiler::Create(*prepared_, *options_.profile));
    session_options.profile = profiler_->log();
  }
  session_options.attend = [this] { return WriteSteps(); };
  if (options_.link.rendezvous != nullptr) {
    session_options.wire.emplace();
    session_options.wire->transports = options_.link.transports;
    session_options.wire->rendezvous = options_.link.rendezvous;
    session_options.wire->config = options_.link.domain;
  }
  WEFT_ASSIGN_OR_RETURN(session_, Session::Create(prepared_->devices.pointers(),
                                                  session_options));
  WEFT_RETURN_IF_ERROR(LoadPrograms());
  result_.device_bytes = session_->PlannedBytes();
  if (options_.on_session) options_.on_session(session_.get());
  return absl::OkStatus();
}

absl::Status TrainingRun::LoadPrograms() {
  const std::map<std::string, plan::Plan>& plans = prepared_->programs.plans;
  train_names_ = TrainingMetrics(job_);
  train_sinks_ = std::make_unique<ScalarSinks>(
      train_names_, [this](uint64_t step, const ScalarSinks::Values& values) {
        return OnStep(step, values);
      });
  runtime::Bindings train = train_sinks_->bindings();
  train.sources["train"] = prepared_->train_reader.get();
  WEFT_RETURN_IF_ERROR(session_->LoadProgram(plans.at("train"), train));
  WEFT_RETURN_IF_ERROR(session_->LoadProgram(plans.at("init"), {}));
  WEFT_RETURN_IF_ERROR(
      session_->LoadProgram(plans.at("save"), state_->SaveBindings()));
  WEFT_RETURN_IF_ERROR(
      session_->LoadProgram(plans.at("load"), state_->LoadBindings()));
  if (prepared_->eval_reader == nullptr) return absl::OkStatus();
  eval_sinks_ = std::make_unique<ScalarSinks>(
      EvaluationMetrics(job_),
      [this](uint64_t step, const ScalarSinks::Values& values) {
        return OnEvalBatch(values);
      });
  runtime::Bindings eval = eval_sinks_->bindings();
  eval.sources["eval"] = prepared_->eval_reader.get();
  return session_->LoadProgram(plans.at("eval"), eval);
}

absl::Status TrainingRun::StartState() {
  if (!options_.resume.empty()) {
    absl::Status resumed = Resume();
    bool is_run = options_.os->Exists(JoinPath(options_.resume, kJobFile));
    if (!is_run || !IsError(resumed, ErrorCode::kCheckpointMissing)) {
      return resumed;
    }
    // It was killed before its first checkpoint.
    Talk("no checkpoint to resume from: starting again at step 0");
  }
  begun_ = true;
  runtime::RunOptions whatever;
  whatever.ignore_stop = true;
  return session_->Run("init", 0, 1, whatever).status();
}

absl::Status TrainingRun::Resume() {
  if (leads()) checkpoint::Recover(*options_.os, directory_.path());
  if (options_.link.rendezvous != nullptr) {
    // Nobody reads what the leader still puts in order.
    WEFT_RETURN_IF_ERROR(
        options_.link.rendezvous
            ->AllGather(options_.link.rank, "resume/recovered", "")
            .status());
  }
  WEFT_ASSIGN_OR_RETURN(checkpoint::Loaded loaded,
                        checkpoint::Load(*options_.os, options_.resume));
  WEFT_RETURN_IF_ERROR(state_->Fill(loaded));
  checkpoint::TrainState now = State();
  const checkpoint::TrainState& then = loaded.state;
  auto differs = [&](absl::string_view what, auto a, auto b) {
    return MakeError(
        ErrorCode::kCheckpointForeign,
        absl::StrCat("checkpoint '", loaded.directory, "' was made with ", what,
                     " ", a, ", the job has ", b,
                     "; the run could not go on as it was"));
  };
  if (then.seed() != now.seed()) {
    return differs("seed", then.seed(), now.seed());
  }
  if (then.batch_size() != now.batch_size()) {
    return differs("batch_size", then.batch_size(), now.batch_size());
  }
  if (then.micro_batches() != now.micro_batches()) {
    const uint32_t ranks = options_.link.ranks;
    return differs("micro_batches", then.micro_batches(),
                   absl::StrCat(now.micro_batches(), " on ", ranks,
                                ranks == 1 ? " rank" : " ranks"));
  }
  if (then.data() != now.data()) {
    return differs("training data", then.data(), now.data());
  }
  if (then.step() > static_cast<uint64_t>(prepared_->total_steps)) {
    return MakeError(
        ErrorCode::kBadJob,
        absl::StrCat("checkpoint '", loaded.directory, "' is of step ",
                     then.step(), ", the job ends at step ",
                     prepared_->total_steps,
                     "; ask for more epochs or steps, or resume from an "
                     "earlier checkpoint"));
  }
  if (then.shuffle() != now.shuffle() || then.tail() != now.tail()) {
    return differs("data order",
                   absl::StrCat("shuffle ", then.shuffle(), " ", then.tail()),
                   absl::StrCat("shuffle ", now.shuffle(), " ", now.tail()));
  }
  begun_ = true;
  step_ = saved_step_ = gathered_step_ = then.step();
  reached_ = step_;
  result_.checkpoint = loaded.directory;
  Talk(absl::StrCat("resuming at step ", step_, " from ", loaded.directory));
  SayWhatChanged();
  runtime::RunOptions whatever;
  whatever.ignore_stop = true;
  return session_->Run("load", 0, 1, whatever).status();
}

// A resumed run with another schedule is what some want and others did not
// mean.
void TrainingRun::SayWhatChanged() {
  absl::StatusOr<std::string> text =
      options_.os->ReadFile(directory_.File(kJobFile), kMaxJobText);
  if (!text.ok()) return;  // the checkpoint is of no run directory
  absl::StatusOr<job::Job> before = ParseJob(kJobFile, *text);
  if (!before.ok()) return;
  // One that an older version wrote may lack fields.
  ResolveJob(directory_.File(kJobFile), &*before).IgnoreError();
  const std::string changes = JobChanges(*before, job_);
  if (changes.empty()) return;
  Talk(absl::StrCat("warning: the job is not the one of the checkpoint: ",
                    changes));
}

uint64_t TrainingRun::NextEvalStep(uint64_t after) const {
  const uint32_t every = job_.eval().every_epochs();
  if (eval_sinks_ == nullptr || every == 0) return kNever;
  uint64_t end = 0;
  for (int64_t epochs = every; end <= after; epochs += every) {
    end = prepared_->train_reader->StepsOf(epochs);
  }
  return end;
}

uint64_t TrainingRun::NextStop() const {
  uint64_t stop = prepared_->total_steps;
  uint64_t every = job_.checkpoint().every_steps();
  if (every != 0) stop = std::min(stop, (step_ / every + 1) * every);
  if (profiler_ != nullptr) {
    stop = std::min(stop, profiler_->NextStop(first_step_, step_));
  }
  return std::min(stop, NextEvalStep(step_));
}

// Steps that all ranks run before they ask each other again; 0 where one wants
// to stop. All find the same: they hear the same of all.
absl::StatusOr<uint64_t> TrainingRun::AgreeOnSteps(uint64_t step) {
  const std::string mine = session_->stop_requested()
                               ? std::string(kStopWish)
                               : absl::StrCat(nanoseconds_a_step_);
  WEFT_ASSIGN_OR_RETURN(
      std::vector<std::string> all,
      options_.link.rendezvous->AllGather(
          options_.link.rank, absl::StrCat("train/step ", step), mine));
  return StepsTogether(all);
}

// A rank that stopped by itself would leave the others waiting for its part.
absl::StatusOr<uint64_t> TrainingRun::RunTogether(uint64_t steps) {
  runtime::RunOptions to_the_end;
  to_the_end.ignore_stop = true;
  uint64_t done = 0;
  while (done < steps) {
    WEFT_ASSIGN_OR_RETURN(const uint64_t together, AgreeOnSteps(step_ + done));
    if (together == 0) break;
    const uint64_t chunk = std::min(together, steps - done);
    const uint64_t begin = runtime::NowNs();
    WEFT_RETURN_IF_ERROR(RunAlone(step_ + done, chunk, to_the_end).status());
    nanoseconds_a_step_ = (runtime::NowNs() - begin) / chunk;
    done += chunk;
  }
  return done;
}

absl::StatusOr<uint64_t> TrainingRun::RunAlone(uint64_t step, uint64_t steps,
                                               const runtime::RunOptions& run) {
  if (profiler_ == nullptr) return session_->Run("train", step, steps, run);
  return profiler_->Run(session_.get(), first_step_, step, steps, run);
}

absl::StatusOr<uint64_t> TrainingRun::RunSteps(uint64_t steps) {
  if (options_.link.rendezvous != nullptr) return RunTogether(steps);
  return RunAlone(step_, steps, {});
}

absl::Status TrainingRun::TrainLoop() {
  uint64_t total = prepared_->total_steps;
  bool terminal = isatty(fileno(options_.talk)) != 0;
  if (options_.progress && leads()) {
    progress_ = std::make_unique<Progress>(options_.clock, options_.talk,
                                           terminal, total, job_.batch_size());
  }
  if (step_ == total) {
    Talk(absl::StrCat("nothing is left to do: all ", total,
                      " steps are done already"));
  }
  first_step_ = step_;
  uint64_t every = job_.checkpoint().every_steps();
  while (step_ < total) {
    evaluated_ = false;
    uint64_t stop = NextStop();
    WEFT_ASSIGN_OR_RETURN(uint64_t done, RunSteps(stop - step_));
    step_ += done;
    reached_ = step_;
    result_.steps = step_;
    result_.new_steps += done;
    if (step_ < stop) {
      result_.stopped = true;
      break;
    }
    if (NextEvalStep(step_ - 1) == step_ && step_ < total) {
      WEFT_RETURN_IF_ERROR(RunEvaluation());
    }
    if (every != 0 && step_ % every == 0 && step_ < total) {
      WEFT_RETURN_IF_ERROR(SaveCheckpoint(/*last=*/false));
    }
    if (progress_ != nullptr) progress_->Pause();
  }
  result_.steps = step_;
  if (!result_.stopped && eval_sinks_ != nullptr) {
    WEFT_RETURN_IF_ERROR(RunEvaluation());
  }
  return SaveCheckpoint(/*last=*/true);
}

absl::Status TrainingRun::OnStep(uint64_t step,
                                 const ScalarSinks::Values& values) {
  double loss = values[0];
  if (options_.link.rendezvous != nullptr) {
    options_.link.rendezvous->Report(options_.link.rank, step + 1);
  }
  double loss_scale = 1;
  double grad_norm = 0;  // looked at where a loss scale may skip steps
  bool scaled = false;
  for (size_t i = 0; i < values.size(); ++i) {
    if (train_names_[i] == "grad_norm") grad_norm = values[i];
    if (train_names_[i] == kLossScaleMetric) {
      loss_scale = values[i];
      scaled = true;
    }
  }
  MutexLock lock(&mu_);
  if (result_.first_step_seconds == 0 && options_.started_ns != 0) {
    result_.first_step_seconds =
        (RealClock().MonotonicNs() - options_.started_ns) * 1e-9;
    Talk(absl::StrFormat("first step after %.3f s, %.3f s of it reading data",
                         result_.first_step_seconds, result_.inflate_seconds));
  }
  if (leads()) seen_.push_back({step, values});
  result_.final_loss = loss;
  // Above 1 the step was skipped, and the next one has a smaller scale.
  const bool hopeless = loss_scale <= 1 && job_.guards().stop_on_nan();
  if (hopeless && !std::isfinite(loss)) {
    return MakeError(ErrorCode::kNotFinite,
                     absl::StrCat("loss is ", loss, " at step ", step + 1,
                                  "; nothing was saved after it"));
  }
  if (hopeless && scaled && !std::isfinite(grad_norm)) {
    return MakeError(ErrorCode::kNotFinite,
                     absl::StrCat("gradients are not finite at step ", step + 1,
                                  ", though the loss scale has fallen to 1"));
  }
  reached_ = step + 1;
  if (progress_ != nullptr) {
    progress_->Step(step + 1, prepared_->EpochOf(step + 1), loss);
  }
  return absl::OkStatus();
}

absl::Status TrainingRun::WriteSteps() {
  std::vector<SeenStep> seen;
  {
    MutexLock lock(&mu_);
    seen.swap(seen_);
  }
  if (seen.empty()) return absl::OkStatus();
  std::vector<MetricsRecord> records;
  for (const SeenStep& one : seen) records.push_back(RecordOf(one));
  return metrics_->Add(records);
}

MetricsRecord TrainingRun::RecordOf(const SeenStep& seen) const {
  const ScalarSinks::Values& values = seen.values;
  MetricsRecord record;
  record.step = seen.step + 1;
  record.epoch = prepared_->EpochOf(seen.step + 1);
  for (size_t i = 0; i < values.size(); ++i) {
    // Counts make a share.
    if (train_names_[i] == "weight") continue;
    double value =
        train_names_[i] == "correct" ? values[i] / values[1] : values[i];
    record.values.emplace_back(
        train_names_[i] == "correct" ? "accuracy" : train_names_[i], value);
    if (i == 0 && prepared_->info.context > 0) {
      record.values.emplace_back("perplexity", std::exp(values[0]));
    }
  }
  return record;
}

absl::Status TrainingRun::OnEvalBatch(const ScalarSinks::Values& values) {
  sums_.Add(values);
  return absl::OkStatus();
}

absl::Status TrainingRun::RunEvaluation() {
  sums_ = {};
  runtime::RunOptions whatever;
  whatever.ignore_stop = true;
  WEFT_RETURN_IF_ERROR(
      session_->Run("eval", 0, prepared_->eval_reader->StepsOf(1), whatever)
          .status());
  if (!leads()) return absl::OkStatus();  // the first has all results
  result_.eval = sums_.Result(prepared_->eval_bytes);
  MetricsRecord record;
  record.step = step_;
  record.epoch = prepared_->EpochOf(step_);
  record.values = {{std::string(kEvalLoss), result_.eval.loss}};
  if (prepared_->eval_bytes > 0) {
    record.values.emplace_back("eval_perplexity", result_.eval.perplexity);
    record.values.emplace_back("eval_bits_per_byte",
                               result_.eval.bits_per_byte);
  } else {
    record.values.emplace_back("eval_accuracy", result_.eval.accuracy);
  }
  if (!evaluated_) WEFT_RETURN_IF_ERROR(metrics_->Add(record));
  // Of a run that was finished before, nobody has the loss any more.
  const std::string loss =
      result_.new_steps == 0
          ? ""
          : absl::StrFormat("  loss %.4f", result_.final_loss);
  Talk(absl::StrCat(
      absl::StrFormat("epoch %.2f  step %d%s  test loss %.4f  ", record.epoch,
                      step_, loss, result_.eval.loss),
      MetricsText(result_.eval)));
  // The last update of all is seen by no later training loss.
  if (!std::isfinite(result_.eval.loss) && job_.guards().stop_on_nan()) {
    return MakeError(
        ErrorCode::kNotFinite,
        absl::StrCat("test loss is ", result_.eval.loss, " after step ", step_,
                     "; nothing was saved after it"));
  }
  return absl::OkStatus();
}

checkpoint::TrainState TrainingRun::State() const {
  checkpoint::TrainState state;
  state.set_step(step_);
  state.set_samples(step_ * job_.batch_size());
  state.set_seed(job_.seed());
  state.set_job(job_.name());
  state.set_model(checkpoint::Fingerprint(state_->tensors()));
  state.set_data(prepared_->fingerprint);
  state.set_plan_hash(absl::StrCat(absl::Hex(
      prepared_->programs.plans.at("train").hash(), absl::kZeroPad16)));
  state.set_weft_version(std::string(kVersion));
  state.set_batch_size(job_.batch_size());
  // Of all ranks: these make the bits of a step, not who computed which.
  state.set_micro_batches(
      static_cast<uint32_t>(prepared_->share.all_micro_batches));
  state.set_world_size(static_cast<int32_t>(prepared_->share.ranks));
  state.set_shuffle(job_.data().shuffle());
  state.set_tail(job::Data::Tail_Name(job_.data().tail()));
  return state;
}

// Ranks that keep the same state from other bits on would go apart, and nobody
// could tell which of them is right.
absl::Status TrainingRun::CompareState() const {
  if (options_.link.rendezvous == nullptr) return absl::OkStatus();
  std::string mine;
  // What is saved comes to the ranks of the first stage.
  if (prepared_->share.PlaceOn(prepared_->share.pipe) == 0) {
    uint64_t digest = 0;
    for (const checkpoint::StateTensor& tensor : state_->tensors()) {
      digest = StableHash(absl::StrCat(
          absl::Hex(digest), absl::Hex(StableHash(tensor.tensor.bytes))));
    }
    mine = absl::StrCat(absl::Hex(digest));
  }
  WEFT_ASSIGN_OR_RETURN(
      std::vector<std::string> all,
      options_.link.rendezvous->AllGather(
          options_.link.rank, absl::StrCat("state/step ", step_), mine));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].empty() || all[rank] == all[0]) continue;
    return MakeError(
        ErrorCode::kInternal,
        absl::StrCat("after step ", step_, " rank ", rank,
                     " has other bits of the state (", all[rank],
                     ") than rank 0 (", all[0], "): they would go apart"));
  }
  return absl::OkStatus();
}

// A failed save leaves the older checkpoints and the run as they are; only the
// last one's failure is the run's.
absl::Status TrainingRun::SaveCheckpoint(bool last) {
  // All ranks do this part alike, whatever became of the leader's file.
  if (step_ != gathered_step_) {
    runtime::RunOptions whatever;
    whatever.ignore_stop = true;
    WEFT_RETURN_IF_ERROR(session_->Run("save", 0, 1, whatever).status());
    WEFT_RETURN_IF_ERROR(CompareState());
    gathered_step_ = step_;
  }
  if (!leads()) return absl::OkStatus();
  if (last && step_ == saved_step_) return save_error_;
  absl::StatusOr<std::string> saved =
      checkpoint::Save(*options_.os, directory_.path(), State(),
                       state_->tensors(), job_.checkpoint().keep());
  save_error_ = saved.status();
  if (saved.ok()) {
    result_.checkpoint = *saved;
    saved_step_ = step_;
    return absl::OkStatus();
  }
  if (last) return save_error_;
  Talk(absl::StrCat("warning: ", save_error_.message(), "; training goes on"));
  return absl::OkStatus();
}

absl::Status TrainingRun::WriteProfile() {
  if (profiler_ == nullptr) return absl::OkStatus();
  if (!profiler_->HasSteps()) {
    Talk(absl::StrCat("warning: no profile: the run ended before step ",
                      first_step_ + options_.profile->warm_up));
    return absl::OkStatus();
  }
  const std::string file =
      leads() ? "profile.json" : RankFile("logs", "profile.json");
  WEFT_ASSIGN_OR_RETURN(result_.profile, profiler_->Report());
  WEFT_RETURN_IF_ERROR(directory_.Write(
      file, absl::StrCat(runtime::ProfileJson(*result_.profile), "\n")));
  Talk(absl::StrCat("profile ", directory_.File(file)));
  return absl::OkStatus();
}

absl::Status TrainingRun::WriteTrace() {
  if (trace_ == nullptr) return absl::OkStatus();
  const std::string file = RankFile("trace", "json");
  WEFT_RETURN_IF_ERROR(directory_.Write(
      file, runtime::ChromeTraceJson(*trace_, options_.link.rank)));
  Talk(absl::StrCat("trace ", directory_.File(file)));
  return absl::OkStatus();
}

}  // namespace weft
