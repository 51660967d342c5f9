#include "runtime/rendezvous/worker_spec.h"

#include <map>

#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/rendezvous/host_list.h"

namespace weft::runtime {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

// Environments of rank 1 of 2, or as said. Those marked "captured" are what the
// launcher gave on this kind of machine, without what has nothing to do with
// ranks; others follow the launchers' manuals.

// mpirun 4.1.4 on one host. Captured.
Variables OpenMpi4() {
  return {{"OMPI_APP_CTX_NUM_PROCS", "2"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"OMPI_COMM_WORLD_NODE_RANK", "1"},
          {"OMPI_COMM_WORLD_RANK", "1"},
          {"OMPI_COMM_WORLD_SIZE", "2"},
          {"OMPI_FIRST_RANKS", "0"},
          {"OMPI_MCA_ess_base_jobid", "1977614337"},
          {"OMPI_MCA_ess_base_vpid", "1"},
          {"OMPI_MCA_orte_bound_at_launch", "1"},
          {"OMPI_MCA_orte_num_nodes", "1"},
          {"OMPI_MCA_orte_precondition_transports",
           "3e7ec9fb9ef57ddd-e5eaafee122404a3"},
          {"OMPI_UNIVERSE_SIZE", "2"},
          {"PMIX_HOSTNAME", "vm"},
          {"PMIX_ID", "1977614337.1"},
          {"PMIX_NAMESPACE", "1977614337"},
          {"PMIX_RANK", "1"},
          {"PMIX_SECURITY_MODE", "native"},
          {"PMIX_VERSION", "4.2.2rc2"}};
}

// mpirun 5, two ranks on each of two hosts; this is rank 3.
Variables OpenMpi5() {
  return {{"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"OMPI_COMM_WORLD_NODE_RANK", "1"},
          {"OMPI_COMM_WORLD_RANK", "3"},
          {"OMPI_COMM_WORLD_SIZE", "4"},
          {"OMPI_UNIVERSE_SIZE", "4"},
          {"PMIX_NAMESPACE", "prterun-n1-81234@1"},
          {"PMIX_RANK", "3"},
          {"PRTE_LAUNCHED", "1"}};
}

// mpiexec.hydra of MPICH 4.0.2. Captured.
Variables Mpich() {
  return {{"HYDI_CONTROL_FD", "7"}, {"MPIR_CVAR_CH3_INTERFACE_HOSTNAME", "vm"},
          {"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "1"},
          {"PMI_FD", "8"},          {"PMI_RANK", "1"},
          {"PMI_SIZE", "2"}};
}

// torchrun --standalone.
Variables Torch() {
  return {{"GROUP_RANK", "0"},
          {"GROUP_WORLD_SIZE", "1"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", "29500"},
          {"OMP_NUM_THREADS", "1"},
          {"RANK", "1"},
          {"ROLE_NAME", "default"},
          {"ROLE_RANK", "1"},
          {"ROLE_WORLD_SIZE", "2"},
          {"TORCHELASTIC_MAX_RESTARTS", "3"},
          {"TORCHELASTIC_RESTART_COUNT", "0"},
          {"TORCHELASTIC_RUN_ID", "a5c1"},
          {"TORCHELASTIC_USE_AGENT_STORE", "False"},
          {"WORLD_SIZE", "2"}};
}

// srun -N 3 --ntasks 5; rank 4 on the last host.
Variables Slurm() {
  return {{"SLURM_JOB_ID", "4711"},
          {"SLURM_JOB_NODELIST", "gpu-a01,node[02-03]"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_NNODES", "3"},
          {"SLURM_NODEID", "2"},
          {"SLURM_NTASKS", "5"},
          {"SLURM_PROCID", "4"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NODELIST", "gpu-a01,node[02-03]"},
          {"SLURM_STEP_NUM_NODES", "3"},
          {"SLURM_STEP_NUM_TASKS", "5"},
          {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"}};
}

// srun -n 2 of Slurm 22.05 on one host. Captured.
Variables SlurmOneHost() {
  return {{"SLURMD_NODENAME", "vm"},     {"SLURM_CPUS_ON_NODE", "1"},
          {"SLURM_GTIDS", "0,1"},        {"SLURM_JOBID", "1"},
          {"SLURM_JOB_ID", "1"},         {"SLURM_JOB_NODELIST", "vm"},
          {"SLURM_LOCALID", "1"},        {"SLURM_NNODES", "1"},
          {"SLURM_NODEID", "0"},         {"SLURM_NODELIST", "vm"},
          {"SLURM_NPROCS", "2"},         {"SLURM_NTASKS", "2"},
          {"SLURM_OVERCOMMIT", "1"},     {"SLURM_PROCID", "1"},
          {"SLURM_STEPID", "0"},         {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NODELIST", "vm"}, {"SLURM_STEP_NUM_NODES", "1"},
          {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "2"},
          {"SLURM_TASKS_PER_NODE", "2"}, {"SLURM_TASK_PID", "679"}};
}

// The script that sbatch runs, which is no rank.
Variables SlurmScript() {
  return {{"SLURM_JOB_ID", "4711"},
          {"SLURM_JOB_NODELIST", "node[1-2]"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_NODEID", "0"},
          {"SLURM_NTASKS", "4"},
          {"SLURM_PROCID", "0"},
          {"SLURM_TASKS_PER_NODE", "2(x2)"}};
}

Variables Kubernetes() {
  return {{"HOSTNAME", "train-1"},
          {"JOB_COMPLETION_INDEX", "1"},
          {"KUBERNETES_SERVICE_HOST", "10.0.0.1"},
          {"MASTER_ADDR", "train-0.workers"},
          {"WORLD_SIZE", "4"}};
}

Variables With(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

Variables Without(Variables variables, const std::string& name) {
  EXPECT_EQ(variables.erase(name), 1u) << name;
  return variables;
}

absl::StatusOr<WorkerSpec> SpecOf(const Variables& variables,
                                  const LauncherFlags& flags = {}) {
  return WorkerSpecFrom(Environment::Of(variables), flags);
}

LauncherFlags Launcher(const std::string& name) {
  LauncherFlags flags;
  flags.launcher = name;
  return flags;
}

LauncherFlags RankFlags(const std::string& rank, const std::string& ranks,
                        const std::string& coordinator) {
  LauncherFlags flags;
  flags.rank = rank;
  flags.ranks = ranks;
  flags.coordinator = coordinator;
  return flags;
}

struct Good {
  const char* name;
  Variables variables;
  LauncherFlags flags;
  uint32_t rank, ranks, local_rank, local_ranks;
  std::string coordinator, meeting;
  const char* source;
};

void ExpectSpecs(const std::vector<Good>& cases) {
  for (const Good& c : cases) {
    SCOPED_TRACE(c.name);
    absl::StatusOr<WorkerSpec> spec = SpecOf(c.variables, c.flags);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->rank, c.rank);
    EXPECT_EQ(spec->ranks, c.ranks);
    EXPECT_EQ(spec->local_rank, c.local_rank);
    EXPECT_EQ(spec->local_ranks, c.local_ranks);
    EXPECT_EQ(spec->coordinator, c.coordinator);
    EXPECT_EQ(spec->meeting, c.meeting);
    EXPECT_EQ(spec->hosts_coordinator, c.ranks > 1 && c.rank == 0);
    EXPECT_THAT(spec->source, HasSubstr(c.source));
  }
}

TEST(WorkerSpecTest, OfMpi) {
  ExpectSpecs({
      {"nothing", {}, {}, 0, 1, 0, 1, "", "", "one process"},
      {"mpirun 4",
       OpenMpi4(),
       {},
       1,
       2,
       1,
       2,
       "",
       "mpi-19776143373e7ec9fb9ef57ddd-e5eaafee122404a3/0",
       "mpirun"},
      {"mpirun 5, two hosts", With(OpenMpi5(), {{"MASTER_ADDR", "n1"}}),
       Launcher("mpi"), 3, 4, 1, 2, "n1:29517", "", "mpirun"},
      {"mpirun 5 and a flag", OpenMpi5(), RankFlags("", "", "n1:4000"), 3, 4, 1,
       2, "n1:4000", "", "mpirun"},
      {"mpich", Mpich(), RankFlags("", "", "127.0.0.1:4000"), 1, 2, 1, 2,
       "127.0.0.1:4000", "", "mpiexec"},
  });
}

TEST(WorkerSpecTest, OfTorchrun) {
  ExpectSpecs({
      {"torchrun", Torch(), {}, 1, 2, 1, 2, "", "a5c1-29500/0", "torchrun"},
      {"torchrun, restarted",
       With(Torch(), {{"TORCHELASTIC_RESTART_COUNT", "2"}}),
       {},
       1,
       2,
       1,
       2,
       "",
       "a5c1-29500/2",
       "torchrun"},
      {"two hosts",
       With(Torch(),
            {{"WORLD_SIZE", "4"}, {"RANK", "3"}, {"MASTER_ADDR", "n1"}}),
       {},
       3,
       4,
       1,
       2,
       "n1:29500",
       "",
       "torchrun"},
      {"an agent has the port",
       With(Torch(), {{"WORLD_SIZE", "4"},
                      {"MASTER_ADDR", "n1"},
                      {"TORCHELASTIC_USE_AGENT_STORE", "True"}}),
       {},
       1,
       4,
       1,
       2,
       "n1:29501",
       "",
       "torchrun"},
      {"an address of version 6",
       With(Torch(), {{"WORLD_SIZE", "4"}, {"MASTER_ADDR", "fd00::2"}}),
       {},
       1,
       4,
       1,
       2,
       "[fd00::2]:29500",
       "",
       "torchrun"},
      {"by hand, one rank a host",
       {{"RANK", "1"},
        {"WORLD_SIZE", "2"},
        {"MASTER_ADDR", "n1"},
        {"MASTER_PORT", "4000"}},
       {},
       1,
       2,
       0,
       1,
       "n1:4000",
       "",
       "RANK"},
      {"by hand, on one host",
       {{"RANK", "1"},
        {"WORLD_SIZE", "2"},
        {"MASTER_ADDR", "localhost"},
        {"MASTER_PORT", "4000"}},
       Launcher("env"),
       1,
       2,
       1,
       2,
       "",
       "env-4000/0",
       "RANK"},
      {"a world of one",
       {{"RANK", "0"}, {"WORLD_SIZE", "1"}},
       {},
       0,
       1,
       0,
       1,
       "",
       "",
       "RANK"},
  });
}

TEST(WorkerSpecTest, OfSlurmAndKubernetes) {
  ExpectSpecs({
      {"srun", Slurm(), {}, 4, 5, 0, 1, "gpu-a01:30427", "", "srun"},
      {"srun on one host",
       SlurmOneHost(),
       {},
       1,
       2,
       1,
       2,
       "",
       "slurm-1.0/0",
       "srun"},
      {"srun with an address",
       With(Slurm(), {{"MASTER_ADDR", "n9"}, {"MASTER_PORT", "77"}}),
       {},
       4,
       5,
       0,
       1,
       "n9:77",
       "",
       "srun"},
      {"srun with a port", With(Slurm(), {{"MASTER_PORT", "77"}}),
       Launcher("slurm"), 4, 5, 0, 1, "gpu-a01:77", "", "srun"},
      {"a script of sbatch",
       SlurmScript(),
       {},
       0,
       1,
       0,
       1,
       "",
       "",
       "one process"},
      {"kubernetes",
       Kubernetes(),
       {},
       1,
       4,
       0,
       1,
       "train-0.workers:29517",
       "",
       "Kubernetes"},
  });
}

TEST(WorkerSpecTest, TheFirstCompleteSetWins) {
  ExpectSpecs({
      {"torchrun wins over mpirun",
       With(OpenMpi5(), Torch()),
       {},
       1,
       2,
       1,
       2,
       "",
       "a5c1-29500/0",
       "torchrun"},
      {"mpirun wins over srun",
       With(OpenMpi4(), Slurm()),
       {},
       1,
       2,
       1,
       2,
       "",
       "mpi-19776143373e7ec9fb9ef57ddd-e5eaafee122404a3/0",
       "mpirun"},
      {"a complete set wins over half of one",
       With(OpenMpi4(), {{"RANK", "7"}}),
       {},
       1,
       2,
       1,
       2,
       "",
       "mpi-19776143373e7ec9fb9ef57ddd-e5eaafee122404a3/0",
       "mpirun"},
      {"srun was asked for", With(OpenMpi4(), Slurm()), Launcher("slurm"), 4, 5,
       0, 1, "gpu-a01:30427", "", "srun"},
      {"none was asked for", Torch(), Launcher("none"), 0, 1, 0, 1, "", "",
       "one process"},
      {"none by the environment",
       With(Torch(), {{"WEFT_LAUNCHER", "none"}}),
       {},
       0,
       1,
       0,
       1,
       "",
       "",
       "one process"},
      {"flags win", Torch(), RankFlags("0", "3", "n1:4000"), 0, 3, 0, 1,
       "n1:4000", "", "flags"},
      {"flags on one host",
       {},
       RankFlags("2", "3", "127.0.0.1:4000"),
       2,
       3,
       2,
       3,
       "127.0.0.1:4000",
       "",
       "flags"},
  });
}

// Whatever of a set is missing, rank 1 of 2 must not train by itself.
TEST(WorkerSpecTest, AnyMissingVariableIsNamed) {
  const std::pair<Variables, std::vector<const char*>> sets[] = {
      {Torch(),
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
        "MASTER_PORT"}},
      {OpenMpi4(),
       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"}},
      {Mpich(), {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"}},
      {Slurm(),
       {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_ID",
        "SLURM_STEP_NODELIST", "SLURM_JOB_ID", "SLURM_STEP_TASKS_PER_NODE"}},
      {Kubernetes(), {"WORLD_SIZE", "MASTER_ADDR"}},
  };
  for (const auto& [variables, names] : sets) {
    for (const char* name : names) {
      for (bool empty : {false, true}) {
        Variables half = Without(variables, name);
        if (empty) half[name] = "";
        absl::Status status = SpecOf(half).status();
        EXPECT_TRUE(IsError(status, ErrorCode::kBadLaunch)) << name << status;
        EXPECT_THAT(std::string(status.message()),
                    AllOf(HasSubstr(name), HasSubstr("missing"),
                          HasSubstr("--launcher=none")));
      }
    }
  }
}

TEST(WorkerSpecTest, WhatIsThereIsNamedToo) {
  EXPECT_EQ(SpecOf({{"RANK", "1"}, {"MASTER_ADDR", "n1"}}).status().message(),
            "of RANK, WORLD_SIZE, ... there is RANK=1 MASTER_ADDR=n1 and "
            "WORLD_SIZE, MASTER_PORT are missing (--launcher=none is one "
            "process alone)");
}

struct Wrong {
  const char* name;
  Variables variables;
  LauncherFlags flags;
  const char* message;
};

TEST(WorkerSpecTest, Contradictions) {
  const Wrong cases[] = {
      {"rank", With(Torch(), {{"RANK", "2"}}), {}, "the last rank is 1"},
      {"no number", With(Torch(), {{"RANK", "1st"}}), {}, "RANK is '1st'"},
      {"negative", With(Torch(), {{"RANK", "-1"}}), {}, "RANK is '-1'"},
      {"too many",
       With(Torch(), {{"WORLD_SIZE", "65537"}}),
       {},
       "WORLD_SIZE is '65537'"},
      {"no ranks",
       With(OpenMpi4(), {{"OMPI_COMM_WORLD_SIZE", "0"}}),
       {},
       "at least one rank"},
      {"more local ones",
       With(Torch(), {{"LOCAL_WORLD_SIZE", "3"}}),
       {},
       "1 to all of the ranks"},
      {"local rank",
       With(Torch(), {{"LOCAL_RANK", "2"}}),
       {},
       "counted from 0"},
      {"loopback",
       With(Torch(), {{"WORLD_SIZE", "4"}}),
       {},
       "127.0.0.1:29500, which other hosts cannot reach"},
      {"loopback by flag", OpenMpi5(), RankFlags("", "", "[::1]:4000"),
       "[::1]:4000, which other hosts cannot reach"},
      {"nobody says where", OpenMpi5(), {}, "where rank 0 is, nobody says"},
      {"no name to meet by", Mpich(), {}, "add --coordinator 127.0.0.1:PORT"},
      {"port",
       With(Torch(), {{"WORLD_SIZE", "4"},
                      {"MASTER_ADDR", "n1"},
                      {"MASTER_PORT", "70000"}}),
       {},
       "a port of 1 to 65535"},
      {"restart",
       With(Torch(), {{"TORCHELASTIC_RESTART_COUNT", "x"}}),
       {},
       "TORCHELASTIC_RESTART_COUNT is 'x'"},
      {"host list",
       With(Slurm(), {{"SLURM_STEP_NODELIST", "n[1-"}}),
       {},
       "no list of hosts"},
      {"tasks",
       With(Slurm(), {{"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}}),
       {},
       "no host number 2"},
      {"launcher", {}, Launcher("slrum"), "did you mean 'slurm'"},
      {"launcher of the environment",
       {{"WEFT_LAUNCHER", "torch"}},
       {},
       "launcher 'torch' is not known"},
      {"asked for, not there", {}, Launcher("mpi"), "none of its variables"},
      {"asked for, a script", SlurmScript(), Launcher("slurm"),
       "SLURM_STEP_NODELIST, SLURM_STEP_ID or SLURM_STEPID are missing"},
      {"rank alone", {}, RankFlags("1", "", ""), "--ranks, --coordinator are"},
      {"no coordinator", {}, RankFlags("1", "2", ""), "--coordinator is miss"},
      {"coordinator alone",
       {},
       RankFlags("", "", "n1:1"),
       "--rank and --ranks"},
      {"no port", {}, RankFlags("1", "2", "n1"), "HOST:PORT"},
      {"secret",
       With(Torch(), {{"WEFT_SECRET_FD", "1"}}),
       {},
       "no descriptor of a secret"},
  };
  for (const Wrong& c : cases) {
    SCOPED_TRACE(c.name);
    absl::Status status = SpecOf(c.variables, c.flags).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kBadLaunch)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
  }
}

TEST(WorkerSpecTest, RanksOfOurLauncherHostNoCoordinator) {
  Variables variables = With(Torch(), {{"RANK", "0"},
                                       {"LOCAL_RANK", "0"},
                                       {"TORCHELASTIC_RESTART_COUNT", "1"},
                                       {"WEFT_COORDINATOR", "127.0.0.1:4711"},
                                       {"WEFT_SECRET_FD", "5"},
                                       {"WEFT_JOIN_RUN", "/runs/x"},
                                       {"WEFT_ERROR_FILE", "/runs/x/e"}});
  absl::StatusOr<WorkerSpec> spec = SpecOf(variables);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_FALSE(spec->hosts_coordinator);
  EXPECT_EQ(spec->coordinator, "127.0.0.1:4711");
  EXPECT_EQ(spec->job_id, "a5c1");
  EXPECT_EQ(spec->restart, 1u);
  EXPECT_EQ(spec->secret_fd, 5);
  EXPECT_EQ(spec->run_directory, "/runs/x");
  EXPECT_EQ(spec->error_file, "/runs/x/e");
  EXPECT_EQ(Describe(*spec),
            "rank 0 of 2, on its host 0 of 2, by weft run, restart 1, "
            "coordinator 127.0.0.1:4711");
}

TEST(WorkerSpecTest, ThreadsAreSharedByTheRanksOfAHost) {
  WorkerSpec spec;
  EXPECT_EQ(ThreadsPerRank(8, spec), 8u);
  spec.local_ranks = 3;
  EXPECT_EQ(ThreadsPerRank(8, spec), 2u);
  EXPECT_EQ(ThreadsPerRank(2, spec), 1u);
}

// What it may use is its own part already.
TEST(WorkerSpecTest, ABoundRankHasItsCoresAlone) {
  absl::StatusOr<WorkerSpec> mpi = SpecOf(OpenMpi4());
  ASSERT_TRUE(mpi.ok());
  EXPECT_EQ(ThreadsPerRank(4, *mpi), 4u);
  Variables slurm =
      With(Slurm(), {{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}});
  EXPECT_EQ(ThreadsPerRank(4, SpecOf(slurm).value()), 2u);
  slurm["SLURM_CPU_BIND_TYPE"] = "none";
  EXPECT_EQ(ThreadsPerRank(4, SpecOf(slurm).value()), 2u);
  slurm["SLURM_CPU_BIND_TYPE"] = "mask_cpu:";
  EXPECT_EQ(ThreadsPerRank(4, SpecOf(slurm).value()), 4u);
}

std::string Hosts(const std::string& text) {
  absl::StatusOr<std::vector<std::string>> hosts = ParseHostList(text);
  if (hosts.ok()) return absl::StrJoin(*hosts, " ");
  EXPECT_TRUE(IsError(hosts.status(), ErrorCode::kBadLaunch));
  return "refused";
}

TEST(HostListTest, Forms) {
  EXPECT_EQ(Hosts("localhost"), "localhost");
  EXPECT_EQ(Hosts("node[1-3,7],gpu-a01"), "node1 node2 node3 node7 gpu-a01");
  EXPECT_EQ(Hosts("n[08-11]"), "n08 n09 n10 n11");
  EXPECT_EQ(Hosts("n[098-101].rack,m"),
            "n098.rack n099.rack n100.rack "
            "n101.rack m");
  EXPECT_EQ(Hosts("r[1-2]n[0-1]"), "r1n0 r1n1 r2n0 r2n1");
}

TEST(HostListTest, Refused) {
  for (const char* text :
       {"", "a,", "n[1-", "n]1", "n[[1]]", "n[3-1]", "n[a]", "n[]", "n[1-2-3]",
        "n[-1]", "n[0-70000]", "r[0-999]n[0-999]", "n[9999999999]"}) {
    EXPECT_EQ(Hosts(text), "refused") << text;
  }
}

}  // namespace
}  // namespace weft::runtime
