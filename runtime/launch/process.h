// Child: a process that this one has started, with its own process group, and
// that dies with it.
//
//   ChildOptions options;
//   options.argv = {"/usr/bin/weft", "train", "job.txtpb"};
//   options.env = {"RANK=0"};
//   WEFT_ASSIGN_OR_RETURN(Child child, Child::Start(options));
//   poll child.out(), child.err(), child.handle() (readable: it has ended)
//   ChildEnd end = child.Reap();
//
// When this process ends, however, the kernel kills the child. What the child
// has started in its own group is killed when the child has ended. Of this
// process's descriptors the child gets its standard ones and the secret's.
//
// Threading: thread-compatible; start children from a thread that lives as long
// as they do: the kernel takes its end for that of the process. Ownership:
// kills and reaps what still runs when it goes.
#ifndef WEFT_RUNTIME_LAUNCH_PROCESS_H_
#define WEFT_RUNTIME_LAUNCH_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/secret.h"
#include "runtime/launch/descriptor.h"

namespace weft::launch {

struct ChildOptions {
  std::vector<std::string> argv;  // [0] is a path
  std::vector<std::string> env;   // "NAME=value", all of it
  // Not empty: the child can read it once from the descriptor whose number is
  // in the environment variable `secret_variable`.
  Secret secret;
  std::string secret_variable;
};

// How a process has ended.
struct ChildEnd {
  int exit_code = 0;
  int signal = 0;  // that ended it; 0: it ended by itself

  bool ok() const { return exit_code == 0 && signal == 0; }
  // As shells give it: 128 + n for signal n.
  int code() const { return signal != 0 ? 128 + signal : exit_code; }
  // It died of the signal or, as shells do that got it, ended with its code.
  bool ended_by(int number) const { return code() == 128 + number; }
};

class Child {
 public:
  // kBadLaunch where the program cannot be run; kNoDescriptor, kNoThread where
  // the system has no more descriptors or processes.
  static absl::StatusOr<Child> Start(const ChildOptions& options);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();

  pid_t pid() const { return pid_; }
  // Readable once it has ended.
  int handle() const { return handle_.get(); }
  // What it writes; both do not block.
  int out() const { return out_.get(); }
  int err() const { return err_.get(); }

  // To it and its group. Nothing where it has been reaped.
  void Signal(int number) const;
  bool ended() const;  // has ended; Reap() does not wait
  // Waits for its end, and kills what is left of its group. Once.
  ChildEnd Reap();

 private:
  Child() = default;

  pid_t pid_ = -1;  // -1: reaped
  Descriptor handle_, out_, err_;
};

// Makes this process the parent of all orphans below it, so that none escapes.
void AdoptOrphans();
// Kills and reaps every child of this process, and those that it inherits by
// that. For a process whose children are all to go.
void KillOrphans();

// "SIGKILL"; "signal 99" for those without a name.
std::string SignalName(int number);

}  // namespace weft::launch

#endif  // WEFT_RUNTIME_LAUNCH_PROCESS_H_
