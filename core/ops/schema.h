// Op schemas: one entry per kind of computation, which passes ask instead of
// switching over op ids. How many operands and which attributes it takes, what
// type its results have, how it is differentiated or taken apart, whether it
// writes, what it costs. Nothing here knows a graph:
// gradients and decompositions build nodes through NodeEmitter, which
// core/graph implements.
//
// A family of ops is one file, `Register<Family>Ops(OpRegistry*)`:
//
//   OpSchema relu(OpId::kRelu);
//   relu.inputs = {1, 1};
//   relu.infer = SameAsInput;
//   relu.gradient = [](const GradientContext& g) -> std::vector<Value> {
//     Value zero = g.emit.Scalar(0, g.op.input(0).dtype);
//     Value mask = g.emit.Emit1("Greater", {g.inputs[0], zero});
//     return {g.emit.Emit1("Where", {mask, g.output_grads[0], zero})};
//   };
//   registry->Add(std::move(relu));
//
// Threading: schemas are immutable once registered; OpRegistry::Global() is
// thread-safe.
#ifndef WEFT_CORE_OPS_SCHEMA_H_
#define WEFT_CORE_OPS_SCHEMA_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/error.h"
#include "core/mesh/sbp.h"
#include "core/ops/attr.h"
#include "core/types/shape.h"

namespace weft {

enum class OpId : uint32_t {
#define WEFT_OP(id, identifier, name) k##identifier = id,
#include "core/ops/op_ids.inc"
#undef WEFT_OP
};

// The registered name of an id, "weft.Gelu"; "" for an unknown id.
absl::string_view OpName(OpId id);

// One result of a node. Invalid (the default) stands for an absent operand or
// an absent gradient.
struct Value {
  int32_t node = -1;
  int32_t index = 0;

  bool valid() const { return node >= 0; }
  friend bool operator==(Value a, Value b) {
    return a.node == b.node && a.index == b.index;
  }
  friend bool operator!=(Value a, Value b) { return !(a == b); }
  friend bool operator<(Value a, Value b) {
    return a.node != b.node ? a.node < b.node : a.index < b.index;
  }
  template <typename H>
  friend H AbslHashValue(H h, Value v) {
    return H::combine(std::move(h), v.node, v.index);
  }
};

class OpSchema;

// One use of an op, read-only: what inference, cost, gradient, decomposition,
// reference evaluation and kernels may look at.
class OpView {
 public:
  OpView(const OpSchema& schema, absl::string_view name, const AttrMap& attrs,
         absl::Span<const TensorType> inputs,
         absl::Span<const TensorType> outputs)
      : schema_(schema),
        name_(name),
        attrs_(attrs),
        inputs_(inputs),
        outputs_(outputs) {}

  const OpSchema& schema() const { return schema_; }
  absl::string_view name() const { return name_; }  // the node's, for messages
  const AttrMap& attrs() const { return attrs_; }

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  absl::Span<const TensorType> inputs() const { return inputs_; }
  const TensorType& input(int i) const { return inputs_[i]; }
  // False for a trailing or skipped optional operand.
  bool has_input(int i) const {
    return i < num_inputs() && inputs_[i].dtype != DType::kInvalid;
  }
  // Empty while the shape is being inferred.
  absl::Span<const TensorType> outputs() const { return outputs_; }
  const TensorType& output(int i) const { return outputs_[i]; }

  // Attribute, or the schema's default. Pre-condition: the schema declares it
  // with this kind, and it is present or has a default.
  int64_t Int(absl::string_view name) const { return Get(name).i(); }
  double Float(absl::string_view name) const { return Get(name).f(); }
  const std::string& String(absl::string_view name) const {
    return Get(name).s();
  }
  const std::vector<int64_t>& Ints(absl::string_view name) const {
    return Get(name).ints();
  }
  const std::vector<double>& Floats(absl::string_view name) const {
    return Get(name).floats();
  }
  DType Type(absl::string_view name) const { return Get(name).dtype(); }
  const Attr& Get(absl::string_view name) const;
  bool Has(absl::string_view name) const;  // given, or has a default

  // kShapeMismatch etc. with "node 'fc1' (MatMul): " before the message.
  absl::Status Error(ErrorCode code, absl::string_view message) const;

 private:
  const OpSchema& schema_;
  absl::string_view name_;
  const AttrMap& attrs_;
  absl::Span<const TensorType> inputs_;
  absl::Span<const TensorType> outputs_;
};

// Builds nodes on behalf of a schema. Errors are sticky: after one, every call
// returns invalid values and status() tells the first; callers check once.
class NodeEmitter {
 public:
  virtual ~NodeEmitter() = default;

  virtual std::vector<Value> Emit(absl::string_view op,
                                  absl::Span<const Value> inputs, AttrMap attrs,
                                  int num_outputs) = 0;
  virtual TensorType type(Value value) const = 0;
  virtual absl::Status status() const = 0;

  // The only (or first) output.
  Value Emit1(absl::string_view op, absl::Span<const Value> inputs,
              AttrMap attrs = {}) {
    std::vector<Value> out = Emit(op, inputs, std::move(attrs), 1);
    return out.empty() ? Value{} : out[0];
  }
  Value Constant(Literal value) {
    return Emit1("Constant", {}, {{"value", std::move(value)}});
  }
  Value Scalar(double value, DType dtype) {
    return Constant(Literal::Splat({dtype, Shape()}, value));
  }
  // Sums `value` over the dimensions that broadcasting to its shape added, so
  // that it has shape `target` again: the gradient of broadcasting.
  Value SumTo(Value value, const Shape& target);
};

struct GradientContext {
  const OpView& op;
  absl::Span<const Value> inputs;        // the forward node's operands
  absl::Span<const Value> outputs;       // its results
  absl::Span<const Value> output_grads;  // invalid: that output has none
  NodeEmitter& emit;
};

struct Cost {
  double flops = 0;
  double bytes = 0;
};

enum class OpEffect : uint8_t {
  kPure,
  kRandom,    // depends on a counter; never merged
  kUpdate,    // replaces state: output i is the new value of operand i
  kStateful,  // source, state, sink or movement: an actor of its own kind
};

struct AttrSpec {
  std::string name;
  AttrKind kind;
  bool required = false;
  bool has_default = false;
  Attr default_value;

  static AttrSpec Required(std::string name, AttrKind kind) {
    return {std::move(name), kind, true, false, Attr()};
  }
  static AttrSpec Default(std::string name, Attr value) {
    AttrKind kind = value.kind();
    return {std::move(name), kind, false, true, std::move(value)};
  }
  static AttrSpec Optional(std::string name, AttrKind kind) {
    return {std::move(name), kind, false, false, Attr()};
  }
};

struct Arity {
  int min = 0;
  int max = 0;  // kVariadic: no upper bound
};
inline constexpr int kVariadic = 1 << 20;

class OpSchema {
 public:
  explicit OpSchema(OpId id) : id(id), name(OpName(id)) {}

  using InferFn = std::function<absl::Status(const OpView& op,
                                             std::vector<TensorType>* out)>;
  // One gradient per operand, invalid where there is none to give.
  using GradientFn =
      std::function<std::vector<Value>(const GradientContext& context)>;
  // The op's results from primitives, one per output.
  using DecomposeFn = std::function<std::vector<Value>(
      const OpView& op, absl::Span<const Value> inputs, NodeEmitter& emit)>;
  using CostFn = std::function<Cost(const OpView& op)>;
  // The ways to do the op on the members of a mesh axis, other than B of all;
  // whatever the shapes divide by. See core/ops/signatures.h.
  using SignaturesFn =
      std::function<std::vector<OpSignature>(const OpView& op)>;
  // The attributes of member `index` of `parts`, where `attrs`, those of `op`,
  // say something of the whole.
  using LocalAttrsFn =
      std::function<absl::Status(const OpView& op, const OpSignature& signature,
                                 int parts, int index, AttrMap* attrs)>;

  OpId id;
  std::string name;
  Arity inputs;
  Arity outputs = {1, 1};
  // Results where nobody says how many; null: outputs.min.
  std::function<int(const AttrMap& attrs)> usual_outputs;
  std::vector<AttrSpec> attrs;
  InferFn infer;
  GradientFn gradient;       // null: not differentiable
  DecomposeFn decompose;     // null: a primitive, or an actor of its own
  CostFn cost;               // null: bytes of operands and results, no flops
  SignaturesFn signatures;   // null: B of all, or by `elementwise`
  LocalAttrsFn local_attrs;  // null: those of the whole
  OpEffect effect = OpEffect::kPure;
  int state_slots = 0;       // kUpdate only: results for each variable
  bool elementwise = false;  // may become part of a weft.fused region
  bool commutative = false;  // operands 0 and 1 may be swapped

  const AttrSpec* FindAttr(absl::string_view attr_name) const;
};

// Checks arity and attributes against the schema (kBadArity,
// kUnknownAttribute with "did you mean", kBadAttribute), then infers the output
// types. `name` is the node's, for messages.
absl::StatusOr<std::vector<TensorType>> InferTypes(
    const OpSchema& schema, absl::string_view name, const AttrMap& attrs,
    absl::Span<const TensorType> inputs, int num_outputs);

class OpRegistry {
 public:
  // All ops of op_ids.inc.
  static const OpRegistry& Global();

  void Add(OpSchema schema);
  // kUnknownOp with "did you mean".
  absl::StatusOr<const OpSchema*> Find(absl::string_view name) const;
  const OpSchema* FindOrNull(absl::string_view name) const;
  std::vector<const OpSchema*> All() const;  // by id

 private:
  absl::flat_hash_map<std::string, OpSchema> by_name_;
};

}  // namespace weft

#endif  // WEFT_CORE_OPS_SCHEMA_H_
