#include "compiler/boxing/one_axis.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/ops/expr.h"
#include "core/types/reductions.h"

namespace weft {
namespace {

int64_t Elements(const Shape& shape, int begin, int end) {
  int64_t n = 1;
  for (int d = begin; d < end; ++d) n *= shape.dim(d);
  return n;
}

Shape PartOfShape(const Shape& together, Sbp sbp, int members) {
  return *PartShape(together, sbp, members);
}

// `shape` with parts of S(d,g) side by side, and their dimension.
struct Columns {
  Shape shape;
  int axis = 0;

  Columns(const Shape& x, Sbp sbp) : shape(x), axis(sbp.dim) {
    if (sbp.groups == 1) return;
    const int64_t rows = Elements(x, 0, sbp.dim) * sbp.groups;
    const int64_t run = x.dim(sbp.dim) / sbp.groups;
    shape = Shape({rows, run * Elements(x, sbp.dim + 1, x.rank())});
    axis = 1;
  }
};

Expr SliceOf(const Expr& x, Sbp sbp, int members, int position) {
  const Columns columns(x.shape(), sbp);
  const int64_t width = columns.shape.dim(columns.axis) / members;
  const Expr part =
      Apply("Slice", {ReshapeTo(x, columns.shape)},
            {{"starts", std::vector<int64_t>{width * position}},
             {"ends", std::vector<int64_t>{width * (position + 1)}},
             {"axes", std::vector<int64_t>{columns.axis}}});
  return ReshapeTo(part, PartOfShape(x.shape(), sbp, members));
}

// `count` times the width of `part` along `axis`, of neutral elements.
void AppendNeutral(const Expr& part, int axis, int count, ReduceOp op,
                   std::vector<Expr>* parts) {
  if (count == 0) return;
  std::vector<int64_t> dims = DimsOf(part.shape());
  dims[axis] *= count;
  parts->push_back(ExpandTo(part.Like(ReductionOf(op).neutral), Shape(dims)));
}

Expr Padded(const Expr& x, const BoxingStep& step, int members, int position) {
  const Columns columns(x.shape(), step.from);
  const Expr part = ReshapeTo(x, columns.shape);
  std::vector<Expr> parts;
  AppendNeutral(part, columns.axis, position, step.to.op, &parts);
  parts.push_back(part);
  AppendNeutral(part, columns.axis, members - 1 - position, step.to.op, &parts);
  return ReshapeTo(Apply("Concat", parts, {{"axis", columns.axis}}),
                   step.together);
}

// Depends on `x`, though not on its numbers, so that it is of x's rate.
Expr NeutralInPlaceOf(const Expr& x, ReduceOp op) {
  return Where(Apply("Less", {x, x}), x, x.Like(ReductionOf(op).neutral));
}

// An all-to-all: how the operand is seen, what is cut and what joined.
struct Exchange {
  Shape shape;
  int axis = 0;
  int join_axis = 0;
};

// S(d,g) to S(e,h): [.. g, run of d, .. h, run of e ..], whichever is first.
Exchange ExchangeOfTwo(const Shape& x, Sbp from, Sbp to) {
  if (from.groups == 1 && to.groups == 1) return {x, to.dim, from.dim};
  const bool joins_first = from.dim < to.dim;
  const Sbp first = joins_first ? from : to;
  const Sbp second = joins_first ? to : from;
  Exchange e;
  e.shape = Shape({Elements(x, 0, first.dim) * first.groups,
                   x.dim(first.dim) / first.groups,
                   Elements(x, first.dim + 1, second.dim) * second.groups,
                   x.dim(second.dim) / second.groups *
                       Elements(x, second.dim + 1, x.rank())});
  e.axis = joins_first ? 3 : 1;
  e.join_axis = joins_first ? 1 : 3;
  return e;
}

// S(d,g) to S(d,h). Of the dimension as coarse groups x n x k x n x run, one
// split is by the first n, the other by the second.
Exchange ExchangeOfOne(const Shape& x, Sbp from, Sbp to, int64_t members) {
  const bool to_fine = to.groups > from.groups;
  const int64_t coarse = to_fine ? from.groups : to.groups;
  const int64_t between =
      (to_fine ? to.groups : from.groups) / (coarse * members);
  const int64_t own = to_fine ? 1 : members;
  Exchange e;
  e.shape = Shape({Elements(x, 0, from.dim) * coarse, own, between,
                   x.dim(from.dim) / (coarse * own * between) *
                       Elements(x, from.dim + 1, x.rank())});
  e.axis = to_fine ? 3 : 1;
  e.join_axis = to_fine ? 1 : 3;
  return e;
}

// How a collective sees the operand.
Exchange ViewFor(const Shape& x, const BoxingStep& step, int members) {
  switch (step.move) {
    case BoxingMove::kAllGather:
    case BoxingMove::kReduceScatter: {
      const Columns columns(x, step.from.is_split() ? step.from : step.to);
      return {columns.shape, columns.axis, 0};
    }
    case BoxingMove::kAllToAll:
      return step.from.dim == step.to.dim
                 ? ExchangeOfOne(x, step.from, step.to, members)
                 : ExchangeOfTwo(x, step.from, step.to);
    default:
      return {x, 0, 0};
  }
}

}  // namespace

absl::StatusOr<Value> AddOneAxisChange(Graph* graph, GraphEmitter* emit,
                                       const OneAxisChange& change,
                                       Value local) {
  const BoxingStep& step = *change.step;
  const int members = static_cast<int>(change.collective->ranks.size());
  const Expr x(*emit, local);
  const Shape result = PartOfShape(step.together, step.to, members);
  const std::optional<CollectiveKind> kind = CollectiveOf(step.move);
  Expr y(*emit, {});
  if (kind) {
    Collective c = *change.collective;
    c.kind = *kind;
    c.op = step.from.op;
    const Exchange view = ViewFor(x.shape(), step, members);
    c.axis = view.axis;
    c.join_axis = view.join_axis;
    const Expr operand = ReshapeTo(x, view.shape);
    WEFT_RETURN_IF_ERROR(emit->status());
    WEFT_ASSIGN_OR_RETURN(Value value,
                          AddCollective(graph, c, operand, operand.type()));
    y = ReshapeTo(Expr(*emit, value), result);
  } else if (result.num_elements() == 0) {
    y = ReshapeTo(x, result);
  } else if (step.move == BoxingMove::kSlice) {
    y = SliceOf(x, step.to, members, change.position);
  } else if (step.move == BoxingMove::kPad) {
    y = Padded(x, step, members, change.position);
  } else {
    y = change.position == 0 ? x : NeutralInPlaceOf(x, step.to.op);
  }
  WEFT_RETURN_IF_ERROR(emit->status());
  return y.value();
}

}  // namespace weft
