// Transfers: who sends what to whom, so that a value that lies on one mesh lies
// on another. Each rank of the second gets each element that it needs and does
// not have once, in one message from each rank that it gets something from.
//
//   // [8] by S(0) on ranks 0-1 to S(0) on ranks 1-4
//   Transfers t({8}, mesh01, {S(0)}, mesh14, {S(0)});
//   // 0 -> 1: [2]    0 -> 2: [2]    1 -> 3: [2]    1 -> 4: [2]
//
// Where several ranks have an element, the receiver itself comes first, then
// the sender that has least to send so far, then the lowest rank.
//
// A layout without P gives each member, of each dimension, a list of intervals:
// one, or one for each group of a split. What it has is their product; so is
// what a receiver and a sender have in common, and a message is that.
//
// Threading: immutable.
#ifndef WEFT_COMPILER_BOXING_TRANSFERS_H_
#define WEFT_COMPILER_BOXING_TRANSFERS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "core/mesh/mesh.h"
#include "core/mesh/sbp.h"
#include "core/types/shape.h"

namespace weft {

// Elements [begin, begin + length) of one dimension.
struct Interval {
  int64_t begin = 0;
  int64_t length = 0;
};

struct Transfer {
  int from = 0;  // ranks of the job; equal where nothing is sent
  int to = 0;
  // By dimension, in what the sender has, in the order of the receiver.
  std::vector<std::vector<Interval>> take;
  Shape shape;  // of all that is taken
};

class Transfers {
 public:
  // Pre-condition: each layout fits and has no P and no M.
  Transfers(const Shape& whole, const Mesh& from_mesh, const NdSbp& from,
            const Mesh& to_mesh, const NdSbp& to);

  // By receiver in the order of its mesh; nothing where `whole` is empty.
  const std::vector<Transfer>& all() const { return all_; }

  // How a receiver's dimension is made: successive elements, each of the next
  // elements of transfers with that part of the dimension.
  struct Run {
    int part = 0;
    Interval in_transfer;
  };
  struct Receiver {
    std::vector<std::vector<Run>> runs;            // by dimension
    std::map<std::vector<int>, size_t> transfers;  // by parts: index in all()
  };
  // Pre-condition: a rank of the second mesh; `whole` is not empty.
  const Receiver& receiver(int rank) const { return receivers_.at(rank); }

 private:
  // A piece of a receiver's dimension that is one in the sender's, too.
  struct Segment {
    int part = 0;
    Interval in_sender;
  };
  using Intervals = std::vector<Interval>;

  std::vector<Segment> SegmentsOf(const Intervals& wanted, int dim) const;
  void AddReceiver(int rank, const std::vector<Intervals>& wanted);
  // The transfer of the parts, one of each dimension, of these segments.
  Transfer Taking(const std::vector<int>& parts,
                  const std::vector<std::vector<Segment>>& segments) const;
  int SenderOf(const std::vector<int>& parts, int to) const;

  // What the first mesh cuts each dimension into.
  std::vector<std::vector<Intervals>> parts_;
  std::map<std::vector<int>, std::vector<int>> owners_;  // ranks by parts
  std::map<int, int64_t> load_;                          // elements, by sender
  std::vector<Transfer> all_;
  std::map<int, Receiver> receivers_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_BOXING_TRANSFERS_H_
