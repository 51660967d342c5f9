// weft plan show | check | explain.

#include <algorithm>
#include <cstdio>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/check/check.h"
#include "compiler/explain/explain.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"
#include "core/graph/text.h"
#include "core/plan/job.h"
#include "core/plan/plan_file.h"
#include "core/plan/print.h"
#include "tools/weft/commands.h"
#include "tools/weft/prepare.h"

namespace weft {
namespace {

struct PlanFlags {
  std::string path;
  std::string node;
  std::vector<std::string> sets;
  std::string program;  // empty: train
  uint64_t ranks = 1;
  uint64_t rank = 0;
  bool graph = false;
};

// The model of the job, before any program is made of it: what a user may take
// as the start of a graph text.
absl::Status ShowModel(const TrainOptions& options, const Prepared& prepared) {
  DataInfo info = prepared.info;
  info.classes = prepared.programs.classes;
  int64_t batch = prepared.job.batch_size() / prepared.share.all_micro_batches;
  WEFT_ASSIGN_OR_RETURN(Graph model,
                        BuildJobModel(*options.os, prepared.job, info, batch));
  std::fputs(PrintGraph(model).c_str(), stdout);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Prepared>> PrepareJob(
    const TrainOptions& options) {
  WEFT_ASSIGN_OR_RETURN(job::Job job, ReadJob(options));
  return Prepare(options, job);
}

TrainOptions MakeOptions(const CommandContext& context,
                         const PlanFlags& flags) {
  TrainOptions options = BaseOptions(context);
  options.job_path = UserPath(context.env, flags.path);
  options.sets = flags.sets;
  options.check_memory = false;  // of a plan that does not fit, above all
  options.link.ranks = static_cast<uint32_t>(flags.ranks);
  options.link.rank = static_cast<uint32_t>(flags.rank);
  return options;
}

absl::StatusOr<const plan::Plan*> FindProgram(const Prepared& prepared,
                                              const std::string& program) {
  auto it = prepared.programs.plans.find(program);
  if (it != prepared.programs.plans.end()) return &it->second;
  std::vector<std::string> names;
  for (const auto& [name, plan] : prepared.programs.plans) {
    names.push_back(name);
  }
  return MakeError(
      ErrorCode::kBadValue,
      absl::StrCat("no program '", program, "'", DidYouMean(program, names)));
}

absl::Status CheckRanks(const PlanFlags& flags, uint64_t max_ranks) {
  if (flags.ranks < 1 || flags.ranks > max_ranks) {
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat("--ranks is ", flags.ranks,
                                  ", expected 1 to ", max_ranks));
  }
  if (flags.rank >= flags.ranks) {
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat("--rank is ", flags.rank, ", there are ",
                                  flags.ranks, " ranks, from 0 (--ranks)"));
  }
  if (flags.ranks > 1 && absl::EndsWith(flags.path, ".pb")) {
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat("'", flags.path,
                                  "' is the plan of one rank: "
                                  "--ranks is for job files"));
  }
  return absl::OkStatus();
}

// A plan file, or a program of a job.
absl::StatusOr<plan::Plan> ReadPlan(const CommandContext& context,
                                    const PlanFlags& flags) {
  WEFT_RETURN_IF_ERROR(CheckRanks(flags, kMaxRanks));
  TrainOptions options = MakeOptions(context, flags);
  if (absl::EndsWith(flags.path, ".pb")) {
    if (flags.program.empty() && flags.sets.empty()) {
      return plan::LoadPlan(*options.os, options.job_path);
    }
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat("'", flags.path, "' is one compiled plan: ",
                                  flags.sets.empty() ? "--program" : "--set",
                                  " is for job files"));
  }
  WEFT_ASSIGN_OR_RETURN(auto prepared, PrepareJob(options));
  WEFT_ASSIGN_OR_RETURN(
      const plan::Plan* plan,
      FindProgram(*prepared, flags.program.empty() ? "train" : flags.program));
  return *plan;
}

absl::Status Show(const CommandContext& context, const PlanFlags& flags) {
  WEFT_RETURN_IF_ERROR(CheckRanks(flags, kMaxRanks));
  if (flags.graph) {
    TrainOptions options = MakeOptions(context, flags);
    WEFT_ASSIGN_OR_RETURN(auto prepared, PrepareJob(options));
    return ShowModel(options, *prepared);
  }
  WEFT_ASSIGN_OR_RETURN(plan::Plan plan, ReadPlan(context, flags));
  std::fputs(plan::PrintPlan(plan).c_str(), stdout);
  return absl::OkStatus();
}

// What `weft` gives a program; a plan that asks for more would stop at its
// first step.
absl::Status CheckSources(const plan::Plan& plan) {
  std::vector<std::string> given = {"counter:micro", "counter:step"};
  const std::string& program = plan.program();
  if (program == "train" || program == "eval") given.push_back(program);
  for (const plan::Register& reg : plan.registers()) {
    if (program != "load" || reg.state().empty()) continue;
    given.push_back(absl::StrCat("load/", reg.state()));
  }
  for (const plan::Task& task : plan.tasks()) {
    if (task.kind() != plan::Task::SOURCE ||
        std::find(given.begin(), given.end(), task.binding()) != given.end()) {
      continue;
    }
    return MakeError(
        ErrorCode::kBadPlan,
        absl::StrCat("task '", task.name(), "' is a source bound to '",
                     task.binding(), "', which program '", program,
                     "' is never given", DidYouMean(task.binding(), given)));
  }
  return absl::OkStatus();
}

// All ranks of a job, each as it would plan for itself, proved as one.
absl::Status CheckJob(const CommandContext& context, PlanFlags flags) {
  WEFT_RETURN_IF_ERROR(CheckRanks(flags, kMaxRanks));
  std::vector<plan::Plan> plans;
  int channels = 0;
  uint64_t tasks = 0;
  for (flags.rank = 0; flags.rank < flags.ranks; ++flags.rank) {
    WEFT_ASSIGN_OR_RETURN(plan::Plan plan, ReadPlan(context, flags));
    channels += plan.channels_size();
    tasks += plan.tasks_size();
    if (tasks > kMaxProvedTasks) {
      return MakeError(
          ErrorCode::kBadValue,
          absl::StrCat("--ranks is ", flags.ranks, ", and ", flags.rank + 1,
                       " of them have ", tasks, " tasks; at most ",
                       kMaxProvedTasks, " are proved together"));
    }
    plans.push_back(std::move(plan));
  }
  std::vector<const plan::Plan*> pointers;
  for (const plan::Plan& plan : plans) pointers.push_back(&plan);
  WEFT_ASSIGN_OR_RETURN(plan::Plan job, plan::JoinRanks(pointers));
  WEFT_RETURN_IF_ERROR(check::CheckPlan(job));
  std::printf(
      "plan '%s' is proved for %d ranks: %d tasks, %d registers, %d channels\n",
      job.program().c_str(), static_cast<int>(flags.ranks), job.tasks_size(),
      job.registers_size(), channels / 2);
  return absl::OkStatus();
}

absl::Status Check(const CommandContext& context, const PlanFlags& flags) {
  if (flags.ranks > 1) return CheckJob(context, flags);
  WEFT_ASSIGN_OR_RETURN(plan::Plan plan, ReadPlan(context, flags));
  WEFT_RETURN_IF_ERROR(check::CheckPlan(plan));
  WEFT_RETURN_IF_ERROR(CheckSources(plan));
  std::printf("plan '%s' is proved: %d tasks, %d registers, %d streams\n",
              plan.program().c_str(), plan.tasks_size(), plan.registers_size(),
              plan.streams_size());
  return absl::OkStatus();
}

absl::Status Explain(const CommandContext& context, const PlanFlags& flags) {
  WEFT_ASSIGN_OR_RETURN(plan::Plan plan, ReadPlan(context, flags));
  WEFT_ASSIGN_OR_RETURN(std::string text, ExplainNode(plan, flags.node));
  std::fputs(text.c_str(), stdout);
  return absl::OkStatus();
}

void AddFlags(Command* command, PlanFlags* flags) {
  command->Positional("job", &flags->path, "a job file, or a plan file (.pb)");
  command->Option("--set", &flags->sets, "sets a field of the job");
  command->Option("--program", &flags->program,
                  "of a job file: init, load, train (the default), eval or "
                  "save");
  command->Option("--ranks", &flags->ranks,
                  "of a job file: plans it for so many ranks; check then "
                  "proves all of them together");
  command->Option("--rank", &flags->rank, "of these, whose plan it is");
}

}  // namespace

void AddPlanCommands(CommandLine* line, CommandContext* context) {
  auto flags = std::make_shared<PlanFlags>();
  Command* plan =
      line->Add("plan", "Looks at what a job becomes, without running it.",
                "weft plan show examples/fashion_mnist_mlp.txtpb");
  Command* show =
      plan->Add("show", "Prints a plan: tasks, registers, streams, memory.",
                "weft plan show examples/fashion_mnist_mlp.txtpb --graph");
  AddFlags(show, flags.get());
  show->Flag("--graph", &flags->graph, "prints the model's graph text instead");
  show->Run([=] { return Show(*context, *flags); });

  Command* check =
      plan->Add("check", "Proves a plan: rates, liveness, memory.",
                "weft plan check runs/fashion-mlp-20260102-030405/plan.pb");
  AddFlags(check, flags.get());
  check->Run([=] { return Check(*context, *flags); });

  Command* explain =
      plan->Add("explain", "Says where a node runs, and which pass made it.",
                "weft plan explain examples/fashion_mnist_mlp.txtpb fc1");
  AddFlags(explain, flags.get());
  explain->Positional("node", &flags->node,
                      "the node's name, or that of a scope",
                      /*optional=*/true);
  explain->Run([=] { return Explain(*context, *flags); });
}

}  // namespace weft
