#include "transport/shm/os.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>
#include <system_error>

#include "plugins/sdk/weft_host.hpp"

namespace weft_shm {
namespace {

using weft_sdk::Error;

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr int kCollapse = 25;  // MADV_COLLAPSE, of Linux 6.1

[[noreturn]] void ThrowErrno(const std::string& what) {
  const bool full = errno == ENOMEM || errno == ENOSPC || errno == EFBIG;
  throw Error(full ? WEFT_OOM : WEFT_INTERNAL, WithErrno(what));
}

// fallocate would fill the machine before it fails.
void CheckPhysical(const std::string& what, uint64_t bytes) {
  const uint64_t pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (bytes / page < pages) return;
  throw Error(WEFT_OOM, what + ": " + std::to_string(bytes) +
                            " bytes are more than this machine has");
}

// No page is there yet; no seals.
Fd NewMemory(const std::string& name, uint64_t bytes) {
  CheckPhysical(name, bytes);
  Fd fd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) ThrowErrno(name + ": memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    ThrowErrno(name + ": ftruncate");
  }
  return fd;
}

// All pages are there.
void Fill(const std::string& name, const Fd& fd, uint64_t bytes) {
  int failed;
  do {
    failed = fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes));
  } while (failed != 0 && errno == EINTR);
  if (failed != 0) {
    ThrowErrno(name + ": " + std::to_string(bytes) + " bytes");
  }
}

// Before Fill: all that can be huge pages is, if the system will. It makes one
// of what has a page at least.
void FillHuge(const Fd& fd, const Mapping& mapping, uint64_t bytes) {
  const uint64_t whole = bytes & -kHugePage;
  for (uint64_t at = 0; at < whole; at += kHugePage) {
    if (fallocate(fd.get(), 0, static_cast<off_t>(at), 1) != 0) return;
  }
  if (whole != 0) madvise(mapping.base(), whole, kCollapse);
}

void Seal(const std::string& name, const Fd& fd, int seals) {
  if (fcntl(fd.get(), F_ADD_SEALS, seals | F_SEAL_SEAL) != 0) {
    ThrowErrno(name + ": F_ADD_SEALS");
  }
}

// Where a mapping of `bytes` may begin: anywhere, or, if it is large, at this
// place, which is kept for it.
Mapping PlaceFor(uint64_t bytes) {
  if (bytes < kHugePage) return Mapping();
  const uint64_t all = bytes + kHugePage;
  void* place = mmap(nullptr, all, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) ThrowErrno("mmap");
  char* const start = static_cast<char*>(place);
  const uint64_t skip = -reinterpret_cast<uintptr_t>(start) % kHugePage;
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t end = (skip + bytes + page - 1) & -page;
  if (skip != 0) munmap(start, skip);
  if (end != all) munmap(start + end, all - end);
  return Mapping(start + skip, bytes);
}

Mapping Map(const Fd& fd, uint64_t bytes, int protection) {
  Mapping place = PlaceFor(bytes);
  const int fixed = place.base() == nullptr ? 0 : MAP_FIXED;
  void* base =
      mmap(place.base(), bytes, protection, MAP_SHARED | fixed, fd.get(), 0);
  if (base == MAP_FAILED) ThrowErrno("mmap");
  return fixed != 0 ? std::move(place) : Mapping(base, bytes);
}

void CheckSize(const Fd& fd, uint64_t bytes) {
  const uint64_t has = SealedBytes(fd);
  if (has == bytes) return;
  throw Error(WEFT_INVALID, "shared memory of " + std::to_string(has) +
                                " bytes instead of " + std::to_string(bytes));
}

}  // namespace

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

Mapping::~Mapping() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

Fd NewSealed(const char* what, uint64_t bytes) {
  const std::string name = std::string("weft ") + what;
  Fd fd = NewMemory(name, bytes);
  Fill(name, fd, bytes);
  Seal(name, fd, kSizeSeals);
  return fd;
}

Own NewOwn(const char* what, uint64_t bytes, bool writable_by_all) {
  const std::string name = std::string("weft ") + what;
  Own own{NewMemory(name, bytes), {}};
  own.mapping = Map(own.fd, bytes, PROT_READ | PROT_WRITE);
  FillHuge(own.fd, own.mapping, bytes);
  Fill(name, own.fd, bytes);
  // What is mapped already stays writable.
  Seal(name, own.fd, kSizeSeals | (writable_by_all ? 0 : F_SEAL_FUTURE_WRITE));
  return own;
}

bool WritableByAll(const Fd& fd) {
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  return seals >= 0 && (seals & (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE)) == 0;
}

uint64_t SealedBytes(const Fd& fd) {
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  struct stat st;
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals ||
      fstat(fd.get(), &st) != 0) {
    throw Error(WEFT_INVALID, "a descriptor that is not sealed memory");
  }
  return static_cast<uint64_t>(st.st_size);
}

Mapping MapSealed(const Fd& fd, uint64_t bytes) {
  CheckSize(fd, bytes);
  return Map(fd, bytes, PROT_READ | PROT_WRITE);
}

Mapping MapToRead(const Fd& fd, uint64_t bytes) {
  CheckSize(fd, bytes);
  return Map(fd, bytes, PROT_READ);
}

Fd PeerProcess(const Fd& socket, bool* gone) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return Fd();
  }
  Fd process(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
  *gone = !process && errno == ESRCH;
  return process;
}

std::string WithErrno(const std::string& what) {
  return what + ": " + std::generic_category().message(errno);
}

std::string RandomHex(size_t bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  unsigned char raw[64];
  if (bytes > sizeof(raw) ||
      getrandom(raw, bytes, 0) != static_cast<ssize_t>(bytes)) {
    throw Error(WEFT_INTERNAL, WithErrno("getrandom"));
  }
  std::string hex;
  for (size_t i = 0; i < bytes; ++i) {
    hex += kDigits[raw[i] >> 4];
    hex += kDigits[raw[i] & 15];
  }
  return hex;
}

uint64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace weft_shm
