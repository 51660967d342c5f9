// How a worker measures its acts, for a trace or a profile.
#include <algorithm>

#include "runtime/worker/worker.h"

namespace weft::runtime {

// Reads the clock after each launch of one act.
class Worker::LaunchTimer : public LaunchObserver {
 public:
  LaunchTimer(Worker* worker, AsyncStream* async, uint64_t begin_ns)
      : worker_(*worker), async_(async), last_ns_(begin_ns) {}

  void Launched(uint32_t launch) override {
    const uint64_t begin_ns = last_ns_;
    if (async_ != nullptr) worker_.TimeLaunch(async_, launch, begin_ns);
    last_ns_ = NowNs();
    if (async_ != nullptr) {
      worker_.profile_->AddSubmit(last_ns_ - begin_ns);
    } else {
      worker_.profile_->AddLaunch(launch, last_ns_ - begin_ns);
    }
  }
  uint64_t last_ns() const { return last_ns_; }

 private:
  Worker& worker_;
  AsyncStream* const async_;
  uint64_t last_ns_;
};

absl::Status Worker::RunObserved(const TaskRecord& record, uint64_t step) {
  const bool traced = config_.trace != nullptr && config_.trace->Wants(step);
  if (!traced && profile_ == nullptr) return executor_.Run(effects_, step);
  ActRecord trace;
  trace.begin_ns = NowNs();
  absl::Status status;
  if (profile_ != nullptr) {
    LaunchTimer timer(this, async_of_stream_[record.stream], trace.begin_ns);
    status = executor_.RunObserved(effects_, step, &timer);
    trace.end_ns = timer.last_ns();
  } else {
    status = executor_.Run(effects_, step);
    trace.end_ns = NowNs();
  }
  if (!traced) return status;
  trace.act = effects_.act();
  trace.task = record.task;
  trace.step = static_cast<uint32_t>(step);
  config_.trace->Add(trace);
  return status;
}

// The end of a launch is known from a tick of its own.
void Worker::TimeLaunch(AsyncStream* async, uint32_t launch,
                        uint64_t submitted_ns) {
  async->dirty = true;
  async->last_actor = effects_.actor();
  if (!MarkStream(async)) return;
  if (async->marked <= async->done) {  // nothing was left to do
    profile_->AddLaunch(launch, NowNs() - submitted_ns);
    return;
  }
  async->timed.push_back({async->marked, submitted_ns, launch});
}

void Worker::TakeTimes(AsyncStream* async) {
  size_t n = 0;
  while (n < async->timed.size() && async->timed[n].tick <= async->done) ++n;
  if (n == 0) return;
  const uint64_t now = NowNs();
  const uint64_t begin =
      std::max(async->free_ns, async->timed.front().submitted_ns);
  // The first gets what even shares leave over.
  uint64_t left = now - begin;
  for (; n != 0; --n) {
    const uint64_t share = left - left / n * (n - 1);
    profile_->AddLaunch(async->timed.front().launch, share);
    left -= share;
    async->timed.pop_front();
  }
  async->free_ns = now;
}

void Worker::WaitObserved() {
  const uint64_t begin_ns = NowNs();
  const Waiting reason = WhyWaiting();
  Wait();
  profile_->AddWait(reason, NowNs() - begin_ns);
}

// By what the acts whose turn it is lack.
Waiting Worker::WhyWaiting() const {
  const plan::PlanView& view = *config_.view;
  for (uint32_t i = 0; i < table_.size(); ++i) {
    if (table_.Turn(table_.stream(i)) != i) continue;
    const uint32_t task = executor_.record(i).task;
    for (const actor::Blocker& b : table_.WhyBlocked(i)) {
      if (b.kind != actor::Blocker::kInput) continue;
      const uint32_t reg =
          view.task(task).inputs(static_cast<int>(b.port)).register_();
      if (data_task_[view.producer(reg).task]) return Waiting::kData;
    }
  }
  return Outstanding() ? Waiting::kDevice : Waiting::kOther;
}

}  // namespace weft::runtime
