#include "compiler/pipeline/schedule.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

constexpr absl::string_view kNames[] = {"gpipe", "1f1b", "interleaved"};

absl::Status Bad(const std::string& message) {
  return MakeError(ErrorCode::kBadJob, message);
}

// What one rank does, in order.
class RankOrder {
 public:
  RankOrder(const PipelineSpec& spec, int rank)
      : spec_(spec), rank_(rank), chunks_(spec.stages / spec.ranks) {
    // With gpipe nothing is gained by coming back to a stage.
    const bool groups = spec.schedule == PipelineSchedule::kInterleaved;
    group_ = groups ? spec.ranks : spec.micro_batches;
  }

  // Of whole groups; what is too much is left out, which leaves the order of
  // the rest as it was.
  std::vector<PhaseAct> Make() const {
    const int groups = (spec_.micro_batches + group_ - 1) / group_;
    const int all = groups * group_ * chunks_;
    const bool gpipe = spec_.schedule == PipelineSchedule::kGpipe;
    // The passes of the others through the pipeline behind this rank; with
    // several stages here, those of its other stages, and twice the way back.
    const int behind = spec_.ranks - 1 - rank_;
    int ahead =
        chunks_ == 1 ? behind : 2 * behind + (chunks_ - 1) * spec_.ranks;
    if (gpipe) ahead = all;
    ahead = std::min(ahead, all);
    std::vector<PhaseAct> out;
    auto add = [&](const PhaseAct& act) {
      if (act.micro_batch < spec_.micro_batches) out.push_back(act);
    };
    for (int i = 0; i < ahead; ++i) add(Forward(i));
    for (int i = ahead; i < all; ++i) {
      add(Forward(i));
      add(Backward(i - ahead));
    }
    for (int i = all - ahead; i < all; ++i) add(Backward(i));
    return out;
  }

 private:
  // The i-th pass of this rank in one direction: which of its stages, in the
  // direction's order, and which micro-batch.
  struct Pass {
    int chunk = 0;
    int micro_batch = 0;
  };
  Pass PassAt(int i) const {
    const int group = i / (group_ * chunks_);
    const int within = i % (group_ * chunks_);
    return {within / group_, group * group_ + within % group_};
  }
  PhaseAct Forward(int i) const {
    const Pass pass = PassAt(i);
    return {rank_ + pass.chunk * spec_.ranks, pass.micro_batch};
  }
  PhaseAct Backward(int i) const {
    const Pass pass = PassAt(i);
    const int stage = rank_ + (chunks_ - 1 - pass.chunk) * spec_.ranks;
    return {2 * spec_.stages - 1 - stage, pass.micro_batch};
  }

  const PipelineSpec& spec_;
  const int rank_;
  const int chunks_;  // stages of a rank
  int group_ = 1;     // micro-batches that go through a stage in a row
};

}  // namespace

absl::string_view Name(PipelineSchedule schedule) {
  return kNames[static_cast<size_t>(schedule)];
}

absl::StatusOr<PipelineSchedule> PipelineScheduleNamed(absl::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] == name) return static_cast<PipelineSchedule>(i);
  }
  return Bad(absl::StrCat("pipeline.schedule is '", name, "'; there are ",
                          absl::StrJoin(kNames, ", ")));
}

absl::Status CheckPipeline(const PipelineSpec& spec) {
  if (spec.stages == 0) return absl::OkStatus();
  if (spec.stages % spec.ranks != 0) {
    return Bad(absl::StrCat("pipeline.stages is ", spec.stages,
                            ", which is no multiple of the ", spec.ranks,
                            " ranks that the job runs on"));
  }
  const int chunks = spec.stages / spec.ranks;
  const std::string says =
      absl::StrCat("pipeline.schedule is '", Name(spec.schedule), "', ");
  const std::string given =
      absl::StrCat("; there are ", spec.stages, " on ", spec.ranks, " ranks");
  if (spec.schedule == PipelineSchedule::kInterleaved && chunks == 1) {
    return Bad(absl::StrCat(
        says, "which takes several stages of each rank in turn", given));
  }
  if (spec.schedule == PipelineSchedule::k1F1B && chunks > 1) {
    return Bad(absl::StrCat(says, "which has one stage a rank", given,
                            " ('interleaved' takes several)"));
  }
  if (spec.schedule != PipelineSchedule::kGpipe &&
      spec.micro_batches < spec.ranks) {
    return Bad(absl::StrCat(says, "which keeps ", spec.ranks,
                            " ranks busy with as many micro-batches; "
                            "micro_batches is ",
                            spec.micro_batches));
  }
  return absl::OkStatus();
}

std::string ToString(const PipelineSpec& spec, const PhaseAct& act) {
  return absl::StrCat(spec.IsForward(act.phase) ? "F" : "B",
                      spec.StageOf(act.phase), ".", act.micro_batch);
}

absl::StatusOr<PhaseOrder> PhaseOrder::Create(const PipelineSpec& spec) {
  WEFT_RETURN_IF_ERROR(CheckPipeline(spec));
  PhaseOrder order(spec);
  std::vector<std::vector<PhaseAct>> by_rank;
  if (spec.stages == 0) {
    by_rank.emplace_back();
    for (int k = 0; k < spec.micro_batches; ++k) by_rank[0].push_back({0, k});
  } else {
    for (int rank = 0; rank < spec.ranks; ++rank) {
      by_rank.push_back(RankOrder(spec, rank).Make());
    }
  }
  WEFT_RETURN_IF_ERROR(order.Merge(by_rank));
  return order;
}

absl::Status PhaseOrder::Merge(
    const std::vector<std::vector<PhaseAct>>& by_rank) {
  position_.resize(spec_.phases());
  std::vector<size_t> next(by_rank.size(), 0);
  std::vector<size_t> done(spec_.phases(), 0);  // micro-batches, by phase
  size_t left = 0;
  for (const auto& acts : by_rank) left += acts.size();
  while (left > 0) {
    // A round takes what was possible when it began: one act of each rank.
    std::vector<PhaseAct> round;
    for (size_t r = 0; r < by_rank.size(); ++r) {
      if (next[r] == by_rank[r].size()) continue;
      const PhaseAct& act = by_rank[r][next[r]];
      const auto k = static_cast<size_t>(act.micro_batch);
      if (act.phase > 0 && done[act.phase - 1] <= k) continue;
      round.push_back(act);
      ++next[r];
    }
    if (round.empty()) {
      return Bad(absl::StrCat("pipeline.schedule '", Name(spec_.schedule),
                              "' has no order for ", spec_.stages,
                              " stages on ", spec_.ranks, " ranks with ",
                              spec_.micro_batches, " micro-batches"));
    }
    for (const PhaseAct& act : round) {
      position_[act.phase].push_back(static_cast<int>(acts_.size()));
      acts_.push_back(act);
      ++done[act.phase];
    }
    left -= round.size();
  }
  return absl::OkStatus();
}

std::vector<PhaseAct> PhaseOrder::OfRank(int rank) const {
  std::vector<PhaseAct> out;
  for (const PhaseAct& act : acts_) {
    if (spec_.RankOf(act.phase) == rank) out.push_back(act);
  }
  return out;
}

int PhaseOrder::InFlight(int from, int to) const {
  if (from == to) return 1;
  size_t most = 1, over = 0;  // micro-batches that are through `to`
  for (size_t k = 0; k < position_[from].size(); ++k) {
    while (position_[to][over] < position_[from][k]) ++over;
    most = std::max(most, k + 1 - over);
  }
  return static_cast<int>(most);
}

}  // namespace weft
