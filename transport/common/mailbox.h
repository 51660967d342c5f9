// The events of one domain on their way to poll, and what it counts.
//
// Urgent events come before the rest; else the order is that of Push. The
// domain asks TakeNotify once its lock is let go.
//
// Threading: thread-compatible; the domain's lock guards it.
#ifndef WEFT_TRANSPORT_COMMON_MAILBOX_H_
#define WEFT_TRANSPORT_COMMON_MAILBOX_H_

#include <utility>

#include "plugins/sdk/weft_fifo.hpp"
#include "plugins/sdk/weft_transport.hpp"

namespace weft_transport {

using weft_sdk::TransportEvent;

class Mailbox {
 public:
  void Push(TransportEvent&& event, bool urgent) {
    Next(urgent) = std::move(event);
  }
  // The same, to be filled in where it lies.
  TransportEvent& Add(bool urgent) {
    TransportEvent& event = Next(urgent);
    event.incarnation = 0;
    event.code = WEFT_OK;
    event.reason = WEFT_REFUSED_NOT;
    event.message.clear();
    return event;
  }
  void Poll(weft_sdk::EventWriter* writer) {
    for (auto* queue : {&urgent_, &usual_}) {
      while (!queue->empty() && !writer->full()) {
        writer->Write(queue->front());
        queue->pop_front();
      }
    }
    if (empty()) armed_ = true;
  }
  bool empty() const { return urgent_.empty() && usual_.empty(); }

  // True once after a Push; `*notify`: the host is to be told as well, because
  // the last poll left nothing.
  bool TakePushed(bool* notify) {
    if (!std::exchange(pushed_, false)) return false;
    *notify = !empty() && std::exchange(armed_, false);
    return true;
  }

  weft_transport_stats stats{};

 private:
  TransportEvent& Next(bool urgent) {
    pushed_ = true;
    return (urgent ? urgent_ : usual_).grow_back();
  }

  weft_sdk::Fifo<TransportEvent> urgent_;
  weft_sdk::Fifo<TransportEvent> usual_;
  bool pushed_ = false;
  bool armed_ = true;
};

}  // namespace weft_transport

#endif  // WEFT_TRANSPORT_COMMON_MAILBOX_H_
