// Collectives whose values are read where they lie: the plans of all ranks are
// proved as one, and give what plans give that send every value, under any
// timing.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/check/check.h"
#include "compiler/collectives/testing.h"
#include "compiler/testing/fake_oracle.h"
#include "compiler/testing/job_plans.h"
#include "compiler/testing/symbolic_run.h"
#include "core/base/error.h"
#include "core/ops/expr.h"
#include "core/ops/system_attrs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Algorithm = CollectiveAlgorithm;
using Kind = CollectiveKind;

constexpr int kMicroBatches = 3;
constexpr int kPeriods = 3;

// How often the operand is made, and the collective done.
enum class Rate { kStep, kMicro, kStepInMicro };

// x * 2 + 1, through the collective, times 0.25.
Graph MakeRank(const Collective& c, const TensorType& type, Rate rate,
               bool also_read) {
  Graph graph(absl::StrCat("rank", c.rank));
  const bool micro = rate == Rate::kMicro;
  auto x =
      micro ? graph.Add("weft.DataSource", "x", {},
                        DataSourceAttrs(absl::StrCat("x", c.rank), {type}), 1)
            : graph.Add("weft.Variable", absl::StrCat("x", c.rank), {},
                        VariableAttrs(type, VariableInit::Zeros()));
  EXPECT_TRUE(x.ok()) << x.status();
  GraphEmitter emit(&graph, "t", "test");
  const Expr y = Expr(emit, (*x)->output(0)) * 2.0 + 1.0;
  const bool gives = c.kind != Kind::kBroadcast && c.kind != Kind::kScatter;
  const bool root = c.ranks[c.root] == c.rank;
  auto result =
      AddCollective(&graph, c, gives || root ? Value(y) : Value(), type);
  EXPECT_TRUE(result.ok()) << result.status();
  Expr z = y;
  if (result->valid()) z = Expr(emit, *result) * 0.25;
  if (also_read) z = z + y * 0.5;
  emit.Emit("weft.Output", {z}, {{"name", absl::StrCat("y", c.rank)}}, 0);
  EXPECT_TRUE(emit.status().ok()) << emit.status();
  return graph;
}

struct Case {
  Kind kind;
  int ranks;
  Rate rate;
  int64_t elements = 0;    // of the operand; 0: 6 for each rank
  bool also_read = false;  // the operand has another reader
};

std::vector<Graph> MakeGraphs(const Case& at, Algorithm algorithm,
                              int64_t mapped_bytes) {
  Collective c;
  c.kind = at.kind;
  c.algorithm = algorithm;
  c.name = "sum";
  c.rate = at.rate == Rate::kStep ? "step" : "micro";
  c.root = at.ranks / 2;
  c.topology.mapped_bytes = mapped_bytes;
  for (int p = 0; p < at.ranks; ++p) c.ranks.push_back(p);
  std::vector<Graph> graphs;
  for (c.rank = 0; c.rank < at.ranks; ++c.rank) {
    const int64_t elements = at.elements == 0 ? at.ranks * 6 : at.elements;
    graphs.push_back(
        MakeRank(c, {DType::kF32, {elements}}, at.rate, at.also_read));
  }
  return graphs;
}

JobPlans MustCompile(const Case& at, const std::vector<Graph>& graphs) {
  CompileOptions options;
  options.devices = {HostDevice()};
  options.micro_batches = at.rate == Rate::kStep ? 1 : kMicroBatches;
  FakeOracle oracle;
  auto job = CompileGraphs(graphs, options, oracle);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? *std::move(job) : JobPlans();
}

JobPlans MustCompile(const Case& at, Algorithm algorithm,
                     int64_t mapped_bytes) {
  return MustCompile(at, MakeGraphs(at, algorithm, mapped_bytes));
}

// The same nodes, but every value is sent.
std::vector<Graph> Sent(std::vector<Graph> graphs) {
  for (Graph& graph : graphs) {
    for (const Node* node : std::as_const(graph).Nodes()) {
      if (!node->Is(OpId::kSend) && !node->Is(OpId::kRecv)) continue;
      EXPECT_TRUE(graph.SetAttr(node->id(), "mapped", 0).ok());
      EXPECT_TRUE(graph.SetAttr(node->id(), "lent", 0).ok());
      EXPECT_TRUE(graph.SetAttr(node->id(), "lands", "").ok());
    }
  }
  return graphs;
}

int Mapped(const plan::Plan& plan) {
  int mapped = 0;
  for (const plan::Channel& channel : plan.channels()) {
    mapped += channel.read() != 0;
  }
  return mapped;
}

class MappedTest : public testing::TestWithParam<Kind> {};

TEST_P(MappedTest, GivesWhatSendingGives) {
  for (int ranks : {2, 3, 4}) {
    for (Rate rate : {Rate::kStep, Rate::kMicro, Rate::kStepInMicro}) {
      const Case at = {GetParam(), ranks, rate};
      for (Algorithm algorithm :
           AlgorithmsFor(at.kind, CollectiveGroup{ranks, ranks / 2, {}})) {
        SCOPED_TRACE(absl::StrCat(Name(algorithm), " of ", ranks, ", rate ",
                                  static_cast<int>(rate)));
        const JobPlans sent = MustCompile(at, algorithm, 0);
        const JobPlans mapped = MustCompile(at, algorithm, 1);
        ASSERT_FALSE(mapped.plans.empty());
        EXPECT_EQ(Mapped(sent.plans[0]), 0);
        EXPECT_EQ(Mapped(mapped.plans[0]), sent.plans[0].channels_size());
        const auto expected = RunPlan(sent.joined, kPeriods, 1);
        ASSERT_TRUE(expected.ok()) << expected.status();
        for (uint64_t seed = 1; seed <= 12; ++seed) {
          const auto got = RunPlan(mapped.joined, kPeriods, seed);
          ASSERT_TRUE(got.ok()) << got.status();
          ASSERT_EQ(*got, *expected) << seed;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, MappedTest,
                         testing::Values(Kind::kAllReduce, Kind::kReduceScatter,
                                         Kind::kAllGather, Kind::kBroadcast,
                                         Kind::kReduce, Kind::kGather,
                                         Kind::kScatter, Kind::kAllToAll),
                         [](const testing::TestParamInfo<Kind>& info) {
                           std::string name(Name(info.param));
                           for (char& ch : name) ch = ch == '-' ? '_' : ch;
                           return name;
                         });

// Of so many ranks, large enough to be done in place.
Case InPlaceCase(int ranks, Rate rate, bool also_read = false) {
  return {Kind::kAllReduce, ranks, rate, 20 * ranks * ranks + 1, also_read};
}

// Whether the result, which one Concat gives, lies where the operand did.
bool IsInPlace(const plan::Plan& plan) {
  for (const plan::Task& task : plan.tasks()) {
    for (const plan::Op& op : task.ops()) {
      if (plan.kernels(static_cast<int>(op.kernel())).op() !=
          static_cast<uint32_t>(OpId::kConcat)) {
        continue;
      }
      return plan.registers(static_cast<int>(task.outputs(0).register_()))
                 .alias_of() != 0;
    }
  }
  return false;
}

TEST(InPlaceTest, GivesWhatSendingGives) {
  for (int ranks : {2, 3, 4}) {
    for (Rate rate : {Rate::kStep, Rate::kMicro, Rate::kStepInMicro}) {
      for (bool also_read : {false, true}) {
        SCOPED_TRACE(absl::StrCat(ranks, " ranks, rate ",
                                  static_cast<int>(rate), " ", also_read));
        const Case at = InPlaceCase(ranks, rate, also_read);
        const JobPlans sent =
            MustCompile(at, Sent(MakeGraphs(at, Algorithm::kThreeStage, 1)));
        const JobPlans mapped = MustCompile(at, Algorithm::kThreeStage, 1);
        ASSERT_FALSE(mapped.plans.empty());
        // Each lends and is lent a block by each other one.
        EXPECT_EQ(Mapped(mapped.plans[0]), 2 * (ranks - 1));
        EXPECT_EQ(mapped.plans[0].channels_size(),
                  sent.plans[0].channels_size());
        // Where nobody else reads the operand nothing is copied.
        const bool in_place = !also_read && rate != Rate::kStepInMicro;
        EXPECT_EQ(IsInPlace(mapped.plans[0]), in_place);
        const auto expected = RunPlan(sent.joined, kPeriods, 1);
        ASSERT_TRUE(expected.ok()) << expected.status();
        for (uint64_t seed = 1; seed <= 12; ++seed) {
          const auto got = RunPlan(mapped.joined, kPeriods, seed);
          ASSERT_TRUE(got.ok()) << got.status();
          ASSERT_EQ(*got, *expected) << seed;
        }
      }
    }
  }
}

// Two ranks, all-reduce, direct: rank 0's plan.
plan::Plan PlanOfSum() {
  return MustCompile({Kind::kAllReduce, 2, Rate::kStep}, Algorithm::kDirect, 1)
      .plans[0];
}

int FindTask(const plan::Plan& plan, plan::Task::Kind kind, bool mapped) {
  for (int t = 0; t < plan.tasks_size(); ++t) {
    const plan::Task& task = plan.tasks(t);
    if (task.kind() != kind) continue;
    const bool is = plan.channels(task.channel() - 1).read() != 0;
    if (is == mapped) return t;
  }
  ADD_FAILURE() << "no such task";
  return 0;
}

TEST(MappedPlanTest, WhatIsSharedAndWhatIsThere) {
  const plan::Plan plan = PlanOfSum();
  const plan::Task& send = plan.tasks(FindTask(plan, plan::Task::SEND, true));
  const plan::Register& offered = plan.registers(send.inputs(0).register_());
  EXPECT_EQ(plan.arenas(offered.arena()).kind(), plan::Arena::SHARED);
  EXPECT_EQ(plan.arenas(offered.arena()).bytes(), offered.bytes());
  const plan::Task& recv = plan.tasks(FindTask(plan, plan::Task::RECV, true));
  const plan::Register& there = plan.registers(recv.outputs(0).register_());
  EXPECT_EQ(plan.arenas(there.arena()).kind(), plan::Arena::PEER);
  EXPECT_EQ(plan.arenas(there.arena()).bytes(), 0u);
}

// The SEND that says "read" waits for nobody.
TEST(MappedPlanTest, ReadBeforeItsReadersIsRefuted) {
  plan::Plan plan = PlanOfSum();
  plan::Task* said =
      plan.mutable_tasks(FindTask(plan, plan::Task::SEND, false));
  const plan::Task& recv = plan.tasks(FindTask(plan, plan::Task::RECV, true));
  // Of what it waits for, only RECV itself.
  for (int i = said->inputs_size() - 1; i >= 0; --i) {
    const uint32_t r = said->inputs(i).register_();
    bool of_recv = false;
    for (const plan::OutputPort& out : recv.outputs()) {
      of_recv |= out.register_() == r;
    }
    if (of_recv) continue;
    for (plan::Task& task : *plan.mutable_tasks()) {
      for (int o = task.outputs_size() - 1; o >= 0; --o) {
        if (task.outputs(o).register_() == r) {
          plan.mutable_registers(r)->set_acks_per_copy(0);
        }
      }
    }
    said->mutable_inputs()->DeleteSubrange(i, 1);
  }
  const absl::Status status = check::CheckPlan(plan);
  EXPECT_TRUE(IsError(status, ErrorCode::kPlanRefuted)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("that it has been read"));
}

// Nothing holds what a peer reads.
TEST(MappedPlanTest, AValueThatNobodyHoldsIsRefused) {
  plan::Plan plan = PlanOfSum();
  const uint32_t offered =
      plan.tasks(FindTask(plan, plan::Task::SEND, true)).inputs(0).register_();
  plan::Task* holds =
      plan.mutable_tasks(FindTask(plan, plan::Task::RECV, false));
  for (int i = holds->inputs_size() - 1; i >= 0; --i) {
    if (holds->inputs(i).register_() == offered) {
      holds->mutable_inputs()->DeleteSubrange(i, 1);
    }
  }
  plan.mutable_registers(offered)->set_acks_per_copy(
      plan.registers(offered).acks_per_copy() - 1);
  const absl::Status status = check::CheckPlan(plan);
  EXPECT_TRUE(IsError(status, ErrorCode::kBadPlan)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("until it has been read"));
}

// What holds it lets go at another act than SEND.
TEST(MappedPlanTest, AValueThatIsHeldTooShortIsRefused) {
  plan::Plan plan = MustCompile({Kind::kAllReduce, 2, Rate::kStepInMicro},
                                Algorithm::kDirect, 1)
                        .plans[0];
  ASSERT_TRUE(check::CheckPlan(plan).ok());
  const uint32_t offered =
      plan.tasks(FindTask(plan, plan::Task::SEND, true)).inputs(0).register_();
  plan::Task* holds =
      plan.mutable_tasks(FindTask(plan, plan::Task::RECV, false));
  for (plan::InputPort& in : *holds->mutable_inputs()) {
    if (in.register_() != offered) continue;
    ASSERT_EQ(in.pattern().acts().size(), kMicroBatches);
    in.mutable_pattern()->set_acts(std::string("\3\0\0", 3));
  }
  const absl::Status status = check::CheckPlan(plan);
  EXPECT_TRUE(IsError(status, ErrorCode::kBadPlan)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("until it has been read"));
}

// ---- What is lent

plan::Plan PlanInPlace() {
  return MustCompile(InPlaceCase(2, Rate::kStep), Algorithm::kThreeStage, 1)
      .plans[0];
}

plan::Task* FindLanding(plan::Plan* plan, plan::Task::Kind kind) {
  for (plan::Task& task : *plan->mutable_tasks()) {
    if (task.kind() == kind && plan->channels(task.channel() - 1).lands()) {
      return &task;
    }
  }
  ADD_FAILURE() << "nothing lands";
  return plan->mutable_tasks(0);
}

void ExpectRefused(const plan::Plan& plan, ErrorCode code,
                   absl::string_view what) {
  const absl::Status status = check::CheckPlan(plan);
  EXPECT_TRUE(IsError(status, code)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr(std::string(what)));
}

TEST(InPlacePlanTest, PeersWriteWhereTheyAreLent) {
  plan::Plan plan = PlanInPlace();
  ASSERT_TRUE(check::CheckPlan(plan).ok());
  const plan::Task& recv = *FindLanding(&plan, plan::Task::RECV);
  const plan::Register& landed = plan.registers(recv.outputs(0).register_());
  const plan::Register& lent = plan.registers(landed.alias_of() - 1);
  EXPECT_EQ(plan.arenas(lent.arena()).kind(), plan::Arena::SHARED);
  const plan::Task& send = *FindLanding(&plan, plan::Task::SEND);
  const plan::Register& made = plan.registers(send.inputs(0).register_());
  EXPECT_TRUE(plan.registers(made.alias_of() - 1).lent());
}

// This rank still reads the block that its owner writes.
TEST(InPlacePlanTest, AReaderOfWhatIsLentIsRefuted) {
  plan::Plan plan = PlanInPlace();
  const plan::Task& recv = *FindLanding(&plan, plan::Task::RECV);
  const uint32_t lent =
      plan.registers(recv.outputs(0).register_()).alias_of() - 1;
  uint32_t root = lent;
  while (plan.registers(root).alias_of() != 0) {
    root = plan.registers(root).alias_of() - 1;
  }
  plan::Register* whole = plan.mutable_registers(root);
  whole->set_acks_per_copy(whole->acks_per_copy() + 1);
  for (plan::Task& task : *plan.mutable_tasks()) {
    if (task.ops_size() == 0 || plan.kernels(task.ops(0).kernel()).op() !=
                                    static_cast<uint32_t>(OpId::kReduceToAll)) {
      continue;
    }
    task.add_inputs()->set_register_(lent);
  }
  ExpectRefused(plan, ErrorCode::kPlanRefuted, "finish reading that before");
}

// Nothing makes the SEND that lends come before what overwrites the whole.
TEST(InPlacePlanTest, AWriterBeforeTheLoanIsRefuted) {
  plan::Plan plan = PlanInPlace();
  std::set<uint32_t> edges;  // from SENDs
  for (const plan::Task& task : plan.tasks()) {
    if (task.kind() != plan::Task::SEND) continue;
    for (const plan::OutputPort& out : task.outputs()) {
      edges.insert(out.register_());
    }
  }
  ASSERT_FALSE(edges.empty());
  for (plan::Task& task : *plan.mutable_tasks()) {
    for (int i = task.inputs_size() - 1; i >= 0; --i) {
      if (edges.count(task.inputs(i).register_()) == 0) continue;
      task.mutable_inputs()->DeleteSubrange(i, 1);
    }
  }
  for (uint32_t r : edges) plan.mutable_registers(r)->set_acks_per_copy(0);
  ExpectRefused(plan, ErrorCode::kPlanRefuted, "finish reading that before");
}

TEST(InPlacePlanTest, OnlyWhatIsLentIsWritten) {
  plan::Plan plan = PlanInPlace();
  for (plan::Register& reg : *plan.mutable_registers()) reg.set_lent(false);
  ExpectRefused(plan, ErrorCode::kBadPlan, "is not what lies at its peer");
  plan = PlanInPlace();
  for (plan::Channel& channel : *plan.mutable_channels()) {
    channel.set_lands(false);
  }
  ExpectRefused(plan, ErrorCode::kBadPlan, "cannot say that");
  plan = PlanInPlace();
  for (plan::Channel& channel : *plan.mutable_channels()) channel.set_read(0);
  ExpectRefused(plan, ErrorCode::kBadPlan, "that nobody lends");
}

// Says that something else has landed.
TEST(InPlacePlanTest, WhatLandsLiesInWhatWasLent) {
  plan::Plan plan = PlanInPlace();
  const plan::Task& recv = *FindLanding(&plan, plan::Task::RECV);
  plan::Task* send = FindLanding(&plan, plan::Task::SEND);
  const uint32_t other =
      plan.registers(recv.outputs(0).register_()).alias_of() - 1;
  send->mutable_inputs(0)->set_register_(other);
  ExpectRefused(plan, ErrorCode::kBadPlan, "does not lie in what was lent");
}

// Ranks that do not agree whether a value is sent.
TEST(MappedPlanTest, OneRankThatSendsIsRefused) {
  const Case at = {Kind::kAllReduce, 2, Rate::kStep};
  std::vector<Graph> graphs = MakeGraphs(at, Algorithm::kDirect, 1);
  graphs[1] = std::move(MakeGraphs(at, Algorithm::kDirect, 0)[1]);
  CompileOptions options;
  options.devices = {HostDevice()};
  FakeOracle oracle;
  const auto job = CompileGraphs(graphs, options, oracle);
  EXPECT_TRUE(IsError(job.status(), ErrorCode::kPlansDiffer)) << job.status();
  EXPECT_THAT(std::string(job.status().message()),
              testing::HasSubstr("direct.0-1.mapped1"));
}

}  // namespace
}  // namespace weft
