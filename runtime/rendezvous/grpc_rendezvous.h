// GrpcRendezvous: the ranks are processes, joined by a Coordinator.
//
//   RendezvousOptions options;
//   options.address = "127.0.0.1:29500";
//   options.rank = 1;
//   options.ranks = 4;
//   options.facts = {{"Weft version", "0.1.0"}, {"job file", text}};
//   WEFT_ASSIGN_OR_RETURN(auto meeting, GrpcRendezvous::Connect(options));
//   meeting->AllGather(1, "address", mine);
//   meeting->Leave();
//
// A control thread tells the coordinator each half second that this rank lives
// and how far it is. Another reads, so that a failure elsewhere reaches this
// rank whatever it does: SetWake. A rank that is destroyed without Leave or
// Fail is dead to the others.
//
// Every wait ends: with what was waited for, with the job's failure, when the
// coordinator is gone or silent, or at a deadline.
//
// Threading: thread-safe. `rank` in calls is always the options' own.
#ifndef WEFT_RUNTIME_RENDEZVOUS_GRPC_RENDEZVOUS_H_
#define WEFT_RUNTIME_RENDEZVOUS_GRPC_RENDEZVOUS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/secret.h"
#include "runtime/rendezvous/rendezvous.h"

namespace weft::runtime {

struct RendezvousOptions {
  std::string address;  // of the coordinator, "host:port"
  uint32_t rank = 0;
  uint32_t ranks = 1;
  std::string job_id;
  uint64_t epoch = 0;
  // Of this process; of two processes that say they are the same rank, the one
  // with the smaller number is a left-over. 0: the time.
  uint64_t incarnation = 0;
  Secret secret;
  // What must be equal on all ranks: name and value. Where it is not, all fail
  // with both values, or the first line in which they differ.
  std::vector<std::pair<std::string, std::string>> facts;
  // Until all ranks are there, from Connect on.
  uint64_t join_ns = 300'000'000'000;
  uint64_t deadline_ns = 600'000'000'000;  // of each AllGather and Get
  uint64_t silence_ns = 3'500'000'000;     // of the coordinator
};

class GrpcRendezvous : public Rendezvous {
 public:
  // Waits until all ranks are there and agree. kBadLaunch, on all ranks, where
  // they do not; kPeerLost, naming them, where ranks are missing at the
  // deadline; kPeerRefused where this one is a stranger, stale or a duplicate.
  // Where the coordinator is still that of an earlier start, waits for the next
  // one.
  static absl::StatusOr<std::unique_ptr<GrpcRendezvous>> Connect(
      const RendezvousOptions& options);
  ~GrpcRendezvous() override;

  uint32_t ranks() const override;
  absl::StatusOr<std::vector<std::string>> AllGather(
      uint32_t rank, const std::string& key, const std::string& value) override;
  void Fail(uint32_t rank, const absl::Status& cause) override;
  absl::Status failure() const override;
  absl::Status Verdict(uint32_t rank, const absl::Status& mine) override;
  void SetWake(uint32_t rank, std::function<void()> wake) override;
  void Report(uint32_t rank, uint64_t step) override;
  void SetActs(uint32_t rank, std::function<uint64_t()> acts) override;

  // A value that any rank may read by its key; the last one counts.
  absl::Status Put(const std::string& key, const std::string& value);
  // Waits until somebody has put it.
  absl::StatusOr<std::string> Get(const std::string& key);

  // Says goodbye: the others need this rank no longer. Waits a moment for the
  // coordinator to have heard it.
  absl::Status Leave();

 private:
  class Impl;
  explicit GrpcRendezvous(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_RENDEZVOUS_GRPC_RENDEZVOUS_H_
