#include "core/actor/pattern.h"

namespace weft::actor {
namespace {

// `first` at the first of `acts` acts, `last` at the last; both where there is
// only one.
std::string FirstAndLast(uint32_t acts, uint8_t first, uint8_t last) {
  std::string pattern(acts, 0);
  if (acts == 0) return pattern;
  pattern.front() |= static_cast<char>(first);
  pattern.back() |= static_cast<char>(last);
  return pattern;
}

}  // namespace

static_assert((kTake | kAck) == (kAcquire | kGive),
              "EveryAct serves inputs and outputs");

std::string EveryAct() { return std::string(1, kTake | kAck); }

std::string Held(uint32_t acts) { return FirstAndLast(acts, kTake, kAck); }

std::string Accumulated(uint32_t acts) {
  return FirstAndLast(acts, kAcquire, kGive);
}

std::string GivenLast(uint32_t acts) {
  return FirstAndLast(acts, 0, kAcquire | kGive);
}

std::string Sliced(uint32_t acts) { return std::string(acts, kGive); }

std::string SharedPhase() { return FirstAndLast(2, kAcquire | kGive, kHome); }

std::string ExclusivePhase() {
  return FirstAndLast(2, kHome, kAcquire | kGive);
}

std::string Shortest(const std::string& pattern) {
  if (pattern.empty()) return EveryAct();
  if (pattern.find_first_not_of(pattern[0]) == std::string::npos) {
    return pattern.substr(0, 1);
  }
  return pattern;
}

}  // namespace weft::actor
