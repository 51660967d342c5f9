// WireTest: wires of a few ranks over loopback, driven by the test's own
// thread, with a channel from rank 0 to rank 1.
//
//   ConnectPair(/*copies=*/2);
//   Grant(&memory, 4, /*copy=*/0, /*sequence=*/0);   // an act of POST
//   sender().program->Send(0, &value, 4);
//   Pump([&] { return receiver().got.size() == 1; });
//
// Threading: for one thread. Test only.
#ifndef WEFT_RUNTIME_WIRE_WIRE_FIXTURE_H_
#define WEFT_RUNTIME_WIRE_WIRE_FIXTURE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/actor/message.h"
#include "core/plan/actor_spec.h"
#include "core/plan/plan.h"
#include "core/plan/testing/plan_builder.h"
#include "gtest/gtest.h"
#include "plugins/host/test_plugins.h"
#include "runtime/bus/futex_word.h"
#include "runtime/bus/mailbox.h"
#include "runtime/bus/port.h"
#include "runtime/rendezvous/local_rendezvous.h"
#include "runtime/wire/offers.h"
#include "runtime/wire/wire.h"

namespace weft::runtime::wire_testing {

using Offers = std::vector<TransportOffer>;
using Options = std::vector<std::pair<std::string, std::string>>;

inline constexpr uint64_t kLong = 60'000'000'000;
inline constexpr int kPatience = 50'000'000;  // polls for what must come
inline constexpr uint64_t kChannel = 77;
inline constexpr uint32_t kEpoch = 5;
// Too few for SENDs to go ahead of their receives: credits are told.
inline const Options kFewCredits = {{"eager_credits", "2"}};

inline const Transport* LoadTransport(const std::string& name) {
  absl::StatusOr<const Plugin*> plugin =
      Plugin::Load(name, TestLoadOptions({"transport/" + name}));
  EXPECT_TRUE(plugin.ok()) << plugin.status();
  return new Transport(Transport::Create(**plugin).value());
}

inline const Transport& Loopback() {
  static const Transport* transport = LoadTransport("loopback");
  return *transport;
}

inline const Transport& Shm() {
  static const Transport* transport = LoadTransport("shm");
  return *transport;
}

inline const Transport& Grpc() {
  static const Transport* transport = LoadTransport("grpc");
  return *transport;
}

inline std::string OfferOf(const Transport& transport) {
  return OffersText({{transport.info().name, transport.info().locality}});
}

inline void AddChannel(plan::Plan* plan, uint32_t rank, uint32_t ranks,
                       bool receives, uint32_t copies) {
  plan->set_rank(rank);
  plan->set_ranks(ranks);
  plan::Channel* channel = plan->add_channels();
  channel->set_id(kChannel);
  channel->set_name("x:0>1");
  channel->set_peer(1 - rank);
  channel->set_receives(receives);
  channel->set_copies(copies);
  *channel->mutable_tensor() = plan->registers(0).tensors(0);
}

// With values of so many bytes.
inline plan::Plan OfBytes(plan::Plan plan, uint64_t bytes) {
  const auto resize = [bytes](plan::TensorDesc* tensor) {
    tensor->clear_dims();
    tensor->add_dims(static_cast<int64_t>(bytes) / 4);
  };
  for (plan::Register& reg : *plan.mutable_registers()) {
    for (plan::TensorDesc& tensor : *reg.mutable_tensors()) resize(&tensor);
    if (reg.tensors_size() != 0) reg.set_bytes((bytes + 63) / 64 * 64);
  }
  for (plan::Arena& arena : *plan.mutable_arenas()) {
    arena.set_bytes(uint64_t{1} << 20);
  }
  resize(plan.mutable_channels(0)->mutable_tensor());
  return plan;
}

// Rank 0 sends 'x' to rank 1.
inline plan::Plan SenderPlan(uint32_t ranks, uint32_t copies) {
  plan::PlanBuilder b;
  b.Stream("io", false);
  b.Stream("wire", false);
  b.Task("x", plan::Task::SOURCE, "io");
  b.Task("send", plan::Task::SEND, "wire");
  b.Edge("x", "send", {"x/y"});
  plan::Plan plan = b.Build();
  AddChannel(&plan, 0, ranks, false, copies);
  plan.mutable_tasks(1)->set_channel(1);
  return plan;
}

inline plan::Plan ReceiverPlan(uint32_t ranks, uint32_t copies) {
  plan::PlanBuilder b;
  b.Stream("wire", false);
  b.Stream("sink", false);
  b.Task("post", plan::Task::POST, "wire");
  b.Task("recv", plan::Task::RECV, "wire");
  b.Task("out", plan::Task::SINK, "sink");
  plan::EdgeOptions posted{"posted"};
  posted.copies = copies;
  b.Output("post", posted);
  b.InPlace("recv", "posted", "x");
  b.plan().mutable_tasks(1)->clear_ops();
  b.Edge("recv", "out", {"x"});
  plan::Plan plan = b.Build();
  AddChannel(&plan, 1, ranks, true, copies);
  plan.mutable_tasks(0)->set_channel(1);
  plan.mutable_tasks(1)->set_channel(1);
  return plan;
}

// What one rank has; all are driven by the test's own thread.
struct Rank {
  std::unique_ptr<Wire> wire;
  plan::Plan plan;
  std::optional<plan::PlanView> view;
  std::unique_ptr<Mailbox<actor::Message>> box =
      std::make_unique<Mailbox<actor::Message>>(4096);
  std::unique_ptr<FutexWord> word = std::make_unique<FutexWord>();
  std::unique_ptr<ProgramWire> program;
  std::vector<actor::Message> got;

  absl::Status Load(plan::Plan a_plan) {
    plan = std::move(a_plan);
    view.emplace(plan::PlanView::Create(&plan).value());
    auto added = wire->AddProgram(*view, 0, {Port{box.get(), word.get()}});
    if (added.ok()) program = *std::move(added);
    return added.status();
  }
  absl::Status Poll() {
    bool any = false;
    absl::Status status = wire->Poll(&any);
    if (program != nullptr) status.Update(program->Flush());
    box->Drain([this](const actor::Message& m) { got.push_back(m); });
    return status;
  }
};

inline WireOptions OptionsOf(uint32_t rank, uint32_t ranks, Rendezvous* meeting,
                             const Options& options) {
  WireOptions o;
  o.transports = {{&Loopback(), options}};
  o.rendezvous = meeting;
  o.config.rank = rank;
  o.config.world = ranks;
  o.config.job = "test";
  o.config.epoch = kEpoch;
  o.connect_ns = kLong;
  return o;
}

class WireTest : public ::testing::Test {
 protected:
  // Connects all ranks; with a `rogue` all but rank 1, whom that stands for.
  std::vector<absl::Status> Connect(
      uint32_t ranks, const Options& options = {},
      const std::function<void()>& rogue = nullptr) {
    meeting_ = std::make_unique<LocalRendezvous>(ranks, kLong);
    ranks_ = std::vector<Rank>(ranks);
    std::vector<absl::Status> statuses(ranks);
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < ranks; ++r) {
      if (rogue != nullptr && r == 1) continue;
      threads.emplace_back([&, r] {
        WireOptions wire_options = OptionsOf(r, ranks, meeting_.get(), options);
        if (!transports_.empty()) wire_options.transports = transports_[r];
        if (!cores_.empty()) wire_options.core = cores_[r];
        auto wire = Wire::Connect(wire_options, token_);
        statuses[r] = wire.status();
        if (wire.ok()) ranks_[r].wire = *std::move(wire);
      });
    }
    if (rogue != nullptr) rogue();
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

  // Two ranks with a channel from 0 to 1.
  void ConnectPair(uint32_t copies, const Options& options = {},
                   uint64_t bytes = 4) {
    for (const absl::Status& status : Connect(2, options)) {
      ASSERT_TRUE(status.ok()) << status;
    }
    ASSERT_TRUE(sender().Load(OfBytes(SenderPlan(2, copies), bytes)).ok());
    ASSERT_TRUE(receiver().Load(OfBytes(ReceiverPlan(2, copies), bytes)).ok());
  }

  Rank& sender() { return ranks_[0]; }
  Rank& receiver() { return ranks_[1]; }

  // An act of POST.
  void Grant(void* data, uint64_t bytes, uint32_t copy, uint64_t sequence) {
    ASSERT_TRUE(receiver().program->Post(0, data, bytes).ok());
    ASSERT_TRUE(receiver()
                    .program
                    ->Tell(actor::Message::Req(
                        plan::FarEnd(*receiver().view, 0),
                        plan::CreditRegister(*receiver().view, 0),
                        static_cast<uint16_t>(copy), sequence))
                    .ok());
  }

  // Polls both until `done`, boundedly.
  void Pump(const std::function<bool()>& done) {
    for (int i = 0; i < kPatience && !done(); ++i) {
      if (i > 1000) std::this_thread::yield();
      for (Rank& rank : ranks_) {
        if (rank.wire == nullptr) continue;
        absl::Status status = rank.Poll();
        ASSERT_TRUE(status.ok()) << status;
      }
    }
    ASSERT_TRUE(done());
  }

  // Polls `rank` until it fails.
  absl::Status Failure(uint32_t rank) {
    for (int i = 0; i < patience_; ++i) {
      if (i > 1000) std::this_thread::yield();
      absl::Status status = ranks_[rank].Poll();
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // By rank; empty: all have loopback alone.
  std::vector<std::vector<WireTransport>> transports_;
  std::vector<std::optional<uint32_t>> cores_;  // empty: not known
  uint64_t token_ = 0;                          // of no word
  int patience_ = 10000;  // polls of a rank that may not fail
  std::unique_ptr<LocalRendezvous> meeting_;
  std::vector<Rank> ranks_;
};

}  // namespace weft::runtime::wire_testing

#endif  // WEFT_RUNTIME_WIRE_WIRE_FIXTURE_H_
