#include "compiler/collectives/collective.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/collectives/emission.h"
#include "compiler/collectives/layout.h"
#include "compiler/collectives/schedule.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/ops/expr.h"

namespace weft {
namespace {

using Kind = CollectiveKind;

absl::Status Bad(const Collective& c, absl::string_view message,
                 ErrorCode code = ErrorCode::kBadValue) {
  return MakeError(code,
                   absl::StrCat("collective ", Describe(c), ": ", message));
}

// ---- What must hold

absl::Status CheckGroup(const Collective& c) {
  std::set<int> seen;
  for (int rank : c.ranks) {
    if (rank < 0) return Bad(c, absl::StrCat("rank ", rank, " is negative"));
    if (!seen.insert(rank).second) {
      return Bad(c, absl::StrCat("rank ", rank, " is in the group twice"));
    }
  }
  if (!seen.count(c.rank)) {
    return Bad(c, absl::StrCat("rank ", c.rank, " is not in the group"));
  }
  const int n = static_cast<int>(c.ranks.size());
  if (HasRoot(c.kind) && (c.root < 0 || c.root >= n)) {
    return Bad(c, absl::StrCat("the root is position ", c.root,
                               ", the group has positions 0-", n - 1));
  }
  std::vector<int> positions;
  for (const std::vector<int>& host : c.hosts) {
    positions.insert(positions.end(), host.begin(), host.end());
  }
  std::sort(positions.begin(), positions.end());
  std::vector<int> all(n);
  std::iota(all.begin(), all.end(), 0);
  if (c.hosts.empty() || positions == all) return absl::OkStatus();
  return Bad(c, absl::StrCat("the hosts hold positions ", RankRange(positions),
                             ", the group has positions 0-", n - 1));
}

absl::Status CheckForm(const Collective& c) {
  if (c.name.empty() || c.name.find('#') != std::string::npos) {
    return Bad(c, "its name is empty or has a '#'");
  }
  if (c.rate != "step" && c.rate != "micro") {
    return Bad(
        c, absl::StrCat("rate '", c.rate, "' is neither 'step' nor 'micro'"));
  }
  if (c.chunk_elements < 0) {
    return Bad(c, absl::StrCat("chunks of ", c.chunk_elements, " elements"));
  }
  return absl::OkStatus();
}

bool HasAxis(Kind kind) {
  return Splits(kind) || kind == Kind::kAllGather || kind == Kind::kGather;
}

// `axis` made non-negative.
absl::StatusOr<int> AxisOf(const Collective& c, int axis,
                           const TensorType& type) {
  absl::StatusOr<int> normal = NormalizeAxis(axis, type.shape.rank());
  if (normal.ok()) return normal;
  return Bad(c, absl::StrCat("axis ", axis, " of ", type.ToString()));
}

absl::Status CheckType(const Collective& c, const TensorType& type) {
  if (DTypeSize(type.dtype) == 0) return Bad(c, "its type has no dtype");
  if (Reduces(c.kind) && !CanReduce(type.dtype)) {
    return Bad(c, absl::StrCat("no ", Name(c.op), " of ", DTypeName(type.dtype),
                               "; f32, f64, f16, bf16, i32, i64 have one"));
  }
  if (!HasAxis(c.kind)) return absl::OkStatus();
  WEFT_ASSIGN_OR_RETURN(int axis, AxisOf(c, c.axis, type));
  const int64_t n = static_cast<int64_t>(c.ranks.size());
  if (Splits(c.kind) && type.shape.dim(axis) % n != 0) {
    return Bad(c, absl::StrCat("axis ", axis, " of ", type.ToString(), " has ",
                               type.shape.dim(axis), " elements, which ", n,
                               " ranks do not divide"));
  }
  if (c.kind != Kind::kAllToAll) return absl::OkStatus();
  return AxisOf(c, c.join_axis, type).status();
}

bool IsRoot(const Collective& c) { return c.ranks[c.root] == c.rank; }

absl::Status CheckInput(const Graph& graph, const Collective& c, Value input,
                        const TensorType& type) {
  for (int32_t node : c.after) {
    if (graph.Contains(node)) continue;
    return Bad(c, absl::StrCat("there is no node [", node, "] to come after"));
  }
  const bool gives =
      (c.kind != Kind::kBroadcast && c.kind != Kind::kScatter) || IsRoot(c);
  if (gives != input.valid()) {
    return Bad(c, absl::StrCat("rank ", c.rank,
                               gives ? " gives no operand"
                                     : " gives an operand, which only the root "
                                       "does, rank ",
                               gives ? "" : absl::StrCat(c.ranks[c.root])));
  }
  if (!gives || graph.type(input) == type) return absl::OkStatus();
  return Bad(c,
             absl::StrCat("its type is ", type.ToString(), ", the operand '",
                          graph.ValueName(input), "' is ",
                          graph.type(input).ToString()),
             graph.type(input).dtype == type.dtype ? ErrorCode::kShapeMismatch
                                                   : ErrorCode::kDTypeMismatch);
}

absl::Status Check(const Collective& c, const TensorType& type) {
  WEFT_RETURN_IF_ERROR(CheckForm(c));
  WEFT_RETURN_IF_ERROR(CheckGroup(c));
  return CheckType(c, type);
}

// ---- Types

// Elements of all blocks.
int64_t TotalElements(const Collective& c, const TensorType& type) {
  const bool part = c.kind == Kind::kAllGather || c.kind == Kind::kGather;
  return type.shape.num_elements() * (part ? c.ranks.size() : 1);
}

std::vector<int> Blocks(const Collective& c, int count,
                        bool (*has)(Kind, const CollectiveGroup&, int position,
                                    int block)) {
  const CollectiveGroup group = c.group();
  const int me = static_cast<int>(
      std::find(c.ranks.begin(), c.ranks.end(), c.rank) - c.ranks.begin());
  std::vector<int> blocks;
  for (int b = 0; b < count; ++b) {
    if (has(c.kind, group, me, b)) blocks.push_back(b);
  }
  return blocks;
}

// ---- Operand and result

Expr FlatOperand(const Collective& c, const Expr& x) {
  const int parts = static_cast<int>(c.ranks.size());
  if (!x.valid()) return x;
  if (!Splits(c.kind)) {
    return ReshapeTo(x, Shape({x.shape().num_elements()}));
  }
  return SplitToBlocks(x, *NormalizeAxis(c.axis, x.shape().rank()), parts);
}

// Pre-condition: this rank has a result.
Expr ShapedResult(const Collective& c, const Expr& flat, const Shape& shape) {
  const int n = static_cast<int>(c.ranks.size());
  if (!HasAxis(c.kind)) return ReshapeTo(flat, shape);
  const int axis = *NormalizeAxis(c.axis, shape.rank());
  if (c.kind == Kind::kAllGather || c.kind == Kind::kGather) {
    return JoinBlocks(flat, shape, axis, n);
  }
  const Shape block = ScaledAxis(shape, axis, 1, n);
  if (c.kind != Kind::kAllToAll) return ReshapeTo(flat, block);
  return JoinBlocks(flat, block, *NormalizeAxis(c.join_axis, shape.rank()), n);
}

// What both sides of each channel must have decided equally.
std::string AgreedOf(const Collective& c, CollectiveAlgorithm algorithm,
                     const TensorType& type) {
  std::string text(Name(c.kind));
  if (Reduces(c.kind)) absl::StrAppend(&text, ".", Name(c.op));
  absl::StrAppend(&text, ".", type.ToString(), ".", Name(algorithm), ".",
                  RankRange(c.ranks));
  if (HasRoot(c.kind)) absl::StrAppend(&text, ".root", c.ranks[c.root]);
  if (HasAxis(c.kind)) {
    absl::StrAppend(&text, ".axis", *NormalizeAxis(c.axis, type.shape.rank()));
  }
  if (c.kind == Kind::kAllToAll) {
    absl::StrAppend(&text, ".join",
                    *NormalizeAxis(c.join_axis, type.shape.rank()));
  }
  if (algorithm == CollectiveAlgorithm::kHierarchical) {
    absl::StrAppend(&text, ".hosts", c.hosts.size());
  }
  if (c.chunk_elements > 0) absl::StrAppend(&text, ".chunk", c.chunk_elements);
  if (c.topology.mapped_bytes > 0) {
    absl::StrAppend(&text, ".mapped", c.topology.mapped_bytes);
  }
  return text;
}

int64_t TotalBytes(const Collective& c, const TensorType& type) {
  return TotalElements(c, type) *
         static_cast<int64_t>(DTypeSize(WireType(c.kind, c.op, type.dtype)));
}

// Nothing moves where there is no element.
Value EmptyResult(const Collective& c, const TensorType& type, bool has_result,
                  GraphEmitter* emit) {
  if (!has_result) return {};
  Value flat = emit->Constant(Literal({type.dtype, Shape({0})}, ""));
  return ShapedResult(c, Expr(*emit, flat), type.shape);
}

}  // namespace

std::string RankRange(const std::vector<int>& ranks) {
  const size_t n = ranks.size();
  if (n < 3)
    return absl::StrJoin(ranks, n == 2 && ranks[1] - ranks[0] == 1 ? "-" : ",");
  const int stride = ranks[1] - ranks[0];
  for (size_t i = 2; i < n; ++i) {
    if (ranks[i] - ranks[i - 1] != stride) return absl::StrJoin(ranks, ",");
  }
  if (stride <= 0) return absl::StrJoin(ranks, ",");
  return absl::StrCat(ranks[0], "-", ranks[n - 1],
                      stride == 1 ? "" : absl::StrCat(":", stride));
}

std::string Describe(const Collective& c) {
  return absl::StrCat(Name(c.kind), " '", c.name, "' over ",
                      c.ranks.size() == 1 ? "rank " : "ranks ",
                      RankRange(c.ranks));
}

bool CanReduce(DType dtype) {
  return IsFloat(dtype) || dtype == DType::kI32 || dtype == DType::kI64;
}

// Sums and products of 16-bit values are f32 until the end.
DType WireType(CollectiveKind kind, ReduceOp op, DType dtype) {
  const bool narrow = dtype == DType::kF16 || dtype == DType::kBF16;
  const bool grows = op == ReduceOp::kSum || op == ReduceOp::kProd;
  return Reduces(kind) && narrow && grows ? DType::kF32 : dtype;
}

absl::StatusOr<CollectiveAlgorithm> AlgorithmOf(const Collective& c,
                                                const TensorType& type) {
  WEFT_RETURN_IF_ERROR(Check(c, type));
  const CollectiveGroup group = c.group();
  if (c.algorithm == CollectiveAlgorithm::kAuto) {
    absl::StatusOr<CollectiveChoice> choice = ChooseAlgorithm(
        c.kind, TotalBytes(c, type), group, c.topology, c.order, c.manner());
    if (!choice.ok()) return Bad(c, choice.status().message());
    return choice->algorithm;
  }
  const std::string why_not = WhyNot(c.kind, c.algorithm, group);
  if (why_not.empty()) return c.algorithm;
  return Bad(
      c,
      absl::StrCat(why_not, "; these can: ", AlgorithmNamesFor(c.kind, group)));
}

absl::StatusOr<Value> AddCollective(Graph* graph, const Collective& c,
                                    Value input, const TensorType& type) {
  WEFT_ASSIGN_OR_RETURN(CollectiveAlgorithm algorithm, AlgorithmOf(c, type));
  WEFT_RETURN_IF_ERROR(CheckInput(*graph, c, input, type));
  if (c.ranks.size() == 1) return input;
  const CollectiveSchedule schedule =
      MakeSchedule(c.kind, algorithm, c.group());
  const std::vector<int> before = Blocks(c, schedule.num_blocks, HasBefore);
  const std::vector<int> after = Blocks(c, schedule.num_blocks, HasAfter);

  const std::string provenance =
      absl::StrCat("collective: ", Name(algorithm), " ", Name(c.kind), " of '",
                   c.name, "' over ranks ", RankRange(c.ranks));
  GraphEmitter emit(graph, c.name, absl::StrCat(provenance, ", operand"));
  emit.set_placement(c.device, c.stage);
  const int64_t elements = TotalElements(c, type);
  Value result;
  if (elements == 0) {
    result = EmptyResult(c, type, !after.empty(), &emit);
  } else {
    const DType wire = WireType(c.kind, c.op, type.dtype);
    CollectiveEmission emission(graph, &emit, c, schedule, wire, elements,
                                AgreedOf(c, algorithm, type), provenance);
    Value operand, total;
    if (input.valid()) operand = Cast(FlatOperand(c, Expr(emit, input)), wire);
    if (InPlace(c.kind, algorithm, TotalBytes(c, type), c.group(), c.topology,
                c.manner())) {
      total = emission.RunInPlace(operand);
    } else {
      if (operand.valid()) emission.Start(operand, before);
      emission.Run();
      if (!after.empty()) total = emission.Result(after);
    }
    if (total.valid()) {
      result = Cast(ShapedResult(c, Expr(emit, total), type.shape), type.dtype);
    }
    emission.Finish();
  }
  WEFT_RETURN_IF_ERROR(emit.status());
  return result;
}

}  // namespace weft
