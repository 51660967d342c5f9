#include "runtime/rendezvous/local_rendezvous.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "runtime/bus/futex_word.h"

namespace weft::runtime {

absl::StatusOr<std::vector<std::string>> LocalRendezvous::AllGather(
    uint32_t rank, const std::string& key, const std::string& value) {
  const uint64_t until = NowNs() + deadline_ns_;
  MutexLock lock(&mu_);
  Round& round = rounds_[key];
  if (round.here.empty()) {
    round.here.assign(ranks_, false);
    round.values.resize(ranks_);
    round.missing = ranks_;
  }
  if (rank >= ranks_ || round.here[rank]) {
    return MakeError(ErrorCode::kInternal,
                     absl::StrCat("rank ", rank, " of ", ranks_, " meets for '",
                                  key, "' twice"));
  }
  round.here[rank] = true;
  round.values[rank] = value;
  if (--round.missing == 0) changed_.NotifyAll();
  while (round.missing != 0 && failure_.ok()) {
    const uint64_t now = NowNs();
    if (now >= until) return MissingError(key, round);
    changed_.WaitFor(&mu_, std::chrono::nanoseconds(until - now));
  }
  if (!failure_.ok()) return failure_;
  std::vector<std::string> values = round.values;
  if (++round.left == ranks_) rounds_.erase(key);
  return values;
}

absl::Status LocalRendezvous::MissingError(const std::string& key,
                                           const Round& round) const {
  std::vector<uint32_t> missing;
  for (uint32_t r = 0; r < ranks_; ++r) {
    if (!round.here[r]) missing.push_back(r);
  }
  return MakeError(
      ErrorCode::kPeerLost,
      absl::StrCat(
          "after ", deadline_ns_ / 1'000'000'000, " s of waiting for '", key,
          "', these ranks have not come: ", absl::StrJoin(missing, ", ")));
}

void LocalRendezvous::Fail(uint32_t rank, const absl::Status& cause) {
  MutexLock lock(&mu_);
  if (!failure_.ok()) return;
  failure_ = Annotate(cause, absl::StrCat("rank ", rank));
  changed_.NotifyAll();
  for (const auto& [who, wake] : wakes_) wake();
}

void LocalRendezvous::SetWake(uint32_t rank, std::function<void()> wake) {
  MutexLock lock(&mu_);
  if (wake == nullptr) {
    wakes_.erase(rank);
    return;
  }
  if (!failure_.ok()) wake();
  wakes_[rank] = std::move(wake);
}

absl::Status LocalRendezvous::failure() const {
  MutexLock lock(&mu_);
  return failure_;
}

}  // namespace weft::runtime
