// Plans on disk, and what identifies one.
//
//   plan.set_hash(PlanHash(plan));
//   WEFT_RETURN_IF_ERROR(SavePlan(RealOs(), "train.plan", plan));
//   WEFT_ASSIGN_OR_RETURN(plan, LoadPlan(RealOs(), "train.plan"));
//
// A file is a line "weft plan 1", then the serialised message. Loading checks
// the hash and validates, so a damaged file is refused and never run.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_PLAN_PLAN_FILE_H_
#define WEFT_CORE_PLAN_PLAN_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/os.h"
#include "core/proto/plan.pb.h"

namespace weft::plan {

// Over everything but the field `hash`; equal for equal plans in any process.
uint64_t PlanHash(const Plan& plan);

// Replaces the file whole or not at all. kWriteFailed.
absl::Status SavePlan(Os& os, const std::string& path, const Plan& plan);

// kBadPlan where the file is no plan, is damaged or is not well formed;
// kBadValue where it cannot be read.
absl::StatusOr<Plan> LoadPlan(Os& os, const std::string& path);

}  // namespace weft::plan

#endif  // WEFT_CORE_PLAN_PLAN_FILE_H_
