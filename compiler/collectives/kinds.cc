#include "compiler/collectives/kinds.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace weft {
namespace {

using Kind = CollectiveKind;
using Algorithm = CollectiveAlgorithm;

bool IsPowerOfTwo(int n) { return n > 0 && (n & (n - 1)) == 0; }

}  // namespace

absl::string_view Name(CollectiveKind kind) {
  constexpr absl::string_view kNames[] = {
      "all-reduce", "reduce-scatter", "all-gather", "broadcast",
      "reduce",     "gather",         "scatter",    "all-to-all"};
  return kNames[static_cast<int>(kind)];
}

absl::string_view Name(CollectiveAlgorithm algorithm) {
  constexpr absl::string_view kNames[] = {
      "auto", "direct",       "three-stage", "ring", "halving-doubling",
      "tree", "hierarchical", "doubling"};
  return kNames[static_cast<int>(algorithm)];
}

absl::string_view Name(OrderClass order) {
  constexpr absl::string_view kNames[] = {"none", "TREE", "RING"};
  return kNames[static_cast<int>(order)];
}

bool Reduces(CollectiveKind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduceScatter ||
         kind == Kind::kReduce;
}

bool HasRoot(CollectiveKind kind) {
  return kind == Kind::kBroadcast || kind == Kind::kReduce ||
         kind == Kind::kGather || kind == Kind::kScatter;
}

bool Splits(CollectiveKind kind) {
  return kind == Kind::kReduceScatter || kind == Kind::kScatter ||
         kind == Kind::kAllToAll;
}

OrderClass OrderClassOf(CollectiveKind kind, CollectiveAlgorithm algorithm) {
  if (!Reduces(kind)) return OrderClass::kNone;
  return algorithm == Algorithm::kRing ? OrderClass::kRing : OrderClass::kTree;
}

int AlignedHostSize(const CollectiveGroup& group) {
  if (group.hosts.empty()) return 0;
  const int size = static_cast<int>(group.hosts[0].size());
  if (!IsPowerOfTwo(size)) return 0;
  int next = 0;
  for (const std::vector<int>& host : group.hosts) {
    if (static_cast<int>(host.size()) != size) return 0;
    for (int position : host) {
      if (position != next++) return 0;
    }
  }
  return next == group.size ? size : 0;
}

bool Exists(CollectiveKind kind, CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kAuto:
    case Algorithm::kDirect:
      return true;
    case Algorithm::kThreeStage:
    case Algorithm::kHierarchical:
      return kind == Kind::kAllReduce || kind == Kind::kReduce ||
             kind == Kind::kBroadcast;
    case Algorithm::kRing:
      return kind == Kind::kAllReduce || kind == Kind::kReduceScatter ||
             kind == Kind::kAllGather || kind == Kind::kBroadcast ||
             kind == Kind::kReduce;
    case Algorithm::kHalvingDoubling:
      return kind == Kind::kAllReduce || kind == Kind::kReduceScatter ||
             kind == Kind::kAllGather;
    case Algorithm::kTree:
      return kind == Kind::kAllReduce || HasRoot(kind);
    case Algorithm::kDoubling:
      return kind == Kind::kAllReduce;
  }
  return false;
}

std::string WhyNot(CollectiveKind kind, CollectiveAlgorithm algorithm,
                   const CollectiveGroup& group) {
  if (!Exists(kind, algorithm)) {
    return absl::StrCat(Name(algorithm), " cannot do ", Name(kind));
  }
  if ((algorithm == Algorithm::kHalvingDoubling ||
       algorithm == Algorithm::kDoubling) &&
      !IsPowerOfTwo(group.size)) {
    return absl::StrCat(Name(algorithm),
                        " needs a power of two of ranks, the group has ",
                        group.size);
  }
  if (algorithm == Algorithm::kHierarchical && AlignedHostSize(group) == 0) {
    return absl::StrCat(
        "hierarchical needs hosts that hold the same number of ranks, a "
        "power of two, in the order of the group",
        group.hosts.empty() ? "; all are on one" : "");
  }
  return "";
}

std::vector<CollectiveAlgorithm> AlgorithmsFor(CollectiveKind kind,
                                               const CollectiveGroup& group) {
  std::vector<Algorithm> list;
  for (int i = 1; i < kNumCollectiveAlgorithms; ++i) {
    const auto algorithm = static_cast<Algorithm>(i);
    if (WhyNot(kind, algorithm, group).empty()) list.push_back(algorithm);
  }
  return list;
}

std::string AlgorithmNamesFor(CollectiveKind kind,
                              const CollectiveGroup& group) {
  return absl::StrJoin(AlgorithmsFor(kind, group), ", ",
                       [](std::string* out, Algorithm algorithm) {
                         absl::StrAppend(out, Name(algorithm));
                       });
}

bool HasBefore(CollectiveKind kind, const CollectiveGroup& group, int position,
               int block) {
  switch (kind) {
    case Kind::kAllGather:
    case Kind::kGather:
      return block == position;
    case Kind::kBroadcast:
    case Kind::kScatter:
      return position == group.root;
    default:
      return true;
  }
}

bool HasAfter(CollectiveKind kind, const CollectiveGroup& group, int position,
              int block) {
  switch (kind) {
    case Kind::kReduceScatter:
    case Kind::kScatter:
      return block == position;
    case Kind::kReduce:
    case Kind::kGather:
      return position == group.root;
    default:
      return true;
  }
}

}  // namespace weft
