// Memory of one rank that its peers map.
//
//   Block block(token, id, bytes);          // the owner
//   std::string key = block.name().Text("memory");
//   Mapped mapped(*DoorName::Parse("memory", key));   // a peer
//
//   page 0         who made it: token, id, bytes; and whether it is freed
//   page 1 ...     the bytes, zeroed
//
// Unless peers are to write it, too, the owner alone can write either: a write
// of a peer to what it mapped is a fault (SIGSEGV), and the kernel lets it map
// nothing else. What peers write they can spoil, page 0 with it: that misleads
// who maps it later, never beyond the memory.
//
// From 2 MiB on a block lies in huge pages, where the system gives them.
//
// Threading: thread-compatible. The memory lasts until the last mapping ends.
#ifndef WEFT_TRANSPORT_SHM_BLOCK_H_
#define WEFT_TRANSPORT_SHM_BLOCK_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "transport/shm/door.h"
#include "transport/shm/layout.h"
#include "transport/shm/os.h"

namespace weft_shm {

struct BlockPage {
  char token[kTokenChars];
  uint64_t id;
  uint64_t bytes;
  std::atomic<uint32_t> freed;
};

class Block {
 public:
  // Throws weft_sdk::Error(WEFT_OOM).
  Block(const std::string& token, uint64_t id, uint64_t bytes, bool writable);
  // Mapped no more from now on.
  ~Block() { own_.mapping.At<BlockPage>(0)->freed.store(1); }

  void* host() const { return own_.mapping.base() + kPage; }
  uint64_t bytes() const { return bytes_; }
  const DoorName& name() const { return name_; }

 private:
  const uint64_t bytes_;
  Own own_;
  DoorName name_;
};

class Mapped {
 public:
  // Throws weft_sdk::Error(WEFT_INVALID) where nothing of that name is there.
  explicit Mapped(const DoorName& name);

  void* host() const { return mapping_.base() + kPage; }
  uint64_t bytes() const { return bytes_; }
  bool writable() const { return writable_; }

 private:
  bool writable_;
  Mapping mapping_;
  uint64_t bytes_;
};

}  // namespace weft_shm

#endif  // WEFT_TRANSPORT_SHM_BLOCK_H_
