// weft train, weft eval.

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "runtime/rendezvous/worker_spec.h"
#include "tools/weft/commands.h"
#include "tools/weft/launcher_flags.h"

namespace weft {
namespace {

// The session that a signal stops. A signal that comes before there is one ends
// the process at once, and so does a second SIGINT or a second SIGTERM:
// somebody who will not wait. Others come more than once by themselves (a
// terminal that closes and its shell both send SIGHUP, a service manager sends
// it after SIGTERM), so they don't keep the checkpoint from being saved.
std::atomic<runtime::Session*> g_session{nullptr};
std::atomic<int> g_signal{0};  // the first
std::atomic<bool> g_interrupted{false};
std::atomic<bool> g_terminated{false};

void OnSignal(int number) {
  const int saved_errno = errno;
  bool again = false;
  if (number == SIGINT) again = g_interrupted.exchange(true);
  if (number == SIGTERM) again = g_terminated.exchange(true);
  // What batch systems send before they end a job; to end by it would look like
  // the exit code of a lost peer.
  const bool batch = number == SIGUSR1 || number == SIGUSR2;
  const int by = batch ? SIGTERM : number;
  runtime::Session* session = g_session.load();
  if (session == nullptr || again) {
    std::signal(by, SIG_DFL);
    raise(by);
    return;
  }
  int none = 0;
  g_signal.compare_exchange_strong(none, by);
  session->RequestStop();
  errno = saved_errno;
}

// Paths are the user's bytes: what is not UTF-8 is replaced, not thrown on.
std::string Text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

constexpr uint64_t kProfileRows = 25;
// Each has a session with threads of its own.
constexpr uint64_t kMaxVirtualRanks = 64;

struct TrainFlags {
  std::string job;
  std::vector<std::string> sets;
  std::string run_dir;
  std::string resume;
  std::string dump_to;
  std::string dump_passes;  // empty: all
  uint64_t launch_order_seed = 0;
  uint64_t virtual_ranks = 1;
  runtime::LauncherFlags launcher;
  std::string transport;
  std::string transport_options;
  std::string peer_timeout;
  std::string join_timeout;
  bool profile = false;
  bool json = false;
  bool quiet = false;
};

void AddJobFlags(Command* command, TrainFlags* flags) {
  command->Option("--set", &flags->sets,
                  "sets a field of the job, for example "
                  "--set optimizer.sgd.momentum=0.5; may be repeated");
  command->Flag("--json", &flags->json, "prints the result as JSON");
}

TrainOptions MakeOptions(const CommandContext& context,
                         const TrainFlags& flags) {
  TrainOptions options = BaseOptions(context);
  const Environment& env = context.env;
  if (!flags.job.empty()) options.job_path = UserPath(env, flags.job);
  if (!flags.resume.empty()) options.resume = UserPath(env, flags.resume);
  if (!flags.run_dir.empty()) options.runs_dir = UserPath(env, flags.run_dir);
  if (!flags.dump_to.empty()) {
    options.dumps.dump_to = UserPath(env, flags.dump_to);
  }
  if (!flags.dump_passes.empty()) {
    options.dumps.dump_passes = flags.dump_passes;
  }
  options.launch_order_seed = flags.launch_order_seed;
  options.sets = flags.sets;
  options.virtual_ranks = static_cast<uint32_t>(flags.virtual_ranks);
  options.transport = flags.transport;
  options.transport_options = flags.transport_options;
  if (flags.profile) options.profile = ProfileWindow{};
  options.progress = !flags.quiet;
  return options;
}

// What data of its kind is judged by, besides the loss.
void AddMetrics(const std::string& prefix, const EvalResult& eval,
                nlohmann::ordered_json* out) {
  if (eval.text) {
    (*out)[prefix + "perplexity"] = eval.perplexity;
    (*out)[prefix + "bits_per_byte"] = eval.bits_per_byte;
  } else {
    (*out)[prefix + "accuracy"] = eval.accuracy;
  }
}

// What goes on with a run that was stopped, on as many ranks: without logical
// shards any other number makes other micro-batches.
std::string HowToGoOn(const TrainOptions& options, const std::string& run) {
  const std::string resume = absl::StrCat("--resume ", run);
  if (options.virtual_ranks > 1) {
    return absl::StrCat("weft train --virtual-ranks ", options.virtual_ranks,
                        " ", resume);
  }
  if (!options.worker.has_value()) return "weft train " + resume;
  const runtime::WorkerSpec& worker = *options.worker;
  const bool launched = !worker.run_directory.empty();
  if (launched && worker.one_host()) {
    return absl::StrCat("weft run --nproc-per-node ", worker.ranks, " ",
                        resume);
  }
  return absl::StrCat("weft ", launched ? "run " : "train ", resume, ", on ",
                      worker.ranks, " ranks as before");
}

void PrintTrain(const TrainOptions& options, const TrainResult& result,
                bool json) {
  if (json) {
    nlohmann::ordered_json out = {
        {"run_directory", result.run_directory},
        {"checkpoint", result.checkpoint},
        {"steps", result.steps},
        {"stopped", result.stopped},
        {"new_steps", result.new_steps},
        {"loss", nullptr},
        {"first_step_seconds", result.first_step_seconds},
        {"inflate_seconds", result.inflate_seconds},
        {"device_bytes", result.device_bytes}};
    if (result.new_steps > 0) out["loss"] = result.final_loss;
    if (result.eval.samples > 0) {
      out["eval_loss"] = result.eval.loss;
      AddMetrics("eval_", result.eval, &out);
    }
    if (result.profile.has_value()) {
      out["profile"] = nlohmann::ordered_json::parse(
          runtime::ProfileJson(*result.profile), nullptr,
          /*allow_exceptions=*/false);
    }
    std::printf("%s\n", Text(out).c_str());
    return;
  }
  if (result.profile.has_value()) {
    std::printf("%s\n",
                runtime::ProfileText(*result.profile, kProfileRows).c_str());
  }
  if (result.stopped) {
    std::printf("stopped at step %llu; go on with: %s\n",
                static_cast<unsigned long long>(result.steps),
                HowToGoOn(options, result.run_directory).c_str());
  } else if (result.eval.samples > 0) {
    std::printf("%s\n", MetricsText(result.eval).c_str());
  } else if (result.new_steps == 0) {
    std::printf("nothing left to do at step %llu\n",
                static_cast<unsigned long long>(result.steps));
  } else {
    std::printf("loss %.6f\n", result.final_loss);
  }
}

// Seconds, such as "3.5"; nothing where the text is empty.
absl::Status ReadSeconds(absl::string_view name, const std::string& text,
                         uint64_t* ns) {
  if (text.empty()) return absl::OkStatus();
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds) && seconds >= 0.1 && seconds <= 1e6) {
    *ns = static_cast<uint64_t>(seconds * 1e9);
    return absl::OkStatus();
  }
  return MakeError(
      ErrorCode::kBadValue,
      absl::StrCat(name, " is '", text, "', expected seconds, 0.1 to 1000000"));
}

// Of which job this process is a rank, by what started it.
absl::Status FindWorker(const CommandContext& context, const TrainFlags& flags,
                        TrainOptions* options) {
  const runtime::LauncherFlags& by_hand = flags.launcher;
  if (flags.virtual_ranks > 1 &&
      !(by_hand.rank.empty() && by_hand.ranks.empty())) {
    return MakeError(
        ErrorCode::kBadLaunch,
        absl::StrCat("--virtual-ranks ", flags.virtual_ranks,
                     " has all ranks in this process; --ranks and --rank are "
                     "for processes of one rank each: give one or the other"));
  }
  WEFT_ASSIGN_OR_RETURN(runtime::WorkerSpec spec,
                        runtime::WorkerSpecFrom(context.env, flags.launcher));
  WEFT_RETURN_IF_ERROR(ReadSeconds("--peer-timeout", flags.peer_timeout,
                                   &options->peer_timeout_ns));
  WEFT_RETURN_IF_ERROR(ReadSeconds("--join-timeout", flags.join_timeout,
                                   &options->join_timeout_ns));
  const bool several = spec.ranks > 1;
  if (several && flags.virtual_ranks > 1) {
    return MakeError(ErrorCode::kBadLaunch,
                     absl::StrCat("--virtual-ranks ", flags.virtual_ranks,
                                  " in a process that is one of ", spec.ranks,
                                  " ranks (", spec.source, ")"));
  }
  if (!several && flags.virtual_ranks == 1 &&
      !(flags.transport_options.empty() && flags.transport.empty())) {
    return MakeError(ErrorCode::kBadValue,
                     "--transport and --transport-options are of what is "
                     "between ranks; one rank has nothing there (see "
                     "--virtual-ranks)");
  }
  if (several || !spec.run_directory.empty()) {
    options->worker = std::move(spec);
  }
  return absl::OkStatus();
}

absl::Status RunTrain(CommandContext* context, const TrainFlags& flags) {
  if (flags.job.empty() && flags.resume.empty()) {
    return MakeError(ErrorCode::kBadValue,
                     "train needs a job file, or --resume (see --help)");
  }
  if (flags.dump_to.empty() && !flags.dump_passes.empty()) {
    return MakeError(ErrorCode::kBadValue,
                     "--dump-passes chooses among what --dump-to writes, and "
                     "that is not given");
  }
  if (flags.virtual_ranks < 1 || flags.virtual_ranks > kMaxVirtualRanks) {
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat("--virtual-ranks is ", flags.virtual_ranks,
                                  ", expected 1 to ", kMaxVirtualRanks));
  }
  TrainOptions options = MakeOptions(*context, flags);
  WEFT_RETURN_IF_ERROR(FindWorker(*context, flags, &options));
  options.on_session = [](runtime::Session* session) {
    g_session.store(session);
  };
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    // nohup, and shells for what they start with &, ignore some on purpose.
    if (std::signal(number, OnSignal) == SIG_IGN) std::signal(number, SIG_IGN);
  }
  absl::StatusOr<TrainResult> result = Train(options);
  g_session.store(nullptr);
  if (!result.ok()) return result.status();
  if (result->stopped) context->stop_signal = g_signal.load();
  if (options.worker.has_value() && options.worker->rank != 0) {
    return absl::OkStatus();  // the first has told
  }
  PrintTrain(options, *result, flags.json);
  return absl::OkStatus();
}

absl::Status RunEval(CommandContext* context, const TrainFlags& flags) {
  TrainOptions options = MakeOptions(*context, flags);
  WEFT_ASSIGN_OR_RETURN(EvalResult result, Evaluate(options));
  if (flags.json) {
    nlohmann::ordered_json out = {{"loss", result.loss}};
    AddMetrics("", result, &out);
    out["samples"] = result.samples;
    std::printf("%s\n", Text(out).c_str());
  } else {
    std::printf("%s  loss %.4f  samples %.0f\n", MetricsText(result).c_str(),
                result.loss, result.samples);
  }
  return absl::OkStatus();
}

// Of a process that is one rank of several. What launchers set in the
// environment needs none of them.
void AddRankFlags(Command* command, TrainFlags* flags) {
  AddLauncherFlags(command, &flags->launcher);
  command->Option("--transport", &flags->transport,
                  "between ranks, the best first, such as shm,grpc; default "
                  "auto");
  command->Option("--peer-timeout", &flags->peer_timeout,
                  "seconds of silence after which a rank is lost; default 3.5");
  command->Option("--join-timeout", &flags->join_timeout,
                  "seconds that all ranks have to come; default 300");
}

}  // namespace

void AddTrainCommands(CommandLine* line, CommandContext* context) {
  auto flags = std::make_shared<TrainFlags>();
  Command* train =
      line->Add("train", "Trains the model of a job file.",
                "weft train examples/fashion_mnist_mlp.txtpb --set epochs=1");
  train->Positional("job", &flags->job, "the job file", /*optional=*/true);
  AddJobFlags(train, flags.get());
  train->Option("--run-dir", &flags->run_dir,
                "where the run's own directory is made; default ./runs");
  train->Option("--resume", &flags->resume,
                "run directory or checkpoint to go on from");
  train->Option("--dump-to", &flags->dump_to,
                "writes the graphs before and after passes to a directory");
  train->Option("--dump-passes", &flags->dump_passes,
                "regular expression: which passes --dump-to writes; default "
                "all");
  train->Option("--launch-order-seed", &flags->launch_order_seed,
                "another legal launch order of the same work; results are the "
                "same bits");
  train->Option("--virtual-ranks", &flags->virtual_ranks,
                "runs the job on so many ranks, all threads of this process");
  AddRankFlags(train, flags.get());
  train->Option("--transport-options", &flags->transport_options,
                "of the transport between ranks, for example "
                "delay_seed=7&delay_max=8");
  train->Flag("--profile", &flags->profile,
              "says where the time of 50 steps went, after 5 others; also in "
              "profile.json of the run (see weft profile)");
  train->Flag("--quiet", &flags->quiet, "no progress line");
  train->Run([context, flags] { return RunTrain(context, *flags); });

  auto eval_flags = std::make_shared<TrainFlags>();
  Command* eval =
      line->Add("eval", "Evaluates a checkpoint on the job's evaluation data.",
                "weft eval runs/fashion-mlp-20260102-030405");
  eval->Positional("checkpoint", &eval_flags->resume,
                   "run directory or checkpoint");
  eval->Option("--job", &eval_flags->job,
               "job file; default: the run's resolved job");
  AddJobFlags(eval, eval_flags.get());
  eval->Run([context, eval_flags] { return RunEval(context, *eval_flags); });
}

}  // namespace weft
