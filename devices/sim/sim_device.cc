#include "devices/sim/sim_device.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

namespace weft_sim {
namespace {

using weft_sdk::Error;

// What fresh memory holds: a NaN pattern in every float type.
constexpr unsigned char kPoison = 0xFF;

uint64_t ParseCount(std::string_view key, std::string_view value) {
  uint64_t n = 0;
  const char* end = value.data() + value.size();
  auto [stop, error] = std::from_chars(value.data(), end, n);
  if (error != std::errc() || stop != end) {
    throw Error(WEFT_INVALID, "option '" + std::string(key) + "': '" +
                                  std::string(value) + "' is not a number");
  }
  return n;
}

}  // namespace

bool Options::Set(std::string_view key, std::string_view value) {
  if (key == "tier") {
    if (value != "T0" && value != "T1") {
      throw Error(WEFT_INVALID, "option 'tier': '" + std::string(value) +
                                    "' is neither T0 nor T1");
    }
    computes = value == "T1";
    return true;
  }
  const std::pair<std::string_view, uint64_t*> counts[] = {
      {"memory_bytes", &memory_bytes},
      {"delay_us", &delay_us},
      {"fault_at_launch", &fault_at_launch},
      {"fault_at_copy", &fault_at_copy},
      {"fail_alloc_at", &fail_alloc_at},
      {"lose_device_at", &lose_device_at}};
  for (const auto& [name, field] : counts) {
    if (key != name) continue;
    *field = ParseCount(key, value);
    return true;
  }
  return false;
}

// ---- Memory ----------------------------------------------------------------

Block::Block(uint64_t size)
    : bytes(size), data(new char[std::max<uint64_t>(size, 1)]) {
  std::memset(data.get(), kPoison, size);
}

Operand::Operand(std::shared_ptr<Block> block, uint64_t offset)
    : block_(std::move(block)), address_(block_->data.get() + offset) {
  ++block_->pending;
}

Operand::~Operand() {
  if (block_ != nullptr) --block_->pending;
}

weft_mem Device::Allocate(uint64_t bytes) {
  CheckAlive();
  if (Hit(&allocations_, options_.fail_alloc_at)) {
    throw Error(WEFT_OOM, "allocation " +
                              std::to_string(options_.fail_alloc_at) +
                              " fails on request");
  }
  std::lock_guard<std::mutex> lock(mu_);
  if (bytes > options_.memory_bytes ||
      in_use_ > options_.memory_bytes - bytes) {
    throw Error(WEFT_OOM, std::to_string(bytes) +
                              " bytes do not fit: " + std::to_string(in_use_) +
                              " of " + std::to_string(options_.memory_bytes) +
                              " are in use");
  }
  auto block = std::make_shared<Block>(bytes);
  in_use_ += bytes;
  peak_ = std::max(peak_, in_use_);
  blocks_[next_id_] = std::move(block);
  return next_id_++;
}

void Device::Free(weft_mem mem) {
  std::lock_guard<std::mutex> lock(mu_);
  auto it = blocks_.find(mem);
  if (it == blocks_.end()) {
    throw Error(WEFT_INVALID, "memory is unknown or already freed");
  }
  if (it->second->pending.load() != 0) {
    throw Error(WEFT_INVALID, "memory is freed before its work is done");
  }
  in_use_ -= it->second->bytes;
  blocks_.erase(it);
}

Operand Device::Resolve(const weft_place& place, uint64_t bytes) {
  if (place.mem == 0) {
    if (place.host == nullptr && bytes != 0) {
      throw Error(WEFT_INVALID, "a place with neither memory nor a pointer");
    }
    return Operand(place.host);
  }
  if (place.host != nullptr) {
    throw Error(WEFT_INVALID, "a place with both memory and a pointer");
  }
  std::lock_guard<std::mutex> lock(mu_);
  auto it = blocks_.find(place.mem);
  if (it == blocks_.end()) {
    throw Error(WEFT_INVALID, "memory is unknown or already freed");
  }
  const uint64_t size = it->second->bytes;
  if (place.offset > size || bytes > size - place.offset) {
    throw Error(WEFT_RANGE, "bytes " + std::to_string(place.offset) + " + " +
                                std::to_string(bytes) +
                                " of an allocation of " + std::to_string(size) +
                                " bytes");
  }
  return Operand(it->second, place.offset);
}

weft_mem_info Device::Usage() {
  std::lock_guard<std::mutex> lock(mu_);
  weft_mem_info info{};
  info.bytes_in_use = in_use_;
  info.peak_bytes = peak_;
  info.allocations = blocks_.size();
  return info;
}

size_t Device::LiveBlocks() {
  std::lock_guard<std::mutex> lock(mu_);
  return blocks_.size();
}

void Device::CheckAlive() const {
  if (lost_.load()) throw Error(WEFT_DEVICE_LOST, "the device was lost");
}

void Device::CountWork() {
  if (Hit(&works_, options_.lose_device_at)) lost_.store(true);
}

// ---- Progress --------------------------------------------------------------

void Progress::Complete(uint64_t tick) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    done_.store(tick, std::memory_order_release);
  }
  changed_.notify_all();
}

void Progress::Poison(weft_code code, const std::string& message) {
  std::lock_guard<std::mutex> lock(mu_);
  if (code_ != WEFT_OK) return;  // the first fault is the cause
  code_ = code;
  message_ = message;
  poisoned_.store(true, std::memory_order_release);
}

bool Progress::WaitFor(uint64_t tick, std::optional<uint64_t> timeout_ns) {
  std::unique_lock<std::mutex> lock(mu_);
  auto reached = [&] { return done_.load() >= tick; };
  if (!timeout_ns.has_value()) {
    changed_.wait(lock, reached);
    return true;
  }
  // Beyond a century it is no time but a wish.
  const uint64_t most = uint64_t{3} * 1000000000000000000;
  return changed_.wait_for(
      lock, std::chrono::nanoseconds(std::min(*timeout_ns, most)), reached);
}

void Progress::Check() {
  if (!poisoned()) return;
  std::lock_guard<std::mutex> lock(mu_);
  throw Error(code_, message_);
}

// ---- Stream ----------------------------------------------------------------

Stream::Stream(Device* device, uint64_t notify_token)
    : device_(device),
      notify_token_(notify_token),
      progress_(std::make_shared<Progress>()) {
  // The thread inherits the mask: signals are for the host's own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { Loop(); });
  } catch (const std::system_error& e) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw Error(WEFT_AGAIN,
                std::string("no thread for the stream: ") + e.what());
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "weft-sim");
  ++device_->handles;
}

Stream::~Stream() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
  --device_->handles;
}

void Stream::Push(Item item) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    queue_.push_back(std::move(item));
  }
  changed_.notify_all();
}

void Stream::Submit(std::function<void()> work) {
  Push({std::move(work), /*always=*/false});
}

void Stream::SubmitAlways(std::function<void()> action) {
  Push({std::move(action), /*always=*/true});
}

uint64_t Stream::Mark() {
  const uint64_t tick = ++marked_;
  SubmitAlways([this, tick] {
    progress_->Complete(tick);
    weft_sdk::Host::Notify(notify_token_);
  });
  return tick;
}

void Stream::CheckMarked(uint64_t tick) const {
  if (tick > marked_.load()) {
    throw Error(WEFT_INVALID, "a tick that was never marked");
  }
}

void Stream::Loop() {
  while (true) {
    Item item;
    {
      std::unique_lock<std::mutex> lock(mu_);
      changed_.wait(lock, [&] { return !queue_.empty() || closing_; });
      if (queue_.empty()) return;
      item = std::move(queue_.front());
      queue_.pop_front();
    }
    Run(item);
  }
}

void Stream::Run(const Item& item) {
  if (!item.always) {
    device_->CountWork();
    const uint64_t delay = device_->options().delay_us;
    if (delay != 0)
      std::this_thread::sleep_for(std::chrono::microseconds(delay));
  }
  if (device_->lost()) {
    progress_->Poison(WEFT_DEVICE_LOST, "the device was lost");
  }
  if (!item.always && progress_->poisoned()) return;
  try {
    item.run();
  } catch (const Error& e) {
    progress_->Poison(e.code(), e.what());
  } catch (const std::exception& e) {
    progress_->Poison(WEFT_INTERNAL, e.what());
  }
}

}  // namespace weft_sim
