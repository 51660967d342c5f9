// The description of a node as devices see it: op, all attributes, operand and
// result types, in the plan's own message. Equal uses of an op give equal
// descriptions, whatever their nodes are called.
//
//   plan::Kernel kernel = DescribeKernel(graph.View(node));
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_PLACEMENT_KERNEL_DESC_H_
#define WEFT_COMPILER_PLACEMENT_KERNEL_DESC_H_

#include <string>

#include "core/ops/schema.h"
#include "core/proto/plan.pb.h"
#include "core/types/literal.h"

namespace weft {

// Device, workspace and host masks are left unset. Absent optional operands
// have dtype 0.
plan::Kernel DescribeKernel(const OpView& op);

// `value` is the name that the user knows it by; "" in descriptions.
plan::TensorDesc DescribeTensor(const TensorType& type,
                                absl::string_view value = "");

plan::Constant DescribeConstant(const Literal& literal, uint32_t device);

// Equal messages give equal bytes, in every process.
std::string StableBytes(const google::protobuf::MessageLite& message);

}  // namespace weft

#endif  // WEFT_COMPILER_PLACEMENT_KERNEL_DESC_H_
