#include "runtime/rendezvous/host_list.h"

#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft::runtime {
namespace {

constexpr size_t kMaxHosts = 65536;
constexpr size_t kMaxText = size_t{1} << 20;
constexpr size_t kMaxDigits = 9;

absl::Status Bad(absl::string_view text, absl::string_view why) {
  return MakeError(ErrorCode::kBadLaunch,
                   absl::StrCat("'", text, "' is no list of hosts: ", why));
}

// At commas outside of brackets.
absl::StatusOr<std::vector<absl::string_view>> Split(absl::string_view text) {
  std::vector<absl::string_view> parts;
  size_t begin = 0;
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == ']') {
      if (inside == (text[i] == '[')) return Bad(text, "brackets do not match");
      inside = !inside;
    } else if (text[i] == ',' && !inside) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  if (inside) return Bad(text, "a bracket is not closed");
  parts.push_back(text.substr(begin));
  return parts;
}

bool IsNumber(absl::string_view text) {
  if (text.empty() || text.size() > kMaxDigits) return false;
  for (char c : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

// "1-3,07" -> 1 2 3 07.
absl::StatusOr<std::vector<std::string>> Numbers(absl::string_view text) {
  std::vector<std::string> out;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    const absl::string_view last = ends.second.empty() ? part : ends.second;
    uint32_t from = 0;
    uint32_t to = 0;
    if (!IsNumber(ends.first) || !IsNumber(last) ||
        !absl::SimpleAtoi(ends.first, &from) || !absl::SimpleAtoi(last, &to) ||
        to < from) {
      return Bad(text, absl::StrCat("'", part, "' is no range of numbers"));
    }
    if (out.size() + (to - from) >= kMaxHosts) return Bad(text, "too many");
    for (uint32_t number = from; number <= to; ++number) {
      std::string digits = absl::StrCat(number);
      const size_t width = ends.first.size();
      out.push_back(digits.size() < width
                        ? std::string(width - digits.size(), '0') + digits
                        : digits);
    }
  }
  return out;
}

// One name, whose brackets multiply.
absl::StatusOr<std::vector<std::string>> Expand(absl::string_view name) {
  std::vector<std::string> out = {""};
  while (!name.empty()) {
    const size_t open = std::min(name.find('['), name.size());
    std::vector<std::string> numbers = {""};
    absl::string_view rest;
    if (open < name.size()) {
      const size_t close = name.find(']', open);
      WEFT_ASSIGN_OR_RETURN(numbers,
                            Numbers(name.substr(open + 1, close - open - 1)));
      rest = name.substr(close + 1);
    }
    if (out.size() * numbers.size() > kMaxHosts) return Bad(name, "too many");
    std::vector<std::string> longer;
    for (const std::string& before : out) {
      for (const std::string& number : numbers) {
        longer.push_back(absl::StrCat(before, name.substr(0, open), number));
      }
    }
    out = std::move(longer);
    name = rest;
  }
  return out;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseHostList(absl::string_view text) {
  if (text.size() > kMaxText) return Bad(text.substr(0, 40), "too long");
  WEFT_ASSIGN_OR_RETURN(std::vector<absl::string_view> parts, Split(text));
  std::vector<std::string> hosts;
  for (absl::string_view part : parts) {
    if (part.empty()) return Bad(text, "a name is empty");
    WEFT_ASSIGN_OR_RETURN(std::vector<std::string> names, Expand(part));
    if (hosts.size() + names.size() > kMaxHosts) return Bad(text, "too many");
    hosts.insert(hosts.end(), names.begin(), names.end());
  }
  return hosts;
}

}  // namespace weft::runtime
