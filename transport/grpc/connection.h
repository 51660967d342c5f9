// One endpoint: the operations of this side, and what the two streams say.
//
//   SEND  <= eager_max   kEager ------>  meets its RECV, copied    <- kFin
//   SEND  >  eager_max   kLarge ------>  meets its RECV            <- kClear
//                        chunks ----->   copied one by one         <- kFin
//
// Matching is the receiver's: per tag, first come, first posted. Where lengths
// differ it answers kFin with kMismatch and takes no byte. Records and chunks
// have a stream, and a TCP connection, each, so that bulk never stands before
// control; among records urgent ones go first. Messages that move at once take
// turns, a chunk each.
//
//          up --- Close, or kClose came ---> closing --- both kFinal --->
//          ending
//           \--- Abort, a stream ended, silence, nonsense -------------> ending
//          ending --- both streams are over ---> down
//
// In `closing` no message begins; those whose first chunk went out go on, so
// that no RECV stays half written. In `ending` the streams are cancelled.
// Operations complete once nothing refers to their memory: when it is down. So
// do large SENDs while it is up: kFin alone does not say so, for a peer may
// send it early, and gRPC lets go of a chunk a moment after it went out.
//
// Threading: the domain's lock guards it, and is held where no more is said.
// The port's thread makes the calls of StreamUser without it.
#ifndef WEFT_TRANSPORT_GRPC_CONNECTION_H_
#define WEFT_TRANSPORT_GRPC_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "transport/grpc/locked.h"
#include "transport/grpc/options.h"
#include "transport/grpc/stream.h"
#include "transport/grpc/wire.h"

namespace weft_grpc {

class Connection final : public StreamUser {
 public:
  // What a handshake leaves.
  struct Link {
    std::shared_ptr<Stream> control, bulk;
    // Of the peer:
    uint32_t rank = 0;
    uint64_t eager_max = 0;
    uint32_t credits = 0;
    uint32_t max_inflight = 0;
  };

  // Becomes the user of both streams: on the port's thread.
  Connection(weft_endpoint ep, Link link, const Options& options,
             uint64_t timeout_ns, Shared* shared);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

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
  struct Send {
    const char* data;  // of a large one
    uint64_t tag;
    uint64_t length;
    uint64_t cookie;
    uint64_t sent;  // of a large one
    bool eager, urgent, cleared, answered;
    uint64_t answer;  // the length of its RECV
    // Of a large one: chunks that somebody refers to. It stays where it is.
    std::unique_ptr<std::atomic<uint32_t>> held;
  };
  struct Recv {
    void* data;
    uint64_t length;
    uint64_t cookie;
  };
  // A message of the peer that waits for its RECV.
  struct Arrival {
    uint64_t id;
    uint64_t length;
    bool eager, urgent;
    std::string data;  // of an eager one
  };
  // A large message that has its RECV.
  struct Incoming {
    uint64_t tag;
    Recv recv;
    uint64_t got;
    bool dropped;  // its chunks are let go: the end came before the first
  };
  struct Lane {
    std::deque<Arrival> arrivals;
    std::deque<Recv> recvs;
    uint64_t busy = 0;  // id of the large message that moves
  };

  weft_code DownCode() const;
  std::string WhyDown() const;
  weft_code PostSend(const weft_transport_op& op, weft_status* status);
  weft_code PostRecv(const weft_transport_op& op, weft_status* status);
  weft_code Again(const char* what, uint32_t limit, weft_status* status);

  void Put(const Record& record, bool urgent, std::string_view data = {});
  void Pump();
  void PumpControl();
  void PumpBulk();

  void OnRecords(const Message& message);
  void OnChunk(const Message& message);
  // False where it is not what a peer would write.
  bool Handle(const Record& record, std::string_view* rest);
  bool HandleEager(const Record& record, std::string_view* rest);
  bool HandleLarge(const Record& record);
  bool HandleClear(const Record& record);
  bool HandleFin(const Record& record);
  // Completes what the peer has answered, in that order, up to a SEND whose
  // chunks somebody refers to.
  void Settle();
  // Where the next chunk goes: null where it is let go. False: nonsense.
  bool BeginChunk(uint64_t id, uint64_t bytes, char** to);
  void EndChunk(uint64_t id);
  void Match(uint64_t tag);
  void Meet(uint64_t tag, const Arrival& arrival, std::string_view data,
            const Recv& recv);
  void Fin(uint64_t id, bool urgent, uint16_t flags, uint64_t length);

  void Nonsense();
  void BeginClosing();
  void SayFinal();
  void EndIfFinal();
  void BeginEnding(const std::string& why);
  void Down();

  void Complete(uint32_t op_kind, uint64_t tag, uint64_t cookie,
                uint64_t length, bool urgent, weft_code code,
                const std::string& message);
  void CompleteSend(const Send& send, weft_code code,
                    const std::string& message);
  void CompleteAnswered(const Send& send);
  void CompleteRecv(uint64_t tag, const Recv& recv, bool urgent, weft_code code,
                    const std::string& message);

  const weft_endpoint ep_;
  const Link link_;
  const Options options_;
  const uint64_t timeout_ns_;
  Shared* const shared_;
  Mailbox* const mailbox_;

  // Out.
  std::map<uint64_t, Send> sends_;  // by id
  std::deque<uint64_t> active_;     // cleared, with chunks to send
  std::deque<uint64_t> answered_;   // not completed: gRPC has the first one
  std::deque<std::string> urgent_;  // records; bounded as operations are
  std::deque<std::string> usual_;
  uint64_t last_id_ = 0;
  uint64_t chunks_out_ = 0;
  uint32_t credits_[2] = {0, 0};  // in use: [1] by urgent SENDs
  uint32_t large_sends_ = 0;
  bool beat_due_ = false;

  // In.
  std::unordered_map<uint64_t, Lane> lanes_;
  std::map<uint64_t, Incoming> incoming_;
  uint64_t last_arrival_[2] = {0, 0};  // [1]: urgent
  uint64_t chunks_in_ = 0;
  uint32_t arrived_[3] = {0, 0, 0};  // not answered: usual, urgent, large
  uint32_t recvs_ = 0;
  uint64_t silence_ns_ = 0;

  bool closing_ = false;
  bool closed_here_ = false;
  bool peer_closed_ = false;
  bool final_out_ = false;   // kFinal is on its way
  bool final_sent_ = false;  // and gone
  bool final_in_ = false;
  uint64_t final_chunks_ = 0;  // that the peer has sent
  bool ending_ = false;
  uint32_t over_ = 0;  // streams
  bool down_ = false;
  std::string why_;
};

}  // namespace weft_grpc

#endif  // WEFT_TRANSPORT_GRPC_CONNECTION_H_
