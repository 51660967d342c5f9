#include "transport/loopback/mailbox.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <tuple>
#include <utility>

namespace weft_loopback {
namespace {

// The next of a sequence of numbers that look random.
uint64_t NextRandom(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// What an event that stays in the mailbox keeps behind it.
class Blocks {
 public:
  bool Blocked(const TransportEvent& e) const {
    if (e.ep == 0) return false;  // REFUSED: of no endpoint
    // EP_DOWN is the last. (Nothing is posted before the first one is polled.)
    if (e.kind != WEFT_EVENT_COMPLETED) return any_.count(e.ep) != 0;
    return lanes_.count({e.ep, e.tag, e.op_kind}) != 0;
  }
  void Add(const TransportEvent& e) {
    any_.insert(e.ep);
    if (e.kind == WEFT_EVENT_COMPLETED) {
      lanes_.insert({e.ep, e.tag, e.op_kind});
    }
  }

 private:
  std::set<weft_endpoint> any_;
  std::set<std::tuple<weft_endpoint, uint64_t, uint32_t>> lanes_;
};

}  // namespace

uint64_t Mailbox::Delay() {
  return NextRandom(&seed_) % (uint64_t{delay_max_} + 1);
}

bool Mailbox::Push(TransportEvent&& event, bool urgent) {
  std::lock_guard<ShortMutex> lock(mu_);
  if (delay_max_ != 0) {
    held_.push_back({std::move(event), polls_ + 1 + Delay()});
  } else {
    (urgent ? urgent_ : usual_).push_back(std::move(event));
  }
  if (waiters_ != 0) more_.notify_all();
  return armed_.exchange(false);
}

void Mailbox::WriteQueue(weft_sdk::Fifo<TransportEvent>* queue,
                         weft_sdk::EventWriter* writer) {
  while (!queue->empty() && !writer->full()) {
    writer->Write(queue->front());
    queue->pop_front();
  }
}

void Mailbox::WriteHeld(weft_sdk::EventWriter* writer) {
  Blocks blocks;
  for (auto it = held_.begin(); it != held_.end() && !writer->full();) {
    if (it->release <= polls_ && !blocks.Blocked(it->event)) {
      writer->Write(it->event);
      it = held_.erase(it);
    } else {
      blocks.Add(it->event);
      ++it;
    }
  }
}

void Mailbox::Poll(weft_sdk::EventWriter* writer) {
  if (armed_.load()) return;
  bool again;
  {
    std::lock_guard<ShortMutex> lock(mu_);
    ++polls_;
    WriteQueue(&urgent_, writer);
    WriteQueue(&usual_, writer);
    WriteHeld(writer);
    again = !held_.empty();
    armed_ = EmptyLocked();
  }
  if (again) weft_sdk::Host::Notify(token_);
}

bool Mailbox::Wait(uint64_t timeout_ns) {
  // A longer sleep would overflow the clock's type.
  constexpr uint64_t kLongest = uint64_t{1} << 60;
  std::unique_lock<ShortMutex> lock(mu_);
  ++waiters_;
  const bool there = more_.wait_for(
      lock, std::chrono::nanoseconds(std::min(timeout_ns, kLongest)),
      [this] { return !EmptyLocked(); });
  --waiters_;
  return there;
}

bool Mailbox::empty() {
  std::lock_guard<ShortMutex> lock(mu_);
  return EmptyLocked();
}

}  // namespace weft_loopback
