// What is to be launched: torchrun's flags, checked and completed.
//
//   LaunchFlags flags;
//   flags.nproc_per_node = "4";
//   WEFT_ASSIGN_OR_RETURN(LaunchOptions options, ResolveLaunch(flags, cores));
//   options.ranks();   // 4
//
// Flags that contradict each other are kBadLaunch, before anything is started.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_RUNTIME_LAUNCH_OPTIONS_H_
#define WEFT_RUNTIME_LAUNCH_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/launch/streams.h"

namespace weft::launch {

// As given on a command line; what is empty was not given.
struct LaunchFlags {
  std::string nnodes;          // number of hosts
  std::string nproc_per_node;  // number of ranks on each; auto: one a core
  std::string node_rank;       // which of the hosts this is
  std::string master_addr;     // the first of them
  std::string master_port;
  std::string rdzv_endpoint;  // HOST:PORT, the two above in one
  std::string rdzv_backend;   // static or c10d: both are our own coordinator
  std::string rdzv_id;        // name of the job
  bool standalone = false;    // one host, whatever else
  std::string max_restarts;
  std::string redirects;  // streams.h
  std::string tee;
  std::string grace;  // seconds that ranks have to save and to stop
  std::string secret_file;
};

struct LaunchOptions {
  uint32_t nodes = 1;
  uint32_t node_rank = 0;
  uint32_t ranks_per_node = 1;
  // Where the coordinator listens, on the first node; port 0: any.
  std::string coordinator = "127.0.0.1:0";
  std::string job_id;  // empty: the launcher takes a random one
  uint64_t max_restarts = 0;
  uint64_t grace_ns = 30'000'000'000;
  StreamRules streams;
  std::string secret_file;

  uint32_t ranks() const { return nodes * ranks_per_node; }
  uint32_t first_rank() const { return node_rank * ranks_per_node; }
};

// `cores`: of this machine, for "auto". kBadLaunch.
absl::StatusOr<LaunchOptions> ResolveLaunch(const LaunchFlags& flags,
                                            uint32_t cores);

}  // namespace weft::launch

#endif  // WEFT_RUNTIME_LAUNCH_OPTIONS_H_
