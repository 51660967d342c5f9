#include "runtime/wire/agree.h"

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/plan/boundary.h"

namespace weft::runtime {
namespace {

constexpr char kProgram[] = "program ";

// Boundaries of all programs, each behind its name.
std::string Encode(const std::map<std::string, const plan::Plan*>& programs) {
  std::string out;
  for (const auto& [name, plan] : programs) {
    if (plan->channels_size() == 0) continue;
    absl::StrAppend(&out, kProgram, name, "\n", plan::BoundaryText(*plan));
  }
  return out;
}

// What each rank says of each program. A rank that lacks one says nothing.
using Boundaries = std::map<std::string, std::vector<std::string>>;

Boundaries Decode(const std::vector<std::string>& texts) {
  Boundaries out;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    std::string* into = nullptr;
    for (absl::string_view line : absl::StrSplit(texts[rank], '\n')) {
      if (absl::ConsumePrefix(&line, kProgram)) {
        std::vector<std::string>& of_ranks = out[std::string(line)];
        of_ranks.resize(texts.size());
        into = &of_ranks[rank];
      } else if (into != nullptr) {
        absl::StrAppend(into, line, "\n");
      }
    }
  }
  return out;
}

}  // namespace

absl::Status AgreeOnChannels(
    Rendezvous* rendezvous, uint32_t rank, const std::string& round,
    const std::map<std::string, const plan::Plan*>& programs) {
  const std::string key = absl::StrCat("wire/channels/", round);
  WEFT_ASSIGN_OR_RETURN(std::vector<std::string> texts,
                        rendezvous->AllGather(rank, key, Encode(programs)));
  for (const auto& [program, of_ranks] : Decode(texts)) {
    const absl::Status differ = plan::MatchBoundaries(of_ranks);
    if (differ.ok()) continue;
    const std::optional<plan::RankPair> pair = plan::DifferingRanks(of_ranks);
    // All ranks have the same texts, so all of them come here.
    std::string mine;
    auto plan = programs.find(program);
    if (pair.has_value() && plan != programs.end()) {
      if (rank == pair->from)
        mine = plan::ChannelsText(*plan->second, pair->to);
      if (rank == pair->to)
        mine = plan::ChannelsText(*plan->second, pair->from);
    }
    WEFT_ASSIGN_OR_RETURN(
        std::vector<std::string> channels,
        rendezvous->AllGather(rank, absl::StrCat(key, "/differ"), mine));
    absl::Status why = differ;
    if (pair.has_value()) {
      const absl::Status exact = plan::CompareChannels(
          *pair, channels[pair->from], channels[pair->to]);
      if (!exact.ok()) why = exact;
    }
    return Annotate(why, absl::StrCat("program '", program, "'"));
  }
  return absl::OkStatus();
}

}  // namespace weft::runtime
