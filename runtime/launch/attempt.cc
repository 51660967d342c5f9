#include "runtime/launch/attempt.h"

#include <poll.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "runtime/launch/report.h"

namespace weft::launch {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kNsPerMs = 1'000'000;
// Ranks that hear of a failure end within less than that.
constexpr int64_t kMomentNs = 200 * kNsPerMs;
// One rank that writes without end keeps nobody else waiting.
constexpr int kReadsAtOnce = 256;
// How often to look whether there is room again for what ranks write.
constexpr int64_t kFullNs = 10 * kNsPerMs;

// One rank with what it has written.
struct Running {
  const RankStart* start;
  std::optional<Child> child;
  std::unique_ptr<WritableFile> file;
  LineSplitter lines[2];
  bool open[2] = {true, true};
  std::string error;  // that waits for its end
  bool in_error = false;
  RankEnd end;
};

class Loop {
 public:
  explicit Loop(const AttemptOptions& options) : options_(options) {}

  absl::StatusOr<AttemptEnd> Run() {
    // A child that goes is killed: so are those before one that fails.
    for (const RankStart& start : options_.ranks) {
      WEFT_RETURN_IF_ERROR(Start(start));
    }
    alive_ = ranks_.size();
    while (alive_ > 0) {
      WaitForEvents();
      while (int number = options_.signals->Next()) OnSignal(number);
      for (Running& rank : ranks_) {
        if (rank.child.has_value()) OnRank(&rank);
      }
      TellOfWait();
      Escalate();
    }
    AttemptEnd result;
    for (Running& rank : ranks_) result.ranks.push_back(rank.end);
    result.stop_signal = stop_signal_;
    result.failed = failed_ && !OnlyStopped();
    return result;
  }

 private:
  // A rank that died of the signal, before it could stop with the others, took
  // them along.
  bool OnlyStopped() const {
    return died_of_signal_ &&
           std::all_of(ranks_.begin(), ranks_.end(), [](const Running& rank) {
             const RankEnd& end = rank.end;
             return end.end.ok() || end.asked || LostAPeer(end.end);
           });
  }

  absl::Status Start(const RankStart& start) {
    Running rank;
    rank.start = &start;
    rank.end.rank = start.rank;
    const StreamRule& out = Rule(rank, Stream::kOut);
    const StreamRule& err = Rule(rank, Stream::kErr);
    if (out.file || err.file) {
      absl::StatusOr<std::unique_ptr<WritableFile>> file =
          options_.os->Append(start.output_file);
      if (!file.ok()) {
        return MakeError(ErrorCode::kWriteFailed, file.status().message());
      }
      rank.file = *std::move(file);
    }
    WEFT_ASSIGN_OR_RETURN(Child child, Child::Start(start.child));
    rank.child.emplace(std::move(child));
    ranks_.push_back(std::move(rank));
    return absl::OkStatus();
  }

  const StreamRule& Rule(const Running& rank, Stream stream) const {
    return options_.streams.of(rank.start->local_rank, stream);
  }

  int64_t Now() const { return options_.clock->MonotonicNs(); }

  bool Full() const { return options_.full && options_.full(); }

  void WaitForEvents() {
    const bool full = Full();
    std::vector<pollfd> fds = {{options_.signals->handle(), POLLIN, 0}};
    for (const Running& rank : ranks_) {
      if (!rank.child.has_value()) continue;
      fds.push_back({rank.child->handle(), POLLIN, 0});
      if (rank.open[0] && !full) fds.push_back({rank.child->out(), POLLIN, 0});
      if (rank.open[1] && !full) fds.push_back({rank.child->err(), POLLIN, 0});
    }
    int timeout = -1;
    int64_t next_ns = std::min(next_ns_, tell_ns_);
    if (full) next_ns = std::min(next_ns, Now() + kFullNs);
    if (next_ns != kNever) {
      const int64_t left = std::max<int64_t>(0, next_ns - Now());
      // Rounded up: a deadline that is almost there is waited for, not polled.
      timeout = static_cast<int>(
          std::min<int64_t>((left + kNsPerMs - 1) / kNsPerMs, 60'000));
    }
    poll(fds.data(), fds.size(), timeout);
  }

  void OnRank(Running* rank) {
    // Before its output: what it wrote before its end is read after it.
    const bool ended = rank->child->ended();
    Read(rank, Stream::kOut, rank->child->out(), ended);
    Read(rank, Stream::kErr, rank->child->err(), ended);
    if (!ended) return;
    for (Stream stream : {Stream::kOut, Stream::kErr}) {
      rank->lines[static_cast<int>(stream)].Finish(
          [&](absl::string_view line) { Take(rank, stream, line); });
    }
    if (!rank->error.empty() && !options_.os->Exists(rank->start->error_file)) {
      options_.to_stderr(rank->error);
    }
    rank->end.end = rank->child->Reap();
    rank->end.order = order_++;
    rank->child.reset();
    --alive_;
    const ChildEnd& end = rank->end.end;
    const bool stopped = stop_signal_ != 0 && end.ended_by(stop_signal_);
    rank->end.asked =
        stopped || (asked_ && (end.signal != 0 || end.ended_by(SIGTERM)));
    died_of_signal_ = died_of_signal_ || (stopped && !asked_);
    if (!end.ok() && !rank->end.asked) OnFailure(rank->end);
  }

  void Read(Running* rank, Stream stream, int fd, bool ended) {
    const int index = static_cast<int>(stream);
    char bytes[16384];
    for (int i = 0; i < kReadsAtOnce && rank->open[index]; ++i) {
      if (!ended && Full()) return;
      const ssize_t got = read(fd, bytes, sizeof(bytes));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) {
        rank->open[index] = false;
        return;
      }
      rank->lines[index].Add(
          absl::string_view(bytes, static_cast<size_t>(got)),
          [&](absl::string_view line) { Take(rank, stream, line); });
    }
  }

  void Take(Running* rank, Stream stream, absl::string_view line) {
    const StreamRule& rule = Rule(*rank, stream);
    if (rule.file && rank->file != nullptr) {
      // A line that a full disk does not take is lost, and the job goes on.
      rank->file->Append(absl::StrCat(line, "\n")).IgnoreError();
    }
    if (rule.console == Show::kNone) return;
    if (rule.console == Show::kWarnings && !IsWarning(line)) return;
    const std::string prefix =
        rule.bare ? "" : absl::StrCat("[r", rank->start->rank, "] ");
    const std::string text = absl::StrCat(prefix, line, "\n");
    if (rule.console == Show::kAllButErrors &&
        (rank->in_error || BeginsError(line))) {
      rank->in_error = !EndsError(line);
      rank->error += text;
      return;
    }
    if (stream == Stream::kOut) {
      options_.to_stdout(text);
    } else {
      options_.to_stderr(text);
    }
  }

  void OnFailure(const RankEnd& end) {
    if (options_.on_failure) options_.on_failure(end);
    if (std::exchange(failed_, true)) return;
    first_ = end;
    tell_ns_ = Now() + kMomentNs;
    const int64_t told = Now() + static_cast<int64_t>(options_.told_ns);
    next_ns_ = std::min(next_ns_, told);
  }

  void TellOfWait() {
    if (alive_ == 0 || Now() < tell_ns_) return;
    tell_ns_ = kNever;
    if (options_.on_wait) options_.on_wait(first_);
  }

  void OnSignal(int number) {
    const bool again = (number == SIGINT && interrupted_) ||
                       (number == SIGTERM && terminated_);
    interrupted_ = interrupted_ || number == SIGINT;
    terminated_ = terminated_ || number == SIGTERM;
    if (again) return KillAll();
    if (stop_signal_ != 0) return;
    stop_signal_ = number == SIGUSR1 || number == SIGUSR2 ? SIGTERM : number;
    next_ns_ =
        std::min(next_ns_, Now() + static_cast<int64_t>(options_.grace_ns));
    kill_next_ = kill_next_ || !failed_;
    SignalAll(stop_signal_);
  }

  // Those who are still there at a deadline are asked; at the next, killed.
  void Escalate() {
    if (Now() < next_ns_) return;
    if (kill_next_) return KillAll();
    asked_ = true;
    SignalAll(SIGTERM);
    SignalAll(SIGCONT);  // one that is stopped hears it, too
    kill_next_ = true;
    next_ns_ = Now() + static_cast<int64_t>(options_.asked_ns);
  }

  void KillAll() {
    asked_ = true;
    next_ns_ = kNever;
    SignalAll(SIGKILL);
  }

  void SignalAll(int number) {
    for (const Running& rank : ranks_) {
      if (rank.child.has_value()) rank.child->Signal(number);
    }
  }

  const AttemptOptions& options_;
  std::vector<Running> ranks_;
  size_t alive_ = 0;
  uint64_t order_ = 0;
  int stop_signal_ = 0;
  bool interrupted_ = false;
  bool terminated_ = false;
  bool failed_ = false;
  bool died_of_signal_ = false;  // a rank, of the one that asks all to stop
  bool asked_ = false;           // by us, other than by a signal that came
  bool kill_next_ = false;       // at the next deadline
  int64_t next_ns_ = kNever;
  RankEnd first_;             // failure
  int64_t tell_ns_ = kNever;  // when to tell of it
};

}  // namespace

absl::StatusOr<std::unique_ptr<SignalGate>> SignalGate::Open() {
  auto gate = std::unique_ptr<SignalGate>(new SignalGate);
  sigset_t set, before;
  sigemptyset(&set);
  for (int number : kSignals) {
    // nohup, and shells for what they start with &, ignore some on purpose.
    struct sigaction action;
    if (sigaction(number, nullptr, &action) == 0 &&
        action.sa_handler == SIG_IGN) {
      continue;
    }
    sigaddset(&set, number);
  }
  pthread_sigmask(SIG_BLOCK, &set, &before);
  for (int number : kSignals) {
    if (sigismember(&set, number) == 1 && sigismember(&before, number) == 0) {
      gate->added_.push_back(number);
    }
  }
  gate->fd_ = Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (gate->fd_.get() >= 0) return gate;
  return MakeError(ErrorCode::kNoDescriptor,
                   absl::StrCat("cannot wait for signals: ",
                                std::generic_category().message(errno)));
}

SignalGate::~SignalGate() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : added_) sigaddset(&set, number);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

int SignalGate::Next() {
  signalfd_siginfo info;
  ssize_t got;
  do {
    got = read(fd_.get(), &info, sizeof(info));
  } while (got < 0 && errno == EINTR);
  return got == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
}

absl::StatusOr<AttemptEnd> RunAttempt(const AttemptOptions& options) {
  return Loop(options).Run();
}

}  // namespace weft::launch
