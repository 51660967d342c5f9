#include "runtime/pool/thread.h"

#include <signal.h>

#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace weft::runtime {
namespace {

struct Body {
  std::string name;
  std::function<void()> run;
};

void* Main(void* arg) {
  std::unique_ptr<Body> body(static_cast<Body*>(arg));
  pthread_setname_np(pthread_self(), body->name.c_str());
  body->run();
  return nullptr;
}

}  // namespace

absl::StatusOr<Thread> Thread::Start(const std::string& name,
                                     std::function<void()> body) {
  auto argument =
      std::make_unique<Body>(Body{name.substr(0, 15), std::move(body)});
  // The new thread inherits the mask: set afterwards, it would come too late.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t handle;
  const int error = pthread_create(&handle, nullptr, &Main, argument.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    return MakeError(ErrorCode::kNoThread,
                     absl::StrCat("thread '", name, "': ",
                                  std::generic_category().message(error)));
  }
  (void)argument.release();  // the thread's now
  return Thread(handle);
}

Thread::Thread(Thread&& other) noexcept { *this = std::move(other); }

Thread& Thread::operator=(Thread&& other) noexcept {
  if (this == &other) return *this;
  Join();
  handle_ = other.handle_;
  joinable_ = std::exchange(other.joinable_, false);
  return *this;
}

void Thread::Join() {
  if (!joinable_) return;
  joinable_ = false;
  pthread_join(handle_, nullptr);
}

void Thread::Detach() {
  if (!joinable_) return;
  joinable_ = false;
  pthread_detach(handle_);
}

}  // namespace weft::runtime
