// Collectives whose values are read where they lie: the plans of all ranks are
// proved as one, and give what plans give that send every value, under any
// timing.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/check/check.h"
#include "compiler/collectives/mapped_testing.h"
#include "compiler/memory/registers.h"
#include "compiler/testing/fake_oracle.h"
#include "core/base/error.h"
#include "core/ops/expr.h"
#include "core/ops/system_attrs.h"
#include "core/plan/print.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Algorithm = CollectiveAlgorithm;
using Kind = CollectiveKind;

class MappedTest : public testing::TestWithParam<Kind> {};

TEST_P(MappedTest, GivesWhatSendingGives) {
  for (int ranks : {2, 3, 4}) {
    for (HowOften rate :
         {HowOften::kStep, HowOften::kMicro, HowOften::kStepInMicro}) {
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
        ExpectSame(mapped.joined, sent.joined, 12);
      }
    }
  }
}

// Room for two micro-batches at each end of all channels.
std::vector<Graph> WithTwoCopies(std::vector<Graph> graphs) {
  for (Graph& graph : graphs) {
    for (const Node* node : std::as_const(graph).Nodes()) {
      if (!node->Is(OpId::kSend) && !node->Is(OpId::kRecv)) continue;
      EXPECT_TRUE(graph.SetAttr(node->id(), "copies", 2).ok());
    }
  }
  return graphs;
}

// Of what is large there is room for one micro-batch, whose memory others use
// in between, and nobody waits in a circle.
TEST_P(MappedTest, LargeValuesHaveRoomForOneMicroBatch) {
  for (int ranks : {2, 3, 4}) {
    for (HowOften rate : {HowOften::kMicro, HowOften::kStepInMicro}) {
      for (int64_t mapped_bytes : {0, 1}) {
        const Case at = {GetParam(), ranks, rate, int64_t{ranks} * 24 * 1024};
        for (Algorithm algorithm :
             AlgorithmsFor(at.kind, CollectiveGroup{ranks, ranks / 2, {}})) {
          SCOPED_TRACE(absl::StrCat(Name(algorithm), " of ", ranks, ", rate ",
                                    static_cast<int>(rate), ", mapped ",
                                    mapped_bytes));
          const JobPlans one = MustCompile(at, algorithm, mapped_bytes);
          const JobPlans two = MustCompile(
              at, WithTwoCopies(MakeGraphs(at, algorithm, mapped_bytes)));
          ASSERT_FALSE(one.plans.empty());
          for (const plan::Channel& channel : one.plans[0].channels()) {
            EXPECT_EQ(channel.copies(), 1u) << channel.name();
          }
          uint64_t with_one = 0, with_two = 0;
          for (int rank = 0; rank < ranks; ++rank) {
            with_one += PlannedBytes(one.plans[rank])[0];
            with_two += PlannedBytes(two.plans[rank])[0];
          }
          EXPECT_LE(with_one, with_two);
          // A step's value stays where it is, and is read there.
          if (rate == HowOften::kMicro) {
            EXPECT_LT(with_one, with_two);
          }
          ExpectSame(one.joined, two.joined, 4);
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

// What rank `rank` has.
Value AddOwnData(Graph* graph, int rank, const TensorType& type) {
  auto x = graph->Add("weft.DataSource", "x", {},
                      DataSourceAttrs(absl::StrCat("x", rank), {type}), 1);
  EXPECT_TRUE(x.ok()) << x.status();
  return (*x)->output(0);
}

// The sum of its elements, as output `name`.
void PutOutSum(GraphEmitter& emit, const std::string& name, Value value) {
  const Value sum = emit.Emit1("ReduceSum", {value}, {{"keepdims", 0}});
  emit.Emit("weft.Output", {sum}, {{"name", name}}, 0);
}

// `values` values, one made of another, of each of which a rank gets the sum of
// a part.
Graph MakeSums(Collective c, const TensorType& type, int values) {
  Graph graph(absl::StrCat("rank", c.rank));
  GraphEmitter emit(&graph, "t", "test");
  Expr y = Expr(emit, AddOwnData(&graph, c.rank, type));
  for (int i = 0; i < values; ++i) {
    y = y * 2.0;
    c.name = absl::StrCat("sum", i);
    auto part = AddCollective(&graph, c, y, type);
    EXPECT_TRUE(part.ok()) << part.status();
    PutOutSum(emit, absl::StrCat("y", c.rank, ".", i), *part);
  }
  EXPECT_TRUE(emit.status().ok()) << emit.status();
  return graph;
}

uint64_t SharedBytes(const plan::Plan& plan) {
  uint64_t bytes = 0;
  for (const plan::Arena& arena : plan.arenas()) {
    if (arena.kind() == plan::Arena::SHARED) bytes += arena.bytes();
  }
  return bytes;
}

// What peers have read makes room for what they read later.
TEST(MappedPlanTest, ValuesTakeSharedMemoryInTurn) {
  Collective c;
  c.kind = Kind::kReduceScatter;
  c.algorithm = Algorithm::kDirect;
  c.topology.mapped_bytes = 1;
  c.ranks = {0};
  for (int ranks : {2, 3}) {
    c.ranks.push_back(ranks - 1);
    const TensorType type = {DType::kF32, {int64_t{ranks} * 16 * 1024}};
    for (int values : {8, 32}) {
      for (HowOften rate : {HowOften::kStep, HowOften::kMicro}) {
        SCOPED_TRACE(absl::StrCat(ranks, " ranks, ", values, " values, rate ",
                                  static_cast<int>(rate)));
        const Case at = {c.kind, ranks, rate};
        c.rate = rate == HowOften::kStep ? "step" : "micro";
        const auto graphs = [&] {
          std::vector<Graph> all;
          for (c.rank = 0; c.rank < ranks; ++c.rank) {
            all.push_back(MakeSums(c, type, values));
          }
          return all;
        };
        const JobPlans mapped = MustCompile(at, graphs());
        ASSERT_FALSE(mapped.plans.empty());
        // Those on their way, and the last, after which no chain waits.
        EXPECT_LE(SharedBytes(mapped.plans[0]), 6 * type.num_bytes());
        EXPECT_THAT(plan::PrintPlan(mapped.plans[0]),
                    testing::HasSubstr("order: uses memory again, after '"));
        ExpectSame(mapped.joined, MustCompile(at, Sent(graphs())).joined, 4);
      }
    }
  }
}

// Rank `c.rank`'s sum of a large value, of which it gets a part, then those of
// small ones. Where `late`, a pass has made last what reads the peer's memory.
Graph MakeLargeAndSmall(Collective c, const TensorType& type, bool late) {
  Graph graph(absl::StrCat("rank", c.rank));
  GraphEmitter emit(&graph, "t", "test");
  const Expr data = Expr(emit, AddOwnData(&graph, c.rank, type));
  c.name = "large";
  auto part = AddCollective(&graph, c, data * 2.0, type);
  EXPECT_TRUE(part.ok()) << part.status();
  PutOutSum(emit, absl::StrCat("part", c.rank), *part);
  c.kind = Kind::kAllReduce;
  c.topology.mapped_bytes = 0;
  for (int i = 0; i < 3; ++i) {
    const Value of_it =
        emit.Emit1("ReduceSum", {data * (3.0 + i)}, {{"keepdims", 0}});
    c.name = absl::StrCat("small", i);
    auto small = AddCollective(&graph, c, of_it, graph.type(of_it));
    EXPECT_TRUE(small.ok()) << small.status();
    PutOutSum(emit, absl::StrCat(c.name, ".", c.rank), *small);
  }
  EXPECT_TRUE(emit.status().ok()) << emit.status();
  if (late) {
    const Node& reader = *graph.node(*part);
    const std::vector<Value> operands(reader.inputs().begin(),
                                      reader.inputs().end());
    auto again = graph.Add(reader.op(), "again", operands, reader.attrs());
    EXPECT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(graph.ReplaceUses(*part, (*again)->output(0)).ok());
    EXPECT_TRUE(graph.Remove(part->node).ok());
  }
  return graph;
}

// A peer, whose memory is read, waits for that before it sends the next one.
TEST(MappedPlanTest, WhatReadsAPeersMemoryIsNotPutOff) {
  Collective c;
  c.kind = Kind::kReduceScatter;
  c.algorithm = Algorithm::kDirect;
  c.topology.mapped_bytes = 1;
  c.ranks = {0, 1};
  const TensorType type = {DType::kF32, {2 * 16 * 1024}};
  for (int late : {-1, 0, 1}) {
    SCOPED_TRACE(absl::StrCat("late on rank ", late));
    std::vector<Graph> graphs;
    for (c.rank = 0; c.rank < 2; ++c.rank) {
      graphs.push_back(MakeLargeAndSmall(c, type, c.rank == late));
    }
    const JobPlans plans =
        MustCompile({c.kind, 2, HowOften::kStep}, std::move(graphs));
    ASSERT_FALSE(plans.plans.empty());
  }
}

// Two ranks, all-reduce, direct: rank 0's plan.
plan::Plan PlanOfSum() {
  return MustCompile({Kind::kAllReduce, 2, HowOften::kStep}, Algorithm::kDirect,
                     1)
      .plans[0];
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
  plan::Plan plan = MustCompile({Kind::kAllReduce, 2, HowOften::kStepInMicro},
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

// Another task looks at what is posted for what comes.
TEST(SentPlanTest, AReaderOfWhatIsPostedIsRefuted) {
  plan::Plan plan =
      MustCompile({Kind::kAllReduce, 2, HowOften::kStep}, Algorithm::kDirect, 0)
          .plans[0];
  ASSERT_TRUE(check::CheckPlan(plan).ok());
  for (const plan::Task& post : plan.tasks()) {
    if (post.kind() != plan::Task::POST) continue;
    const uint32_t posted = post.outputs(0).register_();
    for (plan::Task& task : *plan.mutable_tasks()) {
      if (task.kind() != plan::Task::COMPUTE) continue;
      plan::Register* reg = plan.mutable_registers(posted);
      reg->set_acks_per_copy(reg->acks_per_copy() + 1);
      task.add_inputs()->set_register_(posted);
      const absl::Status status = check::CheckPlan(plan);
      EXPECT_TRUE(IsError(status, ErrorCode::kPlanRefuted)) << status;
      EXPECT_THAT(std::string(status.message()),
                  testing::HasSubstr("finish reading that before"));
      return;
    }
  }
  ADD_FAILURE() << "nothing is posted";
}

// Ranks that do not agree whether a value is sent.
TEST(MappedPlanTest, OneRankThatSendsIsRefused) {
  const Case at = {Kind::kAllReduce, 2, HowOften::kStep};
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
