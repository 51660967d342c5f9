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
absl::Status Read(const std::string& text, uint32_t rank, Edges* sent,
                  Edges* received) {
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(line, ' ');
    uint32_t peer = 0;
    Digest digest;
    if (parts.size() != 4 || (parts[0] != ">" && parts[0] != "<") ||
        !absl::SimpleAtoi(parts[1], &peer) ||
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

absl::Status Differ(std::pair<uint32_t, uint32_t> edge, const Digest& sent,
                    const Digest& received) {
  return MakeError(
      ErrorCode::kPlansDiffer,
      absl::StrCat("rank ", edge.first, " sends rank ", edge.second, " ",
                   sent.ToString(), "; rank ", edge.second, " receives ",
                   received.ToString()));
}

}  // namespace

std::string BoundaryText(const Plan& plan) {
  std::map<std::pair<std::string, uint32_t>, Digest> all;
  for (const Channel& channel : plan.channels()) {
    Digest& digest = all[{channel.receives() ? "<" : ">", channel.peer()}];
    ++digest.channels;
    digest.sum += StableHash(absl::StrCat(
        channel.name(), "\n", channel.tensor().dtype(), "[",
        absl::StrJoin(channel.tensor().dims(), ","), "] ", channel.copies()));
  }
  std::string out;
  for (const auto& [edge, digest] : all) {
    absl::StrAppend(&out, edge.first, " ", edge.second, " ", digest.channels,
                    " ", absl::Hex(digest.sum), "\n");
  }
  return out;
}

absl::Status MatchBoundaries(const std::vector<std::string>& texts) {
  Edges sent, received;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    WEFT_RETURN_IF_ERROR(
        Read(texts[rank], static_cast<uint32_t>(rank), &sent, &received));
  }
  for (const auto& [edge, digest] : sent) {
    if (!(received[edge] == digest))
      return Differ(edge, digest, received[edge]);
  }
  for (const auto& [edge, digest] : received) {
    if (!(sent[edge] == digest)) return Differ(edge, sent[edge], digest);
  }
  return absl::OkStatus();
}

}  // namespace weft::plan
