// The elementwise ops that are a program of one or two instructions, or, as
// Cast, of none: functions of one operand and their slopes, arithmetic,
// comparisons, logic, the choice by a bool.
#include "devices/cpu/elementwise.h"
#include "devices/cpu/factories.h"
#include "devices/cpu/numeric.h"
#include "devices/cpu/strided.h"

WEFT_CPU_BEGIN
namespace {

bool IsNumberType(uint32_t dtype) {
  return IsFloatType(dtype) || IsIntegerType(dtype);
}

// An instruction on all operands, in the wide type of the first.
ElementProgram Simple(const Op& op) {
  ElementProgram p;
  p.wide = WideOf(op.in[0].dtype);
  for (const Tensor& t : op.in) p.in.push_back(t.dtype);
  p.out = {op.out[0].dtype};
  p.code = {{op.id, {0, 1, 2}}};
  p.outputs = {static_cast<int64_t>(op.in.size())};
  return p;
}

bool CheckBroadcast(const Op& op) {
  std::vector<const Tensor*> in;
  for (const Tensor& t : op.in) in.push_back(&t);
  return op.Check(IsBroadcastOf(op.out[0], in),
                  "the result is not the broadcast of the operands");
}

bool CheckPair(const Op& op) {
  return op.Arity(2, 1) &&
         op.Check(op.in[0].dtype == op.in[1].dtype,
                  "operands of different types") &&
         CheckBroadcast(op);
}

// "none" is the exact function, "tanh" the other form; false for no form.
bool ReadForm(const Op& op, bool* tanh) {
  const std::string form = op.String("approximate", "none");
  *tanh = form == "tanh";
  return op.Check(*tanh || form == "none",
                  "approximate must be 'none' or 'tanh'");
}

bool TakesIntegers(uint32_t op) {
  return op == WEFT_OP_NEG || op == WEFT_OP_ABS || op == WEFT_OP_RELU ||
         op == WEFT_OP_SIGN;
}

// The wide type by which a value is rounded once, or not at all.
Wide WideOfCast(uint32_t from, uint32_t to) {
  const bool to_integer = IsIntegerType(to);
  if (from == WEFT_F64 || to == WEFT_F64) return Wide::kDouble;
  if (IsFloatType(from)) return to_integer ? Wide::kDouble : Wide::kFloat;
  if (to == WEFT_F32) return from == WEFT_I64 ? Wide::kInteger : Wide::kFloat;
  if (to == WEFT_BF16 && from == WEFT_I64) return Wide::kInteger;
  if (IsFloatType(to)) return Wide::kDouble;
  return Wide::kInteger;
}

}  // namespace

std::unique_ptr<Kernel> MakeUnary(const Op& op) {
  if (!op.Arity(1, 1)) return nullptr;
  const uint32_t dtype = op.in[0].dtype;
  if (!op.Check(dtype == op.out[0].dtype, "the types differ") ||
      !op.Check(op.in[0].SameDims(op.out[0]), "the shapes differ")) {
    return nullptr;
  }
  if (!IsFloatType(dtype) && !(IsIntegerType(dtype) && TakesIntegers(op.id))) {
    return nullptr;
  }
  ElementProgram p = Simple(op);
  if (op.id == WEFT_OP_LEAKY_RELU) {
    p.constants = {op.Float("alpha", 0.01)};
    p.code[0].operands[1] = -1;
  } else if (op.id == WEFT_OP_GELU) {
    bool tanh = false;
    if (!ReadForm(op, &tanh)) return nullptr;
    if (tanh) p.code[0].op = kGeluTanh;
  }
  return MakeElementwise(op, p);
}

std::unique_ptr<Kernel> MakeGeluGrad(const Op& op) {
  if (!op.Arity(2, 1)) return nullptr;
  bool same = true, tanh = false;
  for (const Tensor& t : op.in) {
    same = same && t.dtype == op.out[0].dtype && t.SameDims(op.out[0]);
  }
  if (!op.Check(same, "operands and result differ") || !ReadForm(op, &tanh) ||
      !IsFloatType(op.out[0].dtype)) {
    return nullptr;
  }
  ElementProgram p = Simple(op);
  p.code = {{tanh ? kGeluTanhSlope : kGeluSlope, {1}}, {WEFT_OP_MUL, {0, 2}}};
  p.outputs = {3};
  return MakeElementwise(op, p);
}

std::unique_ptr<Kernel> MakeBinary(const Op& op) {
  if (!CheckPair(op) || !op.Check(op.in[0].dtype == op.out[0].dtype,
                                  "the result is of another type")) {
    return nullptr;
  }
  if (!IsNumberType(op.in[0].dtype)) return nullptr;
  ElementProgram p = Simple(op);
  p.saturate = op.id == WEFT_OP_POW;
  return MakeElementwise(op, p);
}

std::unique_ptr<Kernel> MakeCompare(const Op& op) {
  if (!CheckPair(op) ||
      !op.Check(op.out[0].dtype == WEFT_BOOL, "the result is not bool")) {
    return nullptr;
  }
  if (!IsNumberType(op.in[0].dtype) && op.id != WEFT_OP_EQUAL) return nullptr;
  return MakeElementwise(op, Simple(op));
}

std::unique_ptr<Kernel> MakeLogical(const Op& op) {
  if (!CheckPair(op) ||
      !op.Check(op.in[0].dtype == WEFT_BOOL && op.out[0].dtype == WEFT_BOOL,
                "operands and result must be bool")) {
    return nullptr;
  }
  return MakeElementwise(op, Simple(op));
}

std::unique_ptr<Kernel> MakeNot(const Op& op) {
  if (!op.Arity(1, 1)) return nullptr;
  if (!op.Check(op.in[0].dtype == WEFT_BOOL && op.out[0].dtype == WEFT_BOOL,
                "operand and result must be bool") ||
      !op.Check(op.in[0].SameDims(op.out[0]), "shapes differ")) {
    return nullptr;
  }
  return MakeElementwise(op, Simple(op));
}

// Moves bits: values are read as any type of their size that widens without a
// change.
std::unique_ptr<Kernel> MakeWhere(const Op& op) {
  if (!op.Arity(3, 1)) return nullptr;
  const Tensor& out = op.out[0];
  if (!op.Check(op.in[0].dtype == WEFT_BOOL, "the condition is not bool") ||
      !op.Check(op.in[1].dtype == out.dtype && op.in[2].dtype == out.dtype,
                "operands of different types") ||
      !CheckBroadcast(op)) {
    return nullptr;
  }
  const int64_t size = SizeOf(out.dtype);
  const uint32_t moved = size == 1   ? WEFT_U8
                         : size == 2 ? WEFT_I16
                         : size == 4 ? WEFT_F32
                                     : WEFT_I64;
  ElementProgram p = Simple(op);
  p.wide = WideOf(moved);
  p.in = {WEFT_BOOL, moved, moved};
  p.out = {moved};
  return MakeElementwise(op, p);
}

std::unique_ptr<Kernel> MakeCast(const Op& op) {
  if (!op.Arity(1, 1)) return nullptr;
  const uint32_t from = op.in[0].dtype, to = op.out[0].dtype;
  if (!op.Check(op.DType("to", to) == to,
                "the result is not of the type 'to'") ||
      !op.Check(op.in[0].SameDims(op.out[0]), "the shapes differ")) {
    return nullptr;
  }
  ElementProgram p = Simple(op);
  p.wide = WideOfCast(from, to);
  p.code.clear();
  p.outputs = {0};
  p.saturate = true;
  return MakeElementwise(op, p);
}

WEFT_CPU_END
