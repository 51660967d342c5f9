#include "transport/shm/block.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "plugins/sdk/weft_host.hpp"

namespace weft_shm {
namespace {

constexpr char kWhat[] = "memory";

// All that a mapping takes. No overflow of 64 bits, nor of off_t.
uint64_t WithPages(uint64_t bytes) {
  if (bytes > uint64_t{1} << 62) throw std::bad_alloc();
  const uint64_t page = bytes < kHugePage ? kPage : kHugePage;
  return (kPage + bytes + page - 1) & -page;
}

// Whether the descriptor is of sealed memory of this plugin, before it is
// opened: to open what else it may be now could block.
bool LooksLikeMemory(const std::string& path) {
  constexpr char kLink[] = "/memfd:weft memory";
  char link[sizeof(kLink) - 1];
  return readlink(path.c_str(), link, sizeof(link)) ==
             static_cast<ssize_t>(sizeof(link)) &&
         std::memcmp(link, kLink, sizeof(link)) == 0;
}

}  // namespace

Block::Block(const std::string& token, uint64_t id, uint64_t bytes,
             bool writable)
    : bytes_(bytes),
      own_(NewOwn(kWhat, WithPages(bytes), writable)),
      name_{static_cast<uint64_t>(getpid()),
            static_cast<uint64_t>(own_.fd.get()), token, id} {
  BlockPage& page = *own_.mapping.At<BlockPage>(0);
  std::memcpy(page.token, token.data(), kTokenChars);
  page.id = id;
  page.bytes = bytes;
}

Mapped::Mapped(const DoorName& name) {
  const weft_sdk::Error none(WEFT_INVALID,
                             "the memory of this key is not there (any more)");
  if (!LooksLikeMemory(name.path())) throw none;
  const Fd fd(open(name.path().c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) throw none;
  const uint64_t all = SealedBytes(fd);
  if (all < kPage) throw none;
  writable_ = WritableByAll(fd);
  mapping_ = writable_ ? MapSealed(fd, all) : MapToRead(fd, all);
  const BlockPage& page = *mapping_.At<BlockPage>(0);
  bytes_ = page.bytes;
  if (page.freed.load() != 0 || page.id != name.id || bytes_ == 0 ||
      bytes_ > all - kPage ||
      std::memcmp(page.token, name.token.data(), kTokenChars) != 0) {
    throw none;
  }
}

}  // namespace weft_shm
