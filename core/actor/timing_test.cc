#include "core/actor/timing.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/actor/testing/scheduler.h"
#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::actor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// x -> y -> out; x and out are the session's, y is on a stream of its own.
TableSpec Line(uint32_t copies = 1) {
  SpecBuilder b;
  const int io = b.Stream(false);
  const int compute = b.Stream(true);
  b.Add("x", ActorKind::kSource, io);
  b.Add("y", ActorKind::kCompute, compute);
  b.Add("out", ActorKind::kSink, io);
  b.Edge(0, 1, 0, {copies});
  b.Edge(1, 2, 1, {copies});
  return b.Build();
}

class Log : public Timing::Work {
 public:
  void Start(const Launch& launch) override { Add("start", launch); }
  void Finish(const Launch& launch) override { Add("finish", launch); }
  std::vector<std::string> Take() { return std::exchange(lines_, {}); }

 private:
  void Add(const char* what, const Launch& launch) {
    lines_.push_back(absl::StrCat(what, " ", launch.actor, ".", launch.act));
  }
  std::vector<std::string> lines_;
};

// Takes a random choice until there is none, from `seed` on.
void RunToEnd(Timing* timing, uint64_t seed) {
  Log log;
  std::vector<Timing::Choice> choices;
  while (!(choices = timing->Choices()).empty()) {
    timing->Take(choices[PickRandom(&seed, choices.size())], &log);
  }
}

absl::Status FinalOf(const TableSpec& spec, uint32_t periods) {
  Timing timing = Timing::Create(&spec, periods).value();
  RunToEnd(&timing, 1);
  return timing.Final();
}

// The only choice of that kind.
Timing::Choice Only(const Timing& timing, Timing::Step step) {
  std::vector<Timing::Choice> found;
  for (const Timing::Choice& choice : timing.Choices()) {
    if (choice.step == step) found.push_back(choice);
  }
  EXPECT_EQ(found.size(), 1u);
  return found.at(0);
}

TEST(TimingTest, EveryOrderOfASoundSpecEndsWell) {
  for (uint32_t copies : {1, 2}) {
    const TableSpec spec = Line(copies);
    for (uint64_t seed = 0; seed < 50; ++seed) {
      Timing timing = Timing::Create(&spec, 3).value();
      RunToEnd(&timing, seed);
      EXPECT_TRUE(timing.Final().ok()) << timing.Final();
      EXPECT_EQ(timing.table().acts(2), 3u);
    }
  }
}

TEST(TimingTest, AnActThatIsMissingIsADeadlock) {
  TableSpec spec = Line();
  spec.actors[0].outputs[0].acks_per_copy = 2;  // the second never comes
  absl::Status status = FinalOf(spec, 2);
  EXPECT_TRUE(IsError(status, ErrorCode::kPlanRefuted));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("deadlock: 'x' [actor 0] has acted 1 times of 2"));
  // As is one that has not come yet.
  spec = Line();
  status = Timing::Create(&spec, 1)->Final();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("'x' [actor 0] has acted 0 times of 1"));
}

TEST(TimingTest, CopiesMustComeHome) {
  TableSpec spec = Line(2);
  spec.actors[0].outputs[0].acks_per_copy = 2;
  // As many periods as copies: all act all the same.
  absl::Status status = FinalOf(spec, 2);
  EXPECT_TRUE(IsError(status, ErrorCode::kPlanRefuted));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("2 copies never came home"));
}

TEST(TimingTest, AMessageThatIsRefusedIsAnError) {
  TableSpec spec = Line();
  spec.actors[0].outputs[0].acks_per_copy = 0;  // one comes
  absl::Status status = FinalOf(spec, 2);
  EXPECT_TRUE(IsError(status, ErrorCode::kPlanRefuted));
  EXPECT_THAT(std::string(status.message()), HasSubstr("message refused: "));
}

TEST(TimingTest, ASpecThatContradictsItselfHasNoTimings) {
  TableSpec spec = Line();
  spec.actors[0].outputs[0].copies = 0;
  EXPECT_TRUE(IsError(Timing::Create(&spec, 1).status(), ErrorCode::kBadPlan));
}

// One act after the other, as on a device that is done when a call returns.
TEST(TimingTest, FinishAllEndsWhatAnActorLaunched) {
  const TableSpec spec = Line(2);
  Timing timing = Timing::Create(&spec, 2).value();
  Log log;
  timing.Take(Only(timing, Timing::Step::kAct), &log);
  timing.Take(Only(timing, Timing::Step::kAct), &log);
  EXPECT_THAT(log.Take(), IsEmpty());  // launched, not started
  timing.Take(Only(timing, Timing::Step::kStart), &log);
  EXPECT_THAT(log.Take(), ElementsAre("start 0.0"));
  timing.FinishAll(1, &log);  // has launched nothing
  EXPECT_THAT(log.Take(), IsEmpty());
  timing.FinishAll(0, &log);
  EXPECT_THAT(log.Take(), ElementsAre("finish 0.0", "start 0.1", "finish 0.1"));
  timing.FinishAll(0, &log);
  EXPECT_THAT(log.Take(), IsEmpty());
  // Both messages are on their way, in order.
  timing.Take(Only(timing, Timing::Step::kDeliver), &log);
  timing.Take(Only(timing, Timing::Step::kDeliver), &log);
  EXPECT_EQ(timing.table().Pending(1, 0), 2u);
  RunToEnd(&timing, 1);
  EXPECT_TRUE(timing.Final().ok()) << timing.Final();
}

TEST(TimingTest, CopiesAreIndependent) {
  const TableSpec spec = Line(2);
  Timing timing = Timing::Create(&spec, 3).value();
  Log log;
  // In the middle: an act under way, a message too.
  timing.Take(Only(timing, Timing::Step::kAct), &log);
  timing.FinishAll(0, &log);
  timing.Take(Only(timing, Timing::Step::kAct), &log);
  Timing copy = timing;
  const uint64_t hash = timing.Hash();
  EXPECT_EQ(copy.Hash(), hash);
  const size_t choices = timing.Choices().size();
  RunToEnd(&copy, 5);
  EXPECT_TRUE(copy.Final().ok()) << copy.Final();
  EXPECT_NE(copy.Hash(), hash);
  EXPECT_EQ(timing.Hash(), hash);
  EXPECT_EQ(timing.Choices().size(), choices);
  EXPECT_FALSE(timing.Final().ok());
  RunToEnd(&timing, 6);
  EXPECT_TRUE(timing.Final().ok()) << timing.Final();
  EXPECT_EQ(timing.Hash(), copy.Hash());
}

TEST(TimingTest, RandomPicksFollowTheirSeed) {
  uint64_t a = 7, b = 7, c = 8;
  bool differ = false;
  for (int i = 0; i < 100; ++i) {
    const uint64_t pick = PickRandom(&a, 10);
    EXPECT_LT(pick, 10u);
    EXPECT_EQ(pick, PickRandom(&b, 10));
    differ = differ || pick != PickRandom(&c, 10);
  }
  EXPECT_TRUE(differ);
}

}  // namespace
}  // namespace weft::actor
