#include "compiler/sharding/bundles.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/collectives/narrow.h"
#include "core/base/status_macros.h"
#include "core/ops/expr.h"

namespace weft {

bool GoesAlone(const TensorType& type, int64_t bytes) {
  return 2 * type.shape.num_elements() >
         bytes / static_cast<int64_t>(DTypeSize(type.dtype));
}

std::vector<Bundle> MakeBundles(const Graph& graph,
                                const std::vector<int32_t>& sums, int64_t bytes,
                                bool narrow_wire) {
  std::vector<Bundle> out;
  // The last of each kind, by its place.
  std::map<std::tuple<DType, bool, std::string, int>, size_t> open;
  for (size_t i = 0; i < sums.size(); ++i) {
    const Node& sum = *graph.node(sums[i]);
    const TensorType& type = sum.output_type(0);
    const int64_t elements = type.shape.num_elements();
    const int64_t most = bytes / static_cast<int64_t>(DTypeSize(type.dtype));
    Bundle alone;
    alone.sums = {sums[i]};
    alone.elements = elements;
    alone.complete = i;
    if (GoesAlone(type, bytes)) {
      out.push_back(std::move(alone));
      continue;
    }
    const bool narrow = narrow_wire && MayTravelNarrow(type, {/*sum=*/true});
    const auto [at, is_first] = open.try_emplace(
        {type.dtype, narrow, sum.device, sum.stage}, out.size());
    if (is_first || out[at->second].elements + elements > most ||
        out[at->second].sums.size() >= kMaxTogether) {
      at->second = out.size();
      out.push_back(std::move(alone));
      continue;
    }
    Bundle& bundle = out[at->second];
    bundle.sums.push_back(sums[i]);
    bundle.elements += elements;
    bundle.complete = i;
  }
  std::sort(out.begin(), out.end(), [](const Bundle& a, const Bundle& b) {
    return a.complete < b.complete;
  });
  return out;
}

Together TogetherOf(const Graph& graph, const Bundle& bundle) {
  const Node& first = *graph.node(bundle.sums[0]);
  Together together;
  together.name = first.name();
  if (bundle.sums.size() > 1) {
    absl::StrAppend(&together.name, "..",
                    graph.node(bundle.sums.back())->name());
  }
  together.name += "/ranks";
  together.why = absl::StrCat("sharding: ", bundle.sums.size(),
                              " sums over ranks travel together");
  together.device = first.device;
  together.stage = first.stage;
  return together;
}

absl::StatusOr<Value> Join(const Together& together,
                           absl::Span<const Value> parts, Graph* out) {
  if (parts.size() == 1) return parts[0];
  GraphEmitter emit(out, together.name, together.why);
  emit.set_placement(together.device, together.stage);
  std::vector<Value> flat;
  for (Value part : parts) {
    const Expr value(emit, part);
    flat.push_back(ReshapeTo(value, Shape({value.shape().num_elements()})));
  }
  const Value joined = emit.Emit1("Concat", flat, {{"axis", 0}});
  WEFT_RETURN_IF_ERROR(emit.status());
  return joined;
}

absl::StatusOr<std::vector<Value>> TakeApart(const Together& together,
                                             absl::Span<const Value> parts,
                                             Value total, Graph* out) {
  if (parts.size() == 1) return std::vector<Value>{total};
  GraphEmitter emit(out, together.name, together.why);
  emit.set_placement(together.device, together.stage);
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

}  // namespace weft
