#include "runtime/session/worker_thread.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace weft::runtime {
namespace {

// An idle thread looks up once in so long, should a wake-up ever be lost.
constexpr uint64_t kParkNs = 10'000'000'000;

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerThread>> WorkerThread::Create(
    size_t number, const std::function<void(size_t)>& on_start) {
  std::unique_ptr<WorkerThread> thread(new WorkerThread());
  auto body = [number, self = thread.get(), on_start] {
    if (on_start) on_start(number);
    self->Loop();
  };
  WEFT_ASSIGN_OR_RETURN(
      thread->thread_,
      Thread::Start(absl::StrCat("weft-worker-", number), body));
  return thread;
}

WorkerThread::~WorkerThread() { Join(); }

void WorkerThread::Join() {
  exit_.store(true);
  word_.Post();
  thread_.Join();
}

void WorkerThread::Start(Worker* worker) {
  next_.store(worker);
  word_.Post();
}

void WorkerThread::Loop() {
  while (true) {
    uint32_t seen = word_.Announce();
    // Before next_ is taken: busy() may not be false in between.
    if (next_.load() != nullptr) busy_.store(true);
    Worker* worker = next_.exchange(nullptr);
    const bool exit = exit_.load();
    if (worker == nullptr && !exit) word_.SleepFor(seen, kParkNs);
    word_.Awake();
    if (worker != nullptr) {
      worker->Run();
      // Last of all: nobody may free the worker before.
      busy_.store(false);
    } else if (exit) {
      return;
    }
  }
}

}  // namespace weft::runtime
