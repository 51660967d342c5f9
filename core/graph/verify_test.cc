#include "core/graph/verify.h"

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/graph/rates.h"
#include "core/graph/text.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

Graph Parse(absl::string_view body) {
  auto graph = ParseGraph(absl::StrCat("graph \"g\" {\n", body, "}\n"));
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph("bad");
}

void ExpectBad(const Graph& graph, absl::string_view part) {
  absl::Status status = VerifyGraph(graph);
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kBadGraph) << status;
  EXPECT_NE(status.message().find(part), absl::string_view::npos) << status;
}

constexpr char kUpdate[] = R"(
  %x = weft.Input() {dtype: f32, shape: [2]}
  %w = weft.Variable() {dtype: f32, shape: [2]}
)";

TEST(VerifyTest, AcceptsATrainingGraph) {
  EXPECT_EQ(VerifyGraph(Parse(absl::StrCat(kUpdate, R"(
  %y = Mul(%x, %w)
  %g = weft.Accumulate(%y) {count: 4}
  %u = weft.Assign(%w, %g)
  %o = weft.Output(%y) {name: "y"}
)"))),
            absl::OkStatus());
}

TEST(VerifyTest, UpdateOfSomethingElse) {
  ExpectBad(Parse(absl::StrCat(kUpdate, "%u = weft.Assign(%x, %x)")),
            "not a weft.Variable");
}

TEST(VerifyTest, ResultOfAnUpdateIsRead) {
  ExpectBad(Parse(absl::StrCat(kUpdate, R"(
  %u = weft.Assign(%w, %x)
  %y = Relu(%u)
)")),
            "read by 'y'");
}

TEST(VerifyTest, TwoUpdatesOfOneVariable) {
  ExpectBad(Parse(absl::StrCat(kUpdate, R"(
  %u = weft.Assign(%w, %x)
  %v = weft.Assign(%w, %x)
)")),
            "also updated by 'u'");
}

// The sweep over several variables changes one after the other.
TEST(VerifyTest, AnUpdateOfSeveralReadsNoneOfThem) {
  const std::string two = absl::StrCat(kUpdate, R"(
  %v = weft.Variable() {dtype: f32, shape: [2]}
  %r = Reshape(%v) {shape: [2]}
)");
  ExpectBad(Parse(absl::StrCat(two, R"(
  %u = weft.EmaUpdate(%v, %w, %x, %v) {momentum: 0.5} : f32[2], f32[2]
)")),
            "operand 3 is 'v', which it updates");
  ExpectBad(Parse(absl::StrCat(two, R"(
  %u = weft.EmaUpdate(%v, %w, %x, %r) {momentum: 0.5} : f32[2], f32[2]
)")),
            "operand 3 is 'v', which it updates");
  EXPECT_EQ(VerifyGraph(Parse(absl::StrCat(two, R"(
  %u = weft.EmaUpdate(%v, %w, %x, %x) {momentum: 0.5} : f32[2], f32[2]
)"))),
            absl::OkStatus());
}

TEST(VerifyTest, OutputNamesDiffer) {
  ExpectBad(Parse(absl::StrCat(kUpdate, R"(
  %a = weft.Output(%x) {name: "o"}
  %b = weft.Output(%w) {name: "o"}
)")),
            "also given to node 'a'");
}

TEST(VerifyTest, Cycle) {
  Graph g = Parse(absl::StrCat(kUpdate, "%y = Relu(%x)  %z = Neg(%y)"));
  g.AddControlInput(g.FindNode("y")->id(), g.FindNode("z")->id());
  ExpectBad(g, "cycle");
}

TEST(VerifyTest, UpdateFromASingleMicroBatch) {
  ExpectBad(Parse(absl::StrCat(kUpdate, R"(
  %g = weft.Accumulate(%x) {count: 4}
  %u = weft.Assign(%w, %x)
)")),
            "accumulate its operands");
  ExpectBad(Parse(absl::StrCat(kUpdate, R"(
  %g = weft.Accumulate(%w) {count: 4}
)")),
            "made once a step");
}

TEST(VerifyTest, OneMicroBatchIsAStep) {
  EXPECT_EQ(VerifyGraph(Parse(absl::StrCat(kUpdate, R"(
  %g = weft.Accumulate(%x) {count: 1}
  %u = weft.Assign(%w, %x)
)"))),
            absl::OkStatus());
}

TEST(RatesTest, FlowFromSourcesToAccumulate) {
  Graph g = Parse(absl::StrCat(kUpdate, R"(
  %c = weft.Counter() {rate: "step"}
  %y = Mul(%x, %w)
  %a = weft.Accumulate(%y) {count: 4}
  %n = Neg(%a)
  %m = Mul(%n, %x)
)"));
  EXPECT_TRUE(HasAccumulation(g));
  auto rates = InferRates(g);
  ASSERT_TRUE(rates.ok());
  auto rate = [&](const char* name) {
    return (*rates)[g.FindNode(name)->id()];
  };
  for (const char* name : {"w", "c", "a", "n"}) {
    EXPECT_EQ(rate(name), Rate::kStep) << name;
  }
  for (const char* name : {"x", "y", "m"}) {
    EXPECT_EQ(rate(name), Rate::kMicro) << name;
  }
}

}  // namespace
}  // namespace weft
