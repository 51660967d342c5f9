// ExplainNode: where a node of the user's graph runs, with what, and why: the
// text behind `weft plan explain`.
//
//   WEFT_ASSIGN_OR_RETURN(std::string text, ExplainNode(plan, "fc1"));
//
//   fc1/MatMul: MatMul, kernel 1 of 5 of task 'fc1/MatMul..loss' [3]
//     runs on cpu:0, stream cpu:0/compute, worker 0, 4 times a step
//     reads batch f32[8,4] of task 'batch' [0]; fc1/weight f32[4,2] of ...
//     gives f32[8,2] in scratch
//     why: autodiff: gradient of fc1
//
// The name may be that of a node, of a task, of a value, or a scope ("fc1" for
// "fc1/weight"). Nodes that a pass has merged into others are found by what
// that pass recorded.
//
// Threading: a free function, thread-safe.
#ifndef WEFT_COMPILER_EXPLAIN_EXPLAIN_H_
#define WEFT_COMPILER_EXPLAIN_EXPLAIN_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/proto/plan.pb.h"

namespace weft {

// kBadValue where nothing has that name, with "did you mean" or what there is,
// and for an empty one; kBadPlan where the plan is not well formed.
absl::StatusOr<std::string> ExplainNode(const plan::Plan& plan,
                                        absl::string_view name);

}  // namespace weft

#endif  // WEFT_COMPILER_EXPLAIN_EXPLAIN_H_
