// TraceLog: when each act began and ended, per worker, and a writer of Chrome
// trace files (chrome://tracing, Perfetto).
//
//   TraceLog log({/*first_step=*/10, /*last_step=*/12, /*records=*/65536});
//   SessionOptions options;
//   options.trace = &log;
//   ... run ...
//   std::string json = ChromeTraceJson(log, /*rank=*/0);  // trace_writer.h
//
// A worker appends to a ring of its own: one store of 32 bytes an act, nothing
// allocated, the oldest records are overwritten. Only acts of the steps asked
// for are kept. Without a TraceLog an act pays one branch. On a device that
// works on after a launch has returned, an act's end is the end of its launch.
//
// Threading: each WorkerTrace belongs to its worker while a program runs; the
// rest is for the thread that owns the session, between runs.
#ifndef WEFT_RUNTIME_OBSERVE_TRACE_H_
#define WEFT_RUNTIME_OBSERVE_TRACE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/proto/plan.pb.h"

namespace weft::runtime {

struct ActRecord {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  uint64_t act = 0;  // of the actor, since its program was loaded
  uint32_t task = 0;
  uint32_t step = 0;
};

// One worker's ring of one program.
class WorkerTrace {
 public:
  WorkerTrace(uint64_t first_step, uint64_t last_step, uint32_t capacity)
      : first_step_(first_step), last_step_(last_step), records_(capacity) {}

  bool Wants(uint64_t step) const {
    return step >= first_step_ && step <= last_step_ && !records_.empty();
  }
  void Add(const ActRecord& record) {
    records_[next_] = record;
    if (++next_ == records_.size()) next_ = 0;
    ++added_;
  }

  // Oldest first.
  std::vector<ActRecord> Records() const;
  // Overwritten for want of room.
  uint64_t lost() const {
    return added_ > records_.size() ? added_ - records_.size() : 0;
  }

 private:
  const uint64_t first_step_;
  const uint64_t last_step_;
  std::vector<ActRecord> records_;
  size_t next_ = 0;
  uint64_t added_ = 0;
};

class TraceLog {
 public:
  struct Options {
    uint64_t first_step = 0;  // both included
    uint64_t last_step = ~uint64_t{0};
    uint32_t records_per_worker = 1 << 16;
  };
  struct Program {
    plan::Plan plan;
    std::vector<std::unique_ptr<WorkerTrace>> workers;
  };

  explicit TraceLog(const Options& options) : options_(options) {}

  // Called by the session for each program that it loads. Returns one trace
  // per worker; they live as long as the log.
  std::vector<WorkerTrace*> AddProgram(const plan::Plan& plan);

  const std::vector<std::unique_ptr<Program>>& programs() const {
    return programs_;
  }

 private:
  const Options options_;
  std::vector<std::unique_ptr<Program>> programs_;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_OBSERVE_TRACE_H_
