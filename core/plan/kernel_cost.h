// What one launch of a plan's kernel has to do by the definition of its op: the
// floating-point operations and the bytes of operands and results that the op's
// schema counts (OpSchema::cost), whatever way a device computes it.
//
//   WEFT_ASSIGN_OR_RETURN(Cost cost, KernelCost(plan.kernels(3)));
//   double gflops = cost.flops / nanoseconds;
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_PLAN_KERNEL_COST_H_
#define WEFT_CORE_PLAN_KERNEL_COST_H_

#include "absl/status/statusor.h"
#include "core/ops/schema.h"
#include "core/proto/plan.pb.h"

namespace weft::plan {

// kBadPlan for an unknown op, or operands or attributes that no use of it has.
absl::StatusOr<Cost> KernelCost(const Kernel& kernel);

}  // namespace weft::plan

#endif  // WEFT_CORE_PLAN_KERNEL_COST_H_
