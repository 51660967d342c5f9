// Channels: the graphs of a job's ranks are tied together by weft.Send and
// weft.Recv nodes. A Send of rank a to peer b and the Recv of rank b from peer
// a with the same `channel` are one edge; each is the only one of its name
// between the two. Recv gives what Send took, act by act.
//
//   WEFT_RETURN_IF_ERROR(MatchChannels({&graph_of_rank_0, &graph_of_rank_1}));
//
// Ranks that derive a name from a decision of their own (core/base/
// channel_name.h) and disagree meet in no channel, and the error shows what
// each of them decided.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_GRAPH_CHANNELS_H_
#define WEFT_CORE_GRAPH_CHANNELS_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace weft {

// Proves that every channel of a job has one Send and one Recv of one type and,
// where a rank accumulates over micro-batches, of one rate. `ranks` by rank
// number. Errors name the channel, both ranks and both nodes: kBadGraph for a
// peer that is missing or the rank itself, a side that is missing or there
// twice, two rates, and ranks that disagree (both decisions); kShapeMismatch,
// kDTypeMismatch for two types.
absl::Status MatchChannels(absl::Span<const Graph* const> ranks);

}  // namespace weft

#endif  // WEFT_CORE_GRAPH_CHANNELS_H_
