// Plans as text, for people. A task, register or stream is called as the user
// called it; the index that the plan uses follows, as in "fc1 [t3]".
//
//   std::cout << PrintPlan(plan);
//   std::cout << DiffPlans(before, after);   // "" where they are equal
//
// Text is for reading and for golden tests; it cannot be parsed back.
//
// Threading: free functions, thread-safe. Safe for plans that are not well
// formed: an index that leads nowhere is printed as a number.
#ifndef WEFT_CORE_PLAN_PRINT_H_
#define WEFT_CORE_PLAN_PRINT_H_

#include <string>

#include "core/proto/plan.pb.h"

namespace weft::plan {

struct PrintOptions {
  bool registers = true;   // places and sizes of memory
  bool operands = true;    // where each kernel's operands lie
  bool provenance = true;  // which pass made a task, and why
};

// A task's phase of a pipeline: "F2", forward in stage 2; "B2", back.
// Pre-condition: not 0.
std::string PhaseName(const Plan& plan, uint32_t phase);

// Streams with their order, tasks with ports and kernels, registers, arenas.
std::string PrintPlan(const Plan& plan, const PrintOptions& options = {});

// One pattern in the words of core/actor/pattern.h: "every act", "held(4)",
// "accumulate(4)", "last(4)", "slices(4)", "shared phase", "exclusive phase".
// Where it is none of them, its bytes: "pattern 1021".
std::string PrintInputPattern(const std::string& acts);
std::string PrintOutputPattern(const std::string& acts);

// What differs, one line each, "-" of `a` and "+" of `b`, by name; "" where the
// plans print alike. Tasks and registers are matched by name, so a plan that
// was only renumbered differs in nothing.
std::string DiffPlans(const Plan& a, const Plan& b);

}  // namespace weft::plan

#endif  // WEFT_CORE_PLAN_PRINT_H_
