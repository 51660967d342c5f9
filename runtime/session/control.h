// Control: one run of one program, seen from the thread that called
// Session::Run. It gives leases, ends the run, reports stalls and spreads an
// abort. How many periods are done it reads off the workers; FINISHED wakes it
// where one will need, or needs, more of the lease:
//
//     START(lease) -->  workers  --> FINISHED --> longer lease ...
//                                    all have done all --> STOP --> all left
//                                    ABORT --> ABORT to all --> all left
//
// Threading: made and used by the calling thread.
#ifndef WEFT_RUNTIME_SESSION_CONTROL_H_
#define WEFT_RUNTIME_SESSION_CONTROL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/actor/message.h"
#include "runtime/session/pace.h"
#include "runtime/session/program.h"
#include "runtime/session/session.h"
#include "runtime/session/worker_thread.h"

namespace weft::runtime {

class Control {
 public:
  // `stop`: ends the run early when set; may be null. `word` is posted, too,
  // when the rendezvous of `options` knows of a failure.
  Control(Program* program,
          const std::vector<std::unique_ptr<WorkerThread>>& threads,
          FutexWord* word, const SessionOptions& options,
          const std::atomic<bool>* stop);
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Periods done, or the first failure. Where the calling thread gets no more
  // memory, kOutOfMemory, once the workers have left or are given up.
  absl::StatusOr<uint64_t> Run(uint64_t first_step, uint64_t periods);

  // A worker did not leave in time.
  bool stuck() const { return stuck_; }

 private:
  absl::StatusOr<uint64_t> RunToEnd(uint64_t first_step, uint64_t periods);
  void CallBack();
  void Left(size_t worker);
  void LookAtFinished();
  void OnMessage(const actor::Message& message);
  void Broadcast(const actor::Message& message);
  void ExtendLease();
  void Abort(absl::Status cause);
  void WaitForMessages();
  void Attend();
  void CheckPeers();
  absl::Status PeerFailure() const;
  void CheckProgress();
  void AskForReports();
  void FinishReports();
  uint64_t SlowestFinished() const;
  absl::StatusOr<uint64_t> Result() const;
  absl::Status WithUndrained(const absl::Status& failure) const;

  Program& program_;
  const std::vector<std::unique_ptr<WorkerThread>>& threads_;
  FutexWord& word_;
  const SessionOptions& options_;
  const std::atomic<bool>* const stop_;

  uint64_t first_ = 0;  // period
  uint64_t end_ = 0;    // below which periods are wanted
  uint64_t lease_ = 0;
  Pace pace_;
  std::vector<uint64_t> finished_;  // by worker; ~0 without actors
  size_t started_ = 0;              // workers
  std::vector<bool> left_;
  size_t left_count_ = 0;
  bool stop_seen_ = false;  // *stop_ when the lease was last looked at
  bool stopping_ = false;   // STOP was sent
  bool aborting_ = false;
  bool stuck_ = false;
  absl::Status cause_;
  const absl::Status no_memory_;  // made while there was some

  uint64_t progress_ns_ = 0;  // when a period finished last
  uint64_t deadline_ns_ = 0;  // for leaving; 0: none
  uint64_t next_report_ns_ = 0;
  uint64_t reports_until_ns_ = 0;  // 0: no report asked for
  bool unattended_ = false;  // a period has finished since options_.attend
  uint64_t attend_ns_ = 0;   // not before
  std::vector<bool> reported_;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_SESSION_CONTROL_H_
