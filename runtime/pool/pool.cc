#include "runtime/pool/pool.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "glog/logging.h"

namespace weft::runtime {
namespace {

// Chunks for each thread: enough that one slow thread costs a few percent.
constexpr uint64_t kChunksPerThread = 8;
// A sleep without end, in a form that no clock overflows.
constexpr uint64_t kForever = uint64_t{3600} * 1000000000u;

// Looks at `wanted` for up to `spin_ns`; true as soon as it holds.
template <class F>
bool Spin(uint64_t spin_ns, F wanted) {
  if (wanted()) return true;
  if (spin_ns == 0) return false;
  const uint64_t end = NowNs() + spin_ns;
  do {
    for (int i = 0; i < 32; ++i) {
      CpuRelax();
      if (wanted()) return true;
    }
  } while (NowNs() < end);
  return false;
}

}  // namespace

ThreadPool::ThreadPool(const Options& options) : spin_ns_(options.spin_ns) {
  for (uint32_t i = 1; i < options.threads; ++i) {
    absl::Status started = StartHelper(i, options);
    if (started.ok()) continue;
    LOG(WARNING) << "kernels have " << threads() << " threads instead of "
                 << options.threads << ": " << started.message();
    break;
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_seq_cst);
  for (auto& helper : helpers_) helper->word.Post();
  for (auto& helper : helpers_) helper->thread.Join();
}

// A helper looks at its own record and the loop's state, never at helpers_:
// that may still grow while it runs.
absl::Status ThreadPool::StartHelper(uint32_t number, const Options& options) {
  auto helper = std::make_unique<Helper>();
  auto body = [this, number, self = helper.get(), start = options.on_start] {
    if (start) start(number);
    Serve(self);
  };
  WEFT_ASSIGN_OR_RETURN(
      helper->thread, Thread::Start(absl::StrCat("weft-pool-", number), body));
  helpers_.push_back(std::move(helper));
  return absl::OkStatus();
}

void ThreadPool::Serve(Helper* helper) {
  uint64_t last = 0;
  auto wanted = [this, &last] {
    return stop_.load(std::memory_order_relaxed) || Wanted(last);
  };
  while (!stop_.load(std::memory_order_acquire)) {
    Join(&last);
    if (Spin(spin_ns_, wanted)) continue;
    uint32_t seen = helper->word.Announce();
    if (!stop_.load(std::memory_order_seq_cst) && !Wanted(last)) {
      helper->word.SleepFor(seen, kForever);
    }
    helper->word.Awake();
  }
}

bool ThreadPool::Wanted(uint64_t last) const {
  uint64_t state = state_.load(std::memory_order_seq_cst);
  return (state & kOpen) != 0 && state / kOneLoop != last;
}

void ThreadPool::Join(uint64_t* last) {
  uint64_t state = state_.load(std::memory_order_relaxed);
  do {
    if ((state & kOpen) == 0 || state / kOneLoop == *last) return;
  } while (!state_.compare_exchange_weak(
      state, state + 1, std::memory_order_acq_rel, std::memory_order_relaxed));
  *last = state / kOneLoop;
  Work();
  state = state_.fetch_sub(1, std::memory_order_seq_cst) - 1;
  // Where the loop is closed, its caller may be asleep. It may also be gone by
  // now and another one here: that one looks again and goes on.
  if ((state & (kOpen | kInside)) == 0) done_.Post();
}

void ThreadPool::Work() {
  const Loop loop = loop_;
  while (true) {
    uint64_t c = next_.fetch_add(1, std::memory_order_relaxed);
    if (c >= loop.chunks) return;
    uint64_t begin = c * loop.chunk;
    uint64_t end = begin + std::min(loop.chunk, loop.n - begin);
    for (uint64_t i = begin; i < end; ++i) loop.fn(loop.arg, i);
  }
}

void ThreadPool::ParallelFor(uint64_t n, Fn fn, void* arg) {
  if (n <= 1 || helpers_.empty() ||
      taken_.exchange(true, std::memory_order_acquire)) {
    if (n > 1 && !helpers_.empty()) {
      serial_loops_.fetch_add(1, std::memory_order_relaxed);
    }
    for (uint64_t i = 0; i < n; ++i) fn(arg, i);
    return;
  }
  const uint64_t most = threads() * kChunksPerThread;
  loop_.fn = fn;
  loop_.arg = arg;
  loop_.n = n;
  loop_.chunk = n / most + (n % most != 0 ? 1 : 0);
  loop_.chunks = n / loop_.chunk + (n % loop_.chunk != 0 ? 1 : 0);
  next_.store(0, std::memory_order_relaxed);
  // Nobody is inside and nobody enters a closed loop: a plain store.
  uint64_t number = state_.load(std::memory_order_relaxed) / kOneLoop + 1;
  if (number == kOneLoop) number = 1;  // 0 is "none yet"
  state_.store(number * kOneLoop | kOpen, std::memory_order_seq_cst);
  uint64_t wake = std::min<uint64_t>(helpers_.size(), loop_.chunks - 1);
  for (uint64_t i = 0; i < wake; ++i) helpers_[i]->word.Post();
  Work();
  WaitForHelpers();
  taken_.store(false, std::memory_order_release);
}

void ThreadPool::WaitForHelpers() {
  state_.fetch_and(~kOpen, std::memory_order_seq_cst);
  auto alone = [this] {
    return (state_.load(std::memory_order_seq_cst) & kInside) == 0;
  };
  while (!Spin(spin_ns_, alone)) {
    uint32_t seen = done_.Announce();
    if (!alone()) done_.SleepFor(seen, kForever);
    done_.Awake();
  }
}

uint64_t ThreadPool::sleeps() const {
  uint64_t sum = 0;
  for (const auto& helper : helpers_) sum += helper->word.sleeps();
  return sum;
}

}  // namespace weft::runtime
