// Rendezvous: where the ranks of a job meet before they are connected, and
// agree on what none of them can know alone.
//
//   WEFT_ASSIGN_OR_RETURN(std::vector<std::string> addresses,
//                         rendezvous->AllGather(rank, "address", mine));
//
// A rank that gives up says so with Fail; then nobody waits for it any longer,
// and who waits elsewhere is woken.
//
// Threading: thread-safe.
#ifndef WEFT_RUNTIME_RENDEZVOUS_RENDEZVOUS_H_
#define WEFT_RUNTIME_RENDEZVOUS_RENDEZVOUS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft::runtime {

// The payload of a status that tells what another rank has failed with; its
// value is that rank's number.
inline constexpr char kOfAnotherRank[] = "weft/of-another-rank";

// The payload of the loss of a rank that told why it ends: the name of its
// error, "WEFT-6001".
inline constexpr char kCauseName[] = "weft/cause-name";

// Whether `status` tells of the end of another rank, not of one's own.
inline bool IsOfAnotherRank(const absl::Status& status) {
  return absl::IsUnavailable(status) ||
         status.GetPayload(kOfAnotherRank).has_value();
}

// Why a job ends.
struct JobFailure {
  uint32_t rank = 0;    // whose failure it is
  absl::Status status;  // names the rank
  bool came = true;     // false: the others waited for it in vain
};

// How far a rank is.
struct RankProgress {
  bool joined = false;
  bool gone = false;  // said goodbye, or died
  std::string host;
  int64_t pid = 0;
  uint64_t step = 0;
  uint64_t act = 0;  // of all its actors
};

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  virtual uint32_t ranks() const = 0;

  // Waits until every rank has called it with the same `key`, which each does
  // once, and returns what they gave, by rank. Errors: the first cause that a
  // rank has failed with; kPeerLost, naming who is missing, after the deadline.
  virtual absl::StatusOr<std::vector<std::string>> AllGather(
      uint32_t rank, const std::string& key, const std::string& value) = 0;

  // Ends every AllGather, now and later, with `cause`. The first call counts.
  virtual void Fail(uint32_t rank, const absl::Status& cause) = 0;

  // What the first rank failed with; OK where none has.
  virtual absl::Status failure() const = 0;

  // How a rank ends that has failed with `mine`: with that or, where it only
  // heard of another's failure, with what is known of the cause. May wait a
  // moment for it. Pre-condition: Fail was called.
  virtual absl::Status Verdict(uint32_t rank, const absl::Status& mine) = 0;

  // Calls `wake`, from any thread, once there is a failure, and at once where
  // there is one; it must not block or call back. Null takes it away: it is not
  // called then any more. One for each rank.
  virtual void SetWake(uint32_t rank, std::function<void()> wake) = 0;

  // How far a rank is, for those who look at a job from outside: the step when
  // there is another, the acts when they are asked for, by any thread. Null
  // takes `acts` away: it is not called then any more.
  virtual void Report(uint32_t /*rank*/, uint64_t /*step*/) {}
  virtual void SetActs(uint32_t /*rank*/, std::function<uint64_t()> /*acts*/) {}
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_RENDEZVOUS_RENDEZVOUS_H_
