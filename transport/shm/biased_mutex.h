// BiasedMutex: for what one thread locks again and again, and others seldom.
// That one is *favored*: it locks and unlocks by plain stores, with no
// instruction that waits for what the core has stored before. Another thread
// takes the favor away first, which costs it a heavy fence (fence.h).
//
//   BiasedMutex mu;
//   std::unique_lock<BiasedMutex> lock(mu);
//
//   favored thread:  busy = 1; LightFence(); still favored?  -> has it
//                                            no: busy = 0, then as others
//   others:          lock mu_; nobody is favored; HeavyFence(); wait for !busy
//
// So either the favored thread sees that it is not any more, or the other one
// sees that it is busy. Who has locked it kStreak times in a row is favored.
// Where there are no such fences nobody is, and it is a std::mutex.
//
// Threading: thread-safe.
#ifndef WEFT_TRANSPORT_SHM_BIASED_MUTEX_H_
#define WEFT_TRANSPORT_SHM_BIASED_MUTEX_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

#include "transport/shm/fence.h"

namespace weft_shm {

class BiasedMutex {
 public:
  // A heavy fence costs as much as some hundred locks of a mutex.
  static constexpr uint32_t kStreak = 1024;

  BiasedMutex() = default;
  BiasedMutex(const BiasedMutex&) = delete;
  BiasedMutex& operator=(const BiasedMutex&) = delete;

  void lock() {
    Seat* const seat = favored_.load(std::memory_order_acquire);
    if (seat == nullptr || seat->thread != pthread_self())
      return LockAsOthers();
    seat->busy.store(true, std::memory_order_relaxed);
    LightFence();
    if (favored_.load(std::memory_order_relaxed) != seat) {
      seat->busy.store(false, std::memory_order_release);
      return LockAsOthers();
    }
    held_ = seat;
  }
  void unlock() {
    Seat* const seat = std::exchange(held_, nullptr);
    if (seat == nullptr) return mu_.unlock();
    seat->busy.store(false, std::memory_order_release);
  }

  // Of tests.
  bool favors_me() const {
    const Seat* const seat = favored_.load(std::memory_order_acquire);
    return seat != nullptr && seat->thread == pthread_self();
  }

 private:
  // Of one thread, for ever: one that was favored long ago may still look at
  // it.
  struct alignas(64) Seat {
    explicit Seat(pthread_t t) : thread(t) {}
    const pthread_t thread;
    std::atomic<bool> busy{false};
  };

  void LockAsOthers();
  Seat* SeatOf(pthread_t thread);

  std::atomic<Seat*> favored_{nullptr};
  Seat* held_ = nullptr;  // by whom; null: by mu_
  std::mutex mu_;
  // Under mu_:
  uint64_t streak_ = 0;  // of locks by
  pthread_t last_{};
  std::deque<Seat> seats_;
};

}  // namespace weft_shm

#endif  // WEFT_TRANSPORT_SHM_BIASED_MUTEX_H_
