#include "compiler/placement/capability_cache.h"

#include "absl/strings/str_cat.h"
#include "compiler/placement/kernel_desc.h"
#include "core/base/hash.h"

namespace weft {

MatchAnswer CapabilityCache::Match(uint32_t device,
                                   const plan::Kernel& kernel) {
  auto key = std::make_pair(device, StableBytes(kernel));
  auto it = answers_.find(key);
  if (it != answers_.end()) return it->second;
  MatchAnswer answer = oracle_->Match(device, kernel);
  answers_.emplace(std::move(key), answer);
  return answer;
}

uint64_t CapabilityCache::Digest() const {
  std::string all;
  for (const auto& [key, a] : answers_) {
    absl::StrAppend(&all, key.first, ":", key.second.size(), ":", key.second,
                    "=", a.supported, ",", a.workspace_bytes, ",", a.host_in,
                    ",", a.host_out, ",", a.in_place, ",", a.cost_ns, ";");
  }
  return StableHash(all);
}

}  // namespace weft
