// Rendezvous: where the ranks of a job meet before they are connected, and
// agree on what none of them can know alone.
//
//   WEFT_ASSIGN_OR_RETURN(std::vector<std::string> addresses,
//                         rendezvous->AllGather(rank, "address", mine));
//
// A rank that gives up says so with Fail; then nobody waits for it any longer.
//
// Threading: thread-safe.
#ifndef WEFT_RUNTIME_RENDEZVOUS_RENDEZVOUS_H_
#define WEFT_RUNTIME_RENDEZVOUS_RENDEZVOUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft::runtime {

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
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_RENDEZVOUS_RENDEZVOUS_H_
