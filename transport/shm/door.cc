#include "transport/shm/door.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "plugins/sdk/weft_host.hpp"

namespace weft_shm {
namespace {

using weft_sdk::Error;

constexpr int kBacklog = 4096;
constexpr char kSocketName[] = "socket";

[[noreturn]] void Throw(const std::string& what) {
  throw Error(WEFT_INTERNAL, WithErrno(what));
}

sockaddr_un Address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    throw Error(WEFT_INTERNAL, path + " is too long for a socket");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// Of this user and of nobody else.
bool IsOwn(const std::string& dir) {
  struct stat st;
  return stat(dir.c_str(), &st) == 0 && S_ISDIR(st.st_mode) &&
         st.st_uid == geteuid() && (st.st_mode & 077) == 0;
}

std::string BaseDir(const std::string& option) {
  if (!option.empty()) return option;
  const std::string own = "/run/user/" + std::to_string(geteuid());
  return IsOwn(own) ? own : "/tmp";
}

// A directory that lasts as long as this.
class ShortDir {
 public:
  explicit ShortDir(const std::string& base)
      : path_(base + "/weft-shm-" + std::string(6, 'X')) {
    if (mkdtemp(path_.data()) == nullptr) Throw(path_);  // 0700
    fd_ = Fd(open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!fd_) {
      rmdir(path_.c_str());
      Throw(path_);
    }
  }
  ~ShortDir() {
    unlinkat(fd_.get(), kSocketName, 0);
    rmdir(path_.c_str());
  }
  ShortDir(const ShortDir&) = delete;
  ShortDir& operator=(const ShortDir&) = delete;

  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }

 private:
  std::string path_;
  Fd fd_;
};

std::optional<uint64_t> TakeNumber(std::string_view* text) {
  const size_t end = std::min(text->find(' '), text->size());
  const std::string digits(text->substr(0, end));
  if (digits.empty() || digits.size() > 18 ||
      digits.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  text->remove_prefix(std::min(end + 1, text->size()));
  return std::strtoull(digits.c_str(), nullptr, 10);
}

std::string Prefix(std::string_view kind) {
  return "shm " + std::string(kind) + " ";
}

}  // namespace

std::string DoorName::Text(std::string_view kind) const {
  return Prefix(kind) + std::to_string(pid) + " " + std::to_string(fd) + " " +
         std::to_string(id) + " " + token;
}

std::optional<DoorName> DoorName::Parse(std::string_view kind,
                                        std::string_view text) {
  const std::string prefix = Prefix(kind);
  if (text.substr(0, prefix.size()) != prefix) return std::nullopt;
  text.remove_prefix(prefix.size());
  DoorName name;
  for (uint64_t* field : {&name.pid, &name.fd, &name.id}) {
    const std::optional<uint64_t> number = TakeNumber(&text);
    if (!number.has_value()) return std::nullopt;
    *field = *number;
  }
  if (text.size() != kTokenChars ||
      text.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    return std::nullopt;
  }
  name.token = std::string(text);
  return name;
}

std::string DoorName::path() const {
  return "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
}

Fd NewSocket() {
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) Throw("socket");
  return fd;
}

Door::Door(const std::string& dir) : socket_(NewSocket()) {
  const ShortDir home(BaseDir(dir));
  // By the directory's descriptor: its path may be too long for an address.
  const sockaddr_un address =
      Address("/proc/self/fd/" + std::to_string(home.fd()) + "/" + kSocketName);
  if (fchmod(socket_.get(), 0600) != 0 ||
      bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address),
           sizeof(address)) != 0 ||
      listen(socket_.get(), kBacklog) != 0) {
    Throw("a socket in " + home.path());
  }
  file_ = Fd(openat(home.fd(), kSocketName, O_PATH | O_CLOEXEC | O_NOFOLLOW));
  if (!file_) Throw("a socket in " + home.path());
}

int Knock(const Fd& socket, const DoorName& name) {
  const sockaddr_un address = Address(name.path());
  return connect(socket.get(), reinterpret_cast<const sockaddr*>(&address),
                 sizeof(address)) == 0
             ? 0
             : errno;
}

bool SameUser(const Fd& socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == geteuid();
}

}  // namespace weft_shm
