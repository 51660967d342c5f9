// Collectives: what a group of ranks exchanges, as ordinary nodes of each
// rank's graph: weft.Send, weft.Recv, Slice, Split, Concat, Reshape, Add / Mul
// / Max / Min. Call it once per rank with the same description but for `rank`;
// any transport runs the result, and passes, proofs and traces see nothing but
// nodes.
//
//   Collective sum;
//   sum.kind = CollectiveKind::kAllReduce;
//   sum.algorithm = CollectiveAlgorithm::kThreeStage;
//   sum.ranks = {0, 1, 2, 3};
//   sum.rank = 2;                 // this graph's
//   sum.name = "fc1/grad/sum";    // the same on all ranks
//   WEFT_ASSIGN_OR_RETURN(
//       Value total, AddCollective(&graph, sum, grad, graph.type(grad)));
//
// `type` and the result, of a group of n ranks:
//
//   kind            type is                          this rank's result
//   all-reduce      every rank's operand             that type
//   reduce          every rank's operand             that type; root only
//   broadcast       the root's operand               that type
//   reduce-scatter  every rank's operand             `axis` divided by n
//   scatter         the root's operand               `axis` divided by n
//   all-gather      every rank's operand, a part     `axis` times n
//   gather          every rank's operand, a part     `axis` times n; root only
//   all-to-all      every rank's operand             `axis` divided by n,
//                                                    `join_axis` times n
//
// Parts lie along the axis in the order of the group. A rank without a result
// gets an invalid Value; a rank that gives nothing (broadcast and scatter, not
// the root) passes one. One rank alone gets its operand back.
//
// Numbers: reductions take f32, f64, f16, bf16, i32, i64; what only moves may
// have any dtype. Sums and products of f16 and bf16 are f32 inside and on the
// wire: cast first, rounded once at the end. The order of a reduction is that
// of its order class (kinds.h) and does not depend on chunks, timing or
// threads.
//
// Order: a rank's nodes are made operands first, so by id is an order to run
// them in. Over all ranks there is one linear order that contains every rank's:
// the list that all derive from the same schedule (schedule.h), for chunks c:
//
//   sends of step 0, all c;  for each step s, each c: receives (s, c) and what
//   is made of them, then sends (s + 1, c)
//
// A send of (s + 1, c) reads what receives of (<= s, c) left, a receive of (s,
// c) stands behind its send, and each rank's nodes are made in this order. So
// ranks that run their nodes by id, wait in receives and do not wait in sends
// come to an end. The same holds for several collectives where all ranks add
// those that they share in one order, and for groups that overlap where one
// order of all collectives of the job contains that of each rank. Passes keep
// that order possible (compiler/transforms/waves.h), and the topological order
// of a graph, by which it is cut and planned, is one (core/graph/graph.h).
//
// Passes after this one may make operands and reductions anew, with later ids.
// Control edges see to it that no order of the nodes blocks: each Send comes
// after the Send before it, each Recv of step s after all Sends of steps <= s,
// and a Recv without such Sends after the operand. (Were all ranks blocked,
// take the Recv of the lowest step that waits. Its Send is not done, so that
// rank is blocked in a Recv of a lower step: there is none.) A rank that gives
// nothing has nothing that holds its first Recv back; where that matters, as
// for several collectives of which not all ranks do the same, `after` names
// what must have acted before.
//
// In place: an all-reduce in three stages whose blocks all ranks can read where
// they lie lends them, weft.Send {lent}: the owner of a block writes what it
// has reduced (weft.ReduceToAll) into all of them, and a Send and Recv {lands}
// say so. As data flow it is the three-stage algorithm; that nothing is copied
// is for the partition to see to. A direct all-gather lends room for the result
// (weft.Empty), into which each owner copies its part (weft.CopyToAll); not one
// of micro-batches, each of which would have room of its own lent early. A
// direct reduce-scatter needs no loan: the parts of a Split are read where they
// lie.
//
// Chunks: with `chunk_elements`, each block of the schedule is cut into chunks
// of so many elements, and each step of a chunk is an edge of its own: chunk 1
// travels while chunk 0 is reduced.
//
// Channels are named by core/graph/channels.h, so ranks that disagree on kind,
// op, type, algorithm, ranks, root or chunks are told both descriptions.
//
// Threading: a free function; as the graph.
#ifndef WEFT_COMPILER_COLLECTIVES_COLLECTIVE_H_
#define WEFT_COMPILER_COLLECTIVES_COLLECTIVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/collectives/cost.h"
#include "compiler/collectives/kinds.h"
#include "core/graph/graph.h"

namespace weft {

struct Collective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  // kAuto: ChooseAlgorithm (cost.h) with `topology` and `order`.
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  ReduceOp op = ReduceOp::kSum;
  std::vector<int> ranks;  // the group, in order; each rank number once
  int rank = 0;            // whose graph this is: one of them
  int root = 0;            // position in `ranks`
  int axis = 0;            // what is split or joined; negative from the end
  // All-to-all: where received parts are joined.
  int join_axis = 0;
  // Unique in the job, without '#'. The first collective to disagree names it.
  std::string name;
  int64_t chunk_elements = 0;  // 0: each block is one chunk
  std::string rate = "step";   // of the operand: "step" or "micro"
  // f32 travels as bf16. Who sends keeps what it sent, so that all ranks have
  // the same bits. Not of the order class of what is sent whole.
  bool narrow = false;
  // Positions on each host, for kHierarchical and kAuto. Empty: all on one.
  std::vector<std::vector<int>> hosts;
  Topology topology;
  OrderClass order = OrderClass::kTree;  // kNone: any
  // Nodes of this graph that act before this rank's first Send and Recv, as the
  // last node of the collective before. Most need none: see Order above.
  std::vector<int32_t> after;
  // Where the nodes are placed (Node::device, Node::stage).
  std::string device;
  int stage = -1;
  // Not null: an all-reduce in place of floats leaves there the sum of squares
  // of the block that this rank has reduced (f64 []), as it was reduced. Not
  // changed by any other.
  Value* squares = nullptr;

  CollectiveGroup group() const {
    return {static_cast<int>(ranks.size()), root, hosts};
  }
  CollectiveManner manner() const {
    return {rate == "micro", chunk_elements > 0, narrow};
  }
};

// "all-reduce 'fc1/grad' over ranks 0-3".
std::string Describe(const Collective& c);

// Adds this rank's nodes, under "<name>/"; `type` as above. `input` is the
// operand or, where the rank gives none, invalid. Errors, which name the
// collective: kBadValue for a group without `rank` or with one twice, a root
// outside of it, an algorithm that cannot do this (names those that can), an
// axis that the ranks do not divide, a dtype without this reduction, an operand
// that is missing or too much; kShapeMismatch, kDTypeMismatch for an operand
// that is not of `type`. After an error the graph may hold unused nodes.
absl::StatusOr<Value> AddCollective(Graph* graph, const Collective& c,
                                    Value input, const TensorType& type);

// "0-3", "0-6:2" (every second), "0,2,5".
std::string RankRange(const std::vector<int>& ranks);

// Whether there are reductions of `dtype`.
bool CanReduce(DType dtype);

// In what a reduction of `dtype` is done and sent, and what else is sent.
DType WireType(CollectiveKind kind, ReduceOp op, DType dtype);

// The algorithm that AddCollective takes: c.algorithm, or the choice.
absl::StatusOr<CollectiveAlgorithm> AlgorithmOf(const Collective& c,
                                                const TensorType& type);

}  // namespace weft

#endif  // WEFT_COMPILER_COLLECTIVES_COLLECTIVE_H_
