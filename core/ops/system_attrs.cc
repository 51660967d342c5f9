#include "core/ops/system_attrs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/ops/cuts.h"
#include "core/ops/expr.h"

namespace weft {
namespace {

absl::Status ListsDisagree(const OpView& op, absl::string_view why) {
  return op.Error(
      ErrorCode::kBadAttribute,
      absl::StrCat("dtypes ", ToString(op.Get("dtypes")), ", ranks ",
                   ToString(op.Get("ranks")), " and dims ",
                   ToString(op.Get("dims")), " do not describe fields: ", why));
}

}  // namespace

AttrMap DataSourceAttrs(absl::string_view source,
                        absl::Span<const TensorType> types) {
  std::vector<int64_t> dtypes, ranks, dims;
  for (const TensorType& type : types) {
    dtypes.push_back(static_cast<int64_t>(type.dtype));
    ranks.push_back(type.shape.rank());
    dims.insert(dims.end(), type.shape.dims().begin(), type.shape.dims().end());
  }
  return {{"source", std::string(source)},
          {"dtypes", std::move(dtypes)},
          {"ranks", std::move(ranks)},
          {"dims", std::move(dims)}};
}

absl::StatusOr<std::vector<TensorType>> DataSourceTypes(const OpView& op) {
  const std::vector<int64_t>& dtypes = op.Ints("dtypes");
  const std::vector<int64_t>& ranks = op.Ints("ranks");
  absl::Span<const int64_t> dims = op.Ints("dims");
  if (dtypes.size() != ranks.size()) {
    return ListsDisagree(op, "one dtype and one rank for each");
  }
  std::vector<TensorType> types;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    if (dtypes[i] <= 0 || dtypes[i] >= kNumDTypes) {
      return ListsDisagree(op, absl::StrCat("no dtype has id ", dtypes[i]));
    }
    if (ranks[i] < 0 || ranks[i] > static_cast<int64_t>(dims.size())) {
      return ListsDisagree(op, "the ranks add up to another number of dims");
    }
    absl::StatusOr<Shape> shape = Shape::Create(dims.subspan(0, ranks[i]));
    if (!shape.ok()) return ListsDisagree(op, shape.status().message());
    types.push_back({static_cast<DType>(dtypes[i]), *std::move(shape)});
    dims.remove_prefix(ranks[i]);
  }
  if (!dims.empty()) {
    return ListsDisagree(op, "the ranks add up to another number of dims");
  }
  return types;
}

AttrMap VariableAttrs(const TensorType& type, const VariableInit& init,
                      absl::string_view role, bool trainable) {
  AttrMap attrs = {{"dtype", type.dtype},
                   {"shape", DimsOf(type.shape)},
                   {"role", std::string(role)},
                   {"trainable", trainable ? 1 : 0},
                   {"init", init.kind}};
  if (init.kind == "constant") attrs.Set("value", init.a);
  if (init.kind == "uniform") {
    attrs.Set("low", init.a);
    attrs.Set("high", init.b);
  }
  if (init.kind == "normal") {
    attrs.Set("mean", init.a);
    attrs.Set("scale", init.b);
  }
  return attrs;
}

Value EmitInitialValue(NodeEmitter& emit, const OpView& variable, Value counter,
                       int64_t seed, int64_t stream) {
  const std::string& kind = variable.String("init");
  DType dtype = variable.Type("dtype");
  const std::vector<int64_t>& dims = variable.Ints("shape");
  if (kind == "zeros" || kind == "constant") {
    double value = kind == "zeros" ? 0 : variable.Float("value");
    return ExpandTo(Expr(emit, emit.Scalar(value, dtype)), Shape(dims));
  }
  bool uniform = kind == "uniform";
  AttrMap attrs = {
      {"shape", dims}, {"dtype", dtype}, {"seed", seed}, {"stream", stream}};
  for (const char* name :
       {uniform ? "low" : "mean", uniform ? "high" : "scale"}) {
    attrs.Set(name, variable.Get(name));
  }
  Cuts::CopyTo(variable, &attrs);
  return emit.Emit1(uniform ? "weft.RandomUniform" : "weft.RandomNormal",
                    {counter}, std::move(attrs));
}

}  // namespace weft
