// Boundaries: what each rank of a job says of the channels between it and each
// other rank, as digests: small enough to be exchanged where plans are too many
// tasks to be joined (job.h).
//
//   std::string mine = BoundaryText(plan);     // of this rank
//   // all ranks exchange theirs
//   WEFT_RETURN_IF_ERROR(MatchBoundaries(texts));
//
// Where they differ, what exactly: all take the same pair of ranks, and these
// two give their channels.
//
//   std::optional<RankPair> pair = DifferingRanks(texts);
//   std::string mine = ChannelsText(plan, pair->to);      // of rank pair->from
//   // the two exchange theirs
//   return CompareChannels(*pair, of_sender, of_receiver);
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_PLAN_BOUNDARY_H_
#define WEFT_CORE_PLAN_BOUNDARY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/proto/plan.pb.h"

namespace weft::plan {

// Of each direction and peer a line: "> 3 12 90f3.." for 12 channels to rank 3,
// "< 3 .." for those from it. The digest is of the channels' names, types and
// copies, in no order.
std::string BoundaryText(const Plan& plan);

// Texts by rank. kPlansDiffer names the first two ranks of which one sends what
// the other does not receive, with both numbers of channels and both digests;
// kBadPlan for a text that is none.
absl::Status MatchBoundaries(const std::vector<std::string>& texts);

struct RankPair {
  uint32_t from = 0;
  uint32_t to = 0;
};

// The two ranks that MatchBoundaries names as different; nothing where it names
// none.
std::optional<RankPair> DifferingRanks(const std::vector<std::string>& texts);

// The channels between the plan's rank and `peer`.
std::string ChannelsText(const Plan& plan, uint32_t peer);

// kPlansDiffer names the first channel whose ends are not alike, with what both
// say of it; kBadPlan for a text that is none. An empty text is that of a rank
// without any.
absl::Status CompareChannels(const RankPair& pair, const std::string& sender,
                             const std::string& receiver);

}  // namespace weft::plan

#endif  // WEFT_CORE_PLAN_BOUNDARY_H_
