#include "core/actor/port_check.h"

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace weft::actor {
namespace {

constexpr uint32_t kMaxPortCopies = 65534;  // kNoCopy is not a copy
constexpr uint32_t kMaxPattern = 65535;

}  // namespace

absl::Status BadActor(const ActorSpec& actor, absl::string_view what) {
  return MakeError(ErrorCode::kBadPlan,
                   absl::StrCat("'", actor.name, "' [actor ",
                                ToString(actor.id), "]: ", what));
}

absl::Status CheckAlternates(const ActorSpec& actor, uint32_t reg,
                             const std::string& pattern, uint8_t open,
                             uint8_t close, bool needs_open) {
  bool is_open = false;
  for (char c : pattern) {
    uint8_t bits = static_cast<uint8_t>(c);
    if (bits & open) {
      if (is_open) {
        return BadActor(
            actor, absl::StrCat("pattern of r", reg, " opens a copy twice"));
      }
      is_open = true;
    }
    if (bits & close) {
      if (!is_open && needs_open) {
        return BadActor(actor, absl::StrCat("pattern of r", reg,
                                            " closes a copy that is not open"));
      }
      is_open = false;
    }
  }
  if (is_open) {
    return BadActor(actor, absl::StrCat("pattern of r", reg,
                                        " leaves a copy open at its end"));
  }
  return absl::OkStatus();
}

absl::Status CheckPort(const ActorSpec& actor, uint32_t reg, uint32_t copies,
                       const std::string& pattern, uint8_t allowed) {
  if (copies == 0 || copies > kMaxPortCopies) {
    return BadActor(actor,
                    absl::StrCat("r", reg, " has ", copies, " copies; 1 to ",
                                 kMaxPortCopies, " are possible"));
  }
  if (pattern.size() > kMaxPattern ||
      actor.acts_per_period % pattern.size() != 0) {
    return BadActor(actor,
                    absl::StrCat("pattern of r", reg, " has ", pattern.size(),
                                 " acts, which do not divide ",
                                 actor.acts_per_period, " acts a period"));
  }
  for (char c : pattern) {
    if (static_cast<uint8_t>(c) & ~allowed) {
      return BadActor(actor,
                      absl::StrCat("pattern of r", reg, " has unknown bits ",
                                   static_cast<uint8_t>(c)));
    }
  }
  return absl::OkStatus();
}

}  // namespace weft::actor
