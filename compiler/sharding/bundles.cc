#include "compiler/sharding/bundles.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/collectives/narrow.h"
#include "core/base/status_macros.h"
#include "core/ops/expr.h"

namespace weft {
std::map<int32_t, std::shared_ptr<const Bundle>> MakeBundles(
    const Graph& graph, const std::vector<int32_t>& sums, int64_t bytes,
    bool narrow_wire) {
  std::vector<int32_t> sorted = sums;
  std::sort(sorted.begin(), sorted.end());
  std::map<int32_t, std::shared_ptr<const Bundle>> out;
  std::map<std::tuple<DType, bool, std::string, int>, std::shared_ptr<Bundle>>
      open;
  for (int32_t id : sorted) {
    const Node& sum = *graph.node(id);
    const TensorType& type = sum.output_type(0);
    const int64_t elements = type.shape.num_elements();
    const int64_t most = bytes / static_cast<int64_t>(DTypeSize(type.dtype));
    const bool narrow = narrow_wire && MayTravelNarrow(type, {/*sum=*/true});
    std::shared_ptr<Bundle>& bundle =
        open[{type.dtype, narrow, sum.device, sum.stage}];
    if (bundle == nullptr || bundle->elements + elements > most ||
        bundle->sums.size() >= kMaxTogether) {
      bundle = std::make_shared<Bundle>();
    }
    bundle->sums.push_back(id);
    bundle->elements += elements;
    out[id] = bundle;
  }
  return out;
}

absl::StatusOr<std::vector<Value>> TravelTogether(const Together& together,
                                                  absl::Span<const Value> parts,
                                                  Graph* out,
                                                  const MoveValue& move) {
  if (parts.size() == 1) {
    WEFT_ASSIGN_OR_RETURN(Value total, move(together.name, parts[0]));
    return std::vector<Value>{total};
  }
  GraphEmitter emit(out, together.name, together.why);
  emit.set_placement(together.device, together.stage);
  std::vector<Value> flat;
  for (Value part : parts) {
    const Expr value(emit, part);
    flat.push_back(ReshapeTo(value, Shape({value.shape().num_elements()})));
  }
  const Value joined = emit.Emit1("Concat", flat, {{"axis", 0}});
  WEFT_RETURN_IF_ERROR(emit.status());
  WEFT_ASSIGN_OR_RETURN(Value total, move(together.name, joined));
  std::vector<Value> totals;
  int64_t begin = 0;
  for (Value part : parts) {
    const Shape shape = out->type(part).shape;
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

absl::StatusOr<std::vector<Value>> SumTogether(const Graph& graph,
                                               const Bundle& bundle,
                                               absl::Span<const Value> parts,
                                               Graph* out,
                                               const MoveValue& sum) {
  const Node& first = *graph.node(bundle.sums[0]);
  Together together;
  together.name = first.name();
  if (parts.size() > 1) {
    absl::StrAppend(&together.name, "..",
                    graph.node(bundle.sums.back())->name());
  }
  together.name += "/ranks";
  together.why = absl::StrCat("sharding: ", parts.size(),
                              " sums over ranks travel together");
  together.device = first.device;
  together.stage = first.stage;
  return TravelTogether(together, parts, out, sum);
}

}  // namespace weft
