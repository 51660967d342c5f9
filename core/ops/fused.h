// FusedProgram: the small program of a weft.fused node, which stands for a
// region of elementwise ops. It is straight-line code on one element:
// instruction i takes up to three operands and makes one new value.
//
//   FusedProgram p(2);                              // y = max(a * b + 0.5, 0)
//   int product = p.Add(OpId::kMul, 0, 1);
//   int shifted = p.Add(OpId::kAdd, product, p.Constant(0.5));
//   p.outputs.push_back(p.Add(OpId::kRelu, shifted));
//   AttrMap attrs = p.ToAttrs();
//
// Operand codes: 0 .. n-1 are the node's operands, n + i is the value of
// instruction i, and -1 - k is constant k. Attributes of the node:
//   "program"    ints, four an instruction: {op id, a, b, c}; unused ones 0
//   "constants"  floats
//   "outputs"    ints, the code of each result
//   "types"      ints, the dtype of each result; none: all that of operand 0
// Operands broadcast to the common shape, which every result has.
//
// Everything is computed in one dtype: f64 where an operand or result has it
// (then all have it, or are bool), f32 else. f16, bf16 and bool values are read
// as numbers of it, a bool as 1 or 0, and results are rounded to their dtype.
// Comparisons and logic give 1 or 0, and conditions test for non-zero.
//
// Which ops a program may hold, and with how many operands, is ScalarArity()
// (core/ops/scalar.h): attributes become operands, so LeakyRelu is (x, alpha).
// Two ops have a number in place of a second operand:
//   Cast  (x, dtype)  x rounded to f16 or bf16; with bool, 1 where it is not 0
//   Gelu  (x, form)   form 1 is the one by tanh, 0 the exact one
// A region of 16-bit ops has a Cast after each of them, so that it computes the
// bits that the ops give one by one.
//
// The node has no gradient: fusion runs after differentiation.
//
// Threading: thread-compatible value type.
#ifndef WEFT_CORE_OPS_FUSED_H_
#define WEFT_CORE_OPS_FUSED_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/schema.h"

namespace weft {

inline constexpr int kMaxFusedInstructions = 64;
inline constexpr size_t kMaxFusedConstants = 3 * kMaxFusedInstructions;

struct FusedInstruction {
  OpId op;
  int a = 0;
  int b = 0;
  int c = 0;

  // Of a, b, c, those that are operand codes.
  int num_operands() const;
};

class FusedProgram {
 public:
  explicit FusedProgram(int num_inputs) : num_inputs_(num_inputs) {}

  // Checked: kBadAttribute says which instruction is wrong and how.
  static absl::StatusOr<FusedProgram> FromOp(const OpView& op);

  // The dtype that a region with this value computes in: kF32 or kF64;
  // kInvalid where any will do (bool).
  static DType ComputeType(DType dtype);

  // True where AddNode can take the node into a region that computes in
  // `compute`: its function has a program form, and the region can have all
  // its operands and results.
  static bool CanHold(const OpView& op, DType compute);

  // Appends an instruction; the code of its value.
  int Add(OpId op, int a, int b = 0, int c = 0);
  // Appends the instructions of an elementwise node whose operands have the
  // codes `operands`; the code of its result. Pre-condition: CanHold().
  int AddNode(const OpView& op, absl::Span<const int> operands);
  // The code of a constant; equal constants share one.
  int Constant(double value);

  AttrMap ToAttrs() const;

  // Every result for one element. `results` has outputs.size() elements.
  void Evaluate(absl::Span<const double> inputs,
                std::vector<double>* results) const;

  int num_inputs() const { return num_inputs_; }
  const std::vector<FusedInstruction>& instructions() const {
    return instructions_;
  }
  const std::vector<double>& constants() const { return constants_; }

  std::vector<int> outputs;  // codes
  std::vector<DType> types;  // of the results; empty: all that of operand 0

 private:
  int num_inputs_;
  std::vector<FusedInstruction> instructions_;
  std::vector<double> constants_;
};

}  // namespace weft

#endif  // WEFT_CORE_OPS_FUSED_H_
