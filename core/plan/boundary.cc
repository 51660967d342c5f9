#include "core/plan/boundary.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/status_macros.h"
#include "core/plan/ends.h"

namespace weft::plan {
namespace {

struct Digest {
  uint64_t channels = 0;
  uint64_t sum = 0;  // of the channels' hashes

  std::string ToString() const {
    return absl::StrCat(channels, " channels, digest ",
                        absl::Hex(sum, absl::kZeroPad16));
  }
  friend bool operator==(const Digest& a, const Digest& b) {
    return a.channels == b.channels && a.sum == b.sum;
  }
};

// By sender and receiver.
using Edges = std::map<std::pair<uint32_t, uint32_t>, Digest>;

// Of one rank's text: what it sends, and what it receives.
absl::Status Read(const std::string& text, uint32_t rank, size_t ranks,
                  Edges* sent, Edges* received) {
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(line, ' ');
    uint32_t peer = 0;
    Digest digest;
    if (parts.size() != 4 || (parts[0] != ">" && parts[0] != "<") ||
        !absl::SimpleAtoi(parts[1], &peer) || peer >= ranks ||
        !absl::SimpleAtoi(parts[2], &digest.channels) ||
        !absl::SimpleHexAtoi(parts[3], &digest.sum)) {
      return MakeError(
          ErrorCode::kBadPlan,
          absl::StrCat("rank ", rank, " says of its channels '", line, "'"));
    }
    if (parts[0] == ">") {
      (*sent)[{rank, peer}] = digest;
    } else {
      (*received)[{peer, rank}] = digest;
    }
  }
  return absl::OkStatus();
}

struct Difference {
  RankPair pair;
  Digest sent, received;
};

// The first one.
absl::Status Find(const std::vector<std::string>& texts,
                  std::optional<Difference>* out) {
  Edges sent, received;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    WEFT_RETURN_IF_ERROR(Read(texts[rank], static_cast<uint32_t>(rank),
                              texts.size(), &sent, &received));
  }
  Edges all = sent;
  all.insert(received.begin(), received.end());
  for (const auto& [edge, digest] : all) {
    if (sent[edge] == received[edge]) continue;
    *out = {{edge.first, edge.second}, sent[edge], received[edge]};
    break;
  }
  return absl::OkStatus();
}

}  // namespace

std::string BoundaryText(const Plan& plan) {
  std::map<std::pair<std::string, uint32_t>, Digest> all;
  for (const Channel& channel : plan.channels()) {
    Digest& digest = all[{channel.receives() ? "<" : ">", channel.peer()}];
    ++digest.channels;
    digest.sum += StableHash(absl::StrCat(
        channel.name(), "\n", channel.tensor().dtype(), "[",
        absl::StrJoin(channel.tensor().dims(), ","), "] ", channel.copies(),
        channel.read() != 0 ? " mapped" : "", channel.lands() ? " lands" : ""));
  }
  std::string out;
  for (const auto& [edge, digest] : all) {
    absl::StrAppend(&out, edge.first, " ", edge.second, " ", digest.channels,
                    " ", absl::Hex(digest.sum), "\n");
  }
  return out;
}

absl::Status MatchBoundaries(const std::vector<std::string>& texts) {
  std::optional<Difference> found;
  WEFT_RETURN_IF_ERROR(Find(texts, &found));
  if (!found.has_value()) return absl::OkStatus();
  const auto& [from, to] = found->pair;
  return MakeError(ErrorCode::kPlansDiffer,
                   absl::StrCat("rank ", from, " sends rank ", to, " ",
                                found->sent.ToString(), "; rank ", to,
                                " receives ", found->received.ToString()));
}

std::optional<RankPair> DifferingRanks(const std::vector<std::string>& texts) {
  std::optional<Difference> found;
  if (!Find(texts, &found).ok() || !found.has_value()) return std::nullopt;
  return found->pair;
}

std::string ChannelsText(const Plan& plan, uint32_t peer) {
  Plan of_peer;
  for (const Channel& channel : plan.channels()) {
    if (channel.peer() == peer) *of_peer.add_channels() = channel;
  }
  return of_peer.SerializeAsString();
}

absl::Status CompareChannels(const RankPair& pair, const std::string& sender,
                             const std::string& receiver) {
  Plan plans[2];
  if (!plans[0].ParseFromString(sender) ||
      !plans[1].ParseFromString(receiver)) {
    return MakeError(ErrorCode::kBadPlan,
                     absl::StrCat("what ranks ", pair.from, " and ", pair.to,
                                  " say of their channels is no plan"));
  }
  std::map<std::string, ChannelEnds> by_name;
  for (const Plan& plan : plans) {
    for (const Channel& channel : plan.channels()) {
      const bool receives = &plan == &plans[1];
      if (channel.receives() != receives) continue;
      ChannelEnds& ends = by_name[channel.name()];
      (receives ? ends.receiver : ends.sender) = &channel;
    }
  }
  std::vector<ChannelEnds> of_pair;
  for (const auto& [name, ends] : by_name) of_pair.push_back(ends);
  for (const ChannelEnds& ends : of_pair) {
    if (!Alike(ends)) return EndsDiffer(pair.from, pair.to, ends, of_pair);
  }
  return absl::OkStatus();
}

}  // namespace weft::plan
