#include "runtime/session/worker_thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <string>

namespace weft::runtime {
namespace {

// An idle thread looks up once in so long, should a wake-up ever be lost.
constexpr uint64_t kParkNs = 10'000'000'000;

}  // namespace

WorkerThread::WorkerThread(size_t number) {
  // Signals go to the program's own threads: the new one inherits the mask.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this, number] { Loop(number); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

WorkerThread::~WorkerThread() { Join(); }

void WorkerThread::Join() {
  if (!thread_.joinable()) return;
  exit_.store(true);
  word_.Post();
  thread_.join();
}

void WorkerThread::Start(Worker* worker) {
  next_.store(worker);
  word_.Post();
}

void WorkerThread::Loop(size_t number) {
  std::string name = "weft-worker-" + std::to_string(number);
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
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
