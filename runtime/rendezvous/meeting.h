// Meeting: what a coordinator knows and decides, without threads, clock or
// network. Visitors are connections by number; each becomes a rank, or goes.
//
//   Meeting meeting(options, &outlet);
//   meeting.Arrive(7, now);
//   meeting.Hear(7, message, now);    // outlet.Send(7, ...)
//   meeting.Left(7, now);
//   meeting.OnTime(now);              // to be called again by due()
//
// One failure ends the job. A rank that fails says so, and that counts; one
// whose connection ends without a goodbye, or that is silent too long, is lost,
// and that counts; one that says only that it lost another is heard, and the
// other is waited for a moment, since it may say more.
//
// A meeting that was not called for a while (its process was stopped) does not
// take that time for the silence of others.
//
// Threading: thread-compatible. Ownership: borrows the outlet.
#ifndef WEFT_RUNTIME_RENDEZVOUS_MEETING_H_
#define WEFT_RUNTIME_RENDEZVOUS_MEETING_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/error.h"
#include "runtime/rendezvous/coordinator.h"
#include "runtime/rendezvous/rendezvous.pb.h"

namespace weft::runtime {

// Bytes of a value that one message has.
inline constexpr size_t kPartBytes = size_t{1} << 20;
// Of a value, of all its parts: a plan of the largest models has some 100 MB.
inline constexpr size_t kMaxValueBytes = size_t{1} << 30;
// How often both sides say that they live, where `silence_ns` is death.
uint64_t BeatNs(uint64_t silence_ns);
// The name of this host, and the number of its boot, which hosts that are one
// machine share.
std::string HostName();
std::string BootId();

class Meeting {
 public:
  class Outlet {
   public:
    virtual ~Outlet() = default;
    virtual void Send(uint64_t visitor, rendezvous::ToRank message) = 0;
    // Once what was sent before is out.
    virtual void Close(uint64_t visitor) = 0;
  };

  // `loopback`: only processes of this machine can be ranks.
  Meeting(const CoordinatorOptions& options, bool loopback, Outlet* outlet,
          uint64_t now);

  void Arrive(uint64_t visitor, uint64_t now);
  void Hear(uint64_t visitor, const rendezvous::ToCoordinator& message,
            uint64_t now);
  void Left(uint64_t visitor, uint64_t now);
  void OnTime(uint64_t now);
  // When OnTime is to be called next; sooner, perhaps, once a rank has come.
  uint64_t due() const { return due_; }
  void Fail(uint32_t rank, const absl::Status& cause);

  const std::optional<JobFailure>& failure() const { return failure_; }
  std::vector<RankProgress> progress() const;
  // All ranks have left; after a failure, all that came, and all did unless
  // they are given up.
  bool over() const;

 private:
  struct Visitor {
    uint64_t until = 0;  // 0: it is a rank
    std::string challenge;
    uint32_t rank = 0;
    std::map<uint64_t, std::string> parts;  // of values that come, by call
  };
  struct Rank {
    bool came = false;  // perhaps too late to join
    bool joined = false;
    bool gave_up = false;  // and said so
    bool gone = false;
    uint64_t visitor = 0;
    uint64_t heard = 0;
    uint64_t silence_ns = 0;  // after which it is lost
    rendezvous::Hello hello;
    RankProgress progress;
  };
  struct Waiting {
    uint64_t visitor = 0;
    uint64_t call = 0;
    uint64_t until = 0;
    uint64_t deadline_ns = 0;
  };
  struct Round {
    std::map<uint32_t, std::string> values;  // by rank
    std::vector<Waiting> waiting;
  };

  void MakeRoom();
  void Enter(uint64_t visitor, const rendezvous::Enter& enter, uint64_t now);
  bool Admit(uint64_t visitor, const rendezvous::Hello& hello);
  bool Agrees(const rendezvous::Hello& hello);
  void Seat(uint64_t visitor, const rendezvous::Hello& hello, uint64_t now);
  void Refuse(uint64_t visitor, ErrorCode code, const std::string& text,
              bool early = false);
  void HearRank(uint64_t visitor, const rendezvous::ToCoordinator& message,
                uint64_t now);
  void HearFailure(uint32_t rank, const rendezvous::Failure& failure,
                   uint64_t now);
  // The whole value, once its last part is there.
  std::optional<std::string> Collect(uint64_t visitor,
                                     const rendezvous::Part& part);
  void Gather(uint64_t visitor, const std::string& key, std::string value,
              const Waiting& waiting);
  void SendValue(const Waiting& to, const std::string& key, uint32_t rank,
                 const std::string& value);
  void SendMissing(const Waiting& to, ErrorCode code, const std::string& text);
  void Put(const std::string& key, const std::string& value);
  void Get(const Waiting& waiting, const std::string& key);
  void Lost(uint32_t rank, const std::string& how);
  void Dismiss(uint32_t rank);
  void DismissSilent(uint64_t now);
  void Decide(uint32_t rank, ErrorCode code, const std::string& text,
              bool common);
  void TellFailure(uint64_t visitor);
  void CheckTimes(uint64_t now);
  void CheckWaiting(uint64_t now);
  std::string NameOf(uint32_t rank) const;
  std::vector<uint32_t> Absent() const;

  const CoordinatorOptions options_;
  const bool loopback_;
  Outlet& outlet_;
  uint64_t beat_ns_;  // the shortest that anybody needs
  const uint64_t start_;
  uint64_t join_ns_;  // from start_ on
  uint64_t last_time_ = 0;
  uint64_t next_beat_ = 0;
  uint64_t due_ = 0;
  std::map<uint64_t, Visitor> visitors_;
  std::vector<Rank> ranks_;
  uint32_t joined_ = 0;
  bool absent_given_up_ = false;
  std::map<std::string, Round> rounds_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<Waiting>> getters_;
  std::optional<JobFailure> failure_;
  rendezvous::Failure told_;  // failure_, as ranks hear it
  // Of a rank that only heard of another's.
  std::optional<rendezvous::Failure> weak_;
  uint64_t weak_until_ = 0;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_RENDEZVOUS_MEETING_H_
