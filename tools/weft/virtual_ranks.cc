#include "tools/weft/virtual_ranks.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "runtime/pool/host_threads.h"
#include "runtime/pool/thread.h"
#include "runtime/rendezvous/local_rendezvous.h"
#include "tools/weft/many_ranks.h"
#include "tools/weft/ranks.h"
#include "tools/weft/training_run.h"

namespace weft {
namespace {

// How long a rank waits for the others where they meet: each compiles for
// itself, and evaluates and saves at its own pace.
constexpr uint64_t kMeetNs = 600'000'000'000;
constexpr absl::string_view kTransport = "loopback";

class VirtualRanks {
 public:
  VirtualRanks(const TrainOptions& options, const job::Job& job)
      : options_(options),
        job_(job),
        epoch_(static_cast<uint64_t>(options.clock->MonotonicNs())),
        meeting_(options.virtual_ranks, kMeetNs) {}

  absl::StatusOr<TrainResult> Run(observe::RunDirectory directory) {
    absl::Status ready = Prepare();
    if (!ready.ok()) {
      if (directory.is_new()) directory.Discard();
      return ready;
    }
    const std::string path = directory.path();
    AddRank(0, std::move(directory));
    for (uint32_t r = 1; r < options_.virtual_ranks; ++r) {
      AddRank(r, observe::RunDirectory::Share(*options_.os, path));
    }
    return RunAll();
  }

 private:
  // What all ranks share, and what they would all refuse.
  absl::Status Prepare() {
    WEFT_RETURN_IF_ERROR(CheckManyRanks(options_));
    WEFT_RETURN_IF_ERROR(ShareOfRank(job_, 0, options_.virtual_ranks).status());
    WEFT_RETURN_IF_ERROR(
        transports_.Load(options_, {std::string(kTransport)}, {}, DomainOf(0)));
    WEFT_ASSIGN_OR_RETURN(threads_, runtime::HostThreads::Install(
                                        *options_.os, job_.runtime().threads(),
                                        job_.runtime().bind_threads()));
    return absl::OkStatus();
  }

  absl::StatusOr<TrainResult> RunAll() {
    std::vector<runtime::Thread> threads;
    for (uint32_t r = 1; r < options_.virtual_ranks; ++r) {
      absl::StatusOr<runtime::Thread> thread = runtime::Thread::Start(
          absl::StrCat("weft-rank-", r), [this, r] { Execute(r); });
      if (!thread.ok()) {
        meeting_.Fail(r, thread.status());
        Failed(thread.status());
        break;
      }
      threads.push_back(*std::move(thread));
    }
    Execute(0);
    threads.clear();  // joins them
    MutexLock lock(&mu_);
    if (!first_failure_.ok()) return first_failure_;
    return *std::move(result_);
  }

  DomainConfig DomainOf(uint32_t rank) const {
    DomainConfig domain;
    domain.rank = rank;
    domain.world = options_.virtual_ranks;
    domain.wire_version = kRankWireVersion;
    domain.job = job_.name();
    domain.epoch = epoch_;
    return domain;
  }

  void AddRank(uint32_t rank, observe::RunDirectory directory) {
    auto options = std::make_unique<TrainOptions>(options_);
    options->link.rank = rank;
    options->link.ranks = options_.virtual_ranks;
    options->link.rendezvous = &meeting_;
    options->link.transports = transports_.wire();
    options->link.ranks_of_host = options_.virtual_ranks;
    options->link.threads = threads_.get();
    options->link.domain = DomainOf(rank);
    if (rank != 0) {
      options->on_session = nullptr;
      options->progress = false;
      options->dumps = {};
    }
    // A map of a message that was parsed from text may settle when it is first
    // read: no two ranks read the same.
    jobs_.push_back(std::make_unique<job::Job>(job_));
    runs_.push_back(std::make_unique<TrainingRun>(*options, *jobs_.back(),
                                                  std::move(directory)));
    rank_options_.push_back(std::move(options));
  }

  void Execute(uint32_t rank) {
    absl::StatusOr<TrainResult> result = runs_[rank]->Execute();
    if (!result.ok()) return Failed(result.status());
    MutexLock lock(&mu_);
    if (rank == 0) result_ = *std::move(result);
  }

  // Who only says that another is lost does not know the cause.
  void Failed(const absl::Status& status) {
    MutexLock lock(&mu_);
    if (first_failure_.ok() || (IsError(first_failure_, ErrorCode::kPeerLost) &&
                                !IsError(status, ErrorCode::kPeerLost))) {
      first_failure_ = status;
    }
  }

  const TrainOptions& options_;
  const job::Job& job_;
  const uint64_t epoch_;
  runtime::LocalRendezvous meeting_;
  RankTransports transports_;
  std::unique_ptr<runtime::HostThreads> threads_;
  std::vector<std::unique_ptr<TrainOptions>> rank_options_;
  std::vector<std::unique_ptr<job::Job>> jobs_;
  std::vector<std::unique_ptr<TrainingRun>> runs_;
  Mutex mu_;
  absl::Status first_failure_ WEFT_GUARDED_BY(mu_);
  std::optional<TrainResult> result_ WEFT_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<TrainResult> TrainVirtualRanks(const TrainOptions& options,
                                              const job::Job& job,
                                              observe::RunDirectory directory) {
  return VirtualRanks(options, job).Run(std::move(directory));
}

}  // namespace weft
