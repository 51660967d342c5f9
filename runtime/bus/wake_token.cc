#include "runtime/bus/wake_token.h"

#include <atomic>
#include <thread>

namespace weft::runtime {
namespace {

// A number is a slot and the generation that the slot had.
constexpr uint64_t kSlotBits = 10;
constexpr uint64_t kSlots = uint64_t{1} << kSlotBits;

struct alignas(64) Slot {           // of other threads than its neighbours
  std::atomic<uint64_t> number{0};  // of its token; 0: free
  std::atomic<FutexWord*> word{nullptr};
  std::atomic<uint32_t> notifying{0};  // threads between look and post
  uint64_t generation = 0;             // of whoever holds `taken`
  std::atomic<bool> taken{false};
};

// Trivially destroyed: plugins' threads may outlive main.
Slot g_slots[kSlots];

}  // namespace

WakeToken::WakeToken(FutexWord* word) {
  for (uint64_t i = 0; i < kSlots; ++i) {
    Slot& slot = g_slots[i];
    if (slot.taken.exchange(true)) continue;
    number_ = ++slot.generation << kSlotBits | i;
    slot.word.store(word);
    slot.number.store(number_);
    return;
  }
}

WakeToken::~WakeToken() {
  if (number_ == 0) return;
  Slot& slot = g_slots[number_ % kSlots];
  slot.number.store(0);
  // Who counted itself before may have seen the number still; who does so from
  // here on has not.
  while (slot.notifying.load() != 0) std::this_thread::yield();
  slot.taken.store(false);
}

void WakeToken::Notify(uint64_t number) {
  Slot& slot = g_slots[number % kSlots];
  // Old numbers must not keep the destructor of a new token waiting.
  if (number == 0 || slot.number.load() != number) return;
  slot.notifying.fetch_add(1);
  if (slot.number.load() == number) slot.word.load()->Post();
  slot.notifying.fetch_sub(1);
}

}  // namespace weft::runtime
