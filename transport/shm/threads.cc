// The two threads of a domain.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "transport/shm/domain.h"

namespace weft_shm {
namespace {

// Strangers that may stand in the door at once; more wait outside.
constexpr size_t kMaxVisits = 256;
// After a failure of accept, such as that there is no descriptor left.
constexpr uint64_t kDoorPauseNs = 100'000'000;
// Between two attempts to get through a crowded door.
constexpr uint64_t kKnockPauseNs = 1'000'000;
// The bell's thread, while the host polls.
constexpr uint64_t kLookUpNs = 2'000'000;

int Milliseconds(uint64_t ns) {
  return static_cast<int>(std::min<uint64_t>(ns / 1'000'000 + 1, 1u << 30));
}

}  // namespace

void ShmDomain::RunBell() {
  uint64_t seen_polls = 0;
  while (!stop_.load()) {
    if (StandBack(&seen_polls)) continue;
    const uint32_t seen = bell_.Announce();
    bool any;
    {
      Locked lock(this);
      any = ProgressAll(lock.lock());
    }
    if (!any && !stop_.load()) bell_.Sleep(seen, kLongestSleepNs);
    bell_.Awake();
    if (any) std::this_thread::yield();  // who polls wants the lock too
  }
}

// True where the host saw to messages since the last look, or does now; that
// took a while. Else it may be at something long: this thread does its work.
bool ShmDomain::StandBack(uint64_t* seen_polls) {
  if (!host_attends_.load(std::memory_order_relaxed)) return false;
  const uint64_t polls = polls_.load(std::memory_order_relaxed);
  const bool polled = polls != std::exchange(*seen_polls, polls);
  if (polled) {
    RestBell(kLookUpNs);
    return true;
  }
  if (resting_.load() == 0) return false;
  // It sleeps for longer. Once awake it rouses this thread, for it may then
  // have something long to do.
  parked_.store(true);
  if (resting_.load() != 0) RestBell(kLongestSleepNs);
  parked_.store(false);
  RestBell(kLookUpNs);  // time to poll
  return true;
}

void ShmDomain::RestBell(uint64_t timeout_ns) {
  std::unique_lock<std::mutex> lock(rest_mu_);
  if (stop_.load() || (parked_.load() && resting_.load() == 0)) return;
  roused_.wait_for(lock, std::chrono::nanoseconds(timeout_ns));
}

void ShmDomain::RouseBell() {
  std::lock_guard<std::mutex> lock(rest_mu_);
  roused_.notify_all();
}

void ShmDomain::EndRest() {
  --resting_;
  if (parked_.load()) RouseBell();
}

void ShmDomain::WakeSockets() {
  const uint64_t one = 1;
  while (write(wakeup_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

// What to look at, and for how long at most: milliseconds, -1: for ever.
int ShmDomain::Watch(std::vector<pollfd>* fds,
                     std::vector<std::pair<Watched, uint64_t>>* what) {
  const auto add = [&](int fd, Watched kind, uint64_t id) {
    fds->push_back({fd, POLLIN, 0});
    what->emplace_back(kind, id);
  };
  fds->clear();
  what->clear();
  add(wakeup_.get(), Watched::kWakeup, 0);
  const uint64_t now = NowNs();
  uint64_t until = UINT64_MAX;
  Locked lock(this);
  if (door_.has_value() && visits_.size() < kMaxVisits) {
    if (door_opens_ <= now) {
      add(door_->socket(), Watched::kDoor, 0);
    } else {
      until = door_opens_;
    }
  }
  for (const Visit& visit : visits_) {
    until = std::min(until, visit.deadline);
    if (visit.connector && !visit.knocked) {
      until = std::min(until, now + kKnockPauseNs);
    } else {
      add(visit.socket.get(), Watched::kVisit, visit.id);
    }
  }
  for (const auto& [ep, connection] : endpoints_) {
    if (connection->down()) continue;
    add(connection->socket(), Watched::kEndpoint, ep);
    if (connection->process() < 0) continue;
    add(connection->process(), Watched::kProcess, ep);
  }
  if (until == UINT64_MAX) return -1;
  return until <= now ? 0 : Milliseconds(until - now);
}

void ShmDomain::RunSockets() {
  std::vector<pollfd> fds;
  std::vector<std::pair<Watched, uint64_t>> what;
  while (!stop_.load()) {
    const int timeout = Watch(&fds, &what);
    if (poll(fds.data(), fds.size(), timeout) < 0) continue;
    Locked lock(this);
    for (size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].revents != 0) Look(what[i].first, what[i].second, lock.lock());
    }
    AdvanceVisits(std::nullopt);
  }
}

// What was seen may have ended meanwhile: everything is found again by its id.
void ShmDomain::Look(Watched what, uint64_t id, Lock* lock) {
  switch (what) {
    case Watched::kWakeup: {
      uint64_t count;
      while (read(wakeup_.get(), &count, sizeof(count)) > 0) {
      }
      return;
    }
    case Watched::kDoor:
      return AnswerDoor();
    case Watched::kVisit:
      return AdvanceVisits(id);
    case Watched::kEndpoint:
      return LookAtEndpoint(id, lock);
    case Watched::kProcess:
      return LookAtProcess(id, lock);
  }
}

void ShmDomain::AnswerDoor() {
  while (door_.has_value() && visits_.size() < kMaxVisits) {
    Fd socket(accept4(door_->socket(), nullptr, nullptr,
                      SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN) {
        weft_sdk::Host::Log(WEFT_LOG_WARNING, WithErrno("shm: accept"));
        door_opens_ = NowNs() + kDoorPauseNs;
      }
      return;
    }
    if (!SameUser(socket)) continue;
    Visit visit;
    visit.id = ++last_id_;
    visit.connector = false;
    visit.socket = std::move(socket);
    visit.deadline = NowNs() + timeout_ns_;
    visits_.push_back(std::move(visit));
  }
}

// A process that forked and died may have left its sockets to a child, which
// knows nothing of them.
void ShmDomain::LookAtProcess(weft_endpoint ep, Lock* lock) {
  auto it = endpoints_.find(ep);
  if (it == endpoints_.end() || it->second->down()) return;
  pollfd ended{it->second->process(), POLLIN, 0};
  if (poll(&ended, 1, 0) == 1) it->second->HungUp(lock);
}

// After the handshake nobody writes to a socket: that it can be read is its
// end.
void ShmDomain::LookAtEndpoint(weft_endpoint ep, Lock* lock) {
  auto it = endpoints_.find(ep);
  if (it == endpoints_.end() || it->second->down()) return;
  char byte;
  const ssize_t n = recv(it->second->socket(), &byte, 1, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  it->second->HungUp(lock);
}

}  // namespace weft_shm
