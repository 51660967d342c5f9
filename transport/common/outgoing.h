// The SENDs of one end of a connection, from the host's post to the peer's
// answer. See exchange.h, which it is a part of.
//
//   small:  said with its bytes ------------------> fin: complete
//   large:  said ---> clear: active, in chunks ---> fin: complete
//
// What the carrier still refers to completes when it does not any more, and so
// does what was answered after that: SENDs complete as they were answered.
//
// Threading: thread-compatible; the domain's lock guards it.
#ifndef WEFT_TRANSPORT_COMMON_OUTGOING_H_
#define WEFT_TRANSPORT_COMMON_OUTGOING_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "transport/common/id_table.h"
#include "transport/common/operations.h"

namespace weft_transport {

template <typename Carrier, typename Kept>
class Outgoing {
 protected:
  Outgoing(const Operations& operations, const Limits& limits)
      : operations_(operations), limits_(limits) {}
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;

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

  weft_code PostSend(const weft_transport_op& op, weft_status* status) {
    const bool urgent = (op.flags & WEFT_TRANSPORT_URGENT) != 0;
    const bool eager = op.length <= limits_.eager_max;
    uint32_t& used = eager ? credits_[urgent] : large_sends_;
    const uint32_t limit = eager ? limits_.eager_credits : limits_.max_inflight;
    if (used == limit) return operations_.Again("SENDs", limit, status);
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

  // ---- What the peer says --------------------------------------------------

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

  // ---- The end -------------------------------------------------------------

  // SENDs whose first chunk has not gone out do not begin.
  void CloseSends() {
    closing_ = true;
    active_.erase(
        std::remove_if(active_.begin(), active_.end(),
                       [this](uint64_t id) { return send(id).sent == 0; }),
        active_.end());
  }

  // All of them; what the peer has answered as it did.
  void CompleteSends(weft_code code, const std::string& why) {
    for (const auto& entry : sends_.TakeAll()) {
      if (entry.value.answered) {
        CompleteAnswered(entry.value);
      } else {
        CompleteSend(entry.value, code, why);
      }
    }
    active_.clear();
    answered_.clear();
  }

 private:
  Carrier& carrier() { return static_cast<Carrier&>(*this); }

  void CompleteSend(const Send& send, weft_code code,
                    std::string_view message) {
    --(send.eager ? credits_[send.urgent] : large_sends_);
    carrier().Forget(send);
    if (code == WEFT_OK) {
      ++operations_.stats().sent_messages;
      operations_.stats().sent_bytes += send.length;
      if (send.eager) ++operations_.stats().eager_messages;
    }
    operations_.Complete(WEFT_TRANSPORT_SEND, send.tag, send.cookie,
                         send.length, send.urgent, code, message);
  }

  void CompleteAnswered(const Send& send) {
    if (send.answer == send.length) {
      CompleteSend(send, WEFT_OK, "");
    } else {
      CompleteSend(send, WEFT_INVALID,
                   Operations::Lengths(send.length, send.answer));
    }
  }

  const Operations operations_;
  const Limits limits_;
  IdTable<Send> sends_;
  std::deque<uint64_t> active_;
  std::deque<uint64_t> answered_;  // not completed: something refers to the 1st
  uint32_t credits_[2] = {0, 0};   // in use: [1] by urgent SENDs
  uint32_t large_sends_ = 0;
  bool closing_ = false;
};

}  // namespace weft_transport

#endif  // WEFT_TRANSPORT_COMMON_OUTGOING_H_
