#include "compiler/partition/by_rank.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/placement/device_names.h"
#include "core/base/error.h"
#include "core/graph/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::string_view kSource =
    "  %x = weft.DataSource() {source: \"x\", dtypes: [1], ranks: [1], "
    "dims: [8]}";

Graph Parse(const std::string& body) {
  auto graph = ParseGraph(absl::StrCat("graph \"g\" {\n", body, "\n}"));
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

std::string Text(const Graph& graph, int ranks, int rank,
                 int micro_batches = 1) {
  auto where = AssignRanks(graph, ranks, micro_batches);
  if (!where.ok()) return where.status().ToString();
  auto mine = GraphOfRank(graph, *where, rank);
  return mine.ok() ? PrintGraph(*mine) : mine.status().ToString();
}

int Count(const std::string& text, const std::string& what) {
  int count = 0;
  for (size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

TEST(ByRankTest, OneRankIsTheWholeGraph) {
  Graph graph = Parse(absl::StrCat(kSource, R"(
  %a = Neg(%x) device("sim:0")
  %o = weft.Output(%a) {name: "a"})"));
  EXPECT_EQ(Text(graph, 1, 0), PrintGraph(graph));
}

TEST(ByRankTest, DataGoesFromSendToRecv) {
  Graph graph = Parse(absl::StrCat(kSource, R"(
  %a = Neg(%x) device("w0")
  %b = Exp(%a) device("w1/sim:0")
  %o = weft.Output(%b) {name: "b"})"));
  const std::string here = Text(graph, 2, 0), there = Text(graph, 2, 1);
  EXPECT_THAT(here, HasSubstr("weft.Send(%a) {channel: \"a:0>1\", peer: 1, "
                              "rate: \"micro\"}"));
  EXPECT_THAT(there, HasSubstr("%a/from_rank_0 = weft.Recv() {channel: "
                               "\"a:0>1\", dtype: f32, peer: 0, rate: "
                               "\"micro\", shape: [8]} : f32[8]"));
  EXPECT_THAT(there, HasSubstr("%b = Exp(%a/from_rank_0) : f32[8] "
                               "device(\"sim:0\")"));
  // The source goes where it is read, the output where its value is.
  EXPECT_THAT(here, HasSubstr("weft.DataSource"));
  EXPECT_THAT(there, Not(HasSubstr("weft.DataSource")));
  EXPECT_THAT(there, HasSubstr("weft.Output"));
}

TEST(ByRankTest, OnePairServesAllReadersOfARank) {
  Graph graph = Parse(absl::StrCat(kSource, R"(
  %a = Neg(%x) device("w0")
  %b = Exp(%a) device("w1")
  %c = Abs(%a) device("w1")
  %d = Add(%a, %c) device("w1")
  %o = weft.Output(%d) {name: "d"})"));
  EXPECT_EQ(Count(Text(graph, 2, 0), "weft.Send"), 1);
  EXPECT_EQ(Count(Text(graph, 2, 1), "weft.Recv"), 1);
}

TEST(ByRankTest, ControlAndDataOfOneNodeAreTwoPairs) {
  Graph graph = Parse(absl::StrCat(kSource, R"(
  %a = Neg(%x) device("w0")
  %b = Exp(%a) control(%a) device("w1")
  %c = Abs(%x) control(%a) device("w1")
  %o = weft.Output(%b) {name: "b"}
  %p = weft.Output(%c) {name: "c"})"));
  const std::string here = Text(graph, 2, 0), there = Text(graph, 2, 1);
  EXPECT_THAT(here, HasSubstr("weft.Send() {channel: \"a/done:0>1\", peer: 1, "
                              "rate: \"micro\"} control(%a)"));
  EXPECT_EQ(Count(there, "channel: \"a/done:0>1\""), 1);  // for b and c
  EXPECT_EQ(Count(there, "channel: \"a:0>1\""), 1);
  EXPECT_EQ(Count(there, "control(%a/done/from_rank_0)"), 2);
}

TEST(ByRankTest, ConstantsAreClonedAndNotSent) {
  Graph graph = Parse(absl::StrCat(kSource, R"(
  %k = Constant() {value: tensor(f32[8], splat(2))}
  %a = Add(%x, %k) device("w0")
  %b = Add(%a, %k) device("w1")
  %o = weft.Output(%b) {name: "b"})"));
  EXPECT_EQ(Count(Text(graph, 2, 0), "= Constant"), 1);
  EXPECT_EQ(Count(Text(graph, 2, 1), "= Constant"), 1);
  EXPECT_EQ(Count(Text(graph, 2, 1), "weft.Recv"), 1);
}

constexpr absl::string_view kUpdate = R"(
  %v = weft.Variable() {dtype: f32, shape: [8]} %s
  %lr = Constant() {value: tensor(f32[], splat(1))}
  %a = Neg(%x) device("w0")
  %u = weft.SgdUpdate(%v, %a, %lr) %s)";

Graph UpdateGraph(absl::string_view variable, absl::string_view update) {
  std::string body = absl::StrCat(kSource, kUpdate);
  body.replace(body.find("%s"), 2, std::string(variable));
  body.replace(body.find("%s"), 2, std::string(update));
  return Parse(body);
}

TEST(ByRankTest, StateMovesWithItsUpdate) {
  for (const Graph& graph :
       {UpdateGraph("device(\"w1\")", ""), UpdateGraph("", "device(\"w1\")")}) {
    EXPECT_THAT(Text(graph, 2, 1), HasSubstr("weft.Variable"));
    EXPECT_THAT(Text(graph, 2, 1), HasSubstr("weft.SgdUpdate(%v, "
                                             "%a/from_rank_0"));
    EXPECT_THAT(Text(graph, 2, 0), Not(HasSubstr("weft.Variable")));
  }
}

TEST(ByRankTest, StateAndUpdateApartAreAnErrorThatNamesBoth) {
  auto where =
      AssignRanks(UpdateGraph("device(\"w1\")", "device(\"w0/cpu:0\")"), 2);
  ASSERT_TRUE(IsError(where.status(), ErrorCode::kBadGraph));
  for (const char* part : {"'u'", "'v'", "'w1'", "'w0/cpu:0'"}) {
    EXPECT_THAT(std::string(where.status().message()), HasSubstr(part));
  }
}

// What micro-batches elsewhere read comes before them here, too.
TEST(ByRankTest, ValuesOfAStepThatMicroBatchesReadGoFirst) {
  Graph graph = Parse(absl::StrCat(kSource, R"(
  %v = weft.Variable() {dtype: f32, shape: [8]} device("w0")
  %s = Exp(%v) device("w0")
  %b = Mul(%x, %s) device("w1")
  %o = weft.Output(%b) {name: "b"})"));
  EXPECT_THAT(Text(graph, 2, 0, 4), HasSubstr("before: 1"));
  EXPECT_THAT(Text(graph, 2, 0, 4), HasSubstr("rate: \"step\""));
}

TEST(ByRankTest, UnknownAndMalformedRanksAreErrors) {
  for (const char* device : {"w2", "w99999999999", "w1x", "w0/"}) {
    Graph graph =
        Parse(absl::StrCat(kSource, "\n  %a = Neg(%x) device(\"", device,
                           "\")\n  %o = weft.Output(%a) {name: "
                           "\"a\"}"));
    auto where = AssignRanks(graph, 2);
    EXPECT_TRUE(IsError(where.status(), ErrorCode::kDeviceNotFound)) << device;
    EXPECT_THAT(std::string(where.status().message()), HasSubstr(device));
    EXPECT_THAT(std::string(where.status().message()), HasSubstr("'a'"));
  }
  // "wide:0" is a device's name.
  auto device = SplitDevice("wide:0", "a", 2);
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(device->first, -1);
}

}  // namespace
}  // namespace weft
