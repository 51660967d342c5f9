#include "runtime/worker/worker.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "glog/logging.h"

namespace weft::runtime {

using actor::kNoActor;
using actor::Message;
using actor::MessageKind;

namespace {

// Messages that a stream can hold back: what acts of this plan can have sent
// and not yet seen read, and that the periods of a lease are finished.
uint64_t HeldBound(const plan::PlanView& view) {
  uint64_t bound = kMaxPeriodsInFlight + 1;
  for (uint32_t r = 0; r < view.num_registers(); ++r) {
    bound += 2 * uint64_t{view.reg(r).copies()} *
             std::max<size_t>(view.readers(r).size(), 1);
  }
  return bound;
}

// By actor: what reads data, and makes of it what other streams read, which is
// all that is where the sources are.
std::vector<bool> ReadersOfData(const plan::Plan& plan, uint32_t first_index,
                                const actor::ActorTable& table) {
  std::vector<bool> streams(static_cast<size_t>(plan.streams_size()));
  for (const plan::Task& task : plan.tasks()) {
    const bool source = task.kind() == plan::Task::SOURCE;
    if (source && !plan.streams(static_cast<int>(task.stream())).ordered()) {
      streams[task.stream()] = true;
    }
  }
  std::vector<bool> actors;
  for (uint32_t i = 0; i < table.size(); ++i) {
    const uint32_t task = table.id(i).index() - first_index;
    actors.push_back(streams[plan.tasks(static_cast<int>(task)).stream()]);
  }
  return actors;
}

}  // namespace

Worker::Worker(const Config& config, actor::ActorTable table)
    : config_(config),
      rank_(config.view->proto().rank()),
      executor_(*config.executor),
      table_(std::move(table)),
      local_(table_.queue_bound() + kControlMessages),
      acks_last_(&local_, table_.queue_bound() + kControlMessages),
      effects_(table_.effects_size(), &local_),
      slow_(table_.size()),
      reads_data_(
          ReadersOfData(config.view->proto(), config.first_index, table_)) {
  put_off_.reserve(table_.size());
  table_.Reserve(kMaxPeriodsInFlight + 1);
  if (config_.channels != nullptr) {
    config_.channels->Attach(config_.number, &table_, &local_);
  }
  const plan::Plan& plan = config_.view->proto();
  const uint64_t bound = HeldBound(*config_.view);
  for (int s = 0; s < plan.streams_size(); ++s) {
    const plan::Stream& stream = plan.streams(s);
    worker_of_stream_.push_back(static_cast<uint16_t>(stream.worker()));
    AsyncStream* async = nullptr;
    if (stream.worker() == config_.number &&
        !plan.devices(static_cast<int>(stream.device())).inline_()) {
      async_.push_back(std::make_unique<AsyncStream>(
          config_.streams[static_cast<size_t>(s)],
          absl::StrCat("stream '", stream.name(), "' of device ",
                       plan.devices(static_cast<int>(stream.device())).name()),
          bound));
      async = async_.back().get();
    }
    async_of_stream_.push_back(async);
  }
  if (config_.profile != nullptr) {
    std::vector<ProfileSlot> slots;
    for (const LaunchInfo& info : executor_.DescribeLaunches()) {
      slots.push_back({info.task, info.op, info.bytes});
    }
    config_.profile->SetSlots(std::move(slots));
    data_task_ = DataTasks(plan);
  }
}

void Worker::Begin(uint64_t first_step) {
  first_step_ = first_step;
  first_period_ = table_.periods_finished();
  finished_ = first_period_;
  leaving_ = Leaving::kNo;
  put_off_.clear();
  LookAtWire();
  const bool profiled =
      config_.profile != nullptr && config_.profile->recording();
  profile_ = profiled ? config_.profile : nullptr;
  observed_ = profiled || config_.trace != nullptr;
}

void Worker::Run() {
  const uint64_t begin_ns = profile_ != nullptr ? NowNs() : 0;
  while (true) {
    if (config_.wire != nullptr) {
      TakeAcksLast();
    } else {
      while (!local_.empty()) Deliver(local_.Pop());
    }
    if (ABSL_PREDICT_FALSE(!put_off_.empty())) {
      Try(TakePutOff());
      continue;
    }
    if (Poll()) {
      nap_ns_ = kFirstNapNs;
      continue;
    }
    FlushWire();
    if (leaving_ == Leaving::kAbort) break;
    if (leaving_ == Leaving::kStop && !Outstanding()) break;
    if (ABSL_PREDICT_FALSE(profile_ != nullptr)) {
      WaitObserved();
    } else {
      Wait();
    }
  }
  if (leaving_ == Leaving::kAbort) {
    undrained_ = DrainStreams(NowNs() + config_.drain_ns);
  } else if (!table_.drained()) {
    failure_ =
        MakeError(ErrorCode::kInternal,
                  absl::StrCat("worker ", config_.number, " stopped with ",
                               table_.credits_out(), " copies away"));
  }
  if (profile_ != nullptr) profile_->AddRun(NowNs() - begin_ns);
  Report(MessageKind::kStop);
}

// A function of its own: the loop of a worker without other ranks is as short
// as it can be.
ABSL_ATTRIBUTE_NOINLINE void Worker::TakeAcksLast() {
  acks_last_.TakeAll([this](const Message& message) { Deliver(message); });
}

// `message` lies in the queue and is not looked at after the first act, whose
// own messages may overwrite it.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline void Worker::Deliver(
    const Message& message) {
  uint32_t i = table_.OnMessage(message);
  if (ABSL_PREDICT_FALSE(i == kNoActor)) return OnOther(message);
  Try(i);
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline void Worker::Try(uint32_t i) {
  while (table_.CanAct(i)) {
    if (ABSL_PREDICT_FALSE(slow_[i] != 0) && !GoesAhead(i)) return;
    i = ActOnce(i);
  }
}

bool Worker::GoesAhead(uint32_t i) {
  const auto is_awaited = [this](uint32_t actor) {
    return !reads_data_[actor];
  };
  const bool others =
      !local_.empty() || !acks_last_.empty() ||
      (reads_data_[i] &&
       (std::any_of(put_off_.begin(), put_off_.end(), is_awaited) || Poll()));
  if (!others) {
    FlushWire();
    return leaving_ != Leaving::kAbort;
  }
  if (std::find(put_off_.begin(), put_off_.end(), i) == put_off_.end()) {
    put_off_.push_back(i);
  }
  return false;
}

uint32_t Worker::TakePutOff() {
  auto next = std::find_if(put_off_.begin(), put_off_.end(),
                           [this](uint32_t i) { return !reads_data_[i]; });
  if (next == put_off_.end()) next = put_off_.begin();
  const uint32_t actor = *next;
  put_off_.erase(next);
  return actor;
}

// Returns the actor to try next.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline uint32_t Worker::ActOnce(uint32_t i) {
  const uint32_t next = table_.Act(i, &effects_);
  acts_.store(acts_.load(std::memory_order_relaxed) + 1,
              std::memory_order_relaxed);
  const Executor::Work work = executor_.work(i);
  if (work != Executor::Work::kNone) {
    if (ABSL_PREDICT_FALSE(!Execute(i, executor_.record(i)))) return kNoActor;
    if (work == Executor::Work::kLong && PollIsDue(i)) unpolled_ = kPollEvery;
  }
  if (!effects_.at_tick().empty()) SendLate(executor_.record(i));
  if (ABSL_PREDICT_FALSE(table_.periods_finished() != finished_)) {
    OnPeriodsFinished();
  }
  if (++unpolled_ >= kPollEvery) Poll();
  return next;
}

// Returns false where the act failed; the worker then aborts.
bool Worker::Execute(uint32_t i, const TaskRecord& record) {
  const uint64_t step = StepOf(effects_.period());
  current_.store(i, std::memory_order_relaxed);
  absl::Status status;
  if (ABSL_PREDICT_FALSE(observed_)) {
    status = RunObserved(record, step);
  } else {
    status = executor_.Run(effects_, step);
  }
  current_.store(kNoActor, std::memory_order_relaxed);
  ++launches_;
  if (ABSL_PREDICT_FALSE(!status.ok())) {
    Fail(std::move(status));
    return false;
  }
  AsyncStream* async = async_of_stream_[record.stream];
  if (async != nullptr) {
    // A profile has marked each launch already.
    if (profile_ == nullptr) async->dirty = true;
    async->last_actor = i;
  }
  return true;
}

// Messages that wait until the device has done the act; the acks of a SEND,
// until its data is out.
void Worker::SendLate(const TaskRecord& record) {
  const absl::Span<const Message> messages = effects_.at_tick();
  AsyncStream* async = async_of_stream_[record.stream];
  if (record.mode == TaskRecord::Mode::kSend) {
    if (config_.channels->Hold(record.channel, messages)) return;
    async = nullptr;
  }
  if (async != nullptr && !MarkStream(async)) return;
  // With nothing under way on the stream the act is done already.
  if (async == nullptr || async->marked <= async->done) {
    for (const Message& m : messages) Route(m);
    return;
  }
  for (const Message& m : messages) {
    async->held.Push({async->marked, effects_.actor(), m});
  }
}

void Worker::RouteToRank(const Message& message) {
  absl::Status status = config_.channels->Tell(message);
  if (!status.ok()) Fail(std::move(status));
}

inline void Worker::Route(const Message& message) {
  if (message.destination.rank() != rank_) return RouteToRank(message);
  uint32_t worker = worker_of_stream_[message.destination.stream()];
  if (worker == config_.number) {
    local_.Push(message);
  } else {
    ++hops_;
    config_.ports[worker].Send(message);
  }
}

bool Worker::MarkStream(AsyncStream* async) {
  if (!async->dirty) return true;
  absl::Status status = async->stream->Mark(&async->marked);
  if (!status.ok()) {
    Fail(Annotate(status, DescribeActor(async->last_actor, "at or after")));
    return false;
  }
  async->dirty = false;
  return true;
}

// Everything that is not a REQ or ACK taken by an actor.
void Worker::OnOther(const Message& message) {
  if (table_.refused() != refused_) return OnRefused(message);
  switch (message.kind) {
    case MessageKind::kStart:
      for (uint32_t i : table_.leased()) Try(i);
      return;
    case MessageKind::kStop:
      if (leaving_ == Leaving::kNo) leaving_ = Leaving::kStop;
      return;
    case MessageKind::kAbort:
      table_.Abort();
      leaving_ = Leaving::kAbort;
      return;
    default:
      return;
  }
}

void Worker::OnRefused(const Message& message) {
  refused_ = table_.refused();
  if (leaving_ == Leaving::kAbort) return;
  Fail(MakeError(
      ErrorCode::kInternal,
      absl::StrCat("worker ", config_.number, " refused ",
                   actor::ToString(message), ": ", table_.refusal())));
}

void Worker::OnPeriodsFinished() {
  finished_ = table_.periods_finished();
  uint32_t& owed = owed_[finished_ % owed_.size()];
  for (auto& async : async_) {
    if (!MarkStream(async.get())) return;
    if (async->marked <= async->done) continue;
    ++owed;
    Message finished;
    finished.kind = MessageKind::kFinished;
    finished.sequence = finished_;
    async->held.Push({async->marked, async->last_actor, finished});
  }
  if (config_.channels != nullptr &&
      !config_.channels->Released(config_.channels->holds() + 1)) {
    ++owed;
    sending_.emplace_back(finished_, config_.channels->holds() + 1);
  }
  if (owed == 0) Finished(finished_);
}

void Worker::Release(const Held& held) {
  if (held.message.kind != MessageKind::kFinished) return Route(held.message);
  if (--owed_[held.message.sequence % owed_.size()] == 0) {
    Finished(held.message.sequence);
  }
}

// What is out lets periods be finished that waited for it.
void Worker::ReleaseFinished() {
  while (!sending_.empty() &&
         config_.channels->Released(sending_.front().second)) {
    const uint64_t period = sending_.front().first;
    sending_.pop_front();
    if (--owed_[period % owed_.size()] == 0) {
      Finished(period);
    }
  }
}

bool Worker::PollWire() {
  bool any = false;
  const uint32_t posts = config_.ports[config_.number].word->posts();
  const bool notified = std::exchange(posts_, posts) != posts;
  absl::Status status = config_.wire->Poll(&any, notified);
  if (!status.ok() && leaving_ != Leaving::kAbort) {
    Fail(std::move(status));
    return true;
  }
  if (config_.channels != nullptr) ReleaseFinished();
  return any;
}

// Peers may wait for what was put off.
void Worker::FlushWire() {
  if (config_.channels == nullptr || leaving_ == Leaving::kAbort) return;
  absl::Status status = config_.channels->Flush();
  if (!status.ok()) Fail(std::move(status));
}

// What no mailbox tells of. True where something came in.
bool Worker::PollOthers() {
  bool any = false;
  if (config_.wire != nullptr && PollWire()) any = true;
  if (!async_.empty() && PollStreams()) any = true;
  return any;
}

// True where something came in.
bool Worker::Poll() {
  unpolled_ = 0;
  bool any = PollOthers();
  if (config_.wire != nullptr) polled_ticks_ = CpuTicks();
  if (config_.ports[config_.number].box->Drain(
          [this](const Message& m) { local_.Push(m); }) != 0) {
    any = true;
  }
  if (ABSL_PREDICT_FALSE(report_wanted_.load(std::memory_order_relaxed))) {
    WriteReport();
  }
  return any;
}

bool Worker::PollStreams() {
  bool any = false;
  for (auto& async : async_) {
    if (async->awaited() && PollStream(async.get())) any = true;
  }
  return any;
}

bool Worker::PollStream(AsyncStream* async) {
  uint64_t done = 0;
  absl::Status status = async->stream->Poll(&done);
  if (!status.ok()) {
    if (leaving_ == Leaving::kAbort) return false;
    Fail(Annotate(status,
                  DescribeActor(async->held.empty() ? async->last_actor
                                                    : async->held.Front().actor,
                                "at or after")));
    return true;
  }
  if (done <= async->done) return false;
  async->done = done;
  if (!async->timed.empty()) TakeTimes(async);
  bool any = false;
  while (!async->held.empty() && async->held.Front().tick <= done) {
    Release(async->held.Pop());
    any = true;
  }
  return any;
}

bool Worker::Outstanding() const {
  if (!sending_.empty()) return true;
  for (const auto& async : async_) {
    if (async->awaited()) return true;
  }
  return false;
}

// Whether a device is at work that a profile measures.
bool Worker::TimesAwaited() const {
  for (const auto& async : async_) {
    if (!async->timed.empty()) return true;
  }
  return false;
}

// How often to look before another thread is let run. What comes from a rank on
// this core can't come before that has it; what comes from another core is soon
// there, and a switch, and back, takes as long as many looks.
uint32_t Worker::Looks() const {
  const bool alone = config_.channels == nullptr;
  switch (alone ? Whereabouts::kUnknown : config_.channels->Awaited()) {
    case Whereabouts::kThisCore:
      return 1;
    case Whereabouts::kAnotherCore:
      return 64;
    case Whereabouts::kUnknown:
      break;
  }
  return 12;
}

// A look while there is nothing to do.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline bool Worker::SomethingCame() {
  const bool came = !config_.ports[config_.number].box->Empty() || PollOthers();
  if (came) {
    nap_ns_ = kFirstNapNs;
    polled_ticks_ = CpuTicks();
  }
  return came;
}

// Nothing to do: spins or yields a little, then sleeps until something comes.
void Worker::Wait() {
  const Port& port = config_.ports[config_.number];
  if (config_.spin_ns != 0) {
    uint64_t until = 0;
    for (uint32_t n = 0;; ++n) {
      if (SomethingCame()) return;
      CpuRelax();
      if (n % 128 != 0) continue;
      uint64_t now = NowNs();
      if (until == 0) until = now + config_.spin_ns;
      // A profile is as good as the looks at the device are frequent.
      if (now >= until && !TimesAwaited()) break;
    }
  }
  // Others want the core: who has something for this worker may be among them.
  const uint32_t looks = config_.spin_ns == 0 ? Looks() : 0;
  for (uint32_t n = 1; n <= kYields * looks; ++n) {
    if (n % looks == 0) {
      sched_yield();
    } else {
      CpuRelax();
    }
    if (SomethingCame()) return;
  }
  uint32_t seen = port.word->Announce();
  absl::Status status;
  if (config_.wire != nullptr) status = config_.wire->SleepBegin(&wire_words_);
  if (status.ok() && port.box->Empty() && !PollOthers() && port.box->Empty() &&
      !report_wanted_.load(std::memory_order_relaxed)) {
    if (wire_words_.empty()) {
      port.word->SleepFor(seen, SleepTime());
    } else {
      port.word->SleepFor(seen, SleepTime(), wire_words_.data(),
                          wire_words_.size());
    }
  } else {
    nap_ns_ = kFirstNapNs;
  }
  LookAtWire();
  if (config_.wire != nullptr) status.Update(config_.wire->SleepEnd());
  port.word->Awake();
  if (!status.ok()) Fail(std::move(status));
}

// How long to sleep at most, with wake-ups asked for where devices can.
//
// No wake-up is lost: the word was announced before the last look at the
// streams, and asking comes after that. A device that finishes in between, or
// had finished when it was asked, changes the word and the sleep returns at
// once. A signal asked for before an earlier sleep, and given since, came
// before this announcement, and so before the look that found the tick
// unfinished: it cannot have been that tick's.
uint64_t Worker::SleepTime() {
  uint64_t time = kIdleSleepNs;
  for (auto& async : async_) {
    if (!async->awaited() || async->stream->notifies()) continue;
    if (Armed(async.get())) {
      // The signal comes when all is done. A tick before that may be awaited.
      if (async->first_tick() == async->marked && !async->dirty) continue;
    }
    time = profile_ != nullptr ? kFirstNapNs : nap_ns_;
  }
  if (time != kIdleSleepNs) nap_ns_ = std::min(2 * nap_ns_, kLongestNapNs);
  return time;
}

// Whether the device will bump the worker's word when all work is done that was
// submitted so far.
bool Worker::Armed(AsyncStream* async) {
  if (!async->stream->has_host_signal()) return false;
  if (async->armed == async->marked) return true;
  uint32_t* word = config_.ports[config_.number].word->raw();
  if (!async->stream->HostSignal(word).ok()) return false;
  async->armed = async->marked;
  return true;
}

void Worker::Fail(absl::Status status) {
  table_.Abort();
  leaving_ = Leaving::kAbort;
  if (!failure_.ok()) return;
  failure_ = std::move(status);
  Report(MessageKind::kAbort);
}

std::vector<std::string> Worker::DrainStreams(uint64_t deadline_ns) {
  std::vector<std::string> late;
  for (auto& async : async_) {
    uint64_t tick = 0;
    absl::Status status = async->stream->Mark(&tick);
    if (!status.ok()) continue;  // poisoned: nothing of it runs any more
    const uint64_t now = NowNs();
    absl::StatusOr<bool> done =
        async->stream->Wait(tick, deadline_ns > now ? deadline_ns - now : 0);
    if (done.ok() && !*done) late.push_back(async->name);
  }
  return late;
}

void Worker::Finished(uint64_t period) {
  if (period <= reported_.load(std::memory_order_relaxed)) return;
  reported_.store(period, std::memory_order_release);
  const uint64_t lease = table_.lease();
  if (lease > period + config_.wake_periods) return;
  if (period < lease && told_lease_ == lease) return;
  told_lease_ = lease;
  Report(MessageKind::kFinished);
}

void Worker::Report(MessageKind kind) {
  Message message;
  message.kind = kind;
  message.reg = config_.number;
  config_.control.box->Push(message);
  config_.control.word->Post();
}

}  // namespace weft::runtime
