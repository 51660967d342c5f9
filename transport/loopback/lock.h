// A mutex for what is held very shortly: a few stores, never a wait.
//
// Who finds it taken looks again for some microseconds before it sleeps: the
// owner is most likely at work on another core, and to sleep and be woken costs
// both sides many times what it still needs. With more threads than cores the
// owner may have none; then this sleeps, as any mutex does.
//
//   ShortMutex mu;
//   std::lock_guard<ShortMutex> lock(mu);
//
// Threading: thread-safe.
#ifndef WEFT_TRANSPORT_LOOPBACK_LOCK_H_
#define WEFT_TRANSPORT_LOOPBACK_LOCK_H_

#include <mutex>

namespace weft_loopback {

class ShortMutex {
 public:
  void lock() {
    for (int i = 0; i < kLooks; ++i) {
      if (mu_.try_lock()) return;
      Relax();
    }
    mu_.lock();
  }
  bool try_lock() { return mu_.try_lock(); }
  void unlock() { mu_.unlock(); }

 private:
  static constexpr int kLooks = 100;

  static void Relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  std::mutex mu_;
};

}  // namespace weft_loopback

#endif  // WEFT_TRANSPORT_LOOPBACK_LOCK_H_
