#include "core/actor/actor.h"

#include <string>
#include <vector>

#include "core/actor/testing/chain.h"
#include "core/actor/testing/scheduler.h"
#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::actor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// x -> y -> out, on one ready-ordered stream.
SpecBuilder Line(uint32_t copies = 1) {
  SpecBuilder b;
  const int s = b.Stream(/*ordered=*/false);
  b.Add("x", ActorKind::kSource, s);
  b.Add("y", ActorKind::kCompute, s);
  b.Add("out", ActorKind::kSink, s);
  b.Edge(0, 1, 0, {copies});
  b.Edge(1, 2, 1, {copies});
  return b;
}

// Beside it `late`, which reads x, too, after y.
SpecBuilder LineAndLate() {
  SpecBuilder b = Line();
  b.Add("late", ActorKind::kSink, 0);
  b.Edge(0, 3, 0);
  b.Edge(1, 3, 2);
  return b;
}

TEST(MessageTest, IdsPackIntoTheirBits) {
  const ActorId id = ActorId::Make(0xabcde, 0x1234, 0x7654321);
  EXPECT_EQ(id.rank(), 0xabcdeu);
  EXPECT_EQ(id.stream(), 0x1234u);
  EXPECT_EQ(id.index(), 0x7654321u);
  EXPECT_TRUE(id.SameStream(ActorId::Make(0xabcde, 0x1234, 0)));
  EXPECT_FALSE(id.SameStream(ActorId::Make(0xabcde, 0x1235, 0)));
  EXPECT_FALSE(id.SameStream(ActorId::Make(0xabcdf, 0x1234, 0)));
}

TEST(MessageTest, SetChangesCopyAndAct) {
  Message m = Message::Ack(ActorId::Make(1, 2, 3), 70000, 0, 0);
  m.Set(3, 12);
  EXPECT_EQ(m, Message::Ack(ActorId::Make(1, 2, 3), 70000, 3, 12));
  EXPECT_EQ(ToString(m), "ACK r70000[3] -> 1:2:3 #12");
}

TEST(ActorTest, TheHintOfAPortMayBeWrong) {
  const TableSpec spec = Line().Build();
  for (uint32_t port : {0u, 1u, 2u, 0xffffffffu}) {
    ActorTable table = ActorTable::Create(spec).value();
    Message req = Message::Req(spec.actors[1].id, 0, 0, 0);
    req.port = port;
    EXPECT_EQ(table.OnMessage(req), 1u) << port;
    Message ack = Message::Ack(spec.actors[1].id, 1, 0, 0);
    ack.port = port;
    Effects effects(table.effects_size());
    table.Act(1, &effects);
    EXPECT_EQ(table.OnMessage(ack), 1u) << port;
    EXPECT_EQ(table.Home(1, 0), 1u);
    req = Message::Req(spec.actors[1].id, 5, 0, 0);
    req.port = port;
    EXPECT_EQ(table.OnMessage(req), kNoActor);
    EXPECT_EQ(table.refused(), 1u);
  }
}

TEST(ActorTest, HintsAreOfPorts) {
  const TableSpec spec = Line().Build();
  ActorTable table = ActorTable::Create(spec).value();
  for (uint32_t i : {1u, 2u}) {
    Message req = Message::Req(spec.actors[i].id, i - 1, 0, 0);
    table.Hint(&req);
    EXPECT_EQ(req.port, i - 1);
    Message ack = Message::Ack(spec.actors[i - 1].id, i - 1, 0, 0);
    table.Hint(&ack);
    EXPECT_EQ(ack.port, i - 1);
  }
  Message stranger = Message::Req(ActorId::Make(9, 9, 9), 0, 0, 0);
  table.Hint(&stranger);
  EXPECT_EQ(stranger.port, 0u);
}

TEST(ActorTest, ReqGoesToTheReaderAndAckBack) {
  Scheduler s(Line().Build());
  s.table().SetLease(2);
  ASSERT_TRUE(s.TryAct("x"));
  EXPECT_THAT(s.TakeLog(), ElementsAre("x.0", "REQ r0[0] -> y at tick"));
  EXPECT_FALSE(s.TryAct("x"));  // its only copy is read
  EXPECT_FALSE(s.TryAct("y"));  // the REQ has not arrived
  s.DeliverAll();
  ASSERT_TRUE(s.TryAct("y"));
  EXPECT_THAT(s.TakeLog(), ElementsAre("y.0", "REQ r1[0] -> out at tick",
                                       "ACK r0[0] -> x at tick"));
  s.DeliverAll();
  EXPECT_TRUE(s.TryAct("x"));
}

TEST(ActorTest, AwaitsWhatItLacksAndNothingElse) {
  Scheduler s(LineAndLate().Build());
  s.table().SetLease(1);
  const auto awaits = [&](uint32_t actor, uint32_t reg) {
    return s.table().Awaits(Message::Req(s.table().id(actor), reg, 0, 0));
  };
  EXPECT_TRUE(awaits(1, 0));
  EXPECT_FALSE(awaits(1, 5));  // which y does not read
  EXPECT_FALSE(awaits(3, 0));  // late lacks y's, too
  s.TryAct("x");
  s.DeliverAll();
  EXPECT_FALSE(awaits(1, 0));
  EXPECT_FALSE(awaits(3, 0));
  EXPECT_TRUE(awaits(3, 2));
  s.table().Abort();
  EXPECT_FALSE(awaits(3, 2));
}

TEST(ActorTest, CopiesAreUsedInTurn) {
  Scheduler s(Line(2).Build());
  s.table().SetLease(3);
  ASSERT_TRUE(s.TryAct("x"));
  EXPECT_THAT(s.last().outputs(), ElementsAre(0));
  ASSERT_TRUE(s.TryAct("x"));
  EXPECT_THAT(s.last().outputs(), ElementsAre(1));
  EXPECT_FALSE(s.TryAct("x"));
  EXPECT_EQ(s.table().Home(0, 0), 0u);
  s.DeliverAll();
  EXPECT_EQ(s.table().Pending(1, 0), 2u);
  ASSERT_TRUE(s.TryAct("y"));
  EXPECT_THAT(s.last().inputs(), ElementsAre(0));
  s.DeliverAll();
  ASSERT_TRUE(s.TryAct("x"));
  EXPECT_THAT(s.last().outputs(), ElementsAre(0));
}

TEST(ActorTest, ACopyIsFreeWhenAllItsReadersHaveAcked) {
  SpecBuilder b = Line();
  b.Add("also", ActorKind::kSink, 0);
  b.Edge(0, 3, 0);
  Scheduler s(b.Build());
  s.table().SetLease(2);
  s.TryAct("x");
  s.DeliverAll();
  ASSERT_TRUE(s.TryAct("y"));
  s.DeliverAll();
  EXPECT_FALSE(s.TryAct("x"));
  ASSERT_TRUE(s.TryAct("also"));
  s.DeliverAll();
  EXPECT_TRUE(s.TryAct("x"));
}

TEST(ActorTest, ACopyThatNobodyReadsIsFreeAtOnce) {
  SpecBuilder b = Line();
  b.Output(1, 2, 1, "");
  Scheduler s(b.Build());
  s.table().SetLease(3);
  s.Settle();
  EXPECT_EQ(s.table().acts(1), 3u);
  EXPECT_TRUE(s.table().drained());
}

TEST(ActorTest, HeldInputIsTakenOnceAndAckedAtTheLastAct) {
  SpecBuilder b;
  const int s0 = b.Stream(false);
  b.Add("w", ActorKind::kSource, s0);
  b.Add("x", ActorKind::kSource, s0, 3);
  b.Add("y", ActorKind::kCompute, s0, 3);
  b.Edge(0, 2, 0, {1, "", Held(3)});
  b.Edge(1, 2, 1);
  Scheduler s(b.Build());
  s.table().SetLease(1);
  EXPECT_EQ(s.Settle(), 7u);
  EXPECT_THAT(
      s.TakeLog(),
      ElementsAre("w.0", "REQ r0[0] -> y at tick", "x.0",
                  "REQ r1[0] -> y at tick", "y.0", "ACK r1[0] -> x at tick",
                  "x.1", "REQ r1[0] -> y at tick", "y.1",
                  "ACK r1[0] -> x at tick", "x.2", "REQ r1[0] -> y at tick",
                  "y.2", "ACK r0[0] -> w at tick", "ACK r1[0] -> x at tick"));
  EXPECT_THAT(s.last().inputs(), ElementsAre(0, 0));
}

TEST(ActorTest, AccumulatedOutputIsGivenAtTheLastAct) {
  SpecBuilder b;
  const int s0 = b.Stream(false);
  b.Add("x", ActorKind::kSource, s0, 2);
  b.Add("sum", ActorKind::kAccumulate, s0, 2);
  b.Add("out", ActorKind::kSink, s0);
  b.Edge(0, 1, 0);
  b.Edge(1, 2, 1, {1, Accumulated(2)});
  Scheduler s(b.Build());
  s.table().SetLease(2);
  s.TryAct("x");
  s.DeliverAll();
  ASSERT_TRUE(s.TryAct("sum"));
  EXPECT_THAT(s.last().outputs(), ElementsAre(0));
  EXPECT_FALSE(s.last().ends_period());
  s.DeliverAll();
  EXPECT_EQ(s.table().credits_out(), 1u);  // acquired, not given
  s.TryAct("x");
  s.DeliverAll();
  s.TakeLog();
  ASSERT_TRUE(s.TryAct("sum"));
  EXPECT_TRUE(s.last().ends_period());
  EXPECT_THAT(s.TakeLog(), ElementsAre("sum.1", "REQ r1[0] -> out at tick",
                                       "ACK r0[0] -> x at tick"));
  // The next sum may not begin before the last one is read.
  s.DeliverAll();
  s.TryAct("x");
  s.DeliverAll();
  EXPECT_FALSE(s.TryAct("sum"));
  s.TryAct("out");
  s.DeliverAll();
  EXPECT_TRUE(s.TryAct("sum"));
}

TEST(ActorTest, PackFillsOneCopyOverSeveralActs) {
  SpecBuilder b;
  const int s0 = b.Stream(false);
  b.Add("x", ActorKind::kSource, s0, 4);
  b.Add("pack", ActorKind::kCompute, s0, 4);
  b.Add("out", ActorKind::kSink, s0, 2);
  b.Edge(0, 1, 0);
  b.Edge(1, 2, 1, {2, Accumulated(2)});
  Scheduler s(b.Build());
  s.table().SetLease(1);
  s.Settle();
  EXPECT_EQ(s.table().acts(2), 2u);
  EXPECT_THAT(s.last().inputs(), ElementsAre(1));  // the second packed copy
}

TEST(ActorTest, UnpackGivesSlicesAndTheLastReaderFreesTheCopy) {
  SpecBuilder b;
  const int s0 = b.Stream(false);
  b.Add("x", ActorKind::kSource, s0);
  b.Add("unpack", ActorKind::kCompute, s0, 2);
  b.Add("out", ActorKind::kSink, s0, 2);
  b.Output(0, 0, 2, "");
  b.Alias(1, 0, 1, /*slices=*/2);
  b.Edge(1, 2, 1);
  Scheduler s(b.Build());
  s.table().SetLease(2);
  s.TryAct("x");
  s.TryAct("x");
  s.DeliverAll();
  std::vector<uint16_t> slices;
  while (s.TryAct("unpack")) slices.push_back(s.last().outputs()[0]);
  EXPECT_THAT(slices, ElementsAre(0, 1, 2, 3));
  s.DeliverAll();
  s.TakeLog();
  s.TryAct("out");
  s.TryAct("out");
  s.TryAct("out");
  // Copies of the owner, not of the slices; to the owner, not the unpacker.
  EXPECT_THAT(s.TakeLog(), ElementsAre("out.0", "ACK r0[0] -> x at tick",
                                       "out.1", "ACK r0[0] -> x at tick",
                                       "out.2", "ACK r0[1] -> x at tick"));
  s.DeliverAll();
  EXPECT_EQ(s.table().Home(0, 0), 1u);
}

TEST(ActorTest, ChainOfAliasesSendsOneAckToTheOwner) {
  SpecBuilder b;
  const int s0 = b.Stream(false);
  b.Add("x", ActorKind::kSource, s0);
  b.Add("relu", ActorKind::kCompute, s0);
  b.Add("view", ActorKind::kCompute, s0);
  b.Add("out", ActorKind::kSink, s0);
  b.Output(0, 0, 1, "");
  b.Alias(1, 0, 1);
  b.Alias(2, 1, 2);
  b.Edge(2, 3, 2);
  Scheduler s(b.Build());
  s.table().SetLease(1);
  s.Settle();
  EXPECT_THAT(s.TakeLog(), ElementsAre("x.0", "REQ r0[0] -> relu at tick",
                                       "relu.0", "REQ r1[0] -> view", "view.0",
                                       "REQ r2[0] -> out at tick", "out.0",
                                       "ACK r0[0] -> x at tick"));
  EXPECT_TRUE(s.table().drained());
}

TEST(ActorTest, OrderEdgeIsARegisterLikeAnyOther) {
  Scheduler s(LineAndLate().Build());
  s.table().SetLease(1);
  s.TryAct("x");
  s.DeliverAll();
  EXPECT_FALSE(s.TryAct("late"));
  s.TryAct("y");
  s.DeliverAll();
  EXPECT_TRUE(s.TryAct("late"));
}

TEST(ActorTest, OrderedStreamActsInItsOrder) {
  SpecBuilder b;
  const int io = b.Stream(false);
  const int compute = b.Stream(true);
  b.Add("x", ActorKind::kSource, io);
  b.Add("a", ActorKind::kCompute, compute, 2);
  b.Add("b", ActorKind::kCompute, compute);
  b.Edge(0, 1, 0, {1, "", Held(2)});
  b.Edge(0, 2, 0);
  b.Order(compute, {1, 2, 1});
  Scheduler s(b.Build());
  s.table().SetLease(2);
  s.TryAct("x");
  s.DeliverAll();
  EXPECT_FALSE(s.TryAct("b"));
  EXPECT_EQ(s.table().Turn(compute), 1u);
  EXPECT_EQ(s.table().Turn(io), kNoActor);
  EXPECT_THAT(s.table().WhyBlocked(2), testing::SizeIs(1));
  EXPECT_EQ(s.table().WhyBlocked(2)[0].kind, Blocker::kTurn);
  EXPECT_TRUE(s.TryAct("a"));
  EXPECT_FALSE(s.TryAct("a"));
  EXPECT_EQ(s.next(), 2u);
  EXPECT_TRUE(s.TryAct("b"));
  EXPECT_TRUE(s.TryAct("a"));
  EXPECT_EQ(s.table().Turn(compute), 1u);
}

TEST(ActorTest, MessagesLeaveAtLaunchOnlyWithinAStream) {
  SpecBuilder b;
  const int one = b.Stream(true);
  const int two = b.Stream(true);
  b.Add("x", ActorKind::kSource, one);
  b.Add("a", ActorKind::kCompute, one);
  b.Add("same", ActorKind::kCompute, one);
  b.Add("other", ActorKind::kCompute, two);
  b.Add("host", ActorKind::kCompute, one);
  b.Edge(0, 1, 0);
  b.Edge(1, 2, 1);
  b.Edge(1, 3, 1);
  b.Edge(1, 4, 1, {1, "", "", /*host=*/true});
  Scheduler s(b.Build());
  s.hold_ticks(true);
  s.table().SetLease(1);
  s.TryAct("x");
  EXPECT_EQ(s.CompleteTicks(), 1u);
  s.DeliverAll();
  s.TakeLog();
  ASSERT_TRUE(s.TryAct("a"));
  EXPECT_THAT(
      s.TakeLog(),
      ElementsAre("a.0", "REQ r1[0] -> same", "REQ r1[0] -> other at tick",
                  "REQ r1[0] -> host at tick", "ACK r0[0] -> x at tick"));
  s.DeliverAll();
  EXPECT_FALSE(s.TryAct("other"));
  EXPECT_TRUE(s.TryAct("same"));
  EXPECT_FALSE(s.TryAct("host"));
  EXPECT_EQ(s.CompleteTicks(), 3u);
  s.DeliverAll();
  s.TakeLog();
  EXPECT_TRUE(s.TryAct("other"));
  EXPECT_THAT(s.TakeLog(), ElementsAre("other.0", "ACK r1[0] -> a at tick"));
  EXPECT_TRUE(s.TryAct("host"));
}

TEST(ActorTest, NothingLeavesAtLaunchOnAWire) {
  SpecBuilder b;
  const int wire = b.Stream(false);
  b.Add("post", ActorKind::kPost, wire);
  b.Add("recv", ActorKind::kRecv, wire);
  b.Add("send", ActorKind::kSend, wire);
  b.Edge(0, 1, 0);
  b.Edge(1, 2, 1);
  Scheduler s(b.Build());
  s.table().SetLease(1);
  s.TryAct("post");
  s.DeliverAll();
  s.TryAct("recv");
  s.DeliverAll();
  s.TryAct("send");
  EXPECT_THAT(s.TakeLog(), ElementsAre("post.0", "REQ r0[0] -> recv at tick",
                                       "recv.0", "REQ r1[0] -> send at tick",
                                       "ACK r0[0] -> post at tick", "send.0",
                                       "ACK r1[0] -> recv at tick"));
}

// Where launches are done when they have returned all can be told at once, but
// for what a wire still reads; and what is for another table goes another way.
TEST(ActorTest, AllLeavesAtLaunchWhereWorkIsDoneByThen) {
  SpecBuilder b;
  const int io = b.Stream(false), compute = b.Stream(true);
  b.Add("x", ActorKind::kSource, io);
  b.Add("a", ActorKind::kCompute, compute);
  b.Add("send", ActorKind::kSend, io);
  b.Edge(0, 1, 0, {/*copies=*/2});
  b.Edge(1, 2, 1);
  TableSpec spec = b.Build();
  for (StreamSpec& stream : spec.streams) stream.done_at_launch = true;
  spec.actors[1].outputs[0].readers.push_back(
      {ActorId::Make(0, 7, 7), /*host=*/false});
  spec.actors[1].outputs[0].acks_per_copy = 2;
  Scheduler s(spec);
  s.table().SetLease(1);
  s.TryAct("x");
  s.DeliverAll();
  s.TryAct("a");
  EXPECT_EQ(s.last().at_launch().size(), 2u);
  ASSERT_EQ(s.last().at_tick().size(), 1u);
  EXPECT_EQ(s.last().at_tick()[0].destination, ActorId::Make(0, 7, 7));
  s.DeliverAll();
  s.TryAct("send");
  EXPECT_EQ(s.last().at_launch().size(), 0u);
  EXPECT_EQ(s.last().at_tick().size(), 1u);
}

TEST(ActorTest, CollectiveWaitsForItsPostsWhereItsStreamHasNoOrder) {
  for (bool ordered : {false, true}) {
    SpecBuilder b;
    const int s0 = b.Stream(ordered);
    b.Add("x", ActorKind::kSource, s0);
    b.Add("reduce", ActorKind::kCollective, s0);
    b.Add("y", ActorKind::kCompute, s0);
    b.Edge(0, 1, 0);
    b.Edge(1, 2, 1);
    Scheduler s(b.Build());
    s.table().SetLease(1);
    s.TryAct("x");
    s.DeliverAll();
    ASSERT_TRUE(s.TryAct("reduce"));
    // The ACK goes to a source, whose work is in no stream's order.
    EXPECT_EQ(s.last().at_launch().size(), ordered ? 1u : 0u);
    EXPECT_EQ(s.last().at_tick().size(), ordered ? 1u : 2u);
  }
}

// w: variable; read: its reader; update: reads the exclusive register.
SpecBuilder WithVariable(bool shared, bool exclusive) {
  SpecBuilder b;
  const int s = b.Stream(false);
  const std::string all(1, kAcquire | kGive | kHome);
  const bool both = shared && exclusive;
  b.Add("w", ActorKind::kVariable, s, both ? 2 : 1);
  if (shared) {
    b.Add("read", ActorKind::kSink, s);
    b.Edge(0, 1, 0, {1, both ? std::string({7, 4}) : all});
  }
  if (exclusive) {
    const uint32_t update = b.Add("update", ActorKind::kCompute, s);
    b.Edge(0, update, 1, {1, both ? std::string({4, 7}) : all});
  }
  return b;
}

TEST(VariableTest, PhasesAlternateAndWaitForAllAcks) {
  Scheduler s(WithVariable(true, true).Build());
  s.table().SetLease(2);
  ASSERT_TRUE(s.TryAct("w"));
  EXPECT_THAT(s.TakeLog(), ElementsAre("w.0", "REQ r0[0] -> read at tick"));
  s.DeliverAll();
  EXPECT_FALSE(s.TryAct("w"));  // EXCLUSIVE: the value is still read
  s.TryAct("read");
  s.DeliverAll();
  s.TakeLog();
  ASSERT_TRUE(s.TryAct("w"));
  EXPECT_THAT(s.TakeLog(), ElementsAre("w.1", "REQ r1[0] -> update"));
  EXPECT_FALSE(s.TryAct("w"));  // SHARED: the update is not done
  s.DeliverAll();
  s.TryAct("update");
  s.DeliverAll();
  EXPECT_TRUE(s.TryAct("w"));
}

TEST(VariableTest, TheLeaseHoldsTheNextSharedPhase) {
  Scheduler s(WithVariable(true, true).Build());
  s.table().SetLease(1);
  s.Settle();
  EXPECT_THAT(s.TakeActs(), ElementsAre("w.0", "read.0", "w.1", "update.0"));
  EXPECT_TRUE(s.table().drained());
  s.table().SetLease(2);
  s.Settle();
  EXPECT_EQ(s.table().acts(0), 4u);
}

TEST(VariableTest, ProgramsWithOnePhaseHaveOneOutput) {
  for (bool shared : {false, true}) {
    Scheduler s(WithVariable(shared, !shared).Build());
    s.table().SetLease(3);
    s.Settle();
    EXPECT_EQ(s.table().acts(1), 3u);
    EXPECT_TRUE(s.table().drained());
  }
}

TEST(LeaseTest, OnlySourcesAndVariablesLookAtIt) {
  Scheduler s(Line().Build());
  EXPECT_FALSE(s.TryAct("x"));
  EXPECT_THAT(s.table().leased(), ElementsAre(0));
  EXPECT_EQ(s.table().WhyBlocked(0)[0].kind, Blocker::kLease);
  s.table().OnMessage(Message::Start(2));
  EXPECT_EQ(s.Settle(), 6u);
  s.table().SetLease(1);  // never shrinks
  EXPECT_EQ(s.table().lease(), 2u);
  s.table().SetLease(3);
  EXPECT_EQ(s.Settle(), 3u);
  EXPECT_EQ(s.table().refused(), 0u);
}

TEST(LeaseTest, PeriodsAndCreditsAreCounted) {
  Scheduler s(Line(2).Build());
  s.table().SetLease(2);
  EXPECT_TRUE(s.table().credits_home());
  s.TryAct("x");
  s.TryAct("x");  // two periods ahead of 'out'
  EXPECT_EQ(s.table().periods_finished(), 0u);
  EXPECT_EQ(s.table().credits_out(), 2u);
  s.DeliverAll();
  s.TryAct("y");
  s.DeliverAll();
  s.TryAct("out");
  EXPECT_EQ(s.table().periods_finished(), 1u);
  EXPECT_FALSE(s.table().drained());
  s.Settle();
  EXPECT_EQ(s.table().periods_finished(), 2u);
  EXPECT_TRUE(s.table().drained());
}

// Nobody sends to it, so nothing else would stop it.
TEST(LeaseTest, APostStaysBelowTheLease) {
  SpecBuilder b;
  const int wire = b.Stream(false);
  b.Add("post", ActorKind::kPost, wire);
  b.Add("recv", ActorKind::kRecv, wire);
  b.Edge(0, 1, 0, {8});
  Scheduler s(b.Build());
  s.table().SetLease(3);
  for (int k = 0; k < 3; ++k) ASSERT_TRUE(s.TryAct("post"));
  EXPECT_FALSE(s.TryAct("post"));
  s.Settle();
  EXPECT_EQ(s.table().periods_finished(), 3u);
}

TEST(AbortTest, StopsEverythingOnce) {
  for (bool ordered : {false, true}) {
    SpecBuilder b;
    const int s0 = b.Stream(ordered);
    b.Add("x", ActorKind::kSource, s0);
    b.Add("out", ActorKind::kSink, s0);
    b.Edge(0, 1, 0);
    Scheduler s(b.Build());
    s.table().SetLease(9);
    s.TryAct("x");
    EXPECT_TRUE(s.table().Abort());
    EXPECT_FALSE(s.table().Abort());
    EXPECT_EQ(s.Settle(), 0u);
    s.table().OnMessage(Message::Abort());
    EXPECT_TRUE(s.table().aborted());
    EXPECT_EQ(s.table().WhyBlocked(1)[0].kind, Blocker::kAborted);
  }
}

// A lease makes room for a count per period: a wild one must not.
TEST(LeaseTest, StartReachesOnlySoFarAhead) {
  Scheduler s(Line().Build());
  for (uint64_t lease : {kMaxLeaseAhead + 1, ~uint64_t{0}}) {
    EXPECT_EQ(s.table().OnMessage(Message::Start(lease)), kNoActor);
    EXPECT_THAT(s.table().refusal(), HasSubstr("far ahead"));
    EXPECT_EQ(s.table().lease(), 0u);
  }
  EXPECT_EQ(s.table().refused(), 2u);
  s.table().OnMessage(Message::Start(1));
  s.Settle();
  // Counted from the finished periods.
  s.table().OnMessage(Message::Start(kMaxLeaseAhead + 1));
  EXPECT_EQ(s.table().lease(), kMaxLeaseAhead + 1);
  s.table().OnMessage(Message::Start(0));
  EXPECT_EQ(s.table().refused(), 2u);
}

// What is being read cannot be ready again before it was acked.
TEST(RefusalTest, ReqOfACopyThatIsHeld) {
  for (uint16_t copies : {1, 2}) {
    SpecBuilder b;
    const int s0 = b.Stream(false);
    b.Add("w", ActorKind::kSource, s0);
    b.Add("x", ActorKind::kSource, s0, 3);
    b.Add("y", ActorKind::kCompute, s0, 3);
    b.Edge(0, 2, 0, {copies, "", Held(3)});
    b.Edge(1, 2, 1);
    const TableSpec spec = b.Build();
    ActorTable table = *ActorTable::Create(spec);
    const ActorId y = spec.actors[2].id;
    for (uint16_t k = 0; k < copies; ++k) {
      EXPECT_EQ(table.OnMessage(Message::Req(y, 0, k, k)), 2u);
    }
    EXPECT_EQ(table.OnMessage(Message::Req(y, 1, 0, 0)), 2u);
    Effects effects(table.effects_size());
    ASSERT_TRUE(table.CanAct(2));
    table.Act(2, &effects);  // takes copy 0 and keeps it
    const uint64_t before = table.StateHash();
    EXPECT_EQ(table.OnMessage(Message::Req(y, 0, 0, 9)), kNoActor);
    EXPECT_THAT(table.refusal(), HasSubstr("is held"));
    EXPECT_EQ(table.StateHash(), before);
    EXPECT_EQ(table.Pending(2, 0), copies - 1u);
  }
}

TEST(RefusalTest, MessagesThatDoNotFitChangeNothing) {
  const TableSpec spec = Line(2).Build();
  ActorTable table = *ActorTable::Create(spec);
  const ActorId x = spec.actors[0].id, y = spec.actors[1].id;
  table.SetLease(9);
  const uint64_t before = table.StateHash();
  const struct {
    Message message;
    const char* why;
  } kCases[] = {
      {Message::Req(ActorId::Make(0, 0, 99), 0, 0, 0), "no such actor"},
      {Message::Req(ActorId::Make(1, 0, 1), 0, 0, 0), "no such actor"},
      {Message::Req(ActorId::Make(0, 5, 1), 0, 0, 0), "no such actor"},
      {Message::Req(y, 7, 0, 0), "does not read"},
      {Message::Req(y, 0, 1, 0), "another copy is next"},
      {Message::Req(y, 0, 9, 0), "another copy is next"},
      {Message::Ack(y, 0, 0, 0), "does not own"},
      {Message::Ack(x, 0, 0, 0), "nobody reads"},
      {Message::Ack(x, 0, 2, 0), "nobody reads"},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(table.OnMessage(c.message), kNoActor);
    EXPECT_THAT(table.refusal(), HasSubstr(c.why));
  }
  Message flagged = Message::Req(y, 0, 0, 0);
  flagged.flags = 1;
  EXPECT_EQ(table.OnMessage(flagged), kNoActor);
  Message unknown = Message::Req(y, 0, 0, 0);
  unknown.kind = static_cast<MessageKind>(77);
  EXPECT_EQ(table.OnMessage(unknown), kNoActor);
  EXPECT_EQ(table.refused(), 11u);
  EXPECT_EQ(table.StateHash(), before);
  // Copies are in use only once: a third REQ has no copy left.
  EXPECT_EQ(table.OnMessage(Message::Req(y, 0, 0, 0)), 1u);
  EXPECT_EQ(table.OnMessage(Message::Req(y, 0, 1, 0)), 1u);
  EXPECT_EQ(table.OnMessage(Message::Req(y, 0, 0, 0)), kNoActor);
  EXPECT_THAT(table.refusal(), HasSubstr("all copies are pending"));
}

TEST(CreateTest, RefusesSpecsThatContradictThemselves) {
  auto fails = [](const SpecBuilder& b, const std::string& why) {
    absl::StatusOr<ActorTable> table = ActorTable::Create(b.Build());
    ASSERT_FALSE(table.ok()) << why;
    EXPECT_TRUE(IsError(table.status(), ErrorCode::kBadPlan));
    EXPECT_THAT(std::string(table.status().message()), HasSubstr(why));
  };
  SpecBuilder b = Line();
  b.spec().actors[1].inputs[0].pattern = Held(2);
  fails(b, "do not divide");
  b = Line();
  b.spec().actors[1].inputs[0].pattern = std::string(1, kTake);
  fails(b, "leaves a copy open");
  b = Line();
  b.spec().actors[1].outputs[0].pattern = std::string(1, kGive);
  fails(b, "closes a copy that is not open");
  b = Line();
  b.spec().actors[1].acts_per_period = 3;
  b.spec().actors[1].outputs[0].pattern = std::string({1, 1, 2});
  fails(b, "opens a copy twice");
  b = Line();
  b.spec().actors[1].inputs[0].pattern = std::string(1, 8);
  fails(b, "unknown bits");
  b = Line();
  b.spec().actors[1].inputs[0].copies = 0;
  fails(b, "0 copies");
  b = Line();
  b.spec().actors[1].kind = static_cast<ActorKind>(99);
  fails(b, "unknown kind");
  b = Line();
  b.spec().actors[1].id = b.spec().actors[0].id;
  fails(b, "two actors have this id");
  b = Line();
  b.spec().actors[1].inputs.push_back(b.spec().actors[1].inputs[0]);
  fails(b, "two inputs read r0");
  b = Line();
  b.spec().streams.clear();
  fails(b, "its stream is not in the table");
  b = Line();
  b.spec().streams[0].ordered = true;
  b.Order(0, {0, 1, 1});
  fails(b, "times in its stream's order");
}

TEST(CreateTest, ManyPortsAreFound) {
  SpecBuilder b;
  const int s0 = b.Stream(false);
  b.Add("x", ActorKind::kSource, s0);
  b.Add("y", ActorKind::kSink, s0);
  for (uint32_t r = 0; r < 50; ++r) b.Edge(0, 1, r);
  Scheduler s(b.Build());
  s.table().SetLease(2);
  EXPECT_EQ(s.Settle(), 4u);
  EXPECT_EQ(s.table().refused(), 0u);
  EXPECT_TRUE(s.table().drained());
}

TEST(CreateTest, ATableMayHoldActorsOfSeveralRanks) {
  SpecBuilder b;
  const int s0 = b.Stream(false, /*rank=*/0);
  b.Add("x", ActorKind::kSource, s0);
  b.Add("y", ActorKind::kSink, s0);
  b.Edge(0, 1, 0);
  TableSpec spec = b.Build();
  // Both have index 0, on different ranks.
  spec.streams.push_back({1, 0, false, {}});
  const ActorId y = ActorId::Make(1, 0, 0);
  spec.actors[1].id = spec.actors[0].outputs[0].readers[0].actor = y;
  Scheduler s(spec);
  s.table().SetLease(2);
  EXPECT_EQ(s.Settle(), 4u);
  EXPECT_EQ(s.table().Find(y), 1u);
}

TEST(ChainTest, RunsThroughTheQueueWithoutRefusals) {
  ActorTable table = *ActorTable::Create(ChainSpec(100));
  EXPECT_EQ(RunChain(&table, 3), 300u);
  EXPECT_EQ(RunChain(&table, 2), 200u);
  EXPECT_TRUE(table.drained());
  EXPECT_EQ(table.refused(), 0u);
}

}  // namespace
}  // namespace weft::actor
