#include "core/reference/job_interpreter.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/graph/channels.h"
#include "core/reference/graph_run.h"

namespace weft {
namespace {

class Job {
 public:
  Job(absl::Span<const RankProgram> programs, JobOrder order)
      : programs_(programs), order_(order), pending_(programs.size()) {}

  absl::StatusOr<std::vector<InterpretResult>> Run();

 private:
  using Channel = std::tuple<int, int, std::string>;  // from, to, name

  absl::Status Prepare();
  // Lets the rank do what it can; whether it did anything.
  absl::StatusOr<bool> Advance(int rank);
  absl::Status Act(int rank, const Node& node);
  bool CanAct(int rank, const Node& node) const;

  const Graph& graph(int rank) const { return *programs_[rank].graph; }
  Channel ChannelOf(int rank, const Node& node) const {
    OpView op = graph(rank).View(node);
    const int peer = static_cast<int>(op.Int("peer"));
    const bool sends = node.Is(OpId::kSend);
    return {sends ? rank : peer, sends ? peer : rank, op.String("channel")};
  }
  absl::Status Stuck() const;

  absl::Span<const RankProgram> programs_;
  JobOrder order_;
  std::deque<GraphRun> runs_;
  std::vector<std::vector<const Node*>> pending_;  // by rank
  std::map<Channel, std::vector<Literal>> sent_;
};

absl::Status Job::Prepare() {
  std::vector<const Graph*> graphs;
  for (const RankProgram& p : programs_) graphs.push_back(p.graph);
  WEFT_RETURN_IF_ERROR(MatchChannels(graphs));
  for (size_t rank = 0; rank < programs_.size(); ++rank) {
    const RankProgram& p = programs_[rank];
    runs_.emplace_back(*p.graph, p.feeds, p.micro_feeds);
    WEFT_RETURN_IF_ERROR(runs_.back().Prepare());
    pending_[rank] = runs_.back().order();
  }
  return absl::OkStatus();
}

bool Job::CanAct(int rank, const Node& node) const {
  if (!runs_[rank].CanAct(node)) return false;
  return !node.Is(OpId::kRecv) || sent_.count(ChannelOf(rank, node)) > 0;
}

absl::Status Job::Act(int rank, const Node& node) {
  GraphRun& run = runs_[rank];
  const size_t acts = run.ActsOf(node);
  if (node.Is(OpId::kRecv)) {
    const Channel channel = ChannelOf(rank, node);
    std::vector<Literal>& values = sent_[channel];
    if (values.size() != acts) {
      return MakeError(
          ErrorCode::kBadValue,
          absl::StrCat("channel '", std::get<2>(channel), "': rank ",
                       std::get<0>(channel), " sends ", values.size(),
                       " values a step, rank ", rank, " receives ", acts));
    }
    run.Receive(node, std::move(values));
  }
  absl::Status status = run.Act(node);
  if (!status.ok()) return Annotate(status, absl::StrCat("rank ", rank));
  if (node.Is(OpId::kSend)) {
    std::vector<Literal>& values = sent_[ChannelOf(rank, node)];
    for (size_t act = 0; act < acts; ++act) {
      values.push_back(node.inputs().empty() ? Literal()
                                             : run.Read(node.input(0), act));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Job::Advance(int rank) {
  std::vector<const Node*> left;
  std::vector<const Node*>& pending = pending_[rank];
  for (size_t i = 0; i < pending.size(); ++i) {
    const Node& node = *pending[i];
    if (CanAct(rank, node)) {
      WEFT_RETURN_IF_ERROR(Act(rank, node));
    } else if (order_ == JobOrder::kReady) {
      left.push_back(&node);
    } else {  // a weft.Recv, as all before it is done
      left.assign(pending.begin() + i, pending.end());
      break;
    }
  }
  const bool moved = left.size() < pending.size();
  pending = std::move(left);
  return moved;
}

absl::Status Job::Stuck() const {
  std::string text = "no rank can go on";
  for (size_t rank = 0; rank < pending_.size(); ++rank) {
    for (const Node* node : pending_[rank]) {
      if (!node->Is(OpId::kRecv) || !runs_[rank].CanAct(*node)) continue;
      const Channel channel = ChannelOf(static_cast<int>(rank), *node);
      if (sent_.count(channel)) continue;
      absl::StrAppend(&text, "; rank ", rank, " waits in node '", node->name(),
                      "' for channel '", std::get<2>(channel), "' from rank ",
                      std::get<0>(channel));
      break;
    }
  }
  return MakeError(ErrorCode::kBadGraph, text);
}

absl::StatusOr<std::vector<InterpretResult>> Job::Run() {
  WEFT_RETURN_IF_ERROR(Prepare());
  auto is_done = [](const std::vector<const Node*>& p) { return p.empty(); };
  while (!std::all_of(pending_.begin(), pending_.end(), is_done)) {
    bool moved = false;
    for (size_t rank = 0; rank < programs_.size(); ++rank) {
      WEFT_ASSIGN_OR_RETURN(bool advanced, Advance(static_cast<int>(rank)));
      moved = moved || advanced;
    }
    if (!moved) return Stuck();
  }
  std::vector<InterpretResult> results;
  for (GraphRun& run : runs_) results.push_back(run.TakeResult());
  return results;
}

}  // namespace

absl::StatusOr<std::vector<InterpretResult>> InterpretJob(
    absl::Span<const RankProgram> ranks, JobOrder order) {
  return Job(ranks, order).Run();
}

}  // namespace weft
