#include "runtime/launch/streams.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft::launch {
namespace {

constexpr size_t kLongestLine = size_t{64} << 10;

absl::Status Bad(absl::string_view flag, absl::string_view text,
                 absl::string_view why) {
  return MakeError(
      ErrorCode::kBadLaunch,
      absl::StrCat(flag, " is '", text, "': ", why,
                   "; expected 0 (none), 1 (stdout), 2 (stderr) or 3 (both), "
                   "or RANK:NUMBER,... of ranks of this host"));
}

// By rank of this host: bit 0 stdout, bit 1 stderr.
absl::StatusOr<std::vector<uint32_t>> ParseMap(absl::string_view flag,
                                               absl::string_view text,
                                               uint32_t ranks) {
  std::vector<uint32_t> map(ranks, 0);
  if (text.empty()) return map;
  uint32_t value = 0;
  if (!absl::StrContains(text, ':')) {
    if (!absl::SimpleAtoi(text, &value) || value > 3) {
      return Bad(flag, text, "no such streams");
    }
    return std::vector<uint32_t>(ranks, value);
  }
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> entry =
        absl::StrSplit(part, absl::MaxSplits(':', 1));
    uint32_t rank = 0;
    if (!absl::SimpleAtoi(entry.first, &rank) ||
        !absl::SimpleAtoi(entry.second, &value) || value > 3) {
      return Bad(flag, text, absl::StrCat("'", part, "' is no entry"));
    }
    if (rank >= ranks) {
      return Bad(flag, text,
                 absl::StrCat("this host has the ranks 0 to ", ranks - 1));
    }
    map[rank] = value;
  }
  return map;
}

}  // namespace

absl::StatusOr<StreamRules> ParseStreamRules(absl::string_view redirects,
                                             absl::string_view tee,
                                             uint32_t local_ranks,
                                             bool first_host) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<uint32_t> only,
                        ParseMap("--redirects", redirects, local_ranks));
  WEFT_ASSIGN_OR_RETURN(const std::vector<uint32_t> both,
                        ParseMap("--tee", tee, local_ranks));
  const bool chosen = !redirects.empty() || !tee.empty();
  StreamRules rules;
  for (uint32_t rank = 0; rank < local_ranks; ++rank) {
    for (Stream stream : {Stream::kOut, Stream::kErr}) {
      const uint32_t bit = stream == Stream::kOut ? 1 : 2;
      const bool first = first_host && rank == 0;
      StreamRule rule;
      if (!chosen) {
        rule.file = true;
        rule.bare = first && stream == Stream::kOut;
        if (stream == Stream::kOut) {
          rule.console = first ? Show::kAll : Show::kNone;
        } else {
          rule.console = first ? Show::kAllButErrors : Show::kWarnings;
        }
      } else if ((both[rank] & bit) != 0) {
        rule.file = true;
        rule.console = Show::kAll;
      } else if ((only[rank] & bit) != 0) {
        rule.file = true;
      } else {
        rule.console = Show::kAll;
      }
      rules.rules_.push_back(rule);
    }
  }
  return rules;
}

bool IsWarning(absl::string_view line) {
  if (absl::StartsWith(line, "weft: warning")) return true;
  // "W20260102 03:04:05.123456 ..."
  return line.size() > 9 && absl::StrContains("WEF", line[0]) &&
         absl::ascii_isdigit(static_cast<unsigned char>(line[1])) &&
         absl::ascii_isdigit(static_cast<unsigned char>(line[8])) &&
         line[9] == ' ';
}

bool BeginsError(absl::string_view line) {
  return absl::StartsWith(line, "weft: error WEFT-");
}

bool EndsError(absl::string_view line) {
  return absl::StartsWith(line, "weft: see docs/errors/");
}

void LineSplitter::Add(absl::string_view bytes, const Take& take) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const bool whole = end != absl::string_view::npos;
    const size_t room = kLongestLine - part_.size();
    const absl::string_view more = bytes.substr(0, whole ? end : bytes.size());
    if (more.size() > room) {
      absl::StrAppend(&part_, more.substr(0, room));
      bytes.remove_prefix(room);
    } else {
      absl::StrAppend(&part_, more);
      bytes.remove_prefix(more.size() + (whole ? 1 : 0));
      if (!whole && part_.size() < kLongestLine) return;
    }
    take(std::exchange(part_, ""));
  }
}

void LineSplitter::Finish(const Take& take) {
  if (!part_.empty()) take(std::exchange(part_, ""));
}

}  // namespace weft::launch
