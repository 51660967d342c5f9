#include "compiler/transforms/accumulate.h"

#include "compiler/transforms/testing.h"
#include "core/base/error.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(AccumulateTest, AddsASumInThePlaceOfTheValue) {
  Graph g = ParseBody(R"(
%x = weft.Input() {dtype: f32, shape: [2]}
%y = Neg(%x) device("cpu:0") stage(1)
%o = weft.Output(%y) {name: "y"})");
  auto sum = AddAccumulate(&g, g.FindNode("y")->output(0), 4);
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_NE(Body(g).find("%y/accumulate = weft.Accumulate(%y) {count: 4} "
                         "device(\"cpu:0\") stage(1)"),
            std::string::npos)
      << Body(g);
  // Readers stay where they are.
  EXPECT_EQ(g.FindNode("o")->input(0), g.FindNode("y")->output(0));
}

TEST(AccumulateTest, RefusesACountBelowOne) {
  Graph g = ParseBody("%x = weft.Input() {dtype: f32, shape: [2]}");
  EXPECT_EQ(
      ErrorCodeOf(AddAccumulate(&g, g.FindNode("x")->output(0), 0).status()),
      ErrorCode::kBadAttribute);
}

}  // namespace
}  // namespace weft
