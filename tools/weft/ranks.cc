#include "tools/weft/ranks.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/placement/device_names.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "tools/weft/device_list.h"

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
  job->clear_sharding();
  job->clear_zero();
  job->clear_pipeline();
  WEFT_ASSIGN_OR_RETURN(*job->mutable_devices(),
                        DevicesOfFirst(job->devices()));
  for (job::Placement& placement : *job->mutable_placement()) {
    WEFT_ASSIGN_OR_RETURN(auto device,
                          SplitDevice(placement.device(), placement.scope(),
                                      std::numeric_limits<int>::max()));
    placement.set_device(device.second);
  }
  return absl::OkStatus();
}

std::vector<int> RankShare::value_axes() const {
  std::vector<int> out;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (axis == data || axis == pipe || mesh.axis(axis).size == 1) continue;
    out.push_back(axis);
  }
  return out;
}

namespace {

absl::Status Bad(const std::string& message) {
  return MakeError(ErrorCode::kBadJob, message);
}

// The scope of the first placement on a rank by number; "" where there is none.
absl::StatusOr<std::string> PlacedScope(const job::Job& job, int ranks) {
  for (const job::Placement& placement : job.placement()) {
    WEFT_ASSIGN_OR_RETURN(auto device,
                          SplitDevice(placement.device(), placement.scope(),
                                      std::numeric_limits<int>::max()));
    if (device.first >= ranks) {
      return MakeError(
          ErrorCode::kDeviceNotFound,
          absl::StrCat("placement of '", placement.scope(), "' is on '",
                       placement.device(), "', but ", ranks,
                       " ranks share the nodes, w0 to w", ranks - 1));
    }
    if (device.first >= 0) return placement.scope();
  }
  return std::string();
}

// What says which rank does what: placement on ranks (`placed` is a scope of
// it) or the pipeline, and an axis for it.
absl::Status CheckPipelineFits(const job::Job& job, const std::string& placed,
                               const RankShare& share) {
  const job::Pipeline& pipeline = job.pipeline();
  if (pipeline.schedule().empty()) return absl::OkStatus();
  if (pipeline.stages() == 0 && placed.empty()) {
    return Bad(absl::StrCat("pipeline.schedule is '", pipeline.schedule(),
                            "', but pipeline.stages is 0 and placement gives "
                            "nothing to ranks"));
  }
  if (pipeline.stages() != 0 && !placed.empty()) {
    return Bad(absl::StrCat(
        "placement gives '", placed, "' to a rank, but pipeline.stages (",
        pipeline.stages(), ") says itself which rank does what"));
  }
  if (share.pipe < 0) {
    return Bad(absl::StrCat("pipeline.stages is ", pipeline.stages(),
                            ", but the mesh (", share.mesh.ToString(),
                            ") has no axis 'pipe'"));
  }
  return absl::OkStatus();
}

std::vector<MeshAxis> AxesOf(const job::Job& job) {
  std::vector<MeshAxis> axes;
  for (const job::Axis& axis : job.mesh().axis()) {
    axes.push_back({axis.name(), static_cast<int>(axis.size())});
  }
  return axes;
}

absl::Status TakeMesh(const job::Job& job, uint32_t ranks, RankShare* share) {
  std::vector<MeshAxis> axes = AxesOf(job);
  const int count = static_cast<int>(ranks);
  if (axes.empty()) {
    WEFT_ASSIGN_OR_RETURN(std::string placed, PlacedScope(job, count));
    const bool piped = !placed.empty() || !job.pipeline().schedule().empty();
    axes = {{piped ? "pipe" : "data", count}};
  }
  WEFT_ASSIGN_OR_RETURN(share->mesh, Mesh::Create(axes));
  if (share->mesh.size() != count) {
    return Bad(absl::StrCat("the mesh (", share->mesh.ToString(), ") has ",
                            share->mesh.size(), " ranks, the job runs on ",
                            ranks,
                            " (weft run --nproc-per-node, weft train "
                            "--virtual-ranks and weft plan --ranks say how "
                            "many)"));
  }
  share->data = share->mesh.AxisNamed("data");
  share->pipe = share->mesh.AxisNamed("pipe");
  WEFT_ASSIGN_OR_RETURN(
      std::string placed,
      PlacedScope(job, share->pipe < 0 ? count : share->SizeOf(share->pipe)));
  if (!placed.empty() && share->pipe < 0) {
    return Bad(absl::StrCat("placement of '", placed,
                            "' is on one rank of several, but the mesh (",
                            share->mesh.ToString(), ") has no axis 'pipe'"));
  }
  return CheckPipelineFits(job, placed, *share);
}

// On one rank a pipeline changes nothing.
absl::Status SetPipeline(const job::Job& job, RankShare* share) {
  const job::Pipeline& wanted = job.pipeline();
  if (wanted.schedule().empty() || !share->placed()) return absl::OkStatus();
  PipelineSpec& spec = share->pipeline;
  WEFT_ASSIGN_OR_RETURN(spec.schedule,
                        PipelineScheduleNamed(wanted.schedule()));
  spec.ranks = share->SizeOf(share->pipe);
  spec.stages =
      wanted.stages() == 0 ? spec.ranks : static_cast<int>(wanted.stages());
  spec.micro_batches = static_cast<int>(share->micro_batches);
  return CheckPipeline(spec);
}

}  // namespace

absl::StatusOr<RankShare> ShareOfRank(const job::Job& job, uint32_t rank,
                                      uint32_t ranks) {
  RankShare share;
  share.rank = rank;
  share.ranks = ranks;
  WEFT_RETURN_IF_ERROR(TakeMesh(job, ranks, &share));
  const int64_t sharers = share.SizeOf(share.data);
  const int64_t shards = job.logical_shards();
  share.all_micro_batches =
      shards != 0 ? shards : sharers * job.micro_batches();
  if (shards != 0 &&
      (shards % sharers != 0 || (sharers & (sharers - 1)) != 0)) {
    return Bad(absl::StrCat("logical_shards is ", shards, ", the job runs on ",
                            sharers,
                            " ranks; these must be a power of two, and "
                            "not more than the shards"));
  }
  if (job.batch_size() % share.all_micro_batches != 0) {
    return Bad(absl::StrCat("batch_size is ", job.batch_size(), ", which ",
                            share.all_micro_batches, " micro-batches (",
                            job.micro_batches(), " on each of ", sharers,
                            " ranks) do not divide"));
  }
  share.micro_batches = share.all_micro_batches / sharers;
  share.mapped_bytes = static_cast<int64_t>(job.collectives().mapped_bytes());
  WEFT_RETURN_IF_ERROR(SetPipeline(job, &share));
  WEFT_ASSIGN_OR_RETURN(std::vector<std::string> kinds,
                        ComputeKinds(job.devices(), ranks));
  WEFT_RETURN_IF_ERROR(TakeKinds(job, kinds, &share));
  return share;
}

namespace {

// Of a rank and the one at the start of its line along `axis` (-1: rank 0), the
// first two that are unlike.
std::string UnlikeAlong(const Mesh& mesh, int axis,
                        const std::vector<std::string>& kinds) {
  for (int rank = 0; rank < mesh.size(); ++rank) {
    int first = 0;
    if (axis >= 0) {
      std::vector<int> at = mesh.CoordinatesOf(rank);
      at[axis] = 0;
      first = mesh.MemberAt(at);
    }
    if (kinds[rank] == kinds[first]) continue;
    return absl::StrCat("ranks ", first, " (", kinds[first], ") and ", rank,
                        " (", kinds[rank], ")");
  }
  return "";
}

}  // namespace

absl::Status TakeKinds(const job::Job& job,
                       const std::vector<std::string>& kinds,
                       RankShare* share) {
  share->unlike = UnlikeAlong(share->mesh, -1, kinds);
  share->unlike_data.clear();
  share->zero = job.zero();
  if (share->unlike.empty()) return absl::OkStatus();
  if (job.logical_shards() != 0) {
    return Bad(absl::StrCat("logical_shards is ", job.logical_shards(),
                            ", which promises the bits of one rank; ",
                            share->unlike, " compute other bits"));
  }
  for (int axis : share->value_axes()) {
    const std::string unlike = UnlikeAlong(share->mesh, axis, kinds);
    if (unlike.empty()) continue;
    return Bad(absl::StrCat(unlike,
                            " are unlike and share values on mesh axis "
                            "'",
                            share->mesh.axis(axis).name,
                            "'; unlike ranks may share micro-batches ('data') "
                            "and nodes ('pipe')"));
  }
  if (share->data < 0) return absl::OkStatus();
  share->unlike_data = UnlikeAlong(share->mesh, share->data, kinds);
  if (!share->unlike_data.empty()) {
    share->zero = std::max(share->zero, uint32_t{1});
  }
  return absl::OkStatus();
}

void TakeLocalities(const std::vector<std::string>& localities,
                    RankShare* share) {
  share->hosts.clear();
  std::map<std::string, std::vector<int>> hosts;
  for (size_t r = 0; r < localities.size(); ++r) {
    hosts[localities[r]].push_back(static_cast<int>(r));
  }
  if (hosts.count("") != 0) {
    share->mapped_bytes = 0;
  } else if (hosts.size() > 1) {
    for (auto& [locality, ranks] : hosts) share->hosts.push_back(ranks);
    std::sort(share->hosts.begin(), share->hosts.end());
  }
}

absl::StatusOr<Sbp> SbpOf(const job::Sharding& sharding) {
  if (sharding.signature().empty()) return Sbp::Split(sharding.split());
  WEFT_ASSIGN_OR_RETURN(Sbp sbp, ParseSbp(sharding.signature()));
  if (!sbp.is_micro()) return sbp;
  return MakeError(ErrorCode::kBadValue,
                   "M is what the axis 'data' makes of micro-batches; it "
                   "cannot be asked for");
}

namespace {

absl::Status CheckSharding(const job::Sharding& sharding,
                           const std::set<std::string>& axes) {
  const std::string what = absl::StrCat("sharding of '", sharding.value(), "'");
  if (axes.count(sharding.axis()) == 0 || sharding.axis() == "pipe") {
    return Bad(absl::StrCat(
        what, " is on axis '", sharding.axis(), "'; axes of the mesh: ",
        axes.empty() ? "none, there is no mesh" : absl::StrJoin(axes, ", "),
        "; on 'pipe' no values are split"));
  }
  if (!sharding.signature().empty() && sharding.split() != 0) {
    return Bad(absl::StrCat(what, " has a split (", sharding.split(),
                            ") and a signature (", sharding.signature(),
                            "); one of them says it"));
  }
  if (sharding.split() < 0 || sharding.split() >= kMaxRank) {
    return Bad(absl::StrCat(what, " splits dimension ", sharding.split(),
                            "; there are 0 to ", kMaxRank - 1));
  }
  absl::StatusOr<Sbp> sbp = SbpOf(sharding);
  if (sbp.ok()) return absl::OkStatus();
  return Bad(absl::StrCat(what, ": ", sbp.status().message()));
}

}  // namespace

absl::Status CheckMesh(const job::Job& job) {
  if (MeshSize(job) > kMaxRanks) {
    return Bad(absl::StrCat("the mesh has ", MeshSize(job), " ranks, at most ",
                            kMaxRanks, " are possible"));
  }
  const absl::StatusOr<Mesh> mesh = Mesh::Create(AxesOf(job));
  if (!mesh.ok()) return Bad(std::string(mesh.status().message()));
  std::set<std::string> names;
  for (const MeshAxis& axis : mesh->axes()) names.insert(axis.name);
  if (job.zero() > 3) {
    return Bad(absl::StrCat("zero is ", job.zero(), ", it is 0, 1, 2 or 3"));
  }
  for (const job::Sharding& sharding : job.sharding()) {
    WEFT_RETURN_IF_ERROR(CheckSharding(sharding, names));
  }
  return absl::OkStatus();
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
  return Bad(absl::StrCat("collectives.algorithm is '", Name(algorithm),
                          "', which sums in the order ", Name(order),
                          "; logical_shards (", job.logical_shards(),
                          ") needs one of the order ",
                          Name(OrderClass::kTree)));
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
  return Bad(absl::StrCat("collectives.algorithm is '", wanted, "'; there are ",
                          absl::StrJoin(names, ", ")));
}

}  // namespace weft
