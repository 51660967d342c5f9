#include "transport/loopback/hub.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>

#include "transport/loopback/domain.h"

namespace weft_loopback {
namespace {

constexpr uint64_t kAlignment = 64;

void* Obtain(uint64_t bytes) {
  void* host = nullptr;
  if (bytes <= PTRDIFF_MAX - kAlignment) {
    host = std::aligned_alloc(kAlignment,
                              (bytes + kAlignment - 1) & ~(kAlignment - 1));
  }
  if (host == nullptr) throw std::bad_alloc();
  std::memset(host, 0, bytes);
  return host;
}

std::string ThisProcess() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::to_string(getpid()) + "-" + std::to_string(now.count());
}

template <typename T>
std::shared_ptr<T> Find(const std::map<uint64_t, std::weak_ptr<T>>& map,
                        uint64_t id) {
  auto it = map.find(id);
  return it == map.end() ? nullptr : it->second.lock();
}

}  // namespace

Block::Block(uint64_t owner, uint64_t bytes, bool writable)
    : owner(owner), bytes(bytes), writable(writable), host(Obtain(bytes)) {}

Block::~Block() { std::free(host); }

Hub::Hub() : process_(ThisProcess()) {}

Hub& Hub::Get() {
  static Hub* hub = new Hub;
  return *hub;
}

uint64_t Hub::NewId() {
  std::lock_guard<std::mutex> lock(mu_);
  return ++last_id_;
}

void Hub::AddDomain(uint64_t id,
                    const std::shared_ptr<LoopbackDomain>& domain) {
  std::lock_guard<std::mutex> lock(mu_);
  domains_[id] = domain;
}

void Hub::RemoveDomain(uint64_t id) {
  std::lock_guard<std::mutex> lock(mu_);
  domains_.erase(id);
}

std::shared_ptr<LoopbackDomain> Hub::FindDomain(uint64_t id) {
  std::lock_guard<std::mutex> lock(mu_);
  return Find(domains_, id);
}

void Hub::AddBlock(uint64_t id, const std::shared_ptr<Block>& block) {
  std::lock_guard<std::mutex> lock(mu_);
  blocks_[id] = block;
}

void Hub::RemoveBlock(uint64_t id) {
  std::lock_guard<std::mutex> lock(mu_);
  blocks_.erase(id);
}

std::shared_ptr<Block> Hub::FindBlock(uint64_t id) {
  std::lock_guard<std::mutex> lock(mu_);
  return Find(blocks_, id);
}

std::string Hub::Name(std::string_view kind, uint64_t id) const {
  return "loopback " + std::string(kind) + " of " + process_ + ": " +
         std::to_string(id);
}

std::optional<uint64_t> Hub::Parse(std::string_view kind,
                                   std::string_view name) const {
  const std::string prefix =
      "loopback " + std::string(kind) + " of " + process_ + ": ";
  if (name.substr(0, prefix.size()) != prefix) return std::nullopt;
  const std::string_view digits = name.substr(prefix.size());
  if (digits.empty() || digits.size() > 18 ||
      digits.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  return std::strtoull(std::string(digits).c_str(), nullptr, 10);
}

}  // namespace weft_loopback
