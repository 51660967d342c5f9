// The third part of the validator: channels, the tasks at their ends, and what
// ranks read or write at each other.
//
//   WireValidator wire(plan, &producer);
//   WEFT_RETURN_IF_ERROR(wire.CheckChannels());
//   WEFT_RETURN_IF_ERROR(wire.CheckTask(task, name));   // SEND, POST, RECV
//   WEFT_RETURN_IF_ERROR(wire.CheckEnds());
//
// All give kBadPlan. Only validate.cc uses this, after it has checked indices,
// sizes and aliases.
//
// Threading: thread-compatible. Ownership: refers to its arguments.
#ifndef WEFT_CORE_PLAN_VALIDATE_WIRE_H_
#define WEFT_CORE_PLAN_VALIDATE_WIRE_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/actor/message.h"
#include "core/plan/plan.h"

namespace weft::plan {

// Budgets: what fits into the fields of messages and actor ids.
constexpr uint32_t kMaxCopies = 65534;
constexpr uint32_t kMaxRanks = 1u << actor::ActorId::kRankBits;

class WireValidator {
 public:
  // `producer`: by register, the task that gives it; filled before CheckTask.
  WireValidator(const Plan& plan, const std::vector<int>* producer)
      : plan_(plan), producer_(producer) {}

  absl::Status CheckChannels();
  // Each end of a channel has its one task: SEND, or POST and RECV. Where ranks
  // were joined (job.h), registers took the place of channels.
  absl::Status CheckTask(const Task& task, const std::string& name);
  // Both ends of this rank's channels are there.
  absl::Status CheckEnds() const;

 private:
  // What says that a mapped channel's value has been read leads back.
  absl::Status CheckRead(const Channel& channel, const std::string& name) const;
  // It gives on what the POST of its own channel has posted, where that lies,
  // or what lies at the peer. Returns the register that POST gave.
  absl::StatusOr<uint32_t> CheckRecv(const Task& task, const std::string& name,
                                     bool mapped);
  // The register that this rank lent where the channel of `recv` lands; one
  // that there is not where it lent none.
  uint32_t LentBy(const Task& recv);
  // What has landed is all of what was lent, as it lies there.
  absl::Status CheckWhole(const std::string& name, uint32_t landed) const;
  // What is said to have landed lies in what was lent to this rank.
  absl::Status CheckLanded(const Task& task, const std::string& name,
                           int c) const;
  // What a peer reads lies where it can, and is held until it has been read.
  absl::Status CheckShared(const Task& task, const std::string& name,
                           uint32_t r);
  // The task of this kind, SEND or RECV, at a channel (1 + index); -1: there is
  // none.
  int EndOf(uint32_t channel, Task::Kind kind);
  absl::Status CheckPeer(const Task& task, const std::string& name,
                         const Channel& channel) const;

  const Plan& plan_;
  const std::vector<int>* producer_;
  // Of channels, 1 + index: SEND and RECV (EndOf), and which mapped channel it
  // answers, 1 + index, or 0.
  std::vector<std::pair<int, int>> end_of_;
  std::vector<uint32_t> mapped_of_;
  std::set<std::pair<int, int>> wire_tasks_;  // channel and kind
};

}  // namespace weft::plan

#endif  // WEFT_CORE_PLAN_VALIDATE_WIRE_H_
