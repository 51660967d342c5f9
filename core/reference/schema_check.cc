#include "core/reference/schema_check.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/error.h"
#include "core/ops/schema.h"

namespace weft {

TensorType ParseType(const std::string& text) {
  if (text.empty()) return {};
  size_t bracket = text.find('[');
  std::vector<int64_t> dims;
  std::string inside = text.substr(bracket + 1, text.size() - bracket - 2);
  for (absl::string_view part :
       absl::StrSplit(inside, ',', absl::SkipEmpty())) {
    dims.push_back(0);
    EXPECT_TRUE(absl::SimpleAtoi(part, &dims.back())) << text;
  }
  return {ParseDType(text.substr(0, bracket)).value(), Shape(dims)};
}

namespace {

std::vector<TensorType> ParseTypes(const std::vector<std::string>& texts) {
  std::vector<TensorType> types;
  for (const std::string& text : texts) types.push_back(ParseType(text));
  return types;
}

// Keeps the names of what is emitted; the values themselves are not computed.
class NameRecorder : public NodeEmitter {
 public:
  Value Add(TensorType type) {
    types_.push_back({std::move(type)});
    return {static_cast<int32_t>(types_.size()) - 1, 0};
  }
  std::vector<Value> Emit(absl::string_view op, absl::Span<const Value> inputs,
                          AttrMap attrs, int num_outputs) override {
    std::vector<TensorType> operands;
    for (Value v : inputs) operands.push_back(type(v));
    absl::StatusOr<std::vector<TensorType>> out = InferTypes(
        *OpRegistry::Global().FindOrNull(op), op, attrs, operands, num_outputs);
    if (!out.ok()) status_.Update(out.status());
    names_.push_back(std::string(op));
    types_.push_back(out.ok() ? *out : std::vector<TensorType>(num_outputs));
    std::vector<Value> values;
    for (int i = 0; i < num_outputs; ++i) {
      values.push_back({static_cast<int32_t>(types_.size()) - 1, i});
    }
    return values;
  }
  TensorType type(Value v) const override {
    return v.valid() ? types_[v.node][v.index] : TensorType();
  }
  absl::Status status() const override { return status_; }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::vector<TensorType>> types_;
  std::vector<std::string> names_;
  absl::Status status_;
};

}  // namespace

std::string InferText(const std::string& op, const AttrMap& attrs,
                      const std::vector<std::string>& inputs, int num_outputs) {
  const OpSchema* schema = OpRegistry::Global().FindOrNull(op);
  if (schema == nullptr) return absl::StrCat("no op ", op);
  absl::StatusOr<std::vector<TensorType>> out =
      InferTypes(*schema, "n", attrs, ParseTypes(inputs),
                 num_outputs < 0 ? schema->outputs.min : num_outputs);
  if (!out.ok()) {
    return absl::StrCat(ErrorName(ErrorCodeOf(out.status())), ": ",
                        out.status().message());
  }
  return absl::StrJoin(*out, " ", [](std::string* s, const TensorType& type) {
    absl::StrAppend(s, type.ToString());
  });
}

std::vector<double> ResultOf(const OpCase& c, int i) {
  absl::StatusOr<std::vector<Literal>> results = RunOp(c);
  EXPECT_EQ(results.status(), absl::OkStatus());
  return results.ok() ? (*results)[i].ToDoubles() : std::vector<double>();
}

Cost CostOf(const std::string& op, const AttrMap& attrs,
            const std::vector<std::string>& inputs) {
  const OpSchema& schema = *OpRegistry::Global().FindOrNull(op);
  std::vector<TensorType> types = ParseTypes(inputs);
  std::vector<TensorType> out =
      InferTypes(schema, "n", attrs, types, schema.outputs.min).value();
  return schema.cost(OpView(schema, "n", attrs, types, out));
}

std::vector<std::string> GradientOps(const std::string& op,
                                     const AttrMap& attrs,
                                     const std::vector<std::string>& inputs) {
  const OpSchema& schema = *OpRegistry::Global().FindOrNull(op);
  std::vector<TensorType> types = ParseTypes(inputs);
  std::vector<TensorType> out =
      InferTypes(schema, "n", attrs, types, schema.outputs.min).value();
  NameRecorder emit;
  std::vector<Value> operands, results, grads;
  for (const TensorType& type : types) operands.push_back(emit.Add(type));
  for (const TensorType& type : out) {
    results.push_back(emit.Add(type));
    grads.push_back(IsFloat(type.dtype) ? emit.Add(type) : Value());
  }
  OpView view(schema, "n", attrs, types, out);
  schema.gradient({view, operands, results, grads, emit});
  EXPECT_EQ(emit.status(), absl::OkStatus());
  return emit.names();
}

testing::Matcher<std::string> ErrorWith(const std::string& code,
                                        const std::vector<std::string>& parts) {
  testing::Matcher<std::string> all = testing::StartsWith(code + ": ");
  for (const std::string& part : parts) {
    all = testing::AllOf(all, testing::HasSubstr(part));
  }
  return all;
}

}  // namespace weft
