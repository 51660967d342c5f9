#include "core/actor/message.h"

#include "absl/strings/str_cat.h"

namespace weft::actor {

namespace {

const char* Name(MessageKind kind) {
  switch (kind) {
    case MessageKind::kReq:
      return "REQ";
    case MessageKind::kAck:
      return "ACK";
    case MessageKind::kStart:
      return "START";
    case MessageKind::kFinished:
      return "FINISHED";
    case MessageKind::kStop:
      return "STOP";
    case MessageKind::kAbort:
      return "ABORT";
  }
  return "?";
}

}  // namespace

std::string ToString(ActorId id) {
  return absl::StrCat(id.rank(), ":", id.stream(), ":", id.index());
}

std::string ToString(const Message& m) {
  std::string text = Name(m.kind);
  if (m.kind <= MessageKind::kAck) {
    absl::StrAppend(&text, " r", m.reg, "[", m.copy, "] -> ",
                    ToString(m.destination));
  } else if (m.kind == MessageKind::kAbort) {
    absl::StrAppend(&text, " by ", ToString(m.destination));
  }
  absl::StrAppend(&text, " #", m.sequence);
  if (m.flags != 0) absl::StrAppend(&text, " flags ", int{m.flags});
  return text;
}

}  // namespace weft::actor
