// Two endpoints and the messages between them.
//
// Each direction has a lane per tag: sends and receives that wait for each
// other, in the order in which they were posted. Whoever posts the second half
// of a pair moves the bytes:
//
//   SEND of at most eager_max   copied when posted, unless its RECV waits;
//                               holds a credit until it completes
//   larger SEND                 from memory to memory, with no lock held; the
//                               lane is busy meanwhile, so order stands
//
//          up --- End(side, how) ---> ended --- last copy done ---> EP_DOWN x 2
//
// Threading: thread-safe. Events go to the mailboxes under the lock, so their
// order is that of the lanes; notifications come after it.
#ifndef WEFT_TRANSPORT_LOOPBACK_CONNECTION_H_
#define WEFT_TRANSPORT_LOOPBACK_CONNECTION_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "plugins/sdk/weft_fifo.hpp"
#include "plugins/sdk/weft_near_map.hpp"
#include "transport/loopback/lock.h"
#include "transport/loopback/mailbox.h"
#include "transport/loopback/options.h"

namespace weft_loopback {

// How an endpoint comes to its end.
enum class Ending {
  kClosed,   // in order, by one side
  kAborted,  // by one side; the other one sees a loss
  kLost,     // both sides see a loss
};

class Connection {
 public:
  // Of each end.
  struct Side {
    std::shared_ptr<Mailbox> mailbox;
    Options options;
    weft_endpoint ep = 0;
    uint32_t rank = 0;    // of the domain at this end
    uint64_t domain = 0;  // its id
  };

  // Side 0 is the one that connected.
  Connection(Side connector, Side listener);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const Side& side(int i) const { return ends_[i].side; }

  weft_code Post(int side, const weft_transport_op& op, weft_status* status);

  // By `side`. Only the first call does anything.
  void End(int side, Ending how);

  // WEFT_OK, or why operations of `side` are not taken any more.
  weft_code DownCode(int side);
  // Both mailboxes have the last event.
  bool finished();

 private:
  struct Send {
    const void* data = nullptr;
    std::unique_ptr<char[]> copy;  // what `data` points to, where copied
    uint64_t length = 0;
    uint64_t cookie = 0;
    bool eager = false;
    bool urgent = false;
  };
  struct Recv {
    void* data = nullptr;
    uint64_t length = 0;
    uint64_t cookie = 0;
  };
  struct Lane {
    weft_sdk::Fifo<Send> sends;
    weft_sdk::Fifo<Recv> recvs;
    bool busy = false;  // a copy is under way
  };
  using Lanes = weft_sdk::NearMap<Lane>;  // by tag
  struct Half {
    Side side;
    Lanes lanes;                   // of the messages that this end sends
    uint32_t credits[2] = {0, 0};  // in use: [1] by urgent SENDs
    uint32_t large_sends = 0;
    uint32_t recvs = 0;
    weft_code down_code = WEFT_OK;  // of its EP_DOWN
    weft_code op_code = WEFT_OK;    // of its operations from then on
  };
  using Lock = std::unique_lock<ShortMutex>;

  weft_code PostSend(int side, const weft_transport_op& op, weft_status* status,
                     Lock* lock, Wakeups* wake);
  weft_code PostRecv(int side, const weft_transport_op& op, weft_status* status,
                     Lock* lock, Wakeups* wake);
  weft_code Again(int side, const char* what, uint32_t limit,
                  weft_status* status);
  // Moves what fits in `lane`, that of `tag` that `sender` sends on.
  void Progress(int sender, uint64_t tag, Lane* lane, Lock* lock,
                Wakeups* wake);
  void Move(const Send& send, const Recv& recv, Lane* lane, Lock* lock);
  // What every completion says, but for the length.
  weft_sdk::TransportEvent Completed(int side, uint64_t tag, uint32_t op_kind,
                                     uint64_t cookie, weft_code code,
                                     const std::string& message) const;
  void CompleteSend(int side, uint64_t tag, const Send& send, weft_code code,
                    const std::string& message, Wakeups* wake);
  void CompleteRecv(int side, uint64_t tag, const Recv& recv, weft_code code,
                    const std::string& message, Wakeups* wake, bool urgent);
  void DropLane(int sender, uint64_t tag, Lane* lane, Wakeups* wake);
  std::string WhyDown(int side) const;
  void PushDownIfIdle(Wakeups* wake);

  ShortMutex mu_;
  Half ends_[2];
  uint32_t copies_ = 0;  // under way, with no lock held
  bool ended_ = false;
  bool told_ = false;  // EP_DOWN was pushed
};

}  // namespace weft_loopback

#endif  // WEFT_TRANSPORT_LOOPBACK_CONNECTION_H_
