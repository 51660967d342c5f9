#include "compiler/boxing/transfers.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

namespace weft {
namespace {

using Intervals = std::vector<Interval>;

// The elements [begin, begin + length) of those of `of`, in their order.
void AppendRange(const Intervals& of, int64_t begin, int64_t length,
                 Intervals* out) {
  for (const Interval& interval : of) {
    const int64_t from = std::max<int64_t>(begin, 0);
    const int64_t to = std::min(begin + length, interval.length);
    if (from < to) out->push_back({interval.begin + from, to - from});
    begin -= interval.length;
  }
}

// What member `index` of `members` has of a dimension.
Intervals Cut(const Intervals& of, int groups, int members, int index) {
  int64_t extent = 0;
  for (const Interval& interval : of) extent += interval.length;
  const int64_t run = extent / groups / members;
  Intervals part;
  for (int group = 0; group < groups; ++group) {
    AppendRange(of, (int64_t{group} * members + index) * run, run, &part);
  }
  return part;
}

// By dimension, in the order in which the member has them.
std::vector<Intervals> IntervalsOf(const Shape& whole, const NdSbp& sbp,
                                   const Mesh& mesh, int member) {
  std::vector<Intervals> dims;
  for (int64_t extent : whole.dims()) dims.push_back({{0, extent}});
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (!sbp[axis].is_split()) continue;
    Intervals& dim = dims[sbp[axis].dim];
    dim = Cut(dim, sbp[axis].groups, mesh.axis(axis).size,
              mesh.CoordinateOf(member, axis));
  }
  return dims;
}

bool Equal(const Intervals& a, const Intervals& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Interval& x, const Interval& y) {
                      return x.begin == y.begin && x.length == y.length;
                    });
}

// Calls f with one item of each list, the last list fastest.
template <typename F>
void ForProduct(const std::vector<std::vector<int>>& lists,
                std::vector<int>* chosen, F f) {
  if (chosen->size() == lists.size()) return f(*chosen);
  for (int item : lists[chosen->size()]) {
    chosen->push_back(item);
    ForProduct(lists, chosen, f);
    chosen->pop_back();
  }
}

}  // namespace

Transfers::Transfers(const Shape& whole, const Mesh& from_mesh,
                     const NdSbp& from, const Mesh& to_mesh, const NdSbp& to)
    : parts_(whole.rank()) {
  if (whole.num_elements() == 0) return;
  for (int member = 0; member < from_mesh.size(); ++member) {
    std::vector<int> parts;
    std::vector<Intervals> has = IntervalsOf(whole, from, from_mesh, member);
    for (int d = 0; d < whole.rank(); ++d) {
      auto it = std::find_if(
          parts_[d].begin(), parts_[d].end(),
          [&](const Intervals& part) { return Equal(part, has[d]); });
      parts.push_back(static_cast<int>(it - parts_[d].begin()));
      if (it == parts_[d].end()) parts_[d].push_back(std::move(has[d]));
    }
    owners_[parts].push_back(from_mesh.rank(member));
  }
  for (int member = 0; member < to_mesh.size(); ++member) {
    AddReceiver(to_mesh.rank(member), IntervalsOf(whole, to, to_mesh, member));
  }
}

std::vector<Transfers::Segment> Transfers::SegmentsOf(const Intervals& wanted,
                                                      int dim) const {
  // Every piece of the sender's side, by where it is in the whole.
  struct Piece {
    Interval whole;
    int part;
    int64_t in_sender;
  };
  std::vector<Piece> pieces;
  for (size_t part = 0; part < parts_[dim].size(); ++part) {
    int64_t at = 0;
    for (const Interval& interval : parts_[dim][part]) {
      pieces.push_back({interval, static_cast<int>(part), at});
      at += interval.length;
    }
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.whole.begin < b.whole.begin;
  });
  std::vector<Segment> segments;
  for (const Interval& want : wanted) {
    for (const Piece& piece : pieces) {
      const int64_t begin = std::max(want.begin, piece.whole.begin);
      const int64_t end = std::min(want.begin + want.length,
                                   piece.whole.begin + piece.whole.length);
      if (begin >= end) continue;
      const int64_t in_sender = piece.in_sender + begin - piece.whole.begin;
      if (!segments.empty() && segments.back().part == piece.part) {
        Interval& last = segments.back().in_sender;
        if (last.begin + last.length == in_sender) {
          last.length += end - begin;
          continue;
        }
      }
      segments.push_back({piece.part, {in_sender, end - begin}});
    }
  }
  return segments;
}

int Transfers::SenderOf(const std::vector<int>& parts, int to) const {
  const std::vector<int>& owners = owners_.at(parts);
  if (std::find(owners.begin(), owners.end(), to) != owners.end()) return to;
  return *std::min_element(owners.begin(), owners.end(), [&](int a, int b) {
    const auto load = [&](int rank) {
      auto it = load_.find(rank);
      return it == load_.end() ? int64_t{0} : it->second;
    };
    return std::make_tuple(load(a), a) < std::make_tuple(load(b), b);
  });
}

Transfer Transfers::Taking(
    const std::vector<int>& parts,
    const std::vector<std::vector<Segment>>& segments) const {
  std::vector<Intervals> take(parts.size());
  std::vector<int64_t> extents(parts.size(), 0);
  for (size_t d = 0; d < parts.size(); ++d) {
    for (const Segment& segment : segments[d]) {
      if (segment.part != parts[d]) continue;
      take[d].push_back(segment.in_sender);
      extents[d] += segment.in_sender.length;
    }
  }
  return {0, 0, std::move(take), Shape(extents)};
}

void Transfers::AddReceiver(int rank, const std::vector<Intervals>& wanted) {
  Receiver& receiver = receivers_[rank];
  std::vector<std::vector<Segment>> segments;
  std::vector<std::vector<int>> parts;  // of each dimension, each once
  for (size_t d = 0; d < wanted.size(); ++d) {
    segments.push_back(SegmentsOf(wanted[d], static_cast<int>(d)));
    std::vector<Run>& runs = receiver.runs.emplace_back();
    std::map<int, int64_t> next;  // in the transfer, by part
    for (const Segment& segment : segments[d]) {
      int64_t& at = next[segment.part];
      if (runs.empty() || runs.back().part != segment.part) {
        runs.push_back({segment.part, {at, 0}});
      }
      runs.back().in_transfer.length += segment.in_sender.length;
      at += segment.in_sender.length;
    }
    std::vector<int>& once = parts.emplace_back();
    for (const auto& [part, length] : next) once.push_back(part);
  }
  std::vector<int> chosen;
  ForProduct(parts, &chosen, [&](const std::vector<int>& of) {
    Transfer t = Taking(of, segments);
    t.to = rank;
    t.from = SenderOf(of, rank);
    if (t.from != rank) load_[t.from] += t.shape.num_elements();
    receiver.transfers[of] = all_.size();
    all_.push_back(std::move(t));
  });
}

}  // namespace weft
