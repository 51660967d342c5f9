// What end-to-end tests share: a small data set that can be learnt, a job on
// it, a run of that job in this process or through the real binary, and the
// files that a run leaves.
//
//   TestJob job("name_of_test");              // data and job file in a folder
//   TrainResult r = job.Train({"seed=2"}).value();
//   EXPECT_EQ(StateOf(r.run_directory), StateOf(other.run_directory));
//
//   Process p = job.Weft({"train", job.path(), "--set", "epochs=9"});
//   EXPECT_EQ(p.Wait().exit_code, 2);
//
// Every TestJob makes its folder anew, so tests of one binary don't meet.
//
// Threading: thread-compatible. Ownership: folders stay, for the one who looks
// at a failure; TEST_TMPDIR goes with the test.
#ifndef WEFT_TESTS_E2E_HARNESS_H_
#define WEFT_TESTS_E2E_HARNESS_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/clock.h"
#include "runtime/session/session.h"
#include "tools/weft/trainer.h"

namespace weft::e2e {

// Square images of noise; those of class c are bright in a band of their own.
struct DataSpec {
  int64_t samples = 200;
  int64_t classes = 4;
  int64_t side = 8;
  uint32_t seed = 1;
};

void WriteImages(const std::string& images, const std::string& labels,
                 const DataSpec& data);

std::string ReadText(const std::string& path);
void WriteText(const std::string& path, absl::string_view text);
// For what a whole machine sees, such as the name of a job whose ranks meet by
// it: no other call has it, nor another run beside this one, whose process may
// have the same id in a sandbox.
std::string UniqueName(absl::string_view text);
// Names in a directory, sorted; none where it does not exist.
std::vector<std::string> ListNames(const std::string& path);

// Every tensor of the newest checkpoint of a run (or of the checkpoint that
// `path` names): "fc1/weight f32[8,64]" -> bytes.
std::map<std::string, std::string> StateOf(const std::string& path);

// metrics.jsonl of a run.
std::string MetricsOf(const std::string& run_directory);

// How a process ended.
struct Ended {
  int exit_code = -1;  // -1: by a signal
  int signal = 0;
  std::string out;
  std::string err;
};

// A child that dies with its parent. Output goes to files, so nothing waits for
// a reader.
class Process {
 public:
  Process(pid_t pid, std::string out, std::string err)
      : pid_(pid), out_(std::move(out)), err_(std::move(err)) {}
  Process(Process&& other) noexcept;
  ~Process();  // kills what still runs

  pid_t pid() const { return pid_; }
  void Signal(int number) const;
  bool Running();
  // Output so far on stderr.
  std::string ErrSoFar() const;
  Ended Wait();

 private:
  pid_t pid_;
  int status_ = 0;
  bool ended_ = false;
  std::string out_, err_;
};

using Environ = std::vector<std::pair<std::string, std::string>>;
using Sets = std::vector<std::string>;

// What the system grants a process; 0 is no limit.
struct Limits {
  uint64_t file_bytes = 0;     // to any file that it writes
  uint64_t address_bytes = 0;  // of memory, mapped or not
  uint64_t open_files = 0;
};

class TestJob {
 public:
  // `model`: the job's model { } in text form.
  TestJob(const std::string& name, const std::string& model,
          const DataSpec& data = {});

  const std::string& folder() const { return folder_; }
  std::string path() const { return File("job.txtpb"); }
  std::string File(absl::string_view name) const;

  // Options of a run in this process, to be changed at will.
  TrainOptions Options(const Sets& sets = {}) const;
  absl::StatusOr<TrainResult> Train(const Sets& sets = {}) const;

  // Starts the weft command with exactly this environment besides PATH, the
  // folder as the current directory and WEFT_RUNS_DIR in it.
  Process Weft(const std::vector<std::string>& args,
               const Environ& environment = {},
               const Limits& limits = {}) const {
    return Program(weft(), args, environment, limits);
  }
  // The same with another program, such as one that starts weft.
  Process Program(const std::string& program,
                  const std::vector<std::string>& args,
                  const Environ& environment = {},
                  const Limits& limits = {}) const;
  std::string weft() const;  // its path
  // Run directories made below runs/, oldest first.
  std::vector<std::string> Runs() const;

 private:
  std::string folder_;
};

// Those that `pid` has started and that are not reaped.
std::vector<pid_t> ChildrenOf(pid_t pid);

// Until the newest run has `lines` of metrics; fails where `process`, which is
// to write them, ends before.
void AwaitMetrics(const TestJob& job, Process* process, int lines);

// A run of `job` on virtual ranks; `transport`: options of loopback.
TrainOptions OnRanks(const TestJob& job, uint32_t ranks, const Sets& sets,
                     const std::string& transport = "");

// The bits that a run leaves.
struct Left {
  std::map<std::string, std::string> state;
  std::string metrics;
  uint64_t steps = 0;
};
Left LeftBy(const TrainOptions& options);
void ExpectSame(const Left& a, const Left& b);

// Asks a session to stop when the progress line looks at the time for the n-th
// time, which it does once a step, on a worker of rank 0.
class StoppingClock : public Clock {
 public:
  void StopAt(int n) { left_ = n; }
  void SetSession(runtime::Session* session) {
    session_ = session;
    if (session != nullptr && left_ == 0) session->RequestStop();
  }
  int64_t MonotonicNs() override {
    runtime::Session* session = session_;
    if (session != nullptr && --left_ == 0) session->RequestStop();
    return RealClock().MonotonicNs();
  }
  int64_t UnixNs() override { return RealClock().UnixNs(); }

 private:
  std::atomic<int> left_{-1};
  std::atomic<runtime::Session*> session_{nullptr};
};

// The models that most tests train.
std::string Mlp();
std::string Lenet();  // needs images of 12 x 12
inline DataSpec LenetData() { return {120, 4, 12, 1}; }

}  // namespace weft::e2e

#endif  // WEFT_TESTS_E2E_HARNESS_H_
