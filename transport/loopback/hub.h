// Where the domains of this process find each other, and each other's memory.
//
// The hub has what an address or a key names, by a number that is never used
// twice. It owns neither: a domain that is gone, or memory that is freed, is
// not found any more. Job and epoch play no part here: whoever has an address
// reaches the domain, and the hello decides.
//
// Threading: thread-safe. One for the process; it is never destroyed.
#ifndef WEFT_TRANSPORT_LOOPBACK_HUB_H_
#define WEFT_TRANSPORT_LOOPBACK_HUB_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "plugins/abi/weft_transport.h"

namespace weft_loopback {

class LoopbackDomain;

// Memory of one domain; freed with the last pointer to it.
struct Block {
  Block(uint64_t owner, uint64_t bytes, bool writable);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  const uint64_t owner;  // id of the domain
  const uint64_t bytes;
  const bool writable;  // by others, who can write it in any case
  void* const host;     // zeroed
};

class Hub {
 public:
  static Hub& Get();

  // A number that nobody has yet: of a domain, an endpoint, a block.
  uint64_t NewId();

  void AddDomain(uint64_t id, const std::shared_ptr<LoopbackDomain>& domain);
  void RemoveDomain(uint64_t id);
  std::shared_ptr<LoopbackDomain> FindDomain(uint64_t id);

  void AddBlock(uint64_t id, const std::shared_ptr<Block>& block);
  void RemoveBlock(uint64_t id);
  std::shared_ptr<Block> FindBlock(uint64_t id);

  // "loopback KIND of PROCESS: ID", and back: nothing where it is not of this
  // process or not of this kind.
  std::string Name(std::string_view kind, uint64_t id) const;
  std::optional<uint64_t> Parse(std::string_view kind,
                                std::string_view name) const;

  // No other process, now or later, has the same.
  const std::string& process() const { return process_; }

 private:
  Hub();

  const std::string process_;
  std::mutex mu_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, std::weak_ptr<LoopbackDomain>> domains_;
  std::map<uint64_t, std::weak_ptr<Block>> blocks_;
};

}  // namespace weft_loopback

#endif  // WEFT_TRANSPORT_LOOPBACK_HUB_H_
