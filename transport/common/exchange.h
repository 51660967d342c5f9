// What the two ends of a connection do with messages, whatever carries them:
// the operations of the host, the messages of the peer, who meets whom, and the
// end of all of it.
//
//   SEND  <= eager_max   eager ------>  meets its RECV, copied    <- fin
//   SEND  >  eager_max   large ------>  meets its RECV            <- clear
//                        chunks ---->   copied one by one         <- fin
//
// Matching is the receiver's: per tag, first come, first posted. Where lengths
// differ it answers with a mismatch and takes no byte.
//
//   up --- Close, or the peer closed ---> closing --- ... ---> down
//
// In `closing` no message begins; those whose first chunk went out go on, so
// that no RECV stays half written.
//
// A transport derives from it and carries what it says:
//
//   class Connection : private Exchange<Connection, Kept, Body> {
//     void SayMessage(uint64_t id, Send* send);  // eager with its bytes, large
//     void SayClear(uint64_t id);
//     void SayFin(uint64_t id, bool urgent, bool mismatch, uint64_t length);
//     void SayClose();
//     // Whether something still refers to the memory of a large SEND; then
//     // Settle() is called once nothing does.
//     bool Refers(uint64_t id, const Send& send) const;
//     void Forget(const Send& send);  // it has completed
//   };
//
// and hands over what the peer says to Take...(), which answer false where no
// peer would say that. `Kept` is what the transport keeps of a SEND. `Body` has
// the bytes of a message that waits for its RECV: it is made of a
// std::string_view, and converts to one.
//
// Threading: thread-compatible; the domain's lock guards it.
#ifndef WEFT_TRANSPORT_COMMON_EXCHANGE_H_
#define WEFT_TRANSPORT_COMMON_EXCHANGE_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "plugins/sdk/weft_fifo.hpp"
#include "plugins/sdk/weft_near_map.hpp"
#include "transport/common/id_table.h"
#include "transport/common/mailbox.h"

namespace weft_transport {

// Of the operations of one side.
struct Limits {
  uint64_t eager_max = 0;
  uint32_t eager_credits = 0;
  uint32_t max_inflight = 0;
};

template <typename Carrier, typename Kept, typename Body>
class Exchange {
 public:
  Exchange(weft_endpoint ep, uint32_t rank, const Limits& own,
           const Limits& peer, Mailbox* mailbox)
      : ep_(ep), rank_(rank), own_(own), peer_(peer), mailbox_(mailbox) {
    ++mailbox_->stats.endpoints;
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  uint32_t rank() const { return rank_; }  // the peer's

  // WEFT_OK, or why operations are not taken any more.
  weft_code DownCode() const {
    if (closed_here_ || peer_closed_) return WEFT_CANCELED;
    return lost_ ? WEFT_PEER_LOST : WEFT_OK;
  }
  std::string WhyDown() const {
    const std::string peer = "rank " + std::to_string(rank_);
    if (closed_here_) return "the endpoint was closed";
    if (peer_closed_) return peer + " closed the endpoint";
    return peer + " is lost" + (why_.empty() ? "" : ": " + why_);
  }

 protected:
  struct Send {
    const char* data = nullptr;
    uint64_t tag = 0;
    uint64_t length = 0;
    uint64_t cookie = 0;
    uint64_t sent = 0;  // of a large one
    bool eager = false, urgent = false, cleared = false, answered = false;
    uint64_t answer = 0;  // the length of its RECV
    Kept kept{};
  };

  // ---- Posting -------------------------------------------------------------

  weft_code PostSend(const weft_transport_op& op, weft_status* status) {
    const bool urgent = (op.flags & WEFT_TRANSPORT_URGENT) != 0;
    const bool eager = op.length <= own_.eager_max;
    uint32_t& used = eager ? credits_[urgent] : large_sends_;
    const uint32_t limit = eager ? own_.eager_credits : own_.max_inflight;
    if (used == limit) return Again("SENDs", limit, status);
    ++used;
    auto& entry = sends_.Add();
    Send& send = entry.value;
    send.data = static_cast<const char*>(op.host);
    send.tag = op.tag;
    send.length = op.length;
    send.cookie = op.cookie;
    send.sent = 0;
    send.eager = eager;
    send.urgent = urgent;
    send.cleared = send.answered = false;
    send.kept = Kept();
    carrier().SayMessage(entry.id, &send);
    return weft_sdk::Ok(status);
  }

  weft_code PostRecv(const weft_transport_op& op, weft_status* status) {
    if (recvs_ == own_.max_inflight) {
      return Again("RECVs", own_.max_inflight, status);
    }
    ++recvs_;
    Lane& lane = lanes_.at(op.tag);
    lane.recvs.push_back({op.host, op.length, op.cookie});
    Match(op.tag, &lane);
    return weft_sdk::Ok(status);
  }

  // ---- What the peer says --------------------------------------------------

  bool TakeEager(uint64_t id, uint64_t tag, bool urgent,
                 std::string_view bytes) {
    if (bytes.size() > peer_.eager_max || id <= last_arrival_[urgent] ||
        arrived_[urgent] == peer_.eager_credits) {
      return false;
    }
    last_arrival_[urgent] = id;
    if (closing_) return true;
    ++arrived_[urgent];
    Lane& lane = lanes_.at(tag);
    if (lane.busy == 0 && lane.arrivals.empty() && !lane.recvs.empty()) {
      const Recv recv = lane.recvs.front();
      lane.recvs.pop_front();
      Meet(tag, id, kEagerArrivals[urgent], bytes.size(), bytes, recv);
      ForgetIfIdle(tag, lane);
      return true;
    }
    lane.arrivals.push_back(
        {id, bytes.size(), kEagerArrivals[urgent], Body(bytes)});
    return true;
  }

  bool TakeLarge(uint64_t id, uint64_t tag, uint64_t length) {
    if (length <= peer_.eager_max || id <= last_arrival_[0] ||
        arrived_[kLargeArrival] == peer_.max_inflight) {
      return false;
    }
    last_arrival_[0] = id;
    if (closing_) return true;
    ++arrived_[kLargeArrival];
    Lane& lane = lanes_.at(tag);
    lane.arrivals.push_back({id, length, kLargeArrival, Body()});
    Match(tag, &lane);
    return true;
  }

  bool TakeClear(uint64_t id) {
    Send* send = sends_.Find(id);
    if (send == nullptr || send->eager || send->cleared) return false;
    send->cleared = true;
    if (!closing_) active_.push_back(id);
    return true;
  }

  bool TakeFin(uint64_t id, bool mismatch, uint64_t length) {
    Send* send = sends_.Find(id);
    if (send == nullptr || send->answered ||
        mismatch == (length == send->length)) {
      return false;
    }
    if (!send->eager &&
        (mismatch ? send->cleared : send->sent != send->length)) {
      return false;
    }
    send->answered = true;
    send->answer = length;
    if (answered_.empty() && !carrier().Refers(id, *send)) {
      CompleteAnswered(*send);
      sends_.Remove(id);
      return true;
    }
    answered_.push_back(id);
    return true;
  }

  // Of the SEND whose id has this low half: all of it met its RECV.
  bool TakeFinOf(uint32_t low) {
    const uint64_t id = sends_.Whole(low);
    return id != 0 && TakeFin(id, /*mismatch=*/false, send(id).length);
  }

  void TakeClose() {
    peer_closed_ = true;
    if (!closing_) BeginClosing();
  }

  // Completes what the peer has answered, in that order, up to a SEND that
  // something refers to. True where there is one.
  bool Settle() {
    for (; !answered_.empty(); answered_.pop_front()) {
      const uint64_t id = answered_.front();
      const Send& send = *sends_.Find(id);
      if (carrier().Refers(id, send)) return true;
      CompleteAnswered(send);
      sends_.Remove(id);
    }
    return false;
  }

  // ---- Chunks --------------------------------------------------------------

  // SENDs that are cleared and have chunks to go.
  std::deque<uint64_t>& active() { return active_; }
  const std::deque<uint64_t>& active() const { return active_; }
  Send& send(uint64_t id) { return *sends_.Find(id); }

  // Where the next `bytes` of message `id` go: null where they are let go. That
  // RECV stays where it is until EndChunk. False: nonsense.
  bool BeginChunk(uint64_t id, uint64_t bytes, char** to) {
    const auto it = incoming_.find(id);
    if (it == incoming_.end() || bytes == 0 ||
        bytes > it->second.recv.length - it->second.got) {
      return false;
    }
    Incoming& incoming = it->second;
    *to = incoming.dropped
              ? nullptr
              : static_cast<char*>(incoming.recv.data) + incoming.got;
    incoming.got += bytes;
    return true;
  }

  void EndChunk(uint64_t id) {
    const auto it = incoming_.find(id);
    const Incoming incoming = it->second;
    if (incoming.got < incoming.recv.length || incoming.dropped) return;
    incoming_.erase(it);
    Lane& lane = lanes_.at(incoming.tag);
    lane.busy = 0;
    --arrived_[kLargeArrival];
    carrier().SayFin(id, /*urgent=*/false, /*mismatch=*/false,
                     incoming.recv.length);
    CompleteRecv(incoming.tag, incoming.recv, /*urgent=*/false, WEFT_OK, "");
    Match(incoming.tag, &lane);
  }

  // ---- The end -------------------------------------------------------------

  bool closing() const { return closing_; }
  bool peer_closed() const { return peer_closed_; }
  bool lost() const { return lost_; }

  // By this side. False where the end has begun.
  bool BeginClose() {
    if (!BeginAbort()) return false;
    BeginClosing();
    return true;
  }
  bool BeginAbort() {
    if (lost_ || closed_here_ || peer_closed_) return false;
    closed_here_ = true;
    return true;
  }
  // Nothing is left that was begun. Pre-condition: closing().
  bool Finished() const {
    return active_.empty() &&
           std::all_of(incoming_.begin(), incoming_.end(),
                       [](const auto& entry) { return entry.second.dropped; });
  }
  // No operation is taken from now on. The first reason counts.
  void Lose(const std::string& why) {
    if (!std::exchange(lost_, true)) why_ = why;
  }
  // All operations complete, then EP_DOWN. Pre-condition: lost().
  void CompleteAll() {
    const weft_code code = DownCode();
    const std::string why = WhyDown();
    for (const auto& entry : sends_.TakeAll()) {
      if (entry.value.answered) {
        CompleteAnswered(entry.value);
      } else {
        CompleteSend(entry.value, code, why);
      }
    }
    for (auto& [tag, lane] : lanes_) {
      if (lane.busy != 0) {
        CompleteRecv(tag, incoming_.at(lane.busy).recv, false, code, why);
      }
      for (; !lane.recvs.empty(); lane.recvs.pop_front()) {
        CompleteRecv(tag, lane.recvs.front(), false, code, why);
      }
    }
    TransportEvent event;
    event.kind = WEFT_EVENT_EP_DOWN;
    event.ep = ep_;
    event.rank = rank_;
    event.code = closed_here_ ? WEFT_OK : code;
    if (event.code != WEFT_OK) event.message = why;
    mailbox_->Push(std::move(event), /*urgent=*/false);
    --mailbox_->stats.endpoints;
    lanes_.clear();
    incoming_.clear();
    active_.clear();
    answered_.clear();
  }

 private:
  // Messages of the peer that are not answered are counted by what they are.
  enum ArrivalKind { kUsualArrival, kUrgentArrival, kLargeArrival };
  static constexpr ArrivalKind kEagerArrivals[2] = {kUsualArrival,
                                                    kUrgentArrival};

  struct Recv {
    void* data = nullptr;
    uint64_t length = 0;
    uint64_t cookie = 0;
  };
  // A message of the peer that waits for its RECV.
  struct Arrival {
    uint64_t id = 0;
    uint64_t length = 0;
    ArrivalKind kind = kUsualArrival;
    Body body;
  };
  // A large message that has its RECV.
  struct Incoming {
    uint64_t tag;
    Recv recv;
    uint64_t got;
    bool dropped;  // its chunks are let go: the end came before the first
  };
  struct Lane {
    weft_sdk::Fifo<Arrival> arrivals;
    weft_sdk::Fifo<Recv> recvs;
    uint64_t busy = 0;  // id of the large message that moves
  };
  // Lanes that have nothing are forgotten where there are more than this.
  static constexpr size_t kKeptLanes = 1024;

  Carrier& carrier() { return static_cast<Carrier&>(*this); }

  static std::string Lengths(uint64_t sent, uint64_t expected) {
    return "a SEND of " + std::to_string(sent) + " bytes met a RECV of " +
           std::to_string(expected);
  }

  weft_code Again(const char* what, uint32_t limit, weft_status* status) {
    ++mailbox_->stats.again;
    return weft_sdk::Fail(status, WEFT_AGAIN,
                          std::to_string(limit) + " " + what +
                              " are under way, the most there are");
  }

  void Match(uint64_t tag, Lane* lane) {
    while (!closing_ && lane->busy == 0 && !lane->arrivals.empty() &&
           !lane->recvs.empty()) {
      const Arrival arrival = std::move(lane->arrivals.front());
      const Recv recv = lane->recvs.front();
      lane->arrivals.pop_front();
      lane->recvs.pop_front();
      if (arrival.length == recv.length && arrival.kind == kLargeArrival) {
        lane->busy = arrival.id;
        incoming_[arrival.id] = {tag, recv, /*got=*/0, /*dropped=*/false};
        carrier().SayClear(arrival.id);
        return;
      }
      Meet(tag, arrival.id, arrival.kind, arrival.length, arrival.body, recv);
    }
    ForgetIfIdle(tag, *lane);
  }

  // A small message and its RECV, or two lengths that differ.
  void Meet(uint64_t tag, uint64_t id, ArrivalKind kind, uint64_t length,
            std::string_view bytes, const Recv& recv) {
    --arrived_[kind];
    const bool urgent = kind == kUrgentArrival;
    const bool same = length == recv.length;
    if (same && length != 0) std::memcpy(recv.data, bytes.data(), length);
    carrier().SayFin(id, urgent, !same, recv.length);
    if (same) {
      CompleteRecv(tag, recv, urgent, WEFT_OK, "");
    } else {
      CompleteRecv(tag, recv, urgent, WEFT_INVALID,
                   Lengths(length, recv.length));
    }
  }

  void ForgetIfIdle(uint64_t tag, const Lane& lane) {
    if (lanes_.size() > kKeptLanes && lane.busy == 0 && lane.arrivals.empty() &&
        lane.recvs.empty()) {
      lanes_.erase(tag);
    }
  }

  // Messages whose first chunk has not come, or gone out, do not begin.
  void BeginClosing() {
    closing_ = true;
    for (auto& [id, incoming] : incoming_) incoming.dropped = incoming.got == 0;
    active_.erase(
        std::remove_if(active_.begin(), active_.end(),
                       [this](uint64_t id) { return send(id).sent == 0; }),
        active_.end());
    carrier().SayClose();
  }

  void Complete(uint32_t op_kind, uint64_t tag, uint64_t cookie,
                uint64_t length, bool urgent, weft_code code,
                std::string_view message) {
    TransportEvent& event = mailbox_->Add(urgent);
    event.kind = WEFT_EVENT_COMPLETED;
    event.ep = ep_;
    event.cookie = cookie;
    event.tag = tag;
    event.length = code == WEFT_OK ? length : 0;
    event.op_kind = op_kind;
    event.rank = rank_;
    event.code = code;
    if (code != WEFT_OK) event.message = message;
  }

  void CompleteSend(const Send& send, weft_code code,
                    std::string_view message) {
    --(send.eager ? credits_[send.urgent] : large_sends_);
    carrier().Forget(send);
    if (code == WEFT_OK) {
      ++mailbox_->stats.sent_messages;
      mailbox_->stats.sent_bytes += send.length;
      if (send.eager) ++mailbox_->stats.eager_messages;
    }
    Complete(WEFT_TRANSPORT_SEND, send.tag, send.cookie, send.length,
             send.urgent, code, message);
  }

  void CompleteAnswered(const Send& send) {
    if (send.answer == send.length) {
      CompleteSend(send, WEFT_OK, "");
    } else {
      CompleteSend(send, WEFT_INVALID, Lengths(send.length, send.answer));
    }
  }

  void CompleteRecv(uint64_t tag, const Recv& recv, bool urgent, weft_code code,
                    std::string_view message) {
    --recvs_;
    if (code == WEFT_OK) {
      ++mailbox_->stats.received_messages;
      mailbox_->stats.received_bytes += recv.length;
    }
    Complete(WEFT_TRANSPORT_RECV, tag, recv.cookie, recv.length, urgent, code,
             message);
  }

  const weft_endpoint ep_;
  const uint32_t rank_;
  const Limits own_;
  const Limits peer_;
  Mailbox* const mailbox_;

  // Out.
  IdTable<Send> sends_;
  std::deque<uint64_t> active_;
  std::deque<uint64_t> answered_;  // not completed: something refers to the 1st
  uint32_t credits_[2] = {0, 0};   // in use: [1] by urgent SENDs
  uint32_t large_sends_ = 0;

  // In.
  weft_sdk::NearMap<Lane> lanes_;  // by tag
  std::map<uint64_t, Incoming> incoming_;
  uint64_t last_arrival_[2] = {0, 0};  // [1]: urgent
  uint32_t arrived_[3] = {0, 0, 0};    // by ArrivalKind
  uint32_t recvs_ = 0;

  bool closing_ = false;
  bool closed_here_ = false;
  bool peer_closed_ = false;
  bool lost_ = false;
  std::string why_;
};

}  // namespace weft_transport

#endif  // WEFT_TRANSPORT_COMMON_EXCHANGE_H_
