#include "compiler/boxing/plan.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/boxing/axis_view.h"
#include "compiler/collectives/collective.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

// What a node costs beside its bytes: of two ways that move as much, the one
// with fewer nodes is taken.
constexpr double kNodeSeconds = 0.3e-6;

constexpr double kNever = std::numeric_limits<double>::infinity();

// An axis of one member has all, in whatever way.
NdSbp Plain(const NdSbp& sbp, const Mesh& mesh) {
  NdSbp plain = sbp;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (mesh.axis(axis).size == 1) plain[axis] = Sbp::Broadcast();
  }
  return plain;
}

absl::Status CheckFit(const NdSbp& from, const NdSbp& to, const Mesh& mesh,
                      const TensorType& whole) {
  for (const NdSbp* sbp : {&from, &to}) {
    if (static_cast<int>(sbp->size()) != mesh.num_axes()) {
      return MakeError(ErrorCode::kInternal,
                       absl::StrCat(ToString(*sbp), " on a mesh of ",
                                    mesh.num_axes(), " axes"));
    }
    absl::StatusOr<Shape> local = LocalShape(whole.shape, *sbp, mesh);
    if (local.ok()) continue;
    return MakeError(
        ErrorCode::kShapeMismatch,
        absl::StrCat(ToString(*sbp), " of ", whole.ToString(), " on mesh ",
                     mesh.ToString(), ": ", local.status().message()));
  }
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (from[axis] == to[axis] ||
        !(from[axis].is_micro() || to[axis].is_micro())) {
      continue;
    }
    return MakeError(
        ErrorCode::kInternal,
        absl::StrCat("from ", ToString(from), " to ", ToString(to), " on axis ",
                     mesh.axis(axis).name,
                     ": values of different micro-batches are not one value"));
  }
  return absl::OkStatus();
}

// Whether each member has as much for each other: of two splits of one
// dimension where one cuts the pieces of the other.
bool IsEven(Sbp from, Sbp to, int64_t members) {
  if (from.dim != to.dim) return true;
  const int64_t fine = std::max(from.groups, to.groups);
  const int64_t coarse = std::min(from.groups, to.groups);
  return fine % (coarse * members) == 0;
}

std::optional<BoxingMove> MoveOf(Sbp from, Sbp to, int64_t members) {
  if (from.is_broadcast()) {
    if (to.is_split()) return BoxingMove::kSlice;
    if (to.is_partial()) return BoxingMove::kKeep;
  } else if (from.is_partial()) {
    if (to.is_broadcast()) return BoxingMove::kAllReduce;
    if (to.is_split()) return BoxingMove::kReduceScatter;
  } else if (from.is_split()) {
    if (to.is_broadcast()) return BoxingMove::kAllGather;
    if (to.is_partial()) return BoxingMove::kPad;
    if (to.is_split() && IsEven(from, to, members)) {
      return BoxingMove::kAllToAll;
    }
  }
  return std::nullopt;
}

// What each axis may be on the way.
using Targets = std::vector<std::optional<std::vector<Sbp>>>;

// Whether two axes may be in each other's way.
bool Meet(Sbp a, Sbp b) {
  if (a.is_split() && b.is_split()) return a.dim == b.dim;
  return a.is_partial() && b.is_partial() && a.op != b.op;
}

// The axes that may have to change: those that do, and those that are in the
// way of one that may.
std::vector<bool> MayChange(const NdSbp& from, const NdSbp& to) {
  std::vector<bool> may(from.size());
  for (size_t a = 0; a < from.size(); ++a) may[a] = from[a] != to[a];
  for (size_t a = 0; a < from.size();) {
    bool is_new = false;
    for (size_t b = 0; b < from.size() && !may[a]; ++b) {
      is_new = may[b] && (Meet(from[a], from[b]) || Meet(from[a], to[b]));
      if (is_new) may[a] = true;
    }
    a = is_new ? 0 : a + 1;
  }
  return may;
}

// B, as it is to be, and a reduction may be left in parts until other axes are
// done, or be a reduction again.
Targets TargetsOf(const NdSbp& from, const NdSbp& to, const Mesh& mesh,
                  const Shape& whole) {
  Targets targets(from.size());
  const std::vector<bool> may_change = MayChange(from, to);
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (!may_change[axis]) continue;
    std::vector<Sbp>& ways = targets[axis].emplace();
    if (!to[axis].is_broadcast()) ways.push_back(to[axis]);
    if (!from[axis].is_partial()) continue;
    if (from[axis] != to[axis]) ways.push_back(from[axis]);
    for (int d = 0; d < whole.rank(); ++d) {
      if (whole.dim(d) % mesh.size() != 0) continue;
      ways.push_back(Sbp::Split(d));
      break;
    }
  }
  return targets;
}

// Calls f(step, layout after it) for all steps that change one axis of `at`;
// neither priced nor with its layouts.
template <typename F>
void ForSteps(const Mesh& mesh, const Shape& whole, const NdSbp& at,
              const Targets& targets, F f) {
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (!targets[axis]) continue;
    const std::optional<AxisView> view = AxisViewOf(whole, at, mesh, axis);
    if (!view) continue;
    BoxingStep step;
    step.axis = axis;
    step.from = view->own;
    step.together = *LocalShape(whole, view->rest, mesh);
    const auto take = [&](const NdSbp& layout) {
      step.to = AxisViewOf(whole, layout, mesh, axis)->own;
      const std::optional<BoxingMove> move =
          MoveOf(step.from, step.to, mesh.axis(axis).size);
      if (!move) return;
      step.move = *move;
      step.bytes = 0;
      f(step, layout);
    };
    if (!view->own.is_broadcast()) take(view->rest);
    for (Sbp target : *targets[axis]) {
      for (const NdSbp& layout :
           LayoutsWith(whole, view->rest, mesh, axis, target)) {
        take(layout);
      }
    }
  }
}

int64_t Packed(Sbp sbp) {
  return (int64_t{sbp.groups} << 24) | (int64_t{sbp.dim} << 16) |
         (static_cast<int64_t>(sbp.kind) << 8) | static_cast<int64_t>(sbp.op);
}

}  // namespace

absl::string_view Name(BoxingMove move) {
  switch (move) {
    case BoxingMove::kSlice:
      return "slice";
    case BoxingMove::kAllGather:
      return "all-gather";
    case BoxingMove::kAllReduce:
      return "all-reduce";
    case BoxingMove::kReduceScatter:
      return "reduce-scatter";
    case BoxingMove::kAllToAll:
      return "all-to-all";
    case BoxingMove::kKeep:
      return "keep on the first";
    case BoxingMove::kPad:
      return "pad";
  }
  return "";
}

std::optional<CollectiveKind> CollectiveOf(BoxingMove move) {
  switch (move) {
    case BoxingMove::kAllGather:
      return CollectiveKind::kAllGather;
    case BoxingMove::kAllReduce:
      return CollectiveKind::kAllReduce;
    case BoxingMove::kReduceScatter:
      return CollectiveKind::kReduceScatter;
    case BoxingMove::kAllToAll:
      return CollectiveKind::kAllToAll;
    default:
      return std::nullopt;
  }
}

BoxingCosts::BoxingCosts(Mesh mesh, Topology topology,
                         std::vector<std::vector<int>> hosts, OrderClass order)
    : mesh_(std::move(mesh)),
      topology_(topology),
      hosts_(std::move(hosts)),
      order_(order) {
  for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
    std::set<std::vector<std::vector<int>>> kinds;
    for (int member = 0; member < mesh_.size(); ++member) {
      if (mesh_.CoordinateOf(member, axis) != 0) continue;
      if (hosts_.empty() && !kinds.empty()) break;
      std::vector<int> ranks;
      for (int m : mesh_.GroupOf(member, axis)) ranks.push_back(mesh_.rank(m));
      kinds.insert(HostsOf(ranks));
    }
    axis_hosts_.emplace_back(kinds.begin(), kinds.end());
  }
}

std::vector<std::vector<int>> BoxingCosts::HostsOf(
    const std::vector<int>& ranks) const {
  std::vector<std::vector<int>> positions;
  for (const std::vector<int>& host : hosts_) {
    std::vector<int> here;
    for (size_t p = 0; p < ranks.size(); ++p) {
      if (std::find(host.begin(), host.end(), ranks[p]) != host.end()) {
        here.push_back(static_cast<int>(p));
      }
    }
    if (!here.empty()) positions.push_back(std::move(here));
  }
  // In the order of the group, so that equal groups look equal.
  std::sort(positions.begin(), positions.end());
  if (positions.size() == 1 && positions[0].size() == ranks.size()) return {};
  return positions;
}

const CollectiveCost& BoxingCosts::OfCollective(int axis, CollectiveKind kind,
                                                int64_t bytes, bool micro) {
  auto [it, is_new] =
      collectives_.try_emplace({axis, kind, bytes, micro}, CollectiveCost());
  if (!is_new) return it->second;
  for (const std::vector<std::vector<int>>& hosts : axis_hosts_[axis]) {
    const CollectiveGroup group = {mesh_.axis(axis).size, 0, hosts};
    absl::StatusOr<CollectiveChoice> choice =
        ChooseAlgorithm(kind, bytes, group, topology_, order_, {micro});
    if (!choice.ok()) {
      it->second.seconds = kNever;
    } else if (choice->cost.seconds > it->second.seconds) {
      it->second = choice->cost;
    }
  }
  return it->second;
}

void BoxingCosts::Price(DType dtype, bool micro, BoxingStep* step) {
  const int64_t bytes = TensorType{dtype, step->together}.num_bytes();
  const int64_t members = mesh_.axis(step->axis).size;
  const double together_s = bytes / topology_.reduce_bytes_per_s;
  const double part_s = together_s / members;
  step->seconds = kNodeSeconds;
  const std::optional<CollectiveKind> kind = CollectiveOf(step->move);
  if (!kind) {
    step->seconds += step->move == BoxingMove::kSlice ? part_s : together_s;
    return;
  }
  const DType wire = WireType(*kind, step->from.op, dtype);
  const CollectiveCost& cost = OfCollective(
      step->axis, *kind, TensorType{wire, step->together}.num_bytes(), micro);
  step->bytes = cost.rank_bytes;
  step->seconds += cost.seconds;
  // Parts that do not lie one after the other are put so, and back.
  for (Sbp sbp : {step->from, step->to}) {
    if (!sbp.is_split()) continue;
    int64_t rows = sbp.groups;
    for (int d = 0; d < sbp.dim; ++d) rows *= step->together.dim(d);
    if (rows == 1) continue;
    step->seconds += *kind == CollectiveKind::kAllToAll ? part_s : together_s;
  }
}

std::optional<BoxingStep> BoxingCosts::OneStep(const NdSbp& from,
                                               const NdSbp& to,
                                               const Shape& whole) const {
  Targets targets(from.size());
  int changed = 0;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (from[axis] == to[axis]) continue;
    ++changed;
    targets[axis] = {to[axis]};
  }
  std::optional<BoxingStep> found;
  if (changed != 1) return found;
  ForSteps(mesh_, whole, from, targets,
           [&](const BoxingStep& step, const NdSbp& layout) {
             if (layout != to || found) return;
             found = step;
             found->before = from;
             found->after = to;
           });
  return found;
}

// Dijkstra's algorithm over layouts. There is a way between any two: undo all
// axes, the last first, and do them, the first first. Layouts are few, so they
// are looked for one by one.
std::vector<BoxingStep> BoxingCosts::Search(const NdSbp& from, const NdSbp& to,
                                            const TensorType& whole,
                                            bool micro) {
  struct State {
    NdSbp at;
    double seconds = 0;
    int steps = 0;
    size_t previous = 0;
    BoxingStep last;
    bool is_done = false;

    bool IsBefore(const State& other) const {
      return std::tie(seconds, steps, at) <
             std::tie(other.seconds, other.steps, other.at);
    }
  };
  const Targets targets = TargetsOf(from, to, mesh_, whole.shape);
  std::vector<State> states(1);
  states[0].at = from;
  size_t now = 0;
  while (states[now].at != to) {
    states[now].is_done = true;
    const State done = states[now];
    ForSteps(mesh_, whole.shape, done.at, targets,
             [&](BoxingStep& step, const NdSbp& layout) {
               size_t next = 0;
               while (next < states.size() && states[next].at != layout) ++next;
               if (next < states.size() && states[next].is_done) return;
               Price(whole.dtype, micro, &step);
               const double seconds = done.seconds + step.seconds;
               if (next == states.size()) {
                 states.emplace_back().at = layout;
               } else if (std::tie(states[next].seconds, states[next].steps) <=
                          std::make_tuple(seconds, done.steps + 1)) {
                 return;
               }
               State& state = states[next];
               state.seconds = seconds;
               state.steps = done.steps + 1;
               state.previous = now;
               state.last = step;
             });
    now = states.size();
    for (size_t i = 0; i < states.size(); ++i) {
      if (states[i].is_done) continue;
      if (now == states.size() || states[i].IsBefore(states[now])) now = i;
    }
  }
  std::vector<BoxingStep> steps;
  for (; now != 0; now = states[now].previous) {
    steps.push_back(states[now].last);
    steps.back().before = states[states[now].previous].at;
    steps.back().after = states[now].at;
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

absl::StatusOr<const BoxingCosts::Answer*> BoxingCosts::Find(
    const NdSbp& from, const NdSbp& to, const TensorType& whole, bool micro) {
  Question question = {static_cast<int64_t>(whole.dtype) * 2 + (micro ? 1 : 0)};
  question.insert(question.end(), whole.shape.dims().begin(),
                  whole.shape.dims().end());
  for (const NdSbp* sbp : {&from, &to}) {
    question.push_back(-1);
    for (Sbp s : *sbp) question.push_back(Packed(s));
  }
  auto it = answers_.find(question);
  if (it != answers_.end()) return &it->second;
  WEFT_RETURN_IF_ERROR(CheckFit(from, to, mesh_, whole));
  Answer answer;
  const NdSbp start = Plain(from, mesh_), end = Plain(to, mesh_);
  if (std::optional<BoxingStep> step = OneStep(start, end, whole.shape)) {
    Price(whole.dtype, micro, &*step);
    answer.steps = {*std::move(step)};
  } else {
    answer.steps = Search(start, end, whole, micro);
  }
  for (const BoxingStep& step : answer.steps) answer.seconds += step.seconds;
  return &answers_.emplace(std::move(question), std::move(answer))
              .first->second;
}

absl::StatusOr<std::vector<BoxingStep>> BoxingCosts::Plan(
    const NdSbp& from, const NdSbp& to, const TensorType& whole, bool micro) {
  WEFT_ASSIGN_OR_RETURN(const Answer* answer, Find(from, to, whole, micro));
  return answer->steps;
}

double BoxingCosts::Seconds(const NdSbp& from, const NdSbp& to,
                            const TensorType& whole, bool micro) {
  if (from == to) return 0;
  absl::StatusOr<const Answer*> answer = Find(from, to, whole, micro);
  return answer.ok() ? (*answer)->seconds : kNever;
}

bool HasPartial(const NdSbp& sbp) {
  return std::any_of(sbp.begin(), sbp.end(),
                     [](Sbp s) { return s.is_partial(); });
}

std::string Explain(const Mesh& mesh, const std::vector<BoxingStep>& steps) {
  std::string text;
  for (const BoxingStep& step : steps) {
    const MeshAxis& axis = mesh.axis(step.axis);
    absl::StrAppend(&text, "axis ", axis.name, ": ",
                    ToString(step.before[step.axis]), " to ",
                    ToString(step.after[step.axis]), ", ", Name(step.move),
                    " of ", step.together.ToString(), ", ", axis.size,
                    " ranks, ", step.bytes, " bytes sent by one, ",
                    absl::StrFormat("%.2f us\n", step.seconds * 1e6));
  }
  return text;
}

}  // namespace weft
