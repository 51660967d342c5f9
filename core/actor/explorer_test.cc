#include "core/actor/explorer.h"

#include <string>

#include "core/actor/testing/scheduler.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::actor {
namespace {

using ::testing::HasSubstr;

// x -> y -> out; x and out are the session's, y is on a stream of its own.
Model Line(uint32_t copies) {
  SpecBuilder b;
  const int io = b.Stream(false);
  const int compute = b.Stream(true);
  b.Add("x", ActorKind::kSource, io);
  b.Add("y", ActorKind::kCompute, compute);
  b.Add("out", ActorKind::kSink, io);
  b.Edge(0, 1, 0, {copies});
  b.Edge(1, 2, 1, {1});
  Model model;
  model.spec = b.Build();
  Memory x{0, 64, {}};
  for (uint32_t k = 0; k < copies; ++k) x.offsets.push_back(k * 64);
  model.memory[0] = x;
  model.memory[1] = {0, 64, {256}};
  return model;
}

TEST(ExplorerTest, VisitsAllTimingsOfASmallPlan) {
  Exploration one = ExploreAll(Line(1), 2, 100000);
  EXPECT_TRUE(one.status.ok()) << one.status;
  EXPECT_TRUE(one.exhausted);
  Exploration two = ExploreAll(Line(2), 2, 100000);
  EXPECT_TRUE(two.status.ok()) << two.status;
  EXPECT_TRUE(two.exhausted);
  EXPECT_GT(two.states, one.states);  // more copies, more timings
  EXPECT_EQ(one.digest, two.digest);
  EXPECT_EQ(ExploreRandom(Line(2), 2, 7).digest, one.digest);
}

TEST(ExplorerTest, StopsAtTheBoundOnStates) {
  Exploration run = ExploreAll(Line(2), 4, 10);
  EXPECT_TRUE(run.status.ok());
  EXPECT_FALSE(run.exhausted);
}

TEST(ExplorerTest, FindsOverlappingMemoryAndReplaysIt) {
  Model model = Line(2);
  model.memory[1].offsets = {64};  // in the second copy of r0
  Exploration run = ExploreAll(model, 3, 100000);
  ASSERT_FALSE(run.status.ok());
  Exploration again = Replay(model, 3, run.choices);
  EXPECT_EQ(again.status, run.status);
  EXPECT_EQ(again.choices, run.choices);
}

TEST(ExplorerTest, FindsADeadlock) {
  Model model = Line(1);
  // out waits for an order edge that comes only after out.
  SpecBuilder b;
  const int io = b.Stream(false);
  b.Add("x", ActorKind::kSource, io);
  b.Add("a", ActorKind::kCompute, io);
  b.Add("b", ActorKind::kSink, io);
  b.Edge(0, 1, 0);
  b.Edge(1, 2, 1);
  b.Edge(2, 1, 2);
  model.spec = b.Build();
  model.memory.clear();
  Exploration run = ExploreRandom(model, 1, 1);
  EXPECT_THAT(std::string(run.status.message()), HasSubstr("deadlock: 'a'"));
}

TEST(ExplorerTest, FindsAnAckTooMany) {
  Model model = Line(1);
  model.spec.actors[0].outputs[0].acks_per_copy = 0;
  Exploration run = ExploreRandom(model, 3, 1);
  EXPECT_FALSE(run.status.ok());
}

TEST(ExplorerTest, FindsAValueThatAnotherActorOverwrites) {
  // r0 is a value kept by a variable, but r1 lies in its bytes.
  Model model = Line(1);
  model.spec.actors[0].kind = ActorKind::kVariable;
  model.memory[0].offsets = {256};
  Exploration run = ExploreAll(model, 2, 100000);
  EXPECT_THAT(std::string(run.status.message()), HasSubstr("overwritten"));
}

}  // namespace
}  // namespace weft::actor
