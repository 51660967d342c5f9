// A device in software that behaves like an accelerator far away: memory that
// the host cannot reach, queues that run behind the caller's back, ticks that
// complete later, and faults on demand.
//
// A stream is a queue and one thread. Work holds on to the memory it uses, so a
// plan that frees memory too early is told so (WEFT_INVALID) instead of reading
// somebody else's bytes.
//
// Faults: after one, the rest of the stream's work is skipped while its ticks
// complete and its signals are given; poll and wait return the error. A lost
// device does so on every stream.
//
// Threading: Device is thread-safe. Calls that submit to a Stream must not
// overlap; Done and Wait may come from any thread.
#ifndef WEFT_DEVICES_SIM_SIM_DEVICE_H_
#define WEFT_DEVICES_SIM_SIM_DEVICE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "plugins/sdk/weft_plugin.hpp"

namespace weft_sim {

// Options of device_open, all optional. The counts are of the device's life and
// begin at 1; 0 is never.
struct Options {
  bool computes = true;  // tier = "T0" | "T1"
  uint64_t memory_bytes = uint64_t{1} << 32;
  uint64_t delay_us = 0;         // before each piece of work
  uint64_t fault_at_launch = 0;  // the nth launch to run fails
  uint64_t fault_at_copy = 0;    // the nth copy to run fails
  uint64_t fail_alloc_at = 0;    // the nth allocation is out of memory, once
  uint64_t lose_device_at = 0;   // the device is lost at the nth piece of work

  // False: no such key. Throws WEFT_INVALID on a bad value.
  bool Set(std::string_view key, std::string_view value);
};

// Bytes that only this plugin can address.
struct Block {
  explicit Block(uint64_t bytes);

  const uint64_t bytes;
  const std::unique_ptr<char[]> data;
  std::atomic<uint64_t> pending{0};  // pieces of work that use it
};

// One operand of a piece of work: keeps its block until the work is done.
class Operand {
 public:
  Operand() = default;  // an absent one
  explicit Operand(void* host) : address_(static_cast<char*>(host)) {}
  Operand(std::shared_ptr<Block> block, uint64_t offset);
  Operand(Operand&& other) noexcept = default;
  Operand& operator=(Operand&&) = delete;
  ~Operand();

  char* address() const { return address_; }

 private:
  std::shared_ptr<Block> block_;
  char* address_ = nullptr;
};

class Device {
 public:
  explicit Device(const Options& options) : options_(options) {}

  weft_mem Allocate(uint64_t bytes);
  void Free(weft_mem mem);
  // Throws WEFT_INVALID for unknown memory, WEFT_RANGE beyond its end.
  Operand Resolve(const weft_place& place, uint64_t bytes);
  weft_mem_info Usage();

  // Throws WEFT_DEVICE_LOST after the loss.
  void CheckAlive() const;
  bool lost() const { return lost_.load(); }

  const Options& options() const { return options_; }
  // What the nth launch, copy or piece of work meets; counted here.
  bool NextLaunchFails() { return Hit(&launches_, options_.fault_at_launch); }
  bool NextCopyFails() { return Hit(&copies_, options_.fault_at_copy); }
  // Loses the device where it is time to.
  void CountWork();

  // Open streams and kernels.
  std::atomic<uint64_t> handles{0};
  // Allocations, for device_close.
  size_t LiveBlocks();

 private:
  static bool Hit(std::atomic<uint64_t>* counter, uint64_t at) {
    return counter->fetch_add(1) + 1 == at;
  }

  const Options options_;
  std::atomic<bool> lost_{false};
  std::atomic<uint64_t> launches_{0};
  std::atomic<uint64_t> copies_{0};
  std::atomic<uint64_t> allocations_{0};
  std::atomic<uint64_t> works_{0};

  std::mutex mu_;
  std::unordered_map<weft_mem, std::shared_ptr<Block>> blocks_;
  weft_mem next_id_ = 0x1000;  // small: as an address it would fault
  uint64_t in_use_ = 0;
  uint64_t peak_ = 0;
};

// What a stream has done; other streams and the host wait on it. Outlives the
// stream where another one still waits.
class Progress {
 public:
  void Complete(uint64_t tick);
  void Poison(weft_code code, const std::string& message);
  uint64_t done() const { return done_.load(std::memory_order_acquire); }
  // Waits until `tick` is done; false after the time. Forever: nothing.
  bool WaitFor(uint64_t tick, std::optional<uint64_t> timeout_ns);
  // Throws the stream's error, if it has one.
  void Check();
  bool poisoned() const { return poisoned_.load(std::memory_order_acquire); }

 private:
  std::atomic<uint64_t> done_{0};
  std::atomic<bool> poisoned_{false};
  std::mutex mu_;
  std::condition_variable changed_;
  weft_code code_ = WEFT_OK;
  std::string message_;
};

class Stream {
 public:
  Stream(Device* device, uint64_t notify_token);
  ~Stream();  // drains

  // Runs later, in order. Skipped after a fault; what it throws is one.
  void Submit(std::function<void()> work);
  // Runs later, in order, fault or not.
  void SubmitAlways(std::function<void()> action);
  uint64_t Mark();
  // Throws WEFT_INVALID for a tick that was never marked.
  void CheckMarked(uint64_t tick) const;

  Device* device() const { return device_; }
  const std::shared_ptr<Progress>& progress() const { return progress_; }

 private:
  struct Item {
    std::function<void()> run;
    bool always;
  };
  void Push(Item item);
  void Loop();
  void Run(const Item& item);

  Device* const device_;
  const uint64_t notify_token_;
  const std::shared_ptr<Progress> progress_;
  std::atomic<uint64_t> marked_{0};
  std::mutex mu_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  bool closing_ = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace weft_sim

#endif  // WEFT_DEVICES_SIM_SIM_DEVICE_H_
