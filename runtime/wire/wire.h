// Wire: one rank's ends of all channels, over transport plugins.
//
//   WEFT_ASSIGN_OR_RETURN(auto wire, Wire::Connect(options, token));
//   WEFT_ASSIGN_OR_RETURN(auto channels, wire->AddProgram(view, 0, ports));
//   channels->Post(c, memory, bytes);    // an act of POST
//   channels->Tell(message);             // ... and the credit that it grants
//   channels->Send(c, memory, bytes);    // an act of SEND
//   wire->Poll(&any, notified);          // between acts, and when woken
//   channels->Flush();                   // with nothing left to do
//
// To the transport a transfer is one SEND and one RECV with the channel's id as
// tag, posted in the order of their acts; credits go as frames (frame.h) on a
// tag of their own, several in one where values are small and copies many. What
// has come is told as a message to the actor that it is for, in the mailbox of
// the worker that drives it, or in the queue of the worker that polls,
// whichever program runs:
//
//   a credit frame           REQ of the credit's register    to SEND
//   data in a posted receive REQ of the data's register      to RECV
//   a frame with values      the same, for each
//   data that has left       the ACKs that SEND held back    to producers
//
// Values that are small and of which many may be under way (both ends see it in
// the plan) are not sent one by one: they are copied into frames, a part of the
// channel's copies together, or what there is when the worker has nothing else
// to do; no receive of the transport is posted for them.
//
// A transport that is full gets what is left to send as soon as something
// completes. Receives never wait: a program that could have more of them under
// way than the transport takes is refused.
//
// Small values go ahead of their receives (ahead.h): the wire itself gives SEND
// the credits, and takes none from the far end.
//
// Of several transports each pair of ranks takes the first that both have and
// that joins them (offers.h); those that no pair takes are closed again.
//
// Failures: a peer that is lost, says its last words or breaks the rules fails
// Poll, and every later one, with an error that names the rank. Abort tells the
// peers why this rank gives up.
//
// Threading: Poll, and the ProgramWires, for the one worker that drives the
// wire at a time; Abort and Leave from any thread while nobody polls.
// Ownership: borrows transports, rendezvous and ports; ProgramWires belong to
// the wire's users and go before it.
#ifndef WEFT_RUNTIME_WIRE_WIRE_H_
#define WEFT_RUNTIME_WIRE_WIRE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/actor/actor.h"
#include "core/actor/message.h"
#include "core/plan/plan.h"
#include "plugins/host/transport.h"
#include "runtime/bus/futex_word.h"
#include "runtime/bus/port.h"
#include "runtime/rendezvous/rendezvous.h"
#include "runtime/wire/ahead.h"
#include "runtime/wire/frame.h"
#include "runtime/wire/shared_values.h"

namespace weft::runtime {

struct WireTransport {
  const Transport* transport = nullptr;
  std::vector<std::pair<std::string, std::string>> options;
};

struct WireOptions {
  std::vector<WireTransport> transports;  // the best first
  Rendezvous* rendezvous = nullptr;
  // Rank, world, job and so on; the token is Connect's, options are each
  // transport's own.
  DomainConfig config;
  uint64_t connect_ns = 30'000'000'000;
  // The one core that this rank may use; none: several, or not known.
  std::optional<uint32_t> core;
};

// Where another rank runs.
enum class Whereabouts : uint8_t { kUnknown, kThisCore, kAnotherCore };

class Wire;

// The channels of one program, by their index in its plan.
class ProgramWire {
 public:
  ~ProgramWire();
  ProgramWire(const ProgramWire&) = delete;
  ProgramWire& operator=(const ProgramWire&) = delete;

  // What is for `worker`, the one that polls, goes into its own queue from now
  // on; `table` has its actors. Both stay while anybody polls.
  void Attach(uint32_t worker, actor::ActorTable* table,
              actor::MessageQueue* queue);

  // Posts a receive of `bytes`, which are the transport's until RECV is told.
  absl::Status Post(uint32_t channel, void* data, uint64_t bytes);
  // Tells the far end of `message`, which is what POST gives it: at once, or
  // with those of the next acts, at the latest in Flush. What SEND gives it the
  // data says.
  absl::Status Tell(const actor::Message& message);
  absl::Status Flush();
  absl::Status Send(uint32_t channel, const void* data, uint64_t bytes);
  // What the act of the last Send has to say once its data is out. False: say
  // it now.
  bool Hold(uint32_t channel, absl::Span<const actor::Message> messages);

  // Where the ranks run whose values RECVs lack, and nothing else: kThisCore
  // where one of them does, kAnotherCore where all do. After Attach, by the
  // worker that attached.
  Whereabouts Awaited() const;

  // Sends that held messages back, and of these whether all before the n-th
  // have let them go.
  uint64_t holds() const { return holds_; }
  bool Released(uint64_t n) const {
    return outstanding_.empty() || *outstanding_.begin() >= n;
  }

 private:
  friend class Wire;
  // What a SEND has to say once it is complete.
  struct Sent {
    uint64_t send = 0;  // of the channel, from 1
    uint64_t hold = 0;  // number, from 1
    std::vector<actor::Message> messages;
  };
  struct Channel {
    uint64_t id = 0;
    uint32_t link = 0;       // of the peer
    uint64_t eager_max = 0;  // of the link's transport
    uint32_t copies = 0;
    bool receives = false;
    // Values go in frames, so many together; 0: each on its own.
    uint32_t together = 0;
    uint64_t value_bytes = 0;            // of one
    std::unique_ptr<ValueFrame> values;  // sender: not sent yet
    std::vector<void*> posted;  // receiver, by copy: where they are to go
    uint64_t posts = 0;
    std::string name;        // for messages
    actor::Message arrival;  // to RECV, or the credit to SEND
    uint64_t arrived = 0;
    Frame owed;            // credits that the far end was not told of
    bool listed = false;   // in owing_
    uint64_t credits = 0;  // that came, of which
    uint64_t sends = 0;    // so many were used
    uint64_t met = 0;      // and so many are complete
    // SENDs that may be without their receive; 0: each has heard of it.
    uint32_t ahead = 0;
    bool queued = false;    // the last Send waits for the transport
    uint64_t bytes = 0;     // of the last Send or Post
    std::deque<Sent> held;  // not complete yet, in order
  };

  ProgramWire(Wire* wire, uint32_t number, std::vector<Port> ports)
      : wire_(*wire), number_(number), ports_(std::move(ports)) {}
  // Gives SEND the credits that no message tells of.
  void Grant(Channel* channel);
  absl::Status SendCredits(Channel* channel);
  absl::Status SendValues(Channel* channel);
  // What is kept back goes out in Flush.
  void List(uint32_t c) {
    if (!std::exchange(channels_[c].listed, true)) owing_.push_back(c);
  }
  void Deliver(const actor::Message& message) {
    const uint32_t worker = worker_of_stream_[message.destination.stream()];
    if (worker == poller_) {
      queue_->Push(message);
    } else {
      ports_[worker].Send(message);
    }
  }

  Wire& wire_;
  const uint32_t number_;
  const std::vector<Port> ports_;  // by worker
  std::vector<uint16_t> worker_of_stream_;
  uint32_t poller_ = ~uint32_t{0};      // nobody
  actor::ActorTable* table_ = nullptr;  // its
  actor::MessageQueue* queue_ = nullptr;
  std::vector<Channel> channels_;
  std::vector<uint32_t> owing_;  // channels that kept some back since Flush
  uint64_t holds_ = 0;
  std::set<uint64_t> outstanding_;  // numbers of holds
};

class Wire {
 public:
  // Connects with every other rank; all call it. `token` wakes the worker that
  // polls. Errors: those of the rendezvous and the transports; kBadLaunch for
  // two ranks that no transport joins; kPeerLost names the ranks that could not
  // be reached in time; kTransportFailed where a transport's bounds are too
  // small for frames.
  static absl::StatusOr<std::unique_ptr<Wire>> Connect(
      const WireOptions& options, uint64_t token);
  // Unless it has left, the peers see this rank die.
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  uint32_t rank() const { return rank_; }
  // "rank 1 by shm, ranks 2, 3 by grpc".
  std::string Describe() const;

  // `ports` by worker. kBadPlan for a plan of another rank or number of ranks,
  // kTransportFailed for one that needs more receives than there may be.
  absl::StatusOr<std::unique_ptr<ProgramWire>> AddProgram(
      const plan::PlanView& view, uint32_t first_index,
      std::vector<Port> ports);

  // Memory of this rank that others read and, where it is `writable`, write,
  // too: one block, zeroed, once, before ExchangeShared. kTransportFailed where
  // no transport maps memory.
  absl::Status AllocShared(uint64_t bytes, bool writable = false);
  char* shared() const { return static_cast<char*>(shared_.host); }
  // Tells the others where values of mapped channels lie in it, and hears where
  // theirs lie; all ranks call it together. Mapped until the end of the wire.
  absl::StatusOr<PeerValues> ExchangeShared(
      const std::vector<SharedValue>& mine);

  // Takes what has come; `any`: something has. Where the token was not notified
  // since before the last call, only those transports are looked at that wake a
  // sleeper themselves (SleepBegin).
  absl::Status Poll(bool* any, bool notified = true) {
    if (!notified && !watches_ && failure_.ok()) return absl::OkStatus();
    return PollDomains(any, notified);
  }

  // Around a sleep of the worker that polls: words that end it, besides the
  // worker's own, of transports whose peers wake it themselves. Look once more
  // in between. Not more than kMostOthers; what is left out is told by the
  // token.
  absl::Status SleepBegin(std::vector<FutexWord::Other>* words);
  absl::Status SleepEnd();

  // Tells every peer that this rank gives up; once.
  void Abort(const absl::Status& cause);
  // Waits until every rank has come to its end, and closes.
  absl::Status Leave();

 private:
  friend class ProgramWire;
  // What a cookie says, in its two highest bits.
  enum class What : uint64_t { kData = 0, kSent = 1, kFrame = 2, kNone = 3 };
  // Of kFrame, beside the slot: it is of values.
  static constexpr uint32_t kValueSlot = 1u << 31;
  struct Op {
    bool send = false;
    bool urgent = false;
    uint64_t tag = 0;
    void* data = nullptr;
    uint64_t bytes = 0;
    uint64_t cookie = 0;
  };
  // With the bytes of a frame, which is written again.
  struct Waiting {
    Op op;
    std::unique_ptr<char[]> frame;
  };
  // The connection with one rank.
  struct Link {
    uint32_t rank = 0;
    Domain* domain = nullptr;
    uint64_t endpoint = 0;
    bool up = false;
    Whereabouts peer = Whereabouts::kUnknown;
    EagerBounds mine, theirs;     // of what this rank, and the other, sends
    std::deque<Waiting> waiting;  // the transport was full
    uint64_t receives = 0;        // that may be under way at once
    std::vector<Frame> frames;
    std::vector<ValueFrame> values;  // empty: none may come
    LastWords last_words;
    MappedMemory mapped;  // of the peer's block
  };

  Wire(const WireOptions& options, uint64_t token);
  absl::Status OpenDomains(const WireOptions& options, uint64_t token);
  absl::Status ConnectAll(const WireOptions& options);
  // For every link the domain; `theirs`: which offer of the peer it is, by
  // rank.
  absl::Status ChooseDomains(std::vector<size_t>* theirs);
  // Addresses of all ranks: by rank, and there by offer.
  absl::StatusOr<std::vector<std::vector<std::string>>> Listen();
  bool Uses(const Domain* domain) const;
  bool Watches(const Domain& domain) const {
    return !token_ || domain.has_sleep();
  }
  absl::Status CheckLimits(const TransportInfo& info) const;
  absl::Status CheckReceives() const;
  absl::StatusOr<PeerValues> ExchangeAll(const std::vector<SharedValue>& mine);
  absl::Status MapPeer(Link* link, const std::string& key);
  void DropShared();
  absl::Status AwaitLinks(uint64_t until);
  void Locate(std::optional<uint32_t> core,
              const std::vector<std::string>& cores);
  absl::Status OpenLink(Domain* domain, const TransportEvent& event);
  absl::Status PollDomains(bool* any, bool notified);
  absl::Status PollDomain(Domain* domain, bool* any);
  absl::Status OnEvent(Domain* domain, const TransportEvent& event);
  absl::Status OnCompleted(const TransportEvent& event);
  absl::Status OnFrame(Link* link, uint32_t slot);
  absl::Status OnValues(Link* link, uint32_t slot);
  // The channel of this rank that a frame is for; the error says why none.
  absl::StatusOr<std::pair<ProgramWire*, uint32_t>> ChannelOf(
      const Link& link, const Frame& frame, uint32_t kind);
  void OnArrival(ProgramWire* program, uint32_t channel);
  void OnSent(ProgramWire* program, uint32_t channel);
  absl::Status OnDown(Domain* domain, const TransportEvent& event);
  absl::Status OnLastWords(const Link& link, const absl::Status& status) const;
  // True: posted, false: it waits.
  absl::StatusOr<bool> PostOp(Link* link, const Op& op);
  absl::StatusOr<bool> TryPost(Link* link, const Op& op);
  absl::Status Retry(Link* link);
  absl::Status RetryAll();
  absl::Status PostFrameRecv(Link* link, uint32_t slot);
  absl::Status AwaitValues(Link* link);
  absl::Status PostValueRecv(Link* link, uint32_t slot);
  // Where in links_ the connection with another rank is.
  uint32_t LinkIndex(uint32_t rank) const {
    return rank < rank_ ? rank : rank - 1;
  }
  Link* LinkOfRank(uint32_t rank);
  Link* LinkOfEndpoint(const Domain* domain, uint64_t endpoint);

  static uint64_t Cookie(What what, uint64_t a, uint64_t b) {
    return static_cast<uint64_t>(what) << 62 | a << 32 | b;
  }

  const uint32_t rank_;
  const uint32_t ranks_;
  const uint32_t epoch_;
  const bool token_;     // there is one
  bool watches_ = true;  // looks at some of its domains in every poll
  Rendezvous& rendezvous_;
  std::vector<std::unique_ptr<Domain>> domains_;  // null: not used
  std::deque<Link> links_;  // receives are posted into it: it does not move
  std::vector<ProgramWire*> programs_;  // null: gone
  // Channel id -> program and index.
  absl::flat_hash_map<uint64_t, std::pair<uint32_t, uint32_t>> channels_;
  SharedMemory shared_;              // of
  Domain* shared_domain_ = nullptr;  // null: there is none
  uint32_t exchanges_ = 0;
  std::array<TransportEvent, 64> events_;
  absl::Status failure_;
  bool located_ = false;  // it is known where some peer runs
  bool left_ = false;
  bool aborted_ = false;         // the peers were told
  std::vector<Domain*> asleep_;  // that SleepEnd is owed to
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_WIRE_WIRE_H_
