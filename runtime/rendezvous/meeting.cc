#include "runtime/rendezvous/meeting.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "core/base/os.h"
#include "runtime/rendezvous/agreement.h"
#include "runtime/rendezvous/proof.h"

namespace weft::runtime {
namespace {

using rendezvous::Hello;
using rendezvous::Part;
using rendezvous::ToCoordinator;
using rendezvous::ToRank;

constexpr uint64_t kMaxBeatNs = 500'000'000;
constexpr size_t kMaxKeyBytes = 1024;
// Who have not said who they are; the oldest goes for one more.
constexpr size_t kMaxStrangers = 8192;

std::string Seconds(uint64_t ns) {
  return absl::StrFormat("%.3g s", static_cast<double>(ns) * 1e-9);
}

// Ranks say how long; what they say is never so long that it is short.
uint64_t After(uint64_t time, uint64_t ns) {
  return ns > std::numeric_limits<uint64_t>::max() - time
             ? std::numeric_limits<uint64_t>::max()
             : time + ns;
}

std::string WhoIs(const Hello& hello) {
  return absl::StrCat("rank ", hello.rank(), " (host ", hello.host(), ", pid ",
                      hello.pid(), ")");
}

}  // namespace

uint64_t BeatNs(uint64_t silence_ns) {
  return std::clamp<uint64_t>(silence_ns / 7, 1'000'000, kMaxBeatNs);
}

std::string HostName() {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  return host;
}

std::string BootId() {
  absl::StatusOr<std::string> id =
      RealOs().ReadFile("/proc/sys/kernel/random/boot_id", 64);
  return id.ok() ? std::string(absl::StripAsciiWhitespace(*id)) : "";
}

Meeting::Meeting(const CoordinatorOptions& options, bool loopback,
                 Outlet* outlet, uint64_t now)
    : options_(options),
      loopback_(loopback),
      outlet_(*outlet),
      beat_ns_(BeatNs(options.silence_ns)),
      start_(now),
      join_ns_(options.join_ns),
      last_time_(now),
      next_beat_(now + beat_ns_),
      ranks_(options.ranks) {}

// ---- Who comes --------------------------------------------------------------

void Meeting::Arrive(uint64_t visitor, uint64_t now) {
  if (visitors_.size() >= kMaxStrangers) MakeRoom();
  Visitor& v = visitors_[visitor];
  v.until = now + options_.hello_ns;
  v.challenge = NewNonce();
  ToRank message;
  message.mutable_challenge()->set_nonce(v.challenge);
  outlet_.Send(visitor, std::move(message));
}

// Numbers of visitors grow.
void Meeting::MakeRoom() {
  const auto is_stranger = [](const auto& one) {
    return one.second.until != 0;
  };
  const auto strangers =
      std::count_if(visitors_.begin(), visitors_.end(), is_stranger);
  if (static_cast<size_t>(strangers) < kMaxStrangers) return;
  const auto oldest =
      std::find_if(visitors_.begin(), visitors_.end(), is_stranger);
  outlet_.Close(oldest->first);
  visitors_.erase(oldest);
}

void Meeting::Hear(uint64_t visitor, const ToCoordinator& message,
                   uint64_t now) {
  auto at = visitors_.find(visitor);
  if (at == visitors_.end()) return;
  if (at->second.until == 0) return HearRank(visitor, message, now);
  if (message.has_enter()) return Enter(visitor, message.enter(), now);
  Refuse(visitor, ErrorCode::kPeerRefused, "speaks before it said hello");
}

void Meeting::Refuse(uint64_t visitor, ErrorCode code, const std::string& text,
                     bool early) {
  ToRank message;
  message.mutable_refused()->set_code(static_cast<uint32_t>(code));
  message.mutable_refused()->set_text(text);
  message.mutable_refused()->set_early(early);
  outlet_.Send(visitor, std::move(message));
  outlet_.Close(visitor);
  visitors_.erase(visitor);
}

void Meeting::Enter(uint64_t visitor, const rendezvous::Enter& enter,
                    uint64_t now) {
  const std::string challenge = visitors_[visitor].challenge;
  Hello hello;
  if (!SameBytes(enter.proof(), ProofOfRank(options_.secret.view(), challenge,
                                            enter.nonce(), enter.hello())) ||
      !hello.ParseFromString(enter.hello())) {
    return Refuse(visitor, ErrorCode::kPeerRefused,
                  "this process does not have the secret of the job");
  }
  if (!Admit(visitor, hello)) return;
  ToRank message;
  rendezvous::Accepted* accepted = message.mutable_accepted();
  accepted->set_proof(ProofOfCoordinator(options_.secret.view(), challenge,
                                         enter.nonce(), enter.hello()));
  accepted->set_host(HostName());
  accepted->set_pid(getpid());
  if (options_.host_rank.has_value()) {
    accepted->set_of_rank(true);
    accepted->set_rank(*options_.host_rank);
  }
  outlet_.Send(visitor, std::move(message));
  Seat(visitor, hello, now);
}

// Whether it may be a rank of this job at all.
bool Meeting::Admit(uint64_t visitor, const Hello& hello) {
  const std::string who = WhoIs(hello);
  if (hello.job_id() != options_.job_id) {
    Refuse(visitor, ErrorCode::kPeerRefused,
           absl::StrCat(who, " is of job '", hello.job_id(),
                        "', the coordinator of job '", options_.job_id, "'"));
    return false;
  }
  if (hello.epoch() != options_.epoch) {
    Refuse(visitor, ErrorCode::kPeerRefused,
           absl::StrCat(who, " is of start ", hello.epoch(),
                        " of the job, this is start ", options_.epoch,
                        ": one of them is left over"),
           /*early=*/hello.epoch() > options_.epoch);
    return false;
  }
  if (loopback_ && hello.boot_id() != BootId()) {
    Refuse(visitor, ErrorCode::kBadLaunch,
           absl::StrCat(who, " came by a loopback address to host ", HostName(),
                        ", which is another machine; give an address of that "
                        "one that others reach"));
    return false;
  }
  if (hello.rank() >= ranks_.size()) return true;
  const Rank& seat = ranks_[hello.rank()];
  if (!seat.joined) return true;
  if (seat.gone) {
    // After a failure it hears of that.
    if (failure_.has_value()) return true;
    Refuse(visitor, ErrorCode::kPeerRefused,
           absl::StrCat("there are two of one rank: ", who, " came, ",
                        WhoIs(seat.hello), " has been there and is done"));
    return false;
  }
  // Of a job that has not begun, the two are a mistake of who started it.
  if (joined_ < ranks_.size()) return true;
  Refuse(visitor, ErrorCode::kPeerRefused,
         absl::StrCat(
             "there are two of one rank: ", who, " came, ", WhoIs(seat.hello),
             " is there already",
             hello.incarnation() < seat.hello.incarnation()
                 ? absl::StrCat(" and younger (incarnation ",
                                seat.hello.incarnation(), ", this one's is ",
                                hello.incarnation(), ")")
                 : ""));
  return false;
}

// Whether it says the same as the others; else the job has failed.
bool Meeting::Agrees(const Hello& hello) {
  const std::string who = WhoIs(hello);
  const auto disagree = [&](const std::string& text) {
    Decide(hello.rank(), ErrorCode::kBadLaunch, text, /*common=*/true);
    return false;
  };
  if (hello.ranks() != ranks_.size() || hello.rank() >= ranks_.size()) {
    return disagree(absl::StrCat(who, " was started as one of ", hello.ranks(),
                                 " ranks, the coordinator on host ", HostName(),
                                 " waits for ", ranks_.size()));
  }
  const Rank& seat = ranks_[hello.rank()];
  if (seat.joined) {
    return disagree(absl::StrCat("there are two of one rank: ", who, " and ",
                                 WhoIs(seat.hello)));
  }
  const auto other = std::find_if(ranks_.begin(), ranks_.end(),
                                  [](const Rank& rank) { return rank.joined; });
  if (other == ranks_.end()) return true;
  const Hello& first = other->hello;
  for (int i = 0; i < std::max(hello.facts_size(), first.facts_size()); ++i) {
    const auto fact = [i](const Hello& of) {
      return i < of.facts_size() ? of.facts(i) : rendezvous::Fact();
    };
    const rendezvous::Fact a = fact(hello);
    const rendezvous::Fact b = fact(first);
    if (a.name() != b.name()) {
      return disagree(absl::StrCat("ranks differ: ", who, " tells of its '",
                                   a.name(), "', ", WhoIs(first), " of its '",
                                   b.name(), "'"));
    }
    if (a.value() == b.value()) continue;
    const auto [mine, theirs] = FirstDifference(a.value(), b.value());
    return disagree(absl::StrCat("ranks differ in the ", a.name(), ": ", who,
                                 " has ", mine, ", ", WhoIs(first), " has ",
                                 theirs));
  }
  return true;
}

void Meeting::Seat(uint64_t visitor, const Hello& hello, uint64_t now) {
  Visitor& v = visitors_[visitor];
  v.until = 0;
  v.rank = hello.rank();
  if (v.rank < ranks_.size()) ranks_[v.rank].came = true;
  if (failure_.has_value()) return TellFailure(visitor);
  if (!Agrees(hello)) return;  // it was told with the others
  Rank& seat = ranks_[hello.rank()];
  seat.joined = true;
  seat.visitor = visitor;
  seat.heard = now;
  seat.hello = hello;
  seat.silence_ns =
      hello.silence_ns() != 0 ? hello.silence_ns() : options_.silence_ns;
  // Who waits less is told more often that this one lives.
  beat_ns_ = std::min(beat_ns_, BeatNs(seat.silence_ns));
  next_beat_ = std::min(next_beat_, now + beat_ns_);
  due_ = std::min(due_, now + beat_ns_ / 2);
  if (joined_ == 0 && hello.join_ns() != 0) join_ns_ = hello.join_ns();
  seat.progress.joined = true;
  seat.progress.host = hello.host();
  seat.progress.pid = hello.pid();
  if (++joined_ < ranks_.size()) return;
  for (const Rank& rank : ranks_) {
    ToRank message;
    message.mutable_welcome();
    outlet_.Send(rank.visitor, std::move(message));
  }
}

void Meeting::Left(uint64_t visitor, uint64_t /*now*/) {
  auto at = visitors_.find(visitor);
  if (at == visitors_.end()) return;
  const Visitor v = std::move(at->second);
  visitors_.erase(at);
  if (v.until != 0 || v.rank >= ranks_.size()) return;
  Rank& rank = ranks_[v.rank];
  if (rank.visitor != visitor || rank.gone) return;
  rank.gone = rank.progress.gone = true;
  for (auto& [key, round] : rounds_) {
    round.waiting.erase(
        std::remove_if(round.waiting.begin(), round.waiting.end(),
                       [&](const Waiting& w) { return w.visitor == visitor; }),
        round.waiting.end());
  }
  for (auto& [key, getters] : getters_) {
    getters.erase(
        std::remove_if(getters.begin(), getters.end(),
                       [&](const Waiting& w) { return w.visitor == visitor; }),
        getters.end());
  }
  // Who has said why may go.
  if (rank.gave_up) return;
  Lost(v.rank, "its connection ended without a goodbye");
}

// ---- What ranks say ---------------------------------------------------------

void Meeting::HearRank(uint64_t visitor, const ToCoordinator& message,
                       uint64_t now) {
  const uint32_t r = visitors_[visitor].rank;
  if (r >= ranks_.size() || ranks_[r].visitor != visitor) return;
  Rank& rank = ranks_[r];
  rank.heard = now;
  switch (message.body_case()) {
    case ToCoordinator::kBeat:
      rank.progress.step = message.beat().step();
      rank.progress.act = message.beat().act();
      return;
    case ToCoordinator::kGather:
    case ToCoordinator::kPut: {
      const bool gather = message.has_gather();
      const Part& part = gather ? message.gather() : message.put();
      std::optional<std::string> value = Collect(visitor, part);
      if (!value.has_value()) return;
      if (!gather) return Put(part.key(), *value);
      return Gather(visitor, part.key(), *std::move(value),
                    {visitor, part.call(), After(now, part.deadline_ns()),
                     part.deadline_ns()});
    }
    case ToCoordinator::kGet:
      return Get({visitor, message.get().call(),
                  After(now, message.get().deadline_ns()),
                  message.get().deadline_ns()},
                 message.get().key());
    case ToCoordinator::kFailure:
      return HearFailure(r, message.failure(), now);
    case ToCoordinator::kBye: {
      rank.gone = rank.progress.gone = true;
      ToRank farewell;
      farewell.mutable_farewell();
      outlet_.Send(visitor, std::move(farewell));
      return outlet_.Close(visitor);
    }
    case ToCoordinator::kEnter:
    case ToCoordinator::BODY_NOT_SET:
      return;
  }
}

void Meeting::HearFailure(uint32_t rank, const rendezvous::Failure& failure,
                          uint64_t now) {
  ranks_[rank].gave_up = true;
  if (failure_.has_value()) return;
  const ErrorCode code =
      ErrorCodeOf(MakeError(static_cast<ErrorCode>(failure.code()), ""));
  if (!failure.weak()) return Decide(rank, code, failure.text(), false);
  if (weak_.has_value()) return;
  weak_ = failure;
  weak_->set_rank(rank);
  weak_until_ = now + options_.cause_ns;
}

std::optional<std::string> Meeting::Collect(uint64_t visitor,
                                            const Part& part) {
  std::map<uint64_t, std::string>& parts = visitors_[visitor].parts;
  std::string& value = parts[part.call()];
  if (part.key().size() > kMaxKeyBytes ||
      value.size() + part.data().size() > kMaxValueBytes) {
    Decide(visitors_[visitor].rank, ErrorCode::kInternal,
           absl::StrCat("it says more of '", part.key().substr(0, kMaxKeyBytes),
                        "' than ", kMaxValueBytes, " bytes"),
           false);
    parts.clear();
    return std::nullopt;
  }
  value.append(part.data());
  if (!part.last()) return std::nullopt;
  std::string whole = std::move(value);
  parts.erase(part.call());
  return whole;
}

void Meeting::Gather(uint64_t visitor, const std::string& key,
                     std::string value, const Waiting& waiting) {
  const uint32_t rank = visitors_[visitor].rank;
  Round& round = rounds_[key];
  if (!round.values.emplace(rank, std::move(value)).second) {
    return SendMissing(
        waiting, ErrorCode::kInternal,
        absl::StrCat("rank ", rank, " meets for '", key, "' twice"));
  }
  round.waiting.push_back(waiting);
  if (round.values.size() < ranks_.size()) return;
  const Round done = std::move(round);
  rounds_.erase(key);
  for (const Waiting& to : done.waiting) {
    for (const auto& [r, text] : done.values) SendValue(to, key, r, text);
  }
}

void Meeting::SendValue(const Waiting& to, const std::string& key,
                        uint32_t rank, const std::string& value) {
  size_t from = 0;
  do {
    ToRank message;
    Part* part = message.mutable_value();
    part->set_call(to.call);
    part->set_key(key);
    part->set_rank(rank);
    part->set_data(value.substr(from, kPartBytes));
    from += part->data().size();
    part->set_last(from == value.size());
    outlet_.Send(to.visitor, std::move(message));
  } while (from < value.size());
}

void Meeting::SendMissing(const Waiting& to, ErrorCode code,
                          const std::string& text) {
  ToRank message;
  message.mutable_missing()->set_call(to.call);
  message.mutable_missing()->set_code(static_cast<uint32_t>(code));
  message.mutable_missing()->set_text(text);
  outlet_.Send(to.visitor, std::move(message));
}

void Meeting::Put(const std::string& key, const std::string& value) {
  values_[key] = value;
  auto at = getters_.find(key);
  if (at == getters_.end()) return;
  for (const Waiting& to : at->second) SendValue(to, key, 0, value);
  getters_.erase(at);
}

void Meeting::Get(const Waiting& waiting, const std::string& key) {
  auto at = values_.find(key);
  if (at != values_.end()) return SendValue(waiting, key, 0, at->second);
  getters_[key].push_back(waiting);
}

// ---- The end ----------------------------------------------------------------

void Meeting::Lost(uint32_t rank, const std::string& how) {
  Decide(rank, ErrorCode::kPeerLost,
         absl::StrCat(NameOf(rank), " is lost: ", how), false);
}

void Meeting::Dismiss(uint32_t rank) {
  ranks_[rank].gone = ranks_[rank].progress.gone = true;
  visitors_.erase(ranks_[rank].visitor);
  outlet_.Close(ranks_[rank].visitor);
}

std::string Meeting::NameOf(uint32_t rank) const {
  if (rank < ranks_.size() && ranks_[rank].joined) {
    return WhoIs(ranks_[rank].hello);
  }
  return absl::StrCat("rank ", rank);
}

void Meeting::Decide(uint32_t rank, ErrorCode code, const std::string& text,
                     bool common) {
  if (failure_.has_value()) return;
  // The rank itself knows who it is; the others want to.
  std::string named = text;
  if (!common && code != ErrorCode::kPeerLost) {
    named = absl::StrCat(NameOf(rank), " failed with ", ErrorName(code), ": ",
                         text);
  }
  failure_ = JobFailure{rank, MakeError(code, named), !absent_given_up_};
  told_.set_rank(rank);
  told_.set_code(static_cast<uint32_t>(code));
  told_.set_text(named);
  told_.set_common(common);
  for (const auto& [visitor, v] : visitors_) {
    if (v.until == 0) TellFailure(visitor);
  }
  rounds_.clear();
  getters_.clear();
  if (options_.on_failure) options_.on_failure(*failure_);
}

void Meeting::TellFailure(uint64_t visitor) {
  ToRank message;
  *message.mutable_failure() = told_;
  outlet_.Send(visitor, std::move(message));
}

void Meeting::Fail(uint32_t rank, const absl::Status& cause) {
  Decide(rank, ErrorCodeOf(cause), std::string(cause.message()), false);
}

std::vector<RankProgress> Meeting::progress() const {
  std::vector<RankProgress> progress;
  for (const Rank& rank : ranks_) progress.push_back(rank.progress);
  return progress;
}

bool Meeting::over() const {
  for (const auto& [visitor, v] : visitors_) {
    if (v.until == 0) return false;
  }
  return std::all_of(ranks_.begin(), ranks_.end(), [this](const Rank& rank) {
    return rank.gone || (failure_.has_value() && !rank.joined &&
                         (rank.came || absent_given_up_));
  });
}

// ---- Time -------------------------------------------------------------------

void Meeting::OnTime(uint64_t now) {
  // Called at least every beat. What is much later was no time for us, so it
  // was none for others to be silent in.
  const uint64_t passed = now - last_time_;
  if (passed > 2 * beat_ns_) {
    for (Rank& rank : ranks_) rank.heard += passed - beat_ns_;
  }
  last_time_ = now;
  if (now >= next_beat_) {
    next_beat_ = now + beat_ns_;
    for (const Rank& rank : ranks_) {
      if (!rank.joined || rank.gone || failure_.has_value()) continue;
      ToRank message;
      message.mutable_beat();
      outlet_.Send(rank.visitor, std::move(message));
    }
  }
  CheckTimes(now);
  CheckWaiting(now);
  due_ = now + beat_ns_ / 2;
}

std::vector<uint32_t> Meeting::Absent() const {
  std::vector<uint32_t> absent;
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    if (!ranks_[r].joined) absent.push_back(r);
  }
  return absent;
}

void Meeting::CheckTimes(uint64_t now) {
  std::vector<uint64_t> late;
  for (const auto& [visitor, v] : visitors_) {
    if (v.until != 0 && now >= v.until) late.push_back(visitor);
  }
  for (uint64_t visitor : late) {
    Refuse(visitor, ErrorCode::kPeerRefused, "said no hello in time");
  }
  if (failure_.has_value()) return DismissSilent(now);
  if (joined_ < ranks_.size() && now >= After(start_, join_ns_)) {
    absent_given_up_ = true;
    const std::vector<uint32_t> absent = Absent();
    return Decide(absent[0], ErrorCode::kPeerLost,
                  absl::StrCat("after ", Seconds(join_ns_),
                               " these ranks have not come: ",
                               absl::StrJoin(absent, ", "), " (", joined_,
                               " of ", ranks_.size(), " are there)"),
                  /*common=*/true);
  }
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    const Rank& rank = ranks_[r];
    if (!rank.joined || rank.gone) continue;
    if (now < After(rank.heard, rank.silence_ns)) continue;
    Lost(r, absl::StrCat("it has been silent for ", Seconds(rank.silence_ns),
                         ", at step ", rank.progress.step, ", act ",
                         rank.progress.act));
    return Dismiss(r);  // it may never read that; nobody waits for it
  }
  if (weak_.has_value() && now >= weak_until_) {
    Decide(weak_->rank(), ErrorCode::kPeerLost,
           absl::StrCat(NameOf(weak_->rank()), ": ", weak_->text()), false);
  }
}

// Who was lost together with another, by a network for example.
void Meeting::DismissSilent(uint64_t now) {
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    const Rank& rank = ranks_[r];
    if (rank.joined && !rank.gone &&
        now >= After(rank.heard, rank.silence_ns)) {
      Dismiss(r);
    }
  }
}

void Meeting::CheckWaiting(uint64_t now) {
  const auto late = [now](const Waiting& w) { return now >= w.until; };
  for (auto& [key, round] : rounds_) {
    for (const Waiting& to : round.waiting) {
      if (!late(to)) continue;
      std::vector<uint32_t> missing;
      for (uint32_t r = 0; r < ranks_.size(); ++r) {
        if (round.values.count(r) == 0) missing.push_back(r);
      }
      SendMissing(
          to, ErrorCode::kPeerLost,
          absl::StrCat(
              "after ", Seconds(to.deadline_ns), " of waiting for '", key,
              "', these ranks have not come: ", absl::StrJoin(missing, ", ")));
    }
    round.waiting.erase(
        std::remove_if(round.waiting.begin(), round.waiting.end(), late),
        round.waiting.end());
  }
  for (auto& [key, getters] : getters_) {
    for (const Waiting& to : getters) {
      if (!late(to)) continue;
      SendMissing(to, ErrorCode::kPeerLost,
                  absl::StrCat("after ", Seconds(to.deadline_ns),
                               " nobody has said '", key, "'"));
    }
    getters.erase(std::remove_if(getters.begin(), getters.end(), late),
                  getters.end());
  }
}

}  // namespace weft::runtime
