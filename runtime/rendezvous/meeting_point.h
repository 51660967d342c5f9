// MeetingPoint: how the ranks of one host find each other where nobody told
// them an address. Rank 0 leaves a note under a name that all know; the others
// ask for it.
//
//   // rank 0
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<MeetingPoint> point,
//                         MeetingPoint::Open(spec.meeting, note));
//   // others
//   WEFT_ASSIGN_OR_RETURN(Secret note,
//                         MeetingPoint::Ask(spec.meeting, deadline_ns));
//
// The name is that of a socket in Linux's abstract namespace: it is no file,
// and is gone with the process, however that ends. Each side looks at the
// other's user: the note, which holds the job's secret, goes to processes of
// this user only, and is taken from them only.
//
// Threading: Open starts a thread, which answers until the object goes.
#ifndef WEFT_RUNTIME_RENDEZVOUS_MEETING_POINT_H_
#define WEFT_RUNTIME_RENDEZVOUS_MEETING_POINT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/secret.h"

namespace weft::runtime {

class MeetingPoint {
 public:
  static constexpr uint32_t kMaxNote = 4096;

  // kBadLaunch where another process has the name, kNoDescriptor, kNoThread.
  static absl::StatusOr<std::unique_ptr<MeetingPoint>> Open(
      const std::string& name, const Secret& note);
  virtual ~MeetingPoint() = default;

  // Waits until somebody has opened it. kPeerLost after the deadline,
  // kPeerRefused where the name is another user's.
  static absl::StatusOr<Secret> Ask(const std::string& name,
                                    uint64_t deadline_ns);
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_RENDEZVOUS_MEETING_POINT_H_
