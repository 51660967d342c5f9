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
                               "\"a:0>1\", dtype: f32, late: 1, peer: 0, rate: "
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

// One says which rank, the other which device of it.
TEST(ByRankTest, PartialSpecificationsOfASetMerge) {
  const std::string there =
      Text(UpdateGraph("device(\"sim:0\")", "device(\"w1\")"), 2, 1);
  EXPECT_THAT(there, HasSubstr("%v = weft.Variable()"));
  EXPECT_THAT(there, HasSubstr("device(\"sim:0\")"));
  EXPECT_THAT(there, HasSubstr("weft.SgdUpdate(%v, "));
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

// Who waits for one node, on one rank, waits for one word.
TEST(ByRankTest, OneWordServesAllWhoWait) {
  Graph graph = Parse(absl::StrCat(kSource, R"(
  %a = Neg(%x) device("w0")
  %b = Exp(%x) control(%a) device("w1")
  %c = Abs(%x) control(%a) device("w1")
  %d = Neg(%x) control(%a) device("w2")
  %o = weft.Output(%b) {name: "b"}
  %p = weft.Output(%c) {name: "c"}
  %q = weft.Output(%d) {name: "d"})"));
  EXPECT_EQ(Count(Text(graph, 3, 0), "a/done"), 2 * 2);  // name and channel
  EXPECT_EQ(Count(Text(graph, 3, 1), "channel: \"a/done:0>1\""), 1);
  EXPECT_EQ(Count(Text(graph, 3, 2), "channel: \"a/done:0>2\""), 1);
}

// Other ranks read a copy of what a variable holds; its update, and who reads
// it on its own rank, have the variable itself.
TEST(ByRankTest, OnlyItsOwnRankHasTheVariable) {
  Graph graph = Parse(absl::StrCat(kSource, R"(
  %v = weft.Variable() {dtype: f32, shape: [8]} device("w0")
  %lr = Constant() {value: tensor(f32[], splat(1))}
  %a = Mul(%x, %v) device("w0")
  %b = Mul(%a, %v) device("w1")
  %c = Add(%b, %v) device("w1")
  %s = weft.Accumulate(%c) {count: 2} device("w1")
  %u = weft.SgdUpdate(%v, %s, %lr))"));
  const std::string here = Text(graph, 2, 0, 2), there = Text(graph, 2, 1, 2);
  EXPECT_EQ(Count(here, "weft.Send(%v)"), 1);
  EXPECT_THAT(here, HasSubstr("Mul(%x, %v)"));
  EXPECT_THAT(here, HasSubstr("weft.SgdUpdate(%v, %s/from_rank_1"));
  EXPECT_THAT(there, Not(HasSubstr("weft.Variable")));
  EXPECT_EQ(Count(there, "channel: \"v:0>1\""), 1);
  // Sent before the micro-batches, not by each.
  EXPECT_THAT(here, HasSubstr("weft.Send(%v) {before: 1, channel: \"v:0>1\", "
                              "peer: 1, rate: \"step\"}"));
}

// Names and reasons of nodes are those of the whole graph; what was added says
// for which node.
TEST(ByRankTest, NamesAndReasonsGoWithTheirNodes) {
  Graph graph = Parse(absl::StrCat(kSource, R"(
  %first = Neg(%x) device("w0")
  %second = Exp(%first) device("w1")
  %o = weft.Output(%second) {name: "b"})"));
  graph.FindNode("second")->provenance.push_back("test: of the user");
  auto where = AssignRanks(graph, 2);
  ASSERT_TRUE(where.ok());
  auto here = GraphOfRank(graph, *where, 0);
  auto there = GraphOfRank(graph, *where, 1);
  ASSERT_TRUE(here.ok() && there.ok());
  EXPECT_NE(here->FindNode("first"), nullptr);
  EXPECT_EQ(here->FindNode("second"), nullptr);
  EXPECT_EQ(there->FindNode("first"), nullptr);
  ASSERT_NE(there->FindNode("second"), nullptr);
  EXPECT_EQ(there->FindNode("second")->provenance[0], "test: of the user");
  const Node* recv = there->FindNode("first/from_rank_0");
  ASSERT_NE(recv, nullptr);
  EXPECT_THAT(recv->provenance[0], HasSubstr("'first' is made on rank 0"));
}

TEST(ByRankTest, AnInputThatNothingFillsIsNamed) {
  Graph graph = Parse(R"(
  %x = weft.Input() {dtype: f32, shape: [8]}
  %a = Neg(%x) device("w1")
  %o = weft.Output(%a) {name: "a"})");
  auto where = AssignRanks(graph, 2);
  ASSERT_TRUE(where.ok()) << where.status();
  const absl::Status status = GraphOfRank(graph, *where, 0).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kBadGraph)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("weft.Input 'x' is not bound to data"));
}

// A node is of the first phase of its rank that is not before what it reads.
TEST(ByRankTest, PhasesOfAPipelineGrowAlongEdges) {
  Graph graph = Parse(absl::StrCat(kSource, R"(
  %a = Neg(%x) device("w0") stage(0)
  %b = Exp(%a) device("w1") stage(1)
  %loss = Abs(%b) device("w1")
  %gb = Neg(%loss) device("w1") stage(2)
  %ga = Mul(%gb, %a) device("w0") stage(3)
  %late = Add(%gb, %a) device("w0")
  %s = weft.Accumulate(%ga) {count: 4} device("w0")
  %o = weft.Output(%s) {name: "s"} device("w0"))"));
  const PipelineSpec spec = {PipelineSchedule::k1F1B, 2, 2, 4};
  auto where = AssignRanks(graph, spec);
  ASSERT_TRUE(where.ok()) << where.status();
  const auto phase = [&](const char* name) {
    return where->phase[graph.FindNode(name)->id()];
  };
  EXPECT_EQ(phase("x"), 0);
  EXPECT_EQ(phase("b"), 1);
  EXPECT_EQ(phase("loss"), 1);
  EXPECT_EQ(phase("gb"), 2);
  EXPECT_EQ(phase("late"), 3);
  EXPECT_EQ(phase("s"), 3);
  EXPECT_EQ(phase("o"), -1);
  // What is sent has the sender's phase, and room for what is under way.
  auto mine = GraphOfRank(graph, *where, 1);
  ASSERT_TRUE(mine.ok()) << mine.status();
  EXPECT_THAT(PrintGraph(*mine), HasSubstr("peer: 0, rate: \"micro\", shape: "
                                           "[8]} : f32[8] stage(0)"));
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
