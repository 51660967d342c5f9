// WorkerSpec: which rank of which job this process is, and where its ranks
// meet, by what started it.
//
//   WEFT_ASSIGN_OR_RETURN(WorkerSpec spec,
//                         WorkerSpecFrom(Environment::FromProcess(), flags));
//   LOG(INFO) << Describe(spec);
//   if (spec.ranks == 1) return TrainAlone();
//   WEFT_ASSIGN_OR_RETURN(Secret secret, ReadJobSecret(spec));
//
// The first complete set wins:
//   1. flags                      --rank --ranks --coordinator ...
//   2. weft run, torchrun         RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
//                                 MASTER_ADDR MASTER_PORT
//   3. mpirun of Open MPI 4 and 5 OMPI_COMM_WORLD_{RANK,SIZE,LOCAL_RANK,...}
//   4. mpiexec of MPICH and such  PMI_RANK PMI_SIZE
//   5. srun                       SLURM_PROCID SLURM_STEP_NODELIST ...
//   6. an indexed Kubernetes job  JOB_COMPLETION_INDEX, WORLD_SIZE, MASTER_ADDR
//   7. none of them: one process
// A set of which only a part is there is an error where no other is complete:
// a rank that took itself for a job of its own would train and save in vain.
//
// Where the ranks meet, one of:
//   - `coordinator` is host:port. `hosts_coordinator` is true for the one rank
//     that has to start it there; for none where the launcher did.
//   - `meeting` is a name (meeting_point.h): all ranks are on this host. Rank 0
//     starts the coordinator on a free port and hands its address on by that.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_RUNTIME_RENDEZVOUS_WORKER_SPEC_H_
#define WEFT_RUNTIME_RENDEZVOUS_WORKER_SPEC_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/env.h"

namespace weft::runtime {

// As given on a command line; what is empty was not given.
struct LauncherFlags {
  std::string launcher;  // auto env mpi slurm none; empty: WEFT_LAUNCHER, auto
  std::string rank;
  std::string ranks;
  std::string local_rank;
  std::string local_ranks;
  std::string coordinator;  // host:port
};

struct WorkerSpec {
  uint32_t rank = 0;
  uint32_t ranks = 1;
  uint32_t local_rank = 0;  // among those of this host
  uint32_t local_ranks = 1;

  std::string coordinator;
  bool hosts_coordinator = false;
  std::string meeting;

  std::string job_id;    // same on all ranks, empty for one process
  uint64_t restart = 0;  // how often all ranks were started before

  // Of `weft run`; else empty or -1.
  std::string run_directory;  // all ranks of this host use it, and its
                              // checkpoints where `restart` is above 0
  std::string error_file;     // a copy of errors/rank_N.json
  int secret_fd = -1;         // the job's secret, to be read once
  // Of a user whose hosts share files; else empty.
  std::string secret_file;

  // The launcher gave this rank cores of its own: what it may use is its share.
  bool bound = false;

  std::string source;  // what said so: "mpirun (OMPI_COMM_WORLD_*)"

  bool one_host() const { return local_ranks == ranks; }
};

// kBadLaunch names what is there, what is missing and what contradicts itself:
// half a set, a rank beyond the ranks, a loopback address where there are
// several hosts.
absl::StatusOr<WorkerSpec> WorkerSpecFrom(const Environment& env,
                                          const LauncherFlags& flags);

// One line for people.
std::string Describe(const WorkerSpec& spec);

// Of the `cores` that this process may use, those that are this rank's alone,
// at least 1: all of them where the launcher has bound it to some.
uint32_t ThreadsPerRank(uint32_t cores, const WorkerSpec& spec);

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_RENDEZVOUS_WORKER_SPEC_H_
