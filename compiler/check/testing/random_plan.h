// RandomPlan: a small plan from a seed, for property tests. All have balanced
// rates and right counts of ACKs; some share bytes, change launch orders or
// lack order edges, so that some deadlock or overwrite what is still read.
//
//   plan::Plan plan = RandomPlan(seed);
//
// Threading: free function, thread-safe. Test only.
#ifndef WEFT_COMPILER_CHECK_TESTING_RANDOM_PLAN_H_
#define WEFT_COMPILER_CHECK_TESTING_RANDOM_PLAN_H_

#include <cstdint>

#include "core/proto/plan.pb.h"

namespace weft::check {

plan::Plan RandomPlan(uint64_t seed);

}  // namespace weft::check

#endif  // WEFT_COMPILER_CHECK_TESTING_RANDOM_PLAN_H_
