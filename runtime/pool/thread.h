// Thread: an OS thread whose start may fail. The one way in which the run-time
// starts threads: std::thread would end the process where the system has no
// more of them.
//
//   WEFT_ASSIGN_OR_RETURN(Thread thread,
//                         Thread::Start("weft-worker-0", [&] { Loop(); }));
//   thread.Join();
//
// Every signal is blocked in it: signals belong to the program's own threads.
//
// Threading: thread-compatible. Ownership: joins its thread when it goes,
// unless that was joined or detached before.
#ifndef WEFT_RUNTIME_POOL_THREAD_H_
#define WEFT_RUNTIME_POOL_THREAD_H_

#include <pthread.h>

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace weft::runtime {

class Thread {
 public:
  // `name` is cut to 15 characters. `body` must not throw. kNoThread, which
  // names the thread and the system's reason; `body` then never runs.
  static absl::StatusOr<Thread> Start(const std::string& name,
                                      std::function<void()> body);

  Thread() = default;
  Thread(Thread&& other) noexcept;
  Thread& operator=(Thread&& other) noexcept;
  ~Thread() { Join(); }

  bool joinable() const { return joinable_; }
  // Nothing where there is none to wait for.
  void Join();
  // It runs on by itself.
  void Detach();

 private:
  explicit Thread(pthread_t handle) : handle_(handle), joinable_(true) {}

  pthread_t handle_{};
  bool joinable_ = false;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_POOL_THREAD_H_
