// Who stands at the other side in the tests of this transport: a process, a
// stranger with a bare socket, or a proxy that sees and keeps what passes.
//
// Threading: one thread for each object; a proxy has one of its own.
#ifndef WEFT_TRANSPORT_GRPC_OTHER_SIDE_H_
#define WEFT_TRANSPORT_GRPC_OTHER_SIDE_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "transport/testing/transport_test.h"

namespace weft {

// What a domain's address says.
struct Place {
  explicit Place(const std::string& address) {
    const std::vector<std::string> words = absl::StrSplit(address, ' ');
    EXPECT_EQ(words.size(), 3u) << address;
    token = words.at(2);
    EXPECT_TRUE(
        absl::SimpleAtoi(words.at(1).substr(words[1].rfind(':') + 1), &port))
        << address;
  }
  std::string AtPort(int other) const {
    return absl::StrCat("grpc 127.0.0.1:", other, " ", token);
  }

  std::string token;
  int port = 0;
};

inline sockaddr_in Loopback(int port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(static_cast<uint16_t>(port));
  return at;
}

// A connected socket; -1: nobody listens.
inline int Knock(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in at = Loopback(port);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) == 0) {
    return fd;
  }
  close(fd);
  return -1;
}

// Reads until the other side hangs up; false where it does not.
inline bool HangsUp(int fd) {
  char bytes[4096];
  pollfd p{fd, POLLIN, 0};
  while (poll(&p, 1, 10'000) > 0) {
    if (read(fd, bytes, sizeof(bytes)) <= 0) return true;
  }
  return false;
}

// This program again, as rank 0 of a world of two; see main in grpc_test.cc.
class OtherProcess {
 public:
  OtherProcess(const std::string& what, const std::string& job,
               const std::string& address) {
    std::string arguments[] = {"grpc_test", "--rank0", what, job, address};
    char* argv[] = {arguments[0].data(), arguments[1].data(),
                    arguments[2].data(), arguments[3].data(),
                    arguments[4].data(), nullptr};
    pid_ = fork();
    if (pid_ != 0) return;
    execv("/proc/self/exe", argv);
    _exit(127);
  }
  ~OtherProcess() { Kill(); }
  void Signal(int number) { kill(pid_, number); }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    Join();
  }
  int Join() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
};

// Stands before a port, lets all through and keeps what clients said.
class Proxy {
 public:
  explicit Proxy(int port) : to_(port) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at = Loopback(0);
    socklen_t size = sizeof(at);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size);
    port_ = ntohs(at.sin_port);
    EXPECT_EQ(pipe(wakeup_), 0);
    thread_ = std::thread([this] { Run(); });
  }
  ~Proxy() {
    Stop();
    for (const Wire& wire : wires_) {
      close(wire.client);
      close(wire.server);
    }
    for (int fd : {listener_, wakeup_[0], wakeup_[1]}) close(fd);
  }
  int port() const { return port_; }
  // Nothing passes any more, and nobody hears of it.
  void Stop() {
    if (!thread_.joinable()) return;
    EXPECT_EQ(write(wakeup_[1], "x", 1), 1);
    thread_.join();
  }
  // What each client said, in the order in which they came. After Stop.
  std::vector<std::string> said() const {
    std::vector<std::string> all;
    for (const Wire& wire : wires_) all.push_back(wire.said);
    return all;
  }

 private:
  struct Wire {
    int client, server;
    std::string said;
    bool open = true;
  };

  static bool Pass(int from, int to, std::string* said) {
    char bytes[16384];
    const ssize_t n = read(from, bytes, sizeof(bytes));
    if (n <= 0) return false;
    if (said != nullptr) said->append(bytes, static_cast<size_t>(n));
    for (ssize_t done = 0; done < n;) {
      const ssize_t sent =
          send(to, bytes + done, static_cast<size_t>(n - done), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      done += sent;
    }
    return true;
  }

  void Run() {
    while (true) {
      std::vector<pollfd> fds = {{wakeup_[0], POLLIN, 0},
                                 {listener_, POLLIN, 0}};
      for (const Wire& wire : wires_) {
        fds.push_back({wire.open ? wire.client : -1, POLLIN, 0});
        fds.push_back({wire.open ? wire.server : -1, POLLIN, 0});
      }
      poll(fds.data(), fds.size(), -1);
      if (fds[0].revents != 0) return;
      size_t i = 2;
      for (Wire& wire : wires_) {
        const bool client = fds[i++].revents != 0;
        const bool server = fds[i++].revents != 0;
        if ((client && !Pass(wire.client, wire.server, &wire.said)) ||
            (server && !Pass(wire.server, wire.client, nullptr))) {
          wire.open = false;
          shutdown(wire.client, SHUT_RDWR);
          shutdown(wire.server, SHUT_RDWR);
        }
      }
      if (fds[1].revents != 0) {
        const int client = accept(listener_, nullptr, nullptr);
        wires_.push_back({client, Knock(to_), {}});
      }
    }
  }

  const int to_;
  int listener_;
  int port_;
  int wakeup_[2];
  std::list<Wire> wires_;
  std::thread thread_;
};

inline TransportCase GrpcCase(const std::string& name,
                              const TransportCase::Options& options) {
  return {name, "grpc", "transport/grpc", options, nullptr};
}

class GrpcTest : public TransportTest {
 protected:
  static std::string Job() {
    return testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  // 3 MB to and fro.
  static void Exchange(Node& a, Node& b) {
    const std::string sent = Pattern(a.rank(), 3'000'000);
    std::string there(sent.size(), '\0'), back(100, '\0');
    const uint64_t large = b.Recv(a.rank(), 77, &there);
    const uint64_t small = a.Recv(b.rank(), 77, &back);
    const uint64_t going = a.Send(b.rank(), 77, sent);
    b.Send(a.rank(), 77, Pattern(7, 100), /*urgent=*/true);
    PumpThese({&a, &b},
              [&] { return b.done(large) && a.done(small) && a.done(going); });
    EXPECT_EQ(there, sent);
    EXPECT_EQ(back, Pattern(7, 100));
  }
  // Connects where `address` says; the error, where there is one.
  static absl::Status TryConnect(Node& a, Node& b, const std::string& address) {
    const size_t before = a.Count(TransportEventKind::kConnected);
    absl::StatusOr<uint64_t> ep = a.domain().Connect(b.rank(), address);
    if (!ep.ok()) return ep.status();
    PumpThese({&a, &b},
              [&] { return a.Count(TransportEventKind::kConnected) > before; });
    const absl::Status status = a.Last(TransportEventKind::kConnected)->status;
    if (status.ok()) {
      PumpThese({&a, &b}, [&] { return b.connected(a.rank()); });
    }
    return status;
  }
};

}  // namespace weft

#endif  // WEFT_TRANSPORT_GRPC_OTHER_SIDE_H_
