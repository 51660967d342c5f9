// Mutex and condition variable: thin wrappers over the standard ones, with
// clang's thread-safety annotations. (ThreadSanitizer does not understand the
// system's prebuilt absl::Mutex; it does understand these.)
//
//   weft::Mutex mu;
//   int n WEFT_GUARDED_BY(mu);
//   { weft::MutexLock lock(&mu); ++n; }
#ifndef WEFT_CORE_BASE_MUTEX_H_
#define WEFT_CORE_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define WEFT_THREAD_ANNOTATION_(x) __attribute__((x))
#else
#define WEFT_THREAD_ANNOTATION_(x)
#endif
#define WEFT_GUARDED_BY(x) WEFT_THREAD_ANNOTATION_(guarded_by(x))
#define WEFT_EXCLUSIVE_LOCKS_REQUIRED(x) \
  WEFT_THREAD_ANNOTATION_(exclusive_locks_required(x))

namespace weft {

class WEFT_THREAD_ANNOTATION_(lockable) Mutex {
 public:
  void Lock() WEFT_THREAD_ANNOTATION_(exclusive_lock_function()) { mu_.lock(); }
  void Unlock() WEFT_THREAD_ANNOTATION_(unlock_function()) { mu_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mu_;
};

class WEFT_THREAD_ANNOTATION_(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex* mu)
      WEFT_THREAD_ANNOTATION_(exclusive_lock_function(mu))
      : mu_(mu) {
    mu_->Lock();
  }
  ~MutexLock() WEFT_THREAD_ANNOTATION_(unlock_function()) { mu_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* mu_;
};

class CondVar {
 public:
  // Waits until notified or `timeout` has passed; false on time-out. The
  // caller holds `mu` and checks its condition in a loop.
  bool WaitFor(Mutex* mu, std::chrono::nanoseconds timeout) {
    std::unique_lock<std::mutex> lock(mu->mu_, std::adopt_lock);
    bool notified = cv_.wait_for(lock, timeout) == std::cv_status::no_timeout;
    lock.release();
    return notified;
  }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace weft

#endif  // WEFT_CORE_BASE_MUTEX_H_
