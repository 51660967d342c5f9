#include "core/mesh/mesh.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"

namespace weft {
namespace {

constexpr int64_t kMaxMembers = int64_t{1} << 20;

std::vector<int> Counting(int n) {
  std::vector<int> out(n);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

}  // namespace

absl::StatusOr<Mesh> Mesh::Create(std::vector<MeshAxis> axes,
                                  std::vector<int> ranks) {
  Mesh mesh;
  mesh.axes_ = std::move(axes);
  int64_t size = 1;
  std::set<std::string> names;
  for (const MeshAxis& axis : mesh.axes_) {
    if (axis.name.empty() || axis.size < 1) {
      return MakeError(
          ErrorCode::kBadValue,
          absl::StrCat("mesh axis '", axis.name, "' has size ", axis.size,
                       "; an axis has a name and at least one "
                       "member"));
    }
    if (!names.insert(axis.name).second) {
      return MakeError(
          ErrorCode::kBadValue,
          absl::StrCat("mesh axis '", axis.name, "' is there twice"));
    }
    size *= axis.size;
    if (size > kMaxMembers) {
      return MakeError(ErrorCode::kBadValue,
                       absl::StrCat("a mesh has at most ", kMaxMembers,
                                    " members; with axis '", axis.name,
                                    "' it would have ", size));
    }
  }
  mesh.ranks_ =
      ranks.empty() ? Counting(static_cast<int>(size)) : std::move(ranks);
  const std::set<int> once(mesh.ranks_.begin(), mesh.ranks_.end());
  if (mesh.size() != size || once.size() != mesh.ranks_.size() ||
      *once.begin() < 0) {
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat("a mesh of ", size,
                                  " members needs as many different ranks; "
                                  "given were ",
                                  absl::StrJoin(mesh.ranks_, ",")));
  }
  return mesh;
}

int Mesh::AxisNamed(absl::string_view name) const {
  for (int i = 0; i < num_axes(); ++i) {
    if (axes_[i].name == name) return i;
  }
  return -1;
}

int Mesh::MemberOf(int rank) const {
  const auto it = std::find(ranks_.begin(), ranks_.end(), rank);
  return it == ranks_.end() ? -1 : static_cast<int>(it - ranks_.begin());
}

std::vector<int> Mesh::CoordinatesOf(int member) const {
  std::vector<int> out(num_axes());
  for (int i = num_axes() - 1; i >= 0; --i) {
    out[i] = member % axes_[i].size;
    member /= axes_[i].size;
  }
  return out;
}

int Mesh::CoordinateOf(int member, int axis) const {
  return CoordinatesOf(member)[axis];
}

int Mesh::MemberAt(const std::vector<int>& coordinates) const {
  int member = 0;
  for (int i = 0; i < num_axes(); ++i) {
    member = member * axes_[i].size + coordinates[i];
  }
  return member;
}

std::vector<int> Mesh::GroupOf(int member, int axis) const {
  std::vector<int> at = CoordinatesOf(member);
  std::vector<int> out;
  for (int i = 0; i < axes_[axis].size; ++i) {
    at[axis] = i;
    out.push_back(MemberAt(at));
  }
  return out;
}

Mesh Mesh::Through(int member, const std::vector<int>& axes) const {
  Mesh out;
  const std::vector<int> here = CoordinatesOf(member);
  int size = 1;
  for (int axis : axes) {
    out.axes_.push_back(axes_[axis]);
    size *= axes_[axis].size;
  }
  out.ranks_.assign(size, 0);
  for (int m = 0; m < size; ++m) {
    std::vector<int> at = here;
    const std::vector<int> free = out.CoordinatesOf(m);
    for (size_t i = 0; i < axes.size(); ++i) at[axes[i]] = free[i];
    out.ranks_[m] = ranks_[MemberAt(at)];
  }
  return out;
}

std::string Mesh::ToString() const {
  std::string out =
      absl::StrJoin(axes_, " x ", [](std::string* text, const MeshAxis& axis) {
        absl::StrAppend(text, axis.name, "=", axis.size);
      });
  if (axes_.empty()) out = "one member";
  if (ranks_ != Counting(size())) {
    absl::StrAppend(&out, " on ranks ", absl::StrJoin(ranks_, ","));
  }
  return out;
}

}  // namespace weft
