// What the families' signatures are written with: a signature is named by the
// dimension that it cuts, once for each operand and result.
//
//   std::vector<OpSignature> TwoMatrices(const OpView& op) {   // [m,k] [k,n]
//     SignatureList list(op);
//     list.Split({0, kWhole}, {0});      // S(0), B -> S(0)
//     list.Split({kWhole, 1}, {1});      // B, S(1) -> S(1)
//     list.Split({1, 0}, {kSummed});     // S(1), S(0) -> P(sum)
//     list.Partial(ReduceOp::kSum, {0}); // P(sum), B -> P(sum)
//     return list.Take();
//   }
//   schema.signatures = TwoMatrices;
//
// A signature says nothing of divisibility: SignaturesOf leaves out what the
// number of members does not divide, and where inference of a member's op does
// not give the parts of the results. It is S(d) for every number of groups, as
// most ops treat the positions along a dimension alike; one that does not says
// Split(.., 1).
//
// Threading: free functions and a thread-compatible builder.
#ifndef WEFT_CORE_OPS_SIGNATURE_RULES_H_
#define WEFT_CORE_OPS_SIGNATURE_RULES_H_

#include <string>
#include <utility>
#include <vector>

#include "core/mesh/sbp.h"
#include "core/ops/schema.h"

namespace weft {

// In place of a dimension: B, and P(sum).
inline constexpr int kWhole = -1;
inline constexpr int kSummed = -2;

// `groups` of an Sbp that a schema lists for any number of groups.
inline constexpr int kAnyGroups = 0;

class SignatureList {
 public:
  explicit SignatureList(const OpView& op) : op_(op) {}

  // Dimensions by operand and by result. Operands that are missing at the end
  // are B; what is beyond the op's own operands and results, or of an absent
  // operand, is left out.
  void Split(std::vector<int> inputs, std::vector<int> outputs,
             int groups = kAnyGroups);
  // The named operands and all results are P, the other operands B.
  void Partial(ReduceOp reduce, const std::vector<int>& inputs);
  // The same for every op that reduces: where values are only moved.
  void AnyPartial(const std::vector<int>& inputs);
  void Add(OpSignature signature);

  std::vector<OpSignature> Take() { return std::move(list_); }

 private:
  const OpView& op_;
  std::vector<OpSignature> list_;
};

// The dimension of `from` that becomes `dim` of `to` when it broadcasts there;
// kWhole where `from` has none, or repeats its one element.
int BroadcastDim(const Shape& from, const Shape& to, int dim);

// S(d) of every dimension of the results, operands broadcast; what of P goes
// through the ops that are linear or choose. What ops with `elementwise` have.
std::vector<OpSignature> ElementwiseSignatures(const OpView& op);

// S(d) of every dimension but `except`, which all operands and results of rank
// `rank` have alike; operands and results of other ranks are B.
void SplitAlike(const OpView& op, int rank, int except, SignatureList* list);

// Local attributes: `attr` is the shape of result 0, or has its dimensions in
// the same places.
OpSchema::LocalAttrsFn LocalResultShape(std::string attr);
OpSchema::LocalAttrsFn LocalDimOf(std::string attr);

}  // namespace weft

#endif  // WEFT_CORE_OPS_SIGNATURE_RULES_H_
