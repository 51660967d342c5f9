#include "tools/weft/ranks.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/placement/device_names.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft {

uint64_t MeshSize(const job::Job& job) {
  uint64_t size = 1;
  for (const job::Axis& axis : job.mesh().axis()) {
    // Large enough to be refused, and to be multiplied again.
    size = std::min(size * axis.size(), uint64_t{1} << 31);
  }
  return size;
}

absl::Status TakeOffRanks(job::Job* job) {
  job->clear_mesh();
  for (job::Placement& placement : *job->mutable_placement()) {
    WEFT_ASSIGN_OR_RETURN(auto device,
                          SplitDevice(placement.device(), placement.scope(),
                                      std::numeric_limits<int>::max()));
    placement.set_device(device.second);
  }
  return absl::OkStatus();
}

absl::StatusOr<RankShare> ShareOfRank(const job::Job& job, uint32_t rank,
                                      uint32_t ranks) {
  const auto bad = [](const std::string& message) {
    return MakeError(ErrorCode::kBadJob, message);
  };
  if (job.mesh().axis_size() != 0 && MeshSize(job) != ranks) {
    std::vector<std::string> axes;
    for (const job::Axis& axis : job.mesh().axis()) {
      axes.push_back(absl::StrCat(axis.name(), "=", axis.size()));
    }
    return bad(absl::StrCat("the mesh (", absl::StrJoin(axes, ", "), ") has ",
                            MeshSize(job), " ranks, the job runs on ", ranks));
  }
  RankShare share;
  share.rank = rank;
  share.ranks = ranks;
  for (const job::Placement& placement : job.placement()) {
    WEFT_ASSIGN_OR_RETURN(auto device,
                          SplitDevice(placement.device(), placement.scope(),
                                      static_cast<int>(ranks)));
    share.placed = share.placed || device.first >= 0;
  }
  if (share.placed) {
    share.all_micro_batches = share.micro_batches = job.micro_batches();
    return share;
  }
  const int64_t shards = job.logical_shards();
  share.all_micro_batches =
      shards != 0 ? shards : int64_t{ranks} * job.micro_batches();
  if (shards != 0 && (shards % ranks != 0 || (ranks & (ranks - 1)) != 0)) {
    return bad(absl::StrCat("logical_shards is ", shards, ", the job runs on ",
                            ranks,
                            " ranks; these must be a power of two, and "
                            "not more than the shards"));
  }
  if (job.batch_size() % share.all_micro_batches != 0) {
    return bad(absl::StrCat("batch_size is ", job.batch_size(), ", which ",
                            share.all_micro_batches, " micro-batches (",
                            job.micro_batches(), " on each of ", ranks,
                            " ranks) do not divide"));
  }
  share.micro_batches = share.all_micro_batches / ranks;
  return share;
}

namespace {

// Logical shards promise the same bits on any number of ranks.
absl::StatusOr<CollectiveAlgorithm> Checked(const job::Job& job,
                                            CollectiveAlgorithm algorithm) {
  if (job.logical_shards() == 0 || algorithm == CollectiveAlgorithm::kAuto) {
    return algorithm;
  }
  const OrderClass order = OrderClassOf(CollectiveKind::kAllReduce, algorithm);
  if (order == OrderClass::kTree) return algorithm;
  return MakeError(
      ErrorCode::kBadJob,
      absl::StrCat("collectives.algorithm is '", Name(algorithm),
                   "', which sums in the order ", Name(order),
                   "; logical_shards (", job.logical_shards(),
                   ") needs one of the order ", Name(OrderClass::kTree)));
}

}  // namespace

absl::StatusOr<CollectiveAlgorithm> AlgorithmOfJob(const job::Job& job) {
  const std::string& wanted = job.collectives().algorithm();
  std::vector<std::string> names;
  for (int a = 0; a < kNumCollectiveAlgorithms; ++a) {
    const auto algorithm = static_cast<CollectiveAlgorithm>(a);
    if (Name(algorithm) == wanted) return Checked(job, algorithm);
    names.emplace_back(Name(algorithm));
  }
  return MakeError(ErrorCode::kBadJob,
                   absl::StrCat("collectives.algorithm is '", wanted,
                                "'; there are ", absl::StrJoin(names, ", ")));
}

}  // namespace weft
