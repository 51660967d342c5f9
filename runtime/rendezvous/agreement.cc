#include "runtime/rendezvous/agreement.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft::runtime {
namespace {

constexpr size_t kMaxShown = 100;  // bytes of a value that differs

std::string Shown(absl::string_view text) {
  if (text.size() <= kMaxShown) return absl::StrCat("'", text, "'");
  return absl::StrCat("'", text.substr(0, kMaxShown), "...'");
}

}  // namespace

std::pair<std::string, std::string> FirstDifference(const std::string& a,
                                                    const std::string& b) {
  const std::vector<absl::string_view> in_a = absl::StrSplit(a, '\n');
  const std::vector<absl::string_view> in_b = absl::StrSplit(b, '\n');
  size_t i = 0;
  while (i < in_a.size() && i < in_b.size() && in_a[i] == in_b[i]) ++i;
  const auto line = [i](const std::vector<absl::string_view>& lines) {
    return i < lines.size() ? Shown(absl::StripAsciiWhitespace(lines[i]))
                            : std::string("nothing more");
  };
  return {line(in_a), line(in_b)};
}

absl::Status Agree(Rendezvous* meeting, uint32_t rank, const std::string& what,
                   const std::string& value) {
  WEFT_ASSIGN_OR_RETURN(
      const std::vector<std::string> all,
      meeting->AllGather(rank, absl::StrCat("agree/", what), value));
  for (size_t r = 1; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    const auto [theirs, first] = FirstDifference(all[r], all[0]);
    return MakeError(ErrorCode::kBadLaunch,
                     absl::StrCat("ranks differ in the ", what, ": rank ", r,
                                  " has ", theirs, ", rank 0 has ", first));
  }
  return absl::OkStatus();
}

}  // namespace weft::runtime
