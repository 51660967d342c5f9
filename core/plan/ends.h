// The two ends of a channel, and what to say where they are not alike.
//
//   ChannelEnds ends{&of_the_sender, &of_the_receiver};
//   if (!Alike(ends)) return EndsDiffer(0, 1, ends, all_from_0_to_1);
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_PLAN_ENDS_H_
#define WEFT_CORE_PLAN_ENDS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/proto/plan.pb.h"

namespace weft::plan {

// Null: that rank has no such channel.
struct ChannelEnds {
  const Channel* sender = nullptr;
  const Channel* receiver = nullptr;
};

// Both are there, of one name, type and number of copies, and both mapped, or
// landing in what was lent, or neither.
bool Alike(const ChannelEnds& ends);

// kPlansDiffer, with what both ranks say of the channel. Of `of_pair`, all
// channels from the one to the other, it takes the end that has the same stem
// (core/base/channel_name.h): what the other rank decided instead.
// Pre-condition: at least one end is there.
absl::Status EndsDiffer(uint32_t from, uint32_t to, const ChannelEnds& ends,
                        absl::Span<const ChannelEnds> of_pair);

}  // namespace weft::plan

#endif  // WEFT_CORE_PLAN_ENDS_H_
