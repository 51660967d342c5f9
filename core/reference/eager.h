// EagerEmitter: a NodeEmitter that computes at once. A schema's gradient or
// decomposition run against it gives numbers instead of nodes, so both can be
// tested and folded without a graph.
//
//   EagerEmitter e;
//   Value x = e.Add(Literal::Scalar<double>(3));
//   Value y = e.Emit1("Mul", {x, x});
//   e.literal(y);     // 9
//
// Threading: thread-compatible. Ownership: keeps every value it has made.
#ifndef WEFT_CORE_REFERENCE_EAGER_H_
#define WEFT_CORE_REFERENCE_EAGER_H_

#include <vector>

#include "absl/status/status.h"
#include "core/ops/schema.h"
#include "core/types/literal.h"

namespace weft {

class EagerEmitter : public NodeEmitter {
 public:
  enum class Mode {
    kDirect,      // every op by its own definition
    kPrimitives,  // ops that decompose run as their decomposition, all the way
  };
  explicit EagerEmitter(Mode mode = Mode::kDirect) : mode_(mode) {}

  Value Add(Literal literal);
  // Pre-condition: value.valid().
  const Literal& literal(Value value) const {
    return nodes_[value.node][value.index];
  }

  std::vector<Value> Emit(absl::string_view op, absl::Span<const Value> inputs,
                          AttrMap attrs, int num_outputs) override;
  TensorType type(Value value) const override {
    return value.valid() ? literal(value).type() : TensorType();
  }
  absl::Status status() const override { return status_; }

 private:
  absl::StatusOr<std::vector<Value>> TryEmit(absl::string_view op,
                                             absl::Span<const Value> inputs,
                                             const AttrMap& attrs,
                                             int num_outputs);

  Mode mode_;
  int depth_ = 0;  // of decompositions within decompositions
  std::vector<std::vector<Literal>> nodes_;
  absl::Status status_;
};

}  // namespace weft

#endif  // WEFT_CORE_REFERENCE_EAGER_H_
