#include "core/ops/cuts.h"

#include <numeric>
#include <string>
#include <vector>

#include "core/reference/gradient_check.h"
#include "core/reference/schema_check.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;

struct Axis {
  Sbp sbp;
  int parts, index;
};

// The positions that cuts say are those that the cuts of a literal leave.
void ExpectPositions(const std::vector<Axis>& axes, int64_t run) {
  std::vector<double> counting(6 * 12 * 4);
  std::iota(counting.begin(), counting.end(), 0);
  Literal part =
      Literal::FromDoubles({DType::kF64, Shape({6, 12, 4})}, counting);
  AttrMap attrs = {{"dtype", DType::kF32}};
  for (const Axis& axis : axes) {
    part = PartOf(part, axis.sbp, axis.parts, axis.index);
    Cuts::Append(axis.sbp, axis.parts, axis.index, &attrs);
  }
  const Shape local = part.type().shape;
  attrs.Set("shape", Ints(local.dims().begin(), local.dims().end()));
  const OpView op(*OpRegistry::Global().FindOrNull("weft.RandomUniform"), "n",
                  attrs, {}, {});
  absl::StatusOr<Cuts> cuts = Cuts::FromOp(op, local);
  ASSERT_TRUE(cuts.ok()) << cuts.status();
  EXPECT_EQ(cuts->whole_elements(), 6 * 12 * 4);
  EXPECT_EQ(cuts->run(), run);
  const std::vector<double> expected = part.ToDoubles();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(cuts->PositionOf(static_cast<int64_t>(i)), expected[i]) << i;
  }
  for (size_t i = 1; i < expected.size(); ++i) {
    if (static_cast<int64_t>(i) % run != 0) {
      EXPECT_EQ(expected[i], expected[i - 1] + 1);
    }
  }
}

TEST(CutsTest, SayWhereAPartLies) {
  ExpectPositions({}, 288);
  ExpectPositions({{Sbp::Broadcast(), 2, 1}}, 288);
  ExpectPositions({{Sbp::Split(0), 3, 2}}, 96);
  ExpectPositions({{Sbp::Split(1, 3), 2, 1}}, 8);
  ExpectPositions({{Sbp::Split(2), 2, 1}, {Sbp::Split(0), 2, 0}}, 2);
  ExpectPositions({{Sbp::Split(0), 2, 1}, {Sbp::Split(1), 3, 2}}, 16);
  ExpectPositions({{Sbp::Split(1), 2, 1}, {Sbp::Split(1), 3, 1}}, 8);
  ExpectPositions({{Sbp::Split(1, 3), 2, 1}, {Sbp::Split(1, 3), 2, 0}}, 4);
  ExpectPositions({{Sbp::Split(1), 2, 0}, {Sbp::Split(1, 2), 3, 2}}, 4);
}

TEST(CutsTest, RefusesWhatIsNoPart) {
  for (const Ints& cuts : std::vector<Ints>{{0, 2, 1},
                                            {2, 2, 1, 1},
                                            {0, 2, 2, 1},
                                            {0, 0, 0, 1},
                                            {0, 2, -1, 1},
                                            {0, 2, 1, 0},
                                            {0, 2, 1, 4}}) {
    EXPECT_THAT(
        InferText(
            "weft.RandomUniform",
            {{"shape", Ints{6, 4}}, {"dtype", DType::kF32}, {"cuts", cuts}},
            {"i64[2]"}),
        ErrorWith("WEFT-2003", {"'cuts'", "[6,4]"}))
        << testing::PrintToString(cuts);
  }
}

TEST(CutsTest, DecompositionsKeepThem) {
  const Literal counter = Literal::Of<int64_t>({2}, {3, 1});
  const AttrMap dropout = {
      {"ratio", 0.3}, {"stream", 2}, {"cuts", Ints{1, 3, 1, 2}}};
  EXPECT_EQ(CheckDecomposition({"weft.DropoutTraining",
                                dropout,
                                {RandomLiteral({4, 6}, 1), counter},
                                2}),
            absl::OkStatus());
  AttrMap attention = dropout;
  attention.Set("heads", 2);
  attention.Set("cuts", Ints{0, 2, 1, 1, 1, 3, 2, 1});
  EXPECT_EQ(CheckDecomposition({"weft.SelfAttention",
                                attention,
                                {RandomLiteral({2, 3, 12}, 1), counter}}),
            absl::OkStatus());
}

}  // namespace
}  // namespace weft
