// How processes of one user reach what another one holds open, by no name in
// the file system: a descriptor N of process PID is /proc/PID/fd/N, and gone
// when that process closes it or ends, however it ends.
//
//   Door door(options.dir);                       // listens
//   DoorName name{getpid(), door.number(), token, 0};
//   std::string address = name.Text("rank");
//   ... the peer:
//   DoorName::Parse("rank", address) -> name;  Knock(socket, name)
//
// The numbers may mean something else by then: the token decides, which the
// other side shows (a hello, a page of memory). It is 128 random bits.
//
// Threading: values.
#ifndef WEFT_TRANSPORT_SHM_DOOR_H_
#define WEFT_TRANSPORT_SHM_DOOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "transport/shm/os.h"

namespace weft_shm {

constexpr size_t kTokenBytes = 16;
constexpr size_t kTokenChars = 2 * kTokenBytes;

struct DoorName {
  uint64_t pid = 0;
  uint64_t fd = 0;
  std::string token;
  uint64_t id = 0;

  std::string Text(std::string_view kind) const;
  static std::optional<DoorName> Parse(std::string_view kind,
                                       std::string_view text);
  std::string path() const;
};

// A listening socket whose file is gone already.
class Door {
 public:
  // Its file is made for a moment in a new directory under `dir`; empty: the
  // user's run-time directory, else /tmp. Throws weft_sdk::Error.
  explicit Door(const std::string& dir);

  int socket() const { return socket_.get(); }
  // The descriptor that leads here.
  int number() const { return file_.get(); }

 private:
  Fd socket_;
  Fd file_;
};

// A socket that is not connected yet.
Fd NewSocket();
// 0, or errno: EAGAIN where the door is crowded.
int Knock(const Fd& socket, const DoorName& name);
// Whether the other side is a process of this user.
bool SameUser(const Fd& socket);

}  // namespace weft_shm

#endif  // WEFT_TRANSPORT_SHM_DOOR_H_
