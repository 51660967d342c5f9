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
// Which ops a program may hold, and with how many operands, is ScalarArity()
// (core/ops/scalar.h): attributes become operands, so LeakyRelu is (x, alpha),
// and only the exact Gelu is there. All operands and results of the node have
// one dtype, f32 or f64. Inside, comparisons and logic give 1 or 0, and
// conditions test for non-zero. Operands broadcast to the common shape, which
// every result has.
//
// The node has no gradient: fusion runs after differentiation.
//
// Threading: thread-compatible value type.
#ifndef WEFT_CORE_OPS_FUSED_H_
#define WEFT_CORE_OPS_FUSED_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/schema.h"

namespace weft {

inline constexpr int kMaxFusedInstructions = 64;

struct FusedInstruction {
  OpId op;
  int a = 0;
  int b = 0;
  int c = 0;
};

class FusedProgram {
 public:
  explicit FusedProgram(int num_inputs) : num_inputs_(num_inputs) {}

  // Checked: kBadAttribute says which instruction is wrong and how.
  static absl::StatusOr<FusedProgram> FromOp(const OpView& op);

  // True where AddNode can take the node into a region of `dtype`: its function
  // has a program form, its results are of `dtype` or bool, and so are its
  // operands (bool ones must come from inside of the region).
  static bool CanHold(const OpView& op, DType dtype);

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

 private:
  int num_inputs_;
  std::vector<FusedInstruction> instructions_;
  std::vector<double> constants_;
};

}  // namespace weft

#endif  // WEFT_CORE_OPS_FUSED_H_
