// How a wire comes to its connections.
#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "runtime/bus/futex_word.h"
#include "runtime/wire/offers.h"
#include "runtime/wire/wire.h"

namespace weft::runtime {
namespace {

// Frames of one peer that may lie here unread.
constexpr uint32_t kMaxFrames = 64;
// Receives of a connection that are there whatever the plans: of one frame and
// of the last words.
constexpr uint32_t kOwnRecvs = 2;
// Connections that are not there yet are looked for so often.
constexpr uint64_t kLookNs = 200'000;

}  // namespace

Wire::Wire(const WireOptions& options, uint64_t token)
    : rank_(options.config.rank),
      ranks_(options.config.world),
      epoch_(static_cast<uint32_t>(options.config.epoch)),
      token_(token != 0),
      rendezvous_(*options.rendezvous) {
  for (uint32_t r = 0; r < ranks_; ++r) {
    if (r == rank_) continue;
    links_.emplace_back();
    links_.back().rank = r;
  }
}

absl::StatusOr<std::unique_ptr<Wire>> Wire::Connect(const WireOptions& options,
                                                    uint64_t token) {
  std::unique_ptr<Wire> wire(new Wire(options, token));
  absl::Status connected = wire->OpenDomains(options, token);
  if (connected.ok()) connected = wire->ConnectAll(options);
  if (!connected.ok()) {
    options.rendezvous->Fail(options.config.rank, connected);
    return connected;
  }
  return wire;
}

absl::Status Wire::OpenDomains(const WireOptions& options, uint64_t token) {
  DomainConfig config = options.config;
  config.notify_token = token;
  for (const WireTransport& from : options.transports) {
    config.options = from.options;
    WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Domain> domain,
                          from.transport->Open(config));
    domains_.push_back(std::move(domain));
  }
  return absl::OkStatus();
}

absl::Status Wire::ConnectAll(const WireOptions& options) {
  std::vector<size_t> theirs;
  WEFT_RETURN_IF_ERROR(ChooseDomains(&theirs));
  WEFT_ASSIGN_OR_RETURN(const std::vector<std::vector<std::string>> addresses,
                        Listen());
  const uint64_t until = NowNs() + options.connect_ns;
  for (Link& link : links_) {
    const uint32_t r = link.rank;
    if (r < rank_) continue;
    if (theirs[r] >= addresses[r].size()) {
      return MakeError(ErrorCode::kTransportFailed,
                       absl::StrCat("rank ", r, " gave no address for '",
                                    link.domain->info().name, "'"));
    }
    WEFT_RETURN_IF_ERROR(
        link.domain->Connect(r, addresses[r][theirs[r]], /*cookie=*/r)
            .status());
  }
  WEFT_RETURN_IF_ERROR(AwaitLinks(until));
  // From the first such call on a transport leaves progress to who polls. A
  // worker that always finds something would make none.
  std::vector<FutexWord::Other> words;
  WEFT_RETURN_IF_ERROR(SleepBegin(&words));
  WEFT_RETURN_IF_ERROR(SleepEnd());
  // Nobody sends before all have posted the receives of frames.
  WEFT_ASSIGN_OR_RETURN(
      const std::vector<std::string> cores,
      rendezvous_.AllGather(
          rank_, "wire/connected",
          options.core.has_value() ? absl::StrCat(*options.core) : ""));
  Locate(options.core, cores);
  return absl::OkStatus();
}

// Ranks that share memory are on one host.
void Wire::Locate(std::optional<uint32_t> core,
                  const std::vector<std::string>& cores) {
  for (Link& link : links_) {
    uint32_t theirs = 0;
    if (!core.has_value() || !link.domain->info().shared_memory ||
        !absl::SimpleAtoi(cores[link.rank], &theirs)) {
      continue;
    }
    located_ = true;
    link.peer =
        theirs == *core ? Whereabouts::kThisCore : Whereabouts::kAnotherCore;
  }
}

absl::Status Wire::ChooseDomains(std::vector<size_t>* theirs) {
  std::vector<TransportOffer> mine;
  for (const std::unique_ptr<Domain>& domain : domains_) {
    const TransportInfo& info = domain->info();
    mine.push_back(
        {info.name, info.locality, info.eager_max, info.eager_credits});
  }
  WEFT_ASSIGN_OR_RETURN(
      const std::vector<std::string> texts,
      rendezvous_.AllGather(rank_, "wire/offers", OffersText(mine)));
  theirs->assign(ranks_, 0);
  for (Link& link : links_) {
    const uint32_t r = link.rank;
    WEFT_ASSIGN_OR_RETURN(const std::vector<TransportOffer> other,
                          ParseOffers(texts[r]));
    // Both take what is best for the lower rank.
    std::pair<size_t, size_t> chosen;
    if (rank_ < r) {
      WEFT_ASSIGN_OR_RETURN(chosen, ChooseOffers(rank_, mine, r, other));
    } else {
      WEFT_ASSIGN_OR_RETURN(chosen, ChooseOffers(r, other, rank_, mine));
      std::swap(chosen.first, chosen.second);
    }
    link.domain = domains_[chosen.first].get();
    (*theirs)[r] = chosen.second;
    link.mine = {mine[chosen.first].eager_max,
                 mine[chosen.first].eager_credits};
    link.theirs = {other[chosen.second].eager_max,
                   other[chosen.second].eager_credits};
  }
  for (std::unique_ptr<Domain>& domain : domains_) {
    if (!Uses(domain.get())) domain.reset();
  }
  watches_ = std::any_of(domains_.begin(), domains_.end(), [&](const auto& d) {
    return d != nullptr && Watches(*d);
  });
  return absl::OkStatus();
}

bool Wire::Uses(const Domain* domain) const {
  return std::any_of(links_.begin(), links_.end(), [domain](const Link& link) {
    return link.domain == domain;
  });
}

absl::StatusOr<std::vector<std::vector<std::string>>> Wire::Listen() {
  std::vector<std::string> mine;
  for (const std::unique_ptr<Domain>& domain : domains_) {
    mine.emplace_back();
    if (domain == nullptr) continue;
    WEFT_RETURN_IF_ERROR(CheckLimits(domain->info()));
    WEFT_ASSIGN_OR_RETURN(mine.back(), domain->Listen());
  }
  WEFT_ASSIGN_OR_RETURN(
      const std::vector<std::string> texts,
      rendezvous_.AllGather(rank_, "wire/address", JoinFields(mine)));
  std::vector<std::vector<std::string>> addresses;
  for (const std::string& text : texts) {
    WEFT_ASSIGN_OR_RETURN(std::vector<std::string> fields, SplitFields(text));
    addresses.push_back(std::move(fields));
  }
  return addresses;
}

std::string Wire::Describe() const {
  std::vector<std::string> parts;
  for (const std::unique_ptr<Domain>& domain : domains_) {
    std::vector<uint32_t> ranks;
    for (const Link& link : links_) {
      if (domain != nullptr && link.domain == domain.get()) {
        ranks.push_back(link.rank);
      }
    }
    if (ranks.empty()) continue;
    parts.push_back(absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ",
                                 absl::StrJoin(ranks, ", "), " by ",
                                 domain->info().name));
  }
  return absl::StrJoin(parts, ", ");
}

// Frames and last words lie on the stack of who posts them.
absl::Status Wire::CheckLimits(const TransportInfo& info) const {
  if (info.eager_max >= sizeof(LastWords) && info.max_inflight > kOwnRecvs) {
    return absl::OkStatus();
  }
  return MakeError(
      ErrorCode::kTransportFailed,
      absl::StrCat("transport '", info.name, "' copies messages up to ",
                   info.eager_max, " bytes and has ", info.max_inflight,
                   " receives of a connection under way; at least ",
                   sizeof(LastWords), " and ", kOwnRecvs + 1, " are needed"));
}

absl::Status Wire::AwaitLinks(uint64_t until) {
  while (true) {
    std::vector<uint32_t> missing;
    for (const Link& link : links_) {
      if (!link.up) missing.push_back(link.rank);
    }
    if (missing.empty()) return absl::OkStatus();
    bool any = false;
    WEFT_RETURN_IF_ERROR(Poll(&any));
    WEFT_RETURN_IF_ERROR(rendezvous_.failure());
    if (any) continue;
    if (NowNs() >= until) {
      return MakeError(
          ErrorCode::kPeerLost,
          absl::StrCat("rank ", rank_, " could not connect with ",
                       "these ranks in time: ", absl::StrJoin(missing, ", ")));
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(kLookNs));
  }
}

absl::Status Wire::OpenLink(Domain* domain, const TransportEvent& event) {
  Link* link = LinkOfRank(event.rank);
  if (link == nullptr || link->up || link->domain != domain) {
    // Another process in the name of a rank that is here, which stays.
    domain->CloseEndpoint(event.endpoint, /*abort=*/true).IgnoreError();
    return absl::OkStatus();
  }
  link->endpoint = event.endpoint;
  link->up = true;
  const uint32_t slots =
      std::max(1u, std::min(kMaxFrames, domain->info().max_inflight / 4));
  link->frames.resize(slots);
  link->receives = slots + 1;  // and the last words
  for (uint32_t s = 0; s < slots; ++s) {
    WEFT_RETURN_IF_ERROR(PostFrameRecv(link, s));
  }
  Op words;
  words.tag = kAbortTag;
  words.data = &link->last_words;
  words.bytes = sizeof(LastWords);
  words.cookie = Cookie(What::kNone, 1, link->rank);
  return PostOp(link, words).status();
}

}  // namespace weft::runtime
