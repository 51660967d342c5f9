// What the two ends of a connection do with messages, whatever carries them:
// the operations of the host, the messages of the peer, who meets whom, and the
// end of all of it.
//
//   SEND  <= eager_max   eager ------>  meets its RECV, copied    <- fin
//   SEND  >  eager_max   large ------>  meets its RECV            <- clear
//                        chunks ---->   copied one by one         <- fin
//
// Matching is the receiver's: per tag, first come, first posted. Where lengths
// differ it answers with a mismatch and takes no byte.
//
//   up --- Close, or the peer closed ---> closing --- ... ---> down
//
// In `closing` no message begins; those whose first chunk went out go on, so
// that no RECV stays half written.
//
// outgoing.h has the SENDs of it, incoming.h the RECVs, this one the end of
// all.
//
// A transport derives from it, has Exchange, Outgoing and Incoming as friends,
// and carries what they say:
//
//   class Connection : public Exchange<Connection, Kept, Body> {
//     void SayMessage(uint64_t id, Send* send);  // eager with its bytes, large
//     void SayClear(uint64_t id);
//     void SayFin(uint64_t id, bool urgent, bool mismatch, uint64_t length);
//     void SayClose();
//     // Whether something still refers to the memory of a large SEND; then
//     // Settle() is called once nothing does.
//     bool Refers(uint64_t id, const Send& send) const;
//     void Forget(const Send& send);  // it has completed
//   };
//
// and hands over what the peer says to Take...(), which answer false where no
// peer would say that. `Kept` is what the transport keeps of a SEND. `Body` has
// the bytes of a message that waits for its RECV: it is made of a
// std::string_view, and converts to one.
//
// Threading: thread-compatible; the domain's lock guards it.
#ifndef WEFT_TRANSPORT_COMMON_EXCHANGE_H_
#define WEFT_TRANSPORT_COMMON_EXCHANGE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "transport/common/incoming.h"
#include "transport/common/operations.h"
#include "transport/common/outgoing.h"

namespace weft_transport {

template <typename Carrier, typename Kept, typename Body>
class Exchange : public Outgoing<Carrier, Kept>,
                 public Incoming<Carrier, Body> {
 public:
  Exchange(weft_endpoint ep, uint32_t rank, const Limits& own,
           const Limits& peer, Mailbox* mailbox)
      : Exchange(Operations(ep, rank, mailbox), own, peer) {}

  uint32_t rank() const { return operations_.rank(); }  // the peer's

  // WEFT_OK, or why operations are not taken any more.
  weft_code DownCode() const {
    if (closed_here_ || peer_closed_) return WEFT_CANCELED;
    return lost_ ? WEFT_PEER_LOST : WEFT_OK;
  }
  std::string WhyDown() const {
    const std::string peer = "rank " + std::to_string(rank());
    if (closed_here_) return "the endpoint was closed";
    if (peer_closed_) return peer + " closed the endpoint";
    return peer + " is lost" + (why_.empty() ? "" : ": " + why_);
  }

 protected:
  using Out = Outgoing<Carrier, Kept>;
  using In = Incoming<Carrier, Body>;

  void TakeClose() {
    peer_closed_ = true;
    if (!closing_) BeginClosing();
  }

  bool closing() const { return closing_; }
  bool peer_closed() const { return peer_closed_; }
  bool lost() const { return lost_; }

  // By this side. False where the end has begun.
  bool BeginClose() {
    if (!BeginAbort()) return false;
    BeginClosing();
    return true;
  }
  bool BeginAbort() {
    if (lost_ || closed_here_ || peer_closed_) return false;
    closed_here_ = true;
    return true;
  }
  // Nothing is left that was begun. Pre-condition: closing().
  bool Finished() const { return Out::active().empty() && In::RecvsFinished(); }
  // No operation is taken from now on. The first reason counts.
  void Lose(const std::string& why) {
    if (!std::exchange(lost_, true)) why_ = why;
  }
  // All operations complete, then EP_DOWN. Pre-condition: lost().
  void CompleteAll() {
    const weft_code code = DownCode();
    const std::string why = WhyDown();
    Out::CompleteSends(code, why);
    In::CompleteRecvs(code, why);
    operations_.Down(closed_here_ ? WEFT_OK : code, why);
    --operations_.stats().endpoints;
  }

 private:
  Exchange(const Operations& operations, const Limits& own, const Limits& peer)
      : Out(operations, own),
        In(operations, own, peer),
        operations_(operations) {
    ++operations_.stats().endpoints;
  }

  void BeginClosing() {
    closing_ = true;
    In::CloseRecvs();
    Out::CloseSends();
    static_cast<Carrier&>(*this).SayClose();
  }

  const Operations operations_;
  bool closing_ = false;
  bool closed_here_ = false;
  bool peer_closed_ = false;
  bool lost_ = false;
  std::string why_;
};

}  // namespace weft_transport

#endif  // WEFT_TRANSPORT_COMMON_EXCHANGE_H_
