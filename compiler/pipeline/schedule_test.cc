#include "compiler/pipeline/schedule.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr PipelineSchedule kAll[] = {PipelineSchedule::kGpipe,
                                     PipelineSchedule::k1F1B,
                                     PipelineSchedule::kInterleaved};

std::vector<std::string> Orders(const PipelineSpec& spec) {
  auto order = PhaseOrder::Create(spec);
  EXPECT_TRUE(order.ok()) << order.status();
  std::vector<std::string> out;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    out.push_back(absl::StrJoin(order->OfRank(rank), " ",
                                [&](std::string* text, const PhaseAct& act) {
                                  text->append(ToString(spec, act));
                                }));
  }
  return out;
}

TEST(ScheduleTest, GpipeIsForwardThenBack) {
  EXPECT_THAT(Orders({PipelineSchedule::kGpipe, 4, 4, 4}),
              ElementsAre("F0.0 F0.1 F0.2 F0.3 B0.0 B0.1 B0.2 B0.3",
                          "F1.0 F1.1 F1.2 F1.3 B1.0 B1.1 B1.2 B1.3",
                          "F2.0 F2.1 F2.2 F2.3 B2.0 B2.1 B2.2 B2.3",
                          "F3.0 F3.1 F3.2 F3.3 B3.0 B3.1 B3.2 B3.3"));
  EXPECT_THAT(Orders({PipelineSchedule::kGpipe, 4, 2, 2}),
              ElementsAre("F0.0 F0.1 F2.0 F2.1 B2.0 B2.1 B0.0 B0.1",
                          "F1.0 F1.1 F3.0 F3.1 B3.0 B3.1 B1.0 B1.1"));
}

TEST(ScheduleTest, OneForwardOneBackAfterWarmingUp) {
  EXPECT_THAT(Orders({PipelineSchedule::k1F1B, 4, 4, 5}),
              ElementsAre("F0.0 F0.1 F0.2 F0.3 B0.0 F0.4 B0.1 B0.2 B0.3 B0.4",
                          "F1.0 F1.1 F1.2 B1.0 F1.3 B1.1 F1.4 B1.2 B1.3 B1.4",
                          "F2.0 F2.1 B2.0 F2.2 B2.1 F2.3 B2.2 F2.4 B2.3 B2.4",
                          "F3.0 B3.0 F3.1 B3.1 F3.2 B3.2 F3.3 B3.3 F3.4 B3.4"));
}

TEST(ScheduleTest, InterleavedTakesTheStagesOfARankInTurn) {
  EXPECT_THAT(Orders({PipelineSchedule::kInterleaved, 4, 2, 4}),
              ElementsAre("F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 "
                          "F2.3 B0.1 B2.2 B2.3 B0.2 B0.3",
                          "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 "
                          "F3.2 B3.2 F3.3 B3.3 B1.2 B1.3"));
}

// Any number of micro-batches from the ranks on, whole groups or not.
TEST(ScheduleTest, AllOrdersFlow) {
  for (PipelineSchedule schedule : kAll) {
    const int fewest = schedule == PipelineSchedule::kInterleaved ? 2 : 1;
    const int most = schedule == PipelineSchedule::k1F1B ? 1 : 4;
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (int chunks = fewest; chunks <= most; ++chunks) {
        for (int n = ranks; n <= 3 * ranks + 2; ++n) {
          const PipelineSpec spec = {schedule, ranks * chunks, ranks, n};
          auto order = PhaseOrder::Create(spec);
          ASSERT_TRUE(order.ok()) << order.status();
          ASSERT_EQ(order->acts().size(),
                    static_cast<size_t>(2 * ranks * chunks * n));
          // Phases and micro-batches follow each other.
          std::vector<int> done(spec.phases(), 0);
          for (const PhaseAct& act : order->acts()) {
            ASSERT_EQ(act.micro_batch, done[act.phase]++);
            if (act.phase == 0) continue;
            ASSERT_GT(done[act.phase - 1], act.micro_batch);
          }
        }
      }
    }
  }
}

TEST(ScheduleTest, MicroBatchesInFlightAreThoseOfTheSchedule) {
  constexpr int kStages = 4, kMicroBatches = 8;
  auto gpipe = PhaseOrder::Create(
      {PipelineSchedule::kGpipe, kStages, kStages, kMicroBatches});
  auto one = PhaseOrder::Create(
      {PipelineSchedule::k1F1B, kStages, kStages, kMicroBatches});
  ASSERT_TRUE(gpipe.ok() && one.ok());
  for (int s = 0; s < kStages; ++s) {
    const int back = 2 * kStages - 1 - s;
    EXPECT_EQ(gpipe->InFlight(s, back), kMicroBatches);
    EXPECT_EQ(one->InFlight(s, back), kStages - s);
    EXPECT_EQ(one->InFlight(s, s), 1);
  }
  // However many micro-batches there are.
  auto many = PhaseOrder::Create({PipelineSchedule::k1F1B, 4, 4, 100});
  ASSERT_TRUE(many.ok());
  EXPECT_EQ(many->InFlight(0, 7), 4);
}

TEST(ScheduleTest, WithoutStagesMicroBatchesFollowEachOther) {
  auto order = PhaseOrder::Create({PipelineSchedule::k1F1B, 0, 4, 3});
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_THAT(order->acts(),
              ElementsAre(PhaseAct{0, 0}, PhaseAct{0, 1}, PhaseAct{0, 2}));
  EXPECT_EQ(order->InFlight(0, 0), 1);
}

TEST(ScheduleTest, NumbersThatDoNotFitAreNamed) {
  struct Case {
    PipelineSpec spec;
    std::vector<std::string> parts;
  };
  for (const Case& c : std::vector<Case>{
           {{PipelineSchedule::k1F1B, 6, 4, 8}, {"stages is 6", "4 ranks"}},
           {{PipelineSchedule::kInterleaved, 4, 4, 8},
            {"'interleaved'", "4 on 4 ranks"}},
           {{PipelineSchedule::k1F1B, 8, 4, 8},
            {"'1f1b'", "8 on 4 ranks", "'interleaved'"}},
           {{PipelineSchedule::k1F1B, 4, 4, 3},
            {"4 ranks", "micro_batches is 3"}},
           {{PipelineSchedule::kInterleaved, 8, 4, 2},
            {"4 ranks", "micro_batches is 2"}}}) {
    SCOPED_TRACE(c.parts[0]);
    const absl::Status status = PhaseOrder::Create(c.spec).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kBadJob)) << status;
    for (const std::string& part : c.parts) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    }
  }
  const absl::Status name = PipelineScheduleNamed("1F1B").status();
  EXPECT_TRUE(IsError(name, ErrorCode::kBadJob));
  EXPECT_THAT(std::string(name.message()),
              HasSubstr("'1F1B'; there are gpipe, 1f1b, interleaved"));
  for (PipelineSchedule schedule : kAll) {
    EXPECT_EQ(*PipelineScheduleNamed(Name(schedule)), schedule);
  }
}

}  // namespace
}  // namespace weft
