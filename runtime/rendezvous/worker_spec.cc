#include "runtime/rendezvous/worker_spec.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"
#include "runtime/rendezvous/host_list.h"
#include "runtime/rendezvous/host_port.h"

namespace weft::runtime {
namespace {

constexpr uint32_t kMaxRanks = 65536;
// Where rank 0's coordinator listens if there are several hosts and nobody
// said. Slurm's jobs spread over the ports from here on by their number.
constexpr uint32_t kPort = 29517;
constexpr uint32_t kSlurmPorts = 1000;

absl::Status Bad(absl::string_view message) {
  return MakeError(ErrorCode::kBadLaunch, message);
}

// One set of variables (or flags): what of it is there, and what it says.
class Set {
 public:
  Set(const Environment& env, std::string name) : env_(env) {
    spec.source = std::move(name);
  }

  // Empty values are no values: scripts export them.
  std::string Get(const std::string& name) const {
    return env_.Get(name).value_or("");
  }
  // The first of `names` that is there.
  std::string Find(absl::Span<const absl::string_view> names) {
    for (absl::string_view name : names) {
      std::string value = Get(std::string(name));
      if (value.empty()) continue;
      there.push_back(absl::StrCat(name, "=", value));
      return value;
    }
    return "";
  }
  std::string Need(absl::Span<const absl::string_view> names) {
    std::string value = Find(names);
    if (value.empty()) missing.push_back(absl::StrJoin(names, " or "));
    return value;
  }
  void Number(absl::string_view name, absl::string_view text, uint64_t below,
              uint32_t* out) {
    uint64_t number = 0;
    if (absl::SimpleAtoi(text, &number) && number < below) {
      *out = static_cast<uint32_t>(number);
    } else if (wrong.ok()) {
      wrong = Bad(absl::StrCat(name, " is '", text,
                               "', expected a number below ", below));
    }
  }
  void NeedNumber(absl::Span<const absl::string_view> names, uint64_t below,
                  uint32_t* out) {
    std::string value = Need(names);
    if (!value.empty()) Number(names[0], value, below, out);
  }
  bool complete() const { return missing.empty(); }

  WorkerSpec spec;
  std::vector<std::string> there;
  std::vector<std::string> missing;
  absl::Status wrong;

 private:
  const Environment& env_;
};

// Sets --------------------------------------------------------------------

// Those of the ranks of this host, where a set names both or none of them.
void ReadLocal(Set* set, absl::string_view rank, absl::string_view ranks) {
  const std::string local_rank = set->Find({rank});
  const std::string local_ranks = set->Find({ranks});
  WorkerSpec& spec = set->spec;
  if (local_rank.empty() && local_ranks.empty()) {
    const std::string host = set->Get("MASTER_ADDR");
    if (!host.empty() && IsLoopback(host)) {
      spec.local_rank = spec.rank;
      spec.local_ranks = spec.ranks;
    }
    return;
  }
  if (local_rank.empty()) set->missing.emplace_back(rank);
  if (local_ranks.empty()) set->missing.emplace_back(ranks);
  if (!set->complete()) return;
  set->Number(rank, local_rank, kMaxRanks, &spec.local_rank);
  set->Number(ranks, local_ranks, kMaxRanks + 1, &spec.local_ranks);
}

std::optional<Set> FromTorch(const Environment& env) {
  Set set(env, "RANK, WORLD_SIZE, ...");
  set.NeedNumber({"RANK"}, kMaxRanks, &set.spec.rank);
  set.NeedNumber({"WORLD_SIZE"}, kMaxRanks + 1, &set.spec.ranks);
  ReadLocal(&set, "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  if (set.there.empty() && set.Get("MASTER_ADDR").empty()) return std::nullopt;
  const bool alone = set.complete() && set.spec.ranks == 1;
  if (!alone) {
    set.Need({"MASTER_ADDR"});
    set.Need({"MASTER_PORT"});
  }
  const std::string run = set.Get("TORCHELASTIC_RUN_ID");
  if (!set.Get("WEFT_COORDINATOR").empty()) {
    set.spec.source = "weft run";
    set.spec.job_id = run;
    return set;
  }
  if (!run.empty()) set.spec.source = "torchrun's RANK, WORLD_SIZE, ...";
  set.spec.job_id =
      absl::StrCat(run.empty() ? "env" : run, "-", set.Get("MASTER_PORT"));
  return set;
}

std::optional<Set> FromOpenMpi(const Environment& env) {
  Set set(env, "mpirun (OMPI_COMM_WORLD_*)");
  set.NeedNumber({"OMPI_COMM_WORLD_RANK"}, kMaxRanks, &set.spec.rank);
  set.NeedNumber({"OMPI_COMM_WORLD_SIZE"}, kMaxRanks + 1, &set.spec.ranks);
  set.NeedNumber({"OMPI_COMM_WORLD_LOCAL_RANK"}, kMaxRanks,
                 &set.spec.local_rank);
  set.NeedNumber({"OMPI_COMM_WORLD_LOCAL_SIZE"}, kMaxRanks + 1,
                 &set.spec.local_ranks);
  if (set.there.empty()) return std::nullopt;
  set.spec.bound = set.Get("OMPI_MCA_orte_bound_at_launch") == "1";
  // A process number of mpirun is in the first; the second, which only version
  // 4 has, is random and another for each job.
  set.spec.job_id = absl::StrCat(
      "mpi-", set.Need({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}),
      set.Get("OMPI_MCA_orte_precondition_transports"));
  return set;
}

std::optional<Set> FromPmi(const Environment& env) {
  Set set(env, "mpiexec (PMI_RANK, PMI_SIZE)");
  set.NeedNumber({"PMI_RANK"}, kMaxRanks, &set.spec.rank);
  set.NeedNumber({"PMI_SIZE"}, kMaxRanks + 1, &set.spec.ranks);
  if (set.there.empty()) return std::nullopt;
  ReadLocal(&set, "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
  set.spec.job_id = absl::StrCat("pmi-", set.Get("PMI_JOBID"));
  return set;
}

// "2(x3),1" -> the tasks of the host with number `node`.
absl::StatusOr<uint32_t> TasksOfNode(absl::string_view text, uint32_t node) {
  uint64_t first = 0;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> halves =
        absl::StrSplit(absl::StripSuffix(part, ")"), "(x");
    uint32_t tasks = 0;
    uint32_t nodes = 1;
    if (halves.size() > 2 || !absl::SimpleAtoi(halves[0], &tasks) ||
        (halves.size() == 2 && !absl::SimpleAtoi(halves[1], &nodes))) {
      break;
    }
    first += nodes;
    if (node < first) return tasks;
  }
  return Bad(absl::StrCat("SLURM_STEP_TASKS_PER_NODE is '", text,
                          "': that has no host number ", node));
}

// Only a step (srun) has ranks: in the script of a job there are variables of
// the same names, which tell of tasks to come.
std::optional<Set> FromSlurm(const Environment& env, bool asked) {
  Set set(env, "srun (SLURM_PROCID, ...)");
  if (!asked && set.Get("SLURM_STEP_ID").empty() &&
      set.Get("SLURM_STEP_NODELIST").empty()) {
    return std::nullopt;
  }
  WorkerSpec& spec = set.spec;
  uint32_t node = 0;
  set.NeedNumber({"SLURM_PROCID"}, kMaxRanks, &spec.rank);
  set.NeedNumber({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, kMaxRanks + 1,
                 &spec.ranks);
  set.NeedNumber({"SLURM_LOCALID"}, kMaxRanks, &spec.local_rank);
  set.NeedNumber({"SLURM_NODEID"}, kMaxRanks, &node);
  const std::string tasks =
      set.Need({"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  const std::string hosts = set.Need({"SLURM_STEP_NODELIST"});
  const std::string job = set.Need({"SLURM_JOB_ID", "SLURM_JOBID"});
  const std::string step = set.Need({"SLURM_STEP_ID", "SLURM_STEPID"});
  if (set.there.empty()) return std::nullopt;
  spec.job_id = absl::StrCat("slurm-", job, ".", step);
  const std::string binding = set.Get("SLURM_CPU_BIND_TYPE");
  spec.bound = !binding.empty() && binding != "none";
  if (!set.complete() || !set.wrong.ok()) return set;
  absl::StatusOr<uint32_t> local = TasksOfNode(tasks, node);
  absl::StatusOr<std::vector<std::string>> names = ParseHostList(hosts);
  if (!local.ok() || !names.ok()) {
    set.wrong = local.ok() ? names.status() : local.status();
    return set;
  }
  spec.local_ranks = *local;
  spec.coordinator = JoinHostPort(
      names->front(), kPort + StableHash(spec.job_id) % kSlurmPorts);
  return set;
}

std::optional<Set> FromKubernetes(const Environment& env) {
  if (env.Get("JOB_COMPLETION_INDEX").value_or("").empty()) {
    return std::nullopt;
  }
  Set set(env, "an indexed Kubernetes job (JOB_COMPLETION_INDEX, WORLD_SIZE)");
  set.NeedNumber({"JOB_COMPLETION_INDEX"}, kMaxRanks, &set.spec.rank);
  set.NeedNumber({"WORLD_SIZE"}, kMaxRanks + 1, &set.spec.ranks);
  if (set.spec.ranks > 1 || !set.complete()) set.Need({"MASTER_ADDR"});
  // The name of a pod is that of the job and its index.
  std::string host = set.Get("HOSTNAME");
  std::string suffix = absl::StrCat("-", set.spec.rank);
  set.spec.job_id = absl::StrCat("k8s-", absl::StripSuffix(host, suffix));
  return set;
}

absl::StatusOr<std::optional<Set>> FromFlags(const Environment& env,
                                             const LauncherFlags& flags) {
  const std::pair<const char*, const std::string*> given[] = {
      {"--rank", &flags.rank},
      {"--ranks", &flags.ranks},
      {"--local-rank", &flags.local_rank},
      {"--local-ranks", &flags.local_ranks},
  };
  std::vector<std::string> there;
  for (const auto& [name, value] : given) {
    if (!value->empty()) there.emplace_back(name);
  }
  if (there.empty()) return std::optional<Set>();
  Set set(env, "flags");
  set.there = there;
  if (flags.rank.empty()) set.missing.emplace_back("--rank");
  if (flags.ranks.empty()) set.missing.emplace_back("--ranks");
  if (flags.local_rank.empty() != flags.local_ranks.empty()) {
    set.missing.emplace_back(flags.local_rank.empty() ? "--local-rank"
                                                      : "--local-ranks");
  }
  if (flags.coordinator.empty() && flags.ranks != "1") {
    set.missing.emplace_back("--coordinator");
  }
  if (!set.complete()) return std::optional<Set>(std::move(set));
  WorkerSpec& spec = set.spec;
  set.Number("--rank", flags.rank, kMaxRanks, &spec.rank);
  set.Number("--ranks", flags.ranks, kMaxRanks + 1, &spec.ranks);
  if (!flags.local_rank.empty()) {
    set.Number("--local-rank", flags.local_rank, kMaxRanks, &spec.local_rank);
    set.Number("--local-ranks", flags.local_ranks, kMaxRanks + 1,
               &spec.local_ranks);
  } else if (!flags.coordinator.empty()) {
    WEFT_ASSIGN_OR_RETURN(HostPort meet,
                          ParseHostPort("--coordinator", flags.coordinator));
    if (IsLoopback(meet.host)) {
      spec.local_rank = spec.rank;
      spec.local_ranks = spec.ranks;
    }
  }
  spec.job_id = absl::StrCat("flags-", flags.coordinator);
  return std::optional<Set>(std::move(set));
}

// Which one ---------------------------------------------------------------

absl::Status HalfSets(const std::vector<Set>& halves) {
  std::vector<std::string> parts;
  for (const Set& set : halves) {
    parts.push_back(absl::StrCat(
        "of ", set.spec.source, " there is ",
        set.there.empty() ? "nothing" : absl::StrJoin(set.there, " "), " and ",
        absl::StrJoin(set.missing, ", "),
        set.missing.size() == 1 ? " is missing" : " are missing"));
  }
  return Bad(absl::StrCat(absl::StrJoin(parts, "; "),
                          " (--launcher=none is one process alone)"));
}

absl::StatusOr<std::vector<Set>> Candidates(const Environment& env,
                                            const LauncherFlags& flags,
                                            const std::string& launcher) {
  const bool all = launcher == "auto";
  std::vector<std::optional<Set>> found;
  WEFT_ASSIGN_OR_RETURN(std::optional<Set> by_flags, FromFlags(env, flags));
  if (by_flags.has_value()) return std::vector<Set>{*std::move(by_flags)};
  if (all || launcher == "env") found.push_back(FromTorch(env));
  if (all || launcher == "mpi") {
    found.push_back(FromOpenMpi(env));
    found.push_back(FromPmi(env));
  }
  if (all || launcher == "slurm") found.push_back(FromSlurm(env, !all));
  if (all || launcher == "env") found.push_back(FromKubernetes(env));
  std::vector<Set> sets;
  for (std::optional<Set>& set : found) {
    if (set.has_value()) sets.push_back(*std::move(set));
  }
  return sets;
}

absl::StatusOr<std::string> LauncherOf(const Environment& env,
                                       const LauncherFlags& flags) {
  std::string launcher = flags.launcher;
  if (launcher.empty()) launcher = env.Get("WEFT_LAUNCHER").value_or("");
  if (launcher.empty()) launcher = "auto";
  const std::vector<std::string> known = {"auto", "env", "mpi", "slurm",
                                          "none"};
  if (std::find(known.begin(), known.end(), launcher) == known.end()) {
    return Bad(absl::StrCat("launcher '", launcher, "' is not known, expected ",
                            absl::StrJoin(known, ", "),
                            DidYouMean(launcher, known)));
  }
  return launcher;
}

// The rest of the spec ----------------------------------------------------

absl::Status CheckNumbers(const WorkerSpec& spec) {
  auto contradiction = [&](absl::string_view text) {
    return Bad(absl::StrCat(spec.source, ": rank ", spec.rank, " of ",
                            spec.ranks, ", on its host ", spec.local_rank,
                            " of ", spec.local_ranks, ": ", text));
  };
  if (spec.ranks == 0) return contradiction("a job has at least one rank");
  if (spec.rank >= spec.ranks) {
    return contradiction(absl::StrCat("the last rank is ", spec.ranks - 1));
  }
  if (spec.local_ranks == 0 || spec.local_ranks > spec.ranks) {
    return contradiction("a host has 1 to all of the ranks");
  }
  if (spec.local_rank >= spec.local_ranks || spec.local_rank > spec.rank) {
    return contradiction("ranks of a host are counted from 0, in their order");
  }
  return absl::OkStatus();
}

// torchrun's own agent listens at MASTER_PORT, where it says so.
uint32_t MasterPort(const Environment& env, uint32_t port) {
  return env.Get("TORCHELASTIC_USE_AGENT_STORE") == "True" ? port + 1 : port;
}

absl::Status FindMeeting(const Environment& env, const LauncherFlags& flags,
                         WorkerSpec* spec) {
  const std::string slurm_host = std::exchange(spec->coordinator, "");
  const std::string running = env.Get("WEFT_COORDINATOR").value_or("");
  const std::string master = env.Get("MASTER_ADDR").value_or("");
  const std::string port = env.Get("MASTER_PORT").value_or("");
  spec->hosts_coordinator = spec->rank == 0;
  HostPort meet;
  if (!flags.coordinator.empty()) {
    WEFT_ASSIGN_OR_RETURN(meet,
                          ParseHostPort("--coordinator", flags.coordinator));
  } else if (!running.empty()) {
    WEFT_ASSIGN_OR_RETURN(meet, ParseHostPort("WEFT_COORDINATOR", running));
    spec->hosts_coordinator = false;
  } else if (spec->one_host()) {
    if (spec->job_id == "pmi-") {
      return Bad(
          absl::StrCat(spec->source,
                       " gives a job no name that its ranks could meet by: add "
                       "--coordinator 127.0.0.1:PORT"));
    }
    spec->meeting = absl::StrCat(spec->job_id, "/", spec->restart);
    return absl::OkStatus();
  } else if (!master.empty()) {
    WEFT_ASSIGN_OR_RETURN(
        meet,
        ParseHostPort(
            "MASTER_ADDR:MASTER_PORT",
            JoinHostPort(master, port.empty() ? absl::StrCat(kPort) : port)));
    meet.port = MasterPort(env, meet.port);
  } else if (!slurm_host.empty()) {
    WEFT_ASSIGN_OR_RETURN(meet, ParseHostPort("Slurm's host", slurm_host));
    if (!port.empty()) {
      WEFT_ASSIGN_OR_RETURN(
          meet, ParseHostPort("MASTER_PORT", JoinHostPort(meet.host, port)));
    }
  } else {
    return Bad(absl::StrCat(
        spec->source, ": ", spec->ranks, " ranks, of which ", spec->local_ranks,
        " on this host; where rank 0 is, nobody says: add --coordinator "
        "HOST:PORT, or MASTER_ADDR and MASTER_PORT"));
  }
  spec->coordinator = JoinHostPort(meet.host, meet.port);
  if (IsLoopback(meet.host) && !spec->one_host()) {
    return Bad(absl::StrCat(
        spec->source, ": the ranks are to meet at ", spec->coordinator,
        ", which other hosts cannot reach, and only ", spec->local_ranks,
        " of ", spec->ranks, " ranks are on this one"));
  }
  return absl::OkStatus();
}

absl::Status ReadOurVariables(const Environment& env, WorkerSpec* spec) {
  spec->run_directory = env.Get("WEFT_JOIN_RUN").value_or("");
  spec->error_file = env.Get("WEFT_ERROR_FILE").value_or("");
  spec->secret_file = env.Get("WEFT_SECRET_FILE").value_or("");
  const std::string fd = env.Get("WEFT_SECRET_FD").value_or("");
  if (!fd.empty() &&
      (!absl::SimpleAtoi(fd, &spec->secret_fd) || spec->secret_fd < 3)) {
    return Bad(absl::StrCat("WEFT_SECRET_FD is '", fd,
                            "', which is no descriptor of a secret"));
  }
  return absl::OkStatus();
}

absl::Status ReadRestart(const Environment& env, WorkerSpec* spec) {
  for (const char* name :
       {"TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"}) {
    const std::string text = env.Get(name).value_or("");
    if (text.empty()) continue;
    if (!absl::SimpleAtoi(text, &spec->restart)) {
      return Bad(absl::StrCat(name, " is '", text, "', expected a number"));
    }
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WorkerSpec> WorkerSpecFrom(const Environment& env,
                                          const LauncherFlags& flags) {
  WEFT_ASSIGN_OR_RETURN(const std::string launcher, LauncherOf(env, flags));
  WorkerSpec alone;
  alone.source = "one process";
  if (launcher == "none") return alone;
  WEFT_ASSIGN_OR_RETURN(std::vector<Set> sets,
                        Candidates(env, flags, launcher));
  std::vector<Set> halves;
  for (Set& set : sets) {
    if (!set.complete()) {
      halves.push_back(std::move(set));
      continue;
    }
    if (!set.wrong.ok()) return Annotate(set.wrong, set.spec.source);
    WorkerSpec spec = std::move(set.spec);
    WEFT_RETURN_IF_ERROR(CheckNumbers(spec));
    WEFT_RETURN_IF_ERROR(ReadOurVariables(env, &spec));
    WEFT_RETURN_IF_ERROR(ReadRestart(env, &spec));
    if (spec.ranks == 1) {
      spec.coordinator.clear();
      spec.job_id.clear();
    } else {
      WEFT_RETURN_IF_ERROR(FindMeeting(env, flags, &spec));
    }
    return spec;
  }
  if (!halves.empty()) return HalfSets(halves);
  if (launcher != "auto") {
    return Bad(absl::StrCat("launcher '", launcher,
                            "' was asked for, and none of its variables is "
                            "there"));
  }
  if (!flags.coordinator.empty()) {
    return Bad(
        "--coordinator is where several ranks meet; --rank and --ranks are "
        "missing");
  }
  return alone;
}

std::string Describe(const WorkerSpec& spec) {
  if (spec.ranks == 1) return absl::StrCat("1 rank, by ", spec.source);
  return absl::StrCat(
      "rank ", spec.rank, " of ", spec.ranks, ", on its host ", spec.local_rank,
      " of ", spec.local_ranks, ", by ", spec.source,
      spec.restart > 0 ? absl::StrCat(", restart ", spec.restart) : "",
      spec.coordinator.empty()
          ? ", all on this host"
          : absl::StrCat(", coordinator ", spec.coordinator,
                         spec.hosts_coordinator ? " (here)" : ""));
}

uint32_t ThreadsPerRank(uint32_t cores, const WorkerSpec& spec) {
  return std::max<uint32_t>(1, cores / (spec.bound ? 1 : spec.local_ranks));
}

}  // namespace weft::runtime
