// Copies of n-dimensional boxes between strided places: all that transposing,
// slicing, padding, concatenating and repeating are. The plan merges dimensions
// and picks a loop once; Run moves bits and never looks at values.
//
//   CopyPlan plan(4, rank, dims, src_strides, dst_strides);   // element size 4
//   plan.Run(dst, src);
//
// Threading: immutable after construction.
#ifndef WEFT_DEVICES_CPU_COPY_PLAN_H_
#define WEFT_DEVICES_CPU_COPY_PLAN_H_

#include "devices/cpu/strided.h"
#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

class CopyPlan {
 public:
  CopyPlan(int64_t element_size, int rank, const int64_t* dims,
           const int64_t* src_strides, const int64_t* dst_strides);

  // The pointers are to the box's first elements.
  void Run(void* dst, const void* src) const;
  int64_t count() const { return plan_.count(); }

 private:
  template <class U>
  void RunAs(U* dst, const U* src) const;
  // Where the source is contiguous along another dimension than the result:
  // square tiles over the two.
  template <class U>
  void RunTiled(U* dst, const U* src) const;

  int64_t element_size_;
  LoopPlan<2> plan_;
  int tiled_dim_ = -1;
};

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_COPY_PLAN_H_
