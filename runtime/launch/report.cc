#include "runtime/launch/report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "core/base/error.h"
#include "nlohmann/json.hpp"

namespace weft::launch {
namespace {

constexpr uint64_t kMaxErrorFile = uint64_t{1} << 20;
constexpr absl::string_view kAtStep = " at step ";

int ExitCodeOfLostPeer() {
  return ExitCodeOf(MakeError(ErrorCode::kPeerLost, ""));
}

// Those who only lost somebody come last, then who was asked to end.
std::pair<int, uint64_t> Suspicion(const RankEnd& end) {
  int kind = 0;
  if (LostAPeer(end.end)) kind = 1;
  if (end.asked) kind = 2;
  if (end.end.ok()) kind = 3;
  return {kind, end.order};
}

// How one ended that was asked to tells of who asked, not of the cause.
bool EndedByItself(const RankEnd& end) { return !end.asked && !end.end.ok(); }

bool WouldComeAgain(int exit_code) {
  // Usage, model, plugin, loss that is not finite (core/base/error.h).
  for (ErrorCode code : {ErrorCode::kBadJob, ErrorCode::kBadGraph,
                         ErrorCode::kPluginNotFound, ErrorCode::kNotFinite}) {
    if (exit_code == ExitCodeOf(MakeError(code, ""))) return true;
  }
  return false;
}

// The same of an error's name, "WEFT-6001".
bool WouldComeAgain(absl::string_view name) {
  int number = 0;
  return absl::ConsumePrefix(&name, "WEFT-") &&
         absl::SimpleAtoi(name, &number) &&
         WouldComeAgain(
             ExitCodeOf(MakeError(static_cast<ErrorCode>(number), "")));
}

const char* WhatItDid(FirstCause::Part part) {
  switch (part) {
    case FirstCause::Part::kFailed:
      return "failed first";
    case FirstCause::Part::kAbsent:
      return "did not come";
    case FirstCause::Part::kEnded:
      return "ended first";
  }
  return "";
}

struct Told {
  std::string message;
  std::string where;
  std::string cause;  // the name of the error of a rank that it lost
};

// What a rank left in its file, if anything that can be read.
std::optional<Told> ReadError(Os& os, const std::string& directory,
                              uint32_t rank) {
  absl::StatusOr<std::string> text =
      os.ReadFile(ErrorFile(directory, rank), kMaxErrorFile);
  if (!text.ok()) return std::nullopt;
  const nlohmann::json json =
      nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  auto word = [&json](const char* name) {
    auto it = json.find(name);
    return it != json.end() && it->is_string() ? it->get<std::string>() : "";
  };
  Told told;
  const std::string message = word("message");
  // The line that tells it begins with the rank.
  told.message = absl::StrCat(
      word("code"), ": ",
      absl::StripPrefix(message, absl::StrCat("rank ", rank, ": ")));
  told.where = absl::StrCat(", on host ", word("host"));
  told.cause = word("cause");
  auto step = json.find("step");
  const uint64_t at = step != json.end() && step->is_number_unsigned()
                          ? step->get<uint64_t>()
                          : 0;  // before the first
  // Where the message names one, that is the one it is about.
  if (at != 0 && !absl::StrContains(told.message, kAtStep)) {
    absl::StrAppend(&told.where, kAtStep, at);
  }
  return told;
}

// Whether a rank that lost another one heard a cause that would come again: of
// another host's rank a launcher knows only what its own ranks heard.
bool HeardThatItWould(Os& os, const std::string& error_directory,
                      const std::vector<RankEnd>& ends) {
  for (const RankEnd& end : ends) {
    if (!LostAPeer(end.end)) continue;
    const std::optional<Told> heard = ReadError(os, error_directory, end.rank);
    if (heard.has_value() && WouldComeAgain(heard->cause)) return true;
  }
  return false;
}

}  // namespace

std::string ErrorFile(const std::string& directory, uint32_t rank) {
  return JoinPath(directory, absl::StrFormat("rank_%05d.json", rank));
}

std::string WhatItSaid(Os& os, const std::string& error_directory,
                       const RankEnd& end) {
  const std::optional<Told> own = ReadError(os, error_directory, end.rank);
  return own.has_value() ? own->message
                         : absl::StrCat("it ", HowItEnded(end.end));
}

bool LostAPeer(const ChildEnd& end) {
  return end.exit_code == ExitCodeOfLostPeer();
}

std::string HowItEnded(const ChildEnd& end) {
  if (end.signal != 0) {
    return absl::StrCat("was killed by ", SignalName(end.signal));
  }
  return absl::StrCat("ended with exit code ", end.exit_code);
}

FirstCause FindFirstCause(Os& os, const std::string& error_directory,
                          const std::vector<RankEnd>& ends,
                          const std::optional<runtime::JobFailure>& told) {
  const RankEnd* first = &*std::min_element(
      ends.begin(), ends.end(), [](const RankEnd& a, const RankEnd& b) {
        return Suspicion(a) < Suspicion(b);
      });
  FirstCause cause;
  cause.rank = told.has_value() ? told->rank : first->rank;
  if (!told.has_value() && LostAPeer(first->end)) {
    cause.part = FirstCause::Part::kEnded;
  } else if (told.has_value() && !told->came) {
    cause.part = FirstCause::Part::kAbsent;
  }
  bool here = false;
  for (const RankEnd& end : ends) {
    if (end.rank == cause.rank) {
      first = &end;
      here = true;
    }
  }
  if (EndedByItself(*first)) {
    cause.exit_code = first->end.code();
  } else {
    cause.exit_code = here && told.has_value() ? ExitCodeOf(told->status)
                                               : ExitCodeOfLostPeer();
  }
  cause.would_come_again =
      WouldComeAgain(cause.exit_code) ||
      (told.has_value() && WouldComeAgain(ExitCodeOf(told->status))) ||
      HeardThatItWould(os, error_directory, ends);
  std::optional<Told> own;
  // A rank that was killed has left nothing, or what an earlier one left.
  if (here && first->end.signal == 0) {
    own = ReadError(os, error_directory, cause.rank);
  }
  if (own.has_value()) {
    cause.message = own->message;
    cause.where = own->where;
  } else if (told.has_value() && !(here && EndedByItself(*first))) {
    cause.message = absl::StrCat(ErrorName(ErrorCodeOf(told->status)), ": ",
                                 told->status.message());
  } else {
    cause.message = absl::StrCat("it ", HowItEnded(first->end));
  }
  for (const RankEnd& end : ends) {
    cause.others += end.rank != cause.rank && !end.end.ok();
  }
  return cause;
}

std::vector<std::string> ReportLines(const FirstCause& cause) {
  std::vector<std::string> lines;
  lines.push_back(absl::StrCat("rank ", cause.rank, " ", WhatItDid(cause.part),
                               cause.where, ": ", cause.message));
  if (cause.others > 0) {
    lines.push_back(absl::StrCat(cause.others, " other rank",
                                 cause.others == 1 ? "" : "s",
                                 " stopped because of it"));
  }
  const std::string name = cause.message.substr(0, cause.message.find(':'));
  if (absl::StartsWith(name, "WEFT-")) {
    lines.push_back(absl::StrCat("see docs/errors/", name, ".md"));
  }
  return lines;
}

}  // namespace weft::launch
