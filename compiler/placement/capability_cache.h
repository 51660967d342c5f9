// Asks a CapabilityOracle each question once and remembers all answers, so that
// a plan can say on what knowledge it rests.
//
//   CapabilityCache cache(&oracle);
//   if (cache.Match(1, kernel).supported) ...
//   plan.set_capabilities(cache.Digest());
//
// Threading: thread-compatible. Ownership: borrows the oracle.
#ifndef WEFT_COMPILER_PLACEMENT_CAPABILITY_CACHE_H_
#define WEFT_COMPILER_PLACEMENT_CAPABILITY_CACHE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "compiler/capability.h"

namespace weft {

class CapabilityCache {
 public:
  explicit CapabilityCache(CapabilityOracle* oracle) : oracle_(oracle) {}

  MatchAnswer Match(uint32_t device, const plan::Kernel& kernel);

  // Of all questions and answers so far; the order of asking does not matter.
  uint64_t Digest() const;

 private:
  CapabilityOracle* oracle_;
  std::map<std::pair<uint32_t, std::string>, MatchAnswer> answers_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_PLACEMENT_CAPABILITY_CACHE_H_
