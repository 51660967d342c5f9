// Slurm's way to write many hosts in short.
//
//   ParseHostList("node[1-3,07],gpu-a")
//       // node1 node2 node3 node07 gpu-a
//
// Zeros before a number stay, as many as its range is written with. Several
// brackets in a name combine, the last one counting fastest.
//
// Threading: free function, thread-safe.
#ifndef WEFT_RUNTIME_RENDEZVOUS_HOST_LIST_H_
#define WEFT_RUNTIME_RENDEZVOUS_HOST_LIST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::runtime {

// At least one name. kBadLaunch for what does not parse, or is more than 65536
// names.
absl::StatusOr<std::vector<std::string>> ParseHostList(absl::string_view text);

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_RENDEZVOUS_HOST_LIST_H_
