// Shared values: what a rank says of the registers that others read where they
// lie, and what it hears of theirs.
//
//   std::string text = SharedValuesText(key, mine);    // one rank
//   WEFT_ASSIGN_OR_RETURN(SharedValues theirs, ParseSharedValues(text));
//
// Threading: free functions and plain values.
#ifndef WEFT_RUNTIME_WIRE_SHARED_VALUES_H_
#define WEFT_RUNTIME_WIRE_SHARED_VALUES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::runtime {

// One register of a mapped channel, within its owner's shared block: copy k
// lies at offset + k * stride; the stride is 0 where there is one.
struct SharedValue {
  uint32_t reader = 0;  // rank
  uint64_t channel = 0;
  uint64_t offset = 0;
  uint64_t stride = 0;
};

struct SharedValues {
  std::string key;  // of the block, for Domain::Map; empty: there is none
  std::vector<SharedValue> values;
};

std::string SharedValuesText(const SharedValues& values);
// kTransportFailed for what is no such text.
absl::StatusOr<SharedValues> ParseSharedValues(absl::string_view text);

// A value of another rank in this process's memory: to read, and to write only
// where it is `writable`.
struct PeerValue {
  char* host = nullptr;
  uint64_t stride = 0;
  uint64_t room = 0;  // bytes from `host` to the end of what is mapped
  bool writable = false;
};

// By rank that has it, and channel id.
using PeerValues =
    absl::flat_hash_map<std::pair<uint32_t, uint64_t>, PeerValue>;

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_WIRE_SHARED_VALUES_H_
