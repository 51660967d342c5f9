// WireWorks: the works of weft.Send and weft.Recv, the ends of channels: see
// partition.h for mapped and lent ones.
//
//   WireWorks wire(&draft, graph);
//   WEFT_RETURN_IF_ERROR(wire.CheckLandings(order));
//   int work = wire.AddSend(node);    // node by node, in order
//   wire.AddReads();                  // when all readers are known
//
// Threading: thread-compatible. Ownership: refers to its arguments.
#ifndef WEFT_COMPILER_PARTITION_WIRE_WORKS_H_
#define WEFT_COMPILER_PARTITION_WIRE_WORKS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "compiler/partition/parts_builder.h"
#include "core/graph/graph.h"

namespace weft {

class WireWorks {
 public:
  WireWorks(PartsBuilder* draft, const Graph& graph)
      : draft_(*draft), graph_(graph), out_(draft->parts()) {}

  // What lands does so in what is lent before, the other way: kBadGraph.
  absl::Status CheckLandings(absl::Span<const Node* const> order) const;

  // The work that the node itself becomes.
  int AddSend(const Node& node);
  int AddRecv(const Node& node);
  // Senders are told when the last reader is done.
  void AddReads();

  // As many as are in use at once, or those that are good for speed.
  int ChannelCopies(const Node& node, const TensorType* type, int acts) const;
  // The buffer that peers read for `from`, which lies on the host: itself, or a
  // copy where it cannot be in shared memory or has copies of its own.
  // `acts`: of the SEND, whose channel has so many copies.
  int Shared(int from, int acts, int channel_copies);

 private:
  // A lent channel, and the buffer that is lent.
  struct Lent {
    int channel = -1;
    int buffer = -1;
  };

  // What a collective exchanges for each micro-batch, and is large: between two
  // acts all others are exchanged, too, so that nobody waits for its memory. In
  // a pipeline other micro-batches come in between.
  bool HasAMicroBatch(const OpView& end, const TensorType& type) const;
  // One end of a channel.
  int AddChannel(const Node& node, const TensorType* type, int acts);
  // The one that says that what the mapped channel `c` brings has been read.
  int AddReadChannel(int c);
  // One that lands in what the channel `lent` carries.
  int AddLandingChannel(const Node& node, const TensorType& type, int acts,
                        int lent);
  // What is lent comes back as another value: each act lends one of its own,
  // which nobody else reads. `buffer`: of `value`.
  int ToLend(const Work& send, Value value, int buffer);
  // Says that the operand lies where it was lent; it is copied there where it
  // does not.
  int AddLanded(const Node& node);
  void HoldUntilRead(const Work& send, int buffer);

  PartsBuilder& draft_;
  const Graph& graph_;
  Partition& out_;
  std::map<std::pair<int, int>, int> shared_;  // buffer, copies -> shared one
  std::vector<int> mapped_;                    // kRecv works
  std::map<std::string, Lent> lent_;           // by the channel's name
};

}  // namespace weft

#endif  // WEFT_COMPILER_PARTITION_WIRE_WORKS_H_
