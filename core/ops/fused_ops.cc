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

namespace weft {
namespace {

constexpr int kWordsPerInstruction = 4;
constexpr double kSqrtTwoByPi = 0.79788456080286535588;

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
  int arity = is_id ? ScalarArity(id) : 0;
  if (arity == 0) {
    return op.Error(ErrorCode::kBadAttribute,
                    absl::StrCat(where, " has op id ", words[0],
                                 ", which no program may hold"));
  }
  for (int k = 0; k < arity; ++k) {
    WEFT_RETURN_IF_ERROR(CheckCode(op, words[1 + k], index, where));
  }
  for (int k = arity; k < 3; ++k) {
    if (words[1 + k] == 0) continue;
    return op.Error(ErrorCode::kBadAttribute,
                    absl::StrCat(where, " (", OpName(id), ") takes ", arity,
                                 " operands, operand ", k, " must be 0"));
  }
  return absl::OkStatus();
}

absl::Status InferFused(const OpView& op, std::vector<TensorType>* out) {
  DType dtype = op.input(0).dtype;
  if (dtype != DType::kF32 && dtype != DType::kF64) {
    return op.Error(ErrorCode::kDTypeMismatch,
                    absl::StrCat("operand 0 must be f32 or f64, got ",
                                 op.input(0).ToString()));
  }
  Shape shape = op.input(0).shape;
  for (int i = 1; i < op.num_inputs(); ++i) {
    WEFT_RETURN_IF_ERROR(RequireSameDType(op, 0, i));
    absl::StatusOr<Shape> wider = BroadcastShapes(shape, op.input(i).shape);
    if (!wider.ok()) {
      return op.Error(ErrorCode::kShapeMismatch, wider.status().message());
    }
    shape = *wider;
  }
  WEFT_ASSIGN_OR_RETURN(FusedProgram program, FusedProgram::FromOp(op));
  out->assign(program.outputs.size(), TensorType{dtype, shape});
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
  std::vector<Expr> values;
  for (Value input : inputs) values.emplace_back(emit, input);
  std::vector<Expr> constants;
  for (double c : program->constants()) constants.push_back(values[0].Like(c));
  auto at = [&](int code) {
    return code >= 0 ? values[code] : constants[-1 - code];
  };
  for (const FusedInstruction& i : program->instructions()) {
    std::vector<Expr> operands = {at(i.a), at(i.b), at(i.c)};
    operands.resize(ScalarArity(i.op), operands[0]);
    values.push_back(EmitInstruction(i, operands));
  }
  std::vector<Value> results;
  for (int code : program->outputs) {
    results.push_back(ExpandTo(at(code), op.output(0).shape));
  }
  return results;
}

}  // namespace

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
  return program;
}

bool FusedProgram::CanHold(const OpView& op, DType dtype) {
  if (dtype != DType::kF32 && dtype != DType::kF64) return false;
  auto fits = [dtype](const TensorType& type) {
    return type.dtype == dtype || type.dtype == DType::kBool;
  };
  for (int i = 0; i < op.num_inputs(); ++i) {
    if (!fits(op.input(i))) return false;
  }
  for (const TensorType& type : op.outputs()) {
    if (!fits(type)) return false;
  }
  // A cast of a truth value is the number that it already is.
  if (op.schema().id == OpId::kCast) return op.output(0).dtype == dtype;
  return ScalarArity(op.schema().id) > 0;
}

int FusedProgram::Add(OpId op, int a, int b, int c) {
  instructions_.push_back({op, a, b, c});
  return num_inputs_ + static_cast<int>(instructions_.size()) - 1;
}

int FusedProgram::AddNode(const OpView& op, absl::Span<const int> operands) {
  OpId id = op.schema().id;
  int x = operands[0];
  if (id == OpId::kCast) return x;
  if (id == OpId::kLeakyRelu) return Add(id, x, Constant(op.Float("alpha")));
  if (id == OpId::kGelu && op.String("approximate") == "tanh") {
    int cube = Add(OpId::kMul, x, Add(OpId::kMul, x, x));
    int inner = Add(OpId::kAdd, x, Add(OpId::kMul, Constant(0.044715), cube));
    int scaled = Add(OpId::kMul, Constant(kSqrtTwoByPi), inner);
    int shifted = Add(OpId::kAdd, Constant(1), Add(OpId::kTanh, scaled));
    return Add(OpId::kMul, x, Add(OpId::kMul, Constant(0.5), shifted));
  }
  int b = operands.size() > 1 ? operands[1] : 0;
  int c = operands.size() > 2 ? operands[2] : 0;
  return Add(id, x, b, c);
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
  return {{"program", std::move(words)},
          {"constants", constants_},
          {"outputs", std::vector<int64_t>(outputs.begin(), outputs.end())}};
}

void FusedProgram::Evaluate(absl::Span<const double> inputs,
                            std::vector<double>* results) const {
  std::vector<double> values(inputs.begin(), inputs.end());
  auto at = [&](int code) {
    return code >= 0 ? values[code] : constants_[-1 - code];
  };
  for (const FusedInstruction& i : instructions_) {
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
                  AttrSpec::Required("outputs", AttrKind::kInts)};
  schema.infer = InferFused;
  schema.decompose = DecomposeFused;
  schema.cost = [](const OpView& op) {
    double instructions =
        static_cast<double>(op.Ints("program").size()) / kWordsPerInstruction;
    double elements = static_cast<double>(op.output(0).shape.num_elements());
    return Cost{instructions * elements, BytesMoved(op).bytes};
  };
  registry->Add(std::move(schema));
}

}  // namespace weft
