#include "tools/weft/device_list.h"

#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

absl::Status BadName(absl::string_view text, absl::string_view why) {
  return MakeError(ErrorCode::kBadValue,
                   absl::StrCat("device '", text, "': ", why,
                                "; expected kind, kind:index or "
                                "kind:index?option=value"));
}

// One entry of the list: whose it is (-1: all ranks') and its text.
struct Entry {
  int64_t rank = -1;
  absl::string_view device;
};

absl::Status Bad(const std::string& message) {
  return MakeError(ErrorCode::kBadJob, message);
}

std::string RanksText(uint32_t ranks) {
  return ranks == 1 ? "1 rank, w0"
                    : absl::StrCat(ranks, " ranks, w0 to w", ranks - 1);
}

absl::StatusOr<Entry> ParseEntry(absl::string_view text, uint32_t ranks) {
  text = absl::StripAsciiWhitespace(text);
  const size_t slash = text.substr(0, text.find('?')).find('/');
  if (slash == absl::string_view::npos) return Entry{-1, text};
  uint32_t rank = 0;
  if (text[0] != 'w' || !absl::SimpleAtoi(text.substr(1, slash - 1), &rank)) {
    return BadName(text, absl::StrCat("'", text.substr(0, slash),
                                      "' is no rank, as w0 is"));
  }
  if (rank >= ranks) {
    return Bad(absl::StrCat("devices: '", text, "' is of rank w", rank,
                            ", the job runs on ", RanksText(ranks)));
  }
  return Entry{rank, text.substr(slash + 1)};
}

}  // namespace

std::string DeviceName::Kind() const {
  return absl::StrCat(kind, options.empty() ? "" : "?",
                      absl::StrJoin(options, "&", absl::PairFormatter("=")));
}

std::string DeviceName::text() const { return absl::StrCat(kind, ":", index); }

absl::StatusOr<std::vector<std::pair<std::string, std::string>>>
ParsePluginOptions(absl::string_view text) {
  std::vector<std::pair<std::string, std::string>> options;
  for (absl::string_view option :
       absl::StrSplit(text, '&', absl::SkipEmpty())) {
    std::pair<std::string, std::string> pair =
        absl::StrSplit(option, absl::MaxSplits('=', 1));
    if (pair.first.empty() || option.size() == pair.first.size()) {
      return MakeError(ErrorCode::kBadValue,
                       absl::StrCat("option '", option, "' has no value"));
    }
    options.push_back(std::move(pair));
  }
  return options;
}

absl::StatusOr<DeviceName> ParseDeviceName(absl::string_view text) {
  DeviceName name;
  std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('?', 1));
  std::pair<absl::string_view, absl::string_view> address =
      absl::StrSplit(parts.first, absl::MaxSplits(':', 1));
  name.kind = std::string(address.first);
  if (name.kind.empty()) return BadName(text, "no kind");
  for (char c : name.kind) {
    if (!absl::ascii_isalnum(c) && c != '_' && c != '-' && c != '.') {
      return BadName(text, absl::StrCat("'", name.kind, "' is no kind"));
    }
  }
  bool has_index = parts.first.size() > address.first.size();
  if (has_index && !absl::SimpleAtoi(address.second, &name.index)) {
    return BadName(text, absl::StrCat("'", address.second, "' is no index"));
  }
  auto options = ParsePluginOptions(parts.second);
  if (!options.ok()) return BadName(text, options.status().message());
  name.options = *std::move(options);
  return name;
}

absl::StatusOr<std::vector<DeviceName>> DevicesOfRank(absl::string_view devices,
                                                      uint32_t rank,
                                                      uint32_t ranks) {
  std::vector<DeviceName> out;
  for (absl::string_view text : absl::StrSplit(devices, ',')) {
    WEFT_ASSIGN_OR_RETURN(Entry entry, ParseEntry(text, ranks));
    WEFT_ASSIGN_OR_RETURN(DeviceName name, ParseDeviceName(entry.device));
    if (entry.rank >= 0 && entry.rank != rank) continue;
    for (const DeviceName& before : out) {
      if (before.text() != name.text()) continue;
      return Bad(absl::StrCat("devices '", devices, "': rank w", rank, " has ",
                              name.text(), " twice"));
    }
    out.push_back(std::move(name));
  }
  if (!out.empty()) return out;
  return Bad(absl::StrCat("devices '", devices, "': rank w", rank,
                          " has none; the job runs on ", RanksText(ranks)));
}

absl::StatusOr<std::vector<std::string>> ComputeKinds(absl::string_view devices,
                                                      uint32_t ranks) {
  std::vector<std::string> kinds;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    WEFT_ASSIGN_OR_RETURN(std::vector<DeviceName> names,
                          DevicesOfRank(devices, rank, ranks));
    kinds.push_back(names[0].Kind());
  }
  return kinds;
}

absl::StatusOr<std::string> DevicesOfFirst(absl::string_view devices) {
  std::vector<absl::string_view> out;
  for (absl::string_view text : absl::StrSplit(devices, ',')) {
    WEFT_ASSIGN_OR_RETURN(
        Entry entry, ParseEntry(text, std::numeric_limits<uint32_t>::max()));
    if (entry.rank <= 0) out.push_back(entry.device);
  }
  return absl::StrJoin(out, ",");
}

}  // namespace weft
