#include "core/mesh/mesh.h"

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/mesh/sbp.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Mesh MeshOf(std::vector<MeshAxis> axes, std::vector<int> ranks = {}) {
  absl::StatusOr<Mesh> mesh = Mesh::Create(std::move(axes), std::move(ranks));
  EXPECT_TRUE(mesh.ok()) << mesh.status();
  return *std::move(mesh);
}

Literal Counting(Shape shape) {
  std::vector<double> values(shape.num_elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = double(i) + 1;
  return Literal::FromDoubles({DType::kF32, shape}, values);
}

std::vector<Literal> LocalsOf(const Literal& whole, const NdSbp& sbp,
                              const Mesh& mesh) {
  std::vector<Literal> out;
  for (int m = 0; m < mesh.size(); ++m) {
    out.push_back(LocalPart(whole, sbp, mesh, m));
    EXPECT_EQ(out.back().type().shape,
              LocalShape(whole.type().shape, sbp, mesh).value());
  }
  return out;
}

TEST(Mesh, TheLastAxisCountsFastest) {
  const Mesh mesh = MeshOf({{"data", 2}, {"model", 4}});
  EXPECT_EQ(mesh.size(), 8);
  EXPECT_EQ(mesh.AxisNamed("model"), 1);
  EXPECT_EQ(mesh.AxisNamed("pipe"), -1);
  EXPECT_THAT(mesh.CoordinatesOf(6), ElementsAre(1, 2));
  EXPECT_THAT(mesh.GroupOf(6, 1), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(mesh.GroupOf(6, 0), ElementsAre(2, 6));
  EXPECT_EQ(mesh.ToString(), "data=2 x model=4");
  for (int m = 0; m < 8; ++m)
    EXPECT_EQ(mesh.MemberAt(mesh.CoordinatesOf(m)), m);
}

TEST(Mesh, MayLieOnAnyRanks) {
  const Mesh mesh = MeshOf({{"model", 2}}, {5, 3});
  EXPECT_EQ(mesh.rank(0), 5);
  EXPECT_EQ(mesh.MemberOf(3), 1);
  EXPECT_EQ(mesh.MemberOf(4), -1);
  EXPECT_EQ(mesh.ToString(), "model=2 on ranks 5,3");
  EXPECT_NE(mesh, MeshOf({{"model", 2}}));
}

TEST(Mesh, ThroughAMember) {
  const Mesh mesh = MeshOf({{"pipe", 2}, {"data", 3}, {"model", 2}});
  // {1, 2, 0} is member 10.
  EXPECT_EQ(mesh.Through(10, {1}), MeshOf({{"data", 3}}, {6, 8, 10}));
  EXPECT_EQ(mesh.Through(10, {0, 2}),
            MeshOf({{"pipe", 2}, {"model", 2}}, {4, 5, 10, 11}));
  EXPECT_EQ(mesh.Through(10, {}).ranks(), std::vector<int>{10});
  EXPECT_EQ(mesh.Through(10, {0, 1, 2}), mesh);
}

TEST(Mesh, RefusesWhatIsNone) {
  const auto message = [](std::vector<MeshAxis> axes,
                          std::vector<int> ranks = {}) {
    return std::string(Mesh::Create(axes, ranks).status().message());
  };
  EXPECT_THAT(message({{"data", 0}}), HasSubstr("axis 'data' has size 0"));
  EXPECT_THAT(message({{"", 2}}), HasSubstr("axis '' has size 2"));
  EXPECT_THAT(message({{"x", 2}, {"x", 2}}), HasSubstr("'x' is there twice"));
  EXPECT_THAT(message({{"x", 2000}, {"y", 2000}}),
              HasSubstr("with axis 'y' it would have 4000000"));
  EXPECT_THAT(message({{"x", 2}}, {1, 1}), HasSubstr("given were 1,1"));
  EXPECT_THAT(message({{"x", 2}}, {1}), HasSubstr("of 2 members"));
  EXPECT_THAT(message({{"x", 2}}, {-1, 0}), HasSubstr("given were -1,0"));
}

TEST(Sbp, HasATextForm) {
  for (const std::string text :
       {"B", "M", "S(0)", "S(7,3)", "P(sum)", "P(prod)", "P(max)", "P(min)"}) {
    absl::StatusOr<Sbp> sbp = ParseSbp(text);
    ASSERT_TRUE(sbp.ok()) << sbp.status();
    EXPECT_EQ(ToString(*sbp), text);
  }
  EXPECT_EQ(ToString(NdSbp{Sbp::Broadcast(), Sbp::Split(1)}), "(B, S(1))");
  for (const std::string text : {"", "S", "S()", "S(8)", "S(-1)", "S(1,0)",
                                 "S(1,2,3)", "P(mean)", "Q(1)", "S(1"}) {
    EXPECT_THAT(ParseSbp(text).status().message(),
                HasSubstr("'" + text + "' is no signature"));
  }
}

TEST(Sbp, PartsOfASplitDimension) {
  const Literal whole = Counting(Shape({2, 6}));
  EXPECT_THAT(PartOf(whole, Sbp::Split(0), 2, 1).ToDoubles(),
              ElementsAre(7, 8, 9, 10, 11, 12));
  EXPECT_THAT(PartOf(whole, Sbp::Split(1), 2, 1).ToDoubles(),
              ElementsAre(4, 5, 6, 10, 11, 12));
  EXPECT_THAT(PartOf(whole, Sbp::Split(1, 3), 2, 1).ToDoubles(),
              ElementsAre(2, 4, 6, 8, 10, 12));
}

TEST(Sbp, WhatOneSizeDoesNotDivideIsRefusedWithBothNumbers) {
  EXPECT_THAT(PartShape(Shape({2, 6}), Sbp::Split(1), 4).status().message(),
              HasSubstr("S(1) cuts dimension 1 of [2,6] into 4 pieces"));
  EXPECT_THAT(PartShape(Shape({2, 6}), Sbp::Split(1, 3), 4).status().message(),
              HasSubstr("(4 members times 3 groups), which do not divide 6"));
  EXPECT_THAT(PartShape(Shape({2}), Sbp::Split(1), 2).status().message(),
              HasSubstr("S(1) splits dimension 1; [2] has 1"));
}

TEST(Sbp, PartsMakeTheWhole) {
  const Mesh mesh = MeshOf({{"x", 2}, {"y", 3}});
  const Literal whole = Counting(Shape({12, 36}));
  const std::vector<Sbp> all = {Sbp::Broadcast(),
                                Sbp::Split(0),
                                Sbp::Split(1),
                                Sbp::Split(1, 3),
                                Sbp::Partial(ReduceOp::kSum),
                                Sbp::Partial(ReduceOp::kProd),
                                Sbp::Partial(ReduceOp::kMax),
                                Sbp::Partial(ReduceOp::kMin)};
  for (Sbp x : all) {
    for (Sbp y : all) {
      const NdSbp sbp = {x, y};
      EXPECT_EQ(WholeOf(LocalsOf(whole, sbp, mesh), sbp, mesh), whole)
          << ToString(sbp);
    }
  }
}

}  // namespace
}  // namespace weft
