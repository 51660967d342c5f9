// One rank of a job, in a process that has all of them.
//
//   open --- Close(), or lost (lose_peer_after) ---> nothing new is taken
//
// A domain knows its endpoints (connection.h) and what it allocated and mapped;
// peers find it through the hub (hub.h).
//
// Threading: as plugins/abi/weft_transport.h asks. Locks, outer first: two
// domains of a new connection together, a connection, a mailbox. The hub's is
// innermost. Ownership: the plugin's handle, and for a moment a peer that
// connects.
#ifndef WEFT_TRANSPORT_LOOPBACK_DOMAIN_H_
#define WEFT_TRANSPORT_LOOPBACK_DOMAIN_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plugins/sdk/weft_transport.hpp"
#include "transport/loopback/connection.h"
#include "transport/loopback/hub.h"
#include "transport/loopback/mailbox.h"
#include "transport/loopback/options.h"

namespace weft_loopback {

// What a loopback domain with these options says of itself.
weft_transport_info Describe(const Options& options);

class LoopbackDomain : public weft_sdk::TransportDomain,
                       public std::enable_shared_from_this<LoopbackDomain> {
 public:
  LoopbackDomain(const weft_sdk::DomainConfig& config, const Options& options);

  weft_transport_info Info() override { return Describe(options_); }
  void Close() override;
  std::string Listen() override;
  weft_endpoint Connect(uint32_t rank, std::string_view address,
                        uint64_t cookie) override;
  void CloseEndpoint(weft_endpoint ep, bool abort) override;
  weft_code Post(const weft_transport_op& op, weft_status* status) override;
  void Poll(weft_sdk::EventWriter* writer) override { mailbox_->Poll(writer); }
  bool Wait(uint64_t timeout_ns) override { return mailbox_->Wait(timeout_ns); }
  weft_transport_stats Stats() override;

  weft_mr AllocShared(uint64_t bytes, bool writable, void** host) override;
  void FreeShared(weft_mr mr) override;
  std::string PackShared(weft_mr mr) override;
  weft_sdk::SharedRegion Map(weft_endpoint ep, std::string_view key) override;
  void Unmap(const void* host) override;

 private:
  enum class State { kOpen, kLost, kClosing };

  // One of this domain's endpoints.
  struct Link {
    std::shared_ptr<Connection> connection;
    int side = 0;
    weft_endpoint ep = 0;
    const Connection::Side& peer() const { return connection->side(1 - side); }
  };
  struct Mapping {
    std::shared_ptr<Block> block;
    uint64_t count = 0;
  };

  // Throws where the domain is not open. mu_ is held.
  void CheckOpen() const;
  // Stays where it is as long as the domain. Takes no lock for one that was
  // found before and not pushed out by another.
  const Link& Find(weft_endpoint ep);
  // mu_ of both domains is held. The objection of either, or none.
  weft_sdk::Refusal Meet(const LoopbackDomain& listener,
                         uint32_t expected) const;
  // `listener` is null where nobody is there.
  void Introduce(LoopbackDomain* listener, uint32_t rank, uint64_t cookie,
                 weft_endpoint ep, Wakeups* wake);
  void Join(LoopbackDomain* listener, weft_endpoint ours, weft_endpoint theirs);
  Connection::Side Side(weft_endpoint ep) const;
  std::vector<Link> Leave(State state);
  void Lose();

  const weft_sdk::Hello hello_;
  const Options options_;
  const uint64_t id_;
  const std::shared_ptr<Mailbox> mailbox_;
  std::atomic<uint64_t> posts_{0};

  std::mutex mu_;
  State state_ = State::kOpen;
  bool listening_ = false;
  weft_sdk::Incarnations seen_;
  std::unordered_map<weft_endpoint, Link> links_;  // none ever goes
  std::array<std::atomic<const Link*>, 16> near_{};
  std::map<weft_mr, std::shared_ptr<Block>> blocks_;
  std::map<const void*, Mapping> mappings_;
};

}  // namespace weft_loopback

#endif  // WEFT_TRANSPORT_LOOPBACK_DOMAIN_H_
