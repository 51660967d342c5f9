// Console: what a launcher's own readers get, written by a thread, for a loop
// that must not wait for them: a pipe that nobody reads, a terminal that has
// been told to hold, and signals are still heard.
//
//   WEFT_ASSIGN_OR_RETURN(auto console, Console::Open(1, 2));
//   console->Write(Stream::kOut, text);   // never waits
//   if (console->full()) ...              // take nothing more from others
//   console->Finish(kForEver);            // all is out
//
// What is written to both comes out in the order of the calls. A stream that
// fails takes nothing more; the first failure of each is kept.
//
// Threading: thread-compatible; the thread is its own. Ownership: borrows the
// descriptors. A thread that is not done at the end is left behind, where it
// waits.
#ifndef WEFT_RUNTIME_LAUNCH_CONSOLE_H_
#define WEFT_RUNTIME_LAUNCH_CONSOLE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/launch/streams.h"

namespace weft::launch {

class Console {
 public:
  static constexpr uint64_t kForEver = UINT64_MAX;
  // Bytes that wait, from which on it is full.
  static constexpr size_t kRoom = size_t{1} << 20;

  // kNoThread.
  static absl::StatusOr<std::unique_ptr<Console>> Open(int out, int err);
  ~Console();  // waits for nothing
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void Write(Stream stream, absl::string_view text);
  bool full() const;
  // Waits until all is written, or has failed. False: it took too long.
  bool Finish(uint64_t timeout_ns);
  // Why the stream failed, as errno; 0: it did not.
  int error(Stream stream) const;

 private:
  class State;
  explicit Console(std::shared_ptr<State> state);
  const std::shared_ptr<State> state_;
};

}  // namespace weft::launch

#endif  // WEFT_RUNTIME_LAUNCH_CONSOLE_H_
