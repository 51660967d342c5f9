// Bytes from one process to another: 64 MiB registers one way, and 8 bytes to
// and fro, each process on a core of its own.
//
//   transfer tcp                        a loopback TCP connection, bare
//   transfer stream                     gRPC as it comes: a stream of messages
//                                       of one field of bytes, one a tensor
//   transfer tcp bulk                   the registers alone
//   transfer plugin=bazel-bin/transport/grpc/libweft_grpc.so
//                                       two ranks over a transport plugin
//
// The other process is made before anything else is begun.
#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "benchmarks/plugin.h"
#include "benchmarks/result.h"
#include "benchmarks/transport/tensor.grpc.pb.h"
#include "plugins/host/plugin.h"
#include "plugins/host/transport.h"

namespace weft::benchmarks {
namespace {

constexpr size_t kRegister = size_t{64} << 20;
constexpr int kRegisters = 4;
constexpr size_t kSmall = 8;
constexpr int kTrips = 2000;
constexpr int kRepetitions = 9;

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "transfer: %s\n", why.c_str());
  std::exit(1);
}

template <typename T>
T Value(absl::StatusOr<T> result) {
  if (!result.ok()) Die(result.status().ToString());
  return *std::move(result);
}

void Good(const absl::Status& status) {
  if (!status.ok()) Die(status.ToString());
}

std::vector<std::string> Registers() {
  return std::vector<std::string>(kRegisters, std::string(kRegister, 'x'));
}

// What the two processes can do with each other.
class Pair {
 public:
  virtual ~Pair() = default;
  // All registers one way; returns once the other side has them.
  virtual void Bulk() = 0;
  // 8 bytes there and back.
  virtual void Trip() = 0;
};

void Report(const std::string& name, bool bulk_only, Pair* pair) {
  const double bytes = double{kRegister} * kRegisters;
  std::vector<double> rates;
  for (const double ns : Measure(
           kRepetitions, [&] { pair->Bulk(); }, 1)) {
    rates.push_back(bytes / ns);
  }
  PrintResult("transport", name, "64 MiB registers", rates, "GB/s");
  if (bulk_only) return;
  const std::vector<double> trips = Measure(
      kRepetitions,
      [&] {
        for (int i = 0; i < kTrips; ++i) pair->Trip();
      },
      2.0 * kTrips);
  PrintResult("transport", name, "8 bytes, one way", trips, "ns");
}

// ---- Sockets ---------------------------------------------------------------

void WriteAll(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = write(fd, data, size);
    if (n <= 0) Die("write failed");
    data += n;
    size -= static_cast<size_t>(n);
  }
}

bool ReadAll(int fd, char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = read(fd, data, size);
    if (n <= 0) return false;
    data += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

class TcpPair : public Pair {
 public:
  explicit TcpPair(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(port));
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) {
      Die("connect failed");
    }
  }
  void Bulk() override {
    WriteAll(fd_, "b", 1);
    for (const std::string& from : registers_) {
      WriteAll(fd_, from.data(), from.size());
    }
    char done;
    if (!ReadAll(fd_, &done, 1)) Die("the other side is gone");
  }
  void Trip() override {
    char bytes[kSmall] = {'s'};
    WriteAll(fd_, bytes, kSmall);
    if (!ReadAll(fd_, bytes, kSmall)) Die("the other side is gone");
  }

  // The other side, at a socket that listens.
  static void Serve(int listener) {
    const int fd = accept(listener, nullptr, nullptr);
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    std::vector<std::string> registers = Registers();
    char what;
    char rest[kSmall];
    while (ReadAll(fd, &what, 1)) {
      if (what == 's') {
        ReadAll(fd, rest, kSmall - 1);
        WriteAll(fd, rest, kSmall);
        continue;
      }
      for (std::string& to : registers) ReadAll(fd, to.data(), to.size());
      WriteAll(fd, "d", 1);
    }
  }

 private:
  const int fd_;
  const std::vector<std::string> registers_ = Registers();
};

void RunTcp(bool bulk_only, const std::function<bool()>& other) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  if (bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0 ||
      listen(listener, 1) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size) != 0) {
    Die("cannot listen");
  }
  if (other()) return TcpPair::Serve(listener);
  TcpPair pair(ntohs(at.sin_port));
  Report("loopback TCP", bulk_only, &pair);
}

// ---- gRPC as it comes ------------------------------------------------------

class TensorsService : public Tensors::Service {
  grpc::Status Send(grpc::ServerContext*,
                    grpc::ServerReaderWriter<Tensor, Tensor>* stream) override {
    Tensor message;
    int left = kRegisters;
    while (stream->Read(&message)) {
      // The register is the message's own bytes: not even a copy.
      if (message.data().size() == kRegister && --left != 0) continue;
      left = kRegisters;
      message.mutable_data()->resize(kSmall);
      stream->Write(message);
    }
    return grpc::Status::OK;
  }
};

class StreamPair : public Pair {
 public:
  explicit StreamPair(int port) {
    grpc::ChannelArguments args;
    args.SetMaxReceiveMessageSize(-1);
    stub_ = Tensors::NewStub(
        grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port),
                                  grpc::InsecureChannelCredentials(), args));
    stream_ = stub_->Send(&context_);
    large_.set_data(std::string(kRegister, 'x'));
    small_.set_data(std::string(kSmall, 'x'));
  }
  ~StreamPair() override {
    stream_->WritesDone();
    stream_->Finish();
  }
  void Bulk() override {
    for (int i = 0; i < kRegisters; ++i) stream_->Write(large_);
    if (!stream_->Read(&answer_)) Die("the other side is gone");
  }
  void Trip() override {
    stream_->Write(small_);
    if (!stream_->Read(&answer_)) Die("the other side is gone");
  }

 private:
  std::unique_ptr<Tensors::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<Tensor, Tensor>> stream_;
  Tensor large_, small_, answer_;
};

// `tell` hands the address to the other process, `hear` waits for it.
void RunStream(bool bulk_only, const std::function<bool()>& other,
               const std::function<void(const std::string&)>& tell,
               const std::function<std::string()>& hear) {
  if (!other()) {
    StreamPair pair(std::stoi(hear()));
    return Report("gRPC stream, a message a tensor", bulk_only, &pair);
  }
  TensorsService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.SetMaxReceiveMessageSize(-1);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  tell(std::to_string(port));
  server->Wait();
}

// ---- A transport plugin ----------------------------------------------------

class Rank : public Pair {
 public:
  Rank(const Plugin& plugin, uint32_t rank)
      : registers_(Registers()), small_(kSmall, 'x') {
    DomainConfig config;
    config.rank = rank;
    config.world = 2;
    config.job = "transfer";
    config.secret = Secret::Of("of this benchmark");
    domain_ = Value(Value(Transport::Create(plugin)).Open(config));
  }
  std::string Listen() { return Value(domain_->Listen()); }
  void Connect(const std::string& address) {
    Good(domain_->Connect(1, address).status());
  }
  void AwaitConnection() {
    while (ep_ == 0) Pump();
  }

  void Bulk() override {
    for (int i = 0; i < kRegisters; ++i) {
      std::string& from = registers_[static_cast<size_t>(i)];
      Post(domain_->PostSend(ep_, Tag(i), from.data(), kRegister, 0));
    }
    while (under_way_ != 0) Pump();
  }
  void Trip() override {
    Post(domain_->PostRecv(ep_, 0, small_.data(), kSmall, 0));
    Post(domain_->PostSend(ep_, 0, "control", kSmall, 0, /*urgent=*/true));
    while (under_way_ != 0) Pump();
  }
  // The other side of both, for ever: a RECV is posted again when it completes.
  void Serve() {
    for (int i = 0; i < kRegisters; ++i) PostRegister(i);
    Post(domain_->PostRecv(ep_, 0, small_.data(), kSmall, 0));
    while (!down_) Pump();
  }

 private:
  static uint64_t Tag(int i) { return static_cast<uint64_t>(i) + 1; }
  void Post(absl::StatusOr<bool> posted) {
    if (!Value(std::move(posted))) Die("no room");
    ++under_way_;
  }
  void PostRegister(int i) {
    Post(domain_->PostRecv(ep_, Tag(i),
                           registers_[static_cast<size_t>(i)].data(), kRegister,
                           /*cookie=*/1));
  }
  void Pump() {
    TransportEvent events[16];
    const size_t count = Value(domain_->Poll(absl::MakeSpan(events)));
    for (size_t i = 0; i < count; ++i) Take(events[i]);
    if (count == 0) Value(domain_->Wait(1'000'000'000));
  }
  void Take(const TransportEvent& event) {
    switch (event.kind) {
      case TransportEventKind::kAccepted:
      case TransportEventKind::kConnected:
        Good(event.status);
        ep_ = event.endpoint;
        return;
      case TransportEventKind::kEndpointDown:
        down_ = true;
        return;
      case TransportEventKind::kCompleted:
        --under_way_;
        if (domain_->rank() == 1 && !event.is_send && event.status.ok()) {
          Answer(event);
        }
        return;
      default:
        Die("an event that nobody expects");
    }
  }
  void Answer(const TransportEvent& event) {
    if (event.tag != 0) return PostRegister(static_cast<int>(event.tag) - 1);
    Post(domain_->PostRecv(ep_, 0, small_.data(), kSmall, 0));
    Post(domain_->PostSend(ep_, 0, "control", kSmall, 0, /*urgent=*/true));
  }

  std::unique_ptr<Domain> domain_;
  std::vector<std::string> registers_;
  std::string small_;
  uint64_t ep_ = 0;
  int under_way_ = 0;
  bool down_ = false;
};

void RunPlugin(const std::string& path, bool bulk_only,
               const std::function<bool()>& other,
               const std::function<void(const std::string&)>& tell,
               const std::function<std::string()>& hear) {
  const bool serves = other();
  const Plugin& plugin = LoadPlugin(path);
  Rank rank(plugin, serves ? 1 : 0);
  if (serves) {
    tell(rank.Listen());
    rank.AwaitConnection();
    return rank.Serve();
  }
  rank.Connect(hear());
  rank.AwaitConnection();
  Report("plugin " + std::string(plugin.name()), bulk_only, &rank);
}

int Main(int argc, char** argv) {
  const bool bulk_only = argc == 3 && std::string(argv[2]) == "bulk";
  if (argc != 2 && !bulk_only) Die("say tcp, stream or plugin=FILE");
  const std::string what = argv[1];
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) Die("no pipe");
  pid_t child = 0;
  // True in the other process, which ends with this one.
  const auto other = [&] {
    child = fork();
    Pin(child == 0 ? 1 : 0);
    return child == 0;
  };
  const auto tell = [&](const std::string& text) {
    WriteAll(pipe_ends[1], text.data(), text.size());
  };
  const auto hear = [&] {
    std::string text(512, '\0');
    const ssize_t n = read(pipe_ends[0], text.data(), text.size());
    return text.substr(0, n < 0 ? 0 : static_cast<size_t>(n));
  };
  if (what == "tcp") {
    RunTcp(bulk_only, other);
  } else if (what == "stream") {
    RunStream(bulk_only, other, tell, hear);
  } else if (absl::StartsWith(what, "plugin=")) {
    RunPlugin(what.substr(std::strlen("plugin=")), bulk_only, other, tell,
              hear);
  } else {
    Die("say tcp, stream or plugin=FILE");
  }
  if (child > 0) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  return 0;
}

}  // namespace
}  // namespace weft::benchmarks

int main(int argc, char** argv) { return weft::benchmarks::Main(argc, argv); }
