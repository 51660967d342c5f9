// weft.fused: a program of elementwise instructions that the node's attributes
// hold, in the operand codes of the engine (elementwise.h). Values of f32, f16,
// bf16 and bool are computed in float, those of f64 and bool in double.
#include "devices/cpu/elementwise.h"
#include "devices/cpu/factories.h"
#include "devices/cpu/numeric.h"

WEFT_CPU_BEGIN
namespace {

// The dtypes of all operands and results; false where the engine does not
// compute with one of them, or not with both.
bool ReadTypes(const Op& op, ElementProgram* p) {
  bool wide = false, narrow = false;
  auto add = [&](uint32_t dtype, std::vector<uint32_t>* list) {
    wide = wide || dtype == WEFT_F64;
    narrow = narrow || (IsFloatType(dtype) && dtype != WEFT_F64);
    list->push_back(dtype);
    return IsFloatType(dtype) || dtype == WEFT_BOOL;
  };
  bool all = true;
  for (const Tensor& t : op.in) all = add(t.dtype, &p->in) && all;
  for (const Tensor& t : op.out) all = add(t.dtype, &p->out) && all;
  p->wide = wide ? Wide::kDouble : Wide::kFloat;
  return all && !(wide && narrow);
}

}  // namespace

std::unique_ptr<Kernel> MakeFused(const Op& op) {
  if (!op.Arity(1, WEFT_MAX_OPERANDS, 1, WEFT_MAX_OPERANDS)) return nullptr;
  bool same_dims = true;
  for (const Tensor& t : op.out) {
    same_dims = same_dims && t.SameDims(op.out[0]);
  }
  ElementProgram p;
  const std::vector<int64_t> words = op.Ints("program");
  p.outputs = op.Ints("outputs");
  p.constants = op.Floats("constants");
  if (!op.Check(same_dims, "results of different shapes") ||
      !op.Check(words.size() % 4 == 0, "a program of broken instructions") ||
      !op.Check(p.outputs.size() == op.out.size(), "outputs do not fit") ||
      !ReadTypes(op, &p)) {
    return nullptr;
  }
  for (size_t i = 0; i < words.size(); i += 4) {
    ElementInstruction in{words[i], {words[i + 1], words[i + 2], words[i + 3]}};
    if (in.op == WEFT_OP_GELU && words[i + 2] == 1) in.op = kGeluTanh;
    p.code.push_back(in);
  }
  return MakeElementwise(op, p);
}

WEFT_CPU_END
