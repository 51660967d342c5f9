// A ProfileLog as a table: time per kernel beside what the device could do at
// best, worst offenders first, and how the time of a step divides.
//
//   WEFT_ASSIGN_OR_RETURN(ProfileReport report,
//                         MakeProfileReport(log, {{"cpu:0", 61.0, 9.8}}));
//   std::fputs(ProfileText(report, /*top=*/20).c_str(), stdout);
//
// A row is one kernel of the plan: all launches of the same op with the same
// shapes and attributes on one line of time, whatever their nodes are called.
// Its floating-point operations and bytes are those of the op's definition
// (core/plan/kernel_cost.h), so a kernel that needs fewer (Winograd) or whose
// operands stay in a cache can pass a ceiling. What a row *loses* is its time
// beyond what the nearer of its two ceilings allows:
//
//     lost = time - max(flops / most flops, bytes / most bytes)    or 0
//
// A *line of time* is a worker (with its inline devices) or a stream of a
// device that works on after a launch has returned. The parts of each add up
// to the time of the window. Of a worker:
//
//     kernels     inside launches, readers and consumers
//     submitting  inside calls that hand work to a device
//     run-time    all else that it did: messages, firing rules, polling
//     data, device, idle     with nothing to do, waiting for that or for
//                            something else (before its start and after its
//                            end too)
//
// and its share of run-time is run-time / (kernels + submitting + run-time).
//
// Threading: free functions; no program may run on the log's session meanwhile.
#ifndef WEFT_RUNTIME_OBSERVE_PROFILE_REPORT_H_
#define WEFT_RUNTIME_OBSERVE_PROFILE_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/observe/profile.h"

namespace weft::runtime {

// The most that a device was seen to do; 0 = not known.
struct Ceiling {
  std::string device;  // "cpu:0"
  double gflops = 0;
  double gbytes = 0;  // 10^9 bytes a second, read and written
  std::string how;    // what was measured, for people
};

struct ProfileRow {
  std::string op;                  // "MatMul", "copy", "source", "sink"
  std::string shape;               // of the first result, "128x512"
  std::string device;              // "cpu:0"
  std::vector<std::string> nodes;  // the user's names, in the plan's order
  size_t line = 0;                 // of ProfileReport::lines
  uint64_t calls = 0;              // in the window
  uint64_t ns = 0;
  double flops = 0;  // of one call
  double bytes = 0;
  double gflops = 0;  // achieved
  double gbytes = 0;
  double flops_share = 0;  // of the device's ceiling; 0 = not known
  double bytes_share = 0;
  double lost_ns = 0;
};

struct ProfileLine {
  std::string name;     // "worker 0", "sim:0/compute"
  std::string streams;  // that it drives, "cpu:0/compute cpu:0/sink"
  bool worker = true;
  // Nanoseconds of the window; they add up to ProfileReport::wall_ns. A device
  // stream has `kernels` and `idle` only.
  uint64_t kernels = 0;
  uint64_t submitting = 0;
  uint64_t run_time = 0;
  uint64_t data = 0;
  uint64_t device = 0;
  uint64_t idle = 0;
  double run_time_share = 0;
};

struct ProfileReport {
  std::string program;
  std::string graph;
  uint64_t steps = 0;
  uint64_t wall_ns = 0;
  std::vector<Ceiling> ceilings;
  std::vector<ProfileRow> rows;  // by lost_ns, most first
  std::vector<ProfileLine> lines;
};

// kBadPlan for a kernel without a cost; kInternal where nothing was recorded.
absl::StatusOr<ProfileReport> MakeProfileReport(
    const ProfileLog& log, const std::vector<Ceiling>& ceilings);

// For people. `top`: rows at most; 0 = all. The rest is summed up in one.
std::string ProfileText(const ProfileReport& report, uint64_t top);

// For machines: everything, in ms and calls per step. A JSON object.
std::string ProfileJson(const ProfileReport& report);

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_OBSERVE_PROFILE_REPORT_H_
