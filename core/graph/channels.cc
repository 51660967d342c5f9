#include "core/graph/channels.h"

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/channel_name.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/graph/rates.h"

namespace weft {
namespace {

// One end of a channel.
struct End {
  const Node* node = nullptr;
  int rank = 0;  // where the node is
  int peer = 0;
  TensorType type;
  Rate rate = Rate::kStep;
  bool two_rates = false;  // of the graph: see HasAccumulation

  bool sends() const { return node->Is(OpId::kSend); }
};

// (sender, receiver, channel).
using Key = std::tuple<int, int, std::string>;

class Matcher {
 public:
  explicit Matcher(absl::Span<const Graph* const> ranks) : ranks_(ranks) {}

  absl::Status Run() {
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
      WEFT_RETURN_IF_ERROR(Collect(rank));
    }
    for (const auto& [key, end] : recvs_) {
      auto it = sends_.find(key);
      if (it == sends_.end()) return Lonely(std::get<2>(key), end, sends_);
      WEFT_RETURN_IF_ERROR(CheckPair(std::get<2>(key), it->second, end));
    }
    for (const auto& [key, end] : sends_) {
      if (!recvs_.count(key)) return Lonely(std::get<2>(key), end, recvs_);
    }
    return absl::OkStatus();
  }

 private:
  using Ends = std::map<Key, End>;

  absl::Status Collect(int rank);
  absl::Status CheckPair(const std::string& channel, const End& send,
                         const End& recv) const;
  absl::Status Lonely(const std::string& channel, const End& end,
                      const Ends& others) const;

  // "rank 2 sends to rank 1 (node 'x')".
  static std::string Describe(const End& end) {
    return absl::StrCat("rank ", end.rank,
                        end.sends() ? " sends to" : " receives from", " rank ",
                        end.peer, " (node '", end.node->name(), "')");
  }
  static absl::Status Bad(const std::string& channel, absl::string_view what,
                          ErrorCode code = ErrorCode::kBadGraph) {
    return MakeError(code, absl::StrCat("channel '", channel, "': ", what));
  }

  absl::Span<const Graph* const> ranks_;
  Ends sends_, recvs_;
};

// Of what travels; none where only the word does that something is done.
TensorType TypeOf(const Graph& graph, const Node& node) {
  if (node.Is(OpId::kRecv)) {
    return node.num_outputs() > 0 ? node.output_type(0) : TensorType{};
  }
  return node.inputs().empty() ? TensorType{} : graph.type(node.input(0));
}

absl::Status Matcher::Collect(int rank) {
  const Graph& graph = *ranks_[rank];
  const int count = static_cast<int>(ranks_.size());
  WEFT_ASSIGN_OR_RETURN(std::vector<Rate> rates, InferRates(graph));
  const bool two_rates = HasAccumulation(graph);
  for (const Node* node : graph.Nodes()) {
    const bool sends = node->Is(OpId::kSend);
    if (!sends && !node->Is(OpId::kRecv)) continue;
    OpView op = graph.View(*node);
    End end{node,
            rank,
            static_cast<int>(op.Int("peer")),
            TypeOf(graph, *node),
            rates[node->id()],
            two_rates};
    const std::string& channel = op.String("channel");
    if (end.peer >= count) {
      return Bad(channel, absl::StrCat(Describe(end), "; the job has ranks 0-",
                                       count - 1));
    }
    if (end.peer == rank) {
      return Bad(channel, absl::StrCat(Describe(end), ", itself"));
    }
    Key key(sends ? rank : end.peer, sends ? end.peer : rank, channel);
    auto [it, inserted] = (sends ? sends_ : recvs_).emplace(key, end);
    if (!inserted) {
      return Bad(channel, absl::StrCat(Describe(it->second),
                                       ", and again in "
                                       "node '",
                                       node->name(), "'"));
    }
  }
  return absl::OkStatus();
}

absl::Status Matcher::CheckPair(const std::string& channel, const End& send,
                                const End& recv) const {
  if (send.type != recv.type) {
    return Bad(channel,
               absl::StrCat(Describe(send), " ", send.type.ToString(), ", ",
                            Describe(recv), " ", recv.type.ToString()),
               send.type.dtype == recv.type.dtype ? ErrorCode::kShapeMismatch
                                                  : ErrorCode::kDTypeMismatch);
  }
  if (send.rate != recv.rate && (send.two_rates || recv.two_rates)) {
    auto often = [](Rate rate) {
      return rate == Rate::kMicro ? " once a micro-batch" : " once a step";
    };
    return Bad(channel, absl::StrCat(Describe(send), often(send.rate), ", ",
                                     Describe(recv), often(recv.rate)));
  }
  return absl::OkStatus();
}

// `end` has no partner among `others`. Either the partner is not there, or it
// decided otherwise, which is seen in a channel of the same stem.
absl::Status Matcher::Lonely(const std::string& channel, const End& end,
                             const Ends& others) const {
  const ChannelParts mine = PartsOf(channel);
  for (const auto& [key, other] : others) {
    const ChannelParts theirs = PartsOf(std::get<2>(key));
    if (other.rank != end.peer || theirs.stem != mine.stem) continue;
    if (theirs.agreed == mine.agreed) continue;
    return Bad(
        std::string(mine.stem),
        absl::StrCat("rank ", end.rank, " has '", mine.agreed, "' (node '",
                     end.node->name(), "'), rank ", other.rank, " has '",
                     theirs.agreed, "' (node '", other.node->name(), "')"));
  }
  for (const auto& [key, other] : others) {
    if (other.rank == end.peer || std::get<2>(key) != channel) continue;
    if (other.peer != end.rank) continue;
    return Bad(channel, absl::StrCat(Describe(end), ", but ", Describe(other)));
  }
  return Bad(channel,
             absl::StrCat(Describe(end), ", which has no ",
                          end.sends() ? "weft.Recv" : "weft.Send", " for it"));
}

}  // namespace

absl::Status MatchChannels(absl::Span<const Graph* const> ranks) {
  return Matcher(ranks).Run();
}

}  // namespace weft
