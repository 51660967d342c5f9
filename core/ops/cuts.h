// Cuts: which part of a whole tensor a node makes, for ops whose elements
// depend on their position: random numbers, dropout, initial values. Attribute
// `cuts` holds four numbers for each mesh axis that cuts the tensor, in the
// order of the axes:
//
//   {dim, parts, index, groups}   part `index` of `parts`, as S(dim, groups)
//
//   AttrMap attrs = {{"shape", {2, 4}}, {"cuts", {1, 3, 2, 1}}};
//   // columns 8 .. 11 of [2,12]
//   WEFT_ASSIGN_OR_RETURN(Cuts cuts, Cuts::FromOp(op, Shape({2, 4})));
//   cuts.whole_elements();     // 24
//   cuts.run();                // 4: as many elements lie together in the whole
//   cuts.PositionOf(4);        // 20: element [1,0] is [1,8] of the whole
//
// Without the attribute the part is the whole. Plugins carry their own copy of
// the arithmetic.
//
// Threading: thread-compatible value type.
#ifndef WEFT_CORE_OPS_CUTS_H_
#define WEFT_CORE_OPS_CUTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/mesh/sbp.h"
#include "core/ops/schema.h"

namespace weft {

class Cuts {
 public:
  // The attribute, for a schema.
  static AttrSpec Spec();

  // `local` is the shape of the part. kBadAttribute for cuts that there cannot
  // be of such a shape.
  static absl::StatusOr<Cuts> FromOp(const OpView& op, const Shape& local);

  // Adds one cut, made after those that `attrs` have. Nothing for an sbp that
  // is no split.
  static void Append(Sbp sbp, int parts, int index, AttrMap* attrs);
  // Gives the attribute to another node, where `op` has it.
  static void CopyTo(const OpView& op, AttrMap* attrs);

  int64_t whole_elements() const { return whole_elements_; }
  int64_t run() const { return run_; }
  // Of the element at row-major position `local`.
  int64_t PositionOf(int64_t local) const;

 private:
  struct Cut {
    int dim;
    int64_t parts, index, groups;
    int64_t block;  // positions along `dim` that lie together
  };

  std::vector<Cut> cuts_;
  Shape local_;
  std::vector<int64_t> whole_strides_;
  int64_t whole_elements_ = 0;
  int64_t run_ = 0;
};

}  // namespace weft

#endif  // WEFT_CORE_OPS_CUTS_H_
