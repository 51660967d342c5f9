#include "core/plan/boundary.h"

#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/types/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::plan {
namespace {

using ::testing::HasSubstr;

void AddChannel(Plan* plan, const std::string& name, uint32_t peer,
                bool receives, int64_t dim, uint32_t copies = 1) {
  Channel* channel = plan->add_channels();
  channel->set_name(name);
  channel->set_peer(peer);
  channel->set_receives(receives);
  channel->set_copies(copies);
  channel->mutable_tensor()->set_dtype(static_cast<uint32_t>(DType::kF32));
  channel->mutable_tensor()->add_dims(dim);
}

// Rank 0 sends a and b to rank 1, which receives them in the other order.
std::vector<Plan> Job() {
  std::vector<Plan> plans(2);
  AddChannel(&plans[0], "a", 1, false, 4);
  AddChannel(&plans[0], "b", 1, false, 8);
  AddChannel(&plans[1], "b", 0, true, 8);
  AddChannel(&plans[1], "a", 0, true, 4);
  return plans;
}

absl::Status Match(const std::vector<Plan>& plans) {
  std::vector<std::string> texts;
  for (const Plan& plan : plans) texts.push_back(BoundaryText(plan));
  return MatchBoundaries(texts);
}

TEST(BoundaryTest, EndsThatSayTheSameMatchInAnyOrder) {
  EXPECT_TRUE(Match(Job()).ok()) << Match(Job());
  EXPECT_TRUE(MatchBoundaries({"", ""}).ok());
}

TEST(BoundaryTest, WhatDiffersNamesBothRanksAndBothSides) {
  std::vector<std::vector<Plan>> all(5, Job());
  all[0][1].mutable_channels(0)->set_name("c");
  all[1][1].mutable_channels(0)->set_copies(2);
  all[2][1].mutable_channels(0)->mutable_tensor()->set_dims(0, 9);
  all[3][1].mutable_channels()->RemoveLast();
  AddChannel(&all[4][1], "d", 0, false, 1);  // nobody receives it
  for (size_t i = 0; i < all.size(); ++i) {
    const absl::Status status = Match(all[i]);
    EXPECT_TRUE(IsError(status, ErrorCode::kPlansDiffer)) << i << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("sends rank"));
  }
  EXPECT_THAT(std::string(Match(all[3]).message()),
              HasSubstr("rank 0 sends rank 1 2 channels"));
  EXPECT_THAT(std::string(Match(all[3]).message()),
              HasSubstr("rank 1 receives 1 channels"));
  EXPECT_THAT(std::string(Match(all[4]).message()),
              HasSubstr("rank 0 receives 0 channels"));
}

// What the two ranks that differ say when they are asked.
absl::Status Compare(const std::vector<Plan>& plans) {
  std::vector<std::string> texts;
  for (const Plan& plan : plans) texts.push_back(BoundaryText(plan));
  const std::optional<RankPair> pair = DifferingRanks(texts);
  if (!pair.has_value()) return absl::OkStatus();
  return CompareChannels(*pair, ChannelsText(plans[pair->from], pair->to),
                         ChannelsText(plans[pair->to], pair->from));
}

TEST(BoundaryTest, TheTwoThatDifferSayWhat) {
  EXPECT_TRUE(Compare(Job()).ok());
  std::vector<std::vector<Plan>> all(4, Job());
  all[0][1].mutable_channels(0)->mutable_tensor()->set_dims(0, 9);
  all[1][1].mutable_channels()->RemoveLast();
  AddChannel(&all[2][1], "d", 0, false, 1);
  for (Plan& plan : all[3]) plan.clear_channels();
  AddChannel(&all[3][0], "grad#sum.f32[4]/0.1", 1, false, 4);
  AddChannel(&all[3][1], "grad#max.f32[4]/0.1", 0, true, 4);
  const char* said[] = {
      "channel 'b': rank 0 sends f32[8], 1 copies, rank 1 receives f32[9]",
      "channel 'a': rank 0 sends f32[4], 1 copies, rank 1 receives nothing",
      "channel 'd': rank 1 sends f32[1], 1 copies, rank 0 receives nothing",
      "channel 'grad': rank 1 has 'max.f32[4]', rank 0 has 'sum.f32[4]'"};
  for (size_t i = 0; i < all.size(); ++i) {
    const absl::Status status = Compare(all[i]);
    EXPECT_TRUE(IsError(status, ErrorCode::kPlansDiffer)) << i << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(said[i]));
  }
  EXPECT_TRUE(
      IsError(CompareChannels({0, 1}, "no plan", ""), ErrorCode::kBadPlan));
}

TEST(BoundaryTest, WhatIsNoTextIsRefused) {
  for (const std::string text :
       {"> 1 2", "= 1 2 3", "> x 2 3", "> 1 2 g\n", "> 2 2 3"}) {
    const absl::Status status = MatchBoundaries({text, ""});
    EXPECT_TRUE(IsError(status, ErrorCode::kBadPlan)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0"));
  }
}

}  // namespace
}  // namespace weft::plan
