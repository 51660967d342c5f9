#include "runtime/session/control.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "glog/logging.h"

namespace weft::runtime {

using actor::Message;
using actor::MessageKind;

namespace {

// How long workers have to say who waits for what.
constexpr uint64_t kReportNs = 50'000'000;
constexpr uint64_t kLongestWaitNs = 1'000'000'000;
// Short periods of a lease: those of a run that is to stop may grow long.
constexpr uint64_t kMostAhead = 32;

Message Stop() {
  Message message;
  message.kind = MessageKind::kStop;
  return message;
}

}  // namespace

Control::Control(Program* program,
                 const std::vector<std::unique_ptr<WorkerThread>>& threads,
                 FutexWord* word, const SessionOptions& options,
                 const std::atomic<bool>* stop)
    : program_(*program),
      threads_(threads),
      word_(*word),
      options_(options),
      stop_(stop),
      pace_(options.periods_in_flight, kMostAhead),
      finished_(program->workers().size(), 0),
      left_(program->workers().size(), false),
      no_memory_(MakeError(
          ErrorCode::kOutOfMemory,
          absl::StrCat("program '", program->name(),
                       "': the system gave its control no more memory"))),
      reported_(program->workers().size(), false) {}

absl::StatusOr<uint64_t> Control::Run(uint64_t first_step, uint64_t periods) {
  try {
    return RunToEnd(first_step, periods);
  } catch (const std::bad_alloc&) {
    // Nobody else tells workers to leave, and the session's end waits for them.
    CallBack();
    return no_memory_;
  }
}

// Ends a run without any memory for doing so.
void Control::CallBack() {
  for (size_t w = started_; w < left_.size(); ++w) Left(w);
  aborting_ = true;
  if (deadline_ns_ == 0) deadline_ns_ = NowNs() + 2 * options_.drain_ns;
  Broadcast(Message::Abort());
  while (left_count_ < left_.size()) {
    if (NowNs() >= deadline_ns_) {
      stuck_ = true;
      return;
    }
    const uint32_t n =
        program_.control_box()->Drain([this](const Message& message) {
          if (message.kind == MessageKind::kStop) Left(message.reg);
        });
    if (n == 0) WaitForMessages();
  }
}

absl::StatusOr<uint64_t> Control::RunToEnd(uint64_t first_step,
                                           uint64_t periods) {
  first_ = program_.periods_done;
  end_ = first_ + periods;
  lease_ = first_;
  progress_ns_ = NowNs();
  next_report_ns_ = progress_ns_ + options_.stall_report_ns;
  pace_.Begin(first_, progress_ns_);
  for (size_t w = 0; w < finished_.size(); ++w) {
    Worker& worker = *program_.workers()[w];
    finished_[w] = worker.has_actors() ? first_ : ~uint64_t{0};
    worker.Begin(first_step);
    threads_[w]->Start(&worker);
    started_ = w + 1;
  }
  ExtendLease();
  while (left_count_ < left_.size()) {
    uint32_t n = program_.control_box()->Drain(
        [this](const Message& message) { OnMessage(message); });
    LookAtFinished();
    ExtendLease();
    if (left_count_ == left_.size()) break;
    if (n == 0) WaitForMessages();
    CheckPeers();
    CheckProgress();
    if (stuck_) break;
    Attend();
  }
  return Result();
}

absl::StatusOr<uint64_t> Control::Result() const {
  if (!cause_.ok()) return WithUndrained(cause_);
  for (const auto& worker : program_.workers()) {
    if (!worker->failure().ok()) return WithUndrained(worker->failure());
  }
  program_.periods_done = lease_;
  return lease_ - first_;
}

// The failure, and which devices have not ended their work since.
absl::Status Control::WithUndrained(const absl::Status& failure) const {
  if (stuck_) return failure;  // workers may still be writing their lists
  std::vector<std::string> late;
  for (const auto& worker : program_.workers()) {
    late.insert(late.end(), worker->undrained().begin(),
                worker->undrained().end());
  }
  if (late.empty()) return failure;
  absl::Status longer(
      failure.code(),
      absl::StrCat(failure.message(), "; after ", options_.drain_ns / 1'000'000,
                   " ms work is under way on ", absl::StrJoin(late, ", ")));
  failure.ForEachPayload(
      [&longer](absl::string_view url, const absl::Cord& cord) {
        longer.SetPayload(url, cord);
      });
  return longer;
}

uint64_t Control::SlowestFinished() const {
  uint64_t slowest = ~uint64_t{0};
  for (uint64_t f : finished_) slowest = std::min(slowest, f);
  // A program without actors has nothing to wait for.
  return slowest == ~uint64_t{0} ? end_ : slowest;
}

void Control::Broadcast(const Message& message) {
  for (size_t w = 0; w < left_.size(); ++w) {
    if (!left_[w]) program_.ports()[w].Send(message);
  }
}

// A longer lease where work is wanted, else the end once all is done.
void Control::ExtendLease() {
  if (stopping_ || aborting_) return;
  const uint64_t slowest = SlowestFinished();
  stop_seen_ = stop_ != nullptr && stop_->load();
  if (!stop_seen_) {
    const uint64_t lease =
        std::min(end_, slowest + pace_.Ahead(slowest, NowNs()) + 1);
    if (lease > lease_) {
      lease_ = lease;
      bool any = false;
      for (size_t w = 0; w < finished_.size(); ++w) {
        if (!program_.workers()[w]->has_actors()) continue;
        program_.ports()[w].Send(Message::Start(lease_));
        any = true;
      }
      if (any) return;
    }
  }
  if (slowest < lease_) return;
  stopping_ = true;
  Broadcast(Stop());
}

void Control::LookAtFinished() {
  bool any = false;
  for (size_t w = 0; w < finished_.size(); ++w) {
    const uint64_t finished = program_.workers()[w]->finished();
    if (finished <= finished_[w]) continue;
    finished_[w] = finished;
    any = true;
  }
  if (!any) return;
  progress_ns_ = NowNs();
  next_report_ns_ = progress_ns_ + options_.stall_report_ns;
  unattended_ = options_.attend != nullptr;
}

void Control::OnMessage(const Message& message) {
  const size_t w = message.reg;
  switch (message.kind) {
    case MessageKind::kFinished:  // as its worker says itself
      break;
    case MessageKind::kStop:
      Left(w);
      break;
    case MessageKind::kAbort:
      Abort(program_.workers()[w]->failure());
      break;
    case MessageKind::kStart:
      reported_[w] = true;
      FinishReports();
      break;
    default:
      break;
  }
}

void Control::Left(size_t worker) {
  if (left_[worker]) return;
  left_[worker] = true;
  ++left_count_;
}

void Control::Abort(absl::Status cause) {
  if (cause_.ok()) cause_ = std::move(cause);
  if (aborting_) return;
  aborting_ = true;
  // A worker waits once for all its devices; the rest is for hearing of it.
  deadline_ns_ = NowNs() + 2 * options_.drain_ns;
  Broadcast(Message::Abort());
}

void Control::WaitForMessages() {
  const uint64_t now = NowNs();
  uint64_t until = now + kLongestWaitNs;
  if (deadline_ns_ != 0) until = std::min(until, deadline_ns_);
  if (reports_until_ns_ != 0) until = std::min(until, reports_until_ns_);
  if (!aborting_) {
    until = std::min(until, next_report_ns_);
    if (options_.attend != nullptr) {
      // Periods finish, and nobody tells before the lease is nearly used up.
      const uint64_t look_ns = now + SessionOptions::kAttendNs;
      until = std::min(until, unattended_ ? attend_ns_ : look_ns);
    }
    if (options_.stall_abort_ns != 0) {
      until = std::min(until, progress_ns_ + options_.stall_abort_ns);
    }
  }
  const uint32_t seen = word_.Announce();
  const bool news = (stop_ != nullptr && !stopping_ && !aborting_ &&
                     stop_->load() != stop_seen_) ||
                    !PeerFailure().ok();
  if (program_.control_box()->Empty() && !news && until > now) {
    word_.SleepFor(seen, until - now);
  }
  word_.Awake();
}

void Control::Attend() {
  if (!unattended_ || aborting_ || NowNs() < attend_ns_) return;
  absl::Status status = options_.attend();
  attend_ns_ = NowNs() + SessionOptions::kAttendNs;
  unattended_ = false;
  if (!status.ok()) Abort(std::move(status));
}

// A rank that has failed, or died, may be one that no worker waits for.
void Control::CheckPeers() {
  absl::Status failure = PeerFailure();
  if (!failure.ok()) Abort(std::move(failure));
}

absl::Status Control::PeerFailure() const {
  if (aborting_ || !options_.wire.has_value()) return absl::OkStatus();
  return options_.wire->rendezvous->failure();
}

void Control::CheckProgress() {
  LookAtFinished();
  if (!program_.control_box()->Empty()) return;  // there is some
  const uint64_t now = NowNs();
  if (deadline_ns_ != 0 && now >= deadline_ns_) {
    for (size_t w = 0; w < left_.size(); ++w) {
      if (left_[w]) continue;
      LOG(ERROR) << "worker " << w << " does not come back; it is "
                 << program_.workers()[w]->CurrentAct();
    }
    stuck_ = true;
    return;
  }
  if (reports_until_ns_ != 0 && now >= reports_until_ns_) FinishReports();
  if (aborting_) return;
  if (now >= next_report_ns_) AskForReports();
  if (options_.stall_abort_ns != 0 &&
      now >= progress_ns_ + options_.stall_abort_ns) {
    Abort(MakeError(ErrorCode::kInternal,
                    absl::StrCat("program '", program_.name(),
                                 "' has not finished a period in ",
                                 options_.stall_abort_ns / 1'000'000, " ms")));
  }
}

void Control::AskForReports() {
  const uint64_t now = NowNs();
  next_report_ns_ = now + options_.stall_report_ns + kReportNs;
  reports_until_ns_ = now + kReportNs;
  std::fill(reported_.begin(), reported_.end(), false);
  for (size_t w = 0; w < left_.size(); ++w) {
    if (!left_[w]) program_.workers()[w]->RequestReport();
  }
}

// When all have answered, or time is up, with what there is.
void Control::FinishReports() {
  if (reports_until_ns_ == 0) return;
  const bool late = NowNs() >= reports_until_ns_;
  std::string text = absl::StrCat(
      "program '", program_.name(), "' has not finished a period for ",
      (NowNs() - progress_ns_) / 1'000'000, " ms; ", SlowestFinished() - first_,
      " of ", end_ - first_, " done");
  for (size_t w = 0; w < left_.size(); ++w) {
    if (reported_[w]) {
      absl::StrAppend(&text, "\n", program_.workers()[w]->TakeReport());
    } else if (!left_[w]) {
      if (!late) return;
      absl::StrAppend(&text, "\nworker ", w, ": ",
                      program_.workers()[w]->CurrentAct());
    }
  }
  reports_until_ns_ = 0;
  if (options_.on_stall) {
    options_.on_stall(text);
  } else {
    LOG(WARNING) << text;
  }
}

}  // namespace weft::runtime
