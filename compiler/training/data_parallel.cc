#include "compiler/training/data_parallel.h"

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/collectives/collective.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft::training {
namespace {

using Use = std::pair<int32_t, int>;

class Sharder {
 public:
  Sharder(Graph* graph, const DataParallelSpec& spec)
      : graph_(*graph), spec_(spec) {}

  absl::Status Run() {
    std::vector<int32_t> sums;
    for (const Node* node : std::as_const(graph_).Nodes()) {
      if (node->Is(OpId::kAccumulate)) sums.push_back(node->id());
    }
    int64_t here = 1;
    for (int32_t sum : sums) {
      WEFT_ASSIGN_OR_RETURN(here, ShareOf(*graph_.node(sum)));
      WEFT_RETURN_IF_ERROR(SumOverRanks(sum, here));
    }
    if (sums.empty()) return absl::OkStatus();
    for (Node* node : graph_.Nodes()) {
      if (!node->Is(OpId::kCounter)) continue;
      if (graph_.View(*node).String("rate") != "micro") continue;
      WEFT_RETURN_IF_ERROR(
          graph_.SetAttr(node->id(), "first", spec_.rank * here));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<int64_t> ShareOf(const Node& sum) const {
    const int64_t count = graph_.View(sum).Int("count");
    if (count % spec_.ranks == 0) return count / spec_.ranks;
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat("'", sum.name(), "' sums ", count,
                                  " micro-batches of a step, which ",
                                  spec_.ranks, " ranks cannot share equally"));
  }

  absl::Status SumOverRanks(int32_t id, int64_t here) {
    Node* sum = graph_.node(id);
    const std::string name = sum->name();
    const Value whole = sum->output(0);
    const absl::Span<const Use> found = graph_.Uses(whole);
    const std::vector<Use> uses(found.begin(), found.end());
    Value part = whole;
    if (here == 1) {
      part = sum->input(0);
    } else {
      WEFT_RETURN_IF_ERROR(graph_.SetAttr(id, "count", here));
    }
    sum->provenance.push_back(absl::StrCat(
        "data_parallel: ", here, " micro-batches on rank ", spec_.rank));
    Collective all;
    all.kind = CollectiveKind::kAllReduce;
    all.algorithm = spec_.algorithm;
    all.order = spec_.fixed_order ? OrderClass::kTree : OrderClass::kNone;
    all.ranks.resize(spec_.ranks);
    std::iota(all.ranks.begin(), all.ranks.end(), 0);
    all.rank = spec_.rank;
    all.name = absl::StrCat(name, "/ranks");
    all.chunk_elements = spec_.chunk_elements;
    all.device = sum->device;
    all.stage = sum->stage;
    WEFT_ASSIGN_OR_RETURN(Value total,
                          AddCollective(&graph_, all, part, graph_.type(part)));
    for (auto [reader, position] : uses) {
      WEFT_RETURN_IF_ERROR(graph_.SetInput(reader, position, total));
    }
    return here == 1 ? RemoveSum(id) : absl::OkStatus();
  }

  // What came after it comes after what it summed.
  absl::Status RemoveSum(int32_t id) {
    const Node* sum = graph_.node(id);
    const int32_t operand = sum->input(0).node;
    for (int32_t after : graph_.ControlUses(id)) {
      graph_.RemoveControlInput(after, id);
      graph_.AddControlInput(after, operand);
    }
    return graph_.Remove(id);
  }

  Graph& graph_;
  const DataParallelSpec& spec_;
};

}  // namespace

absl::Status MakeDataParallel(Graph* graph, const DataParallelSpec& spec) {
  if (spec.ranks <= 1) return absl::OkStatus();
  return Sharder(graph, spec).Run();
}

}  // namespace weft::training
