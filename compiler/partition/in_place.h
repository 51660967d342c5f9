// InPlaceResults: which results of kernels lie in the bytes of operands, so
// that ranks read and reduce in place what lies at another (partition.h): the
// parts of a Split, the results of a weft.ReduceToAll or weft.CopyToAll, and
// the Concat of all parts. Only such as somebody reads, for who reads them lets
// go of the operand.
//
//   InPlaceResults in_place(&draft, &wire, graph, alignment);
//   in_place.Put(node, work);     // of a work on the host, when it is made
//
// Threading: thread-compatible. Ownership: refers to its arguments.
#ifndef WEFT_COMPILER_PARTITION_IN_PLACE_H_
#define WEFT_COMPILER_PARTITION_IN_PLACE_H_

#include <cstdint>

#include "compiler/partition/parts_builder.h"
#include "compiler/partition/wire_works.h"
#include "core/graph/graph.h"

namespace weft {

class InPlaceResults {
 public:
  // `alignment`: of what lies on the host.
  InPlaceResults(PartsBuilder* draft, WireWorks* wire, const Graph& graph,
                 uint32_t alignment)
      : draft_(*draft),
        wire_(*wire),
        graph_(graph),
        alignment_(alignment),
        out_(draft->parts()) {}

  // Puts the results of work `id`, which `node` has become, where they may lie.
  void Put(const Node& node, int id);

 private:
  // Of a value that nobody else reads, and of which a peer reads a part.
  void GivePartsInPlace(const Node& node, int id);
  // Each result over its operand, where that lies in shared memory or at
  // another rank, and nobody else reads it.
  void GiveInPlace(int id);
  // Of parts that lie one after another in one buffer and are all of it.
  void JoinInPlace(const Node& node, int id);
  // Whether each part of a Split or Concat is one run of bytes of the whole.
  bool PartsAreRuns(const Node& node, const Shape& whole) const;
  // The first mapped Send of a part of it; null where there is none.
  const Node* SenderOf(const Node& split) const;

  PartsBuilder& draft_;
  WireWorks& wire_;
  const Graph& graph_;
  const uint32_t alignment_;
  Partition& out_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_PARTITION_IN_PLACE_H_
