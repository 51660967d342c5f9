// How two domains become the ends of a connection: handshake.h has the frames.
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "transport/common/greeting.h"
#include "transport/shm/domain.h"

namespace weft_shm {
namespace {

using weft_sdk::Hello;
using weft_sdk::Refusal;
using weft_transport::About;

// The segment of one direction, and what its maker writes into it.
struct Segment {
  explicit Segment(const Geometry& geometry)
      : fd(NewSealed("segment", geometry.bytes())),
        producer(std::make_unique<Producer>(geometry,
                                            MapSealed(fd, geometry.bytes()))) {}

  Fd fd;
  std::unique_ptr<Producer> producer;
};

// What a peer gave: `theirs` says who it is, `fds` are its bell and segment.
Connection::Link ReadLink(const Frame& theirs, const std::vector<Fd>& fds) {
  Connection::Link link;
  link.bell = std::make_unique<Bell>(fds[0], Bell::Whose::kPeers);
  link.in = std::make_unique<Consumer>(
      theirs.geometry, MapSealed(fds[1], theirs.geometry.bytes()));
  link.rank = theirs.hello.rank;
  link.max_inflight = theirs.max_inflight;
  link.token = theirs.token;
  return link;
}

}  // namespace

Frame ShmDomain::NewFrame(FrameKind kind) const {
  Frame frame;
  frame.kind = kind;
  frame.hello = hello_;
  frame.geometry = options_.geometry();
  frame.max_inflight = options_.max_inflight;
  frame.token = secret_;
  return frame;
}

// ---- All visits ------------------------------------------------------------

// That of `id`; without one, those that wait for no packet: who has to knock,
// and who came too late.
void ShmDomain::AdvanceVisits(std::optional<uint64_t> id) {
  const uint64_t now = NowNs();
  for (auto it = visits_.begin(); it != visits_.end();) {
    Visit& visit = *it;
    const bool knock = visit.connector && !visit.knocked;
    try {
      if (id.has_value() ? *id == visit.id : knock) Advance(&visit);
    } catch (const weft_sdk::Error& error) {
      Drop(&visit, error.code(), error.what());
    } catch (const std::exception& error) {
      Drop(&visit, WEFT_INTERNAL, error.what());
    }
    if (visit.socket && visit.deadline <= now) {
      Drop(&visit, WEFT_PEER_LOST,
           "rank " + std::to_string(visit.rank) + " does not answer");
    }
    it = visit.socket ? std::next(it) : visits_.erase(it);
  }
}

void ShmDomain::Advance(Visit* visit) {
  if (visit->connector && !visit->knocked) return Knocked(visit);
  Frame frame;
  switch (ReceiveFrame(visit->socket, &frame)) {
    case Received::kNothingYet:
      return;
    case Received::kGone:
      return Drop(visit, WEFT_PEER_LOST,
                  "rank " + std::to_string(visit->rank) +
                      " closed the door before it answered");
    case Received::kGarbage:
      return Drop(visit, WEFT_PEER_LOST,
                  "rank " + std::to_string(visit->rank) +
                      " answered what makes no sense");
    case Received::kFrame:
      break;
  }
  return visit->connector ? FinishConnector(visit, std::move(frame))
                          : GreetConnector(visit, std::move(frame));
}

// The end of a visit that became nothing.
void ShmDomain::Drop(Visit* visit, weft_code code, const std::string& why) {
  if (visit->connector) {
    mailbox_.Push(weft_transport::NotConnected(visit->ep, visit->rank,
                                               visit->cookie, code, why),
                  /*urgent=*/true);
  }
  visit->socket = Fd();
}

// ---- Deciding --------------------------------------------------------------

Refusal ShmDomain::Meet(const Visit& visit, const Frame& theirs) const {
  return weft_transport::Meet(hello_, theirs.hello, visit.connector,
                              visit.connector ? visit.rank : theirs.expected,
                              seen_);
}

void ShmDomain::PushRefusal(const Visit& visit, const Hello& theirs,
                            const Refusal& refusal) {
  TransportEvent event =
      About(visit.connector ? WEFT_EVENT_CONNECTED : WEFT_EVENT_REFUSED, theirs,
            visit.connector ? visit.ep : 0);
  event.cookie = visit.cookie;
  weft_transport::SetRefused(refusal, &event);
  mailbox_.Push(std::move(event), /*urgent=*/true);
}

void ShmDomain::Refuse(Visit* visit, const Hello& theirs,
                       const Refusal& refusal, bool tell) {
  if (tell) {
    Frame frame = NewFrame(FrameKind::kRefuse);
    frame.refusal = refusal;
    SendFrame(visit->socket, frame, {});
  }
  PushRefusal(*visit, theirs, refusal);
  visit->socket = Fd();
}

// ---- The connector ---------------------------------------------------------

void ShmDomain::Knocked(Visit* visit) {
  const int error = Knock(visit->socket, visit->name);
  if (error == EAGAIN || error == EINTR) return;  // soon again
  const std::string whom = "the address of rank " + std::to_string(visit->rank);
  if (error != 0) {
    errno = error;
    return Drop(visit, WEFT_PEER_LOST, WithErrno("nobody listens at " + whom));
  }
  if (!SameUser(visit->socket)) {
    return Drop(visit, WEFT_PEER_LOST, "another user listens at " + whom);
  }
  visit->knocked = true;
  Frame hello = NewFrame(FrameKind::kHello);
  hello.address = visit->name.token;
  hello.expected = visit->rank;
  if (!SendFrame(visit->socket, hello, {})) {
    Drop(visit, WEFT_PEER_LOST, WithErrno("nobody listens at " + whom));
  }
}

// kWelcome or kRefuse.
void ShmDomain::FinishConnector(Visit* visit, Frame frame) {
  const Hello theirs = frame.hello;
  if (frame.kind == FrameKind::kRefuse && frame.refusal) {
    return Refuse(visit, theirs, frame.refusal, /*tell=*/false);
  }
  if (frame.kind != FrameKind::kWelcome || frame.token != visit->name.token ||
      frame.fds.size() != 2 || !frame.geometry.Valid()) {
    return Drop(visit, WEFT_PEER_LOST,
                "rank " + std::to_string(visit->rank) +
                    " answered what makes no sense");
  }
  const Refusal refusal = Meet(*visit, frame);
  if (refusal) return Refuse(visit, theirs, refusal, /*tell=*/true);
  // What came is checked before the other side takes us for connected.
  Connection::Link link = ReadLink(frame, frame.fds);
  Segment segment(options_.geometry());
  if (!SendFrame(visit->socket, NewFrame(FrameKind::kJoin),
                 {bell_fd_.get(), segment.fd.get()})) {
    return Drop(visit, WEFT_PEER_LOST,
                "rank " + std::to_string(visit->rank) +
                    " closed the door before it answered");
  }
  link.out = std::move(segment.producer);
  TransportEvent event = About(WEFT_EVENT_CONNECTED, theirs, visit->ep);
  event.cookie = visit->cookie;
  Enter(visit, visit->ep, theirs, std::move(link));
  mailbox_.Push(std::move(event), /*urgent=*/true);
}

// ---- The listener ----------------------------------------------------------

// kHello; later kJoin or kRefuse.
void ShmDomain::GreetConnector(Visit* visit, Frame frame) {
  const bool first = visit->out == nullptr;
  if (first && frame.kind == FrameKind::kHello && frame.address == secret_ &&
      frame.fds.empty()) {
    const Refusal refusal = Meet(*visit, frame);
    if (refusal) return Refuse(visit, frame.hello, refusal, /*tell=*/true);
    if (!frame.geometry.Valid()) return Drop(visit, WEFT_INVALID, "");
    Segment segment(options_.geometry());
    visit->theirs = std::move(frame);
    visit->out = std::move(segment.producer);
    if (!SendFrame(visit->socket, NewFrame(FrameKind::kWelcome),
                   {bell_fd_.get(), segment.fd.get()})) {
      Drop(visit, WEFT_PEER_LOST, "");
    }
    return;
  }
  const Hello theirs = visit->theirs.hello;
  if (!first && frame.kind == FrameKind::kRefuse && frame.refusal) {
    return Refuse(visit, theirs, frame.refusal, /*tell=*/false);
  }
  if (first || frame.kind != FrameKind::kJoin || frame.fds.size() != 2) {
    return Drop(visit, WEFT_PEER_LOST, "");
  }
  // Another life of this rank may have come meanwhile.
  const Refusal refusal = seen_.Check(theirs);
  if (refusal) return Refuse(visit, theirs, refusal, /*tell=*/false);
  Connection::Link link = ReadLink(visit->theirs, frame.fds);
  link.out = std::move(visit->out);
  const weft_endpoint ep = ++last_id_;
  Enter(visit, ep, theirs, std::move(link));
  mailbox_.Push(About(WEFT_EVENT_ACCEPTED, theirs, ep), /*urgent=*/true);
}

void ShmDomain::Enter(Visit* visit, weft_endpoint ep, const Hello& theirs,
                      Connection::Link link) {
  link.socket = std::move(visit->socket);
  bool gone = false;
  link.process = PeerProcess(link.socket, &gone);
  seen_.Note(theirs);
  auto connection = std::make_unique<Connection>(ep, std::move(link), options_,
                                                 timeout_ns_, &mailbox_);
  if (gone) shutdown(connection->socket(), SHUT_RDWR);  // seen as its end
  live_.push_back(connection.get());
  live_changed_ = true;
  endpoints_[ep] = std::move(connection);
}

}  // namespace weft_shm
