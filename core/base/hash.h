// A hash that is the same in every process and on every machine: for what is
// stored or must agree between ranks (random streams, file names). Not for hash
// tables, and not against adversaries.
//
// Threading: thread-safe.
#ifndef WEFT_CORE_BASE_HASH_H_
#define WEFT_CORE_BASE_HASH_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace weft {

// FNV-1a, 64 bits.
constexpr uint64_t StableHash(absl::string_view bytes) {
  uint64_t hash = 14695981039346656037u;
  for (char c : bytes) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  }
  return hash;
}

// The random stream of a node: a hash of the name that the user gave it, taken
// before any pass renames or clones it. Fits an int attribute.
constexpr int64_t RandomStream(absl::string_view node_name) {
  return static_cast<int64_t>(StableHash(node_name) >> 1);
}

}  // namespace weft

#endif  // WEFT_CORE_BASE_HASH_H_
