#include "runtime/launch/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/error.h"
#include "core/base/os.h"
#include "core/base/status_macros.h"

namespace weft::launch {
namespace {

// The first that is no standard one: a shell can name it.
constexpr int kSecretFd = 3;
constexpr uint64_t kMaxChildren = uint64_t{1} << 20;  // bytes of their list

absl::Status FromErrno(const ChildOptions& options, absl::string_view what,
                       int error) {
  ErrorCode code = ErrorCode::kBadLaunch;
  if (error == EMFILE || error == ENFILE) code = ErrorCode::kNoDescriptor;
  if (error == EAGAIN || error == ENOMEM) code = ErrorCode::kNoThread;
  return MakeError(
      code, absl::StrCat("cannot start '", options.argv[0], "': cannot ", what,
                         ": ", std::generic_category().message(error)));
}

struct Pipe {
  Descriptor read;
  Descriptor write;
};

absl::StatusOr<Pipe> MakePipe(const ChildOptions& options) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return FromErrno(options, "make a pipe", errno);
  }
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

// For the kernel: pointers into `texts`.
std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) {
    out.push_back(const_cast<char*>(text.c_str()));
  }
  out.push_back(nullptr);
  return out;
}

// Everything that the child needs, made before it is there: between fork and
// exec of a process with threads nothing may be allocated.
struct Prepared {
  std::vector<char*> argv;
  std::vector<char*> env;
  int null = -1;
  int out = -1;
  int err = -1;
  int secret = -1;
  int report = -1;
  pid_t parent = 0;
};

// Of the signals' handling the child inherits what users want it to (nohup
// ignores SIGHUP) and nothing of ours.
void ResetSignals() {
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// What getdents64 writes; its name follows.
struct Entry {
  uint64_t number;
  int64_t next;
  uint16_t size;
  uint8_t type;
};
constexpr size_t kNameOffset = 19;

// All but the standard three go when the program is there. Nothing is
// allocated.
bool CloseOthersOnExec() {
  // As a system call it needs no newer C library.
  if (syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return true;
  // A kernel before 5.11, or a filter of system calls.
  const int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return false;
  alignas(Entry) char bytes[4096];
  long got;
  while ((got = syscall(SYS_getdents64, folder, bytes, sizeof(bytes))) > 0) {
    for (long at = 0; at < got;) {
      Entry entry;
      std::memcpy(&entry, bytes + at, kNameOffset);
      int fd = 0;
      const char* digit = bytes + at + kNameOffset;
      for (; *digit >= '0' && *digit <= '9'; ++digit) {
        fd = 10 * fd + (*digit - '0');
      }
      if (fd >= 3 && fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return false;
      at += entry.size;
    }
  }
  return got == 0;
}

[[noreturn]] void RunChild(const Prepared& p) {
  auto give_up = [&p]() {
    const int error = errno;
    // Nobody could be told of a failure to tell.
    if (write(p.report, &error, sizeof(error)) < 0) _exit(126);
    _exit(126);
  };
  setpgid(0, 0);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up();
  // It may have died before this was said.
  if (getppid() != p.parent) _exit(126);
  ResetSignals();
  if (dup2(p.null, STDIN_FILENO) < 0 || dup2(p.out, STDOUT_FILENO) < 0 ||
      dup2(p.err, STDERR_FILENO) < 0) {
    give_up();
  }
  if (!CloseOthersOnExec()) give_up();
  if (p.secret >= 0 && dup2(p.secret, kSecretFd) < 0) give_up();
  execve(p.argv[0], p.argv.data(), p.env.data());
  give_up();
  _exit(126);
}

// The error with which the child did not become the program; 0: it did.
int ReadReport(int fd) {
  int error = 0;
  ssize_t got;
  do {
    got = read(fd, &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  return got == sizeof(error) ? error : 0;
}

// Where the launcher itself has no standard descriptors, new ones take their
// numbers: what the child needs must not be written over.
absl::Status MoveAway(const ChildOptions& options, Descriptor* descriptor) {
  if (descriptor->get() > kSecretFd) return absl::OkStatus();
  Descriptor moved(fcntl(descriptor->get(), F_DUPFD_CLOEXEC, kSecretFd + 1));
  if (moved.get() < 0) {
    return FromErrno(options, "move a descriptor", errno);
  }
  *descriptor = std::move(moved);
  return absl::OkStatus();
}

void SetNonblocking(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

}  // namespace

absl::StatusOr<Child> Child::Start(const ChildOptions& options) {
  WEFT_ASSIGN_OR_RETURN(Pipe out, MakePipe(options));
  WEFT_ASSIGN_OR_RETURN(Pipe err, MakePipe(options));
  WEFT_ASSIGN_OR_RETURN(Pipe report, MakePipe(options));
  WEFT_ASSIGN_OR_RETURN(Pipe secret, MakePipe(options));
  Descriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (null.get() < 0) return FromErrno(options, "open /dev/null", errno);
  for (Descriptor* one :
       {&out.write, &err.write, &report.write, &secret.read, &null}) {
    WEFT_RETURN_IF_ERROR(MoveAway(options, one));
  }
  std::vector<std::string> env = options.env;
  if (!options.secret.empty()) {
    env.push_back(absl::StrCat(options.secret_variable, "=", kSecretFd));
    // Smaller than a pipe's buffer: this does not wait.
    const ssize_t size = static_cast<ssize_t>(options.secret.size());
    if (write(secret.write.get(), options.secret.view().data(),
              options.secret.size()) != size) {
      return FromErrno(options, "write to a pipe", errno);
    }
  }
  Prepared p;
  p.argv = Pointers(options.argv);
  p.env = Pointers(env);
  p.null = null.get();
  p.out = out.write.get();
  p.err = err.write.get();
  p.report = report.write.get();
  p.secret = options.secret.empty() ? -1 : secret.read.get();
  p.parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return FromErrno(options, "fork", errno);
  if (pid == 0) RunChild(p);
  Child child;
  child.pid_ = pid;
  // As the child does: whoever comes first.
  setpgid(pid, pid);
  report.write.Close();
  const int error = ReadReport(report.read.get());
  if (error != 0) return FromErrno(options, "run it", error);
  child.handle_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (child.handle_.get() < 0) {
    return FromErrno(options, "get a descriptor of it", errno);
  }
  SetNonblocking(out.read.get());
  SetNonblocking(err.read.get());
  child.out_ = std::move(out.read);
  child.err_ = std::move(err.read);
  return child;
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      handle_(std::move(other.handle_)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)) {}

Child::~Child() {
  if (pid_ < 0) return;
  Signal(SIGKILL);
  Reap();
}

void Child::Signal(int number) const {
  if (pid_ < 0) return;
  // The group may not be there yet, or have another member only.
  if (kill(-pid_, number) != 0) kill(pid_, number);
}

bool Child::ended() const {
  pollfd one = {handle_.get(), POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

ChildEnd Child::Reap() {
  ChildEnd end;
  if (pid_ < 0) return end;
  siginfo_t info{};
  int failed;
  do {
    failed = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  } while (failed != 0 && errno == EINTR);
  // While it is not reaped, its number and that of its group are nobody else's.
  kill(-pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  return end;
}

void AdoptOrphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

void KillOrphans() {
  while (true) {
    pid_t pid = waitpid(-1, nullptr, WNOHANG);
    if (pid > 0) continue;
    if (pid < 0) return;  // no child is left
    absl::StatusOr<std::string> children = RealOs().ReadFile(
        absl::StrCat("/proc/self/task/", getpid(), "/children"), kMaxChildren);
    if (!children.ok()) return;
    bool any = false;
    for (absl::string_view word : absl::StrSplit(*children, ' ')) {
      if (absl::SimpleAtoi(word, &pid)) any = kill(pid, SIGKILL) == 0 || any;
    }
    if (!any) return;
    waitpid(-1, nullptr, 0);
  }
}

std::string SignalName(int number) {
  const char* name = sigabbrev_np(number);
  return name == nullptr ? absl::StrCat("signal ", number)
                         : absl::StrCat("SIG", name);
}

}  // namespace weft::launch
