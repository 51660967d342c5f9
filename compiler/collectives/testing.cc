#include "compiler/collectives/testing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/graph/verify.h"

namespace weft {
namespace {

using Kind = CollectiveKind;
using Doubles = std::vector<double>;

// A well-mixed number of a counter (splitmix64).
uint64_t Mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

double ValueOf(const Collective& c, Values values, uint64_t index) {
  const uint64_t bits = Mixed(index);
  if (values == Values::kRandom) {
    return static_cast<double>(bits >> 40) / (1 << 23) - 1;
  }
  // 8 factors stay within bf16's 8 bits: powers of two.
  if (c.op == ReduceOp::kProd) {
    return std::ldexp((bits & 1) != 0 ? -1.0 : 1.0, (bits >> 1) % 2);
  }
  return static_cast<double>(bits % 15) - 7;
}

// A tensor [outer, extent, inner] around an axis.
struct Around {
  int64_t outer = 1, extent = 1, inner = 1;

  Around(const Shape& shape, int axis) : extent(shape.dim(axis)) {
    for (int d = 0; d < axis; ++d) outer *= shape.dim(d);
    for (int d = axis + 1; d < shape.rank(); ++d) inner *= shape.dim(d);
  }
};

struct Tensor {
  Shape shape;
  Doubles v;
};

// Part `index` of `parts` along the axis.
Tensor Part(const Tensor& x, int axis, int parts, int index) {
  const Around a(x.shape, axis);
  const int64_t extent = a.extent / parts;
  std::vector<int64_t> dims(x.shape.dims().begin(), x.shape.dims().end());
  dims[axis] = extent;
  Tensor y{Shape(dims), {}};
  for (int64_t o = 0; o < a.outer; ++o) {
    for (int64_t e = 0; e < extent; ++e) {
      for (int64_t i = 0; i < a.inner; ++i) {
        y.v.push_back(x.v[(o * a.extent + index * extent + e) * a.inner + i]);
      }
    }
  }
  return y;
}

Tensor Join(const std::vector<Tensor>& parts, int axis) {
  const Around a(parts[0].shape, axis);
  std::vector<int64_t> dims(parts[0].shape.dims().begin(),
                            parts[0].shape.dims().end());
  dims[axis] *= parts.size();
  Tensor y{Shape(dims), {}};
  for (int64_t o = 0; o < a.outer; ++o) {
    for (const Tensor& part : parts) {
      auto row = part.v.begin() + o * a.extent * a.inner;
      y.v.insert(y.v.end(), row, row + a.extent * a.inner);
    }
  }
  return y;
}

double Combine(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kSum:
      return a + b;
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kMin:
      return std::min(a, b);
  }
  return 0;
}

// The class TREE over positions [lo, hi), straight from its definition.
double TreeOf(const Collective& c, DType dtype, const std::vector<Tensor>& x,
              size_t element, int lo, int hi) {
  if (hi - lo == 1) return x[lo].v[element];
  int half = 1;
  while (half * 2 < hi - lo) half *= 2;
  const double sum = Combine(c.op, TreeOf(c, dtype, x, element, lo, lo + half),
                             TreeOf(c, dtype, x, element, lo + half, hi));
  return dtype == DType::kF64 ? sum : static_cast<float>(sum);
}

Tensor Reduced(const Collective& c, DType dtype, const std::vector<Tensor>& x) {
  Tensor y{x[0].shape, {}};
  for (size_t e = 0; e < x[0].v.size(); ++e) {
    y.v.push_back(TreeOf(c, dtype, x, e, 0, static_cast<int>(x.size())));
  }
  return y;
}

// Position p's result; the pre-condition is that it has one.
Tensor ResultAt(const Collective& c, DType dtype, const std::vector<Tensor>& x,
                int p) {
  const int n = static_cast<int>(x.size());
  const int rank = x[0].shape.rank();
  const int axis = c.axis < 0 ? c.axis + rank : c.axis;
  const int join = c.join_axis < 0 ? c.join_axis + rank : c.join_axis;
  switch (c.kind) {
    case Kind::kAllReduce:
    case Kind::kReduce:
      return Reduced(c, dtype, x);
    case Kind::kReduceScatter:
      return Part(Reduced(c, dtype, x), axis, n, p);
    case Kind::kAllGather:
    case Kind::kGather:
      return Join(x, axis);
    case Kind::kBroadcast:
      return x[c.root];
    case Kind::kScatter:
      return Part(x[c.root], axis, n, p);
    case Kind::kAllToAll: {
      std::vector<Tensor> parts;
      for (const Tensor& from : x) parts.push_back(Part(from, axis, n, p));
      return Join(parts, join);
    }
  }
  return {};
}

absl::Status CheckNodes(const Graph& graph, const Collective& c) {
  WEFT_RETURN_IF_ERROR(VerifyGraph(graph));
  for (const Node* node : graph.Nodes()) {
    for (Value v : node->inputs()) {
      if (v.node < node->id()) continue;
      return MakeError(
          ErrorCode::kInternal,
          absl::StrCat("node ", node->name(), " stands before its operand"));
    }
    if (node->Is(OpId::kVariable) || node->Is(OpId::kOutput)) continue;
    if (node->provenance.size() == 1 &&
        node->provenance[0].find("collective: ") == 0 &&
        node->provenance[0].find(c.name) != std::string::npos) {
      continue;
    }
    return MakeError(
        ErrorCode::kInternal,
        absl::StrCat("node ", node->name(), " does not tell where it is from"));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Literal> Operands(const Collective& c, const TensorType& type,
                              Values values) {
  std::vector<Literal> operands;
  uint64_t index = 0;
  for (size_t p = 0; p < c.ranks.size(); ++p) {
    Doubles v(type.shape.num_elements());
    for (double& x : v) x = ValueOf(c, values, index++);
    operands.push_back(Literal::FromDoubles(type, v));
  }
  return operands;
}

absl::Status AddToGraph(Graph* graph, const Collective& c,
                        const TensorType& type) {
  const auto me = std::find(c.ranks.begin(), c.ranks.end(), c.rank);
  const bool gives = (c.kind != Kind::kBroadcast && c.kind != Kind::kScatter) ||
                     me - c.ranks.begin() == c.root;
  Value x;
  if (gives) {
    std::vector<int64_t> dims(type.shape.dims().begin(),
                              type.shape.dims().end());
    WEFT_ASSIGN_OR_RETURN(
        Node * node, graph->Add("weft.Variable", absl::StrCat(c.name, "/x"), {},
                                {{"dtype", type.dtype}, {"shape", dims}}));
    x = node->output(0);
  }
  WEFT_ASSIGN_OR_RETURN(Value y, AddCollective(graph, c, x, type));
  if (!y.valid()) return absl::OkStatus();
  return graph->Add("weft.Output", "", {y}, {{"name", c.name}}).status();
}

void AddFeed(RankProgram* program, const Collective& c,
             const Literal& operand) {
  program->feeds[absl::StrCat(c.name, "/x")] = {operand};
}

absl::StatusOr<std::vector<Literal>> RunCollective(
    const Collective& c, const TensorType& type,
    const std::vector<Literal>& operands) {
  const int ranks = *std::max_element(c.ranks.begin(), c.ranks.end()) + 1;
  std::vector<Graph> graphs;
  for (int r = 0; r < ranks; ++r) {
    graphs.emplace_back(absl::StrCat("rank", r));
  }
  std::vector<RankProgram> job(ranks);
  for (int r = 0; r < ranks; ++r) job[r].graph = &graphs[r];
  for (size_t p = 0; p < c.ranks.size(); ++p) {
    Collective mine = c;
    mine.rank = c.ranks[p];
    WEFT_RETURN_IF_ERROR(AddToGraph(&graphs[mine.rank], mine, type));
    WEFT_RETURN_IF_ERROR(CheckNodes(graphs[mine.rank], c));
    AddFeed(&job[mine.rank], c, operands[p]);
  }
  WEFT_ASSIGN_OR_RETURN(std::vector<InterpretResult> results,
                        InterpretJob(job, JobOrder::kInOrder));
  std::vector<Literal> by_position;
  for (int rank : c.ranks) {
    auto it = results[rank].outputs.find(c.name);
    by_position.push_back(it == results[rank].outputs.end() ? Literal()
                                                            : it->second[0]);
  }
  return by_position;
}

std::vector<Literal> ExpectedResults(const Collective& c,
                                     const TensorType& type,
                                     const std::vector<Literal>& operands) {
  std::vector<Tensor> x;
  for (const Literal& operand : operands) {
    x.push_back({type.shape, operand.ToDoubles()});
  }
  std::vector<Literal> results;
  for (int p = 0; p < static_cast<int>(x.size()); ++p) {
    if ((c.kind == Kind::kReduce || c.kind == Kind::kGather) && p != c.root) {
      results.emplace_back();
      continue;
    }
    Tensor y = ResultAt(c, type.dtype, x, p);
    results.push_back(Literal::FromDoubles({type.dtype, y.shape}, y.v));
  }
  return results;
}

}  // namespace weft
