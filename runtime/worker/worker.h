// Worker: the event loop that runs one worker's actors of one program.
//
// It owns what its thread touches: the actors (core/actor), the queue of
// messages between them, the streams that it drives. Messages come from four
// places and all end in the local queue:
//
//     own acts, same stream or inline device --------------> local queue
//     own acts, device still at work --> held until tick --> local queue
//     other ranks, by way of the wire ---------------------> local queue
//     other workers, control ----------> mailbox ----------> local queue
//
// Among ranks, ACKs are taken last (acks_last.h). Taking one message changes
// one actor; then the actor that may act, if there is one, acts: its launches,
// then its messages. Between acts the worker polls: after 64 acts, and after
// one that gave a device something to do; where there is a wire, only when some
// microsecond has passed. There, too, an actor whose last act took long lets
// all others go first that can act, and what they have for other ranks is sent
// before. One that reads data ahead lets these go first, too, and what has come
// in: it has the time in which the worker would wait for other ranks. With
// nothing to do the worker spins a little, or where there are more threads than
// cores lets others run, then sleeps on its futex word.
//
//   Worker worker(config);
//   worker.Begin(/*first_step=*/0);
//   worker.Run();     // on its thread; until control says STOP or ABORT
//
// That its actors have made their acts of some periods, and its devices have
// done them, finished() says. To control it reports, as messages with `reg` =
// its number:
//   FINISHED  there is little left of the lease, or nothing: once for each of
//             the two
//   ABORT     an act failed: failure() says how
//   STOP      it has left Run(), after a STOP or an ABORT
//   START     report() is ready (after RequestReport)
//
// Threading: Run on the worker's thread; Begin, failure() and the counters for
// control while Run is not running; RequestReport and TakeReport for control at
// any time. Ownership: borrows everything in its Config but the actor table.
#ifndef WEFT_RUNTIME_WORKER_WORKER_H_
#define WEFT_RUNTIME_WORKER_WORKER_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/actor/actor.h"
#include "core/base/mutex.h"
#include "core/plan/plan.h"
#include "plugins/host/device.h"
#include "runtime/bus/futex_word.h"
#include "runtime/bus/mailbox.h"
#include "runtime/bus/port.h"
#include "runtime/execute/executor.h"
#include "runtime/observe/profile.h"
#include "runtime/observe/trace.h"
#include "runtime/wire/wire.h"
#include "runtime/worker/acks_last.h"

namespace weft::runtime {

// Messages of control that a mailbox must hold besides those of the protocol.
inline constexpr uint32_t kControlMessages = 64;

// Periods that may be under way.
inline constexpr uint32_t kMaxPeriodsInFlight = 1024;

// The worker that drives the wire.
inline constexpr uint32_t kWireWorker = 0;

class Worker {
 public:
  struct Config {
    uint32_t number = 0;
    const plan::PlanView* view = nullptr;
    uint32_t first_index = 0;  // ActorId::index() of task 0
    // Of worker 0, which drives it; null for the others, and on one rank alone.
    Wire* wire = nullptr;
    ProgramWire* channels = nullptr;  // the program's
    Executor* executor = nullptr;
    std::vector<Stream*> streams;  // by the plan's index; null: another's
    std::vector<Port> ports;       // by worker
    Port control;
    uint64_t spin_ns = 0;
    // Little is left of a lease that reaches no further than so many periods
    // beyond what is finished.
    uint64_t wake_periods = ~uint64_t{0};
    uint64_t drain_ns = 0;
    WorkerTrace* trace = nullptr;
    WorkerProfile* profile = nullptr;
  };

  Worker(const Config& config, actor::ActorTable table);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // The next period's step number.
  void Begin(uint64_t first_step);
  void Run();

  bool has_actors() const { return table_.size() != 0; }
  const absl::Status& failure() const { return failure_; }
  // Waits, until NowNs() is `deadline_ns`, for what its devices still do:
  // memory must not be freed under it. The names of streams that have not
  // finished.
  std::vector<std::string> DrainStreams(uint64_t deadline_ns);
  // The same of the time after an abort; empty where all have.
  const std::vector<std::string>& undrained() const { return undrained_; }
  // Of any thread. All periods below this are done.
  uint64_t finished() const {
    return reported_.load(std::memory_order_acquire);
  }
  uint64_t acts() const { return acts_.load(std::memory_order_relaxed); }
  uint64_t launches() const { return launches_; }
  uint64_t hops() const { return hops_; }

  // Who waits for what.
  void RequestReport();
  std::string TakeReport();
  // What the worker does at this moment, as far as can be told from outside.
  std::string CurrentAct() const;

 private:
  struct Held {
    uint64_t tick = 0;
    uint32_t actor = 0;  // whose act the message belongs to
    actor::Message message;
  };
  // A launch whose end is wanted by the profile.
  struct Timed {
    uint64_t tick = 0;
    uint64_t submitted_ns = 0;
    uint32_t launch = 0;
  };
  // A stream whose device works on after a call has returned.
  struct AsyncStream {
    AsyncStream(Stream* s, std::string n, uint64_t bound)
        : stream(s), name(std::move(n)), held(bound) {}
    Stream* stream;
    const std::string name;  // for messages
    uint64_t marked = 0;     // last tick taken
    uint64_t done = 0;       // last tick seen done
    uint64_t armed = 0;      // tick that host_signal was asked for
    bool dirty = false;      // work was submitted since `marked`
    uint32_t last_actor = 0;
    Ring<Held> held;
    // Empty but while a profile is recorded.
    std::deque<Timed> timed;
    uint64_t free_ns = 0;  // when its last timed work was seen done
    bool awaited() const { return !held.empty() || !timed.empty(); }
    // The first tick that something waits for. Pre-condition: awaited().
    uint64_t first_tick() const {
      if (timed.empty()) return held.Front().tick;
      if (held.empty()) return timed.front().tick;
      return std::min(held.Front().tick, timed.front().tick);
    }
  };
  class LaunchTimer;
  enum class Leaving : uint8_t { kNo, kStop, kAbort };

  static constexpr uint32_t kPollEvery = 64;    // acts
  static constexpr uint64_t kPollTicks = 2048;  // of CpuTicks
  static constexpr uint64_t kSlowTicks = 16 * kPollTicks;
  static constexpr uint64_t kSlowDataTicks = 2 * kPollTicks;
  // Times to let other threads run before sleeping, where nobody spins.
  static constexpr uint32_t kYields = 64;
  static constexpr uint64_t kIdleSleepNs = 10'000'000'000;
  static constexpr uint64_t kFirstNapNs = 20'000;
  static constexpr uint64_t kLongestNapNs = 200'000;

  void TakeAcksLast();
  void Deliver(const actor::Message& message);
  void Try(uint32_t actor);
  // Before an act that will take long: false puts it off.
  bool GoesAhead(uint32_t actor);
  // The next of those that were put off: one that reads data comes last.
  uint32_t TakePutOff();
  uint32_t ActOnce(uint32_t actor);
  bool Execute(uint32_t actor, const TaskRecord& record);
  absl::Status RunObserved(const TaskRecord& record, uint64_t step);
  void SendLate(const TaskRecord& record);
  void Route(const actor::Message& message);
  void RouteToRank(const actor::Message& message);
  bool MarkStream(AsyncStream* stream);
  void OnOther(const actor::Message& message);
  void OnRefused(const actor::Message& message);
  void OnPeriodsFinished();
  void Release(const Held& held);

  bool Poll();
  bool PollOthers();
  // After an act that may have taken long, and notes whether it has. To poll a
  // wire costs as much as a few short acts; a mailbox, less than to read the
  // clock.
  bool PollIsDue(uint32_t actor) {
    if (config_.wire == nullptr) return true;
    const uint64_t ticks = CpuTicks() - polled_ticks_;
    slow_[actor] = ticks >= (reads_data_[actor] ? kSlowDataTicks : kSlowTicks);
    return ticks >= kPollTicks;
  }
  bool PollWire();
  // At all of it, whether its token was notified or not: once after a pause.
  void LookAtWire() {
    posts_ = config_.ports[config_.number].word->posts() - 1;
  }
  void FlushWire();
  void ReleaseFinished();
  bool PollStreams();
  bool PollStream(AsyncStream* stream);
  bool Outstanding() const;
  bool TimesAwaited() const;
  uint32_t Looks() const;
  bool SomethingCame();
  void Wait();
  void WaitObserved();
  Waiting WhyWaiting() const;
  void TimeLaunch(AsyncStream* stream, uint32_t launch, uint64_t submitted_ns);
  void TakeTimes(AsyncStream* stream);
  uint64_t SleepTime();
  bool Armed(AsyncStream* stream);

  void Fail(absl::Status status);
  std::string DescribeActor(uint32_t actor, const char* what) const;
  void WriteReport();
  void Finished(uint64_t period);
  void Report(actor::MessageKind kind);
  uint64_t StepOf(uint64_t period) const {
    return first_step_ + (period - first_period_);
  }

  const Config config_;
  const uint32_t rank_;
  Executor& executor_;
  actor::ActorTable table_;
  // Same-stream messages go straight into it: nothing takes them out before
  // the launch has returned.
  actor::MessageQueue local_;
  AcksLast acks_last_;  // of it, among ranks
  actor::Effects effects_;
  std::vector<uint8_t> slow_;      // by actor: its last act took long
  std::vector<bool> reads_data_;   // by actor
  std::vector<uint32_t> put_off_;  // until the queue is empty
  std::vector<uint16_t> worker_of_stream_;
  std::vector<AsyncStream*> async_of_stream_;  // by the plan's; null: inline
  std::vector<std::unique_ptr<AsyncStream>> async_;

  uint64_t first_step_ = 0;
  uint64_t first_period_ = 0;
  uint64_t finished_ = 0;  // periods of the table seen finished
  // Streams, and the wire, that still owe period p, at p modulo the size.
  std::array<uint32_t, 2 * kMaxPeriodsInFlight> owed_{};
  // Periods that are done but for what is on its way out: (period, holds).
  std::deque<std::pair<uint64_t, uint64_t>> sending_;
  uint32_t unpolled_ = 0;
  uint64_t polled_ticks_ = 0;  // when the wire's last poll was over
  uint32_t posts_ = 0;         // of the word, when the wire was polled last
  std::vector<FutexWord::Other> wire_words_;  // of the transports, asleep
  uint64_t nap_ns_ = kFirstNapNs;
  Leaving leaving_ = Leaving::kNo;
  // Of this run; null: not recorded.
  WorkerProfile* profile_ = nullptr;
  bool observed_ = false;        // traced or profiled
  std::vector<bool> data_task_;  // with a profile only
  absl::Status failure_;
  std::vector<std::string> undrained_;
  uint64_t refused_ = 0;  // messages of which the table has told

  // Which this worker alone changes.
  std::atomic<uint64_t> acts_{0};
  std::atomic<uint64_t> reported_{0};
  uint64_t told_lease_ = 0;  // that little is left of it
  uint64_t launches_ = 0;
  uint64_t hops_ = 0;

  std::atomic<uint32_t> current_{actor::kNoActor};
  std::atomic<bool> report_wanted_{false};
  Mutex mu_;
  std::string report_ WEFT_GUARDED_BY(mu_);
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_WORKER_WORKER_H_
