#include "compiler/order/acts.h"

#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// u and w once a micro-batch, v once a period in between.
std::vector<Unit> Units() {
  return {{{0}, 0, 2, Section::kMicro},
          {{1}, 0, 1, Section::kAfter},
          {{2}, 0, 2, Section::kMicro}};
}

PhaseOrder TwoMicroBatches() {
  PipelineSpec spec;
  spec.micro_batches = 2;
  return *PhaseOrder::Create(spec);
}

TEST(ActsTest, ARandomOrderHasEveryActOnce) {
  for (uint64_t seed = 1; seed < 20; ++seed) {
    auto order = OrderActs(Units(), std::vector<UnitEdge>{{0, 1, 1}, {1, 2, 1}},
                           {false, false, false}, TwoMicroBatches(), seed);
    ASSERT_TRUE(order.ok()) << order.status();
    EXPECT_THAT(*order, ElementsAre(0, 0, 1, 2, 2));
  }
}

// w's first act needs v, v needs u's last, and u's last needs the one copy that
// w's first reads.
TEST(ActsTest, ActsThatWaitForEachOtherAreAnError) {
  auto order =
      OrderActs(Units(), std::vector<UnitEdge>{{0, 1, 1}, {1, 2, 1}, {0, 2, 1}},
                {false, false, false}, TwoMicroBatches(), /*seed=*/1);
  ASSERT_FALSE(order.ok());
  EXPECT_TRUE(IsError(order.status(), ErrorCode::kInternal));
  EXPECT_THAT(std::string(order.status().message()),
              HasSubstr("4 of 5 wait for each other, in the units 0, 1, 2"));
}

}  // namespace
}  // namespace weft
