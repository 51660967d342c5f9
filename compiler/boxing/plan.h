// How a value that lies in one way on a mesh comes to lie in another, and what
// that costs. A change of several axes is a list of changes of one axis each,
// the cheapest there is; boxing.h makes nodes of it.
//
//   BoxingCosts costs(mesh);                        // data=2 x model=4
//   WEFT_ASSIGN_OR_RETURN(
//       std::vector<BoxingStep> steps,
//       costs.Plan({S(0), P(sum)}, {B, S(1)}, {DType::kF32, {64, 32}}));
//   Explain(mesh, steps);
//   // "axis model: P(sum) to S(1), reduce-scatter of [32,32], 4 ranks, ..
//   //  axis data: S(0) to B, all-gather .."
//   costs.Seconds({B, B}, {B, S(0)}, type);         // the sum; remembered
//
// One axis of n members:
//
//   B -> S      slice            nothing moves
//   S -> B      all-gather
//   P -> B      all-reduce
//   P -> S      reduce-scatter
//   S -> S'     all-to-all       by way of B where the ranks would have to send
//                                each other unlike amounts: S(0,2) -> S(0,3)
//   B -> P      keep             member 0 keeps it, others: the neutral element
//   S -> P      pad              with the neutral element
//   P -> P'     by way of B or S
//
// Splits nest: with (S(0), S(0)) the second axis cuts the parts of the first. A
// change of the first leaves the second's parts where they are; they are then
// another split of the whole, S(0,n), or none that has a name: in that case the
// second is undone first. Reductions nest as well: of (P(sum), P(max)) the
// second is done first.
//
// All ranks of a mesh get the same steps. M, the values of a member's own
// micro-batches, is no layout of one value: nothing is made of it, and it of
// nothing. An axis of one member has nothing to change.
//
// Threading: BoxingCosts is thread-compatible and remembers what it was asked;
// the same question has the same answer, whatever was asked before.
#ifndef WEFT_COMPILER_BOXING_PLAN_H_
#define WEFT_COMPILER_BOXING_PLAN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/collectives/cost.h"
#include "core/mesh/mesh.h"
#include "core/mesh/sbp.h"
#include "core/types/shape.h"

namespace weft {

enum class BoxingMove : uint8_t {
  kSlice,
  kAllGather,
  kAllReduce,
  kReduceScatter,
  kAllToAll,
  kKeep,
  kPad,
};

absl::string_view Name(BoxingMove move);  // "all-gather"

// One change of one axis.
struct BoxingStep {
  int axis = 0;
  BoxingMove move = BoxingMove::kSlice;
  // On the whole mesh.
  NdSbp before, after;
  // Within a group of the axis: `together` is what its members have of the
  // value, of which each has its part by `from`, then by `to`.
  Shape together;
  Sbp from, to;
  int64_t bytes = 0;  // that the rank which sends most sends
  double seconds = 0;
};

class BoxingCosts {
 public:
  // `hosts`: job ranks on each host; empty: all on one. `order`: of reductions.
  explicit BoxingCosts(Mesh mesh, Topology topology = {},
                       std::vector<std::vector<int>> hosts = {},
                       OrderClass order = OrderClass::kTree);

  const Mesh& mesh() const { return mesh_; }
  const Topology& topology() const { return topology_; }
  OrderClass order() const { return order_; }
  // Positions on each host of a group of job ranks, for a collective: empty
  // where all are on one.
  std::vector<std::vector<int>> HostsOf(const std::vector<int>& ranks) const;

  // One step where one axis changes and one move does it; else the cheapest,
  // of equals the one with the fewest steps, then the first that a search in a
  // fixed order finds. Errors: kShapeMismatch where `from` or
  // `to` does not fit `whole` (names both); kInternal for a number of sbps that
  // is not that of the axes, and for a change from or to M.
  // `micro`: of a value of micro-batches, for which collectives do less in
  // place.
  absl::StatusOr<std::vector<BoxingStep>> Plan(const NdSbp& from,
                                               const NdSbp& to,
                                               const TensorType& whole,
                                               bool micro = false);

  // Of the plan; infinity where there is none.
  double Seconds(const NdSbp& from, const NdSbp& to, const TensorType& whole,
                 bool micro = false);

 private:
  // The dtype and rate, the extents, then both layouts.
  using Question = absl::InlinedVector<int64_t, 16>;
  struct Answer {
    std::vector<BoxingStep> steps;
    double seconds = 0;
  };

  absl::StatusOr<const Answer*> Find(const NdSbp& from, const NdSbp& to,
                                     const TensorType& whole, bool micro);
  // Where one axis changes, by one move; not priced.
  std::optional<BoxingStep> OneStep(const NdSbp& from, const NdSbp& to,
                                    const Shape& whole) const;
  std::vector<BoxingStep> Search(const NdSbp& from, const NdSbp& to,
                                 const TensorType& whole, bool micro);
  void Price(DType dtype, bool micro, BoxingStep* step);
  // Of a collective of `bytes` in the dearest of the axis' groups.
  const CollectiveCost& OfCollective(int axis, CollectiveKind kind,
                                     int64_t bytes, bool micro);

  Mesh mesh_;
  Topology topology_;
  std::vector<std::vector<int>> hosts_;
  OrderClass order_;
  // Of each axis, its groups' hosts; those that are alike once.
  std::vector<std::vector<std::vector<std::vector<int>>>> axis_hosts_;
  absl::flat_hash_map<Question, Answer> answers_;
  std::map<std::tuple<int, CollectiveKind, int64_t, bool>, CollectiveCost>
      collectives_;
};

// Whether a member has but part of a reduction, on some axis.
bool HasPartial(const NdSbp& sbp);

// One line a step.
std::string Explain(const Mesh& mesh, const std::vector<BoxingStep>& steps);

// Which collective a move is; none where nothing moves.
std::optional<CollectiveKind> CollectiveOf(BoxingMove move);

}  // namespace weft

#endif  // WEFT_COMPILER_BOXING_PLAN_H_
