// Attributes of the ops that are sources and state, written and read in one
// place: weft.DataSource and weft.Variable.
//
//   AttrMap batch = DataSourceAttrs("train", {{DType::kF32, {128, 784}},
//                                             {DType::kI32, {128}}});
//   AttrMap weights = VariableAttrs({DType::kF32, {784, 512}},
//                                   VariableInit::Uniform(-0.05, 0.05));
//
// A DataSource gives one value per field: "source" names the data, "dtypes" and
// "ranks" have one int a field (the dtype's id), and "dims" all extents, field
// after field.
//
// A Variable's "init" is "zeros", "constant" {value}, "uniform" {low, high} or
// "normal" {mean, scale}; "role" is "parameter", "optimizer" or "statistic".
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_OPS_SYSTEM_ATTRS_H_
#define WEFT_CORE_OPS_SYSTEM_ATTRS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ops/schema.h"

namespace weft {

AttrMap DataSourceAttrs(absl::string_view source,
                        absl::Span<const TensorType> types);

// The fields' types; kBadAttribute where the lists contradict each other.
absl::StatusOr<std::vector<TensorType>> DataSourceTypes(const OpView& op);

// How a variable gets its first value.
struct VariableInit {
  std::string kind = "zeros";
  double a = 0;  // value, low or mean
  double b = 0;  // high or scale

  static VariableInit Zeros() { return {}; }
  static VariableInit Constant(double value) { return {"constant", value, 0}; }
  static VariableInit Uniform(double low, double high) {
    return {"uniform", low, high};
  }
  static VariableInit Normal(double mean, double scale) {
    return {"normal", mean, scale};
  }
};

AttrMap VariableAttrs(const TensorType& type, const VariableInit& init,
                      absl::string_view role = "parameter",
                      bool trainable = true);

// Emits the first value of `variable` (a weft.Variable). `counter` is an i64[2]
// value, read by random kinds only; `stream` tells the variables of a program
// apart.
Value EmitInitialValue(NodeEmitter& emit, const OpView& variable, Value counter,
                       int64_t seed, int64_t stream);

}  // namespace weft

#endif  // WEFT_CORE_OPS_SYSTEM_ATTRS_H_
