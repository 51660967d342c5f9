#include "runtime/rendezvous/grpc_rendezvous.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "runtime/bus/futex_word.h"
#include "runtime/pool/thread.h"
#include "runtime/rendezvous/grpc_log.h"
#include "runtime/rendezvous/host_port.h"
#include "runtime/rendezvous/meeting.h"
#include "runtime/rendezvous/proof.h"
#include "runtime/rendezvous/rendezvous.grpc.pb.h"

namespace weft::runtime {
namespace {

using rendezvous::Hello;
using rendezvous::Part;
using rendezvous::ToCoordinator;
using rendezvous::ToRank;

// The coordinator may still be about to say what a deadline of its own says.
constexpr uint64_t kMarginNs = 2'000'000'000;
// Between two tries to join a start of the job whose coordinator is not there
// yet.
constexpr uint64_t kAgainNs = 50'000'000;
// For the cause of a loss, and for the answer to a goodbye.
constexpr uint64_t kLastWordNs = 2'000'000'000;
// Facts in all: larger ones are told by their digests.
constexpr size_t kMaxFactsBytes = kPartBytes;

ErrorCode CodeOf(uint32_t code) {
  return ErrorCodeOf(MakeError(static_cast<ErrorCode>(code), ""));
}

// One there is, of a status.
absl::Status TextError(uint32_t code, const std::string& text) {
  return MakeError(CodeOf(code), text);
}

}  // namespace

class GrpcRendezvous::Impl
    : public grpc::ClientBidiReactor<ToCoordinator, ToRank> {
 public:
  explicit Impl(const RendezvousOptions& options)
      : options_(options), beat_ns_(BeatNs(options.silence_ns)) {}
  ~Impl() override;

  // `until`: when it gives up.
  absl::Status Connect(uint64_t until);
  // After Connect: the coordinator is of an earlier start of the job, or was.
  bool TooEarly() const;
  absl::StatusOr<std::vector<std::string>> AllGather(const std::string& key,
                                                     const std::string& value);
  absl::Status Put(const std::string& key, const std::string& value);
  absl::StatusOr<std::string> Get(const std::string& key);
  void Fail(const absl::Status& cause);
  absl::Status failure() const;
  absl::Status Verdict(const absl::Status& mine);
  void SetWake(std::function<void()> wake);
  absl::Status Leave();
  void Report(uint64_t step) { step_ = step; }
  void SetActs(std::function<uint64_t()> acts) {
    MutexLock lock(&acts_mu_);
    acts_ = std::move(acts);
  }
  uint32_t ranks() const { return options_.ranks; }

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  enum class State { kConnecting, kEntered, kAccepted, kWelcome };
  // A value, or values by rank, that this rank waits for.
  struct Call {
    std::map<uint32_t, std::string> values;  // whole, or as far as they came
    std::set<uint32_t> complete;             // of `values`
    uint32_t wanted = 0;
    absl::Status failed;
  };

  void Hear(const ToRank& message) WEFT_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Enter(const std::string& challenge) WEFT_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void HearFailure(const rendezvous::Failure& failure)
      WEFT_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Say(ToCoordinator message) WEFT_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SayValue(bool gather, uint64_t call, const std::string& key,
                const std::string& value) WEFT_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End(const absl::Status& cause) WEFT_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::map<uint32_t, std::string>> Await(uint64_t call,
                                                        const std::string& key);
  absl::Status failure_locked() const WEFT_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Beats();
  uint64_t Acts() {
    MutexLock lock(&acts_mu_);
    return acts_ != nullptr ? acts_() : 0;
  }
  void Wake();
  std::string Where() const WEFT_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status TooLate() WEFT_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Hello MakeHello() const;
  // Waits until `done` or `until`; false at the latter.
  template <typename Done>
  bool WaitUntil(uint64_t until, Done done) WEFT_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const RendezvousOptions options_;
  const uint64_t beat_ns_;
  std::unique_ptr<rendezvous::Meeting::Stub> stub_;
  grpc::ClientContext context_;
  ToRank in_;
  std::atomic<uint64_t> step_{0};

  mutable Mutex mu_;
  CondVar changed_;
  State state_ WEFT_GUARDED_BY(mu_) = State::kConnecting;
  std::string hello_ WEFT_GUARDED_BY(mu_);
  std::string challenge_ WEFT_GUARDED_BY(mu_);
  std::string nonce_ WEFT_GUARDED_BY(mu_);
  std::string host_ WEFT_GUARDED_BY(mu_);  // whose process the coordinator is
  std::deque<ToCoordinator> out_ WEFT_GUARDED_BY(mu_);
  std::map<uint64_t, Call> calls_ WEFT_GUARDED_BY(mu_);
  uint64_t next_call_ WEFT_GUARDED_BY(mu_) = 1;
  uint64_t heard_ WEFT_GUARDED_BY(mu_) = 0;
  absl::Status ended_ WEFT_GUARDED_BY(mu_);  // the job, or the connection
  std::optional<ErrorCode> told_ WEFT_GUARDED_BY(mu_);  // of the first failure
  absl::Status mine_ WEFT_GUARDED_BY(mu_);              // of Fail
  bool late_ WEFT_GUARDED_BY(mu_) = false;          // ended_ came before mine_
  std::optional<bool> early_ WEFT_GUARDED_BY(mu_);  // of Refused
  bool leaving_ WEFT_GUARDED_BY(mu_) = false;
  bool farewell_ WEFT_GUARDED_BY(mu_) = false;
  bool started_ WEFT_GUARDED_BY(mu_) = false;  // the stream, of which
  bool done_ WEFT_GUARDED_BY(mu_) = false;     // OnDone was called
  bool closed_ WEFT_GUARDED_BY(mu_) = false;   // nothing can be heard any more
  bool broken_ WEFT_GUARDED_BY(mu_) = false;   // nothing can be said any more
  bool stopping_ WEFT_GUARDED_BY(mu_) = false;

  Mutex acts_mu_;  // held while acts_ is called
  std::function<uint64_t()> acts_ WEFT_GUARDED_BY(acts_mu_);
  Mutex wake_mu_;  // held while wake_ is called
  std::function<void()> wake_ WEFT_GUARDED_BY(wake_mu_);
  std::optional<Thread> control_;
};

template <typename Done>
bool GrpcRendezvous::Impl::WaitUntil(uint64_t until, Done done) {
  while (!done()) {
    const uint64_t now = NowNs();
    if (now >= until) return false;
    changed_.WaitFor(&mu_, std::chrono::nanoseconds(until - now));
  }
  return true;
}

// ---- Connecting -------------------------------------------------------------

Hello GrpcRendezvous::Impl::MakeHello() const {
  Hello hello;
  hello.set_rank(options_.rank);
  hello.set_ranks(options_.ranks);
  hello.set_job_id(options_.job_id);
  hello.set_epoch(options_.epoch);
  hello.set_incarnation(options_.incarnation != 0
                            ? options_.incarnation
                            : static_cast<uint64_t>(RealClock().UnixNs()));
  hello.set_host(HostName());
  hello.set_boot_id(BootId());
  hello.set_pid(getpid());
  hello.set_silence_ns(options_.silence_ns);
  hello.set_join_ns(options_.join_ns);
  size_t bytes = 0;
  for (const auto& [name, value] : options_.facts) {
    rendezvous::Fact* fact = hello.add_facts();
    fact->set_name(name);
    bytes += value.size();
    fact->set_value(bytes <= kMaxFactsBytes ? value : Sha256Hex(value));
  }
  return hello;
}

absl::Status GrpcRendezvous::Impl::Connect(uint64_t until) {
  QuietGrpc();
  grpc::ChannelArguments arguments;
  // A connection of its own, straight to it, and looked for often: rank 0 may
  // come later than this one.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetMaxReceiveMessageSize(2 * static_cast<int>(kPartBytes));
  stub_ = rendezvous::Meeting::NewStub(grpc::CreateCustomChannel(
      options_.address, grpc::InsecureChannelCredentials(), arguments));
  context_.set_wait_for_ready(true);
  {
    MutexLock lock(&mu_);
    started_ = true;
    heard_ = NowNs();
    hello_ = MakeHello().SerializeAsString();
  }
  stub_->async()->Join(&context_, this);
  AddHold();  // others than the reactions write
  StartRead(&in_);
  StartCall();
  WEFT_ASSIGN_OR_RETURN(control_,
                        Thread::Start("weft-control", [this] { Beats(); }));
  MutexLock lock(&mu_);
  if (!WaitUntil(until, [this] {
        return state_ == State::kWelcome || !failure_locked().ok();
      })) {
    End(TooLate());
  }
  return failure_locked();
}

bool GrpcRendezvous::Impl::TooEarly() const {
  MutexLock lock(&mu_);
  const bool accepted = state_ == State::kAccepted || state_ == State::kWelcome;
  if (early_.has_value()) return *early_;
  // One that ends while this rank comes says nothing.
  return options_.epoch > 0 && closed_ && !accepted;
}

absl::Status GrpcRendezvous::Impl::TooLate() {
  const absl::StatusOr<HostPort> at =
      ParseHostPort("the coordinator's address", options_.address);
  const std::string after = absl::StrFormat(
      "after %.3g s", static_cast<double>(options_.join_ns) * 1e-9);
  if (state_ == State::kAccepted) {
    return MakeError(ErrorCode::kPeerLost,
                     absl::StrCat(after, " ", Where(),
                                  " has not seen all ranks, nor said which"));
  }
  return MakeError(
      ErrorCode::kPeerLost,
      absl::StrCat(after, " there is no coordinator at ", options_.address,
                   " for rank ", options_.rank,
                   at.ok() && IsLoopback(at->host)
                       ? absl::StrCat("; that is a loopback address, by which "
                                      "only processes of this host (",
                                      HostName(), ") meet")
                       : ""));
}

std::string GrpcRendezvous::Impl::Where() const {
  return absl::StrCat("the coordinator at ", options_.address,
                      host_.empty() ? "" : absl::StrCat(" (", host_, ")"));
}

GrpcRendezvous::Impl::~Impl() {
  SetWake(nullptr);
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    changed_.NotifyAll();
    if (!started_) return;
    // A stream that is cancelled takes along what the other side has not read
    // yet: Fail's words were heard when the answer to them is there.
    WaitUntil(NowNs() + kLastWordNs, [this] {
      const bool heard = mine_.ok() || leaving_ || !ended_.ok();
      return broken_ || closed_ || (out_.empty() && heard);
    });
  }
  control_.reset();  // joins it
  context_.TryCancel();
  RemoveHold();
  MutexLock lock(&mu_);
  while (!done_) changed_.WaitFor(&mu_, std::chrono::seconds(1));
}

// ---- Talking ----------------------------------------------------------------

void GrpcRendezvous::Impl::Say(ToCoordinator message) {
  if (broken_ || closed_) return;
  out_.push_back(std::move(message));
  if (out_.size() == 1) StartWrite(&out_.front());
}

void GrpcRendezvous::Impl::OnWriteDone(bool ok) {
  MutexLock lock(&mu_);
  out_.pop_front();
  if (!ok) {
    broken_ = true;
    out_.clear();
  }
  if (!out_.empty()) StartWrite(&out_.front());
  changed_.NotifyAll();
}

void GrpcRendezvous::Impl::OnReadDone(bool ok) {
  bool ended = false;
  {
    MutexLock lock(&mu_);
    if (ok) {
      heard_ = NowNs();
      Hear(in_);
    } else {
      closed_ = true;
      if (!stopping_ && !farewell_) {
        End(MakeError(ErrorCode::kPeerLost, absl::StrCat(Where(), " is gone")));
      }
    }
    ended = !ended_.ok();
    changed_.NotifyAll();
  }
  if (ok) {
    in_.Clear();
    StartRead(&in_);
  }
  if (ended) Wake();
}

void GrpcRendezvous::Impl::OnDone(const grpc::Status& /*status*/) {
  MutexLock lock(&mu_);
  done_ = true;
  changed_.NotifyAll();
}

void GrpcRendezvous::Impl::Wake() {
  MutexLock lock(&wake_mu_);
  if (wake_ != nullptr) wake_();
}

// The first cause counts.
void GrpcRendezvous::Impl::End(const absl::Status& cause) {
  if (ended_.ok()) ended_ = cause;
  changed_.NotifyAll();
}

void GrpcRendezvous::Impl::Hear(const ToRank& message) {
  switch (message.body_case()) {
    case ToRank::kChallenge:
      return Enter(message.challenge().nonce());
    case ToRank::kAccepted: {
      const rendezvous::Accepted& accepted = message.accepted();
      if (!SameBytes(accepted.proof(),
                     ProofOfCoordinator(options_.secret.view(), challenge_,
                                        nonce_, hello_))) {
        return End(MakeError(
            ErrorCode::kPeerRefused,
            absl::StrCat(Where(), " does not have the secret of the job")));
      }
      state_ = State::kAccepted;
      host_ = absl::StrCat(accepted.of_rank()
                               ? absl::StrCat("rank ", accepted.rank(), ", ")
                               : "",
                           "host ", accepted.host(), ", pid ", accepted.pid());
      return;
    }
    case ToRank::kRefused:
      early_ = message.refused().early();
      return End(
          TextError(message.refused().code(),
                    absl::StrCat(Where(), " refuses rank ", options_.rank, ": ",
                                 message.refused().text())));
    case ToRank::kWelcome:
      if (state_ == State::kAccepted) state_ = State::kWelcome;
      return;
    case ToRank::kValue: {
      const Part& part = message.value();
      auto at = calls_.find(part.call());
      if (at == calls_.end()) return;
      Call& call = at->second;
      std::string& value = call.values[part.rank()];
      if (part.rank() >= options_.ranks ||
          call.complete.count(part.rank()) != 0 ||
          value.size() + part.data().size() > kMaxValueBytes) {
        call.failed =
            MakeError(ErrorCode::kPeerRefused,
                      absl::StrCat(Where(), " answers what makes no sense"));
        return;
      }
      value.append(part.data());
      if (part.last()) call.complete.insert(part.rank());
      return;
    }
    case ToRank::kMissing: {
      auto at = calls_.find(message.missing().call());
      if (at == calls_.end()) return;
      at->second.failed =
          TextError(message.missing().code(), message.missing().text());
      return;
    }
    case ToRank::kFailure:
      if (state_ >= State::kAccepted) HearFailure(message.failure());
      return;
    case ToRank::kFarewell:
      farewell_ = true;
      return;
    case ToRank::kBeat:
    case ToRank::BODY_NOT_SET:
      return;
  }
}

void GrpcRendezvous::Impl::Enter(const std::string& challenge) {
  if (state_ != State::kConnecting) return;
  state_ = State::kEntered;
  challenge_ = challenge;
  nonce_ = NewNonce();
  ToCoordinator message;
  rendezvous::Enter* enter = message.mutable_enter();
  enter->set_hello(hello_);
  enter->set_nonce(nonce_);
  enter->set_proof(
      ProofOfRank(options_.secret.view(), challenge_, nonce_, hello_));
  Say(std::move(message));
}

// To all but whose failure it is, it is the loss of a peer, unless it is
// everybody's.
void GrpcRendezvous::Impl::HearFailure(const rendezvous::Failure& failure) {
  if (ended_.ok()) told_ = CodeOf(failure.code());
  const bool own = failure.common() || failure.rank() == options_.rank;
  if (own) return End(TextError(failure.code(), failure.text()));
  absl::Status loss = MakeError(ErrorCode::kPeerLost, failure.text());
  const ErrorCode cause = CodeOf(failure.code());
  if (cause != ErrorCode::kPeerLost) {
    loss.SetPayload(kCauseName, absl::Cord(ErrorName(cause)));
  }
  End(loss);
}

// ---- Calls ------------------------------------------------------------------

void GrpcRendezvous::Impl::SayValue(bool gather, uint64_t call,
                                    const std::string& key,
                                    const std::string& value) {
  size_t from = 0;
  do {
    ToCoordinator message;
    Part* part = gather ? message.mutable_gather() : message.mutable_put();
    part->set_call(call);
    part->set_key(key);
    part->set_data(value.substr(from, kPartBytes));
    part->set_deadline_ns(options_.deadline_ns);
    from += part->data().size();
    part->set_last(from == value.size());
    Say(std::move(message));
  } while (from < value.size());
}

absl::StatusOr<std::map<uint32_t, std::string>> GrpcRendezvous::Impl::Await(
    uint64_t call, const std::string& key) {
  const auto done = [&] {
    const Call& c = calls_.at(call);
    return c.complete.size() == c.wanted || !c.failed.ok() ||
           !failure_locked().ok();
  };
  const bool in_time =
      WaitUntil(NowNs() + options_.deadline_ns + kMarginNs, done);
  Call c = std::move(calls_.at(call));
  calls_.erase(call);
  if (c.failed.ok() && c.complete.size() == c.wanted) {
    return std::move(c.values);
  }
  WEFT_RETURN_IF_ERROR(failure_locked());
  WEFT_RETURN_IF_ERROR(c.failed);
  if (!in_time) {
    End(MakeError(ErrorCode::kPeerLost,
                  absl::StrCat(Where(), " does not answer for '", key, "'")));
  }
  return failure_locked();
}

absl::StatusOr<std::vector<std::string>> GrpcRendezvous::Impl::AllGather(
    const std::string& key, const std::string& value) {
  MutexLock lock(&mu_);
  WEFT_RETURN_IF_ERROR(failure_locked());
  const uint64_t call = next_call_++;
  calls_[call].wanted = options_.ranks;
  SayValue(/*gather=*/true, call, key, value);
  WEFT_ASSIGN_OR_RETURN(auto by_rank, Await(call, key));
  std::vector<std::string> values(options_.ranks);
  for (auto& [rank, text] : by_rank) {
    if (rank < values.size()) values[rank] = std::move(text);
  }
  return values;
}

absl::Status GrpcRendezvous::Impl::Put(const std::string& key,
                                       const std::string& value) {
  MutexLock lock(&mu_);
  WEFT_RETURN_IF_ERROR(failure_locked());
  SayValue(/*gather=*/false, next_call_++, key, value);
  return absl::OkStatus();
}

absl::StatusOr<std::string> GrpcRendezvous::Impl::Get(const std::string& key) {
  MutexLock lock(&mu_);
  WEFT_RETURN_IF_ERROR(failure_locked());
  const uint64_t call = next_call_++;
  calls_[call].wanted = 1;
  ToCoordinator message;
  message.mutable_get()->set_call(call);
  message.mutable_get()->set_key(key);
  message.mutable_get()->set_deadline_ns(options_.deadline_ns);
  Say(std::move(message));
  WEFT_ASSIGN_OR_RETURN(auto values, Await(call, key));
  return values.begin()->second;
}

// ---- The end ----------------------------------------------------------------

absl::Status GrpcRendezvous::Impl::failure_locked() const {
  return ended_.ok() ? mine_ : ended_;
}

absl::Status GrpcRendezvous::Impl::failure() const {
  MutexLock lock(&mu_);
  return failure_locked();
}

void GrpcRendezvous::Impl::Fail(const absl::Status& cause) {
  MutexLock lock(&mu_);
  if (!mine_.ok()) return;
  mine_ = cause;
  late_ = !ended_.ok();
  changed_.NotifyAll();
  if (!ended_.ok() || leaving_) return;
  ToCoordinator message;
  rendezvous::Failure* failure = message.mutable_failure();
  failure->set_code(static_cast<uint32_t>(ErrorCodeOf(cause)));
  failure->set_text(std::string(cause.message()));
  failure->set_weak(IsOfAnotherRank(cause));
  Say(std::move(message));
}

absl::Status GrpcRendezvous::Impl::Verdict(const absl::Status& mine) {
  MutexLock lock(&mu_);
  // What fails after the end may fail because of it, or as the first did.
  if (!IsOfAnotherRank(mine) && (!late_ || told_ == ErrorCodeOf(mine))) {
    return mine;
  }
  WaitUntil(NowNs() + kLastWordNs, [this] { return !ended_.ok() || closed_; });
  if (!ended_.ok()) return ended_;
  return MakeError(ErrorCode::kPeerLost, mine.message());
}

void GrpcRendezvous::Impl::SetWake(std::function<void()> wake) {
  MutexLock lock(&wake_mu_);
  wake_ = std::move(wake);
  if (wake_ != nullptr && !failure().ok()) wake_();
}

absl::Status GrpcRendezvous::Impl::Leave() {
  MutexLock lock(&mu_);
  WEFT_RETURN_IF_ERROR(failure_locked());
  leaving_ = true;
  ToCoordinator message;
  message.mutable_bye();
  Say(std::move(message));
  WaitUntil(NowNs() + kLastWordNs, [this] { return farewell_ || closed_; });
  // Who is not needed any more does not mind how others end.
  return absl::OkStatus();
}

// The control thread: says that this rank lives, sees whether the coordinator
// does.
void GrpcRendezvous::Impl::Beats() {
  uint64_t last = NowNs();
  while (true) {
    bool ended = false;
    {
      MutexLock lock(&mu_);
      if (WaitUntil(last + beat_ns_, [this] { return stopping_; })) return;
      const uint64_t now = NowNs();
      // Time in which this process did not run was no silence of others.
      if (now - last > 2 * beat_ns_) heard_ += now - last - beat_ns_;
      last = now;
      if (state_ < State::kAccepted) continue;
      if (now >= heard_ + options_.silence_ns && !leaving_) {
        End(MakeError(ErrorCode::kPeerLost,
                      absl::StrFormat(
                          "%s is lost: it has been silent for %.3g s", Where(),
                          static_cast<double>(options_.silence_ns) * 1e-9)));
      }
      ended = !ended_.ok();
      // One that is not read is enough.
      if (out_.empty() && !ended && !leaving_) {
        ToCoordinator message;
        message.mutable_beat()->set_step(step_);
        message.mutable_beat()->set_act(Acts());
        Say(std::move(message));
      }
    }
    if (ended) Wake();
  }
}

// ---- The object -------------------------------------------------------------

absl::StatusOr<std::unique_ptr<GrpcRendezvous>> GrpcRendezvous::Connect(
    const RendezvousOptions& options) {
  const uint64_t until = NowNs() + options.join_ns + kMarginNs;
  while (true) {
    auto impl = std::make_unique<Impl>(options);
    const absl::Status status = impl->Connect(until);
    if (status.ok()) {
      return std::unique_ptr<GrpcRendezvous>(
          new GrpcRendezvous(std::move(impl)));
    }
    if (!impl->TooEarly() || NowNs() + kAgainNs >= until) return status;
    // Its launcher has not seen the end of the start before yet.
    impl.reset();
    std::this_thread::sleep_for(std::chrono::nanoseconds(kAgainNs));
  }
}

GrpcRendezvous::GrpcRendezvous(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
GrpcRendezvous::~GrpcRendezvous() = default;

uint32_t GrpcRendezvous::ranks() const { return impl_->ranks(); }
absl::StatusOr<std::vector<std::string>> GrpcRendezvous::AllGather(
    uint32_t /*rank*/, const std::string& key, const std::string& value) {
  return impl_->AllGather(key, value);
}
void GrpcRendezvous::Fail(uint32_t /*rank*/, const absl::Status& cause) {
  impl_->Fail(cause);
}
absl::Status GrpcRendezvous::failure() const { return impl_->failure(); }
absl::Status GrpcRendezvous::Verdict(uint32_t /*rank*/,
                                     const absl::Status& mine) {
  return impl_->Verdict(mine);
}
void GrpcRendezvous::SetWake(uint32_t /*rank*/, std::function<void()> wake) {
  impl_->SetWake(std::move(wake));
}
void GrpcRendezvous::SetActs(uint32_t /*rank*/,
                             std::function<uint64_t()> acts) {
  impl_->SetActs(std::move(acts));
}
void GrpcRendezvous::Report(uint32_t /*rank*/, uint64_t step) {
  impl_->Report(step);
}
absl::Status GrpcRendezvous::Put(const std::string& key,
                                 const std::string& value) {
  return impl_->Put(key, value);
}
absl::StatusOr<std::string> GrpcRendezvous::Get(const std::string& key) {
  return impl_->Get(key);
}
absl::Status GrpcRendezvous::Leave() { return impl_->Leave(); }

}  // namespace weft::runtime
