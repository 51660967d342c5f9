// ProfileLog: where the time of a window of steps went: in which launch, in the
// run-time itself, in waiting for what.
//
//   ProfileLog log("train");
//   SessionOptions options;
//   options.profile = &log;
//   session->Run("train", 0, 5);          // warm-up, not recorded
//   log.Start(NowNs());
//   session->Run("train", 5, 50);
//   log.Stop(NowNs(), /*steps=*/50);
//   MakeProfileReport(log, ceilings);     // profile_report.h
//
// A worker adds up what it measures, launch by launch, from the clock readings
// that a trace's slices are made of (trace.h); nothing is kept of single acts.
// On an inline device a launch lasts from call to return. Elsewhere the worker
// takes a tick after each launch, and the launch lasts from the end of the work
// before it on its stream (or from its own call, where the stream had nothing
// to do) until the tick is seen done. Ticks that are seen done at the same
// moment share the time evenly.
//
// Not recording, an act pays the same single branch as without a trace.
//
// Threading: a WorkerProfile belongs to its worker while a program runs; the
// rest is for the thread that owns the session, between runs.
#ifndef WEFT_RUNTIME_OBSERVE_PROFILE_H_
#define WEFT_RUNTIME_OBSERVE_PROFILE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/proto/plan.pb.h"

namespace weft::runtime {

// One kernel, copy, source or sink of a worker's program, and its time.
struct ProfileSlot {
  uint32_t task = 0;   // in the plan
  int32_t op = -1;     // of the task; -1: a copy, or the reader or consumer
  uint64_t bytes = 0;  // where op is -1: what it reads and writes
  uint64_t calls = 0;
  uint64_t ns = 0;
};

// What a worker with nothing to do waits for.
enum class Waiting : uint8_t {
  kData,    // a source, or what follows from sources alone
  kDevice,  // work that its devices have not finished
  kOther,   // a free copy, the lease, another worker
};
inline constexpr size_t kNumWaiting = 3;

class WorkerProfile {
 public:
  explicit WorkerProfile(const bool* recording) : recording_(recording) {}

  bool recording() const { return *recording_; }

  // Once, before the first run: what AddLaunch's slots stand for.
  void SetSlots(std::vector<ProfileSlot> slots) { slots_ = std::move(slots); }

  void AddLaunch(uint32_t slot, uint64_t ns) {
    ++slots_[slot].calls;
    slots_[slot].ns += ns;
  }
  // Handing work to a device that does it later.
  void AddSubmit(uint64_t ns) { submit_ns_ += ns; }
  void AddWait(Waiting reason, uint64_t ns) {
    wait_ns_[static_cast<size_t>(reason)] += ns;
  }
  // From entering to leaving the worker's loop.
  void AddRun(uint64_t ns) { run_ns_ += ns; }

  const std::vector<ProfileSlot>& slots() const { return slots_; }
  uint64_t submit_ns() const { return submit_ns_; }
  uint64_t run_ns() const { return run_ns_; }
  uint64_t wait_ns(Waiting reason) const {
    return wait_ns_[static_cast<size_t>(reason)];
  }

 private:
  const bool* const recording_;
  std::vector<ProfileSlot> slots_;
  uint64_t submit_ns_ = 0;
  uint64_t run_ns_ = 0;
  std::array<uint64_t, kNumWaiting> wait_ns_{};
};

class ProfileLog {
 public:
  // Records the program of this name and no other.
  explicit ProfileLog(std::string program) : program_(std::move(program)) {}
  ProfileLog(const ProfileLog&) = delete;
  ProfileLog& operator=(const ProfileLog&) = delete;

  // Called by the session for each program that it loads. One profile per
  // worker, or none for a program that is not recorded; they live as long as
  // the log.
  std::vector<WorkerProfile*> AddProgram(const plan::Plan& plan);

  // Around whole runs: `steps` were done between the two.
  void Start(uint64_t now_ns) {
    recording_ = true;
    start_ns_ = now_ns;
  }
  void Stop(uint64_t now_ns, uint64_t steps) {
    recording_ = false;
    wall_ns_ += now_ns - start_ns_;
    steps_ += steps;
  }

  bool recording() const { return recording_; }
  const plan::Plan& plan() const { return plan_; }
  const std::vector<std::unique_ptr<WorkerProfile>>& workers() const {
    return workers_;
  }
  uint64_t wall_ns() const { return wall_ns_; }
  uint64_t steps() const { return steps_; }

 private:
  const std::string program_;
  plan::Plan plan_;
  std::vector<std::unique_ptr<WorkerProfile>> workers_;
  bool recording_ = false;
  uint64_t start_ns_ = 0;
  uint64_t wall_ns_ = 0;
  uint64_t steps_ = 0;
};

// By task: whether it does nothing but bring data: a source that is no counter,
// or a task with inputs, all of which come from such tasks.
std::vector<bool> DataTasks(const plan::Plan& plan);

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_OBSERVE_PROFILE_H_
