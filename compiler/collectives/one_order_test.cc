// Ranks make their collectives in one order, whatever each has to do besides.
#include <string>
#include <vector>

#include "compiler/collectives/collective.h"
#include "compiler/testing/fake_oracle.h"
#include "compiler/testing/job_plans.h"
#include "core/graph/graph.h"
#include "core/ops/system_attrs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

constexpr int kRanks = 2;
const TensorType kType = {DType::kF32, {64}};

Value Sum(const std::string& name, int rank, Value operand, Graph* graph) {
  Collective c;
  c.algorithm = CollectiveAlgorithm::kDirect;
  for (int r = 0; r < kRanks; ++r) c.ranks.push_back(r);
  c.rank = rank;
  c.name = name;
  return AddCollective(graph, c, operand, kType).value();
}

// The sums of -x, and of |x|, which does not wait for the first one. What
// `late` ranks sum first, a pass has made last: it is late among the ready.
Graph TwoSums(int rank, bool late) {
  Graph graph("g");
  const auto add = [&graph](const char* op, const char* name,
                            std::vector<Value> operands) {
    return graph.Add(op, name, operands).value()->output(0);
  };
  const Value x =
      graph.Add("weft.DataSource", "x", {}, DataSourceAttrs("x", {kType}))
          .value()
          ->output(0);
  const Value first = add("Neg", "first", {x});
  const Value sum = Sum("a", rank, first, &graph);
  const Value of_sum = add("Exp", "of_sum", {sum});
  const Value second = add("Abs", "second", {x});
  const Value other = add("Exp", "of_other", {Sum("b", rank, second, &graph)});
  const Value both = add("Add", "both", {of_sum, other});
  EXPECT_TRUE(graph.Add("weft.Output", "", {both}, {{"name", "y"}}).ok());
  if (late) {
    const Value again = add("Neg", "again", {x});
    EXPECT_TRUE(graph.ReplaceUses(first, again).ok());
    EXPECT_TRUE(graph.Remove(first.node).ok());
  }
  return graph;
}

TEST(OneOrderTest, APassThatFindsMoreOnOneRankChangesNoOrder) {
  for (int late = -1; late < kRanks; ++late) {
    std::vector<Graph> graphs;
    for (int r = 0; r < kRanks; ++r) graphs.push_back(TwoSums(r, r == late));
    CompileOptions options;
    options.devices = {HostDevice()};
    FakeOracle oracle;
    const auto job = CompileGraphs(graphs, options, oracle);
    EXPECT_TRUE(job.ok()) << "rank " << late << ": " << job.status();
  }
}

}  // namespace
}  // namespace weft
