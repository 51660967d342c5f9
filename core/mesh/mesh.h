// Mesh: the ranks that share a value, as a grid with named axes.
//
//   WEFT_ASSIGN_OR_RETURN(
//       Mesh mesh, Mesh::Create({{"data", 2}, {"model", 4}}));
//   mesh.size();               // 8
//   mesh.CoordinatesOf(6);     // {1, 2}: the last axis counts fastest
//   mesh.GroupOf(6, 1);        // {4, 5, 6, 7}: those that differ in "model"
//
// A *member* is a position in the grid, from 0; `ranks` says which rank of the
// job it is, by default the member's number. Two meshes are different where
// either is.
//
// Threading: thread-compatible value type.
#ifndef WEFT_CORE_MESH_MESH_H_
#define WEFT_CORE_MESH_MESH_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft {

struct MeshAxis {
  std::string name;
  int size = 1;

  friend bool operator==(const MeshAxis& a, const MeshAxis& b) {
    return a.name == b.name && a.size == b.size;
  }
};

class Mesh {
 public:
  // One member, rank 0, without axes.
  Mesh() : ranks_{0} {}

  // kBadValue for an axis without a name or size, two of one name, more than
  // 2^20 members, and `ranks` that are not one for each member or not each
  // once. Empty `ranks`: 0, 1, ...
  static absl::StatusOr<Mesh> Create(std::vector<MeshAxis> axes,
                                     std::vector<int> ranks = {});

  int num_axes() const { return static_cast<int>(axes_.size()); }
  const MeshAxis& axis(int i) const { return axes_[i]; }
  const std::vector<MeshAxis>& axes() const { return axes_; }
  int AxisNamed(absl::string_view name) const;  // -1: there is none
  int size() const { return static_cast<int>(ranks_.size()); }

  const std::vector<int>& ranks() const { return ranks_; }
  int rank(int member) const { return ranks_[member]; }
  int MemberOf(int rank) const;  // -1: none of the mesh

  std::vector<int> CoordinatesOf(int member) const;
  int CoordinateOf(int member, int axis) const;
  int MemberAt(const std::vector<int>& coordinates) const;
  // Members that differ from `member` in `axis` alone, itself included, in the
  // order of their coordinates.
  std::vector<int> GroupOf(int member, int axis) const;

  // The mesh of some axes on which `member` lies: those that differ from it in
  // these alone. Pre-condition: each axis once.
  Mesh Through(int member, const std::vector<int>& axes) const;

  // "data=2 x model=4", then " on ranks 0,2,.." where they are not 0, 1, ...
  std::string ToString() const;

  friend bool operator==(const Mesh& a, const Mesh& b) {
    return a.axes_ == b.axes_ && a.ranks_ == b.ranks_;
  }
  friend bool operator!=(const Mesh& a, const Mesh& b) { return !(a == b); }

 private:
  std::vector<MeshAxis> axes_;
  std::vector<int> ranks_;  // by member
};

}  // namespace weft

#endif  // WEFT_CORE_MESH_MESH_H_
