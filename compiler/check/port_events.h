// At which acts a port takes, acks, acquires or gives, as arithmetic on its
// pattern; and the registers of a spec with their owner and final readers. What
// happens-before and the proofs are computed from.
//
// Threading: immutable once created. Ownership: keeps no reference to the spec.
#ifndef WEFT_COMPILER_CHECK_PORT_EVENTS_H_
#define WEFT_COMPILER_CHECK_PORT_EVENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/actor/spec.h"

namespace weft::check {

// The acts of a pattern that have one of its bits.
class Events {
 public:
  Events() = default;
  Events(const std::string& pattern, uint8_t bit);

  bool empty() const { return at_.empty(); }
  // The act of event `k`. Pre-condition: !empty().
  uint32_t Act(uint32_t k) const {
    return k / static_cast<uint32_t>(at_.size()) * length_ +
           at_[k % at_.size()];
  }
  // Events in the first `acts` acts.
  uint32_t Count(uint32_t acts) const;
  // Whether act `act` is one.
  bool At(uint32_t act) const;

 private:
  uint32_t length_ = 1;
  std::vector<uint32_t> at_;
};

// An input port.
struct Reader {
  uint32_t actor = 0;
  uint32_t port = 0;
  uint32_t slices = 1;  // takes for one copy of the owner's
  Events take;
  Events ack;
};

struct RegisterEvents {
  uint32_t actor = 0;  // that gives it
  uint32_t port = 0;
  uint32_t copies = 1;
  bool alias = false;
  Events acquire;
  Events give;
  // Input ports that ack it, its aliases' included. Empty for aliases.
  std::vector<Reader> final_readers;
};

class RegisterTable {
 public:
  explicit RegisterTable(const actor::TableSpec& spec);

  // Null for a register that no actor of the spec gives.
  const RegisterEvents* Find(uint32_t reg) const;
  const absl::flat_hash_map<uint32_t, RegisterEvents>& all() const {
    return registers_;
  }

 private:
  absl::flat_hash_map<uint32_t, RegisterEvents> registers_;
};

}  // namespace weft::check

#endif  // WEFT_COMPILER_CHECK_PORT_EVENTS_H_
