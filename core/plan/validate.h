// The first half of Validate (plan.h): the form of a plan, before a PlanView of
// it can exist. Only plan.cc uses this.
//
// Threading: free function, thread-safe.
#ifndef WEFT_CORE_PLAN_VALIDATE_H_
#define WEFT_CORE_PLAN_VALIDATE_H_

#include "absl/status/status.h"
#include "core/plan/plan.h"

namespace weft::plan {

// kBadPlan where an index, size or kind is wrong. What it does not look at:
// patterns and orders, which the actors' state machine checks itself.
absl::Status ValidateForm(const Plan& plan, Placement placement);

}  // namespace weft::plan

#endif  // WEFT_CORE_PLAN_VALIDATE_H_
