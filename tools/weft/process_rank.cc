#include "tools/weft/process_rank.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/descriptors.h"
#include "core/base/error.h"
#include "core/base/secret.h"
#include "core/base/status_macros.h"
#include "core/base/version.h"
#include "glog/logging.h"
#include "plugins/abi/weft_plugin.h"
#include "plugins/host/plugin.h"
#include "runtime/observe/run_directory.h"
#include "runtime/pool/binding.h"
#include "runtime/pool/cores.h"
#include "runtime/pool/host_threads.h"
#include "runtime/rendezvous/agreement.h"
#include "runtime/rendezvous/coordinator.h"
#include "runtime/rendezvous/grpc_rendezvous.h"
#include "runtime/rendezvous/host_port.h"
#include "runtime/rendezvous/job_secret.h"
#include "runtime/rendezvous/meeting_point.h"
#include "runtime/rendezvous/proof.h"
#include "tools/weft/device_list.h"
#include "tools/weft/host_link.h"
#include "tools/weft/job.h"
#include "tools/weft/many_ranks.h"
#include "tools/weft/prepare.h"
#include "tools/weft/ranks.h"
#include "tools/weft/training_run.h"

namespace weft {
namespace {

using runtime::WorkerSpec;

// How long the process of the coordinator stays for ranks that have not heard
// of the end yet.
constexpr uint64_t kFarewellNs = 5'000'000'000;
// After so much of it people are told why it stays.
constexpr uint64_t kQuietNs = 300'000'000;
// Of a rank itself; and of its connection to another and of that one's to the
// coordinator, which may be here.
constexpr uint64_t kOwnDescriptors = 32;
constexpr uint64_t kDescriptorsPerPeer = 6;

class ProcessRank {
 public:
  explicit ProcessRank(const TrainOptions& options)
      : options_(options), spec_(*options.worker) {}

  absl::StatusOr<TrainResult> Run() {
    absl::StatusOr<TrainResult> result = Meet();
    if (result.ok()) result = Work();
    absl::Status status = result.status();
    if (meeting_ != nullptr) {
      if (status.ok()) {
        status = meeting_->Leave();
      } else {
        meeting_->Fail(spec_.rank, status);
        status = meeting_->Verdict(spec_.rank, status);
      }
      meeting_.reset();
    } else if (coordinator_ != nullptr) {
      // The others are told why by it alone; the first cause counts.
      coordinator_->Fail(spec_.rank, status);
    }
    if (coordinator_ != nullptr) AwaitOthers(status);
    if (status.ok()) return result;
    return Annotate(status, absl::StrCat("rank ", spec_.rank));
  }

 private:
  // An empty result where all are there.
  absl::StatusOr<TrainResult> Meet();
  absl::StatusOr<TrainResult> Work();
  absl::Status FindCoordinator();
  absl::Status StartCoordinator(const std::string& listen);
  absl::Status AgreeOnPlugins(const job::Job& job);
  absl::StatusOr<observe::RunDirectory> FindDirectory(const job::Job& job);
  absl::StatusOr<observe::RunDirectory> MakeDirectory(const job::Job& job);
  absl::Status Link(const job::Job& job);
  void AwaitOthers(const absl::Status& status);
  bool leads() const { return spec_.rank == 0; }

  TrainOptions options_;
  WorkerSpec spec_;  // `bound`: by the launcher, or by itself
  Secret secret_;
  std::string address_;  // of the coordinator
  std::unique_ptr<runtime::Coordinator> coordinator_;
  std::unique_ptr<runtime::MeetingPoint> point_;
  std::unique_ptr<runtime::GrpcRendezvous> meeting_;
  HostLink host_link_;
  RankTransports transports_;
  std::unique_ptr<runtime::HostThreads> threads_;
};

absl::Status ProcessRank::StartCoordinator(const std::string& listen) {
  runtime::CoordinatorOptions options;
  options.listen = listen;
  options.ranks = spec_.ranks;
  options.job_id = spec_.job_id;
  options.epoch = spec_.restart;
  options.secret = secret_;
  options.host_rank = spec_.rank;
  options.join_ns = options_.join_timeout_ns;
  options.silence_ns = options_.peer_timeout_ns;
  WEFT_ASSIGN_OR_RETURN(coordinator_, runtime::Coordinator::Start(options));
  return absl::OkStatus();
}

absl::Status ProcessRank::FindCoordinator() {
  WEFT_ASSIGN_OR_RETURN(secret_, runtime::ReadJobSecret(spec_));
  if (spec_.meeting.empty()) {
    address_ = spec_.coordinator;
    if (spec_.one_host() && spec_.run_directory.empty()) {
      // Of a rank, not of `weft run`; the name of this host may be that of an
      // address that others reach.
      WEFT_ASSIGN_OR_RETURN(
          const runtime::HostPort at,
          runtime::ParseHostPort("the coordinator's address", address_));
      address_ = runtime::JoinHostPort("127.0.0.1", at.port);
    }
    return spec_.hosts_coordinator ? StartCoordinator(address_)
                                   : absl::OkStatus();
  }
  if (leads()) {
    if (secret_.empty()) {
      WEFT_ASSIGN_OR_RETURN(secret_, runtime::NewJobSecret());
    }
    WEFT_RETURN_IF_ERROR(StartCoordinator("127.0.0.1:0"));
    address_ = coordinator_->address();
    absl::StatusOr<std::unique_ptr<runtime::MeetingPoint>> point =
        runtime::MeetingPoint::Open(
            spec_.meeting, Secret::Join({address_, "\n", secret_.view()}));
    if (!point.ok()) {
      // Nobody knows its address: nobody has to be waited for.
      coordinator_.reset();
      return point.status();
    }
    point_ = *std::move(point);
    return absl::OkStatus();
  }
  WEFT_ASSIGN_OR_RETURN(
      const Secret note,
      runtime::MeetingPoint::Ask(spec_.meeting, options_.join_timeout_ns));
  const std::pair<absl::string_view, absl::string_view> lines =
      absl::StrSplit(note.view(), absl::MaxSplits('\n', 1));
  address_ = std::string(lines.first);
  secret_ = Secret::Of(lines.second);
  return absl::OkStatus();
}

absl::StatusOr<TrainResult> ProcessRank::Meet() {
  WEFT_RETURN_IF_ERROR(CheckManyRanks(options_));
  if (spec_.ranks == 1) return TrainResult();
  // As many on all ranks: each of them says so at once.
  WEFT_RETURN_IF_ERROR(
      ReserveDescriptors(kOwnDescriptors + kDescriptorsPerPeer * spec_.ranks,
                         absl::StrCat("a rank of ", spec_.ranks)));
  WEFT_RETURN_IF_ERROR(FindCoordinator());
  runtime::RendezvousOptions options;
  options.address = address_;
  options.rank = spec_.rank;
  options.ranks = spec_.ranks;
  options.job_id = spec_.job_id;
  options.epoch = spec_.restart;
  options.secret = secret_;
  options.join_ns = options_.join_timeout_ns;
  options.silence_ns = options_.peer_timeout_ns;
  options.facts = {
      {"Weft version", std::string(kVersion)},
      {"version of what ranks send", absl::StrCat(kRankWireVersion)},
      {"plugin ABI", absl::StrCat(WEFT_ABI_MAJOR)},
      {"--peer-timeout in ns", absl::StrCat(options_.peer_timeout_ns)},
  };
  WEFT_ASSIGN_OR_RETURN(meeting_, runtime::GrpcRendezvous::Connect(options));
  point_.reset();  // all have come
  return TrainResult();
}

void ProcessRank::AwaitOthers(const absl::Status& status) {
  if (coordinator_->WaitForEnd(kQuietNs)) return;
  if (!status.ok()) {
    LOG(WARNING) << ErrorName(ErrorCodeOf(status)) << ": rank " << spec_.rank
                 << ": " << status.message()
                 << " (other ranks have not heard of it; waiting for them)";
  }
  coordinator_->WaitForEnd(kFarewellNs - kQuietNs);
}

// Two ranks may have other plugins; one plugin is one file to all.
absl::Status ProcessRank::AgreeOnPlugins(const job::Job& job) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<DeviceName> devices,
                        DevicesOfRank(job.devices(), spec_.rank, spec_.ranks));
  std::map<std::string, std::string> mine;
  const auto add = [&mine](const Plugin& plugin) {
    mine[plugin.name()] = absl::StrCat(plugin.build_id(), " ", plugin.sha256());
  };
  for (const DeviceName& device : devices) {
    WEFT_ASSIGN_OR_RETURN(const Plugin* plugin,
                          Plugin::Load(device.kind, options_.plugins));
    add(*plugin);
  }
  for (const runtime::WireTransport& by : transports_.wire()) {
    add(by.transport->plugin());
  }
  const std::string text = absl::StrJoin(mine, "\n", absl::PairFormatter("\t"));
  WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                        meeting_->AllGather(spec_.rank, "plugins", text));
  std::map<std::string, std::pair<size_t, std::string>> first;
  for (size_t r = 0; r < all.size(); ++r) {
    for (absl::string_view line : absl::StrSplit(all[r], '\n')) {
      const std::pair<std::string, std::string> entry =
          absl::StrSplit(line, absl::MaxSplits('\t', 1));
      const auto at = first.try_emplace(entry.first, r, entry.second).first;
      if (at->second.second == entry.second) continue;
      return MakeError(
          ErrorCode::kBadLaunch,
          absl::StrCat("ranks differ in the plugin '", entry.first, "': rank ",
                       r, " has ", entry.second, ", rank ", at->second.first,
                       " has ", at->second.second));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<observe::RunDirectory> ProcessRank::MakeDirectory(
    const job::Job& job) {
  if (!spec_.run_directory.empty()) {
    // The launcher has it for all of them.
    return observe::RunDirectory::Share(*options_.os, spec_.run_directory);
  }
  if (!options_.resume.empty()) {
    return observe::RunDirectory::Open(*options_.os, options_.resume);
  }
  return observe::RunDirectory::Create(*options_.os, *options_.clock,
                                       options_.runs_dir, job.name());
}

// Rank 0 makes it; the others are told where it is.
absl::StatusOr<observe::RunDirectory> ProcessRank::FindDirectory(
    const job::Job& job) {
  std::optional<observe::RunDirectory> made;
  if (leads()) {
    WEFT_ASSIGN_OR_RETURN(made, MakeDirectory(job));
  }
  if (meeting_ == nullptr) return *std::move(made);
  absl::StatusOr<std::vector<std::string>> all = meeting_->AllGather(
      spec_.rank, "run/directory", leads() ? made->path() : "");
  if (!all.ok()) {
    if (leads() && made->is_new()) made->Discard();
    return all.status();
  }
  if (leads()) return *std::move(made);
  if (!spec_.one_host()) {
    for (const char* folder : {"logs", "errors", "trace"}) {
      WEFT_RETURN_IF_ERROR(
          options_.os->MakeDirectories(JoinPath((*all)[0], folder)));
    }
  }
  return observe::RunDirectory::Share(*options_.os, (*all)[0]);
}

absl::Status ProcessRank::Link(const job::Job& job) {
  if (job.runtime().bind_threads() && !spec_.bound) {
    // Before it starts the threads that work for it.
    WEFT_RETURN_IF_ERROR(
        runtime::CoreBinding::KeepToPart(spec_.local_rank, spec_.local_ranks));
    spec_.bound = true;
  }
  RankLink& link = options_.link;
  link.rank = spec_.rank;
  link.ranks = spec_.ranks;
  link.rendezvous = meeting_.get();
  link.ranks_of_host = spec_.local_ranks;
  link.ranks_on_cores = spec_.bound ? 1 : spec_.local_ranks;
  link.process = true;
  link.domain.rank = spec_.rank;
  link.domain.world = spec_.ranks;
  link.domain.wire_version = kRankWireVersion;
  link.domain.job = absl::StrCat(spec_.job_id, "/", job.name());
  link.domain.epoch = spec_.restart;
  link.domain.peer_timeout_ms =
      static_cast<uint32_t>(options_.peer_timeout_ns / 1'000'000);
  if (!secret_.empty()) {
    link.domain.secret = runtime::KeyOf(secret_.view(), "transport");
  }
  if (meeting_ != nullptr) {
    std::map<std::string, TransportOptions> defaults;
    if (!spec_.one_host() && !secret_.empty()) {
      WEFT_RETURN_IF_ERROR(host_link_.Make(meeting_.get(), spec_.rank,
                                           spec_.ranks, address_, secret_));
      defaults["grpc"] = host_link_.options();
    }
    WEFT_RETURN_IF_ERROR(
        transports_.Load(options_, {"shm", "grpc"}, defaults, link.domain));
    link.transports = transports_.wire();
  }
  uint32_t threads = job.runtime().threads();
  if (threads == 0) {
    threads =
        runtime::ThreadsPerRank(runtime::AvailableCores(*options_.os), spec_);
  }
  WEFT_ASSIGN_OR_RETURN(
      threads_, runtime::HostThreads::Install(*options_.os, threads,
                                              job.runtime().bind_threads()));
  link.threads = threads_.get();
  if (leads()) return absl::OkStatus();
  options_.progress = false;
  options_.dumps = {};
  return absl::OkStatus();
}

absl::StatusOr<TrainResult> ProcessRank::Work() {
  if (spec_.restart > 0 && !spec_.run_directory.empty() &&
      options_.os->Exists(
          JoinPath(spec_.run_directory, "resolved_job.txtpb"))) {
    options_.resume = spec_.run_directory;
  }
  if (!options_.resume.empty()) {
    WEFT_ASSIGN_OR_RETURN(options_.resume, ResumedDirectory(options_));
  }
  WEFT_ASSIGN_OR_RETURN(const job::Job job, ReadJob(options_));
  WEFT_RETURN_IF_ERROR(Link(job));
  if (meeting_ != nullptr) {
    WEFT_RETURN_IF_ERROR(
        runtime::Agree(meeting_.get(), spec_.rank, "job", JobText(job)));
    WEFT_RETURN_IF_ERROR(
        runtime::Agree(meeting_.get(), spec_.rank, "run to go on with",
                       options_.resume.empty() ? "a new one" : "an old one"));
    WEFT_RETURN_IF_ERROR(AgreeOnPlugins(job));
  }
  WEFT_RETURN_IF_ERROR(ShareOfRank(job, spec_.rank, spec_.ranks).status());
  WEFT_ASSIGN_OR_RETURN(observe::RunDirectory directory, FindDirectory(job));
  LOG(INFO) << Describe(spec_);
  return TrainingRun(options_, job, std::move(directory)).Execute();
}

}  // namespace

absl::StatusOr<TrainResult> TrainProcessRank(const TrainOptions& options) {
  return ProcessRank(options).Run();
}

}  // namespace weft
