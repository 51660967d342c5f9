// What the two sides of a new connection tell each other, and how each decides
// whether they belong together. Every transport uses this, so that a refusal
// reads the same whatever carries it.
//
//   weft_sdk::Hello ours = config.hello;         // rank 0, epoch 4
//   weft_sdk::Refusal r = weft_sdk::CompareHellos(ours, theirs);
//   if (r) ... r.reason, r.message: "rank 0 has epoch 4, rank 1 has epoch 3"
//   r = incarnations.Check(theirs);
//   ... once both sides agree: incarnations.Note(theirs)
//
// Both sides get the same words from CompareHellos. What only one of them can
// know, Incarnations::Check, it must tell the other.
//
// Threading: thread-compatible. Depends on the C++17 library and the ABI alone.
#ifndef WEFT_PLUGINS_SDK_WEFT_HELLO_HPP_
#define WEFT_PLUGINS_SDK_WEFT_HELLO_HPP_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/abi/weft_transport.h"
#include "plugins/sdk/weft_host.hpp"
#include "plugins/sdk/weft_secret.hpp"

namespace weft_sdk {

// Who a rank is, as weft_domain_config says.
struct Hello {
  uint32_t rank = 0;
  uint32_t world = 1;
  uint32_t wire_version = 0;    // of what Weft sends
  uint32_t plugin_version = 0;  // of the plugin's own frames
  std::string job;
  uint64_t epoch = 0;
  uint64_t incarnation = 0;
  uint64_t plan_hash = 0;
};

// Why not; false where there is no objection.
struct Refusal {
  uint32_t reason = WEFT_REFUSED_NOT;
  std::string message;
  explicit operator bool() const { return reason != WEFT_REFUSED_NOT; }
};

namespace internal {

inline std::string Hex(uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "0x";
  bool begun = false;
  for (int shift = 60; shift >= 0; shift -= 4) {
    const unsigned digit = (value >> shift) & 15u;
    begun = begun || digit != 0 || shift == 0;
    if (begun) text += kDigits[digit];
  }
  return text;
}

// "rank 0 has epoch 4, rank 1 has epoch 3": the smaller rank first.
inline Refusal Differ(uint32_t reason, const char* what, const Hello& a,
                      const std::string& a_value, const Hello& b,
                      const std::string& b_value) {
  if (b.rank < a.rank) return Differ(reason, what, b, b_value, a, a_value);
  return Refusal{reason, "rank " + std::to_string(a.rank) + " has " + what +
                             " " + a_value + ", rank " +
                             std::to_string(b.rank) + " has " + what + " " +
                             b_value};
}

inline Refusal Differ(uint32_t reason, const char* what, const Hello& a,
                      uint64_t a_value, const Hello& b, uint64_t b_value) {
  return Differ(reason, what, a, std::to_string(a_value), b,
                std::to_string(b_value));
}

}  // namespace internal

// All but ranks and incarnations; symmetric.
inline Refusal CompareHellos(const Hello& a, const Hello& b) {
  using internal::Differ;
  if (a.plugin_version != b.plugin_version) {
    return Differ(WEFT_REFUSED_WIRE, "transport wire version", a,
                  a.plugin_version, b, b.plugin_version);
  }
  if (a.wire_version != b.wire_version) {
    return Differ(WEFT_REFUSED_WIRE, "wire version", a, a.wire_version, b,
                  b.wire_version);
  }
  if (a.job != b.job) {
    return Differ(WEFT_REFUSED_JOB, "job", a, "'" + a.job + "'", b,
                  "'" + b.job + "'");
  }
  if (a.epoch != b.epoch) {
    return Differ(WEFT_REFUSED_EPOCH, "epoch", a, a.epoch, b, b.epoch);
  }
  if (a.world != b.world) {
    return Differ(WEFT_REFUSED_WORLD, "world size", a, a.world, b, b.world);
  }
  if (a.plan_hash != b.plan_hash) {
    return Differ(WEFT_REFUSED_PLAN, "plan hash", a, internal::Hex(a.plan_hash),
                  b, internal::Hex(b.plan_hash));
  }
  return {};
}

// Whether `connector`, which wanted to reach rank `expected`, may be connected
// to `listener`; symmetric in that both sides can compute it.
inline Refusal CompareRanks(const Hello& connector, const Hello& listener,
                            uint32_t expected) {
  const auto refuse = [](const std::string& message) {
    return Refusal{WEFT_REFUSED_RANK, message};
  };
  const std::string from = "rank " + std::to_string(connector.rank);
  const std::string to = "rank " + std::to_string(listener.rank);
  if (connector.rank >= listener.world) {
    return refuse(from + " is outside of a world of " +
                  std::to_string(listener.world));
  }
  if (listener.rank != expected) {
    return refuse(from + " expected rank " + std::to_string(expected) +
                  " and met " + to);
  }
  if (connector.rank >= listener.rank) {
    return refuse(from + " connects to " + to +
                  "; the smaller rank is the one that connects");
  }
  return {};
}

// The highest incarnation of each rank that a domain was connected to.
class Incarnations {
 public:
  // Refuses whoever is not newer than what was seen of its rank.
  Refusal Check(const Hello& theirs) const {
    auto it = seen_.find(theirs.rank);
    if (it == seen_.end() || theirs.incarnation > it->second) return {};
    return Refusal{WEFT_REFUSED_INCARNATION,
                   "rank " + std::to_string(theirs.rank) +
                       " comes with incarnation " +
                       std::to_string(theirs.incarnation) + ", incarnation " +
                       std::to_string(it->second) + " of it was seen before"};
  }
  void Note(const Hello& theirs) { seen_[theirs.rank] = theirs.incarnation; }

 private:
  std::map<uint32_t, uint64_t> seen_;
};

// weft_domain_config, copied and checked.
struct DomainConfig {
  static constexpr uint64_t kMaxJob = 128;
  static constexpr uint64_t kMaxSecret = 64;
  static constexpr uint32_t kMaxOptions = 256;

  Hello hello;
  uint64_t notify_token = 0;
  uint32_t peer_timeout_ms = 0;
  std::vector<std::pair<std::string, std::string>> options;
  Secret secret;

  // Throws Error(WEFT_INVALID).
  static DomainConfig Read(const weft_domain_config* in,
                           uint32_t plugin_version) {
    if (in == nullptr) throw Error(WEFT_INVALID, "no configuration");
    const weft_domain_config raw = ReadIn(in);
    if (raw.rank >= raw.world) {
      throw Error(WEFT_INVALID, "rank " + std::to_string(raw.rank) +
                                    " is outside of a world of " +
                                    std::to_string(raw.world));
    }
    if (raw.job.size > kMaxJob ||
        (raw.job.data == nullptr && raw.job.size != 0)) {
      throw Error(WEFT_INVALID, "a job id of " + std::to_string(raw.job.size) +
                                    " bytes; " + std::to_string(kMaxJob) +
                                    " are the most");
    }
    if (raw.secret.size > kMaxSecret ||
        (raw.secret.data == nullptr && raw.secret.size != 0)) {
      throw Error(WEFT_INVALID, "a secret of " +
                                    std::to_string(raw.secret.size) +
                                    " bytes; " + std::to_string(kMaxSecret) +
                                    " are the most");
    }
    if (raw.option_count > kMaxOptions ||
        (raw.options == nullptr && raw.option_count != 0)) {
      throw Error(WEFT_INVALID, std::to_string(raw.option_count) + " options");
    }
    DomainConfig config;
    config.hello = {raw.rank,
                    raw.world,
                    raw.wire_version,
                    plugin_version,
                    std::string(View(raw.job)),
                    raw.epoch,
                    raw.incarnation,
                    raw.plan_hash};
    config.notify_token = raw.notify_token;
    config.peer_timeout_ms = raw.peer_timeout_ms;
    config.secret = Secret(View(raw.secret));
    for (uint32_t i = 0; i < raw.option_count; ++i) {
      config.options.emplace_back(View(raw.options[i].key),
                                  View(raw.options[i].value));
    }
    return config;
  }
};

// The value of a whole number among the options; throws Error(WEFT_INVALID).
inline uint64_t ParseOption(const std::string& key, const std::string& value,
                            uint64_t least, uint64_t most) {
  uint64_t number = 0;
  bool good = !value.empty() && value.size() <= 20;
  for (const char c : value) {
    good = good && c >= '0' && c <= '9';
    if (!good) break;
    const uint64_t digit = static_cast<uint64_t>(c - '0');
    good = number <= (UINT64_MAX - digit) / 10;
    number = number * 10 + digit;
  }
  if (good && number >= least && number <= most) return number;
  throw Error(WEFT_INVALID, "option " + key + "=" + value + " is not one of " +
                                std::to_string(least) + " to " +
                                std::to_string(most));
}

}  // namespace weft_sdk

#endif  // WEFT_PLUGINS_SDK_WEFT_HELLO_HPP_
