// The events of one domain, on their way from whoever causes them to poll.
//
//   Wakeups wake;                       // before the lock: notifies after it
//   std::lock_guard<std::mutex> lock(mu_);
//   wake.Push(mailbox, event, /*urgent=*/false);
//   ...
//   mailbox.Poll(&writer);
//
// Without delays events come in the order in which they were pushed, urgent
// ones before the rest. With delays (a test double) each is held back for a
// seeded number of polls; then only these orders stand:
//   - of one endpoint, tag and kind of operation: as pushed;
//   - of one endpoint: ACCEPTED or CONNECTED first, EP_DOWN last.
// While events are held back each poll notifies, so that nobody sleeps.
//
// Threading: thread-safe. Push never calls out; Poll notifies with no lock
// held. Held by its domain and by the connections that lead there.
#ifndef WEFT_TRANSPORT_LOOPBACK_MAILBOX_H_
#define WEFT_TRANSPORT_LOOPBACK_MAILBOX_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>

#include "plugins/sdk/weft_fifo.hpp"
#include "plugins/sdk/weft_transport.hpp"
#include "transport/loopback/lock.h"

namespace weft_loopback {

using weft_sdk::TransportEvent;

// What a domain counts; see weft_transport_stats.
struct Counters {
  std::atomic<uint32_t> endpoints{0};  // whose EP_DOWN was not pushed
  std::atomic<uint64_t> sent_messages{0};
  std::atomic<uint64_t> sent_bytes{0};
  std::atomic<uint64_t> received_messages{0};
  std::atomic<uint64_t> received_bytes{0};
  std::atomic<uint64_t> eager_messages{0};
  std::atomic<uint64_t> again{0};
};

class Mailbox {
 public:
  Mailbox(uint64_t notify_token, uint32_t delay_max, uint64_t delay_seed)
      : token_(notify_token), delay_max_(delay_max), seed_(delay_seed) {}
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  uint64_t token() const { return token_; }
  Counters& counters() { return counters_; }

  // True: the caller must notify with token() once it holds no lock.
  [[nodiscard]] bool Push(TransportEvent&& event, bool urgent);

  void Poll(weft_sdk::EventWriter* writer);

  // Until there is something, held back or not; false after `timeout_ns`.
  bool Wait(uint64_t timeout_ns);
  bool empty();

 private:
  struct Held {
    TransportEvent event;
    uint64_t release;  // number of the poll that may have it
  };

  bool EmptyLocked() const {
    return urgent_.empty() && usual_.empty() && held_.empty();
  }
  uint64_t Delay();
  void WriteQueue(weft_sdk::Fifo<TransportEvent>* queue,
                  weft_sdk::EventWriter* writer);
  void WriteHeld(weft_sdk::EventWriter* writer);

  const uint64_t token_;
  const uint32_t delay_max_;
  uint64_t seed_;
  Counters counters_;

  ShortMutex mu_;
  std::condition_variable_any more_;
  weft_sdk::Fifo<TransportEvent> urgent_;
  weft_sdk::Fifo<TransportEvent> usual_;
  std::list<Held> held_;  // instead of both, where there are delays
  uint64_t polls_ = 0;
  uint32_t waiters_ = 0;
  // Empty since the last poll: the next Push notifies. A poll that finds it so
  // takes no lock: one that polls all the time would keep who pushes waiting.
  std::atomic<bool> armed_{true};
};

// Whom to notify when the locks are let go: declare it before them. Serves the
// two domains of one connection.
class Wakeups {
 public:
  Wakeups() = default;
  Wakeups(const Wakeups&) = delete;
  Wakeups& operator=(const Wakeups&) = delete;
  ~Wakeups() {
    for (size_t i = 0; i < count_; ++i) weft_sdk::Host::Notify(tokens_[i]);
  }

  void Push(Mailbox& to, TransportEvent&& event, bool urgent) {
    if (!to.Push(std::move(event), urgent)) return;
    for (size_t i = 0; i < count_; ++i) {
      if (tokens_[i] == to.token()) return;
    }
    tokens_[count_++] = to.token();
  }

 private:
  std::array<uint64_t, 2> tokens_{};
  size_t count_ = 0;
};

}  // namespace weft_loopback

#endif  // WEFT_TRANSPORT_LOOPBACK_MAILBOX_H_
