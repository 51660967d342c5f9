// Coordinator: where ranks that are processes meet. It lets each of them in
// once, waits until all are there and say the same of what must be the same,
// passes on what they tell each other, sees who is alive, and tells all of them
// at once why the job ends where one fails or dies.
//
//   CoordinatorOptions options;
//   options.ranks = 4;
//   options.secret = secret;
//   WEFT_ASSIGN_OR_RETURN(auto coordinator, Coordinator::Start(options));
//   ... start ranks, which connect to coordinator->address() ...
//   coordinator->WaitForEnd(5'000'000'000);
//   if (auto failure = coordinator->failure()) Show(failure->status);
//
// It runs in the process of rank 0, in a launcher, or alone; it takes part in
// no step. Ranks use GrpcRendezvous. docs/ranks.md tells what is agreed and
// what counts as death.
//
// Who knows no secret gets nothing; who connects and says nothing is dropped
// after `hello_ns`. Without a secret it listens on loopback only.
//
// Threading: thread-safe; on_failure is called by a thread of the coordinator,
// which it must not block. Ownership: the destructor closes every connection.
#ifndef WEFT_RUNTIME_RENDEZVOUS_COORDINATOR_H_
#define WEFT_RUNTIME_RENDEZVOUS_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/secret.h"
#include "runtime/rendezvous/rendezvous.h"

namespace weft::runtime {

struct CoordinatorOptions {
  // "host:port"; port 0: any that is free.
  std::string listen = "127.0.0.1:0";
  uint32_t ranks = 1;
  std::string job_id;  // of the launch; ranks of another are strangers
  uint64_t epoch = 0;  // of the launch: how often it was started again
  Secret secret;       // empty: none
  // The rank whose process it runs in: lost with it. Empty: no rank's.
  std::optional<uint32_t> host_rank;
  // Ranks that say what they want get that instead of these two.
  uint64_t join_ns = 300'000'000'000;  // from Start on, until all are there
  uint64_t silence_ns = 3'500'000'000;
  uint64_t hello_ns = 5'000'000'000;
  // Of a rank that says only that it has lost another: so long the coordinator
  // waits for what that one says itself.
  uint64_t cause_ns = 500'000'000;
  std::function<void(const JobFailure&)> on_failure;  // once
};

class Coordinator {
 public:
  // kBadLaunch for an address that is none or is taken, and for one that is not
  // loopback without a secret. So is a name, other than localhost, that means
  // this machine alone (host_port.h): ranks of other hosts are to come.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(
      const CoordinatorOptions& options);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // "host:port", as ranks of this host use it.
  const std::string& address() const;

  // Why the job ends: the first cause. Empty while it does not.
  std::optional<JobFailure> failure() const;

  // Ends the job with a cause that no rank has told, such as the exit code of
  // one. `rank`: whose it is. The first cause counts.
  void Fail(uint32_t rank, const absl::Status& cause);

  // What ranks have said last, by rank.
  std::vector<RankProgress> progress() const;

  // Whether all ranks have said goodbye, or were told of the failure and have
  // closed their connections; waits for it.
  bool WaitForEnd(uint64_t timeout_ns);

 private:
  class Impl;
  explicit Coordinator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_RENDEZVOUS_COORDINATOR_H_
