// What a domain's one lock guards beside its own members, and the lock.
//
//   Locked lock(&shared);
//   shared.mailbox.Push(event, /*urgent=*/false);
//   ... the host is notified once the lock is let go
//
// Threading: as said.
#ifndef WEFT_TRANSPORT_GRPC_LOCKED_H_
#define WEFT_TRANSPORT_GRPC_LOCKED_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "plugins/sdk/weft_transport.hpp"
#include "transport/common/mailbox.h"

namespace weft_grpc {

using weft_transport::Mailbox;
using weft_transport::TransportEvent;

struct Shared {
  explicit Shared(uint64_t notify_token) : token(notify_token) {}

  const uint64_t token;
  std::mutex mu;
  std::condition_variable more;
  uint32_t waiters = 0;
  Mailbox mailbox;
};

class Locked {
 public:
  explicit Locked(Shared* shared) : shared_(shared), lock_(shared->mu) {}
  ~Locked() {
    bool notify = false;
    const bool pushed = shared_->mailbox.TakePushed(&notify);
    if (pushed && shared_->waiters != 0) shared_->more.notify_all();
    lock_.unlock();
    if (notify) weft_sdk::Host::Notify(shared_->token);
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

  std::unique_lock<std::mutex>& lock() { return lock_; }

 private:
  Shared* const shared_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace weft_grpc

#endif  // WEFT_TRANSPORT_GRPC_LOCKED_H_
