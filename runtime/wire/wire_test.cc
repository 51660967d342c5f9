#include "runtime/wire/wire.h"

#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/wire/wire_fixture.h"

namespace weft::runtime {
namespace {

using namespace wire_testing;  // NOLINT
using actor::Message;
using ::testing::HasSubstr;

TEST_F(WireTest, CreditsAndDataBecomeRequests) {
  for (const Options& options : {kFewCredits, Options{{"eager_credits", "2"},
                                                      {"delay_max", "5"},
                                                      {"delay_seed", "3"}}}) {
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

// Of 16 copies a frame has eight credits, and Flush sends what is left. Large
// values, and those of few copies, have a frame each.
TEST_F(WireTest, CreditsOfSmallValuesShareFrames) {
  struct Case {
    uint32_t copies;
    uint64_t bytes;
    std::vector<size_t> told;  // after so many acts, from 1
  };
  for (const Case& c : std::vector<Case>{{16, 4, {0, 0, 0, 0, 0, 0, 0, 8, 8}},
                                         {16, 600, {1, 2, 3, 4, 5, 6}},
                                         {3, 4, {1, 2, 3}},
                                         {6, 4, {0, 0, 3, 3, 3, 6}}}) {
    SCOPED_TRACE(absl::StrCat(c.copies, " of ", c.bytes));
    ConnectPair(c.copies, {{"eager_max", "512"}, {"eager_credits", "6"}},
                c.bytes);
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

// Eight values of 16 copies are one message; the rest goes out in Flush. A full
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
      EXPECT_EQ(receiver().got.size(), (i + 1) / 8 * 8) << i;
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

// What is for the worker that polls needs no mailbox.
TEST_F(WireTest, WhatComesGoesToTheQueueOfWhoPolls) {
  ConnectPair(/*copies=*/2, kFewCredits);
  plan::ActorSpecOptions options;
  options.channels = true;
  auto table = actor::ActorTable::Create(
                   plan::PlanToActorSpec(*sender().view, options).value())
                   .value();
  actor::MessageQueue queue(table.queue_bound());
  sender().program->Attach(0, &table, &queue);
  uint32_t memory = 0;
  Grant(&memory, 4, 0, 0);
  Pump([&] { return !queue.empty(); });
  const Message credit = queue.Pop();
  EXPECT_EQ(credit,
            Message::Req(plan::ActorIdOf(*sender().view, 1, options),
                         plan::CreditRegister(*sender().view, 0), 0, 0));
  EXPECT_EQ(credit.port, 1u);  // SEND's second
  EXPECT_EQ(table.OnMessage(credit), 1u);
  EXPECT_TRUE(queue.empty());
  EXPECT_TRUE(sender().got.empty());
}

TEST_F(WireTest, TellsWhereThoseRunWhoseValuesAreAwaited) {
  struct Case {
    std::optional<uint32_t> sender, receiver;
    Whereabouts awaited;
  };
  for (const Case& c : {Case{3, 3, Whereabouts::kThisCore},
                        Case{4, 3, Whereabouts::kAnotherCore},
                        Case{{}, 3, Whereabouts::kUnknown},
                        Case{3, {}, Whereabouts::kUnknown}}) {
    cores_ = {c.sender, c.receiver};
    ConnectPair(/*copies=*/1);
    plan::ActorSpecOptions options;
    options.rank = 1;
    options.channels = true;
    auto table = actor::ActorTable::Create(
                     plan::PlanToActorSpec(*receiver().view, options).value())
                     .value();
    actor::MessageQueue queue(table.queue_bound());
    receiver().program->Attach(0, &table, &queue);
    table.SetLease(1);
    // Nothing has been posted for it yet.
    EXPECT_EQ(receiver().program->Awaited(), Whereabouts::kUnknown);
    actor::Effects effects(table.effects_size(), &queue);
    ASSERT_TRUE(table.CanAct(0));
    table.Act(0, &effects);
    while (!queue.empty()) table.OnMessage(queue.Pop());
    for (const Message& m : effects.at_tick()) {
      if (m.destination.rank() == 1) table.OnMessage(m);
    }
    EXPECT_EQ(receiver().program->Awaited(), c.awaited);
    table.OnMessage(Message::Req(plan::ActorIdOf(*receiver().view, 1, options),
                                 plan::DataRegister(*receiver().view, 0), 0,
                                 0));
    EXPECT_EQ(receiver().program->Awaited(), Whereabouts::kUnknown);
    for (Rank& rank : ranks_) rank.program.reset();
  }
}

// One whose peers wake a sleeper themselves does not notify one that is awake.
TEST_F(WireTest, WithoutANotificationSomeTransportsAreNotLookedAt) {
  struct Case {
    const Transport& transport;
    uint64_t token;
    bool looks;
  };
  for (const Case& c : {Case{Loopback(), 7, false}, Case{Loopback(), 0, true},
                        Case{Shm(), 7, true}}) {
    SCOPED_TRACE(absl::StrCat(c.transport.info().name, " ", c.token));
    token_ = c.token;
    transports_ = {{{&c.transport, kFewCredits}},
                   {{&c.transport, kFewCredits}}};
    ConnectPair(/*copies=*/2);
    uint32_t memory = 0;
    Grant(&memory, 4, 0, 0);
    bool any = false;
    for (int i = 0; i < (c.looks ? kPatience : 10) && !any; ++i) {
      ASSERT_TRUE(sender().wire->Poll(&any, /*notified=*/false).ok());
    }
    EXPECT_EQ(any, c.looks);
    Pump([&] { return sender().got.size() == 1; });
    ranks_.clear();
  }
}

TEST_F(WireTest, SmallSendsHoldNothingBack) {
  ConnectPair(1, kFewCredits);
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
  ConnectPair(2, {{"eager_max", "1000"}}, /*bytes=*/5000);
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
  ConnectPair(1, kFewCredits);
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
  ConnectPair(3, {{"eager_credits", "1"}, {"max_inflight", "8"}});
  uint32_t memory[3];
  // Two receives of frames; the third credit waits with the transport.
  for (uint32_t i = 0; i < 3; ++i) Grant(&memory[i], 4, i, i);
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
    EXPECT_TRUE(meeting.AllGather(0, "wire/offers", OfferOf(Loopback())).ok());
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
  const Offers offers = {{"shm", std::string("a\0b \xff", 5), 4096, 64},
                         {"grpc", ""}};
  auto parsed = ParseOffers(OffersText(offers));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ((*parsed)[i].name, offers[i].name);
    EXPECT_EQ((*parsed)[i].locality, offers[i].locality);
    EXPECT_EQ((*parsed)[i].eager_max, offers[i].eager_max);
    EXPECT_EQ((*parsed)[i].eager_credits, offers[i].eager_credits);
  }
  for (const char* bad :
       {"", "61", "6", "61 6z", "61 62 63", "61 62", "61 62 30 61"}) {
    EXPECT_FALSE(ParseOffers(bad).ok()) << bad;
  }
}

// What goes between two ranks goes by what these two chose.
TEST_F(WireTest, EachPairTakesItsBestTransport) {
  const WireTransport loopback{&Loopback(), kFewCredits};
  const WireTransport shm{&Shm(), kFewCredits};
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

}  // namespace
}  // namespace weft::runtime
