// One rank of a job whose peers are reached over gRPC.
//
//   open --- Close() ---> closing: nothing new is taken; endpoints end
//
// The port's one thread makes progress while nobody polls: it takes what comes,
// sends what could not go at once, beats and listens for the beats of peers.
// wire.h has the handshake.
//
// Threading: as plugins/abi/weft_transport.h asks. Nothing is called out with
// the lock held.
#ifndef WEFT_TRANSPORT_GRPC_DOMAIN_H_
#define WEFT_TRANSPORT_GRPC_DOMAIN_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "plugins/sdk/weft_transport.hpp"
#include "transport/grpc/connection.h"
#include "transport/grpc/locked.h"
#include "transport/grpc/options.h"
#include "transport/grpc/stream.h"
#include "transport/grpc/wire.h"

namespace weft_grpc {

// What a domain with these options says of itself.
weft_transport_info Describe(const Options& options, bool secret);

// So often within the peer time-out does each side beat.
constexpr uint64_t kBeats = 16;

class GrpcDomain : public weft_sdk::TransportDomain, private PortOwner {
 public:
  GrpcDomain(const weft_sdk::DomainConfig& config, const Options& options);
  ~GrpcDomain() override;

  weft_transport_info Info() override {
    return Describe(options_, !secret_.empty());
  }
  void Close() override;
  std::string Listen() override;
  weft_endpoint Connect(uint32_t rank, std::string_view address,
                        uint64_t cookie) override;
  void CloseEndpoint(weft_endpoint ep, bool abort) override;
  weft_code Post(const weft_transport_op& op, weft_status* status) override;
  void Poll(weft_sdk::EventWriter* writer) override;
  bool Wait(uint64_t timeout_ns) override;
  weft_transport_stats Stats() override;

 private:
  enum class Stage {
    kHello,      // listener: waits for kHello or kAttach
    kChallenge,  // connector: dials, and waits for kChallenge
    kProof,      // listener
    kWelcome,    // connector
    kAttach,     // listener: the bulk stream is to come
    kReady,      // connector: the first record is to come
    kGone,       // there will be no connection
  };
  // Streams that are no connection yet: those of a connector, or one that came.
  struct Visit final : StreamUser {
    Visit(GrpcDomain* d, uint64_t i) : domain(d), id(i) {}
    void OnWritable(Stream* stream) override;
    void OnMessage(Stream* stream, const Message& message) override;
    void OnReleased(Stream*) override {}  // it writes no bodies
    void OnOver(Stream* stream, const std::string& why) override;
    bool connector() const { return ep != 0; }

    GrpcDomain* const domain;
    const uint64_t id;
    Stage stage = Stage::kHello;
    uint64_t left_ns = 0;  // to become a connection
    std::shared_ptr<Stream> control, bulk;
    uint32_t live = 0;  // streams that are not over
    std::deque<std::string> out;
    bool finish = false;  // once `out` is out
    std::string said;     // kHello, kChallenge
    Frame theirs;         // of the other side: kHello or kChallenge
    std::string token;    // that the bulk stream shows
    // Of a connector:
    std::string host;
    int port = 0;
    weft_endpoint ep = 0;
    uint32_t rank = 0;
    uint64_t cookie = 0;
  };

  void OnCall(std::shared_ptr<Stream> stream) override;
  uint64_t OnTick() override;

  void CheckOpen() const;
  Connection& Find(weft_endpoint ep);
  bool Quiet() const;

  // visits.cc
  std::unique_ptr<Visit> NewVisit();
  void MakeRoom();
  void Flush(Visit* visit);
  void Say(Visit* visit, const Frame& frame);
  Frame NewFrame(FrameKind kind) const;
  // The connection that the visit has become; the message is then its own.
  Connection* Take(Visit* visit, const Message& message);
  void TakeHello(Visit* visit, const Frame& frame);
  void TakeChallenge(Visit* visit, const Frame& frame);
  void TakeProof(Visit* visit, const Frame& frame);
  void TakeWelcome(Visit* visit, const Frame& frame);
  void TakeAttach(Visit* visit, const Frame& frame);
  bool HasName(const Stream& stream, uint32_t rank) const;
  weft_sdk::Refusal MeetHello(const Visit& visit) const;
  Connection* Enter(Visit* visit, std::shared_ptr<Stream> bulk);
  void PushRefusal(const Visit& visit, const weft_sdk::Refusal& refusal);
  void Refuse(Visit* visit, const weft_sdk::Refusal& refusal, bool tell);
  void Drop(Visit* visit, weft_code code, const std::string& why);
  void EndVisit(Visit* visit, const std::string& why);

  const weft_sdk::Hello hello_;
  const Options options_;
  const weft_sdk::Secret secret_;
  const uint64_t timeout_ns_;
  const std::string token_;  // of the address
  Shared shared_;

  // Guarded by the lock in `shared_`.
  bool closing_ = false;
  std::string address_;  // empty: does not listen
  bool deaf_ = false;    // could not listen
  weft_sdk::Incarnations seen_;
  uint64_t last_id_ = 0;  // of endpoints and visits
  std::map<uint64_t, std::unique_ptr<Visit>> visits_;
  std::unordered_map<weft_endpoint, std::unique_ptr<Connection>> endpoints_;
  uint64_t last_tick_ns_ = 0;

  std::unique_ptr<Port> port_;
};

}  // namespace weft_grpc

#endif  // WEFT_TRANSPORT_GRPC_DOMAIN_H_
