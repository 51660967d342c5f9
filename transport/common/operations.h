// What all operations of a connection have in common: how many there may be,
// and how one ends.
//
//   Operations operations(ep, rank, &mailbox);
//   operations.Complete(WEFT_TRANSPORT_RECV, tag, cookie, length,
//                       /*urgent=*/false, WEFT_OK, "");
//   operations.Down(WEFT_PEER_LOST, "rank 1 is lost");
//
// Threading: thread-compatible; the domain's lock guards it. Ownership: borrows
// the mailbox; a value.
#ifndef WEFT_TRANSPORT_COMMON_OPERATIONS_H_
#define WEFT_TRANSPORT_COMMON_OPERATIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "plugins/sdk/weft_transport.hpp"
#include "transport/common/mailbox.h"

namespace weft_transport {

// Of the operations of one side.
struct Limits {
  uint64_t eager_max = 0;
  uint32_t eager_credits = 0;
  uint32_t max_inflight = 0;
};

class Operations {
 public:
  Operations(weft_endpoint ep, uint32_t rank, Mailbox* mailbox)
      : ep_(ep), rank_(rank), mailbox_(mailbox) {}

  uint32_t rank() const { return rank_; }  // the peer's
  weft_transport_stats& stats() const { return mailbox_->stats; }

  // The answer to one more than there may be.
  weft_code Again(const char* what, uint32_t limit, weft_status* status) const {
    ++stats().again;
    return weft_sdk::Fail(status, WEFT_AGAIN,
                          std::to_string(limit) + " " + what +
                              " are under way, the most there are");
  }

  void Complete(uint32_t op_kind, uint64_t tag, uint64_t cookie,
                uint64_t length, bool urgent, weft_code code,
                std::string_view message) const {
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

  // The end of the endpoint, after all its operations.
  void Down(weft_code code, const std::string& why) const {
    TransportEvent event;
    event.kind = WEFT_EVENT_EP_DOWN;
    event.ep = ep_;
    event.rank = rank_;
    event.code = code;
    if (code != WEFT_OK) event.message = why;
    mailbox_->Push(std::move(event), /*urgent=*/false);
  }

  // Of two operations that met.
  static std::string Lengths(uint64_t sent, uint64_t expected) {
    return "a SEND of " + std::to_string(sent) + " bytes met a RECV of " +
           std::to_string(expected);
  }

 private:
  weft_endpoint ep_;
  uint32_t rank_;
  Mailbox* mailbox_;
};

}  // namespace weft_transport

#endif  // WEFT_TRANSPORT_COMMON_OPERATIONS_H_
