// One endpoint: an exchange (transport/common/exchange.h) whose records and
// chunks lie in two segments.
//
//   kEager, kLarge ------>
//                         <- kClear, kFin; or the kFin comes with a kEager of
//   kData ... ----------->   the other direction
//
//          up --- Close, or kClose came ---> closing --- both kFinal ---> down
//           \---- Abort, hung up, nonsense ---------------------------->  down
//
// kFinal is said once nothing is left that was begun. Whoever hears nothing for
// the peer time-out is down without it.
//
// Chunks are copied without the lock: one thread at a time writes those of a
// connection, and one reads; it is down once neither does.
//
// Threading: thread-compatible; the domain's lock guards it. Peers write to the
// segments meanwhile: what is taken out of one is a copy, and checked.
#ifndef WEFT_TRANSPORT_SHM_CONNECTION_H_
#define WEFT_TRANSPORT_SHM_CONNECTION_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/sdk/weft_fifo.hpp"
#include "transport/common/exchange.h"
#include "transport/common/mailbox.h"
#include "transport/shm/bell.h"
#include "transport/shm/biased_mutex.h"
#include "transport/shm/options.h"
#include "transport/shm/ring.h"

namespace weft_shm {

using weft_transport::Mailbox;
using weft_transport::TransportEvent;

using Lock = std::unique_lock<BiasedMutex>;

// Of a SEND: its slot.
struct Slot {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t number = kNone;
};

// The bytes of a small message: a copy of those of its record, or in its slot.
class SmallBody {
 public:
  SmallBody() = default;
  explicit SmallBody(std::string_view bytes)
      : size_(bytes.size()),
        in_slot_(size_ > kInline ? bytes.data() : nullptr) {
    if (in_slot_ == nullptr) std::memcpy(copy_, bytes.data(), size_);
  }
  operator std::string_view() const {
    return {in_slot_ != nullptr ? in_slot_ : copy_, size_};
  }

 private:
  size_t size_ = 0;
  const char* in_slot_ = nullptr;
  char copy_[kInline];
};

class Connection
    : public weft_transport::Exchange<Connection, Slot, SmallBody> {
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

  weft_code Post(const weft_transport_op& op, weft_status* status);
  void Close(Lock* lock);
  // The peer sees a loss.
  void Abort();
  // The socket has ended, or the peer's process: whatever it wrote is here.
  void HungUp(Lock* lock);
  // Takes what came, writes what has room; lets go of the lock while it copies.
  // True where there was something. `soon`: a Post or Progress follows within
  // some milliseconds, so a kFin may wait for what the host sends perhaps: it
  // goes with that.
  bool Progress(Lock* lock, bool soon = false);

  bool down() const { return down_; }
  // Nothing is to do before a record comes.
  bool quiet() const {
    return !closing() && active().empty() && pending_.empty() &&
           fins_.empty() && due_fin_ == 0;
  }
  // When to call Expire; UINT64_MAX: never.
  uint64_t deadline() const { return deadline_; }
  void Expire() { Down(); }
  int socket() const { return link_.socket.get(); }
  int process() const { return link_.process.get(); }
  const std::string& token() const { return link_.token; }
  // What came lies here, until LetGo, which follows the end.
  const Consumer& in() const { return *link_.in; }
  void LetGo() { link_.in.reset(); }

 private:
  friend Exchange;
  friend Incoming;
  friend Outgoing;
  void SayMessage(uint64_t id, Send* send);
  void SayClear(uint64_t id);
  void SayFin(uint64_t id, bool urgent, bool mismatch, uint64_t length);
  void SayClose();
  bool Refers(uint64_t id, const Send&) const { return id == copied_out_; }
  void Forget(const Send& send);

  // A record of that kind and id; `fill` writes the rest, and nothing else.
  template <typename Fill>
  void Put(RecordKind kind, uint64_t id, const Fill& fill);
  void Put(RecordKind kind, uint64_t id);
  // Where it goes; null where the peer rings once it has made room.
  Record* Next();
  void PutFins();
  void Copy(char* to, const char* from, uint64_t bytes, Lock* lock);
  bool FlushSome(Lock* lock);
  void WriteChunk(char* chunk, Lock* lock);
  void Flush(Lock* lock);
  void Ring();

  // False where the record is not one that a peer would write.
  bool Handle(const Record& record, Lock* lock);
  bool HandleEager(const Record& record);
  bool HandleData(const Record& record, Lock* lock);
  // False where it is nonsense.
  bool TakeDueFin();

  void SayFinal();
  void Nonsense() {
    Lose("it wrote what makes no sense, and is cut off");
    Down();
  }
  void Down();

  Link link_;
  const Options options_;
  const uint64_t timeout_ns_;
  Mailbox* const mailbox_;

  struct Fin {
    uint64_t id;
    uint64_t length;  // of the RECV
    bool mismatch;
  };
  weft_sdk::Fifo<Fin> fins_;        // put off
  bool put_off_ = false;            // those of now
  uint32_t due_fin_ = 0;            // that came with a message; 0: none
  weft_sdk::Fifo<Record> pending_;  // no room yet; bounded as operations are
  std::vector<uint32_t> slots_[2];  // free ones; [1]: of urgent SENDs
  uint64_t written_ = 0;            // into a slot, by the last SEND
  bool wrote_ = false;              // the peer is to be rung

  uint64_t copied_out_ = 0;  // the SEND of which a chunk is copied; 0: none
  bool copies_in_ = false;   // a thread reads
  bool final_out_ = false;
  bool final_in_ = false;
  bool down_due_ = false;  // once nothing is copied
  bool down_ = false;
  uint64_t deadline_ = UINT64_MAX;
};

}  // namespace weft_shm

#endif  // WEFT_TRANSPORT_SHM_CONNECTION_H_
