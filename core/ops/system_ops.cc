// Sources, state, sinks and movement: ops that become actors of their own kind,
// and the learning rate schedule.
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/cuts.h"
#include "core/ops/expr.h"
#include "core/ops/families.h"
#include "core/ops/family_signatures.h"
#include "core/ops/infer.h"
#include "core/ops/system_attrs.h"

namespace weft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// An actor's id has 20 bits for the rank.
constexpr double kMaxRanks = 1 << 20;
constexpr double kMaxCopies = 65534;  // core/plan/validate.h

OpSchema MakeActor(OpId id, Arity inputs, std::vector<AttrSpec> attrs,
                   OpSchema::InferFn infer) {
  OpSchema schema(id);
  schema.inputs = inputs;
  schema.attrs = std::move(attrs);
  schema.infer = std::move(infer);
  schema.effect = OpEffect::kStateful;
  return schema;
}

// --- Sources ---------------------------------------------------------------

absl::Status InferCounter(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireOneOf(op, "rate", {"micro", "step"}));
  WEFT_RETURN_IF_ERROR(RequireRange(op, "first", 0, kInfinity));
  *out = {{DType::kI64, {2}}};
  return absl::OkStatus();
}

// The type that attributes `dtype` and `shape` spell out.
absl::Status InferDeclared(const OpView& op, std::vector<TensorType>* out) {
  WEFT_ASSIGN_OR_RETURN(Shape shape, ShapeAttr(op, "shape"));
  if (DTypeSize(op.Type("dtype")) == 0) {
    return op.Error(ErrorCode::kBadAttribute, "attribute 'dtype' is no dtype");
  }
  *out = {{op.Type("dtype"), shape}};
  return absl::OkStatus();
}

absl::Status InferVariable(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(
      RequireOneOf(op, "role", {"parameter", "optimizer", "statistic"}));
  WEFT_RETURN_IF_ERROR(RequireFlag(op, "trainable"));
  WEFT_RETURN_IF_ERROR(
      RequireOneOf(op, "init", {"zeros", "constant", "uniform", "normal"}));
  bool random = op.String("init") == "uniform" || op.String("init") == "normal";
  if (random && !IsFloat(op.Type("dtype"))) {
    return op.Error(ErrorCode::kBadAttribute,
                    absl::StrCat("init \"", op.String("init"),
                                 "\" needs a float dtype, got ",
                                 DTypeName(op.Type("dtype"))));
  }
  WEFT_RETURN_IF_ERROR(InferDeclared(op, out));
  return Cuts::FromOp(op, (*out)[0].shape).status();
}

absl::Status InferConstant(const OpView& op, std::vector<TensorType>* out) {
  const TensorType& type = op.Get("value").tensor().type();
  if (type.dtype == DType::kInvalid) {
    return op.Error(ErrorCode::kBadAttribute, "attribute 'value' is empty");
  }
  *out = {type};
  return absl::OkStatus();
}

absl::Status InferDataSource(const OpView& op, std::vector<TensorType>* out) {
  WEFT_ASSIGN_OR_RETURN(*out, DataSourceTypes(op));
  return absl::OkStatus();
}

void RegisterSources(OpRegistry* registry) {
  auto required = [](const char* name, AttrKind kind) {
    return AttrSpec::Required(name, kind);
  };
  AttrSpec dtype = required("dtype", AttrKind::kDType);
  AttrSpec shape = required("shape", AttrKind::kInts);

  registry->Add(MakeActor(
      OpId::kCounter, {0, 0},
      {AttrSpec::Default("rate", "step"), AttrSpec::Default("first", 0)},
      InferCounter));
  OpSchema variable = MakeActor(
      OpId::kVariable, {0, 0},
      {dtype, shape, AttrSpec::Default("role", "parameter"),
       AttrSpec::Default("trainable", 1), AttrSpec::Default("init", "zeros"),
       AttrSpec::Default("value", 0.0), AttrSpec::Default("low", 0.0),
       AttrSpec::Default("high", 1.0), AttrSpec::Default("mean", 0.0),
       AttrSpec::Default("scale", 1.0), Cuts::Spec()},
      InferVariable);
  variable.signatures = VariableSignatures;
  variable.local_attrs = LocalRandomAttrs;
  registry->Add(std::move(variable));
  registry->Add(MakeActor(OpId::kInput, {0, 0}, {dtype, shape}, InferDeclared));

  OpSchema data = MakeActor(
      OpId::kDataSource, {0, 0},
      {required("source", AttrKind::kString),
       required("dtypes", AttrKind::kInts), required("ranks", AttrKind::kInts),
       required("dims", AttrKind::kInts)},
      InferDataSource);
  data.outputs = {1, kVariadic};
  registry->Add(std::move(data));

  OpSchema constant(OpId::kConstant);  // pure: may be merged and folded
  constant.attrs = {required("value", AttrKind::kTensor)};
  constant.infer = InferConstant;
  constant.gradient = ZeroGradient;
  registry->Add(std::move(constant));
}

// --- Sinks and movement ----------------------------------------------------

void RegisterMovers(OpRegistry* registry) {
  OpSchema output = MakeActor(
      OpId::kOutput, {1, 1}, {AttrSpec::Required("name", AttrKind::kString)},
      [](const OpView& op, std::vector<TensorType>* out) {
        return absl::OkStatus();
      });
  output.outputs = {0, 0};
  registry->Add(std::move(output));

  OpSchema copy = MakeActor(OpId::kCopy, {1, 1}, {}, SameAsInput);
  copy.signatures = CopySignatures;
  copy.gradient = [](const GradientContext& g) {
    return std::vector<Value>{g.output_grads[0]};
  };
  registry->Add(std::move(copy));

  OpSchema accumulate = MakeActor(
      OpId::kAccumulate, {1, 1}, {AttrSpec::Required("count", AttrKind::kInt)},
      [](const OpView& op, std::vector<TensorType>* out) {
        WEFT_RETURN_IF_ERROR(RequireNumeric(op, 0));
        WEFT_RETURN_IF_ERROR(RequireRange(op, "count", 1, kInfinity));
        return SameAsInput(op, out);
      });
  accumulate.signatures = AccumulateSignatures;
  accumulate.cost = [](const OpView& op) {
    return Cost{OutputElements(op), BytesMoved(op).bytes};
  };
  registry->Add(std::move(accumulate));
}

// --- Between ranks ----------------------------------------------------------

absl::Status CheckChannel(const OpView& op) {
  if (op.String("channel").empty()) {
    return op.Error(ErrorCode::kBadAttribute, "attribute 'channel' is empty");
  }
  WEFT_RETURN_IF_ERROR(RequireOneOf(op, "rate", {"micro", "step"}));
  WEFT_RETURN_IF_ERROR(RequireRange(op, "copies", 0, kMaxCopies));
  WEFT_RETURN_IF_ERROR(RequireFlag(op, "mapped"));
  WEFT_RETURN_IF_ERROR(RequireFlag(op, "lent"));
  return RequireRange(op, "peer", 0, kMaxRanks);
}

absl::Status InferSend(const OpView& op, std::vector<TensorType>*) {
  WEFT_RETURN_IF_ERROR(RequireFlag(op, "before"));
  return CheckChannel(op);
}

// Without a dtype nothing is received but the word that something is done.

absl::Status InferRecv(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(CheckChannel(op));
  WEFT_RETURN_IF_ERROR(RequireFlag(op, "late"));
  if (op.Has("dtype") != op.Has("shape")) {
    return op.Error(ErrorCode::kBadAttribute,
                    "attributes 'dtype' and 'shape' come together or not");
  }
  return op.Has("dtype") ? InferDeclared(op, out) : absl::OkStatus();
}

void RegisterChannels(OpRegistry* registry) {
  const AttrSpec channel = AttrSpec::Required("channel", AttrKind::kString);
  const AttrSpec peer = AttrSpec::Required("peer", AttrKind::kInt);
  const AttrSpec rate = AttrSpec::Default("rate", "step");
  // Transfers under way at most; 0: as many as the rate makes useful.
  const AttrSpec copies = AttrSpec::Default("copies", 0);
  // The receiver reads the value where it lies at the sender. Both ends say so.
  const AttrSpec mapped = AttrSpec::Default("mapped", 0);
  // It may change it there, and says so on a channel that `lands` in this one.
  const AttrSpec lent = AttrSpec::Default("lent", 0);
  const AttrSpec lands = AttrSpec::Default("lands", "");
  OpSchema send = MakeActor(OpId::kSend, {0, 1},
                            {channel, peer, rate, copies, mapped, lent, lands,
                             AttrSpec::Default("before", 0)},
                            InferSend);
  send.outputs = {0, 0};
  registry->Add(std::move(send));
  OpSchema recv =
      MakeActor(OpId::kRecv, {0, 0},
                {channel, peer, AttrSpec::Optional("dtype", AttrKind::kDType),
                 AttrSpec::Optional("shape", AttrKind::kInts), rate, copies,
                 mapped, lent, lands,
                 // Nobody waits for the SEND at the far end.
                 AttrSpec::Default("late", 0)},
                InferRecv);
  recv.outputs = {0, 1};
  recv.usual_outputs = [](const AttrMap& attrs) {
    return attrs.Find("dtype") != nullptr ? 1 : 0;
  };
  registry->Add(std::move(recv));
}

// --- Learning rate ---------------------------------------------------------

absl::Status InferLearningRate(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireCounter(op, 0));
  WEFT_RETURN_IF_ERROR(
      RequireOneOf(op, "schedule", {"constant", "step", "cosine"}));
  const std::string& schedule = op.String("schedule");
  WEFT_RETURN_IF_ERROR(RequireRange(op, "warmup_steps", 0, kInfinity));
  if (schedule == "step") {
    WEFT_RETURN_IF_ERROR(RequireRange(op, "step_size", 1, kInfinity));
    WEFT_RETURN_IF_ERROR(RequireRange(op, "gamma", 0, kInfinity));
  }
  if (schedule == "cosine" && op.Int("total_steps") <= op.Int("warmup_steps")) {
    return op.Error(ErrorCode::kBadAttribute,
                    absl::StrCat("total_steps (", op.Int("total_steps"),
                                 ") must be above warmup_steps (",
                                 op.Int("warmup_steps"), ")"));
  }
  *out = {{DType::kF32, Shape()}};
  return absl::OkStatus();
}

// cos(pi p) for p in [0, 1]: the sine of x = pi (1/2 - p) by its Taylor series,
// whose term x^23 / 23! is below the rounding of a double.
Expr CosPi(const Expr& p) {
  Expr x = M_PI * (0.5 - p);
  Expr square = x * x;
  Expr sum = x.Like(1);
  for (int n = 20; n >= 2; n -= 2) {
    sum = 1.0 - sum * (square * (1.0 / (n * (n + 1))));
  }
  return x * sum;
}

std::vector<Value> DecomposeLearningRate(const OpView& op,
                                         absl::Span<const Value> inputs,
                                         NodeEmitter& emit) {
  const std::string& schedule = op.String("schedule");
  double base = op.Float("base");
  // The counter's first item, as a scalar.
  Expr count = CopyStrided(Expr(emit, inputs[0]), {}, {});
  Expr step = Cast(count, DType::kF64);
  auto warmup = static_cast<double>(op.Int("warmup_steps"));
  Expr rate = step.Like(base);
  if (schedule == "step") {
    Expr drops = count / static_cast<double>(op.Int("step_size"));
    rate = base * Apply("Pow", {step.Like(op.Float("gamma")),
                                Cast(drops, DType::kF64)});
  } else if (schedule == "cosine") {
    double length = static_cast<double>(op.Int("total_steps")) - warmup;
    Expr progress = (step - warmup) / length;
    progress = Apply("Min", {progress, progress.Like(1)});
    progress = Apply("Max", {progress, progress.Like(0)});
    double final_rate = op.Float("final");
    rate = final_rate + (base - final_rate) * (0.5 * (1.0 + CosPi(progress)));
  }
  if (warmup > 0) {
    Expr warm = base * (step + 1.0) / warmup;
    rate = Where(Apply("Less", {step, step.Like(warmup)}), warm, rate);
  }
  return {Cast(rate, DType::kF32)};
}

OpSchema MakeLearningRate() {
  OpSchema schema(OpId::kLearningRate);
  schema.inputs = {1, 1};
  schema.attrs = {AttrSpec::Default("schedule", "constant"),
                  AttrSpec::Required("base", AttrKind::kFloat),
                  AttrSpec::Default("warmup_steps", 0),
                  AttrSpec::Default("total_steps", 0),
                  AttrSpec::Default("step_size", 0),
                  AttrSpec::Default("gamma", 0.1),
                  AttrSpec::Default("final", 0.0)};
  schema.infer = InferLearningRate;
  schema.gradient = ZeroGradient;
  schema.decompose = DecomposeLearningRate;
  return schema;
}

}  // namespace

void RegisterSystemOps(OpRegistry* registry) {
  RegisterSources(registry);
  RegisterMovers(registry);
  RegisterChannels(registry);
  registry->Add(MakeLearningRate());
}

}  // namespace weft
