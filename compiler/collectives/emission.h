// CollectiveEmission: one rank's part of a schedule as nodes. See collective.h
// for the order in which they are made.
//
//   CollectiveEmission emission(graph, &emit, c, schedule, dtype, elements,
//                               agreed, provenance);
//   emission.Start(operand, {0, 1});        // the blocks that it holds
//   emission.Run();
//   Value result = emission.Result({0});    // the blocks that are asked for
//
// Threading: thread-compatible. Ownership: refers to its arguments.
#ifndef WEFT_COMPILER_COLLECTIVES_EMISSION_H_
#define WEFT_COMPILER_COLLECTIVES_EMISSION_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/collectives/collective.h"
#include "compiler/collectives/rope.h"
#include "compiler/collectives/schedule.h"
#include "core/graph/graph.h"

namespace weft {

class CollectiveEmission {
 public:
  // What moves is one-dimensional, `elements` of `dtype` over all blocks.
  // `agreed` and `provenance` go into channel names and nodes.
  CollectiveEmission(Graph* graph, GraphEmitter* emit, const Collective& c,
                     const CollectiveSchedule& schedule, DType dtype,
                     int64_t elements, std::string agreed,
                     std::string provenance);

  // `blocks` lie one after another in `value`: what this rank starts with.
  void Start(Value value, const std::vector<int>& blocks);
  void Run();
  // Instead of the three: a whole all-reduce or all-gather of `operand` in
  // place. Pre-condition: InPlace (cost.h).
  Value RunInPlace(Value operand);
  // The blocks, one after another. Pre-condition: they are not all empty.
  Value Result(const std::vector<int>& blocks);
  // After all: takes away what was kept of what was sent and is not read.
  void Finish();

 private:
  // What this rank has of one chunk, place after place.
  struct Chunk {
    std::vector<int64_t> begin;  // of each place, and the end
    Rope rope;
  };

  int64_t Length(const Chunk& chunk, int first, int count) const {
    return chunk.begin[first + count] - chunk.begin[first];
  }
  // Elements of chunk `index` of a block, and where they begin in it.
  int64_t PieceBegin(int64_t index, int block) const;
  int64_t PieceLength(int64_t index, int block) const;

  // Whether each block goes a way of its own, as one.
  bool BlocksPart() const;
  void Sends(size_t step, size_t chunk);
  void Receives(size_t step, size_t chunk);
  Value Receive(const CollectiveMove& move, size_t step, size_t chunk);
  void Contributions(std::vector<CollectiveMove> moves, size_t step,
                     size_t chunk);
  // Puts the node made last, a Send or Recv, after `before` or, where that is
  // -1, after the operand and Collective::after. Its id.
  int32_t Ordered(int32_t before);
  Value Reduced(Value left, Value right);

  // --- In place: emission_in_place.cc ---
  Value SumInPlace(Value operand);
  Value GatherInPlace(Value part);
  // Lends each other rank its block of `whole`. Returns the blocks of this rank
  // that the others lend it; at its own position that of `whole`.
  std::vector<Value> Lent(Value whole);
  // Gives back what was lent, now `results`. Returns all blocks as one.
  Value Landed(const std::vector<Value>& results);
  // f(position) of the others in the order in which this rank sends to them, so
  // that not all talk to the same at once; and in that in which they send.
  template <typename F>
  void ForReceivers(F f) const {
    const int n = static_cast<int>(c_.ranks.size());
    for (int i = 1; i < n; ++i) f((me_ + i) % n);
  }
  template <typename F>
  void ForSenders(F f) const {
    const int n = static_cast<int>(c_.ranks.size());
    for (int i = 1; i < n; ++i) f((me_ - i + n) % n);
  }

  // A weft.Recv, behind the Sends that it comes after.
  Value Recv(AttrMap attrs, DType dtype, int64_t length);
  // What a Send and its Recv have in common but for `peer`, a position.
  AttrMap ChannelAttrs(const CollectiveMove& move, size_t step, size_t index,
                       int peer) const;
  // The same of `length` elements, which are mapped where they can be.
  AttrMap EndAttrs(const CollectiveMove& move, size_t step, size_t index,
                   int peer, int64_t length) const;
  // What travels of elements [begin, end).
  Value Travelling(Chunk* chunk, int64_t begin, int64_t end);
  std::string Channel(const CollectiveMove& move, size_t step,
                      size_t chunk) const;

  Graph* graph_;
  GraphEmitter* emit_;
  const Collective& c_;
  const CollectiveSchedule& schedule_;
  // This rank's, by step.
  std::vector<std::vector<CollectiveMove>> sends_, receives_;
  DType dtype_;
  const bool narrow_;
  std::map<Value, Value> narrowed_;  // what was kept -> what travelled
  std::string agreed_, provenance_;
  int me_;
  std::vector<int64_t> block_sizes_;
  int64_t chunk_elements_;  // of a block
  std::vector<Chunk> chunks_;
  int32_t operand_ = -1;  // node that the operand comes from
  int32_t last_send_ = -1;
  Value result_;
  int32_t hold_ = -1;  // the Send that the step's receives come after
};

}  // namespace weft

#endif  // WEFT_COMPILER_COLLECTIVES_EMISSION_H_
