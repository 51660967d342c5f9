#include "runtime/wire/wire.h"

#include <algorithm>
#include <cstring>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/plan/actor_spec.h"

namespace weft::runtime {
namespace {

using actor::Message;

// Frames with values of one peer that may lie here unread.
constexpr uint32_t kMaxValueFrames = 16;
// Where values are small, a frame has the credits of such a part of a channel's
// copies: both ends then work for a while before they need each other.
constexpr uint32_t kCreditPart = 2;
// As many copies make values go together where they are small: fewer would make
// both ends wait at each frame.
constexpr uint32_t kManyCopies = 8;

// Of one value; both ends come to the same.
uint32_t ValuesTogether(const plan::Channel& channel) {
  const uint64_t bytes = plan::CarriedBytes(channel);
  if (channel.copies() < kManyCopies || bytes == 0 ||
      bytes * 2 > ValueFrame::kBytes) {
    return 0;
  }
  return static_cast<uint32_t>(std::min<uint64_t>(
      channel.copies() / kCreditPart, ValueFrame::kBytes / bytes));
}

absl::Status BadFrame(uint32_t rank, absl::string_view why) {
  return MakeError(ErrorCode::kTransportFailed,
                   absl::StrCat("a frame from rank ", rank, " ", why));
}

bool IsDown(const absl::Status& status) {
  return IsError(status, ErrorCode::kPeerLost) ||
         IsError(status, ErrorCode::kCancelled);
}

}  // namespace

// ---- One program ------------------------------------------------------------

ProgramWire::~ProgramWire() {
  for (const Channel& channel : channels_) {
    auto it = wire_.channels_.find(channel.id);
    if (it == wire_.channels_.end() || it->second.first != number_) continue;
    wire_.channels_.erase(it);
    // What still waits for the transport is of memory that may go now.
    std::deque<Wire::Waiting>& waiting = wire_.links_[channel.link].waiting;
    waiting.erase(std::remove_if(waiting.begin(), waiting.end(),
                                 [&](const Wire::Waiting& w) {
                                   return w.op.tag == channel.id;
                                 }),
                  waiting.end());
    if (channel.receives && channel.together == 0) {
      wire_.links_[channel.link].receives -= channel.copies;
    }
  }
  wire_.programs_[number_] = nullptr;
}

void ProgramWire::Attach(uint32_t worker, actor::ActorTable* table,
                         actor::MessageQueue* queue) {
  poller_ = worker;
  queue_ = queue;
  table_ = table;
  for (Channel& channel : channels_) table->Hint(&channel.arrival);
}

absl::Status ProgramWire::Post(uint32_t c, void* data, uint64_t bytes) {
  Channel& channel = channels_[c];
  channel.bytes = bytes;
  if (channel.together != 0) {
    channel.posted[channel.posts++ % channel.copies] = data;
    return absl::OkStatus();
  }
  Wire::Op op;
  op.tag = channel.id;
  op.data = data;
  op.bytes = bytes;
  op.cookie = Wire::Cookie(Wire::What::kData, number_, c);
  const absl::StatusOr<bool> posted =
      wire_.PostOp(&wire_.links_[channel.link], op);
  if (ABSL_PREDICT_TRUE(posted.ok())) return absl::OkStatus();
  return Annotate(posted.status(), channel.name);
}

absl::Status ProgramWire::Tell(const Message& message) {
  const uint32_t c = message.destination.index();
  Channel& channel = channels_[c];
  if (!channel.receives || channel.ahead != 0) return absl::OkStatus();
  Frame& owed = channel.owed;
  if (owed.count == 0) {
    owed = {Frame::kCredit, message.copy,     0,
            channel.id,     message.sequence, wire_.epoch_};
  }
  ++owed.count;
  if (channel.bytes > channel.eager_max ||
      owed.count >= channel.copies / kCreditPart) {
    return SendCredits(&channel);
  }
  List(c);
  return absl::OkStatus();
}

absl::Status ProgramWire::Flush() {
  for (uint32_t c : owing_) {
    Channel& channel = channels_[c];
    channel.listed = false;
    if (channel.owed.count != 0) WEFT_RETURN_IF_ERROR(SendCredits(&channel));
    if (channel.values != nullptr && channel.values->head.count != 0) {
      WEFT_RETURN_IF_ERROR(SendValues(&channel));
    }
  }
  owing_.clear();
  return absl::OkStatus();
}

Whereabouts ProgramWire::Awaited() const {
  if (!wire_.located_) return Whereabouts::kUnknown;
  bool any = false, elsewhere = true;
  for (const Channel& channel : channels_) {
    if (!channel.receives || !table_->Awaits(channel.arrival)) continue;
    const Whereabouts peer = wire_.links_[channel.link].peer;
    if (peer == Whereabouts::kThisCore) return peer;
    any = true;
    elsewhere = elsewhere && peer == Whereabouts::kAnotherCore;
  }
  return any && elsewhere ? Whereabouts::kAnotherCore : Whereabouts::kUnknown;
}

void ProgramWire::Grant(Channel* channel) {
  Message credit = channel->arrival;
  while (channel->credits < channel->sends + channel->copies &&
         channel->credits < channel->met + channel->ahead) {
    credit.Set(static_cast<uint16_t>(channel->credits % channel->copies),
               channel->credits);
    ++channel->credits;
    Deliver(credit);
  }
}

absl::Status ProgramWire::SendCredits(Channel* channel) {
  Wire::Op op;
  op.send = op.urgent = true;
  op.tag = kFrameTag;
  op.bytes = sizeof(Frame);
  op.cookie = Wire::Cookie(Wire::What::kNone, 0, 0);
  Frame frame = SealFrame(std::exchange(channel->owed, Frame()));
  op.data = &frame;
  return Annotate(wire_.PostOp(&wire_.links_[channel->link], op).status(),
                  channel->name);
}

absl::Status ProgramWire::SendValues(Channel* channel) {
  ValueFrame& values = *channel->values;
  values.head.crc =
      ValueFrameCrc(values, values.head.count * channel->value_bytes);
  Wire::Op op;
  op.send = op.urgent = true;
  op.tag = kValueTag;
  op.data = &values;
  op.bytes = sizeof(ValueFrame);
  op.cookie = Wire::Cookie(Wire::What::kNone, 0, 0);
  absl::Status status = Annotate(
      wire_.PostOp(&wire_.links_[channel->link], op).status(), channel->name);
  values.head.count = 0;
  return status;
}

absl::Status ProgramWire::Send(uint32_t c, const void* data, uint64_t bytes) {
  Channel& channel = channels_[c];
  if (channel.together != 0) {
    Frame& head = channel.values->head;
    if (head.count == 0) {
      head = {Frame::kValues,
              static_cast<uint16_t>(channel.value_bytes),
              0,
              channel.id,
              channel.sends,
              wire_.epoch_};
    }
    memcpy(channel.values->bytes + head.count * channel.value_bytes, data,
           channel.value_bytes);
    channel.bytes = bytes;
    ++channel.sends;
    if (++head.count >= channel.together) return SendValues(&channel);
    List(c);
    return absl::OkStatus();
  }
  Wire::Op op;
  op.send = true;
  op.tag = channel.id;
  op.data = const_cast<void*>(data);
  op.bytes = bytes;
  op.cookie = Wire::Cookie(Wire::What::kSent, number_, c);
  const absl::StatusOr<bool> posted =
      wire_.PostOp(&wire_.links_[channel.link], op);
  if (!posted.ok()) return Annotate(posted.status(), channel.name);
  channel.queued = !*posted;
  channel.bytes = bytes;
  ++channel.sends;
  if (channel.ahead != 0) Grant(&channel);
  return absl::OkStatus();
}

bool ProgramWire::Hold(uint32_t c, absl::Span<const Message> messages) {
  Channel& channel = channels_[c];
  // Small ones were copied when they were posted, or before.
  if (channel.together != 0) return false;
  if (!channel.queued && channel.bytes <= channel.eager_max) return false;
  Sent& sent = channel.held.emplace_back();
  sent.send = channel.sends;
  sent.hold = ++holds_;
  outstanding_.insert(sent.hold);
  for (const Message& m : messages) {
    if (m.destination.rank() == wire_.rank_) sent.messages.push_back(m);
  }
  return true;
}

// ---- Programs ---------------------------------------------------------------

absl::Status Wire::PostFrameRecv(Link* link, uint32_t slot) {
  Op op;
  op.tag = kFrameTag;
  op.data = &link->frames[slot];
  op.bytes = sizeof(Frame);
  op.cookie = Cookie(What::kFrame, link->rank, slot);
  return PostOp(link, op).status();
}

// The first time that values may come together.
absl::Status Wire::AwaitValues(Link* link) {
  if (!link->values.empty()) return absl::OkStatus();
  link->values.resize(std::max<size_t>(
      1, std::min<size_t>(kMaxValueFrames, link->frames.size())));
  link->receives += link->values.size();
  for (uint32_t s = 0; s < link->values.size(); ++s) {
    WEFT_RETURN_IF_ERROR(PostValueRecv(link, s));
  }
  return absl::OkStatus();
}

absl::Status Wire::PostValueRecv(Link* link, uint32_t slot) {
  Op op;
  op.tag = kValueTag;
  op.data = &link->values[slot];
  op.bytes = sizeof(ValueFrame);
  op.cookie = Cookie(What::kFrame, link->rank, slot | kValueSlot);
  return PostOp(link, op).status();
}

absl::StatusOr<std::unique_ptr<ProgramWire>> Wire::AddProgram(
    const plan::PlanView& view, uint32_t first_index, std::vector<Port> ports) {
  const plan::Plan& plan = view.proto();
  if (plan.rank() != rank_ || plan.ranks() != ranks_) {
    return MakeError(
        ErrorCode::kBadPlan,
        absl::StrCat("a plan of rank ", plan.rank(), " of ", plan.ranks(),
                     " on rank ", rank_, " of ", ranks_));
  }
  const auto number = static_cast<uint32_t>(programs_.size());
  std::unique_ptr<ProgramWire> program(
      new ProgramWire(this, number, std::move(ports)));
  programs_.push_back(program.get());
  for (const plan::Stream& stream : plan.streams()) {
    program->worker_of_stream_.push_back(
        static_cast<uint16_t>(stream.worker()));
  }
  const std::vector<uint32_t> ahead =
      SendsAhead(plan, [&](const plan::Channel& channel) {
        const Link& link = links_[LinkIndex(channel.peer())];
        if (ValuesTogether(channel) != 0) return EagerBounds();
        return channel.receives() ? link.theirs : link.mine;
      });
  for (const plan::Channel& from : plan.channels()) {
    const auto c = static_cast<uint32_t>(program->channels_.size());
    if (from.id() <= kLastTag ||
        !channels_.try_emplace(from.id(), number, c).second) {
      return MakeError(
          ErrorCode::kBadPlan,
          absl::StrCat(plan::ChannelName(from), " has the id of another"));
    }
    ProgramWire::Channel channel;
    channel.id = from.id();
    channel.name = plan::ChannelName(from);
    channel.copies = from.copies();
    channel.receives = from.receives();
    channel.link = LinkIndex(from.peer());
    channel.eager_max = links_[channel.link].domain->info().eager_max;
    channel.together = ValuesTogether(from);
    channel.ahead = ahead[c];
    channel.value_bytes = plan::CarriedBytes(from);
    if (channel.receives && channel.together == 0) {
      links_[channel.link].receives += channel.copies;
    } else if (channel.receives) {
      channel.posted.resize(channel.copies);
    } else if (channel.together != 0) {
      channel.values = std::make_unique<ValueFrame>();
    }
    program->channels_.push_back(std::move(channel));
  }
  for (const ProgramWire::Channel& channel : program->channels_) {
    if (channel.posted.empty()) continue;
    WEFT_RETURN_IF_ERROR(AwaitValues(&links_[channel.link]));
  }
  WEFT_RETURN_IF_ERROR(CheckReceives());
  plan::ActorSpecOptions options;
  options.rank = rank_;
  options.first_index = first_index;
  for (uint32_t t = 0; t < view.num_tasks(); ++t) {
    const plan::Task& task = view.task(t);
    if (task.channel() == 0 || task.kind() == plan::Task::POST) continue;
    const uint32_t c = task.channel() - 1;
    program->channels_[c].arrival = Message::Req(
        plan::ActorIdOf(view, t, options),
        task.kind() == plan::Task::RECV ? plan::DataRegister(view, c)
                                        : plan::CreditRegister(view, c),
        0, 0);
  }
  for (ProgramWire::Channel& channel : program->channels_) {
    if (!channel.receives && channel.ahead != 0) program->Grant(&channel);
  }
  return program;
}

// A receive that had to wait for another to complete could wait for ever: what
// completes the other may need what this one is for.
absl::Status Wire::CheckReceives() const {
  for (const Link& link : links_) {
    const TransportInfo& info = link.domain->info();
    const uint64_t most = info.max_inflight;
    if (link.receives <= most) continue;
    return MakeError(ErrorCode::kTransportFailed,
                     absl::StrCat("rank ", rank_, " may have ", link.receives,
                                  " receives from rank ", link.rank,
                                  " under way at once, transport '", info.name,
                                  "' takes ", most, " of a connection"));
  }
  return absl::OkStatus();
}

// ---- Posting ----------------------------------------------------------------

inline absl::StatusOr<bool> Wire::TryPost(Link* link, const Op& op) {
  absl::StatusOr<bool> posted =
      op.send ? link->domain->PostSend(link->endpoint, op.tag, op.data,
                                       op.bytes, op.cookie, op.urgent)
              : link->domain->PostRecv(link->endpoint, op.tag, op.data,
                                       op.bytes, op.cookie);
  if (ABSL_PREDICT_TRUE(posted.ok())) return posted;
  // Events that are still to come say why the peer is gone: its last words, or
  // that it had none.
  if (IsDown(posted.status())) return true;
  return posted;
}

absl::StatusOr<bool> Wire::PostOp(Link* link, const Op& op) {
  if (link->waiting.empty() || !op.send) {  // a receive waits for no send
    absl::StatusOr<bool> posted = TryPost(link, op);
    if (!posted.ok() || *posted) return posted;
  }
  Waiting& waiting = link->waiting.emplace_back();
  waiting.op = op;
  if (op.send && op.tag <= kLastTag) {
    waiting.frame.reset(new char[op.bytes]);
    memcpy(waiting.frame.get(), op.data, op.bytes);
    waiting.op.data = waiting.frame.get();
  }
  return false;
}

absl::Status Wire::Retry(Link* link) {
  while (!link->waiting.empty()) {
    WEFT_ASSIGN_OR_RETURN(bool posted, TryPost(link, link->waiting.front().op));
    if (!posted) break;
    link->waiting.pop_front();
  }
  return absl::OkStatus();
}

// ---- What comes -------------------------------------------------------------

Wire::Link* Wire::LinkOfRank(uint32_t rank) {
  if (rank == rank_ || rank >= ranks_) return nullptr;
  return &links_[LinkIndex(rank)];
}

Wire::Link* Wire::LinkOfEndpoint(const Domain* domain, uint64_t endpoint) {
  for (Link& link : links_) {
    if (link.up && link.domain == domain && link.endpoint == endpoint) {
      return &link;
    }
  }
  return nullptr;
}

absl::Status Wire::PollDomains(bool* any, bool notified) {
  if (ABSL_PREDICT_FALSE(!failure_.ok())) return failure_;
  for (const std::unique_ptr<Domain>& domain : domains_) {
    if (domain == nullptr || !(notified || Watches(*domain))) continue;
    absl::Status status = PollDomain(domain.get(), any);
    if (!status.ok()) return failure_ = std::move(status);
  }
  return absl::OkStatus();
}

absl::Status Wire::SleepBegin(std::vector<FutexWord::Other>* words) {
  words->clear();
  if (!FutexWord::CanSleepOnSeveral()) return absl::OkStatus();
  for (const std::unique_ptr<Domain>& domain : domains_) {
    if (domain == nullptr || !domain->has_sleep()) continue;
    if (words->size() == FutexWord::kMostOthers) break;
    WEFT_ASSIGN_OR_RETURN(const SleepWord sleep, domain->SleepBegin());
    asleep_.push_back(domain.get());
    words->push_back({sleep.word, sleep.seen});
  }
  return absl::OkStatus();
}

absl::Status Wire::SleepEnd() {
  absl::Status status;
  for (Domain* domain : asleep_) status.Update(domain->SleepEnd());
  asleep_.clear();
  return status;
}

absl::Status Wire::PollDomain(Domain* domain, bool* any) {
  size_t n = 0;
  do {
    WEFT_ASSIGN_OR_RETURN(n, domain->Poll(absl::MakeSpan(events_)));
    for (size_t i = 0; i < n; ++i) {
      *any = true;
      WEFT_RETURN_IF_ERROR(OnEvent(domain, events_[i]));
    }
  } while (n == events_.size());
  return absl::OkStatus();
}

absl::Status Wire::OnEvent(Domain* domain, const TransportEvent& event) {
  switch (event.kind) {
    case TransportEventKind::kAccepted:
      return OpenLink(domain, event);
    case TransportEventKind::kConnected:
      if (!event.status.ok()) return event.status;
      return OpenLink(domain, event);
    case TransportEventKind::kEndpointDown:
      return OnDown(domain, event);
    case TransportEventKind::kRefused:
      return absl::OkStatus();  // somebody who does not belong here
    case TransportEventKind::kCompleted:
      return OnCompleted(event);
  }
  return absl::OkStatus();
}

absl::Status Wire::OnDown(Domain* domain, const TransportEvent& event) {
  Link* link = LinkOfEndpoint(domain, event.endpoint);
  if (link == nullptr) return absl::OkStatus();  // it was turned away
  link->up = false;
  if (event.status.ok()) return absl::OkStatus();
  return MakeError(
      ErrorCode::kPeerLost,
      absl::StrCat("rank ", event.rank, " is lost: ", event.status.message()));
}

absl::Status Wire::OnCompleted(const TransportEvent& event) {
  const auto what = static_cast<What>(event.cookie >> 62);
  const auto a = static_cast<uint32_t>(event.cookie >> 32 & 0x3fffffff);
  const auto b = static_cast<uint32_t>(event.cookie);
  // Of an endpoint that goes down there is more to come, which says why.
  const bool good = event.status.ok();
  if (!good && IsDown(event.status)) return absl::OkStatus();
  Link* link = nullptr;
  if (what == What::kFrame) link = LinkOfRank(a);
  if (what == What::kNone && a == 1) {
    return OnLastWords(*LinkOfRank(b), event.status);
  }
  ProgramWire* program = nullptr;
  if (what == What::kData || what == What::kSent) {
    program = programs_[a];
    if (program == nullptr) return RetryAll();
    ProgramWire::Channel& channel = program->channels_[b];
    link = &links_[channel.link];
    if (!good) return Annotate(event.status, channel.name);
  }
  if (!good) {
    return link == nullptr
               ? event.status
               : Annotate(event.status,
                          absl::StrCat("a frame from rank ", link->rank));
  }
  if (what == What::kFrame) {
    WEFT_RETURN_IF_ERROR((b & kValueSlot) != 0 ? OnValues(link, b & ~kValueSlot)
                                               : OnFrame(link, b));
  }
  if (what == What::kData) OnArrival(program, b);
  if (what == What::kSent) OnSent(program, b);
  if (link != nullptr) {
    return link->waiting.empty() ? absl::OkStatus() : Retry(link);
  }
  // A frame of ours is out: its credit may be what somebody waits for.
  return RetryAll();
}

absl::Status Wire::RetryAll() {
  for (Link& link : links_) {
    if (link.up) WEFT_RETURN_IF_ERROR(Retry(&link));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::pair<ProgramWire*, uint32_t>> Wire::ChannelOf(
    const Link& link, const Frame& frame, uint32_t kind) {
  if (frame.epoch != epoch_) return BadFrame(link.rank, "is of another job");
  if (frame.kind != kind) return BadFrame(link.rank, "is of no kind");
  auto it = channels_.find(frame.channel);
  if (it == channels_.end()) {
    return BadFrame(link.rank, "is for no channel of this rank");
  }
  ProgramWire* program = programs_[it->second.first];
  const ProgramWire::Channel& channel = program->channels_[it->second.second];
  const bool values = kind == Frame::kValues;
  if (&links_[channel.link] != &link || frame.count == 0 ||
      channel.receives != values || channel.ahead != 0 ||
      (values && channel.together == 0)) {
    return BadFrame(link.rank, absl::StrCat("does not fit ", channel.name));
  }
  return std::make_pair(program, it->second.second);
}

absl::Status Wire::OnFrame(Link* link, uint32_t slot) {
  const Frame frame = link->frames[slot];
  if (frame.crc != FrameCrc(frame)) return BadFrame(link->rank, "is damaged");
  WEFT_ASSIGN_OR_RETURN(const auto at, ChannelOf(*link, frame, Frame::kCredit));
  ProgramWire::Channel& channel = at.first->channels_[at.second];
  if (frame.copy != channel.credits % channel.copies) {
    return BadFrame(link->rank, absl::StrCat("does not fit ", channel.name));
  }
  // More would not fit into the mailbox: the plan has sized it.
  if (channel.credits + frame.count > channel.sends + channel.copies) {
    return BadFrame(link->rank,
                    absl::StrCat("is a credit too many for ", channel.name));
  }
  Message credit = channel.arrival;
  for (uint32_t i = 0; i < frame.count; ++i) {
    credit.Set(static_cast<uint16_t>(channel.credits++ % channel.copies),
               frame.sequence + i);
    at.first->Deliver(credit);
  }
  return PostFrameRecv(link, slot);
}

absl::Status Wire::OnValues(Link* link, uint32_t slot) {
  const ValueFrame& frame = link->values[slot];
  const auto bad = [&](absl::string_view why) {
    return MakeError(ErrorCode::kTransportFailed,
                     absl::StrCat("values from rank ", link->rank, " ", why));
  };
  const uint64_t used = uint64_t{frame.head.count} * frame.head.copy;
  if (used > ValueFrame::kBytes ||
      frame.head.crc != ValueFrameCrc(frame, used)) {
    return bad("are damaged");
  }
  WEFT_ASSIGN_OR_RETURN(const auto at,
                        ChannelOf(*link, frame.head, Frame::kValues));
  ProgramWire::Channel& channel = at.first->channels_[at.second];
  if (frame.head.sequence != channel.arrived ||
      frame.head.copy != channel.value_bytes ||
      frame.head.count > channel.together) {
    return bad(absl::StrCat("do not fit ", channel.name));
  }
  if (channel.arrived + frame.head.count > channel.posts) {
    return bad(absl::StrCat("are more than ", channel.name, " has room for"));
  }
  for (uint32_t i = 0; i < frame.head.count; ++i) {
    memcpy(channel.posted[channel.arrived % channel.copies],
           frame.bytes + i * channel.value_bytes, channel.value_bytes);
    OnArrival(at.first, at.second);
  }
  return PostValueRecv(link, slot);
}

void Wire::OnArrival(ProgramWire* program, uint32_t c) {
  ProgramWire::Channel& channel = program->channels_[c];
  Message arrival = channel.arrival;
  arrival.Set(static_cast<uint16_t>(channel.arrived % channel.copies),
              channel.arrived);
  ++channel.arrived;
  program->Deliver(arrival);
}

void Wire::OnSent(ProgramWire* program, uint32_t c) {
  ProgramWire::Channel& channel = program->channels_[c];
  ++channel.met;
  if (channel.ahead != 0) program->Grant(&channel);
  if (channel.held.empty() || channel.held.front().send != channel.met) return;
  const ProgramWire::Sent sent = std::move(channel.held.front());
  channel.held.pop_front();
  program->outstanding_.erase(sent.hold);
  for (const Message& m : sent.messages) program->Deliver(m);
}

absl::Status Wire::OnLastWords(const Link& link,
                               const absl::Status& status) const {
  if (!status.ok()) {
    return Annotate(status, absl::StrCat("the last words of rank ", link.rank));
  }
  const LastWords& words = link.last_words;
  const size_t size = std::min<size_t>(words.size, sizeof(words.text));
  // One that there is not is kInternal, as of any status.
  const ErrorCode code =
      ErrorCodeOf(MakeError(static_cast<ErrorCode>(words.code), ""));
  absl::Status theirs =
      MakeError(code, absl::StrCat("rank ", link.rank, ": ",
                                   absl::string_view(words.text, size)));
  theirs.SetPayload(kOfAnotherRank, absl::Cord(absl::StrCat(link.rank)));
  return theirs;
}

// ---- The end ----------------------------------------------------------------

void Wire::Abort(const absl::Status& cause) {
  if (left_ || aborted_) return;
  aborted_ = true;
  LastWords words;
  words.code = static_cast<uint32_t>(ErrorCodeOf(cause));
  words.size = static_cast<uint32_t>(
      std::min(cause.message().size(), sizeof(words.text)));
  memcpy(words.text, cause.message().data(), words.size);
  for (Link& link : links_) {
    if (!link.up) continue;
    const absl::StatusOr<bool> said =
        link.domain->PostSend(link.endpoint, kAbortTag, &words, sizeof(words),
                              Cookie(What::kNone, 0, 0), /*urgent=*/true);
    if (said.ok() && *said) continue;
    // Where even this fails, the peer sees the connection end.
    link.domain->CloseEndpoint(link.endpoint, /*abort=*/true).IgnoreError();
    link.up = false;
  }
}

absl::Status Wire::Leave() {
  WEFT_RETURN_IF_ERROR(rendezvous_.AllGather(rank_, "wire/leave", "").status());
  left_ = true;
  DropShared();
  for (const std::unique_ptr<Domain>& domain : domains_) {
    if (domain == nullptr) continue;
    WEFT_RETURN_IF_ERROR(domain->Close([](const TransportEvent&) {}));
  }
  return absl::OkStatus();
}

Wire::~Wire() {
  if (left_) return;
  for (Link& link : links_) {
    if (!link.up) continue;
    link.domain->CloseEndpoint(link.endpoint, /*abort=*/true).IgnoreError();
  }
  DropShared();
  domains_.clear();  // receives are posted into the links
}

}  // namespace weft::runtime
