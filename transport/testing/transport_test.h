// The tests that every transport passes. A transport's own test names its
// plugin and the options to run with; the tests come from this library:
//
//   INSTANTIATE_TEST_SUITE_P(
//       Loopback, TransportTest,
//       testing::Values(TransportCase{"plain", "loopback",
//                                     "transport/loopback"}),
//       TransportCase::Name);
//
// (the BUILD file has the plugin under `data`). Each test opens its domains in
// one process, whatever the transport connects otherwise.
//
// Nothing here sleeps or measures: a Node is polled until what must come has
// come, and kPatience only turns a hang into a failure.
#ifndef WEFT_TRANSPORT_TESTING_TRANSPORT_TEST_H_
#define WEFT_TRANSPORT_TESTING_TRANSPORT_TEST_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "plugins/host/plugin.h"
#include "plugins/host/transport.h"

namespace weft {

struct TransportCase {
  using Options = std::vector<std::pair<std::string, std::string>>;

  std::string name;     // of the instance: letters and digits
  std::string plugin;   // "loopback"
  std::string package;  // "transport/loopback"
  Options options;      // of every domain
  // Options that end a domain after so many posts as if its process had died.
  // Null: the transport has no such option, and the tests of it are skipped.
  std::function<Options(uint64_t posts)> lose_after;

  static std::string Name(const testing::TestParamInfo<TransportCase>& info) {
    return info.param.name;
  }
};

inline void PrintTo(const TransportCase& c, std::ostream* out) {
  *out << c.name;
}

constexpr std::chrono::seconds kPatience{40};

// A domain, what came out of it, and checks that hold for every event.
class Node {
 public:
  explicit Node(std::unique_ptr<Domain> domain) : domain_(std::move(domain)) {}
  ~Node();

  Domain& domain() { return *domain_; }
  uint32_t rank() const { return domain_->rank(); }
  uint64_t to(uint32_t rank) const { return to_.at(rank); }
  bool connected(uint32_t rank) const { return to_.count(rank) != 0; }

  // Posts, and expects that there is room. Returns the cookie.
  uint64_t Send(uint32_t rank, uint64_t tag, const std::string& bytes,
                bool urgent = false);
  uint64_t Recv(uint32_t rank, uint64_t tag, std::string* bytes);
  // True where it was posted; false where the transport is full; or an error.
  absl::StatusOr<bool> PostSend(uint32_t rank, uint64_t tag, const void* data,
                                uint64_t bytes, uint64_t cookie,
                                bool urgent = false);
  absl::StatusOr<bool> PostRecv(uint32_t rank, uint64_t tag, void* data,
                                uint64_t bytes, uint64_t cookie);
  // The same where an error is a failure of the test.
  bool TrySend(uint32_t rank, uint64_t tag, const void* data, uint64_t bytes,
               uint64_t cookie, bool urgent = false);
  bool TryRecv(uint32_t rank, uint64_t tag, void* data, uint64_t bytes,
               uint64_t cookie);

  // Polls once. True where something came.
  bool Pump();
  // Everything that is still to come, and the end of the domain.
  void Close();

  bool done(uint64_t cookie) const { return done_.count(cookie) != 0; }
  // The completion of an operation. Pre-condition: done().
  const TransportEvent& result(uint64_t cookie) const {
    return done_.at(cookie);
  }
  // So many completions went past this node.
  void Forget(size_t count) { posted_ -= count; }
  size_t outstanding() const { return posted_ - done_.size(); }
  // Cookies in the order in which they completed.
  const std::vector<uint64_t>& order() const { return order_; }
  // Events that are no completions.
  const std::vector<TransportEvent>& others() const { return others_; }
  // The last one of a kind, or null.
  const TransportEvent* Last(TransportEventKind kind) const;
  size_t Count(TransportEventKind kind) const;

 private:
  void Take(const TransportEvent& event);

  std::unique_ptr<Domain> domain_;
  uint64_t next_cookie_ = 1;
  size_t posted_ = 0;
  std::map<uint32_t, uint64_t> to_;     // endpoints that are up, by rank
  std::map<uint64_t, bool> endpoints_;  // all ever; true: down
  std::map<uint64_t, TransportEvent> done_;
  std::vector<uint64_t> order_;
  std::vector<TransportEvent> others_;
};

// Of a node that was connected to one other: whether it is, still.
inline bool Up(const Node& node) {
  return node.Last(TransportEventKind::kEndpointDown) == nullptr;
}

using Nodes = std::vector<std::unique_ptr<Node>>;

// Polls `nodes` until `finished`; fails after kPatience.
void PumpThese(const std::vector<Node*>& nodes,
               const std::function<bool()>& finished);
void PumpUntil(const Nodes& nodes, const std::function<bool()>& finished);

class TransportTest : public testing::TestWithParam<TransportCase> {
 protected:
  void SetUp() override;

  const Plugin& plugin() const { return *plugin_; }
  const Transport& transport() const { return *transport_; }
  const weft_transport_api& api() const { return plugin_->transport(); }

  // The configuration of a rank of this test's job.
  DomainConfig Config(uint32_t rank, uint32_t world) const;
  std::unique_ptr<Node> Open(const DomainConfig& config) const;

  // Begins to connect `a` to `b`, whose rank is larger, and polls both until
  // both know how it ended. True where they are connected.
  static bool Connect(Node& a, Node& b, uint64_t cookie = 77);
  // Two or more ranks, all connected with each other.
  Nodes Mesh(uint32_t world) const;
  // Five ranks, a thread each, with much to say: random_tests.cc.
  void RunSleepers(bool on_word) const;

 private:
  const Plugin* plugin_ = nullptr;
  std::unique_ptr<Transport> transport_;
};

// `size` bytes that depend on all of `seed`.
std::string Pattern(uint64_t seed, uint64_t size);

testing::AssertionResult Is(const absl::Status& status, ErrorCode code);

}  // namespace weft

#endif  // WEFT_TRANSPORT_TESTING_TRANSPORT_TEST_H_
