#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/expr.h"
#include "core/ops/families.h"
#include "core/ops/fused.h"
#include "core/ops/infer.h"
#include "core/ops/scalar.h"
#include "core/ops/signature_rules.h"

namespace weft {
namespace {

constexpr int kWordsPerInstruction = 4;

bool SameBits(double a, double b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

bool IsComparison(OpId id) {
  switch (id) {
    case OpId::kEqual:
    case OpId::kLess:
    case OpId::kLessOrEqual:
    case OpId::kGreater:
    case OpId::kGreaterOrEqual:
      return true;
    default:
      return false;
  }
}

bool IsLogic(OpId id) {
  return id == OpId::kAnd || id == OpId::kOr || id == OpId::kNot;
}

bool Is16Bit(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

// What a Cast instruction may give.
bool IsCastTarget(int64_t dtype) {
  return dtype == static_cast<int64_t>(DType::kF16) ||
         dtype == static_cast<int64_t>(DType::kBF16) ||
         dtype == static_cast<int64_t>(DType::kBool);
}

double CastTo(DType dtype, double x) {
  float f = static_cast<float>(x);
  if (dtype == DType::kF16) return F16ToFloat(FloatToF16(f));
  if (dtype == DType::kBF16) return Bf16ToFloat(FloatToBf16(f));
  return x != 0;
}

// `code` may name an input, a constant or one of the first `done` instructions.
absl::Status CheckCode(const OpView& op, int64_t code, int64_t done,
                       absl::string_view where) {
  int64_t constants = static_cast<int64_t>(op.Floats("constants").size());
  if (code < op.num_inputs() + done && code >= -constants) {
    return absl::OkStatus();
  }
  return op.Error(
      ErrorCode::kBadAttribute,
      absl::StrCat(where, " uses value ", code, ", but there are ",
                   op.num_inputs(), " inputs, ", constants, " constants and ",
                   done, " instructions before it"));
}

absl::Status CheckInstruction(const OpView& op, const int64_t* words,
                              int64_t index) {
  std::string where = absl::StrCat("instruction ", index);
  auto id = static_cast<OpId>(words[0]);
  // The cast keeps 32 bits only: a larger number must not become an id.
  bool is_id = static_cast<int64_t>(id) == words[0];
  int arity = is_id ? FusedInstruction{id}.num_operands() : 0;
  if (arity == 0) {
    return op.Error(ErrorCode::kBadAttribute,
                    absl::StrCat(where, " has op id ", words[0],
                                 ", which no program may hold"));
  }
  for (int k = 0; k < arity; ++k) {
    WEFT_RETURN_IF_ERROR(CheckCode(op, words[1 + k], index, where));
  }
  if (id == OpId::kCast && !IsCastTarget(words[2])) {
    return op.Error(ErrorCode::kBadAttribute,
                    absl::StrCat(where, " casts to dtype ", words[2],
                                 ", must be f16, bf16 or bool"));
  }
  bool form = id == OpId::kGelu && words[2] == 1;
  int used = id == OpId::kCast || form ? 2 : arity;
  for (int k = used; k < 3; ++k) {
    if (words[1 + k] == 0) continue;
    return op.Error(ErrorCode::kBadAttribute,
                    absl::StrCat(where, " (", OpName(id), ") takes ", arity,
                                 " operands, operand ", k, " must be 0"));
  }
  return absl::OkStatus();
}

// What the node computes in, of the dtypes of its operands and results.
absl::StatusOr<DType> ComputeTypeOf(const OpView& op,
                                    const std::vector<DType>& results) {
  DType compute = DType::kInvalid;
  auto add = [&](absl::string_view what, size_t index,
                 DType dtype) -> absl::Status {
    DType own = FusedProgram::ComputeType(dtype);
    if (own == DType::kInvalid && dtype != DType::kBool) {
      return op.Error(ErrorCode::kDTypeMismatch,
                      absl::StrCat(what, " ", index, " is ", DTypeName(dtype),
                                   ", must be f32, f16, bf16, f64 or bool"));
    }
    if (compute == DType::kInvalid) compute = own;
    if (own == DType::kInvalid || own == compute) return absl::OkStatus();
    return op.Error(
        ErrorCode::kDTypeMismatch,
        absl::StrCat(what, " ", index, " is ", DTypeName(dtype),
                     ", but others are computed in ", DTypeName(compute)));
  };
  for (int i = 0; i < op.num_inputs(); ++i) {
    WEFT_RETURN_IF_ERROR(add("operand", i, op.input(i).dtype));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    WEFT_RETURN_IF_ERROR(add("result", i, results[i]));
  }
  return compute == DType::kInvalid ? DType::kF32 : compute;
}

absl::Status InferFused(const OpView& op, std::vector<TensorType>* out) {
  Shape shape = op.input(0).shape;
  for (int i = 1; i < op.num_inputs(); ++i) {
    absl::StatusOr<Shape> wider = BroadcastShapes(shape, op.input(i).shape);
    if (!wider.ok()) {
      return op.Error(ErrorCode::kShapeMismatch, wider.status().message());
    }
    shape = *wider;
  }
  WEFT_ASSIGN_OR_RETURN(FusedProgram program, FusedProgram::FromOp(op));
  WEFT_ASSIGN_OR_RETURN(DType compute, ComputeTypeOf(op, program.types));
  for (const FusedInstruction& i : program.instructions()) {
    if (compute != DType::kF64 || i.op != OpId::kCast) continue;
    if (!Is16Bit(static_cast<DType>(i.b))) continue;
    return op.Error(ErrorCode::kBadAttribute,
                    "a Cast to a 16-bit dtype in a program of f64");
  }
  for (DType dtype : program.types) out->push_back({dtype, shape});
  return absl::OkStatus();
}

// Comparisons and logic as nodes give bool; inside a program they are numbers.
Expr EmitInstruction(const FusedInstruction& instruction,
                     const std::vector<Expr>& operands) {
  const Expr& a = operands[0];
  auto truth = [](const Expr& x) {
    return Apply("Not", {Apply("Equal", {x, x.Like(0)})});
  };
  OpId id = instruction.op;
  if (IsComparison(id)) {
    return Cast(Apply(OpName(id), operands), a.dtype());
  }
  if (IsLogic(id)) {
    std::vector<Expr> truths;
    for (const Expr& operand : operands) truths.push_back(truth(operand));
    return Cast(Apply(OpName(id), truths), a.dtype());
  }
  if (id == OpId::kCast) {
    if (instruction.b == static_cast<int>(DType::kBool)) {
      return Cast(truth(a), a.dtype());
    }
    return Cast(Cast(a, static_cast<DType>(instruction.b)), a.dtype());
  }
  if (id == OpId::kGelu && instruction.b == 1) {
    return Apply("weft.Gelu", {a}, {{"approximate", "tanh"}});
  }
  if (id == OpId::kWhere) return Where(truth(a), operands[1], operands[2]);
  if (id == OpId::kLeakyRelu) {  // the slope is an operand here
    return Where(Apply("Less", {a, a.Like(0)}), operands[1] * a, a);
  }
  return Apply(OpName(id), operands);
}

std::vector<Value> DecomposeFused(const OpView& op,
                                  absl::Span<const Value> inputs,
                                  NodeEmitter& emit) {
  absl::StatusOr<FusedProgram> program = FusedProgram::FromOp(op);
  if (!program.ok()) return {};  // inference has refused it before
  absl::StatusOr<DType> compute = ComputeTypeOf(op, program->types);
  if (!compute.ok()) return {};
  std::vector<Expr> values;
  for (Value input : inputs) {
    values.push_back(Cast(Expr(emit, input), *compute));
  }
  std::vector<Expr> constants;
  for (double c : program->constants()) constants.push_back(values[0].Like(c));
  auto at = [&](int code) {
    return code >= 0 ? values[code] : constants[-1 - code];
  };
  for (const FusedInstruction& i : program->instructions()) {
    std::vector<Expr> operands = {at(i.a)};
    if (i.num_operands() > 1) operands.push_back(at(i.b));
    if (i.num_operands() > 2) operands.push_back(at(i.c));
    values.push_back(EmitInstruction(i, operands));
  }
  std::vector<Value> results;
  for (size_t i = 0; i < program->outputs.size(); ++i) {
    Expr result = Cast(at(program->outputs[i]), program->types[i]);
    results.push_back(ExpandTo(result, op.output(0).shape));
  }
  return results;
}

}  // namespace

int FusedInstruction::num_operands() const {
  return op == OpId::kCast ? 1 : ScalarArity(op);
}

absl::StatusOr<FusedProgram> FusedProgram::FromOp(const OpView& op) {
  const std::vector<int64_t>& words = op.Ints("program");
  int64_t count = static_cast<int64_t>(words.size()) / kWordsPerInstruction;
  if (words.size() % kWordsPerInstruction != 0 || count < 1 ||
      count > kMaxFusedInstructions) {
    return op.Error(ErrorCode::kBadAttribute,
                    absl::StrCat("attribute 'program' has ", words.size(),
                                 " words, must be 1 to ", kMaxFusedInstructions,
                                 " instructions of ", kWordsPerInstruction));
  }
  const size_t constants = op.Floats("constants").size();
  if (constants > kMaxFusedConstants) {
    return op.Error(ErrorCode::kBadAttribute,
                    absl::StrCat("attribute 'constants' has ", constants,
                                 " numbers, at most ", kMaxFusedConstants,
                                 " can be of use"));
  }
  FusedProgram program(op.num_inputs());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t* w = &words[i * kWordsPerInstruction];
    WEFT_RETURN_IF_ERROR(CheckInstruction(op, w, i));
    program.Add(static_cast<OpId>(w[0]), static_cast<int>(w[1]),
                static_cast<int>(w[2]), static_cast<int>(w[3]));
  }
  program.constants_ = op.Floats("constants");
  for (int64_t code : op.Ints("outputs")) {
    WEFT_RETURN_IF_ERROR(CheckCode(op, code, count, "attribute 'outputs'"));
    program.outputs.push_back(static_cast<int>(code));
  }
  if (program.outputs.empty()) {
    return op.Error(ErrorCode::kBadAttribute, "attribute 'outputs' is empty");
  }
  for (int64_t type : op.Ints("types")) {
    // The cast keeps 32 bits only: a larger number must not become a dtype.
    const auto dtype = static_cast<DType>(type);
    const bool is_dtype = static_cast<int64_t>(dtype) == type;
    program.types.push_back(is_dtype ? dtype : DType::kInvalid);
  }
  if (program.types.empty()) {
    program.types.assign(program.outputs.size(), op.input(0).dtype);
  }
  if (program.types.size() != program.outputs.size()) {
    return op.Error(
        ErrorCode::kBadAttribute,
        absl::StrCat("attribute 'types' has ", program.types.size(),
                     " dtypes for ", program.outputs.size(), " results"));
  }
  return program;
}

DType FusedProgram::ComputeType(DType dtype) {
  if (dtype == DType::kF64) return DType::kF64;
  return dtype == DType::kF32 || Is16Bit(dtype) ? DType::kF32 : DType::kInvalid;
}

bool FusedProgram::CanHold(const OpView& op, DType compute) {
  auto fits = [compute](const TensorType& type) {
    return ComputeType(type.dtype) == compute || type.dtype == DType::kBool;
  };
  for (int i = 0; i < op.num_inputs(); ++i) {
    if (!fits(op.input(i))) return false;
  }
  for (const TensorType& type : op.outputs()) {
    if (!fits(type)) return false;
  }
  return FusedInstruction{op.schema().id}.num_operands() > 0;
}

int FusedProgram::Add(OpId op, int a, int b, int c) {
  instructions_.push_back({op, a, b, c});
  return num_inputs_ + static_cast<int>(instructions_.size()) - 1;
}

int FusedProgram::AddNode(const OpView& op, absl::Span<const int> operands) {
  const OpId id = op.schema().id;
  const int x = operands[0];
  const DType from = op.input(0).dtype, to = op.output(0).dtype;
  if (id == OpId::kCast) {
    // A number that the dtype has stays as it is.
    const bool exact = from == to || from == DType::kBool;
    return exact || !IsCastTarget(static_cast<int64_t>(to))
               ? x
               : Add(id, x, static_cast<int>(to));
  }
  int b = operands.size() > 1 ? operands[1] : 0;
  int c = operands.size() > 2 ? operands[2] : 0;
  if (id == OpId::kLeakyRelu) b = Constant(op.Float("alpha"));
  if (id == OpId::kGelu) b = op.String("approximate") == "tanh" ? 1 : 0;
  const int value = Add(id, x, b, c);
  const bool moves = id == OpId::kWhere || id == OpId::kIdentity;
  if (!Is16Bit(to) || moves) return value;
  return Add(OpId::kCast, value, static_cast<int>(to));
}

int FusedProgram::Constant(double value) {
  auto it = std::find_if(constants_.begin(), constants_.end(),
                         [value](double c) { return SameBits(c, value); });
  int k = static_cast<int>(it - constants_.begin());
  if (it == constants_.end()) constants_.push_back(value);
  return -1 - k;
}

AttrMap FusedProgram::ToAttrs() const {
  std::vector<int64_t> words;
  for (const FusedInstruction& i : instructions_) {
    words.insert(words.end(), {static_cast<int64_t>(i.op), i.a, i.b, i.c});
  }
  AttrMap attrs = {
      {"program", std::move(words)},
      {"constants", constants_},
      {"outputs", std::vector<int64_t>(outputs.begin(), outputs.end())}};
  if (!types.empty()) {
    std::vector<int64_t> ids;
    for (DType dtype : types) ids.push_back(static_cast<int64_t>(dtype));
    attrs.Set("types", std::move(ids));
  }
  return attrs;
}

void FusedProgram::Evaluate(absl::Span<const double> inputs,
                            std::vector<double>* results) const {
  std::vector<double> values(inputs.begin(), inputs.end());
  auto at = [&](int code) {
    return code >= 0 ? values[code] : constants_[-1 - code];
  };
  for (const FusedInstruction& i : instructions_) {
    if (i.op == OpId::kCast) {
      values.push_back(CastTo(static_cast<DType>(i.b), at(i.a)));
      continue;
    }
    if (i.op == OpId::kGelu && i.b == 1) {
      values.push_back(GeluTanh(at(i.a)));
      continue;
    }
    int arity = ScalarArity(i.op);
    values.push_back(ScalarValue(i.op, at(i.a), arity > 1 ? at(i.b) : 0,
                                 arity > 2 ? at(i.c) : 0));
  }
  for (size_t k = 0; k < outputs.size(); ++k) (*results)[k] = at(outputs[k]);
}

void RegisterFusedOps(OpRegistry* registry) {
  OpSchema schema(OpId::kFused);
  schema.inputs = {1, kVariadic};
  schema.outputs = {1, kVariadic};
  schema.attrs = {AttrSpec::Required("program", AttrKind::kInts),
                  AttrSpec::Default("constants", std::vector<double>{}),
                  AttrSpec::Required("outputs", AttrKind::kInts),
                  AttrSpec::Default("types", std::vector<int64_t>{})};
  schema.infer = InferFused;
  schema.decompose = DecomposeFused;
  schema.signatures = ElementwiseSignatures;
  schema.cost = [](const OpView& op) {
    double instructions =
        static_cast<double>(op.Ints("program").size()) / kWordsPerInstruction;
    double elements = static_cast<double>(op.output(0).shape.num_elements());
    return Cost{instructions * elements, BytesMoved(op).bytes};
  };
  registry->Add(std::move(schema));
}

}  // namespace weft
