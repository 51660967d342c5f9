#include "runtime/rendezvous/meeting_point.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "runtime/pool/thread.h"

namespace weft::runtime {
namespace {

// How long one that asked may take to take the answer.
constexpr int kTakeMs = 1000;
constexpr int kBacklog = 256;
constexpr int64_t kFirstPauseNs = 1'000'000;
constexpr int64_t kLongestPauseNs = 50'000'000;

class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

absl::Status FromErrno(absl::string_view what) {
  const int error = errno;
  const ErrorCode code = error == EMFILE || error == ENFILE
                             ? ErrorCode::kNoDescriptor
                             : ErrorCode::kBadLaunch;
  return MakeError(
      code, absl::StrCat("the meeting point of the ranks: cannot ", what, ": ",
                         std::generic_category().message(error)));
}

// Names of users and jobs may be long: their hash is not.
socklen_t AddressOf(const std::string& name, sockaddr_un* address) {
  const std::string id =
      absl::StrCat("weft-", geteuid(), "-",
                   Sha256Hex(absl::StrCat("meeting ", name)).substr(0, 32));
  std::memset(address, 0, sizeof(*address));
  address->sun_family = AF_UNIX;
  // The zero before it makes it abstract.
  std::memcpy(address->sun_path + 1, id.data(), id.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                id.size());
}

bool IsMine(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == geteuid();
}

class Answering : public MeetingPoint {
 public:
  Answering(Socket socket, Socket stop, Secret note)
      : socket_(std::move(socket)),
        stop_(std::move(stop)),
        note_(std::move(note)) {}

  ~Answering() override {
    const uint64_t one = 1;
    // An eventfd takes it, always.
    if (write(stop_.get(), &one, sizeof(one)) < 0) return;
    thread_.Join();
  }

  absl::Status Start() {
    WEFT_ASSIGN_OR_RETURN(thread_,
                          Thread::Start("weft-meeting", [this] { Answer(); }));
    return absl::OkStatus();
  }

 private:
  void Answer() {
    while (true) {
      pollfd both[2] = {{stop_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
      if (poll(both, 2, -1) < 0 && errno != EINTR) return;
      if (both[0].revents != 0) return;
      if (both[1].revents == 0) continue;
      Socket one(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (one.get() < 0) {
        // Out of descriptors: some will be closed.
        std::this_thread::sleep_for(std::chrono::nanoseconds(kFirstPauseNs));
        continue;
      }
      if (!IsMine(one.get())) continue;
      // A note is smaller than a socket's buffer: this does not wait.
      send(one.get(), note_.view().data(), note_.size(),
           MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }

  const Socket socket_;
  const Socket stop_;
  const Secret note_;
  Thread thread_;
};

// The note, empty where there was none within `ms` of the last that came.
absl::StatusOr<Secret> Take(int fd, int ms) {
  constexpr size_t kRoom = MeetingPoint::kMaxNote + 1;
  Secret note = Secret::Fill(kRoom, [fd, ms](char* to) {
    size_t size = 0;
    while (size < kRoom) {
      pollfd one = {fd, POLLIN, 0};
      const int ready = poll(&one, 1, ms);
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) return size_t{0};
      const ssize_t got = read(fd, to + size, kRoom - size);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return size_t{0};
      if (got == 0) break;
      size += static_cast<size_t>(got);
    }
    return size;
  });
  if (note.size() < kRoom) return note;
  return MakeError(ErrorCode::kPeerRefused,
                   "the meeting point of the ranks answers with no note");
}

}  // namespace

absl::StatusOr<std::unique_ptr<MeetingPoint>> MeetingPoint::Open(
    const std::string& name, const Secret& note) {
  if (note.empty() || note.size() > kMaxNote) {
    return MakeError(
        ErrorCode::kBadLaunch,
        absl::StrCat("what the meeting point of the ranks is to tell has ",
                     note.size(), " bytes, expected 1 to ", kMaxNote,
                     ": a secret that is too long?"));
  }
  Socket listener(
      socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (listener.get() < 0) return FromErrno("make a socket");
  sockaddr_un address;
  const socklen_t size = AddressOf(name, &address);
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) {
    if (errno != EADDRINUSE) return FromErrno("bind");
    return MakeError(
        ErrorCode::kBadLaunch,
        absl::StrCat("another process is rank 0 of job '", name,
                     "' on this host already: two jobs with one name, or two "
                     "ranks 0"));
  }
  if (listen(listener.get(), kBacklog) != 0) return FromErrno("listen");
  Socket stop(eventfd(0, EFD_CLOEXEC));
  if (stop.get() < 0) return FromErrno("make an eventfd");
  auto point =
      std::make_unique<Answering>(std::move(listener), std::move(stop), note);
  WEFT_RETURN_IF_ERROR(point->Start());
  return std::unique_ptr<MeetingPoint>(std::move(point));
}

absl::StatusOr<Secret> MeetingPoint::Ask(const std::string& name,
                                         uint64_t deadline_ns) {
  sockaddr_un address;
  const socklen_t size = AddressOf(name, &address);
  const int64_t begin = RealClock().MonotonicNs();
  const int64_t longest =
      static_cast<int64_t>(std::min<uint64_t>(deadline_ns, uint64_t{1} << 60));
  for (int64_t pause = kFirstPauseNs;;
       pause = std::min(2 * pause, kLongestPauseNs)) {
    // Who does not answer may have many that wait: no call waits for him.
    Socket socket(
        ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket.get() < 0) return FromErrno("make a socket");
    if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), size) ==
        0) {
      if (!IsMine(socket.get())) {
        return MakeError(ErrorCode::kPeerRefused,
                         "the meeting point of the ranks is another user's");
      }
      const int64_t left_ms =
          (begin + longest - RealClock().MonotonicNs()) / 1'000'000 + 1;
      WEFT_ASSIGN_OR_RETURN(
          Secret note, Take(socket.get(), static_cast<int>(std::clamp<int64_t>(
                                              left_ms, 1, kTakeMs))));
      if (!note.empty()) return note;
    } else if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR) {
      return FromErrno("connect");
    }
    // Nothing tells when a name comes to be.
    const int64_t left = begin + longest - RealClock().MonotonicNs();
    if (left <= 0) break;
    std::this_thread::sleep_for(
        std::chrono::nanoseconds(std::min(pause, left)));
  }
  return MakeError(
      ErrorCode::kPeerLost,
      absl::StrCat("rank 0 of job '", name, "' did not open its meeting point ",
                   "on this host within ", longest / 1'000'000'000, " s"));
}

}  // namespace weft::runtime
