// WakeToken: a number that stands for a worker's futex word outside the
// run-time. A plugin that calls the host service `notify` hands back the number
// that it was given with a stream, and the worker wakes:
//
//   WakeToken token(&word);
//   device->OpenStream(/*priority=*/0, token.number());
//   ...
//   WakeToken::Notify(number);      // HostHooks::notify
//
// A plugin may keep a number for longer than the worker lives: numbers are
// never used twice, and one whose token is gone wakes nobody.
//
// Threading: thread-safe; Notify neither blocks nor allocates. The destructor
// waits for those who are posting at that moment. Ownership: borrows the word,
// which outlives the token.
#ifndef WEFT_RUNTIME_BUS_WAKE_TOKEN_H_
#define WEFT_RUNTIME_BUS_WAKE_TOKEN_H_

#include <cstdint>

#include "runtime/bus/futex_word.h"

namespace weft::runtime {

class WakeToken {
 public:
  explicit WakeToken(FutexWord* word);
  // Nobody posts to the word through this token afterwards.
  ~WakeToken();
  WakeToken(const WakeToken&) = delete;
  WakeToken& operator=(const WakeToken&) = delete;

  // 0, which wakes nobody, where 1024 tokens live already: whoever gets no
  // number to notify with has to be polled.
  uint64_t number() const { return number_; }

  static void Notify(uint64_t number);

 private:
  uint64_t number_ = 0;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_BUS_WAKE_TOKEN_H_
