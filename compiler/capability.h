// What devices can run, as the compiler asks it. The compiler loads no plugin:
// a session implements this over kernel_match of its devices, tests give a
// double (compiler/testing/fake_oracle.h), an estimate reads rules from files.
//
//   class AllOnHost : public CapabilityOracle {
//     MatchAnswer Match(uint32_t device, const plan::Kernel&) override {
//       return {/*supported=*/device == 0};
//     }
//   };
//
// Answers must be a pure function of their arguments: each description is asked
// once per device, and the digest of all answers goes into the plan
// (Plan.capabilities).
//
// Threading: called by one thread at a time. Ownership: none.
#ifndef WEFT_COMPILER_CAPABILITY_H_
#define WEFT_COMPILER_CAPABILITY_H_

#include <cstdint>

#include "core/proto/plan.pb.h"

namespace weft {

// A device's answer about one op description. Masks: bit i is operand (or
// result) i. All tensors that the compiler makes are dense, so a kernel that
// needs dense operands counts as supported.
struct MatchAnswer {
  bool supported = false;
  uint64_t workspace_bytes = 0;
  uint32_t host_in = 0;   // operands that the kernel reads in host memory
  uint32_t host_out = 0;  // results that it writes there
  uint32_t in_place = 0;  // result 0 may be the memory of operand i
  uint64_t cost_ns = 0;   // hint; 0 = unknown
};

class CapabilityOracle {
 public:
  virtual ~CapabilityOracle() = default;

  // `device` indexes CompileOptions.devices. `kernel` has op, all attributes
  // (defaults included), operand and result types; an absent operand has dtype
  // 0; `device`, workspace and masks are not set yet.
  virtual MatchAnswer Match(uint32_t device, const plan::Kernel& kernel) = 0;
};

}  // namespace weft

#endif  // WEFT_COMPILER_CAPABILITY_H_
