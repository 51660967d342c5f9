#include "compiler/training/data_parallel.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/collectives/collective.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/ops/expr.h"

namespace weft::training {
namespace {

using Use = std::pair<int32_t, int>;

// Operands of a node, as plugins/abi has it, WEFT_MAX_OPERANDS.
constexpr int64_t kMaxChunks = 256;
constexpr size_t kMaxTogether = 64;

// Sums that travel together: they are of one type but for their shape.
struct Bundle {
  std::vector<int32_t> sums;
  int64_t elements = 0;
};

// What stays of a sum on this rank, and who read it.
struct Part {
  int32_t sum = -1;
  Value value;
  std::vector<Use> uses;
};

class Sharder {
 public:
  Sharder(Graph* graph, const DataParallelSpec& spec)
      : graph_(*graph), spec_(spec) {}

  absl::Status Run() {
    WEFT_ASSIGN_OR_RETURN(std::vector<Bundle> bundles, Bundles());
    int64_t here = 1;
    for (const Bundle& bundle : bundles) {
      WEFT_ASSIGN_OR_RETURN(here, SumOverRanks(bundle));
    }
    if (bundles.empty()) return absl::OkStatus();
    for (Node* node : graph_.Nodes()) {
      if (!node->Is(OpId::kCounter)) continue;
      if (graph_.View(*node).String("rate") != "micro") continue;
      WEFT_RETURN_IF_ERROR(
          graph_.SetAttr(node->id(), "first", spec_.rank * here));
    }
    return absl::OkStatus();
  }

 private:
  // In the order in which their first sums were made. None has a sum that waits
  // for another: all before a sum on a path to it counts.
  absl::StatusOr<std::vector<Bundle>> Bundles() const {
    std::map<int, std::vector<int32_t>> by_depth;
    WEFT_ASSIGN_OR_RETURN(std::vector<const Node*> order,
                          static_cast<const Graph&>(graph_).TopologicalOrder());
    std::vector<int> depth(graph_.id_bound(), 0);  // sums up to a node
    for (const Node* node : order) {
      int& here = depth[node->id()];
      for (Value v : node->inputs()) {
        if (v.valid()) here = std::max(here, depth[v.node]);
      }
      for (int32_t from : node->control_inputs()) {
        here = std::max(here, depth[from]);
      }
      if (node->Is(OpId::kAccumulate)) by_depth[++here].push_back(node->id());
    }
    std::vector<Bundle> bundles;
    for (auto& [sums_before, sums] : by_depth) {
      std::sort(sums.begin(), sums.end());
      std::map<std::tuple<DType, std::string, int>, size_t> open;
      for (int32_t id : sums) {
        const Node& sum = *graph_.node(id);
        const TensorType& type = sum.output_type(0);
        const int64_t elements = type.shape.num_elements();
        const int64_t most =
            spec_.bundle_bytes / static_cast<int64_t>(DTypeSize(type.dtype));
        auto [at, is_new] = open.try_emplace(
            {type.dtype, sum.device, sum.stage}, bundles.size());
        if (is_new || bundles[at->second].elements + elements > most ||
            bundles[at->second].sums.size() >= kMaxTogether) {
          at->second = bundles.size();
          bundles.emplace_back();
        }
        bundles[at->second].sums.push_back(id);
        bundles[at->second].elements += elements;
      }
    }
    return bundles;
  }

  // Each chunk is some tasks and channels of the plan.
  absl::Status CheckChunks(const Bundle& bundle) const {
    if (spec_.chunk_elements == 0) return absl::OkStatus();
    const int64_t chunks = bundle.elements / spec_.chunk_elements;
    if (chunks <= kMaxChunks) return absl::OkStatus();
    return MakeError(
        ErrorCode::kBadValue,
        absl::StrCat("chunk_elements is ", spec_.chunk_elements,
                     ": the sum of '", graph_.node(bundle.sums[0])->name(),
                     "' over ranks, ", bundle.elements,
                     " elements, would travel in ", chunks, " chunks; at most ",
                     kMaxChunks, " are possible"));
  }

  absl::StatusOr<int64_t> ShareOf(const Node& sum) const {
    const int64_t count = graph_.View(sum).Int("count");
    if (count % spec_.ranks == 0) return count / spec_.ranks;
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat("'", sum.name(), "' sums ", count,
                                  " micro-batches of a step, which ",
                                  spec_.ranks, " ranks cannot share equally"));
  }

  // The micro-batches of each that are left here.
  absl::StatusOr<int64_t> SumOverRanks(const Bundle& bundle) {
    WEFT_RETURN_IF_ERROR(CheckChunks(bundle));
    int64_t here = 1;
    std::vector<Part> parts;
    for (int32_t id : bundle.sums) {
      Node* sum = graph_.node(id);
      WEFT_ASSIGN_OR_RETURN(here, ShareOf(*sum));
      const absl::Span<const Use> found = graph_.Uses(sum->output(0));
      Part part{id, sum->output(0), {found.begin(), found.end()}};
      if (here == 1) {
        part.value = sum->input(0);
      } else {
        WEFT_RETURN_IF_ERROR(graph_.SetAttr(id, "count", here));
      }
      sum->provenance.push_back(absl::StrCat(
          "data_parallel: ", here, " micro-batches on rank ", spec_.rank));
      parts.push_back(std::move(part));
    }
    WEFT_ASSIGN_OR_RETURN(std::vector<Value> totals, Totals(parts));
    for (size_t i = 0; i < parts.size(); ++i) {
      for (auto [reader, position] : parts[i].uses) {
        WEFT_RETURN_IF_ERROR(graph_.SetInput(reader, position, totals[i]));
      }
      if (here == 1) WEFT_RETURN_IF_ERROR(RemoveSum(parts[i].sum));
    }
    return here;
  }

  // Of each part over all ranks.
  absl::StatusOr<std::vector<Value>> Totals(const std::vector<Part>& parts) {
    const Node& first = *graph_.node(parts[0].sum);
    std::string name = absl::StrCat(first.name(), "/ranks");
    if (parts.size() == 1) {
      WEFT_ASSIGN_OR_RETURN(Value total, SumOfAll(name, first, parts[0].value));
      return std::vector<Value>{total};
    }
    name = absl::StrCat(first.name(), "..",
                        graph_.node(parts.back().sum)->name(), "/ranks");
    GraphEmitter emit(
        &graph_, name,
        absl::StrCat("data_parallel: ", parts.size(), " sums travel together"));
    emit.set_placement(first.device, first.stage);
    std::vector<Value> flat;
    for (const Part& part : parts) {
      const Expr value(emit, part.value);
      flat.push_back(ReshapeTo(value, Shape({value.shape().num_elements()})));
    }
    const Value joined = emit.Emit1("Concat", flat, {{"axis", 0}});
    WEFT_RETURN_IF_ERROR(emit.status());
    WEFT_ASSIGN_OR_RETURN(Value total, SumOfAll(name, first, joined));
    std::vector<Value> totals;
    int64_t begin = 0;
    for (const Part& part : parts) {
      const Shape& shape = graph_.type(part.value).shape;
      const int64_t end = begin + shape.num_elements();
      const Value slice = emit.Emit1("Slice", {total},
                                     {{"starts", std::vector<int64_t>{begin}},
                                      {"ends", std::vector<int64_t>{end}}});
      totals.push_back(ReshapeTo(Expr(emit, slice), shape));
      begin = end;
    }
    WEFT_RETURN_IF_ERROR(emit.status());
    return totals;
  }

  absl::StatusOr<Value> SumOfAll(const std::string& name, const Node& like,
                                 Value part) {
    Collective all;
    all.kind = CollectiveKind::kAllReduce;
    all.algorithm = spec_.algorithm;
    all.order = spec_.fixed_order ? OrderClass::kTree : OrderClass::kNone;
    all.ranks.resize(spec_.ranks);
    std::iota(all.ranks.begin(), all.ranks.end(), 0);
    all.rank = spec_.rank;
    all.name = name;
    all.chunk_elements = spec_.chunk_elements;
    all.device = like.device;
    all.stage = like.stage;
    const TensorType type = graph_.type(part);
    // Many are of one size, and looking at all algorithms takes its time.
    const auto key = std::make_pair(type.dtype, type.shape.num_elements());
    auto [chosen, is_new] = chosen_.try_emplace(key, spec_.algorithm);
    if (is_new) {
      WEFT_ASSIGN_OR_RETURN(chosen->second, AlgorithmOf(all, type));
    }
    all.algorithm = chosen->second;
    return AddCollective(&graph_, all, part, type);
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
  // By dtype and elements.
  std::map<std::pair<DType, int64_t>, CollectiveAlgorithm> chosen_;
};

}  // namespace

absl::Status MakeDataParallel(Graph* graph, const DataParallelSpec& spec) {
  if (spec.ranks <= 1) return absl::OkStatus();
  return Sharder(graph, spec).Run();
}

}  // namespace weft::training
