#include "runtime/rendezvous/coordinator.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <deque>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "runtime/bus/futex_word.h"
#include "runtime/pool/thread.h"
#include "runtime/rendezvous/grpc_log.h"
#include "runtime/rendezvous/host_port.h"
#include "runtime/rendezvous/meeting.h"
#include "runtime/rendezvous/rendezvous.grpc.pb.h"

namespace weft::runtime {
namespace {

using rendezvous::ToCoordinator;
using rendezvous::ToRank;

// A hello with its facts, or a part of a value.
constexpr int kMaxMessageBytes = 2 * static_cast<int>(kPartBytes);
// How long connections have to end when the coordinator does.
constexpr auto kShutdown = std::chrono::milliseconds(200);

}  // namespace

class Coordinator::Impl : public Meeting::Outlet {
 public:
  static absl::StatusOr<std::unique_ptr<Impl>> Start(
      const CoordinatorOptions& options) {
    WEFT_ASSIGN_OR_RETURN(
        const HostPort at,
        ParseHostPort("the coordinator's address", options.listen, 0));
    const bool loopback = IsLoopback(at.host);
    if (!loopback && options.secret.empty()) {
      return MakeError(
          ErrorCode::kBadLaunch,
          absl::StrCat("the coordinator would listen on ", options.listen,
                       ", where others than this host reach it, and the job "
                       "has no secret to tell them from its ranks"));
    }
    // Ranks of other hosts are to come.
    if (!loopback) WEFT_RETURN_IF_ERROR(OutsideAddresses(at.host).status());
    std::unique_ptr<Impl> impl(new Impl(options, loopback));
    WEFT_RETURN_IF_ERROR(impl->Listen(at.host));
    return impl;
  }

  ~Impl() override {
    {
      MutexLock lock(&mu_);
      ending_ = true;
      changed_.NotifyAll();
    }
    timer_.reset();  // joins it
    if (server_ != nullptr) {
      server_->Shutdown(std::chrono::system_clock::now() + kShutdown);
      server_->Wait();
    }
    // Connections go by themselves, the last of them when it has said so.
    MutexLock lock(&mu_);
    while (!connections_.empty()) {
      changed_.WaitFor(&mu_, std::chrono::seconds(1));
    }
  }

  const std::string& address() const { return address_; }

  std::optional<JobFailure> failure() const {
    MutexLock lock(&mu_);
    return meeting_.failure();
  }

  std::vector<RankProgress> progress() const {
    MutexLock lock(&mu_);
    return meeting_.progress();
  }

  void Fail(uint32_t rank, const absl::Status& cause) {
    Do([&](uint64_t) { meeting_.Fail(rank, cause); });
  }

  bool WaitForEnd(uint64_t timeout_ns) {
    const uint64_t until = NowNs() + timeout_ns;
    MutexLock lock(&mu_);
    while (!meeting_.over()) {
      const uint64_t now = NowNs();
      if (now >= until) return false;
      changed_.WaitFor(&mu_, std::chrono::nanoseconds(until - now));
    }
    return true;
  }

 private:
  class Connection;
  class Service;

  Impl(const CoordinatorOptions& options, bool loopback)
      : options_(options), meeting_(Quiet(), loopback, this, NowNs()) {}

  // What the meeting is told: whom to call is ours, who holds no lock then.
  CoordinatorOptions Quiet() const {
    CoordinatorOptions quiet = options_;
    quiet.on_failure = nullptr;
    return quiet;
  }

  absl::Status Listen(const std::string& host);
  void Tick();

  // Does something with the meeting, then tells who waits.
  template <typename Function>
  void Do(Function function) {
    std::optional<JobFailure> failure;
    {
      MutexLock lock(&mu_);
      function(NowNs());
      changed_.NotifyAll();
      if (!told_ && meeting_.failure().has_value()) {
        told_ = true;
        failure = meeting_.failure();
      }
    }
    if (failure.has_value() && options_.on_failure) {
      options_.on_failure(*failure);
    }
  }

  // Meeting::Outlet: under mu_.
  void Send(uint64_t visitor, ToRank message) override;
  void Close(uint64_t visitor) override;

  const CoordinatorOptions options_;
  std::string address_;
  mutable Mutex mu_;
  CondVar changed_;
  Meeting meeting_ WEFT_GUARDED_BY(mu_);
  std::map<uint64_t, Connection*> connections_ WEFT_GUARDED_BY(mu_);
  uint64_t next_visitor_ WEFT_GUARDED_BY(mu_) = 1;
  bool told_ WEFT_GUARDED_BY(mu_) = false;
  bool ending_ WEFT_GUARDED_BY(mu_) = false;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::optional<Thread> timer_;
};

// One stream. It deletes itself when gRPC is done with it.
class Coordinator::Impl::Connection
    : public grpc::ServerBidiReactor<ToCoordinator, ToRank> {
 public:
  Connection(Impl* impl, uint64_t visitor) : impl_(*impl), visitor_(visitor) {}

  void Listen() { StartRead(&in_); }

  void Send(ToRank message) {
    MutexLock lock(&mu_);
    if (closing_) return;
    out_.push_back(std::move(message));
    if (out_.size() == 1) StartWrite(&out_.front());
  }

  void Close() {
    MutexLock lock(&mu_);
    closing_ = true;
    FinishIfIdle();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Ended();
    impl_.Do([this](uint64_t now) { impl_.meeting_.Hear(visitor_, in_, now); });
    in_.Clear();
    StartRead(&in_);
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&mu_);
    out_.pop_front();
    if (!ok) {
      closing_ = true;
      out_.clear();
    }
    if (!out_.empty()) return StartWrite(&out_.front());
    FinishIfIdle();
  }

  void OnCancel() override { Ended(); }

  void OnDone() override {
    impl_.Do([this](uint64_t) { impl_.connections_.erase(visitor_); });
    delete this;
  }

 private:
  void Ended() {
    impl_.Do([this](uint64_t now) { impl_.meeting_.Left(visitor_, now); });
    Close();
  }

  void FinishIfIdle() WEFT_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!closing_ || finished_ || !out_.empty()) return;
    finished_ = true;
    Finish(grpc::Status::OK);
  }

  Impl& impl_;
  const uint64_t visitor_;
  ToCoordinator in_;
  Mutex mu_;
  std::deque<ToRank> out_ WEFT_GUARDED_BY(mu_);  // the first is on its way
  bool closing_ WEFT_GUARDED_BY(mu_) = false;
  bool finished_ WEFT_GUARDED_BY(mu_) = false;
};

class Coordinator::Impl::Service : public rendezvous::Meeting::CallbackService {
 public:
  explicit Service(Impl* impl) : impl_(*impl) {}

  grpc::ServerBidiReactor<ToCoordinator, ToRank>* Join(
      grpc::CallbackServerContext* /*context*/) override {
    Connection* connection = nullptr;
    impl_.Do([&](uint64_t now) {
      const uint64_t visitor = impl_.next_visitor_++;
      connection = new Connection(&impl_, visitor);
      impl_.connections_[visitor] = connection;
      impl_.meeting_.Arrive(visitor, now);
    });
    connection->Listen();
    return connection;
  }

 private:
  Impl& impl_;
};

void Coordinator::Impl::Send(uint64_t visitor, ToRank message) {
  auto at = connections_.find(visitor);
  if (at != connections_.end()) at->second->Send(std::move(message));
}

void Coordinator::Impl::Close(uint64_t visitor) {
  auto at = connections_.find(visitor);
  if (at != connections_.end()) at->second->Close();
}

absl::Status Coordinator::Impl::Listen(const std::string& host) {
  QuietGrpc();
  service_ = std::make_unique<Service>(this);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options_.listen, grpc::InsecureServerCredentials(),
                           &port);
  // Else a second coordinator would share the port of the first unseen.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // A rank has one. What strangers have costs them a connection each.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0) {
    return MakeError(
        ErrorCode::kBadLaunch,
        absl::StrCat("the coordinator cannot listen on ", options_.listen,
                     ": another process does, or it is no address of host ",
                     HostName()));
  }
  address_ = JoinHostPort(IsAnyAddress(host) ? "127.0.0.1" : host, port);
  WEFT_ASSIGN_OR_RETURN(timer_,
                        Thread::Start("weft-coord", [this] { Tick(); }));
  return absl::OkStatus();
}

void Coordinator::Impl::Tick() {
  while (true) {
    Do([&](uint64_t now) { meeting_.OnTime(now); });
    MutexLock lock(&mu_);
    while (!ending_) {
      const uint64_t now = NowNs();
      const uint64_t due = meeting_.due();
      if (now >= due) break;
      changed_.WaitFor(&mu_, std::chrono::nanoseconds(due - now));
    }
    if (ending_) return;
  }
}

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(
    const CoordinatorOptions& options) {
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Impl> impl, Impl::Start(options));
  return std::unique_ptr<Coordinator>(new Coordinator(std::move(impl)));
}

Coordinator::Coordinator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Coordinator::~Coordinator() = default;

const std::string& Coordinator::address() const { return impl_->address(); }
std::optional<JobFailure> Coordinator::failure() const {
  return impl_->failure();
}
void Coordinator::Fail(uint32_t rank, const absl::Status& cause) {
  impl_->Fail(rank, cause);
}
std::vector<RankProgress> Coordinator::progress() const {
  return impl_->progress();
}
bool Coordinator::WaitForEnd(uint64_t timeout_ns) {
  return impl_->WaitForEnd(timeout_ns);
}

}  // namespace weft::runtime
