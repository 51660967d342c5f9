#include "transport/loopback/connection.h"

#include <cstring>
#include <utility>

namespace weft_loopback {
namespace {

// Lanes that have nothing are forgotten where a connection has more than this.
constexpr size_t kKeptLanes = 1024;

}  // namespace

Connection::Connection(Side connector, Side listener) {
  ends_[0].side = std::move(connector);
  ends_[1].side = std::move(listener);
  for (Half& end : ends_) ++end.side.mailbox->counters().endpoints;
}

// ---- Posting ---------------------------------------------------------------

weft_code Connection::Post(int side, const weft_transport_op& op,
                           weft_status* status) {
  Wakeups wake;
  Lock lock(mu_);
  if (ends_[side].op_code != WEFT_OK) {
    return weft_sdk::Fail(status, ends_[side].op_code, WhyDown(side));
  }
  return op.kind == WEFT_TRANSPORT_SEND
             ? PostSend(side, op, status, &lock, &wake)
             : PostRecv(side, op, status, &lock, &wake);
}

weft_code Connection::Again(int side, const char* what, uint32_t limit,
                            weft_status* status) {
  ++ends_[side].side.mailbox->counters().again;
  return weft_sdk::Fail(status, WEFT_AGAIN,
                        std::to_string(limit) + " " + what +
                            " are under way, the most there are");
}

weft_code Connection::PostSend(int side, const weft_transport_op& op,
                               weft_status* status, Lock* lock, Wakeups* wake) {
  Half& end = ends_[side];
  const bool urgent = (op.flags & WEFT_TRANSPORT_URGENT) != 0;
  const bool eager = op.length <= end.side.options.eager_max;
  uint32_t& used = eager ? end.credits[urgent] : end.large_sends;
  const uint32_t limit =
      eager ? end.side.options.eager_credits : end.side.options.max_inflight;
  if (used == limit) return Again(side, "SENDs", limit, status);
  Lane& lane = end.lanes.at(op.tag);
  Send send{op.host, nullptr, op.length, op.cookie, eager, urgent};
  const bool now = !lane.busy && lane.sends.empty() && !lane.recvs.empty();
  if (eager && !now && op.length != 0) {
    send.copy.reset(new char[op.length]);
    std::memcpy(send.copy.get(), op.host, op.length);
    send.data = send.copy.get();
  }
  lane.sends.push_back(std::move(send));
  ++used;
  Progress(side, op.tag, &lane, lock, wake);
  return weft_sdk::Ok(status);
}

weft_code Connection::PostRecv(int side, const weft_transport_op& op,
                               weft_status* status, Lock* lock, Wakeups* wake) {
  Half& end = ends_[side];
  const uint32_t limit = end.side.options.max_inflight;
  if (end.recvs == limit) return Again(side, "RECVs", limit, status);
  Lane& lane = ends_[1 - side].lanes.at(op.tag);
  lane.recvs.push_back({op.host, op.length, op.cookie});
  ++end.recvs;
  Progress(1 - side, op.tag, &lane, lock, wake);
  return weft_sdk::Ok(status);
}

// ---- Moving ----------------------------------------------------------------

void Connection::Progress(int sender, uint64_t tag, Lane* lane, Lock* lock,
                          Wakeups* wake) {
  while (!ended_ && !lane->busy && !lane->sends.empty() &&
         !lane->recvs.empty()) {
    const Send send = std::move(lane->sends.front());
    const Recv recv = lane->recvs.front();
    lane->sends.pop_front();
    lane->recvs.pop_front();
    weft_code code = WEFT_OK;
    std::string message;
    if (send.length == recv.length) {
      Move(send, recv, lane, lock);
    } else {
      code = WEFT_INVALID;
      message = "a SEND of " + std::to_string(send.length) +
                " bytes met a RECV of " + std::to_string(recv.length);
    }
    CompleteSend(sender, tag, send, code, message, wake);
    CompleteRecv(1 - sender, tag, recv, code, message, wake, send.urgent);
  }
  if (ended_ && !lane->busy) DropLane(sender, tag, lane, wake);
  PushDownIfIdle(wake);
  Lanes& lanes = ends_[sender].lanes;
  if (lanes.size() > kKeptLanes && !lane->busy && lane->sends.empty() &&
      lane->recvs.empty()) {
    lanes.erase(tag);
  }
}

void Connection::Move(const Send& send, const Recv& recv, Lane* lane,
                      Lock* lock) {
  if (send.length == 0) return;
  if (send.eager) {
    std::memcpy(recv.data, send.data, send.length);
    return;
  }
  lane->busy = true;
  ++copies_;
  lock->unlock();
  std::memcpy(recv.data, send.data, send.length);
  lock->lock();
  --copies_;
  lane->busy = false;
}

TransportEvent Connection::Completed(int side, uint64_t tag, uint32_t op_kind,
                                     uint64_t cookie, weft_code code,
                                     const std::string& message) const {
  TransportEvent event;
  event.kind = WEFT_EVENT_COMPLETED;
  event.ep = ends_[side].side.ep;
  event.cookie = cookie;
  event.tag = tag;
  event.op_kind = op_kind;
  event.rank = ends_[1 - side].side.rank;
  event.code = code;
  event.message = message;
  return event;
}

void Connection::CompleteSend(int side, uint64_t tag, const Send& send,
                              weft_code code, const std::string& message,
                              Wakeups* wake) {
  Half& end = ends_[side];
  --(send.eager ? end.credits[send.urgent] : end.large_sends);
  TransportEvent event =
      Completed(side, tag, WEFT_TRANSPORT_SEND, send.cookie, code, message);
  if (code == WEFT_OK) {
    Counters& counters = end.side.mailbox->counters();
    event.length = send.length;
    ++counters.sent_messages;
    counters.sent_bytes += send.length;
    if (send.eager) ++counters.eager_messages;
  }
  wake->Push(*end.side.mailbox, std::move(event), send.urgent);
}

void Connection::CompleteRecv(int side, uint64_t tag, const Recv& recv,
                              weft_code code, const std::string& message,
                              Wakeups* wake, bool urgent) {
  Half& end = ends_[side];
  --end.recvs;
  TransportEvent event =
      Completed(side, tag, WEFT_TRANSPORT_RECV, recv.cookie, code, message);
  if (code == WEFT_OK) {
    Counters& counters = end.side.mailbox->counters();
    event.length = recv.length;
    ++counters.received_messages;
    counters.received_bytes += recv.length;
  }
  wake->Push(*end.side.mailbox, std::move(event), urgent);
}

// ---- The end ---------------------------------------------------------------

weft_code Connection::DownCode(int side) {
  Lock lock(mu_);
  return ends_[side].op_code;
}

bool Connection::finished() {
  Lock lock(mu_);
  return told_;
}

std::string Connection::WhyDown(int side) const {
  const std::string peer = "rank " + std::to_string(ends_[1 - side].side.rank);
  if (ends_[side].down_code == WEFT_OK) return "the endpoint was closed";
  if (ends_[side].down_code == WEFT_CANCELED)
    return peer + " closed the endpoint";
  return peer + " is lost";
}

void Connection::DropLane(int sender, uint64_t tag, Lane* lane, Wakeups* wake) {
  for (; !lane->sends.empty(); lane->sends.pop_front()) {
    const Send send = std::move(lane->sends.front());
    CompleteSend(sender, tag, send, ends_[sender].op_code, WhyDown(sender),
                 wake);
  }
  const int receiver = 1 - sender;
  for (; !lane->recvs.empty(); lane->recvs.pop_front()) {
    CompleteRecv(receiver, tag, lane->recvs.front(), ends_[receiver].op_code,
                 WhyDown(receiver), wake, /*urgent=*/false);
  }
}

void Connection::End(int side, Ending how) {
  Wakeups wake;
  Lock lock(mu_);
  if (ended_) return;
  ended_ = true;
  Half& own = ends_[side];
  Half& peer = ends_[1 - side];
  own.down_code = how == Ending::kLost ? WEFT_PEER_LOST : WEFT_OK;
  own.op_code = how == Ending::kLost ? WEFT_PEER_LOST : WEFT_CANCELED;
  peer.down_code = how == Ending::kClosed ? WEFT_CANCELED : WEFT_PEER_LOST;
  peer.op_code = peer.down_code;
  for (int sender : {0, 1}) {
    for (auto& [tag, lane] : ends_[sender].lanes) {
      // Of a busy one the copy completes first; whoever copies drops the rest.
      if (!lane.busy) DropLane(sender, tag, &lane, &wake);
    }
  }
  PushDownIfIdle(&wake);
}

// Copies that are under way complete first: EP_DOWN is the last event.
void Connection::PushDownIfIdle(Wakeups* wake) {
  if (!ended_ || told_ || copies_ != 0) return;
  told_ = true;
  for (int i = 0; i < 2; ++i) {
    TransportEvent event;
    event.kind = WEFT_EVENT_EP_DOWN;
    event.ep = ends_[i].side.ep;
    event.rank = ends_[1 - i].side.rank;
    event.code = ends_[i].down_code;
    if (event.code != WEFT_OK) event.message = WhyDown(i);
    Mailbox& mailbox = *ends_[i].side.mailbox;
    wake->Push(mailbox, std::move(event), /*urgent=*/false);
    --mailbox.counters().endpoints;
  }
}

}  // namespace weft_loopback
