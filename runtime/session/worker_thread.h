// WorkerThread: an OS thread of a session, with the futex word on which it
// sleeps. It runs the Worker that control gives it, one at a time, and sleeps
// in between.
//
//   WEFT_ASSIGN_OR_RETURN(auto thread, WorkerThread::Create(0, {}));
//   thread->Start(&worker);    // worker.Run() on the thread; returns at once
//
// Threading: for the thread that owns the session. Ownership: borrows workers.
#ifndef WEFT_RUNTIME_SESSION_WORKER_THREAD_H_
#define WEFT_RUNTIME_SESSION_WORKER_THREAD_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "runtime/bus/futex_word.h"
#include "runtime/bus/wake_token.h"
#include "runtime/pool/thread.h"
#include "runtime/worker/worker.h"

namespace weft::runtime {

class WorkerThread {
 public:
  // kNoThread where the system has none left. The thread calls `on_start`, if
  // there is one, with its number.
  static absl::StatusOr<std::unique_ptr<WorkerThread>> Create(
      size_t number, const std::function<void(size_t number)>& on_start);
  // Joins, unless abandoned.
  ~WorkerThread();
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  // Pre-condition: the worker before has reported that it left Run().
  void Start(Worker* worker);

  // Waits for the worker to come back and ends the thread; no Start after it.
  // Whoever may wake word() (devices, control) must be gone before this object.
  void Join();

  // Gives the thread up: it is never joined, and this object must never be
  // destroyed.
  void Abandon() { thread_.Detach(); }

  // Whether it is inside the Run() of a worker, or about to be.
  bool busy() const { return next_.load() != nullptr || busy_.load(); }

  FutexWord* word() { return &word_; }
  const FutexWord* word() const { return &word_; }
  // For devices that wake the thread through HostHooks::notify.
  uint64_t token() const { return token_.number(); }

 private:
  WorkerThread() = default;
  void Loop();

  FutexWord word_;
  WakeToken token_{&word_};
  std::atomic<Worker*> next_{nullptr};
  std::atomic<bool> busy_{false};
  std::atomic<bool> exit_{false};
  Thread thread_;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_SESSION_WORKER_THREAD_H_
