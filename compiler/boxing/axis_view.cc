#include "compiler/boxing/axis_view.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace weft {
namespace {

// A split axis' dimension, as the members of a group have it together, is
// `groups` x members x `run` elements; a member has `groups` runs. A later axis
// cuts the member's part: either each run or the sequence of runs.
bool CutBy(int64_t members, Sbp later, int64_t parts, int64_t* groups,
           int64_t* run, Sbp* of_together) {
  if (*run == 0) return true;  // no elements: all cuts are alike
  const int64_t block = *groups * *run / later.groups;
  if (*run % block == 0) {
    // Each run: of all members' runs there are `members` times as many.
    of_together->groups = static_cast<int>(later.groups * members);
    *run /= parts;
    return true;
  }
  if (block % (*run * parts) != 0) return false;
  *groups /= parts;
  return true;
}

// What an axis of `members` finds of dimension `dim`.
int64_t ExtentAt(const Shape& whole, const NdSbp& sbp, const Mesh& mesh,
                 int axis, int dim) {
  int64_t extent = whole.dim(dim);
  for (int a = 0; a < axis; ++a) {
    if (sbp[a].is_split() && sbp[a].dim == dim) extent /= mesh.axis(a).size;
  }
  return extent;
}

// As LocalShape() is ok, without the words for where it is not.
bool Fits(const Shape& whole, const NdSbp& sbp, const Mesh& mesh) {
  int64_t extents[kMaxRank];
  std::copy(whole.dims().begin(), whole.dims().end(), extents);
  for (int a = 0; a < mesh.num_axes(); ++a) {
    if (!sbp[a].is_split()) continue;
    const int members = mesh.axis(a).size;
    if (extents[sbp[a].dim] % (int64_t{members} * sbp[a].groups) != 0) {
      return false;
    }
    extents[sbp[a].dim] /= members;
  }
  return true;
}

}  // namespace

std::optional<AxisView> AxisViewOf(const Shape& whole, const NdSbp& sbp,
                                   const Mesh& mesh, int axis) {
  AxisView view = {sbp, sbp[axis]};
  view.rest[axis] = Sbp::Broadcast();
  const Sbp own = sbp[axis];
  if (own.is_micro()) return std::nullopt;
  if (own.is_broadcast()) return view;
  if (own.is_partial()) {
    for (int a = axis + 1; a < mesh.num_axes(); ++a) {
      if (sbp[a].is_partial() && sbp[a].op != own.op) return std::nullopt;
    }
    return view;
  }
  const int64_t members = mesh.axis(axis).size;
  int64_t groups = own.groups;
  int64_t run =
      ExtentAt(whole, sbp, mesh, axis, own.dim) / (members * own.groups);
  for (int a = axis + 1; a < mesh.num_axes(); ++a) {
    if (!sbp[a].is_split() || sbp[a].dim != own.dim) continue;
    if (!CutBy(members, sbp[a], mesh.axis(a).size, &groups, &run,
               &view.rest[a])) {
      return std::nullopt;
    }
  }
  view.own.groups = static_cast<int>(groups);
  return view;
}

std::vector<NdSbp> LayoutsWith(const Shape& whole, const NdSbp& rest,
                               const Mesh& mesh, int axis, Sbp sbp) {
  std::vector<NdSbp> candidates = {rest};
  candidates[0][axis] = sbp;
  const int members = mesh.axis(axis).size;
  for (int a = axis + 1; a < mesh.num_axes(); ++a) {
    // A cut of each run has fewer groups within a member's part.
    if (!sbp.is_split() || !rest[a].is_split() || rest[a].dim != sbp.dim ||
        rest[a].groups % members != 0) {
      continue;
    }
    for (size_t i = candidates.size(); i > 0; --i) {
      NdSbp other = candidates[i - 1];
      other[a].groups /= members;
      candidates.push_back(std::move(other));
    }
  }
  std::vector<NdSbp> layouts;
  for (NdSbp& candidate : candidates) {
    if (!Fits(whole, candidate, mesh)) continue;
    std::optional<AxisView> view = AxisViewOf(whole, candidate, mesh, axis);
    if (view && view->rest == rest) layouts.push_back(std::move(candidate));
  }
  return layouts;
}

}  // namespace weft
