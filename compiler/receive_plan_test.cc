// When receives are posted: late enough that one memory serves many of them,
// early enough that nobody waits in a circle.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "compiler/partition/by_rank.h"
#include "compiler/testing/fake_oracle.h"
#include "compiler/testing/job_plans.h"
#include "compiler/testing/symbolic_run.h"
#include "core/graph/text.h"
#include "core/plan/print.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kElements = 4096;
constexpr uint64_t kBytes = 4 * kElements;

// Rank 1 makes `values` values, of each of which rank 0 makes a small one.
Graph Make(int values) {
  std::string body = absl::StrCat(
      "graph \"g\" {\n  %x = weft.DataSource() {source: \"x\", dtypes: [1], "
      "ranks: [1], dims: [",
      kElements, "]}\n");
  for (int i = 0; i < values; ++i) {
    absl::StrAppend(&body, "  %a", i, " = Neg(%", i == 0 ? "x" : "a",
                    i == 0 ? "" : absl::StrCat(i - 1), ") device(\"w1\")\n");
    absl::StrAppend(&body, "  %b", i, " = ReduceSum(%a", i,
                    ") {keepdims: 0} device(\"w0\")\n");
    absl::StrAppend(&body, "  %o", i, " = weft.Output(%b", i, ") {name: \"b", i,
                    "\"} device(\"w0\")\n");
  }
  auto graph = ParseGraph(body + "}");
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

absl::StatusOr<JobPlans> Compiled(const Graph& graph, int micro_batches) {
  auto where = AssignRanks(graph, 2, micro_batches);
  if (!where.ok()) return where.status();
  FakeOracle oracle;
  CompileOptions options;
  options.devices = {HostDevice()};
  return CompileJob(graph, options, *where, oracle);
}

uint64_t ActivationBytes(const plan::Plan& plan) {
  uint64_t bytes = 0;
  for (const plan::Arena& arena : plan.arenas()) {
    if (arena.kind() == plan::Arena::ACTIVATIONS) bytes += arena.bytes();
  }
  return bytes;
}

TEST(ReceivePlanTest, ReceivesTakeMemoryInTurn) {
  for (int values : {4, 16, 64}) {
    SCOPED_TRACE(values);
    const Graph graph = Make(values);
    auto job = Compiled(graph, 1);
    ASSERT_TRUE(job.ok()) << job.status();
    // The value that is read, and those on their way for the chains after it.
    EXPECT_LE(ActivationBytes(job->plans[0]), 4 * kBytes);
    auto wanted = EvaluateGraph(graph, 1, 3);
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      auto got = RunPlan(job->joined, 3, seed);
      ASSERT_TRUE(got.ok()) << got.status();
      for (const auto& [name, symbols] : *wanted) {
        EXPECT_EQ((*got)[name], symbols) << name;
      }
    }
  }
}

TEST(ReceivePlanTest, ThePlanSaysWhenTheyArePosted) {
  auto job = Compiled(Make(4), 1);
  ASSERT_TRUE(job.ok()) << job.status();
  const std::string text = plan::PrintPlan(job->plans[0]);
  EXPECT_THAT(text, HasSubstr("# order: posted when it is soon needed, after "
                              "'"));
}

// In collectives SENDs wait for each other. What is after the micro-batches is
// so everywhere.
TEST(ReceivePlanTest, OtherReceivesWaitForTheMicroBatches) {
  auto graph = ParseGraph(R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [1], dims: [64]}
    %a = Neg(%x)
    %s = weft.Accumulate(%a) {count: 2}
    %r = weft.Recv() {channel: "c", dtype: f32, peer: 1, rate: "step",
                      shape: [64]}
    %b = Add(%s, %r)
    %t = weft.Send(%s) {channel: "d", peer: 1, rate: "step"}
    %o = weft.Output(%b) {name: "b"}
  })");
  ASSERT_TRUE(graph.ok()) << graph.status();
  FakeOracle oracle;
  CompileOptions options;
  options.devices = {HostDevice()};
  options.micro_batches = 2;
  options.ranks = 2;
  auto plan = Compile(*graph, options, oracle);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan::PrintPlan(*plan),
              HasSubstr("# order: posted when it is soon needed, after 's'"));
  options.micro_batches = 1;
  ASSERT_TRUE(graph->SetAttr(graph->FindNode("s")->id(), "count", 1).ok());
  plan = Compile(*graph, options, oracle);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan::PrintPlan(*plan),
              Not(HasSubstr("posted when it is soon needed")));
}

// Registers of several copies share their memory with nobody: nothing to gain.
TEST(ReceivePlanTest, WhatComesForEachMicroBatchIsPostedAtOnce) {
  auto job = Compiled(Make(4), 3);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(plan::PrintPlan(job->plans[0]),
              Not(HasSubstr("posted when it is soon needed")));
}

}  // namespace
}  // namespace weft
