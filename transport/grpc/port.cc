// Ports: the thread, the server and the channels behind them. See stream.h.
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <climits>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "transport/grpc/call.h"

namespace weft_grpc {
namespace {

// How much a stream may have on its way to somebody who does not read.
constexpr int kWindow = 4 << 20;
constexpr int kFrame = 1 << 20;
constexpr int kReadChunk = 64 << 10;
// What a stream takes before it has gone out, so that the next chunk is there
// when the network takes more.
constexpr int kWriteBuffer = 4 << 20;
constexpr uint64_t kLingerNs = 1'000'000;

// What client and server have to agree on is set once, here. gRPC's own
// keepalive is off at both ends, since the connections have heartbeats of their
// own; pings of its flow control are never taken for too many.
template <typename SetInt>
void SetCommon(const PortSettings& settings, SetInt set) {
  const int handshake = static_cast<int>(settings.handshake_ms);
  set(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, static_cast<int>(kMaxMessage));
  set(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1);
  set(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrame);
  set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindow);
  set(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, kWriteBuffer);
  set(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  set(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  set(GRPC_ARG_KEEPALIVE_TIME_MS, INT_MAX);
  set(GRPC_ARG_TCP_READ_CHUNK_SIZE, kReadChunk);
  set(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kReadChunk);
  set(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  set(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  set(GRPC_ARG_ENABLE_CHANNELZ, 0);
  set(GRPC_ARG_MAX_CHANNEL_TRACE_EVENT_MEMORY_PER_NODE, 0);
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, handshake);
  set(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, handshake);
}

std::string Bracketed(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

// What gRPC has to say of strangers is no news, and whose connections fail is
// told by events. Who asks gRPC for more than errors (GRPC_VERBOSITY) hears it.
void Quiet() {
  if (gpr_should_log(GPR_LOG_SEVERITY_INFO)) return;
  gpr_set_log_function([](gpr_log_func_args*) {});
}

// gRPC's own threads and descriptors go with the last port of the process.
class Library {
 public:
  Library() {
    grpc_init();
    Quiet();
  }
  ~Library() { grpc_shutdown_blocking(); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
};

class GrpcPort final : public Port, public CallOwner {
 public:
  GrpcPort(PortOwner* owner, const PortSettings& settings)
      : owner_(owner),
        settings_(settings),
        queue_(builder_.AddCompletionQueue()),
        thread_([this] { Run(); }) {}

  ~GrpcPort() override {
    {
      std::unique_lock<std::mutex> lock(mu_);
      stopping_ = true;
      for (Call* call : calls_) call->Cancel();
    }
    if (server_ != nullptr) {
      server_->Shutdown(gpr_time_0(GPR_CLOCK_MONOTONIC));
    }
    {
      std::unique_lock<std::mutex> lock(mu_);
      none_.wait(lock, [this] { return calls_.empty(); });
    }
    queue_->Shutdown();
    thread_.join();
  }

  int Listen(const std::string& host, int port) override {
    int bound = 0;
    grpc::ServerBuilder& b = builder_;
    b.AddListeningPort(Bracketed(host) + ":" + std::to_string(port),
                       ServerCredentials(), &bound);
    SetCommon(settings_, [&b](const char* key, int value) {
      b.AddChannelArgument(key, value);
    });
    b.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    // Of one connection.
    b.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1);
    // Nobody calls there, or whoever did was turned out. Not shorter: a rank
    // may be stopped between its first packet and its call.
    b.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                         static_cast<int>(settings_.handshake_ms));
    b.RegisterAsyncGenericService(&service_);
    server_ = b.BuildAndStart();
    if (server_ == nullptr || bound == 0) return 0;
    Await();
    return bound;
  }

  std::shared_ptr<Stream> Dial(const std::string& host, int port,
                               const std::string& peer_name,
                               StreamUser* user) override {
    grpc::ChannelArguments args;
    SetCommon(settings_,
              [&args](const char* key, int value) { args.SetInt(key, value); });
    args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    args.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    if (settings_.tls()) args.SetSslTargetNameOverride(peer_name);
    const bool six = host.find(':') != std::string::npos;
    std::shared_ptr<grpc::Channel> channel = grpc::CreateCustomChannel(
        std::string(six ? "ipv6:" : "ipv4:") + Bracketed(host) + ":" +
            std::to_string(port),
        ChannelCredentials(), args);
    auto call = std::make_shared<ClientCall>(this, channel, queue_.get());
    call->set_user(user);
    Enter(call);
    call->Start();
    return call;
  }

 private:
  class AcceptTag final : public Tag {
   public:
    explicit AcceptTag(GrpcPort* port) : port_(port) {}
    void Run(bool ok) override { port_->Accepted(ok); }

   private:
    GrpcPort* const port_;
  };

  std::shared_ptr<grpc::ServerCredentials> ServerCredentials() const {
    if (!settings_.tls()) return grpc::InsecureServerCredentials();
    grpc::SslServerCredentialsOptions options(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = settings_.ca;
    options.pem_key_cert_pairs = {{settings_.key, settings_.certificate}};
    return grpc::SslServerCredentials(options);
  }

  std::shared_ptr<grpc::ChannelCredentials> ChannelCredentials() const {
    if (!settings_.tls()) return grpc::InsecureChannelCredentials();
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = settings_.ca;
    options.pem_private_key = settings_.key;
    options.pem_cert_chain = settings_.certificate;
    return grpc::SslCredentials(options);
  }

  // False: the port goes, and the call has ended before it started.
  bool Enter(const std::shared_ptr<Call>& call) {
    call->KeepAlive(call);
    std::lock_guard<std::mutex> lock(mu_);
    calls_.insert(call.get());
    if (stopping_) call->Cancel();
    return !stopping_;
  }

  void Await() {
    next_ = std::make_shared<ServerCall>(this);
    next_->Await(&service_, queue_.get(), &accept_tag_);
  }

  void Accepted(bool ok) {
    std::shared_ptr<ServerCall> call = std::move(next_);
    if (!ok) return;
    if (Enter(call)) {
      call->Start();
      owner_->OnCall(call);
      Await();
    }
    // Not sooner: the queue is not shut down before the call is over.
    call->Back();
  }

  void Over(Call* call) override {
    lingering_.erase(call);
    const std::shared_ptr<Call> last = call->LetGo();
    std::lock_guard<std::mutex> lock(mu_);
    calls_.erase(call);
    if (calls_.empty()) none_.notify_all();
  }
  void Linger(Call* call) override { lingering_.insert(call); }

  void Run() {
    uint64_t next = UINT64_MAX;  // when to tick, on gRPC's clock
    void* tag;
    bool ok;
    while (true) {
      uint64_t until = next;
      if (!lingering_.empty()) until = std::min(until, Now() + kLingerNs);
      const auto status = queue_->AsyncNext(&tag, &ok, At(until));
      if (status == grpc::CompletionQueue::SHUTDOWN) return;
      if (status == grpc::CompletionQueue::GOT_EVENT) {
        static_cast<Tag*>(tag)->Run(ok);
      }
      if (!lingering_.empty()) {
        const std::set<Call*> lingering = std::exchange(lingering_, {});
        for (Call* call : lingering) call->Look();
      }
      if (next != UINT64_MAX && Now() < next) continue;
      const uint64_t in = owner_->OnTick();
      next = in == UINT64_MAX ? in : Now() + in;
    }
  }

  static uint64_t Now() {
    const gpr_timespec now = gpr_now(GPR_CLOCK_MONOTONIC);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
  }
  static gpr_timespec At(uint64_t ns) {
    if (ns == UINT64_MAX) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    gpr_timespec at;
    at.tv_sec = static_cast<int64_t>(ns / 1'000'000'000);
    at.tv_nsec = static_cast<int32_t>(ns % 1'000'000'000);
    at.clock_type = GPR_CLOCK_MONOTONIC;
    return at;
  }

  const Library library_;  // the last to go
  PortOwner* const owner_;
  const PortSettings settings_;
  grpc::ServerBuilder builder_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  AcceptTag accept_tag_{this};
  std::shared_ptr<ServerCall> next_;  // whom somebody may call
  std::set<Call*> lingering_;         // of the port's thread

  std::mutex mu_;
  std::condition_variable none_;
  bool stopping_ = false;
  std::set<Call*> calls_;

  std::thread thread_;
};

}  // namespace

std::unique_ptr<Port> Port::Open(PortOwner* owner,
                                 const PortSettings& settings) {
  return std::make_unique<GrpcPort>(owner, settings);
}

}  // namespace weft_grpc
