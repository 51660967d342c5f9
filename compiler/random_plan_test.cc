// Properties of compiled plans, on random graphs: micro-batches and steps,
// updates, control edges, I/O nodes, a host and a private asynchronous device.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/check/happens_before.h"
#include "compiler/compile.h"
#include "compiler/memory/conflicts.h"
#include "compiler/partition/by_rank.h"
#include "compiler/testing/fake_oracle.h"
#include "compiler/testing/job_plans.h"
#include "compiler/testing/symbolic_run.h"
#include "core/base/status_macros.h"
#include "core/graph/rates.h"
#include "core/graph/text.h"
#include "core/plan/actor_spec.h"
#include "core/plan/plan.h"
#include "core/plan/print.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

constexpr int kGraphs = 60;
constexpr int kRankGraphs = 300;
constexpr int kPeriods = 3;

class RandomGraph {
 public:
  RandomGraph(uint64_t seed, int micro_batches)
      : state_(seed * 7919 + 1),
        micro_batches_(micro_batches),
        graph_(absl::StrCat("random", seed)) {}

  Graph Make() {
    for (int i = 0; i < 1 + Below(2); ++i) {
      Node* data = Add("weft.DataSource", {},
                       {{"source", absl::StrCat("data", i)},
                        {"dtypes", std::vector<int64_t>{1, 1}},
                        {"ranks", std::vector<int64_t>{2, 2}},
                        {"dims", std::vector<int64_t>{4, 4, 4, 4}}},
                       2);
      micro_.push_back(data->output(0));
      micro_.push_back(data->output(1));
      if (Below(2) == 0) {
        Node* decode = Add("Neg", {data->output(0)});
        decode->device = kIoDevice;
        micro_.push_back(decode->output(0));
      }
    }
    for (int i = 0; i < 1 + Below(3); ++i) {
      Node* variable =
          Add("weft.Variable", {},
              {{"dtype", DType::kF32}, {"shape", std::vector<int64_t>{4, 4}}});
      if (Below(3) == 0) variable->device = "cpu:0";
      variables_.push_back(variable->output(0));
      step_.push_back(variable->output(0));
    }
    Node* constant =
        Add("Constant", {},
            {{"value", Literal::Splat({DType::kF32, Shape({4, 4})}, 0.5)}});
    step_.push_back(constant->output(0));
    for (int i = 0; i < Below(4); ++i) Compute(step_, &step_);
    std::vector<Value> all = step_;
    all.insert(all.end(), micro_.begin(), micro_.end());
    micro_ = all;  // micro nodes may read everything so far
    for (int i = 0; i < 4 + Below(16); ++i) Compute(micro_, &micro_);
    Finish();
    return std::move(graph_);
  }

 private:
  int Below(int n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state_ >> 33) % static_cast<uint64_t>(n));
  }
  Value Pick(const std::vector<Value>& from) {
    return from[Below(static_cast<int>(from.size()))];
  }

  Node* Add(absl::string_view op, std::vector<Value> inputs, AttrMap attrs = {},
            int num_outputs = -1) {
    auto node = graph_.Add(op, "", inputs, std::move(attrs), num_outputs);
    EXPECT_TRUE(node.ok()) << node.status();
    return *node;
  }

  void Compute(const std::vector<Value>& from, std::vector<Value>* to) {
    static constexpr const char* kUnary[] = {"Neg", "Exp", "Abs", "Identity"};
    static constexpr const char* kBinary[] = {"Add", "Mul", "MatMul"};
    Value a = Pick(from);
    Node* node = Below(2) == 0 ? Add(kUnary[Below(4)], {a})
                               : Add(kBinary[Below(3)], {a, Pick(from)});
    static constexpr const char* kDevices[] = {"", "", "", "cpu", "sim:0"};
    if (!node->Is(OpId::kIdentity)) node->device = kDevices[Below(5)];
    // An earlier computation may have to come first; what acts once a step
    // does not wait here for micro-batches.
    if (Below(6) == 0 && last_ >= 0 && to == last_of_ &&
        (IsMicro(node->output(0)) || !IsMicro({last_, 0}))) {
      graph_.AddControlInput(node->id(), last_);
    }
    if (!node->Is(OpId::kIdentity)) {
      last_ = node->id();
      last_of_ = to;
    }
    to->push_back(node->output(0));
  }

  bool IsMicro(Value v) {
    return (*InferRates(graph_))[v.node] == Rate::kMicro;
  }

  void Finish() {
    std::vector<Value> after;
    Node* counter = Add("weft.Counter", {});
    Node* lr = Add("weft.LearningRate", {counter->output(0)}, {{"base", 0.1}});
    std::vector<Value> variables, gradients;
    for (Value variable : variables_) {
      if (Below(4) == 0) continue;  // only read
      Value gradient = Pick(micro_);
      if (IsMicro(gradient)) {
        gradient =
            Add("weft.Accumulate", {gradient}, {{"count", micro_batches_}})
                ->output(0);
        after.push_back(gradient);
        if (Below(2) == 0) Compute(after, &after);
      }
      // Directly from another variable: two such updates may wait for each
      // other.
      if (graph_.node(gradient)->Is(OpId::kVariable) ||
          graph_.node(gradient)->Is(OpId::kIdentity)) {
        continue;
      }
      variables.push_back(variable);
      gradients.push_back(gradient);
    }
    // All wait for all gradients, or each for its own.
    std::vector<Value> shared = {lr->output(0)};
    if (!gradients.empty() && Below(2) == 0) {
      shared.push_back(Add("weft.GlobalNorm", gradients)->output(0));
    }
    for (size_t i = 0; i < variables.size(); ++i) {
      std::vector<Value> operands = {variables[i], gradients[i]};
      operands.insert(operands.end(), shared.begin(), shared.end());
      Add("weft.SgdUpdate", operands);
    }
    int outputs = 0;
    for (const std::vector<Value>& from : {micro_, after}) {
      if (from.empty()) continue;
      for (int i = 0; i < 2; ++i) {
        Add("weft.Output", {Pick(from)},
            {{"name", absl::StrCat("out", outputs++)}});
      }
    }
    Add("weft.Output", {micro_.back()}, {{"name", "last"}});
  }

  uint64_t state_;
  const int micro_batches_;
  Graph graph_;
  std::vector<Value> micro_, step_, variables_;
  int32_t last_ = -1;
  const std::vector<Value>* last_of_ = nullptr;
};

CompileOptions OptionsFor(uint64_t seed, int micro_batches) {
  CompileOptions options;
  options.devices = {HostDevice(), PrivateDevice("sim:0")};
  if (seed % 3 == 2) options.devices.push_back(PrivateDevice("sim:1"));
  options.default_device = seed % 3 == 0 ? "cpu:0" : "sim:0";
  options.micro_batches = micro_batches;
  options.register_copies = 1 + static_cast<int>(seed % 3);
  options.launch_order_seed = seed % 2 == 0 ? 0 : seed;
  options.max_chain_ops = seed % 5 == 0 ? 2 : 128;
  return options;
}

// The private devices run some ops, with scratch of their own, in place where
// that is possible; the rest falls back to the host.
void Teach(FakeOracle* oracle) {
  for (uint32_t device : {1u, 2u}) {
    for (OpId op : {OpId::kNeg, OpId::kExp, OpId::kAdd, OpId::kSgdUpdate}) {
      oracle->Allow(device, op);
    }
  }
  oracle->Answer(OpId::kNeg).in_place = 1;
  oracle->Answer(OpId::kAdd).in_place = 3;
  oracle->Answer(OpId::kMatMul).workspace_bytes = 192;
  oracle->Answer(OpId::kExp).workspace_bytes = 100;
}

// What the memory planner asks at once is what it would be told pair by pair.
// Returns the pairs in conflict.
int ExpectExactConflicts(const plan::Plan& plan) {
  auto view = plan::PlanView::Create(&plan);
  auto spec = plan::PlanToActorSpec(*view);
  auto hb = check::HappensBefore::Create(
      *spec, check::HappensBefore::PeriodsFor(*spec));
  EXPECT_TRUE(hb.ok()) << hb.status();
  check::LiveRanges live(*spec, *hb);
  std::vector<uint32_t> registers, copies;
  for (uint32_t r = 0; r < view->num_registers(); ++r) {
    if (view->reg(r).alias_of() != 0 || view->reg(r).copies() > 1) continue;
    registers.push_back(r);
    copies.push_back(1);
  }
  const RegisterConflicts found = FindConflicts(live, *hb, registers, copies);
  int conflicts = 0;
  for (int i = 0; i < found.matrix.size(); ++i) {
    for (int j = 0; j < found.matrix.size(); ++j) {
      if (i == j) continue;
      const uint32_t a = found.registers[i], b = found.registers[j];
      EXPECT_EQ(found.matrix.Has(i, j), !live.NeverTogether(a, b))
          << view->RegisterName(a) << " " << view->RegisterName(b);
      conflicts += found.matrix.Has(i, j) ? 1 : 0;
    }
  }
  return conflicts;
}

TEST(RandomPlanTest, PlansComputeWhatTheirGraphsSay) {
  int copies = 0, scratch = 0, updates = 0, groups = 0, conflicts = 0;
  for (uint64_t seed = 1; seed <= kGraphs; ++seed) {
    const int micro_batches = 1 + static_cast<int>(seed % 4);
    Graph graph = RandomGraph(seed, micro_batches).Make();
    FakeOracle oracle;
    Teach(&oracle);
    auto plan = Compile(graph, OptionsFor(seed, micro_batches), oracle);
    ASSERT_TRUE(plan.ok()) << plan.status() << "\n" << PrintGraph(graph);
    conflicts += ExpectExactConflicts(*plan);
    auto wanted = EvaluateGraph(graph, micro_batches, kPeriods);
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    for (uint64_t schedule = 1; schedule <= 3; ++schedule) {
      auto got = RunPlan(*plan, kPeriods, schedule);
      ASSERT_TRUE(got.ok()) << got.status() << "\n" << PrintGraph(graph);
      for (const auto& [name, symbols] : *wanted) {
        // State that only other programs use is not in the plan.
        if (got->count(name) == 0 && name.rfind("state/", 0) == 0) continue;
        ASSERT_EQ((*got)[name], symbols)
            << name << " of " << PrintGraph(graph) << plan::PrintPlan(*plan);
      }
    }
    for (const plan::Task& task : plan->tasks()) {
      copies += task.kind() == plan::Task::COPY ? 1 : 0;
      for (const plan::Op& op : task.ops()) {
        if (op.outputs_size() == 0) continue;
        scratch += op.outputs(0).where() == plan::Operand::SCRATCH ? 1 : 0;
        const bool in_place = op.outputs(0).where() == plan::Operand::INPUT;
        updates += in_place ? 1 : 0;
        groups += in_place && op.outputs_size() > 1 ? 1 : 0;
      }
    }
  }
  // The graphs are not all trivial.
  EXPECT_GT(copies, kGraphs);
  EXPECT_GT(conflicts, kGraphs);
  EXPECT_GT(scratch, kGraphs);
  EXPECT_GT(updates, kGraphs / 4);
  EXPECT_GT(groups, kGraphs / 8);
}

TEST(RandomPlanTest, EqualInputsGiveEqualPlans) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    std::string bytes[2];
    for (std::string& b : bytes) {
      FakeOracle oracle;
      Teach(&oracle);
      auto plan =
          Compile(RandomGraph(seed, 2).Make(), OptionsFor(seed, 2), oracle);
      ASSERT_TRUE(plan.ok()) << plan.status();
      b = plan->SerializeAsString();
    }
    EXPECT_EQ(bytes[0], bytes[1]) << seed;
  }
}

// Any rank for anything: the ranks together compute what the whole does, and
// the whole job is proved.
class RankTest : public ::testing::TestWithParam<int> {};

// What may lie anywhere gets a rank, or none; state and updates agree.
void Scatter(uint64_t seed, int ranks, Graph* graph) {
  uint64_t state = seed;
  for (Node* node : graph->Nodes()) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const int rank = static_cast<int>((state >> 33) % (ranks + 1));
    if (rank == ranks || node->num_updated() > 0 || node->Is(OpId::kConstant)) {
      continue;
    }
    node->device =
        absl::StrCat("w", rank, node->device.empty() ? "" : "/", node->device);
  }
}

absl::StatusOr<JobPlans> CompileRanks(const Graph& graph,
                                      const CompileOptions& options, int ranks,
                                      CapabilityOracle& oracle) {
  WEFT_ASSIGN_OR_RETURN(RankAssignment where,
                        AssignRanks(graph, ranks, options.micro_batches));
  return CompileJob(graph, options, where, oracle);
}

TEST_P(RankTest, RanksTogetherComputeWhatTheWholeDoes) {
  int sends = 0, words = 0;
  for (uint64_t seed = 1; seed <= kRankGraphs; ++seed) {
    const int micro_batches = 1 + static_cast<int>(seed % 4);
    Graph graph = RandomGraph(seed, micro_batches).Make();
    auto wanted = EvaluateGraph(graph, micro_batches, kPeriods);
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    Scatter(seed, GetParam(), &graph);
    FakeOracle oracle;
    Teach(&oracle);
    auto job = CompileRanks(graph, OptionsFor(seed, micro_batches), GetParam(),
                            oracle);
    ASSERT_TRUE(job.ok()) << job.status() << "\n"
                          << seed << ": " << PrintGraph(graph);
    for (uint64_t schedule = 1; schedule <= 2; ++schedule) {
      auto got = RunPlan(job->joined, kPeriods, schedule);
      ASSERT_TRUE(got.ok()) << got.status() << "\n" << PrintGraph(graph);
      for (const auto& [name, symbols] : *wanted) {
        if (got->count(name) == 0 && name.rfind("state/", 0) == 0) continue;
        ASSERT_EQ((*got)[name], symbols) << name << " of " << PrintGraph(graph)
                                         << plan::PrintPlan(job->joined);
      }
    }
    for (const plan::Plan& plan : job->plans) {
      ExpectExactConflicts(plan);
      for (const plan::Channel& channel : plan.channels()) {
        (channel.tensor().dtype() == 0 ? words : sends) += 1;
      }
    }
  }
  EXPECT_GT(sends, kRankGraphs);
  EXPECT_GT(words, kRankGraphs / 8);
}

// The parts of a node that a device takes apart are where it was: at the end,
// 'n4' would come before them and wait for what waits for them.
TEST(RankOrderTest, PartsOfANodeKeepItsPlace) {
  auto graph = ParseGraph(R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [2], dims: [4, 4]}
    %n1 = Softmax(%x) device("w0")
    %n2 = Neg(%n1) device("w1")
    %n3 = Neg(%x) device("w1")
    %n4 = Exp(%n3) device("w0")
    %o2 = weft.Output(%n2) {name: "n2"}
    %o4 = weft.Output(%n4) {name: "n4"}
  })");
  ASSERT_TRUE(graph.ok()) << graph.status();
  FakeOracle oracle;
  oracle.Deny(OpId::kSoftmax);
  CompileOptions options;
  options.devices = {HostDevice()};
  auto job = CompileRanks(*graph, options, 2, oracle);
  EXPECT_TRUE(job.ok()) << job.status();
}

INSTANTIATE_TEST_SUITE_P(Ranks, RankTest, ::testing::Values(2, 3, 5));

// The runner must see a wrong plan: scratch of a chain moved onto other
// scratch.
TEST(RandomPlanTest, TheSymbolicRunSeesOverlappingMemory) {
  auto graph = ParseGraph(R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [1], dims: [8]}
    %a = Neg(%x)
    %b = Exp(%x)
    %c = Add(%a, %b)
    %o = weft.Output(%c) {name: "c"}
  })");
  ASSERT_TRUE(graph.ok()) << graph.status();
  CompileOptions options;
  options.devices = {HostDevice()};
  FakeOracle oracle;
  auto plan = Compile(*graph, options, oracle);
  ASSERT_TRUE(plan.ok()) << plan.status();
  auto wanted = EvaluateGraph(*graph, 1, 1);
  auto right = RunPlan(*plan, 1, 1);
  ASSERT_TRUE(wanted.ok() && right.ok());
  EXPECT_EQ(*right, *wanted);
  for (plan::Task& task : *plan->mutable_tasks()) {
    if (task.ops_size() != 3) continue;
    for (plan::Op& op : *task.mutable_ops()) {
      for (plan::Operand& o : *op.mutable_inputs()) o.set_offset(0);
      for (plan::Operand& o : *op.mutable_outputs()) o.set_offset(0);
    }
  }
  auto wrong = RunPlan(*plan, 1, 1);
  ASSERT_TRUE(wrong.ok()) << wrong.status();
  EXPECT_NE(*wrong, *wanted);
}

}  // namespace
}  // namespace weft
