// One endpoint: the operations of this side, and what the two segments say.
//
//   SEND  <= eager_max   kEager ------>  meets its RECV, copied    <- kFin
//   SEND  >  eager_max   kLarge ------>  meets its RECV            <- kClear
//                        kData ... --->  copied chunk by chunk     <- kFin
//
// Matching is the receiver's: per tag, first come, first posted. Where lengths
// differ it answers kFin with kMismatch and takes no byte.
//
//          up --- Close, or kClose came ---> closing --- both kFinal ---> down
//           \---- Abort, hung up, nonsense ---------------------------->  down
//
// In `closing` no message begins; those whose first chunk was written go on, so
// that no RECV stays half written. kFinal is said once none is left. Whoever
// hears nothing for the peer time-out is down without it.
//
// Threading: thread-compatible; the domain's lock guards it. Peers write to the
// segments meanwhile: what is taken out of one is a copy, and checked.
#ifndef WEFT_TRANSPORT_SHM_CONNECTION_H_
#define WEFT_TRANSPORT_SHM_CONNECTION_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/sdk/weft_fifo.hpp"
#include "plugins/sdk/weft_near_map.hpp"
#include "transport/common/mailbox.h"
#include "transport/shm/bell.h"
#include "transport/shm/options.h"
#include "transport/shm/ring.h"

namespace weft_shm {

using weft_transport::Mailbox;
using weft_transport::TransportEvent;

class Connection {
 public:
  // What a handshake leaves.
  struct Link {
    Fd socket;
    Fd process;  // the peer's, to be watched; may be none
    std::unique_ptr<Producer> out;
    std::unique_ptr<Consumer> in;
    std::unique_ptr<Bell> bell;  // the peer's
    uint32_t rank = 0;           // the peer's
    uint32_t max_inflight = 0;   // the peer's
    std::string token;           // the peer's
  };

  Connection(weft_endpoint ep, Link link, const Options& options,
             uint64_t timeout_ns, Mailbox* mailbox);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  weft_code Post(const weft_transport_op& op, weft_status* status);
  void Close();
  // The peer sees a loss.
  void Abort();
  // The socket has ended, or the peer's process: whatever it wrote is here.
  void HungUp();
  // Takes what came, writes what has room. True where there was something.
  // `soon`: a Post or Progress follows within some milliseconds, so kFin may
  // come after the answer that the host sends perhaps: the peer is waiting for
  // that one.
  bool Progress(bool soon = false);

  bool down() const { return down_; }
  // WEFT_OK, or why operations are not taken any more.
  weft_code DownCode() const;
  std::string WhyDown() const;
  // When to call Expire; UINT64_MAX: never.
  uint64_t deadline() const { return deadline_; }
  void Expire() { Down(); }
  int socket() const { return link_.socket.get(); }
  int process() const { return link_.process.get(); }
  uint32_t rank() const { return link_.rank; }
  const std::string& token() const { return link_.token; }

 private:
  struct Send {
    const char* data;
    uint64_t tag;
    uint64_t length;
    uint64_t cookie;
    uint64_t sent;  // of a large one
    uint32_t slot;  // kNoSlot: none
    bool eager, urgent, cleared;
  };
  struct Recv {
    void* data = nullptr;
    uint64_t length = 0;
    uint64_t cookie = 0;
  };
  // A message of the peer that waits for its RECV.
  struct Arrival {
    uint64_t id = 0;
    uint64_t length = 0;
    bool eager = false, urgent = false;
    uint32_t slot = 0;
    unsigned char data[kInline] = {};
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

  using Sends = std::map<uint64_t, Send>;  // by id

  void AddSend(uint64_t id, const Send& send);
  weft_code PostSend(const weft_transport_op& op, weft_status* status);
  weft_code PostRecv(const weft_transport_op& op, weft_status* status);
  weft_code Again(const char* what, uint32_t limit, weft_status* status);

  void Put(const Record& record);
  bool PutNow(const Record& record);
  bool FlushSome();
  void Flush();
  void Ring();

  // False where the record is not one that a peer would write.
  bool Handle(const Record& record);
  bool HandleEager(const Record& record);
  bool HandleLarge(const Record& record);
  bool HandleData(const Record& record);
  bool HandleClear(const Record& record);
  bool HandleFin(const Record& record);
  void Match(uint64_t tag, Lane* lane);
  void Fin(uint64_t id, uint16_t flags, uint64_t length);
  void PutFins();

  void BeginClosing();
  void SayFinal();
  void Down();

  void Complete(uint32_t op_kind, uint64_t tag, uint64_t cookie,
                uint64_t length, bool urgent, weft_code code,
                std::string_view message);
  void CompleteSend(const Send& send, weft_code code, std::string_view message);
  void CompleteRecv(uint64_t tag, const Recv& recv, bool urgent, weft_code code,
                    std::string_view message);

  const weft_endpoint ep_;
  Link link_;
  const Options options_;
  const uint64_t timeout_ns_;
  Mailbox* const mailbox_;

  // Out.
  Sends sends_;
  std::vector<Sends::node_type> unused_;  // kept, so as to allocate none
  std::deque<uint64_t> active_;           // cleared, with chunks to write
  weft_sdk::Fifo<Record> fins_;           // put off
  bool put_off_ = false;                  // those of now
  weft_sdk::Fifo<Record> pending_;  // no room yet; bounded as operations are
  uint64_t last_id_ = 0;
  uint32_t credits_[2] = {0, 0};  // in use: [1] by urgent SENDs
  std::vector<uint32_t> slots_[2];
  uint32_t large_sends_ = 0;
  bool wrote_ = false;  // the peer is to be rung

  // In.
  weft_sdk::NearMap<Lane> lanes_;  // by tag
  std::map<uint64_t, Incoming> incoming_;
  uint64_t last_arrival_ = 0;
  uint32_t arrived_[3] = {0, 0, 0};  // not answered: usual, urgent, large
  uint32_t recvs_ = 0;

  bool closing_ = false;
  bool closed_here_ = false;
  bool peer_closed_ = false;
  bool nonsense_ = false;
  bool final_out_ = false;
  bool final_in_ = false;
  bool down_ = false;
  uint64_t deadline_ = UINT64_MAX;
};

}  // namespace weft_shm

#endif  // WEFT_TRANSPORT_SHM_CONNECTION_H_
