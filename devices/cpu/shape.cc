// Ops that move elements and compute nothing. Each becomes a list of box copies
// (copy_plan.h), after an optional fill.
#include "devices/cpu/copy_plan.h"
#include "devices/cpu/factories.h"
#include "devices/cpu/numeric.h"

WEFT_CPU_BEGIN
namespace {

// One box: from input `in` to output `out`, offsets in bytes.
struct Move {
  int in = 0;
  int out = 0;
  int64_t in_offset = 0;
  int64_t out_offset = 0;
  CopyPlan plan;
};

std::unique_ptr<Kernel> MakeMoves(std::vector<Move> moves,
                                  uint32_t in_place = 0) {
  return MakeKernel(
      [moves = std::move(moves)](const Args& a) {
        for (const Move& m : moves) {
          if (m.plan.count() == 0) continue;
          const char* from = a.Input<char>(m.in) + m.in_offset;
          char* to = a.Output<char>(m.out) + m.out_offset;
          if (from != to) m.plan.Run(to, from);
        }
      },
      in_place);
}

// A copy of `dims` elements from `in_strides` to `out_strides`.
Move MakeMove(const Op& op, int rank, const int64_t* dims,
              const int64_t* in_strides, const int64_t* out_strides) {
  return Move{
      0, 0, 0, 0,
      CopyPlan(SizeOf(op.in[0].dtype), rank, dims, in_strides, out_strides)};
}

bool CheckTypes(const Op& op) {
  for (const Tensor& t : op.in) {
    if (!op.Check(t.dtype == op.out[0].dtype, "the types differ")) return false;
  }
  for (const Tensor& t : op.out) {
    if (!op.Check(t.dtype == op.in[0].dtype, "the types differ")) return false;
  }
  return op.ok();
}

}  // namespace

// Identity, Reshape and its kin, Dropout of a model: the elements in order.
std::unique_ptr<Kernel> MakeReshape(const Op& op) {
  if (!op.Arity(1, 1) || !CheckTypes(op)) return nullptr;
  const Tensor& in = op.in[0];
  if (in.count != op.out[0].count) {
    return op.Invalid("operand and result differ in element count");
  }
  int64_t dense[WEFT_MAX_RANK];
  int64_t stride = 1;
  for (int i = in.rank - 1; i >= 0; --i) {
    dense[i] = stride;
    stride *= in.dims[i];
  }
  std::vector<Move> moves;
  moves.push_back(MakeMove(op, in.rank, in.dims, in.strides, dense));
  return MakeMoves(std::move(moves), in.dense ? 1u : 0u);
}

std::unique_ptr<Kernel> MakeTranspose(const Op& op) {
  if (!op.Arity(1, 1) || !CheckTypes(op)) return nullptr;
  const Tensor& in = op.in[0];
  const Tensor& out = op.out[0];
  std::vector<int64_t> perm = op.Ints("perm");
  if (perm.empty()) {
    for (int i = in.rank - 1; i >= 0; --i) perm.push_back(i);
  }
  if (static_cast<int>(perm.size()) != in.rank || out.rank != in.rank) {
    return op.Invalid("perm, operand and result differ in rank");
  }
  int64_t strides[WEFT_MAX_RANK];
  uint32_t seen = 0;
  for (int i = 0; i < in.rank; ++i) {
    if (perm[i] < 0 || perm[i] >= in.rank || (seen >> perm[i] & 1u) != 0 ||
        out.dims[i] != in.dims[perm[i]]) {
      return op.Invalid("perm is no permutation that gives the result");
    }
    seen |= 1u << perm[i];
    strides[i] = in.strides[perm[i]];
  }
  std::vector<Move> moves;
  moves.push_back(MakeMove(op, out.rank, out.dims, strides, out.strides));
  return MakeMoves(std::move(moves));
}

std::unique_ptr<Kernel> MakeExpand(const Op& op) {
  if (!op.Arity(1, 1) || !CheckTypes(op)) return nullptr;
  int64_t strides[WEFT_MAX_RANK];
  if (!BroadcastStrides(op.in[0], op.out[0], strides)) {
    return op.Invalid("the operand does not broadcast to the result");
  }
  std::vector<Move> moves;
  moves.push_back(
      MakeMove(op, op.out[0].rank, op.out[0].dims, strides, op.out[0].strides));
  return MakeMoves(std::move(moves));
}

// Concat and Split: part i lies at `start` along the axis of the whole.
static std::unique_ptr<Kernel> MakeParts(const Op& op, bool concat) {
  if (!CheckTypes(op)) return nullptr;
  const Tensor& whole = concat ? op.out[0] : op.in[0];
  const std::vector<Tensor>& parts = concat ? op.in : op.out;
  int axis = op.Axis(op.Int("axis", 0), whole.rank);
  if (axis < 0) return nullptr;
  int64_t size = SizeOf(whole.dtype);
  int64_t start = 0;
  std::vector<Move> moves;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Tensor& part = parts[i];
    bool fits = part.rank == whole.rank;
    for (int d = 0; fits && d < whole.rank; ++d) {
      fits = d == axis || part.dims[d] == whole.dims[d];
    }
    if (!fits) return op.Invalid("a part does not fit the whole");
    int64_t offset = start * whole.strides[axis] * size;
    int index = static_cast<int>(i);
    CopyPlan plan(size, part.rank, part.dims,
                  concat ? part.strides : whole.strides,
                  concat ? whole.strides : part.strides);
    moves.push_back(concat ? Move{index, 0, 0, offset, plan}
                           : Move{0, index, offset, 0, plan});
    start += part.dims[axis];
  }
  if (start != whole.dims[axis]) {
    return op.Invalid("the parts do not add up to the whole");
  }
  return MakeMoves(std::move(moves));
}

std::unique_ptr<Kernel> MakeConcat(const Op& op) {
  if (!op.Arity(1, WEFT_MAX_OPERANDS, 1, 1)) return nullptr;
  return MakeParts(op, /*concat=*/true);
}

std::unique_ptr<Kernel> MakeSplit(const Op& op) {
  if (!op.Arity(1, 1, 1, WEFT_MAX_OPERANDS)) return nullptr;
  return MakeParts(op, /*concat=*/false);
}

std::unique_ptr<Kernel> MakeSlice(const Op& op) {
  if (!op.Arity(1, 1) || !CheckTypes(op)) return nullptr;
  const Tensor& in = op.in[0];
  const Tensor& out = op.out[0];
  std::vector<int64_t> starts = op.Ints("starts"), axes = op.Ints("axes"),
                       steps = op.Ints("steps");
  for (size_t i = axes.size(); i < starts.size(); ++i) axes.push_back(i);
  steps.resize(starts.size(), 1);
  if (axes.size() != starts.size() || out.rank != in.rank) {
    return op.Invalid("starts, axes and operands do not fit");
  }
  int64_t from[WEFT_MAX_RANK] = {0};
  int64_t step[WEFT_MAX_RANK];
  int64_t strides[WEFT_MAX_RANK];
  std::fill(step, step + in.rank, 1);
  for (size_t i = 0; i < starts.size(); ++i) {
    int axis = op.Axis(axes[i], in.rank);
    if (axis < 0) return nullptr;
    if (steps[i] == 0) return op.Invalid("a step is 0");
    int64_t dim = in.dims[axis];
    int64_t start = starts[i] < 0 ? starts[i] + dim : starts[i];
    from[axis] = std::clamp<int64_t>(
        start, 0, steps[i] < 0 ? std::max<int64_t>(dim - 1, 0) : dim);
    // A walk of more than `dim` elements is a walk of one.
    step[axis] = std::clamp<int64_t>(steps[i], -dim, std::max<int64_t>(dim, 1));
  }
  int64_t offset = 0;
  for (int i = 0; i < in.rank && out.count > 0; ++i) {
    int64_t last = from[i] + (out.dims[i] - 1) * step[i];
    if (last < 0 || last >= in.dims[i]) {
      return op.Invalid("the slice leaves the operand");
    }
    offset += from[i] * in.strides[i];
  }
  for (int i = 0; i < in.rank; ++i) strides[i] = in.strides[i] * step[i];
  Move move = MakeMove(op, out.rank, out.dims, strides, out.strides);
  move.in_offset = offset * SizeOf(in.dtype);
  std::vector<Move> moves;
  moves.push_back(std::move(move));
  return MakeMoves(std::move(moves));
}

// Negative pads cut off. The result is filled first, then the box that the
// operand and the result share is copied.
std::unique_ptr<Kernel> MakePad(const Op& op) {
  if (!op.Arity(1, 1) || !CheckTypes(op)) return nullptr;
  const Tensor& in = op.in[0];
  const Tensor& out = op.out[0];
  std::vector<int64_t> pads = op.Ints("pads");
  if (static_cast<int>(pads.size()) != 2 * in.rank || out.rank != in.rank) {
    return op.Invalid("pads and operands do not fit");
  }
  int64_t box[WEFT_MAX_RANK], in_offset = 0, out_offset = 0;
  for (int i = 0; i < in.rank; ++i) {
    int64_t begin = pads[i], end = pads[in.rank + i];
    if (out.dims[i] != in.dims[i] + begin + end) {
      return op.Invalid("the result is not the padded operand");
    }
    box[i] = std::max<int64_t>(0, in.dims[i] + std::min<int64_t>(begin, 0) +
                                      std::min<int64_t>(end, 0));
    in_offset += std::max<int64_t>(-begin, 0) * in.strides[i];
    out_offset += std::max<int64_t>(begin, 0) * out.strides[i];
  }
  int64_t size = SizeOf(in.dtype);
  Move move = MakeMove(op, in.rank, box, in.strides, out.strides);
  move.in_offset = in_offset * size;
  move.out_offset = out_offset * size;
  double value = op.Float("value", 0.0);
  int64_t count = out.count;
  auto make = [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([move, count, fill = Convert<T>(value)](const Args& a) {
      T* y = a.Output<T>(0);
      std::fill(y, y + count, fill);
      if (move.plan.count() == 0) return;
      move.plan.Run(a.Output<char>(0) + move.out_offset,
                    a.Input<char>(0) + move.in_offset);
    });
  };
  if (in.dtype == WEFT_BOOL) return make(Tag<Bool>());
  return WithNumber(in.dtype, make);
}

std::unique_ptr<Kernel> MakeStridedCopy(const Op& op) {
  if (!op.Arity(1, 1) || !CheckTypes(op)) return nullptr;
  const Tensor& in = op.in[0];
  const Tensor& out = op.out[0];
  std::vector<int64_t> strides = op.Ints("strides");
  int64_t offset = op.Int("offset", 0);
  if (static_cast<int>(strides.size()) != out.rank) {
    return op.Invalid("strides and the result differ in rank");
  }
  int64_t low = offset, high = offset;
  bool overflow = false;
  for (int i = 0; i < out.rank && out.count > 0; ++i) {
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(out.dims[i] - 1, strides[i], &reach);
    int64_t* side = reach < 0 ? &low : &high;
    overflow |= __builtin_add_overflow(*side, reach, side);
  }
  if (overflow || (out.count > 0 && (low < 0 || high >= in.count))) {
    return op.Invalid("the strides leave the operand");
  }
  strides.resize(WEFT_MAX_RANK);
  Move move = MakeMove(op, out.rank, out.dims, strides.data(), out.strides);
  move.in_offset = offset * SizeOf(in.dtype);
  std::vector<Move> moves;
  moves.push_back(std::move(move));
  return MakeMoves(std::move(moves));
}

WEFT_CPU_END
