#include "transport/shm/biased_mutex.h"

#include <sched.h>

namespace weft_shm {

void BiasedMutex::LockAsOthers() {
  mu_.lock();
  Seat* const favored = favored_.load(std::memory_order_relaxed);
  if (favored != nullptr) {
    favored_.store(nullptr, std::memory_order_relaxed);
    HeavyFence(Reach::kProcess);
    while (favored->busy.load(std::memory_order_acquire)) sched_yield();
  }
  const pthread_t self = pthread_self();
  streak_ = last_ == self ? streak_ + 1 : 1;
  last_ = self;
  if (streak_ == kStreak && HasFences()) {
    favored_.store(SeatOf(self), std::memory_order_release);
    streak_ = 0;
  }
}

BiasedMutex::Seat* BiasedMutex::SeatOf(pthread_t thread) {
  for (Seat& seat : seats_) {
    if (seat.thread == thread) return &seat;
  }
  return &seats_.emplace_back(thread);
}

}  // namespace weft_shm
