// A plan's kernel as the plugin ABI describes it.
//
//   WEFT_ASSIGN_OR_RETURN(auto desc, DescribeKernel(plan.kernels(i)));
//   device->OpenKernel(desc->desc());
//
// Threading: free function, thread-safe.
#ifndef WEFT_RUNTIME_EXECUTE_OP_DESC_H_
#define WEFT_RUNTIME_EXECUTE_OP_DESC_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/proto/plan.pb.h"
#include "plugins/host/op_desc.h"

namespace weft::runtime {

// kBadPlan where a tensor has more than WEFT_MAX_RANK dimensions, there are
// more than WEFT_MAX_OPERANDS of them, or an attribute is a tensor (kernels
// take tensors as operands only).
absl::StatusOr<std::unique_ptr<OpDesc>> DescribeKernel(
    const plan::Kernel& kernel);

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_EXECUTE_OP_DESC_H_
