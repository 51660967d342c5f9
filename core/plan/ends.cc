#include "core/plan/ends.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/channel_name.h"
#include "core/base/error.h"
#include "core/types/dtype.h"

namespace weft::plan {
namespace {

std::string Describe(const Channel* channel) {
  if (channel == nullptr) return "nothing";
  if (channel->tensor().dtype() == 0) {
    return absl::StrCat("an order edge, ", channel->copies(), " copies");
  }
  return absl::StrCat(DTypeName(static_cast<DType>(channel->tensor().dtype())),
                      "[", absl::StrJoin(channel->tensor().dims(), ","), "], ",
                      channel->copies(), " copies",
                      channel->read() == 0 ? "" : ", mapped",
                      channel->lands() ? ", in place" : "");
}

// Of two ranks that meant one channel and did not agree on it, the other's end;
// null where there is none. Pre-condition: one end is missing.
const Channel* Contradiction(const ChannelEnds& ends,
                             absl::Span<const ChannelEnds> of_pair) {
  const bool lacks_sender = ends.sender == nullptr;
  const Channel* known = lacks_sender ? ends.receiver : ends.sender;
  for (const ChannelEnds& other : of_pair) {
    const Channel* end = lacks_sender ? other.sender : other.receiver;
    const Channel* none = lacks_sender ? other.receiver : other.sender;
    if (end == nullptr || none != nullptr) continue;
    const auto mine = PartsOf(known->name()), theirs = PartsOf(end->name());
    if (mine.stem == theirs.stem && mine.agreed != theirs.agreed) return end;
  }
  return nullptr;
}

}  // namespace

bool Alike(const ChannelEnds& ends) {
  return ends.sender != nullptr && ends.receiver != nullptr &&
         ends.sender->name() == ends.receiver->name() &&
         Describe(ends.sender) == Describe(ends.receiver);
}

absl::Status EndsDiffer(uint32_t from, uint32_t to, const ChannelEnds& ends,
                        absl::Span<const ChannelEnds> of_pair) {
  const bool sends = ends.sender != nullptr;
  const Channel* known = sends ? ends.sender : ends.receiver;
  const bool is_lonely = !sends || ends.receiver == nullptr;
  if (const Channel* other =
          is_lonely ? Contradiction(ends, of_pair) : nullptr) {
    const auto [stem, agreed] = PartsOf(known->name());
    return MakeError(
        ErrorCode::kPlansDiffer,
        absl::StrCat("channel '", stem, "': rank ", sends ? from : to, " has '",
                     agreed, "', rank ", sends ? to : from, " has '",
                     PartsOf(other->name()).agreed, "'"));
  }
  return MakeError(ErrorCode::kPlansDiffer,
                   absl::StrCat("channel '", known->name(), "': rank ", from,
                                " sends ", Describe(ends.sender), ", rank ", to,
                                " receives ", Describe(ends.receiver)));
}

}  // namespace weft::plan
