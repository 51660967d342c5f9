// Descriptors, mappings and sealed memory, each let go by its owner's end.
//
//   Fd memory = NewSealed("segment", bytes);   // throws weft_sdk::Error
//   Mapping mapping = MapSealed(memory, bytes);
//   Own own = NewOwn("memory", bytes, false);  // writable here, nowhere else
//   Mapping theirs = MapToRead(fd, SealedBytes(fd));
//
// Memory that NewSealed or NewOwn made keeps its size for ever, and every page
// of it exists, so no access can raise a signal but a write to what is mapped
// to read. MapSealed and MapToRead believe nobody: they ask the kernel for size
// and seals.
//
// Threading: values. Depends on Linux.
#ifndef WEFT_TRANSPORT_SHM_OS_H_
#define WEFT_TRANSPORT_SHM_OS_H_

#include <cstdint>
#include <string>
#include <utility>

namespace weft_shm {

// Mappings of so many bytes and more begin at a multiple of it.
constexpr uint64_t kHugePage = uint64_t{2} << 20;

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

class Mapping {
 public:
  Mapping() = default;
  Mapping(void* base, uint64_t bytes)
      : base_(static_cast<char*>(base)), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  char* base() const { return base_; }
  template <typename T>
  T* At(uint64_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }

 private:
  char* base_ = nullptr;
  uint64_t bytes_ = 0;
};

// Zeroed memory without a name. WEFT_OOM where the machine has not so much.
Fd NewSealed(const char* what, uint64_t bytes);
// The same, mapped, in huge pages where it is large and the system gives them.
// Unless `writable_by_all`, nobody can map it to write any more, nor write to
// it in another way.
struct Own {
  Fd fd;
  Mapping mapping;
};
Own NewOwn(const char* what, uint64_t bytes, bool writable_by_all);
// What NewOwn was told.
bool WritableByAll(const Fd& fd);
// WEFT_INVALID where `fd` is not sealed memory of that size.
Mapping MapSealed(const Fd& fd, uint64_t bytes);
// `fd` need not be writable.
Mapping MapToRead(const Fd& fd, uint64_t bytes);
// Of sealed memory; throws where it is none.
uint64_t SealedBytes(const Fd& fd);

// The process at the other end of a connected local socket, to be watched: its
// descriptor can be read once the process has ended. None where the kernel has
// no such descriptor, or none left. Where the process is gone already, `*gone`.
Fd PeerProcess(const Fd& socket, bool* gone);

// "what: the system's words for errno".
std::string WithErrno(const std::string& what);
// So many bytes that nobody can guess, in hexadecimal.
std::string RandomHex(size_t bytes);
uint64_t NowNs();

}  // namespace weft_shm

#endif  // WEFT_TRANSPORT_SHM_OS_H_
