#include "compiler/boxing/boxing.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/boxing/one_axis.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

absl::string_view ValueOf(const Boxing& b) {
  return b.value.empty() ? b.name : b.value;
}

absl::Status Check(const Graph& graph, const Boxing& b, Value local,
                   const TensorType& whole) {
  const Mesh& mesh = b.costs->mesh();
  if (mesh.MemberOf(b.rank) < 0) {
    return MakeError(
        ErrorCode::kInternal,
        absl::StrCat("rank ", b.rank, " is not of mesh ", mesh.ToString()));
  }
  for (const NdSbp* sbp : {&b.from, &b.to}) {
    if (!HasPartial(*sbp) || CanReduce(whole.dtype)) continue;
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat("nothing reduces ", DTypeName(whole.dtype),
                                  "; f32, f64, f16, bf16, i32, i64 have "
                                  "reductions"));
  }
  WEFT_ASSIGN_OR_RETURN(Shape shape, LocalShape(whole.shape, b.from, mesh));
  const TensorType wanted = {whole.dtype, shape};
  if (local.valid() && graph.type(local) == wanted) return absl::OkStatus();
  return MakeError(
      ErrorCode::kInternal,
      absl::StrCat("a part of ", whole.ToString(), " is ", wanted.ToString(),
                   ", the operand is ",
                   local.valid() ? graph.type(local).ToString() : "absent"));
}

// The collective of a step in the group that this rank is in.
Collective CollectiveFor(const Boxing& b, const BoxingStep& step, int index) {
  const Mesh& mesh = b.costs->mesh();
  Collective c;
  for (int m : mesh.GroupOf(mesh.MemberOf(b.rank), step.axis)) {
    c.ranks.push_back(mesh.rank(m));
  }
  c.rank = b.rank;
  c.name = absl::StrCat(b.name, "/", index);
  c.chunk_elements = b.chunk_elements;
  c.rate = b.rate;
  c.narrow = b.narrow;
  c.hosts = b.costs->HostsOf(c.ranks);
  c.topology = b.costs->topology();
  c.order = b.costs->order();
  c.after = b.after;
  c.device = b.device;
  c.stage = b.stage;
  c.squares = b.squares;
  const std::optional<CollectiveKind> kind = CollectiveOf(step.move);
  if (kind && Exists(*kind, b.algorithm)) c.algorithm = b.algorithm;
  return c;
}

std::string ProvenanceOf(const Boxing& b, const BoxingStep& step) {
  const MeshAxis& axis = b.costs->mesh().axis(step.axis);
  return absl::StrCat("boxing: '", ValueOf(b), "' from ",
                      ToString(step.before[step.axis]), " to ",
                      ToString(step.after[step.axis]), " on axis ", axis.name,
                      ": ", Name(step.move), ", ", axis.size, " ranks");
}

absl::StatusOr<Value> AddSteps(Graph* graph, const Boxing& b, Value value,
                               const TensorType& whole) {
  WEFT_RETURN_IF_ERROR(Check(*graph, b, value, whole));
  const Mesh& mesh = b.costs->mesh();
  WEFT_ASSIGN_OR_RETURN(std::vector<BoxingStep> steps,
                        b.costs->Plan(b.from, b.to, whole, b.rate == "micro"));
  for (size_t i = 0; i < steps.size(); ++i) {
    const Collective c = CollectiveFor(b, steps[i], static_cast<int>(i));
    const std::string provenance = ProvenanceOf(b, steps[i]);
    GraphEmitter emit(graph, c.name, "");
    emit.set_placement(b.device, b.stage);
    const OneAxisChange change = {
        &steps[i], &c, mesh.CoordinateOf(mesh.MemberOf(b.rank), steps[i].axis)};
    const int32_t first = graph->id_bound();
    WEFT_ASSIGN_OR_RETURN(value, AddOneAxisChange(graph, &emit, change, value));
    // The collective's nodes tell their own story as well.
    for (int32_t id = first; id < graph->id_bound(); ++id) {
      if (!graph->Contains(id)) continue;
      std::vector<std::string>& why = graph->node(id)->provenance;
      why.insert(why.begin(), provenance);
    }
  }
  return value;
}

}  // namespace

absl::StatusOr<Value> AddBoxing(Graph* graph, const Boxing& b, Value local,
                                const TensorType& whole) {
  absl::StatusOr<Value> value = AddSteps(graph, b, local, whole);
  if (value.ok()) return value;
  return Annotate(value.status(),
                  absl::StrCat("boxing of '", ValueOf(b), "' from ",
                               ToString(b.from), " to ", ToString(b.to)));
}

}  // namespace weft
