#include "compiler/boxing/testing.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/graph/verify.h"
#include "core/ops/expr.h"
#include "core/reference/job_interpreter.h"

namespace weft {

int LayoutRandom::Below(int n) {
  state_ = state_ * 6364136223846793005u + 1442695040888963407u;
  return static_cast<int>((state_ >> 33) % static_cast<uint64_t>(n));
}

Literal LayoutRandom::Value(const TensorType& type) {
  std::vector<double> v(type.shape.num_elements());
  for (double& x : v) x = Below(15) - 7;
  return Literal::FromDoubles(type, v);
}

std::vector<Literal> LayoutRandom::Parts(const Literal& whole, ReduceOp op,
                                         int n) {
  std::vector<std::vector<double>> parts(n, whole.ToDoubles());
  for (size_t i = 0; i < parts[0].size(); ++i) {
    const int keeper = Below(n);
    for (int p = 0; p < n; ++p) {
      if (p == keeper) continue;
      const int some = Below(5);
      if (op == ReduceOp::kSum) {
        parts[p][i] = some - 2;
        parts[keeper][i] -= some - 2;
      } else {
        parts[p][i] += op == ReduceOp::kMax ? -some : some;
      }
    }
  }
  std::vector<Literal> out;
  for (const std::vector<double>& part : parts) {
    out.push_back(Literal::FromDoubles(whole.type(), part));
  }
  return out;
}

std::vector<Literal> LayoutRandom::Locals(const Literal& whole,
                                          const NdSbp& sbp, const Mesh& mesh) {
  std::vector<Literal> values = {whole};
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    const int n = mesh.axis(axis).size;
    std::vector<Literal> cut;
    for (const Literal& value : values) {
      if (sbp[axis].is_partial()) {
        for (Literal& part : Parts(value, sbp[axis].op, n)) {
          cut.push_back(std::move(part));
        }
        continue;
      }
      for (int i = 0; i < n; ++i) cut.push_back(PartOf(value, sbp[axis], n, i));
    }
    values = std::move(cut);
  }
  return values;
}

std::string WhyNotLayout(const std::vector<Literal>& locals, const NdSbp& sbp,
                         const Mesh& mesh, const Literal& whole) {
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    const int copies = sbp[axis].is_broadcast() ? mesh.axis(axis).size : 1;
    for (int shift = 0; shift < copies; ++shift) {
      std::vector<Literal> shifted;
      for (int member = 0; member < mesh.size(); ++member) {
        std::vector<int> at = mesh.CoordinatesOf(member);
        at[axis] = (at[axis] + shift) % mesh.axis(axis).size;
        shifted.push_back(locals[mesh.MemberAt(at)]);
      }
      if (WholeOf(shifted, sbp, mesh) == whole) continue;
      return absl::StrCat("not ", ToString(sbp), " of the value: copy ", shift,
                          " of axis ", mesh.axis(axis).name);
    }
  }
  return "";
}

absl::StatusOr<std::vector<Graph>> BoxingGraphs(const Boxing& b,
                                                const TensorType& whole) {
  const Mesh& mesh = b.costs->mesh();
  const int ranks =
      *std::max_element(mesh.ranks().begin(), mesh.ranks().end()) + 1;
  WEFT_ASSIGN_OR_RETURN(Shape local, LocalShape(whole.shape, b.from, mesh));
  std::vector<Graph> graphs;
  for (int rank = 0; rank < ranks; ++rank) {
    Graph& graph = graphs.emplace_back(absl::StrCat("rank", rank));
    if (mesh.MemberOf(rank) < 0) continue;
    Boxing mine = b;
    mine.rank = rank;
    WEFT_ASSIGN_OR_RETURN(Node * x, graph.Add("weft.Variable", "x", {},
                                              {{"dtype", whole.dtype},
                                               {"shape", DimsOf(local)}}));
    const Value from = x->output(0);
    WEFT_ASSIGN_OR_RETURN(Value y, AddBoxing(&graph, mine, from, whole));
    WEFT_RETURN_IF_ERROR(
        graph.Add("weft.Output", "", {y}, {{"name", "y"}}).status());
    WEFT_RETURN_IF_ERROR(VerifyGraph(graph));
  }
  return graphs;
}

absl::StatusOr<std::vector<Literal>> RunBoxing(
    const Boxing& b, const TensorType& whole,
    const std::vector<Literal>& locals) {
  const Mesh& mesh = b.costs->mesh();
  WEFT_ASSIGN_OR_RETURN(std::vector<Graph> graphs, BoxingGraphs(b, whole));
  std::vector<RankProgram> job(graphs.size());
  for (size_t rank = 0; rank < graphs.size(); ++rank) {
    job[rank].graph = &graphs[rank];
    const int member = mesh.MemberOf(static_cast<int>(rank));
    if (member >= 0) job[rank].feeds["x"] = {locals[member]};
  }
  WEFT_ASSIGN_OR_RETURN(std::vector<InterpretResult> results,
                        InterpretJob(job, JobOrder::kInOrder));
  std::vector<Literal> moved;
  for (int rank : mesh.ranks()) moved.push_back(results[rank].outputs["y"][0]);
  return moved;
}

}  // namespace weft
