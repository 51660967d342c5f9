// One endpoint: an exchange (transport/common/exchange.h) whose records and
// chunks have a stream each.
//
//   kEager, kLarge ------>   <- kClear, kFin           control
//   chunks --------------->                            bulk
//
// Each stream has a TCP connection of its own, so that bulk never stands before
// control; among records urgent ones go first. Messages that move at once take
// turns, a chunk each.
//
//          up --- Close, or kClose came ---> closing --- both kFinal --->
//          ending
//           \--- Abort, a stream ended, silence, nonsense -------------> ending
//          ending --- both streams are over ---> down
//
// In `ending` the streams are cancelled. Operations complete once nothing
// refers to their memory: when it is down. So do large SENDs while it is up:
// kFin alone does not say so, for a peer may send it early, and gRPC lets go of
// a chunk a moment after it went out.
//
// Threading: the domain's lock guards it, and is held where no more is said.
// The port's thread makes the calls of StreamUser without it.
#ifndef WEFT_TRANSPORT_GRPC_CONNECTION_H_
#define WEFT_TRANSPORT_GRPC_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "transport/common/exchange.h"
#include "transport/grpc/locked.h"
#include "transport/grpc/options.h"
#include "transport/grpc/stream.h"
#include "transport/grpc/wire.h"

namespace weft_grpc {

// Of a large SEND: how many chunks somebody refers to. It stays where it is.
using Held = std::unique_ptr<std::atomic<uint32_t>>;

class Connection final
    : public StreamUser,
      public weft_transport::Exchange<Connection, Held, std::string> {
 public:
  // What a handshake leaves.
  struct Link {
    std::shared_ptr<Stream> control, bulk;
    uint32_t rank = 0;            // the peer's
    weft_transport::Limits peer;  // its own
  };

  // Becomes the user of both streams: on the port's thread.
  Connection(weft_endpoint ep, Link link, const Options& options,
             uint64_t timeout_ns, Shared* shared);

  weft_code Post(const weft_transport_op& op, weft_status* status);
  void Close();
  // The peer sees a loss.
  void Abort();
  // So much time has gone by since the last call.
  void Tick(uint64_t elapsed_ns);
  bool down() const { return down_; }

  // Without the lock.
  void OnWritable(Stream* stream) override;
  void OnMessage(Stream* stream, const Message& message) override;
  void OnReleased(Stream* stream) override;
  void OnOver(Stream* stream, const std::string& why) override;

 private:
  friend Exchange;
  friend Incoming;
  friend Outgoing;
  void SayMessage(uint64_t id, Send* send);
  void SayClear(uint64_t id);
  void SayFin(uint64_t id, bool urgent, bool mismatch, uint64_t length);
  void SayClose();
  bool Refers(uint64_t, const Send& send) const {
    return send.kept != nullptr && send.kept->load() != 0;
  }
  void Forget(const Send&) {}

  void Put(const Record& record, bool urgent, std::string_view data = {});
  void Pump();
  void PumpControl();
  void PumpBulk();

  void OnRecords(const Message& message);
  void OnChunk(const Message& message);
  // False where it is not what a peer would write.
  bool Handle(const Record& record, std::string_view* rest);
  bool HandleEager(const Record& record, std::string_view* rest);
  // Looks again later at what something refers to.
  void SettleAll();

  void Nonsense();
  void SayFinal();
  void EndIfFinal();
  void BeginEnding(const std::string& why);

  const Link link_;
  const uint64_t timeout_ns_;
  Shared* const shared_;

  std::deque<std::string> urgent_;  // records; bounded as operations are
  std::deque<std::string> usual_;
  uint64_t chunks_out_ = 0;
  bool beat_due_ = false;
  uint64_t chunks_in_ = 0;
  uint64_t silence_ns_ = 0;

  bool final_out_ = false;   // kFinal is on its way
  bool final_sent_ = false;  // and gone
  bool final_in_ = false;
  uint64_t final_chunks_ = 0;  // that the peer has sent
  uint32_t over_ = 0;          // streams
  bool down_ = false;
};

}  // namespace weft_grpc

#endif  // WEFT_TRANSPORT_GRPC_CONNECTION_H_
