#include "compiler/sharding/agree.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "compiler/collectives/collective.h"
#include "compiler/sharding/bundles.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

using Group = std::vector<size_t>;  // positions in the list of values

// In the order of their first values.
std::vector<Group> GroupsOf(absl::Span<const OwnValue> values, int64_t bytes,
                            const Graph& graph) {
  struct Open {
    size_t group = 0;
    int64_t bytes = 0;
  };
  std::vector<Group> out;
  std::map<std::tuple<DType, std::string, int>, Open> open;
  for (size_t i = 0; i < values.size(); ++i) {
    const TensorType& type = graph.type(values[i].value);
    const int64_t size = static_cast<int64_t>(type.num_bytes());
    const auto [at, is_new] = open.try_emplace(
        {type.dtype, values[i].device, values[i].stage}, Open());
    if (is_new || at->second.bytes + size > bytes ||
        out[at->second.group].size() >= kMaxTogether) {
      at->second = {out.size(), 0};
      out.emplace_back();
    }
    out[at->second.group].push_back(i);
    at->second.bytes += size;
  }
  return out;
}

absl::StatusOr<Value> FromFirst(const OwnValue& like, const std::string& name,
                                Value mine, const AgreeOptions& options,
                                Graph* out) {
  const Mesh& mesh = *like.mesh;
  Collective c;
  c.kind = CollectiveKind::kBroadcast;
  c.ranks.resize(mesh.size());
  for (int m = 0; m < mesh.size(); ++m) c.ranks[m] = mesh.rank(m);
  c.rank = mesh.rank(options.member);
  c.name = name;
  c.topology = options.topology;
  c.hosts = options.hosts;
  c.order = OrderClass::kNone;  // nothing is added
  c.device = like.device;
  c.stage = like.stage;
  const bool first = options.member == 0;
  if (!first) {
    // Who gives nothing takes it when it would have had its own.
    c.after = {mine.node};
    const auto more = options.after.find(like.mesh);
    if (more != options.after.end()) {
      c.after.insert(c.after.end(), more->second.begin(), more->second.end());
    }
  }
  return AddCollective(out, c, first ? mine : Value{}, out->type(mine));
}

}  // namespace

absl::StatusOr<std::vector<Value>> TakeFromFirst(
    absl::Span<const OwnValue> values, const AgreeOptions& options,
    Graph* out) {
  std::vector<Value> agreed(values.size());
  for (const Group& group : GroupsOf(values, options.bundle_bytes, *out)) {
    const OwnValue& like = values[group[0]];
    std::vector<Value> parts;
    for (size_t i : group) parts.push_back(values[i].value);
    Together together;
    together.name = absl::StrCat(out->ValueName(parts[0]), "/of_first");
    together.why = "sharding: what members agree on travels together";
    together.device = like.device;
    together.stage = like.stage;
    WEFT_ASSIGN_OR_RETURN(const Value mine, Join(together, parts, out));
    WEFT_ASSIGN_OR_RETURN(const Value first,
                          FromFirst(like, together.name, mine, options, out));
    WEFT_ASSIGN_OR_RETURN(std::vector<Value> results,
                          TakeApart(together, parts, first, out));
    for (size_t i = 0; i < group.size(); ++i) agreed[group[i]] = results[i];
  }
  return agreed;
}

}  // namespace weft
