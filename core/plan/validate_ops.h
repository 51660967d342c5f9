// The second part of the validator: kernels, constants and the operands of
// tasks; and the comparisons that all parts are made of.
//
// Every function that gives a status gives kBadPlan where something does not
// hold; `what` names the thing to the reader. Only the validator uses this.
//
//   WEFT_RETURN_IF_ERROR(In("stream of task 'x'", task.stream(), streams));
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_PLAN_VALIDATE_OPS_H_
#define WEFT_CORE_PLAN_VALIDATE_OPS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/plan/plan.h"

namespace weft::plan {

// More bytes than any address has.
constexpr uint64_t kMaxBytes = uint64_t{1} << 48;

template <typename... Args>
absl::Status Bad(const Args&... args) {
  return MakeError(ErrorCode::kBadPlan, absl::StrCat(args...));
}

// The user's name first, then the index.
std::string TaskName(const Plan& plan, int t);
std::string RegisterName(const Plan& plan, int r);

// `index` must be below `size`.
absl::Status In(const std::string& what, uint64_t index, int size);

// [offset, offset + bytes) must lie within `size` bytes.
absl::Status Fits(const std::string& what, uint64_t offset, uint64_t bytes,
                  uint64_t size);

// Dtype and dims are possible. A dtype of 0 is legal where `optional`.
absl::Status CheckTensor(const std::string& what, const TensorDesc& tensor,
                         bool optional);

// Two tensors of the same dtype and size.
absl::Status CheckSame(const std::string& what, const TensorDesc& given,
                       const TensorDesc& wanted);

// Of the device's arena for what tasks keep to themselves; 0 without one.
uint64_t PrivateBytes(const Plan& plan, uint32_t device);

// The plan's kernels and constants. Devices were counted before.
absl::Status ValidateKernels(const Plan& plan);

// The ops of task `t`: their kernels, operands, results and workspace. The
// task's ports and the arenas were checked before; `placed` = memory has its
// places.
absl::Status ValidateOps(const Plan& plan, int t, bool placed);

}  // namespace weft::plan

#endif  // WEFT_CORE_PLAN_VALIDATE_OPS_H_
