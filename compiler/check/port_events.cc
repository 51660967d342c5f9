#include "compiler/check/port_events.h"

#include <algorithm>

namespace weft::check {

Events::Events(const std::string& pattern, uint8_t bit) {
  const std::string acts = pattern.empty() ? actor::EveryAct() : pattern;
  length_ = static_cast<uint32_t>(acts.size());
  for (uint32_t i = 0; i < length_; ++i) {
    if (static_cast<uint8_t>(acts[i]) & bit) at_.push_back(i);
  }
}

uint32_t Events::Count(uint32_t acts) const {
  const uint32_t rest = acts % length_;
  auto end = std::lower_bound(at_.begin(), at_.end(), rest);
  return acts / length_ * static_cast<uint32_t>(at_.size()) +
         static_cast<uint32_t>(end - at_.begin());
}

bool Events::At(uint32_t act) const {
  return std::binary_search(at_.begin(), at_.end(), act % length_);
}

RegisterTable::RegisterTable(const actor::TableSpec& spec) {
  for (uint32_t i = 0; i < spec.actors.size(); ++i) {
    for (uint32_t k = 0; k < spec.actors[i].outputs.size(); ++k) {
      const actor::OutputSpec& out = spec.actors[i].outputs[k];
      RegisterEvents& events = registers_[out.reg];
      events.actor = i;
      events.port = k;
      events.copies = out.copies;
      events.alias = out.alias;
      events.acquire = Events(out.pattern, actor::kAcquire);
      events.give = Events(out.pattern, actor::kGive);
    }
  }
  for (uint32_t i = 0; i < spec.actors.size(); ++i) {
    for (uint32_t k = 0; k < spec.actors[i].inputs.size(); ++k) {
      const actor::InputSpec& in = spec.actors[i].inputs[k];
      if (in.aliased) continue;
      uint32_t owner =
          in.ack_register == ~uint32_t{0} ? in.reg : in.ack_register;
      auto it = registers_.find(owner);
      if (it == registers_.end()) continue;
      it->second.final_readers.push_back({i, k, in.ack_divisor,
                                          Events(in.pattern, actor::kTake),
                                          Events(in.pattern, actor::kAck)});
    }
  }
}

const RegisterEvents* RegisterTable::Find(uint32_t reg) const {
  auto it = registers_.find(reg);
  return it == registers_.end() ? nullptr : &it->second;
}

}  // namespace weft::check
