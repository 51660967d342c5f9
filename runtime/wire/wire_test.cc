#include "runtime/wire/wire.h"

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/plan/actor_spec.h"
#include "core/plan/testing/plan_builder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/host/test_plugins.h"
#include "runtime/bus/futex_word.h"
#include "runtime/rendezvous/local_rendezvous.h"
#include "runtime/wire/offers.h"

namespace weft::runtime {
namespace {

using actor::Message;
using plan::Task;
using ::testing::HasSubstr;
using Offers = std::vector<TransportOffer>;
using Options = std::vector<std::pair<std::string, std::string>>;

constexpr uint64_t kLong = 60'000'000'000;
constexpr int kPatience = 50'000'000;  // polls for what must come
constexpr uint64_t kChannel = 77;
constexpr uint32_t kEpoch = 5;

const Transport* LoadTransport(const std::string& name) {
  absl::StatusOr<const Plugin*> plugin =
      Plugin::Load(name, TestLoadOptions({"transport/" + name}));
  EXPECT_TRUE(plugin.ok()) << plugin.status();
  return new Transport(Transport::Create(**plugin).value());
}

const Transport& Loopback() {
  static const Transport* transport = LoadTransport("loopback");
  return *transport;
}

const Transport& Shm() {
  static const Transport* transport = LoadTransport("shm");
  return *transport;
}

std::string LoopbackOffer() {
  return OffersText({{"loopback", Loopback().info().locality}});
}

void AddChannel(plan::Plan* plan, uint32_t rank, uint32_t ranks, bool receives,
                uint32_t copies) {
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
plan::Plan OfBytes(plan::Plan plan, uint64_t bytes) {
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
plan::Plan SenderPlan(uint32_t ranks, uint32_t copies) {
  plan::PlanBuilder b;
  b.Stream("io", false);
  b.Stream("wire", false);
  b.Task("x", Task::SOURCE, "io");
  b.Task("send", Task::SEND, "wire");
  b.Edge("x", "send", {"x/y"});
  plan::Plan plan = b.Build();
  AddChannel(&plan, 0, ranks, false, copies);
  plan.mutable_tasks(1)->set_channel(1);
  return plan;
}

plan::Plan ReceiverPlan(uint32_t ranks, uint32_t copies) {
  plan::PlanBuilder b;
  b.Stream("wire", false);
  b.Stream("sink", false);
  b.Task("post", Task::POST, "wire");
  b.Task("recv", Task::RECV, "wire");
  b.Task("out", Task::SINK, "sink");
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
  std::unique_ptr<Mailbox<Message>> box =
      std::make_unique<Mailbox<Message>>(4096);
  std::unique_ptr<FutexWord> word = std::make_unique<FutexWord>();
  std::unique_ptr<ProgramWire> program;
  std::vector<Message> got;

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
    box->Drain([this](const Message& m) { got.push_back(m); });
    return status;
  }
};

WireOptions OptionsOf(uint32_t rank, uint32_t ranks, Rendezvous* meeting,
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
        auto wire = Wire::Connect(wire_options, 0);
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
    ASSERT_TRUE(
        receiver()
            .program
            ->Credit(Message::Req(plan::FarEnd(*receiver().view, 0),
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
  int patience_ = 10000;  // polls of a rank that may not fail
  std::unique_ptr<LocalRendezvous> meeting_;
  std::vector<Rank> ranks_;
};

TEST_F(WireTest, CreditsAndDataBecomeRequests) {
  for (const Options& options :
       {Options{}, Options{{"delay_max", "5"}, {"delay_seed", "3"}}}) {
    ConnectPair(/*copies=*/2, options);
    plan::ActorSpecOptions spec;
    const actor::ActorId send = plan::ActorIdOf(*sender().view, 1, spec);
    spec.rank = 1;
    const actor::ActorId recv = plan::ActorIdOf(*receiver().view, 1, spec);
    uint32_t memory[2] = {0, 0};
    for (uint32_t act = 0; act < 5; ++act) {
      SCOPED_TRACE(act);
      Grant(&memory[act % 2], 4, act % 2, act);
      Pump([&] { return sender().got.size() == act + 1; });
      EXPECT_EQ(sender().got[act],
                Message::Req(send, plan::CreditRegister(*sender().view, 0),
                             act % 2, act));
      EXPECT_TRUE(act == 0 || receiver().got.size() == act);
      const uint32_t value = 100 + act;
      ASSERT_TRUE(sender().program->Send(0, &value, 4).ok());
      Pump([&] { return receiver().got.size() == act + 1; });
      EXPECT_EQ(receiver().got[act],
                Message::Req(recv, plan::DataRegister(*receiver().view, 0),
                             act % 2, act));
      EXPECT_EQ(memory[act % 2], value);
    }
    for (Rank& rank : ranks_) rank.program.reset();
  }
}

// Of 16 copies a frame has four credits, and Flush sends what is left. Large
// values, and those of few copies, have a frame each.
TEST_F(WireTest, CreditsOfSmallValuesShareFrames) {
  struct Case {
    uint32_t copies;
    uint64_t bytes;
    std::vector<size_t> told;  // after so many acts, from 1
  };
  for (const Case& c : std::vector<Case>{{16, 4, {0, 0, 0, 4, 4, 4}},
                                         {16, 600, {1, 2, 3, 4, 5, 6}},
                                         {6, 4, {1, 2, 3, 4, 5, 6}}}) {
    SCOPED_TRACE(absl::StrCat(c.copies, " of ", c.bytes));
    ConnectPair(c.copies, {{"eager_max", "512"}}, c.bytes);
    std::vector<std::string> memory(c.told.size(), std::string(c.bytes, '-'));
    const auto look = [&] {
      bool any = false;
      ASSERT_TRUE(sender().wire->Poll(&any).ok());
      sender().box->Drain([&](const Message& m) { sender().got.push_back(m); });
    };
    for (uint32_t i = 0; i < c.told.size(); ++i) {
      Grant(&memory[i][0], c.bytes, i, 100 + i);
      look();
      EXPECT_EQ(sender().got.size(), c.told[i]) << i;
    }
    ASSERT_TRUE(receiver().program->Flush().ok());
    look();
    ASSERT_EQ(sender().got.size(), c.told.size());
    for (uint32_t i = 0; i < c.told.size(); ++i) {
      EXPECT_EQ(sender().got[i].copy, i);
      EXPECT_EQ(sender().got[i].sequence, 100 + i);
    }
    for (Rank& rank : ranks_) rank.program.reset();
  }
}

// Four values of 16 copies are one message; the rest goes out in Flush. A full
// transport keeps what waits.
TEST_F(WireTest, SmallValuesGoTogether) {
  for (const Options& options : {Options{}, Options{{"eager_max", "512"},
                                                    {"eager_credits", "1"},
                                                    {"delay_max", "3"}}}) {
    constexpr uint32_t kCopies = 16;
    ConnectPair(kCopies, options);
    uint32_t memory[kCopies] = {};
    for (uint32_t i = 0; i < kCopies; ++i) Grant(&memory[i], 4, i, i);
    ASSERT_TRUE(receiver().program->Flush().ok());
    Pump([&] { return sender().got.size() == kCopies; });
    for (uint32_t i = 0; i < 15; ++i) {
      const uint32_t value = 100 + i;
      ASSERT_TRUE(sender().program->Send(0, &value, 4).ok());
      EXPECT_FALSE(sender().program->Hold(
          0, {Message::Ack(actor::ActorId::Make(0, 0, 0), 0, 0, i)}));
      if (!options.empty()) continue;
      bool any = false;
      ASSERT_TRUE(receiver().wire->Poll(&any).ok());
      receiver().box->Drain(
          [&](const Message& m) { receiver().got.push_back(m); });
      EXPECT_EQ(receiver().got.size(), (i + 1) / 4 * 4) << i;
    }
    Pump([&] { return receiver().got.size() == 15; });
    for (uint32_t i = 0; i < 15; ++i) {
      EXPECT_EQ(memory[i], 100 + i);
      EXPECT_EQ(receiver().got[i].copy, i);
      EXPECT_EQ(receiver().got[i].sequence, i);
    }
    EXPECT_EQ(memory[15], 0u);
    for (Rank& rank : ranks_) rank.program.reset();
  }
}

TEST_F(WireTest, SmallSendsHoldNothingBack) {
  ConnectPair(1);
  uint32_t value = 1;
  ASSERT_TRUE(sender().program->Send(0, &value, 4).ok());
  const Message ack = Message::Ack({0}, 0, 0, 0);
  EXPECT_FALSE(sender().program->Hold(0, {ack}));
  EXPECT_EQ(sender().program->holds(), 0u);
  EXPECT_TRUE(sender().program->Released(1));
  // It was copied: what comes later does not matter.
  value = 2;
  uint32_t memory = 0;
  Grant(&memory, 4, 0, 0);
  Pump([&] { return receiver().got.size() == 1; });
  EXPECT_EQ(memory, 1u);
  EXPECT_EQ(sender().got.size(), 1u);  // the credit, no ACK
}

TEST_F(WireTest, LargeSendsHoldTheirAcksUntilTheyAreOut) {
  ConnectPair(2, {{"eager_max", "1000"}});
  ProgramWire& out = *sender().program;
  const std::vector<std::string> data = {std::string(5000, 'a'),
                                         std::string(5000, 'b')};
  const Message here = Message::Ack(
      actor::ActorId::Make(0, sender().plan.tasks(0).stream(), 0), 0, 0, 41);
  const Message elsewhere =
      Message::Req(actor::ActorId::Make(1, 0, 0), 3, 0, 41);
  for (int i : {0, 1}) {
    ASSERT_TRUE(out.Send(0, data[i].data(), data[i].size()).ok());
    Message ack = here;
    ack.sequence += i;
    EXPECT_TRUE(out.Hold(0, {ack, elsewhere}));
  }
  EXPECT_EQ(out.holds(), 2u);
  EXPECT_TRUE(out.Released(1));
  EXPECT_FALSE(out.Released(2));
  ASSERT_TRUE(sender().Poll().ok());
  EXPECT_TRUE(sender().got.empty());
  std::string memory(5000, '-');
  ASSERT_TRUE(receiver().program->Post(0, &memory[0], memory.size()).ok());
  Pump([&] { return sender().got.size() == 1; });
  EXPECT_EQ(sender().got[0], here);
  EXPECT_EQ(memory, data[0]);
  EXPECT_TRUE(out.Released(2));
  EXPECT_FALSE(out.Released(3));
  ASSERT_TRUE(receiver().program->Post(0, &memory[0], memory.size()).ok());
  Pump([&] { return sender().got.size() == 2; });
  EXPECT_EQ(sender().got[1].sequence, here.sequence + 1);
  EXPECT_EQ(memory, data[1]);
  EXPECT_TRUE(out.Released(3));
}

// One small message at a time, or 24 large ones; the rest waits, in order.
TEST_F(WireTest, AFullTransportLosesNothing) {
  for (uint64_t bytes : {512, 5000}) {
    SCOPED_TRACE(bytes);
    constexpr uint32_t kCopies = 16;
    constexpr uint32_t kSends = 40;
    ConnectPair(kCopies,
                {{"eager_max", "512"},
                 {"eager_credits", "1"},
                 {"max_inflight", "24"},
                 {"delay_max", "3"}},
                bytes);
    std::vector<std::string> in(kSends, std::string(bytes, '-')), out;
    for (uint32_t i = 0; i < kSends; ++i) {
      out.push_back(std::string(bytes, static_cast<char>('0' + i)));
    }
    uint32_t granted = 0;
    const auto grant = [&] {
      Grant(&in[granted][0], bytes, granted % kCopies, granted);
      ++granted;
    };
    uint32_t held = 0;
    for (uint32_t i = 0; i < kSends; ++i) {
      // The transport has room again, but those that wait come first.
      if (i == kSends - 2) grant();
      ASSERT_TRUE(sender().program->Send(0, out[i].data(), bytes).ok());
      const Message ack = Message::Ack(
          actor::ActorId::Make(0, sender().plan.tasks(0).stream(), 0), 0, 0, i);
      if (sender().program->Hold(0, {ack})) ++held;
    }
    // Of the small ones all but the first had to wait, and say so later.
    EXPECT_EQ(held, bytes > 512 ? kSends : kSends - 1);
    Pump([&] {
      while (granted < kSends && granted < receiver().got.size() + kCopies) {
        grant();
      }
      return receiver().got.size() == kSends &&
             sender().got.size() == kSends + held;
    });
    EXPECT_TRUE(in == out);
    uint64_t next_ack = kSends - held, next_credit = 0;
    for (const Message& m : sender().got) {
      uint64_t& next =
          m.kind == actor::MessageKind::kAck ? next_ack : next_credit;
      EXPECT_EQ(m.sequence, next++);
    }
    EXPECT_TRUE(sender().program->Released(kSends + 1));
    for (Rank& rank : ranks_) rank.program.reset();
  }
}

TEST_F(WireTest, MoreReceivesThanTheTransportTakesAreRefused) {
  for (const absl::Status& s : Connect(2, {{"max_inflight", "8"}})) {
    ASSERT_TRUE(s.ok()) << s;
  }
  absl::Status status = receiver().Load(ReceiverPlan(2, /*copies=*/6));
  EXPECT_TRUE(IsError(status, ErrorCode::kTransportFailed)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("9 receives from rank 0 under way at once"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("takes 8"));
  // What was refused is forgotten.
  status = receiver().Load(ReceiverPlan(2, /*copies=*/5));
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(WireTest, ATransportTooSmallForFramesIsRefused) {
  for (const Options& options :
       {Options{{"eager_max", "511"}}, Options{{"max_inflight", "2"}}}) {
    for (const absl::Status& status : Connect(2, options)) {
      EXPECT_TRUE(IsError(status, ErrorCode::kTransportFailed)) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("at least 512 and 3 are needed"));
    }
  }
}

TEST_F(WireTest, PlansOfAnotherRankAreRefused) {
  for (const absl::Status& s : Connect(2)) ASSERT_TRUE(s.ok()) << s;
  absl::Status status = receiver().Load(SenderPlan(2, 1));
  EXPECT_TRUE(IsError(status, ErrorCode::kBadPlan)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 0 of 2 on rank 1 of 2"));
  status = sender().Load(SenderPlan(3, 1));
  EXPECT_TRUE(IsError(status, ErrorCode::kBadPlan)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 of 3"));
}

TEST_F(WireTest, OneChannelIsOfOneProgram) {
  ConnectPair(1);
  auto again = sender().wire->AddProgram(
      *sender().view, 100, {Port{sender().box.get(), sender().word.get()}});
  EXPECT_TRUE(IsError(again.status(), ErrorCode::kBadPlan)) << again.status();
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("x:0>1"));
  // The first still has it.
  uint32_t memory = 0;
  Grant(&memory, 4, 0, 0);
  Pump([&] { return sender().got.size() == 1; });
}

TEST_F(WireTest, LastWordsReachEveryPeerAndStay) {
  for (const absl::Status& s : Connect(3, {{"delay_max", "4"}})) {
    ASSERT_TRUE(s.ok()) << s;
  }
  ranks_[1].wire->Abort(
      MakeError(ErrorCode::kNotFinite, std::string(1000, 'x')));
  ranks_[1].wire.reset();
  for (uint32_t r : {0, 2}) {
    absl::Status status = Failure(r);
    EXPECT_TRUE(IsError(status, ErrorCode::kNotFinite)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1: xxx"));
    EXPECT_EQ(ranks_[r].Poll(), status);
  }
}

// Who sends to a rank that has gone must still learn why it went.
TEST_F(WireTest, LastWordsAreNotLostToASend) {
  ConnectPair(1);
  receiver().wire->Abort(MakeError(ErrorCode::kNotFinite, "loss is nan"));
  receiver().program.reset();
  receiver().wire.reset();
  const uint32_t value = 1;
  absl::Status sent = sender().program->Send(0, &value, 4);
  EXPECT_TRUE(sent.ok()) << sent;
  absl::Status status = Failure(0);
  EXPECT_TRUE(IsError(status, ErrorCode::kNotFinite)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1: loss is nan"));
}

// Even where no credit is left to say it.
TEST_F(WireTest, AnAbortThatCannotBeSaidEndsTheConnection) {
  ConnectPair(4, {{"eager_credits", "1"}, {"max_inflight", "8"}});
  uint32_t memory[4];
  // Two receives of frames; the third credit waits with the transport.
  for (uint32_t i = 0; i < 4; ++i) Grant(&memory[i], 4, i, i);
  receiver().wire->Abort(MakeError(ErrorCode::kNotFinite, "loss is nan"));
  absl::Status status = Failure(0);
  EXPECT_TRUE(IsError(status, ErrorCode::kPeerLost)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 is lost"));
}

TEST_F(WireTest, ALostPeerIsNamed) {
  for (const absl::Status& s : Connect(3)) ASSERT_TRUE(s.ok()) << s;
  ranks_[2].wire.reset();
  for (uint32_t r : {0, 1}) {
    absl::Status status = Failure(r);
    EXPECT_TRUE(IsError(status, ErrorCode::kPeerLost)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 2 is lost"));
    EXPECT_EQ(ranks_[r].Poll(), status);
  }
}

TEST_F(WireTest, ARankThatDoesNotConnectIsNamed) {
  LocalRendezvous meeting(2, kLong);
  // Rank 0 gives an address, and then does nothing.
  std::thread silent([&] {
    EXPECT_TRUE(meeting.AllGather(0, "wire/offers", LoopbackOffer()).ok());
    // Rank 1 may have given up when this one wakes.
    meeting.AllGather(0, "wire/address", JoinFields({"somewhere"}))
        .status()
        .IgnoreError();
  });
  WireOptions options = OptionsOf(1, 2, &meeting, {});
  options.connect_ns = 0;
  absl::Status status = Wire::Connect(options, 0).status();
  silent.join();
  EXPECT_TRUE(IsError(status, ErrorCode::kPeerLost)) << status;
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("rank 1 could not connect with these ranks in time: 0"));
  // Nobody waits for who has given up.
  EXPECT_TRUE(IsError(meeting.AllGather(0, "wire/connected", "").status(),
                      ErrorCode::kPeerLost));
}

// One side hears it from the transport, the other where they meet.
TEST_F(WireTest, RanksThatDoNotBelongTogetherDoNotConnect) {
  LocalRendezvous meeting(2, kLong);
  absl::Status statuses[2];
  std::vector<std::thread> threads;
  for (uint32_t r : {0, 1}) {
    threads.emplace_back([&, r] {
      WireOptions options = OptionsOf(r, 2, &meeting, {});
      options.config.epoch += r;
      statuses[r] = Wire::Connect(options, 0).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) {
    EXPECT_TRUE(IsError(status, ErrorCode::kPeerRefused)) << status;
  }
}

TEST_F(WireTest, AllLeaveTogether) {
  ConnectPair(1);
  for (Rank& rank : ranks_) rank.program.reset();
  std::thread other([&] {
    absl::Status status = ranks_[1].wire->Leave();
    EXPECT_TRUE(status.ok()) << status;
  });
  absl::Status status = ranks_[0].wire->Leave();
  EXPECT_TRUE(status.ok()) << status;
  other.join();
}

TEST(OffersTest, TheFirstThatBothHaveAndThatReaches) {
  const Offers here = {{"shm", "host a"}, {"grpc", "tcp"}};
  const Offers there = {{"grpc", "tcp"}, {"shm", "host b"}};
  const auto chosen = [](const Offers& a, const Offers& b) {
    auto pair = ChooseOffers(2, a, 5, b);
    return pair.ok() ? a[pair->first].name + b[pair->second].name
                     : std::string(pair.status().message());
  };
  EXPECT_EQ(chosen(here, here), "shmshm");
  EXPECT_EQ(chosen(here, there), "grpcgrpc");
  EXPECT_EQ(chosen({there[0], here[0]}, here), "grpcgrpc");
  absl::Status none = ChooseOffers(2, {here[0]}, 5, {there[1]}).status();
  EXPECT_TRUE(IsError(none, ErrorCode::kBadLaunch)) << none;
  EXPECT_THAT(std::string(none.message()),
              HasSubstr("no transport joins rank 2, which has 'shm' (host a), "
                        "and rank 5, which has 'shm' (host b)"));
  EXPECT_THAT(chosen({}, here), HasSubstr("rank 2, which has , and"));
}

TEST(OffersTest, TextsOfOffers) {
  const Offers offers = {{"shm", std::string("a\0b \xff", 5)}, {"grpc", ""}};
  auto parsed = ParseOffers(OffersText(offers));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ((*parsed)[i].name, offers[i].name);
    EXPECT_EQ((*parsed)[i].locality, offers[i].locality);
  }
  for (const char* bad : {"", "61", "6", "61 6z", "61 62 63"}) {
    EXPECT_FALSE(ParseOffers(bad).ok()) << bad;
  }
}

// What goes between two ranks goes by what these two chose.
TEST_F(WireTest, EachPairTakesItsBestTransport) {
  const WireTransport loopback{&Loopback(), {}};
  const WireTransport shm{&Shm(), {}};
  struct Case {
    std::vector<std::vector<WireTransport>> transports;
    std::vector<std::string> described;
  };
  for (const Case& c : std::vector<Case>{
           {{{loopback, shm}, {shm, loopback}, {shm}},
            {"rank 1 by loopback, rank 2 by shm",
             "rank 2 by shm, rank 0 by loopback", "ranks 0, 1 by shm"}},
           {{{shm, loopback}, {shm, loopback}, {loopback}},
            {"rank 1 by shm, rank 2 by loopback",
             "rank 0 by shm, rank 2 by loopback", "ranks 0, 1 by loopback"}}}) {
    transports_ = c.transports;
    for (const absl::Status& s : Connect(3)) ASSERT_TRUE(s.ok()) << s;
    for (uint32_t r = 0; r < 3; ++r) {
      EXPECT_EQ(ranks_[r].wire->Describe(), c.described[r]);
    }
    ASSERT_TRUE(sender().Load(SenderPlan(3, 1)).ok());
    ASSERT_TRUE(receiver().Load(ReceiverPlan(3, 1)).ok());
    uint32_t memory = 0;
    Grant(&memory, 4, 0, 0);
    Pump([&] { return sender().got.size() == 1; });
    const uint32_t value = 77;
    ASSERT_TRUE(sender().program->Send(0, &value, 4).ok());
    Pump([&] { return receiver().got.size() == 1; });
    EXPECT_EQ(memory, value);
    for (Rank& rank : ranks_) rank.program.reset();
    // Both are listened to.
    patience_ = kPatience;
    ranks_[2].wire.reset();
    for (uint32_t r : {0, 1}) {
      absl::Status status = Failure(r);
      EXPECT_TRUE(IsError(status, ErrorCode::kPeerLost)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 2 is lost"));
    }
    ranks_.clear();
  }
}

TEST_F(WireTest, RanksThatNoTransportJoinsAreNamed) {
  transports_ = {{{&Loopback(), {}}}, {{&Shm(), {}}}, {{&Shm(), {}}}};
  for (const absl::Status& status : Connect(3)) {
    EXPECT_TRUE(IsError(status, ErrorCode::kBadLaunch)) << status;
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr("no transport joins rank 0, which has 'loopback' (process"));
  }
}

// A rank 1 that says whatever the test wants.
class RogueTest : public WireTest {
 protected:
  void ConnectRogue() {
    const auto rogue = [&] {
      DomainConfig config = OptionsOf(1, 2, meeting_.get(), {}).config;
      domain_ = Loopback().Open(config).value();
      const std::string address = domain_->Listen().value();
      ASSERT_TRUE(meeting_->AllGather(1, "wire/offers", LoopbackOffer()).ok());
      ASSERT_TRUE(
          meeting_->AllGather(1, "wire/address", JoinFields({address})).ok());
      TransportEvent event;
      while (domain_->Poll(absl::MakeSpan(&event, 1)).value() == 0) {
        domain_->Wait(1'000'000).IgnoreError();
      }
      ASSERT_EQ(event.kind, TransportEventKind::kAccepted);
      endpoint_ = event.endpoint;
      ASSERT_TRUE(meeting_->AllGather(1, "wire/connected", "").ok());
    };
    const auto statuses = Connect(2, {}, rogue);
    ASSERT_TRUE(statuses[0].ok()) << statuses[0];
  }
  void Say(uint64_t tag, const void* data, uint64_t bytes) {
    auto posted = domain_->PostSend(endpoint_, tag, data, bytes, 0, true);
    ASSERT_TRUE(posted.ok() && *posted) << posted.status();
  }
  // How rank 0, which sends on the channel, takes a frame.
  absl::Status Take(const Frame& frame) {
    ConnectRogue();
    EXPECT_TRUE(sender().Load(SenderPlan(2, 2)).ok());
    Say(kFrameTag, &frame, sizeof(frame));
    absl::Status status = Failure(0);
    sender().program.reset();
    return status;
  }

  std::unique_ptr<Domain> domain_;
  uint64_t endpoint_ = 0;
};

TEST_F(RogueTest, BadFramesNameTheirRank) {
  const Frame good{Frame::kCredit, 0, 1, kChannel, 9, kEpoch, 0};
  EXPECT_TRUE(Take(SealFrame(good)).ok());
  EXPECT_EQ(sender().got.size(), 1u);
  struct Case {
    const char* text;
    Frame frame;
  };
  Frame damaged = SealFrame(good);
  damaged.sequence ^= 1;
  Frame epoch = good, kind = good, channel = good, copy = good, none = good,
        many = good;
  epoch.epoch = kEpoch + 1;
  kind.kind = 2;
  channel.channel = kChannel + 1;
  copy.copy = 2;
  none.count = 0;
  many.count = 3;
  for (const Case& c : std::vector<Case>{
           {"is damaged", damaged},
           {"is of another job", SealFrame(epoch)},
           {"is of no kind", SealFrame(kind)},
           {"is for no channel", SealFrame(channel)},
           {"does not fit channel 'x:0>1' to rank 1", SealFrame(copy)},
           {"does not fit channel 'x:0>1' to rank 1", SealFrame(none)},
           {"is a credit too many for channel", SealFrame(many)}}) {
    SCOPED_TRACE(c.text);
    absl::Status status = Take(c.frame);
    EXPECT_TRUE(IsError(status, ErrorCode::kTransportFailed)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("a frame from rank 1 ", c.text)));
    EXPECT_TRUE(sender().got.empty());
  }
}

TEST_F(RogueTest, BadValuesNameTheirRank) {
  constexpr uint32_t kCopies = 16;
  ValueFrame good;
  good.head = {Frame::kValues, 0, 2, kChannel, 0, kEpoch, 0};
  good.bytes[0] = 7;
  const auto sealed = [](ValueFrame frame) {
    frame.head.crc = ValueFrameCrc(
        frame, std::min<uint64_t>(frame.head.count * 4, ValueFrame::kBytes));
    return frame;
  };
  ValueFrame damaged = sealed(good), sequence = good, many = good, more = good,
             kind = good;
  damaged.bytes[1] = 1;
  sequence.head.sequence = 1;
  many.head.count = 5;
  more.head.count = 4;
  kind.head.kind = Frame::kCredit;
  struct Case {
    const char* text;
    ValueFrame frame;
  };
  for (const Case& c : std::vector<Case>{
           {"", sealed(good)},
           {"are damaged", damaged},
           {"do not fit channel 'x:0>1'", sealed(sequence)},
           {"do not fit channel 'x:0>1'", sealed(many)},
           {"are more than channel 'x:0>1' from rank 1 has", sealed(more)},
           {"is of no kind", sealed(kind)}}) {
    SCOPED_TRACE(c.text);
    ConnectRogue();
    plan::Plan plan = OfBytes(ReceiverPlan(2, kCopies), 4);
    plan.set_rank(0);
    plan.mutable_channels(0)->set_peer(1);
    ASSERT_TRUE(sender().Load(std::move(plan)).ok());
    uint32_t memory[2] = {};
    for (uint32_t& m : memory) {
      ASSERT_TRUE(sender().program->Post(0, &m, 4).ok());
    }
    Say(kValueTag, &c.frame, sizeof(c.frame));
    const absl::Status status = Failure(0);
    sender().program.reset();
    if (c.text[0] == '\0') {
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(memory[0], 7u);
      continue;
    }
    EXPECT_TRUE(IsError(status, ErrorCode::kTransportFailed)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("from rank 1 "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.text));
    EXPECT_EQ(memory[0], 0u);
  }
}

TEST_F(RogueTest, MessagesOfAnotherLengthNameTheirRank) {
  for (const auto& [tag, text] : std::vector<std::pair<uint64_t, std::string>>{
           {kFrameTag, "a frame from rank 1"},
           {kAbortTag, "the last words of rank 1"}}) {
    ConnectRogue();
    Say(tag, "0123456789", 10);
    absl::Status status = Failure(0);
    EXPECT_TRUE(IsError(status, ErrorCode::kLengthMismatch)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
}

TEST_F(RogueTest, DataOfAnotherLengthNamesTheChannel) {
  ConnectRogue();
  plan::Plan plan = ReceiverPlan(2, 1);
  plan.set_rank(0);
  plan.mutable_channels(0)->set_peer(1);
  ASSERT_TRUE(sender().Load(std::move(plan)).ok());
  uint32_t memory = 0;
  ASSERT_TRUE(sender().program->Post(0, &memory, 4).ok());
  Say(kChannel, "0123456789", 10);
  absl::Status status = Failure(0);
  EXPECT_TRUE(IsError(status, ErrorCode::kLengthMismatch)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("channel 'x:0>1' from rank 1"));
}

TEST_F(RogueTest, LastWordsThatMakeNoSense) {
  ConnectRogue();
  LastWords words;
  words.code = 424242;
  words.size = 1u << 30;
  std::memset(words.text, '?', sizeof(words.text));
  Say(kAbortTag, &words, sizeof(words));
  absl::Status status = Failure(0);
  EXPECT_TRUE(IsError(status, ErrorCode::kInternal)) << status;
  EXPECT_EQ(status.message(),
            "rank 1: " + std::string(sizeof(words.text), '?'));
}

}  // namespace
}  // namespace weft::runtime
