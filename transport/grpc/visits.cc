// How two domains become the ends of a connection: wire.h has the frames.
#include <utility>

#include "transport/common/greeting.h"
#include "transport/grpc/domain.h"
#include "transport/grpc/proof.h"

namespace weft_grpc {
namespace {

using weft_sdk::Hello;
using weft_sdk::Refusal;
using weft_transport::About;

// Visits that may be under way at once besides two of each rank, its streams;
// the oldest goes for one more.
constexpr size_t kMaxStrangers = 64;
constexpr size_t kTokenBytes = 32;
constexpr uint32_t kMaxInflight = 1u << 20;

bool GoodLimits(const Frame& frame) {
  return frame.eager_max >= 1 && frame.eager_max <= kMaxEager &&
         frame.credits >= 1 && frame.credits <= kMaxCredits &&
         frame.max_inflight >= 1 && frame.max_inflight <= kMaxInflight;
}

// What both proofs are about, and so without them.
std::string WithoutProof(Frame challenge) {
  challenge.proof.clear();
  return EncodeFrame(challenge);
}

}  // namespace

// ---- A visit and its streams -----------------------------------------------

void GrpcDomain::Visit::OnWritable(Stream* stream) {
  Locked lock(&domain->shared_);
  if (stream == control.get()) domain->Flush(this);
  if (stream == bulk.get() && connector() && !token.empty()) {
    Frame attach = domain->NewFrame(FrameKind::kAttach);
    attach.token = std::exchange(token, {});
    stream->Write(EncodeFrame(attach), nullptr, 0, nullptr);
  }
}

void GrpcDomain::Visit::OnMessage(Stream* stream, const Message& message) {
  Connection* entered;
  {
    Locked lock(&domain->shared_);
    if (stage == Stage::kGone) return;
    if (stream != control.get()) {
      return domain->Drop(
          this, WEFT_PEER_LOST,
          "rank " + std::to_string(rank) + " answered what makes no sense");
    }
    entered = domain->Take(this, message);
  }
  // This visit is gone where it has become a connection.
  if (entered != nullptr) entered->OnMessage(stream, message);
}

void GrpcDomain::Visit::OnOver(Stream*, const std::string& why) {
  Locked lock(&domain->shared_);
  domain->EndVisit(this, why);
}

// One of its streams is over.
void GrpcDomain::EndVisit(Visit* visit, const std::string& why) {
  const bool answered = visit->stage != Stage::kChallenge;
  Drop(visit, WEFT_PEER_LOST,
       answered ? "rank " + std::to_string(visit->rank) +
                      " closed the door before it answered"
                : "nobody listens at the address of rank " +
                      std::to_string(visit->rank) + ": " + why);
  if (--visit->live != 0) return;
  visits_.erase(visit->id);
  if (closing_ && shared_.waiters != 0) shared_.more.notify_all();
}

// There will be no connection. Its streams end.
void GrpcDomain::Drop(Visit* visit, weft_code code, const std::string& why) {
  if (visit->stage != Stage::kGone && visit->connector()) {
    shared_.mailbox.Push(weft_transport::NotConnected(visit->ep, visit->rank,
                                                      visit->cookie, code, why),
                         /*urgent=*/true);
  }
  visit->stage = Stage::kGone;
  for (Stream* stream : {visit->control.get(), visit->bulk.get()}) {
    if (stream != nullptr) stream->Cancel();
  }
}

std::unique_ptr<GrpcDomain::Visit> GrpcDomain::NewVisit() {
  auto visit = std::make_unique<Visit>(this, ++last_id_);
  visit->left_ns = timeout_ns_;
  return visit;
}

void GrpcDomain::OnCall(std::shared_ptr<Stream> stream) {
  Locked lock(&shared_);
  if (closing_) return stream->Cancel();
  MakeRoom();
  std::unique_ptr<Visit> visit = NewVisit();
  visit->live = 1;
  visit->control = stream;
  stream->set_user(visit.get());
  visits_[visit->id] = std::move(visit);
}

// Who has said nothing yet goes first, and of those the oldest.
void GrpcDomain::MakeRoom() {
  size_t count = 0;
  Visit* oldest = nullptr;
  for (const auto& [id, visit] : visits_) {
    if (visit->connector() || visit->stage == Stage::kGone) continue;
    ++count;
    const bool silent = visit->stage == Stage::kHello;
    if (oldest == nullptr || (silent && oldest->stage != Stage::kHello)) {
      oldest = visit.get();
    }
  }
  if (count >= kMaxStrangers + 2 * size_t{hello_.world}) {
    Drop(oldest, WEFT_PEER_LOST, "");
  }
}

void GrpcDomain::Say(Visit* visit, const Frame& frame) {
  visit->out.push_back(EncodeFrame(frame));
  Flush(visit);
}

void GrpcDomain::Flush(Visit* visit) {
  if (!visit->control->writable()) return;
  if (!visit->out.empty()) {
    const std::string bytes = std::move(visit->out.front());
    visit->out.pop_front();
    visit->control->Write(bytes, nullptr, 0, nullptr);
  } else if (visit->finish) {
    visit->control->Finish();
  }
}

Frame GrpcDomain::NewFrame(FrameKind kind) const {
  Frame frame;
  frame.kind = kind;
  frame.hello = hello_;
  frame.eager_max = options_.eager_max;
  frame.credits = options_.eager_credits;
  frame.max_inflight = options_.max_inflight;
  return frame;
}

// ---- Deciding --------------------------------------------------------------

Refusal GrpcDomain::MeetHello(const Visit& visit) const {
  const bool connector = visit.connector();
  return weft_transport::Meet(hello_, visit.theirs.hello, connector,
                              connector ? visit.rank : visit.theirs.expected,
                              seen_);
}

void GrpcDomain::PushRefusal(const Visit& visit, const Refusal& refusal) {
  TransportEvent event =
      About(visit.connector() ? WEFT_EVENT_CONNECTED : WEFT_EVENT_REFUSED,
            visit.theirs.hello, visit.ep);
  if (visit.connector()) event.rank = visit.rank;
  event.cookie = visit.cookie;
  weft_transport::SetRefused(refusal, &event);
  shared_.mailbox.Push(std::move(event), /*urgent=*/true);
}

// The streams end once the other side has been told.
void GrpcDomain::Refuse(Visit* visit, const Refusal& refusal, bool tell) {
  PushRefusal(*visit, refusal);
  visit->stage = Stage::kGone;
  if (!tell) return Drop(visit, WEFT_INVALID, "");
  visit->finish = !visit->connector();
  Frame frame = NewFrame(FrameKind::kRefuse);
  frame.refusal = refusal;
  Say(visit, frame);
}

bool GrpcDomain::HasName(const Stream& stream, uint32_t rank) const {
  if (!options_.tls()) return true;
  for (const std::string& name : stream.PeerNames()) {
    if (name == RankName(rank)) return true;
  }
  return false;
}

Connection* GrpcDomain::Take(Visit* visit, const Message& message) {
  std::optional<Frame> frame;
  if (message.size() <= kMaxFrame) frame = DecodeFrame(message.ToString());
  if (visit->stage == Stage::kReady && !frame.has_value()) {
    return Enter(visit, visit->bulk);
  }
  const auto is = [&](Stage stage, FrameKind kind) {
    return frame.has_value() && visit->stage == stage && frame->kind == kind;
  };
  if (is(Stage::kHello, FrameKind::kHello)) {
    TakeHello(visit, *frame);
  } else if (is(Stage::kHello, FrameKind::kAttach)) {
    TakeAttach(visit, *frame);
  } else if (is(Stage::kChallenge, FrameKind::kChallenge)) {
    TakeChallenge(visit, *frame);
  } else if (is(Stage::kProof, FrameKind::kProof)) {
    TakeProof(visit, *frame);
  } else if (is(Stage::kWelcome, FrameKind::kWelcome)) {
    TakeWelcome(visit, *frame);
  } else if (is(Stage::kWelcome, FrameKind::kRefuse) ||
             is(Stage::kReady, FrameKind::kRefuse) ||
             is(Stage::kAttach, FrameKind::kRefuse)) {
    if (frame->refusal) {
      Refuse(visit, frame->refusal, /*tell=*/false);
    } else {
      Drop(visit, WEFT_PEER_LOST, "a refusal without a reason");
    }
  } else {
    Drop(visit, WEFT_PEER_LOST,
         "rank " + std::to_string(visit->rank) +
             " answered what makes no sense");
  }
  return nullptr;
}

// ---- The listener ----------------------------------------------------------

void GrpcDomain::TakeHello(Visit* visit, const Frame& frame) {
  if (!SameBytes(frame.token, token_) || frame.nonce.size() != kNonceBytes ||
      !HasName(*visit->control, frame.hello.rank)) {
    return Drop(visit, WEFT_PEER_LOST, "");
  }
  visit->theirs = frame;
  Frame challenge = NewFrame(FrameKind::kChallenge);
  challenge.nonce = RandomBytes(kNonceBytes);
  visit->said = EncodeFrame(frame) + WithoutProof(challenge);
  challenge.proof = Prove(secret_.view(), Role::kListener, visit->said);
  visit->stage = Stage::kProof;
  Say(visit, challenge);
}

// Not before this is anybody told what this rank has, or is anybody's mistake
// an event.
void GrpcDomain::TakeProof(Visit* visit, const Frame& frame) {
  if (!SameBytes(frame.proof,
                 Prove(secret_.view(), Role::kConnector, visit->said))) {
    return Drop(visit, WEFT_PEER_LOST, "");
  }
  const Refusal refusal = MeetHello(*visit);
  if (refusal) return Refuse(visit, refusal, /*tell=*/true);
  if (!GoodLimits(visit->theirs)) return Drop(visit, WEFT_PEER_LOST, "");
  visit->token = RandomBytes(kTokenBytes);
  visit->stage = Stage::kAttach;
  Frame welcome = NewFrame(FrameKind::kWelcome);
  welcome.token = visit->token;
  Say(visit, welcome);
}

// The second stream of somebody who was let in; `visit` is that stream's own.
void GrpcDomain::TakeAttach(Visit* visit, const Frame& frame) {
  Visit* of = nullptr;
  for (const auto& [id, other] : visits_) {
    if (other->stage == Stage::kAttach &&
        SameBytes(other->token, frame.token)) {
      of = other.get();
    }
  }
  if (of == nullptr || !HasName(*visit->control, of->theirs.hello.rank)) {
    return Drop(visit, WEFT_PEER_LOST, "");
  }
  // Another life of this rank may have come meanwhile.
  const Refusal refusal = seen_.Check(of->theirs.hello);
  if (refusal) {
    Refuse(of, refusal, /*tell=*/true);
    return Drop(visit, WEFT_PEER_LOST, "");
  }
  const std::shared_ptr<Stream> bulk = visit->control;
  visits_.erase(visit->id);
  Enter(of, bulk);
}

// ---- The connector ---------------------------------------------------------

void GrpcDomain::TakeChallenge(Visit* visit, const Frame& frame) {
  visit->theirs = frame;
  visit->said += WithoutProof(frame);
  if (frame.nonce.size() != kNonceBytes ||
      !SameBytes(frame.proof,
                 Prove(secret_.view(), Role::kListener, visit->said))) {
    return Refuse(visit,
                  {WEFT_REFUSED_JOB, "rank " + std::to_string(visit->rank) +
                                         " has not the secret of job '" +
                                         hello_.job + "'"},
                  /*tell=*/false);
  }
  visit->stage = Stage::kWelcome;
  Frame proof = NewFrame(FrameKind::kProof);
  proof.proof = Prove(secret_.view(), Role::kConnector, visit->said);
  Say(visit, proof);
}

void GrpcDomain::TakeWelcome(Visit* visit, const Frame& frame) {
  const Refusal refusal = MeetHello(*visit);
  if (refusal) return Refuse(visit, refusal, /*tell=*/true);
  if (!GoodLimits(visit->theirs) || frame.token.size() != kTokenBytes) {
    return Drop(visit, WEFT_PEER_LOST,
                "rank " + std::to_string(visit->rank) +
                    " answered what makes no sense");
  }
  visit->stage = Stage::kReady;
  visit->token = frame.token;
  ++visit->live;
  visit->bulk =
      port_->Dial(visit->host, visit->port, RankName(visit->rank), visit);
}

// Ends the visit, which is gone then.
Connection* GrpcDomain::Enter(Visit* visit, std::shared_ptr<Stream> bulk) {
  const Frame& theirs = visit->theirs;
  const weft_endpoint ep = visit->connector() ? visit->ep : ++last_id_;
  TransportEvent event =
      About(visit->connector() ? WEFT_EVENT_CONNECTED : WEFT_EVENT_ACCEPTED,
            theirs.hello, ep);
  event.cookie = visit->cookie;
  shared_.mailbox.Push(std::move(event), /*urgent=*/true);
  seen_.Note(theirs.hello);
  Connection::Link link{
      visit->control,
      std::move(bulk),
      theirs.hello.rank,
      {theirs.eager_max, theirs.credits, theirs.max_inflight}};
  auto connection = std::make_unique<Connection>(
      ep, std::move(link), options_, timeout_ns_ - timeout_ns_ / kBeats,
      &shared_);
  Connection* const raw = connection.get();
  endpoints_[ep] = std::move(connection);
  visits_.erase(visit->id);
  return raw;
}

}  // namespace weft_grpc
