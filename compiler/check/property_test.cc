// The checker against the explorer: what the one accepts, the other can run
// under every timing that it tries; and the explorer finds what the checker
// would have refused.
#include <cstdint>
#include <set>
#include <string>

#include "compiler/check/check.h"
#include "compiler/check/testing/random_plan.h"
#include "core/actor/explorer.h"
#include "core/base/error.h"
#include "core/plan/explore.h"
#include "core/plan/plan.h"
#include "core/plan/print.h"
#include "gtest/gtest.h"

namespace weft::check {
namespace {

constexpr uint32_t kPeriods = 3;

TEST(PropertyTest, WhatTheCheckerAcceptsFinishesUnderEveryTiming) {
  int accepted = 0, refused = 0, found = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const plan::Plan plan = RandomPlan(seed);
    absl::Status checked = CheckPlan(plan);
    ASSERT_TRUE(checked.ok() || IsError(checked, ErrorCode::kPlanRefuted))
        << seed << ": " << checked;
    plan::PlanView view = *plan::PlanView::Create(&plan);
    actor::Model model = *plan::PlanToModel(view);
    std::set<uint64_t> digests;
    bool failed = false;
    for (uint64_t timing = 0; timing < 4; ++timing) {
      actor::Exploration run =
          actor::ExploreRandom(model, kPeriods, seed * 100 + timing);
      if (checked.ok()) {
        ASSERT_TRUE(run.status.ok())
            << "seed " << seed << ": " << run.status << "\n"
            << plan::PrintPlan(plan);
      }
      failed |= !run.status.ok();
      digests.insert(run.digest);
    }
    if (checked.ok()) {
      EXPECT_EQ(digests.size(), 1u) << seed;
    }
    ++(checked.ok() ? accepted : refused);
    if (!checked.ok() && failed) ++found;
  }
  // Both kinds occur, and most of what is refused goes wrong before long.
  EXPECT_GT(accepted, 500);
  EXPECT_GT(refused, 200);
  EXPECT_GT(found, refused / 3);
}

TEST(PropertyTest, SmallPlansFinishUnderEachTimingThereIs) {
  int exhausted = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const plan::Plan plan = RandomPlan(seed);
    if (plan.tasks_size() > 7 || !CheckPlan(plan).ok()) continue;
    plan::PlanView view = *plan::PlanView::Create(&plan);
    actor::Exploration run = actor::ExploreAll(
        *plan::PlanToModel(view), /*periods=*/2, /*max_states=*/3000);
    EXPECT_TRUE(run.status.ok()) << seed << ": " << run.status;
    if (run.exhausted) ++exhausted;
  }
  EXPECT_GT(exhausted, 0);
}

}  // namespace
}  // namespace weft::check
