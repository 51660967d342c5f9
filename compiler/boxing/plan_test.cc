#include "compiler/boxing/plan.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/boxing/axis_view.h"
#include "core/base/error.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

const Sbp kB = Sbp::Broadcast();
const Sbp kSum = Sbp::Partial();
const Sbp kMax = Sbp::Partial(ReduceOp::kMax);

Sbp S(int dim, int groups = 1) { return Sbp::Split(dim, groups); }

Mesh MeshOf(std::vector<MeshAxis> axes) {
  auto mesh = Mesh::Create(std::move(axes));
  EXPECT_TRUE(mesh.ok()) << mesh.status();
  return *std::move(mesh);
}

// "a: S(0) to B by all-gather; b: ..".
std::string Steps(BoxingCosts* costs, const NdSbp& from, const NdSbp& to,
                  const TensorType& type) {
  auto steps = costs->Plan(from, to, type);
  if (!steps.ok()) return std::string(steps.status().message());
  std::string text;
  for (const BoxingStep& step : *steps) {
    absl::StrAppend(&text, text.empty() ? "" : "; ",
                    costs->mesh().axis(step.axis).name, ": ",
                    ToString(step.from), " to ", ToString(step.to), " by ",
                    Name(step.move));
  }
  return text;
}

class PlanTest : public testing::Test {
 protected:
  BoxingCosts costs_ = BoxingCosts(MeshOf({{"a", 2}, {"b", 3}}));
  const TensorType type_ = {DType::kF32, {1800, 600}};
};

TEST_F(PlanTest, EachMove) {
  const auto steps = [&](Sbp from, Sbp to) {
    return Steps(&costs_, {kB, from}, {kB, to}, type_);
  };
  EXPECT_EQ(steps(kB, S(0)), "b: B to S(0) by slice");
  EXPECT_EQ(steps(S(0), kB), "b: S(0) to B by all-gather");
  EXPECT_EQ(steps(kSum, kB), "b: P(sum) to B by all-reduce");
  EXPECT_EQ(steps(kSum, S(1)), "b: P(sum) to S(1) by reduce-scatter");
  EXPECT_EQ(steps(S(1), S(0)), "b: S(1) to S(0) by all-to-all");
  EXPECT_EQ(steps(S(0), S(0, 3)), "b: S(0) to S(0,3) by all-to-all");
  EXPECT_EQ(steps(S(0, 3), S(0)), "b: S(0,3) to S(0) by all-to-all");
  EXPECT_EQ(steps(S(0, 2), S(0, 5)),
            "b: S(0,2) to B by all-gather; b: B to S(0,5) by slice");
  EXPECT_EQ(steps(kB, kSum), "b: B to P(sum) by keep on the first");
  EXPECT_EQ(steps(S(0), kMax), "b: S(0) to P(max) by pad");
  EXPECT_EQ(steps(kSum, kMax),
            "b: P(sum) to S(0) by reduce-scatter; b: S(0) to P(max) by pad");
  EXPECT_EQ(steps(kSum, kSum), "");
}

TEST_F(PlanTest, TheOrderOfAxesIsTheCheapest) {
  // Half of it is gathered only.
  EXPECT_EQ(Steps(&costs_, {kB, S(0)}, {S(1), kB}, type_),
            "a: B to S(1) by slice; b: S(0) to B by all-gather");
  EXPECT_EQ(Steps(&costs_, {S(1), kB}, {kB, S(0)}, type_),
            "b: B to S(0) by slice; a: S(1) to B by all-gather");
  // A third is reduced between the pairs; all of a small value.
  EXPECT_EQ(Steps(&costs_, {kSum, kSum}, {kB, kB}, type_),
            "b: P(sum) to S(0) by reduce-scatter; a: P(sum) to B by "
            "all-reduce; b: S(0) to B by all-gather");
  EXPECT_EQ(Steps(&costs_, {kSum, kSum}, {kB, kB}, {DType::kF32, {6}}),
            "a: P(sum) to B by all-reduce; b: P(sum) to B by all-reduce");
}

TEST_F(PlanTest, NestedSplits) {
  // What the pairs have together is every third of the value.
  EXPECT_EQ(Steps(&costs_, {S(0), S(0)}, {kB, S(0, 2)}, type_),
            "a: S(0) to B by all-gather");
  EXPECT_EQ(Steps(&costs_, {S(0), S(0)}, {kB, S(0)}, type_),
            "b: S(0) to B by all-gather; a: S(0) to B by all-gather; b: B to "
            "S(0) by slice");
  BoxingCosts square(MeshOf({{"a", 2}, {"b", 2}}));
  EXPECT_EQ(Steps(&square, {S(0), S(0)}, {kB, S(0)}, type_),
            "a: S(0) to B by all-gather; b: S(0,2) to S(0) by all-to-all");
  EXPECT_EQ(Steps(&costs_, {kB, S(0, 2)}, {S(0), S(0)}, type_),
            "a: B to S(0) by slice");
  EXPECT_EQ(Steps(&costs_, {S(0), S(0)}, {S(0), kB}, type_),
            "b: S(0) to B by all-gather");
  // Not aligned: each third is of the two groups' halves.
  EXPECT_EQ(Steps(&costs_, {S(0, 2), S(0)}, {kB, S(0)}, type_),
            "b: S(0) to B by all-gather; a: S(0,2) to B by all-gather; b: B to "
            "S(0) by slice");
}

TEST_F(PlanTest, NestedReductions) {
  EXPECT_EQ(Steps(&costs_, {kSum, kMax}, {kB, kMax}, type_),
            "b: P(max) to S(0) by reduce-scatter; a: P(sum) to B by "
            "all-reduce; b: S(0) to P(max) by pad");
  EXPECT_EQ(Steps(&costs_, {kMax, kMax}, {kB, kMax}, type_),
            "a: P(max) to B by all-reduce");
}

TEST_F(PlanTest, Explains) {
  auto steps = costs_.Plan({S(0), kSum}, {kB, kB}, {DType::kF32, {64, 32}});
  ASSERT_TRUE(steps.ok()) << steps.status();
  EXPECT_EQ(Explain(costs_.mesh(), *steps).substr(0, 60),
            "axis b: P(sum) to B, all-reduce of [32,32], 3 ranks, 8192 by");
  double seconds = 0;
  for (const BoxingStep& step : *steps) seconds += step.seconds;
  EXPECT_EQ(costs_.Seconds({S(0), kSum}, {kB, kB}, {DType::kF32, {64, 32}}),
            seconds);
}

TEST_F(PlanTest, NoLongerThanByAnyOtherWay) {
  const std::vector<Sbp> ways = {kB, S(0), S(1), S(0, 2), kSum, kMax};
  const TensorType type = {DType::kF32, {120, 120}};
  std::vector<NdSbp> layouts;
  for (Sbp a : ways) {
    for (Sbp b : ways) layouts.push_back({a, b});
  }
  for (const NdSbp& from : layouts) {
    for (const NdSbp& to : layouts) {
      for (Sbp a : {from[0], to[0], kB}) {
        for (Sbp b : {from[1], to[1], kB}) {
          const NdSbp between = {a, b};
          // Nothing is summed that was not in parts.
          if ((a.is_partial() && a != from[0]) ||
              (b.is_partial() && b != from[1])) {
            continue;
          }
          EXPECT_LE(costs_.Seconds(from, to, type),
                    costs_.Seconds(from, between, type) +
                        costs_.Seconds(between, to, type) + 1e-12)
              << ToString(from) << ToString(between) << ToString(to);
        }
      }
    }
  }
}

TEST_F(PlanTest, AnswersDoNotDependOnEarlierQuestions) {
  BoxingCosts other(costs_.mesh());
  const double asked = costs_.Seconds({S(0), S(1)}, {S(1), S(0)}, type_);
  EXPECT_GT(other.Seconds({kSum, S(1)}, {S(1), S(0)}, type_), 0);
  EXPECT_EQ(other.Seconds({S(0), S(1)}, {S(1), S(0)}, type_), asked);
  EXPECT_EQ(other.Seconds({S(0), S(1)}, {S(1), S(0)}, type_), asked);
}

// What micro-batches gather is not put in place by its owners.
TEST_F(PlanTest, MicroBatchesAreGatheredByTheirReaders) {
  Topology topology;
  topology.mapped_bytes = 1;
  BoxingCosts costs(costs_.mesh(), topology);
  const NdSbp from = {S(0), kB}, to = {kB, kB};
  const double own = type_.num_bytes() / 2 / topology.reduce_bytes_per_s;
  EXPECT_NEAR(costs.Seconds(from, to, type_, true),
              costs.Seconds(from, to, type_) + own, 1e-9);
  EXPECT_EQ(costs.Seconds({kSum, kB}, to, type_, true),
            costs.Seconds({kSum, kB}, to, type_));
}

// An axis between hosts is dearer; so less is sent there.
TEST_F(PlanTest, HostsCount) {
  BoxingCosts far(costs_.mesh(), Topology(), {{0, 1, 2}, {3, 4, 5}});
  const NdSbp from = {kSum, kB}, to = {kB, kB};
  EXPECT_GT(far.Seconds(from, to, type_), costs_.Seconds(from, to, type_));
  EXPECT_EQ(far.Seconds({kB, kSum}, to, type_),
            costs_.Seconds({kB, kSum}, to, type_));
  EXPECT_TRUE(far.HostsOf({0, 2}).empty());
  EXPECT_EQ(far.HostsOf({4, 1, 5}),
            (std::vector<std::vector<int>>{{0, 2}, {1}}));
}

TEST_F(PlanTest, Refuses) {
  const auto error = [&](const NdSbp& from, const NdSbp& to) {
    EXPECT_TRUE(std::isinf(costs_.Seconds(from, to, type_)));
    return costs_.Plan(from, to, type_).status();
  };
  absl::Status status = error({kB, kB}, {kB, S(2)});
  EXPECT_TRUE(IsError(status, ErrorCode::kShapeMismatch)) << status;
  status = error({kB}, {S(0)});
  EXPECT_TRUE(IsError(status, ErrorCode::kInternal)) << status;
  status = error({Sbp::Micro(), kB}, {kSum, kB});
  EXPECT_TRUE(IsError(status, ErrorCode::kInternal)) << status;
  EXPECT_EQ(Steps(&costs_, {Sbp::Micro(), kSum}, {Sbp::Micro(), kB}, type_),
            "b: P(sum) to B by all-reduce");
}

std::string View(const Shape& whole, const NdSbp& sbp, const Mesh& mesh,
                 int axis) {
  const auto view = AxisViewOf(whole, sbp, mesh, axis);
  return view ? absl::StrCat(ToString(view->rest), " ", ToString(view->own))
              : "none";
}

TEST(AxisViewTest, LaterAxesOfTheSameDimension) {
  const Mesh mesh = MeshOf({{"a", 2}, {"b", 3}, {"c", 2}});
  const Shape whole({72});
  EXPECT_EQ(View(whole, {S(0), S(0), kB}, mesh, 0), "(B, S(0,2), B) S(0)");
  EXPECT_EQ(View(whole, {S(0), S(0), kB}, mesh, 1), "(S(0), B, B) S(0)");
  EXPECT_EQ(View(whole, {S(0), S(0), S(0)}, mesh, 0),
            "(B, S(0,2), S(0,2)) S(0)");
  // A half of each of the three runs; the third axis cuts the three.
  EXPECT_EQ(View(whole, {S(0, 3), S(0), kB}, mesh, 0), "(B, S(0), B) S(0)");
  EXPECT_EQ(View(whole, {S(0, 2), S(0), kB}, mesh, 0), "none");
  EXPECT_EQ(View(whole, {S(0, 2), S(0), kB}, mesh, 1), "(S(0,2), B, B) S(0)");
}

}  // namespace
}  // namespace weft
