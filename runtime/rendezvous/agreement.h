// Agreement: what must be the same on all ranks, and what is said where it is
// not.
//
//   WEFT_RETURN_IF_ERROR(Agree(meeting, rank, "job file", text));
//
// Threading: free functions, thread-safe.
#ifndef WEFT_RUNTIME_RENDEZVOUS_AGREEMENT_H_
#define WEFT_RUNTIME_RENDEZVOUS_AGREEMENT_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "runtime/rendezvous/rendezvous.h"

namespace weft::runtime {

// For people: the values, shortened; of texts of several lines, the first line
// in which they differ.
std::pair<std::string, std::string> FirstDifference(const std::string& a,
                                                    const std::string& b);

// All ranks call it. kBadLaunch, the same on all, with the first rank that has
// another value than rank 0, and both values.
absl::Status Agree(Rendezvous* meeting, uint32_t rank, const std::string& what,
                   const std::string& value);

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_RENDEZVOUS_AGREEMENT_H_
