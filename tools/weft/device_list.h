// The devices that a job names, and which of them are whose.
//
//   DevicesOfRank("w0/cpu:0,w1/sim:0", /*rank=*/1, /*ranks=*/2);  // {sim:0}
//
// A name is "<kind>" or "<kind>:<index>", optionally with options for the
// plugin: "sim:0?tier=T1&delay_us=5". Several are separated by commas. One with
// "w<n>/" before it is of rank n alone, one without is of every rank; a rank
// computes on the first that it has.
//
// Errors: kBadValue for a malformed name; kBadJob for a rank that there is not,
// for a rank without a device, and for a device that a rank has twice.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_TOOLS_WEFT_DEVICE_LIST_H_
#define WEFT_TOOLS_WEFT_DEVICE_LIST_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft {

struct DeviceName {
  std::string kind;
  uint32_t index = 0;
  std::vector<std::pair<std::string, std::string>> options;

  std::string text() const;  // "sim:0"
  // All that tells what it computes: "sim?tier=T1".
  std::string Kind() const;
};

// "tier=T1&delay_us=5", as pairs. kBadValue names the option without a value.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>>
ParsePluginOptions(absl::string_view text);

absl::StatusOr<DeviceName> ParseDeviceName(absl::string_view text);

absl::StatusOr<std::vector<DeviceName>> DevicesOfRank(absl::string_view devices,
                                                      uint32_t rank,
                                                      uint32_t ranks);

// By rank, the Kind() of what it computes on.
absl::StatusOr<std::vector<std::string>> ComputeKinds(absl::string_view devices,
                                                      uint32_t ranks);

// The list of rank 0 alone, as a job on one rank has it.
absl::StatusOr<std::string> DevicesOfFirst(absl::string_view devices);

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_DEVICE_LIST_H_
