// Collectives in the memory of others: parts that are read where they lie, and
// values that are lent. Plans give what plans give that send every value, under
// any timing; those that touch what they may not are refuted.
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/check/check.h"
#include "compiler/collectives/mapped_testing.h"
#include "compiler/partition/by_rank.h"
#include "compiler/pass/registry.h"
#include "compiler/testing/fake_oracle.h"
#include "compiler/testing/job_plans.h"
#include "compiler/testing/symbolic_run.h"
#include "core/base/error.h"
#include "core/graph/text.h"
#include "core/ops/expr.h"
#include "core/ops/system_attrs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Algorithm = CollectiveAlgorithm;
using Kind = CollectiveKind;

// Whether the results of `op`, the first such one, lie in the bytes of others.
bool LieInOthers(const plan::Plan& plan, OpId op) {
  for (const plan::Task& task : plan.tasks()) {
    for (const plan::Op& one : task.ops()) {
      if (plan.kernels(static_cast<int>(one.kernel())).op() !=
          static_cast<uint32_t>(op)) {
        continue;
      }
      int inside = 0;
      for (const plan::OutputPort& out : task.outputs()) {
        const auto r = static_cast<int>(out.register_());
        inside += plan.registers(r).alias_of() != 0;
      }
      return inside > 0;
    }
  }
  return false;
}

// Whether nothing is copied: the result of a sum or of a gathering, which a
// Concat gives, lies where the operand or the room for it did; parts of what is
// to be scattered are read where they lie.
bool IsInPlace(const plan::Plan& plan, Kind kind) {
  return LieInOthers(
      plan, kind == Kind::kReduceScatter ? OpId::kSplit : OpId::kConcat);
}

struct InPlaceWay {
  Kind kind;
  Algorithm algorithm;
  int times;  // as many channels as when all is sent
};

class InPlaceTest : public testing::TestWithParam<InPlaceWay> {};

TEST_P(InPlaceTest, GivesWhatSendingGives) {
  const InPlaceWay& way = GetParam();
  for (int ranks : {2, 3, 4}) {
    for (HowOften rate :
         {HowOften::kStep, HowOften::kMicro, HowOften::kStepInMicro}) {
      for (bool also_read : {false, true}) {
        if (also_read && way.kind != Kind::kAllReduce) continue;
        SCOPED_TRACE(absl::StrCat(ranks, " ranks, rate ",
                                  static_cast<int>(rate), " ", also_read));
        Case at = InPlaceCase(ranks, rate, also_read);
        at.kind = way.kind;
        if (way.kind == Kind::kAllGather) at.elements = 48;
        if (way.kind == Kind::kReduceScatter) at.elements = 48 * ranks;
        const JobPlans sent =
            MustCompile(at, Sent(MakeGraphs(at, way.algorithm, 1)));
        const JobPlans mapped = MustCompile(at, way.algorithm, 1);
        ASSERT_FALSE(mapped.plans.empty());
        // Each is read, or lent, by each other one and reads, or borrows.
        EXPECT_EQ(Mapped(mapped.plans[0]), 2 * (ranks - 1));
        // What micro-batches gather is not lent, but read as any value is.
        const bool lends_none =
            way.kind == Kind::kAllGather && rate != HowOften::kStep;
        EXPECT_EQ(mapped.plans[0].channels_size(),
                  (lends_none ? 2 : way.times) * sent.plans[0].channels_size());
        // Where nobody else reads the operand nothing is copied.
        const bool in_place =
            !also_read && !lends_none && rate != HowOften::kStepInMicro;
        EXPECT_EQ(IsInPlace(mapped.plans[0], way.kind), in_place);
        ExpectSame(mapped.joined, sent.joined, 12);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, InPlaceTest,
    testing::Values(InPlaceWay{Kind::kAllReduce, Algorithm::kThreeStage, 1},
                    InPlaceWay{Kind::kAllGather, Algorithm::kDirect, 1},
                    InPlaceWay{Kind::kReduceScatter, Algorithm::kDirect, 2}),
    [](const testing::TestParamInfo<InPlaceWay>& info) {
      std::string name(Name(info.param.kind));
      for (char& ch : name) ch = ch == '-' ? '_' : ch;
      return name;
    });

// On no device.
class DenyingOracle : public FakeOracle {
 public:
  explicit DenyingOracle(std::set<OpId> denied) : denied_(std::move(denied)) {}

  MatchAnswer Match(uint32_t device, const plan::Kernel& kernel) override {
    MatchAnswer answer;
    answer.supported = denied_.count(static_cast<OpId>(kernel.op())) == 0;
    return answer;
  }

 private:
  const std::set<OpId> denied_;
};

// What no kernel is there for is taken apart, on a device of which no other one
// may take it over, too: into copies, where nothing else is left of it.
TEST(InPlaceGraphsTest, DevicesMayLackTheOps) {
  CompileOptions options;
  options.devices = {HostDevice(), PrivateDevice("sim:0")};
  options.strict = true;
  for (const char* device : {"cpu:0", "sim:0"}) {
    options.default_device = device;
    for (const auto& [kind, algorithm, denied] :
         std::vector<std::tuple<Kind, Algorithm, std::set<OpId>>>{
             {Kind::kAllReduce, Algorithm::kThreeStage, {OpId::kReduceToAll}},
             {Kind::kAllGather, Algorithm::kDirect, {OpId::kCopyToAll}},
             {Kind::kAllGather,
              Algorithm::kDirect,
              {OpId::kCopyToAll, OpId::kEmpty}}}) {
      SCOPED_TRACE(absl::StrCat(device, " ", Name(kind), " ", denied.size()));
      Case at = InPlaceCase(3, HowOften::kStep);
      at.kind = kind;
      if (kind == Kind::kAllGather) at.elements = 48;
      DenyingOracle oracle(denied);
      const auto sent =
          CompileGraphs(Sent(MakeGraphs(at, algorithm, 1)), options, oracle);
      ASSERT_TRUE(sent.ok()) << sent.status();
      const auto mapped =
          CompileGraphs(MakeGraphs(at, algorithm, 1), options, oracle);
      ASSERT_TRUE(mapped.ok()) << mapped.status();
      EXPECT_EQ(Mapped(mapped->plans[0]), 4);
      ExpectSame(mapped->joined, sent->joined, 12);
    }
  }
}

// A value of `type` through an all-reduce (0), a reduce-scatter with an
// all-gather after it (1), or an all-gather of which a part is kept (2).
Value Through(Graph* graph, GraphEmitter* emit, Collective c, Value x,
              const TensorType& type, int way) {
  const auto add = [&](Kind kind, Value v) {
    c.kind = kind;
    c.algorithm =
        kind == Kind::kAllReduce ? Algorithm::kThreeStage : Algorithm::kDirect;
    auto result = AddCollective(graph, c, v, graph->type(v));
    EXPECT_TRUE(result.ok()) << result.status();
    return *result;
  };
  if (way == 0) return add(Kind::kAllReduce, x);
  const std::string name = c.name;
  if (way == 1) {
    c.name = name + "/scatter";
    x = add(Kind::kReduceScatter, x);
  }
  c.name = name + "/gather";
  x = add(Kind::kAllGather, x);
  const int64_t rest = graph->type(x).shape.dim(0) - type.shape.dim(0);
  if (rest == 0) return x;
  return emit->Emit("Split", {x},
                    {{"split", std::vector<int64_t>{type.shape.dim(0), rest}}},
                    2)[0];
}

// Sums of sums, of what others read, of parts and of variables, at random: of a
// micro-batch, of a step, and of a step in each of its micro-batches.
// `scale`: of sizes.
Graph MakeRandomRank(Collective c, uint32_t seed, int micro_batches,
                     int64_t scale) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  struct Made {
    Expr value;
    bool micro;
    bool late;  // after all micro-batches
  };
  Graph graph(absl::StrCat("rank", c.rank));
  const auto ranks = static_cast<int64_t>(c.ranks.size());
  // Parts of an even number of lines lie where a peer may write them.
  const TensorType type = {
      DType::kF32,
      {scale * (below(2) == 0 ? 32 * ranks * ranks
                              : ranks * (20 * ranks + below(40)))}};
  auto x = graph.Add("weft.Variable", absl::StrCat("x", c.rank), {},
                     VariableAttrs(type, VariableInit::Zeros()));
  auto data =
      graph.Add("weft.DataSource", "data", {},
                DataSourceAttrs(absl::StrCat("data", c.rank), {type}), 1);
  EXPECT_TRUE(x.ok() && data.ok()) << x.status() << data.status();
  GraphEmitter emit(&graph, "t", "test");
  std::vector<Made> made = {
      {Expr(emit, (*x)->output(0)) * 2.0, false, false},
      {Expr(emit, (*data)->output(0)) + 1.0, true, false}};
  for (int k = 0; k < 7; ++k) {
    const Made a = made[below(static_cast<int>(made.size()))];
    const Made b = made[below(static_cast<int>(made.size()))];
    const int what = below(7);
    if (what < 3) {
      const bool micro = a.micro || (!a.late && below(3) == 0);
      c.name = absl::StrCat("sum", k);
      c.rate = micro ? "micro" : "step";
      made.push_back(
          {Expr(emit, Through(&graph, &emit, c, a.value, type, below(3))),
           micro, a.late});
    } else if (what == 3) {
      if ((a.late || b.late) && (a.micro || b.micro)) continue;
      made.push_back(
          {a.value * 0.5 + b.value, a.micro || b.micro, a.late || b.late});
    } else if (what == 4) {
      const std::vector<int64_t> sizes = {64, type.shape.dim(0) - 64};
      const auto parts = emit.Emit("Split", {a.value}, {{"split", sizes}}, 2);
      made.push_back({Expr(emit, emit.Emit1("Concat", {parts[1], parts[0]},
                                            {{"axis", 0}})),
                      a.micro, a.late});
    } else if (a.micro) {
      made.push_back({Expr(emit, emit.Emit1("weft.Accumulate", {a.value},
                                            {{"count", micro_batches}})),
                      false, true});
    } else {
      made.push_back({a.value * 3.0, false, a.late});
    }
  }
  // Some have no other reader, some have none at all.
  for (size_t i = 2; i < made.size(); ++i) {
    if (i + 1 < made.size() && below(3) != 0) continue;
    emit.Emit("weft.Output", {made[i].value},
              {{"name", absl::StrCat("y", c.rank, ".", i)}}, 0);
  }
  for (const Made& value : made) {
    if (value.micro || below(2) != 0) continue;
    emit.Emit1("weft.Assign", {(*x)->output(0), value.value});
    break;
  }
  EXPECT_TRUE(emit.status().ok()) << emit.status();
  return graph;
}

TEST(InPlaceGraphsTest, AnyGraphGivesWhatSendingGives) {
  int mapped_channels = 0;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    const int64_t scale = seed <= 24 ? 1 : 1024;
    Collective c;
    c.topology.mapped_bytes = 1;
    const int ranks = 2 + static_cast<int>(seed % 2);
    for (int p = 0; p < ranks; ++p) c.ranks.push_back(p);
    CompileOptions options;
    options.devices = {HostDevice()};
    options.micro_batches = 1 + static_cast<int>(seed / 2 % 3);
    options.register_copies = 1 + static_cast<int>(seed / 6 % 3);
    const auto graphs = [&] {
      std::vector<Graph> all;
      for (c.rank = 0; c.rank < ranks; ++c.rank) {
        all.push_back(MakeRandomRank(c, seed, options.micro_batches, scale));
      }
      return all;
    };
    FakeOracle oracle;
    const auto sent = CompileGraphs(Sent(graphs()), options, oracle);
    ASSERT_TRUE(sent.ok()) << sent.status();
    const auto mapped = CompileGraphs(graphs(), options, oracle);
    ASSERT_TRUE(mapped.ok()) << mapped.status();
    mapped_channels += Mapped(mapped->plans[0]);
    ExpectSame(mapped->joined, sent->joined, 6);
  }
  EXPECT_GT(mapped_channels, 0);
}

// As dead code is removed once collectives are in the graph.
TEST(InPlaceGraphsTest, NobodyMayReadTheSum) {
  const Case at = InPlaceCase(2, HowOften::kStep);
  std::vector<Graph> graphs = MakeGraphs(at, Algorithm::kThreeStage, 1);
  for (Graph& graph : graphs) {
    std::vector<int32_t> dead;
    for (const Node* node : std::as_const(graph).Nodes()) {
      if (node->Is(OpId::kConcat) || node->Is(OpId::kOutput)) {
        dead.push_back(node->id());
      }
    }
    while (!dead.empty()) {
      const int32_t id = dead.back();
      const Node& node = *graph.node(id);
      bool read = false;
      for (int i = 0; i < node.num_outputs(); ++i) {
        for (auto [reader, position] : graph.Uses(node.output(i))) {
          dead.push_back(reader);
          read = true;
        }
      }
      if (read) continue;
      dead.pop_back();
      EXPECT_TRUE(graph.Remove(id).ok());
      while (!dead.empty() && !graph.Contains(dead.back())) dead.pop_back();
    }
  }
  const JobPlans mapped = MustCompile(at, graphs);
  ASSERT_FALSE(mapped.plans.empty());
  EXPECT_TRUE(RunPlan(mapped.joined, kPeriods, 1).ok());
}

// One value through two collectives, whose graph has gone through the passes.
Graph MakeTwice(Collective c) {
  Graph graph(absl::StrCat("rank", c.rank));
  const TensorType type = {DType::kF32, {320}};
  auto x = graph.Add("weft.Variable", absl::StrCat("x", c.rank), {},
                     VariableAttrs(type, VariableInit::Zeros()));
  GraphEmitter emit(&graph, "t", "test");
  const Expr y = Expr(emit, (*x)->output(0)) * 2.0 + 1.0;
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
    c.op = op;
    c.name = absl::StrCat("of", static_cast<int>(op));
    auto result = AddCollective(&graph, c, y, type);
    EXPECT_TRUE(result.ok()) << result.status();
    emit.Emit("weft.Output", {Expr(emit, *result) * 0.25},
              {{"name", absl::StrCat(c.name, "/", c.rank)}}, 0);
  }
  EXPECT_TRUE(emit.status().ok()) << emit.status();
  PassContext context;
  EXPECT_TRUE(MakeNamedPipeline("default")->Run(graph, context).ok());
  return graph;
}

// A pass makes one of two nodes that cut the same value into the same parts:
// what is lent to both is lent twice. Of two rooms it makes none.
TEST(InPlaceGraphsTest, OneValueIsLentTwice) {
  for (const auto& [kind, algorithm] :
       {std::make_pair(Kind::kAllReduce, Algorithm::kThreeStage),
        std::make_pair(Kind::kAllGather, Algorithm::kDirect)}) {
    Collective c;
    c.kind = kind;
    c.algorithm = algorithm;
    c.topology.mapped_bytes = 1;
    c.ranks = {0, 1};
    std::vector<Graph> graphs;
    for (c.rank = 0; c.rank < 2; ++c.rank) graphs.push_back(MakeTwice(c));
    int splits = 0;
    for (const Node* node : std::as_const(graphs[0]).Nodes()) {
      splits += node->Is(OpId::kSplit);
    }
    EXPECT_EQ(splits, kind == Kind::kAllReduce ? 1 : 2);
    CompileOptions options;
    options.devices = {HostDevice()};
    FakeOracle oracle;
    const auto mapped = CompileGraphs(graphs, options, oracle);
    ASSERT_TRUE(mapped.ok()) << mapped.status();
    EXPECT_EQ(Mapped(mapped->plans[0]), 4);
    const auto sent = CompileGraphs(Sent(std::move(graphs)), options, oracle);
    ASSERT_TRUE(sent.ok()) << sent.status();
    ExpectSame(mapped->joined, sent->joined, 12);
  }
}

// A value that stage 0 of a pipeline cuts along `axis` and stage 1 reads a part
// of: where that part lies if it is one run of bytes, and only then.
bool CutInPlace(absl::string_view dims, int axis) {
  const std::string half =
      axis == 0 ? "f32[2,64]" : absl::StrCat("f32[", dims.substr(0, 1), ",32]");
  const auto graph = ParseGraph(absl::StrCat(
      R"(graph "g" {
  %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [2], dims: [)",
      dims, R"(]}
  %a = Neg(%x) device("w0")
  %s = Split(%a) {axis: )",
      axis, ", split: ", axis == 0 ? "[2, 2]" : "[32, 32]", "} : ", half, ", ",
      half, R"( device("w0")
  %b = Exp(%s:0) device("w1")
  %c = Abs(%s:1) device("w0")
  %o = weft.Output(%b) {name: "b"}
  %p = weft.Output(%c) {name: "c"}
})"));
  EXPECT_TRUE(graph.ok()) << graph.status();
  RankAssignment where = AssignRanks(*graph, /*ranks=*/2).value();
  where.topology.mapped_bytes = 1;
  CompileOptions options;
  options.devices = {HostDevice()};
  FakeOracle oracle;
  const auto job = CompileJob(*graph, options, where, oracle);
  EXPECT_TRUE(job.ok()) << job.status();
  if (!job.ok()) return false;
  EXPECT_EQ(Mapped(job->plans[0]), 1);
  return LieInOthers(job->plans[0], OpId::kSplit);
}

TEST(InPlaceGraphsTest, PartsThatAreNoRunsOfBytesAreCopied) {
  EXPECT_TRUE(CutInPlace("4, 64", 0));
  EXPECT_TRUE(CutInPlace("1, 64", 1));
  EXPECT_FALSE(CutInPlace("4, 64", 1));
}

// Kernels take so many operands and results (plugins/abi).
TEST(InPlaceGraphsTest, NoNodeHasMoreOperandsThanKernelsTake) {
  constexpr int kMost = 64;
  for (const Case& at : {Case{Kind::kReduceScatter, kMost + 1, HowOften::kStep,
                              16 * (kMost + 1)},
                         Case{Kind::kAllGather, kMost, HowOften::kStep, 16}}) {
    const std::vector<Graph> graphs = MakeGraphs(at, Algorithm::kDirect, 1);
    for (const Node* node : graphs[0].Nodes()) {
      EXPECT_LE(static_cast<int>(node->inputs().size()), kMost) << node->name();
      EXPECT_LE(node->num_outputs(), kMost) << node->name();
    }
  }
}

// ---- What is lent

plan::Plan PlanInPlace() {
  return MustCompile(InPlaceCase(2, HowOften::kStep), Algorithm::kThreeStage, 1)
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
  for (const plan::Task& task : plan.tasks()) {
    EXPECT_NE(task.kind(), plan::Task::COPY) << task.name();
  }
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

// It overwrites what was lent without reading it, after the loan.
TEST(InPlacePlanTest, AWriterDuringTheLoanIsRefuted) {
  plan::Plan plan = MustCompile({Kind::kAllReduce, 2, HowOften::kStep, 96},
                                Algorithm::kThreeStage, 1)
                        .plans[0];
  plan::Task* recv = FindLanding(&plan, plan::Task::RECV);
  const uint32_t landed = recv->outputs(0).register_();
  const uint32_t lent = plan.registers(landed).alias_of() - 1;
  const auto root_of = [&](uint32_t r) {
    while (plan.registers(r).alias_of() != 0) {
      r = plan.registers(r).alias_of() - 1;
    }
    return r;
  };
  const uint32_t whole = root_of(lent);
  plan::Task writer;
  writer.set_kind(plan::Task::COPY);
  writer.set_name("writer");
  writer.set_acts_per_period(1);
  const auto id = static_cast<uint32_t>(plan.tasks_size());
  const auto written = static_cast<uint32_t>(plan.registers_size());
  uint32_t reducer = 0;
  for (int t = 0; t < plan.tasks_size(); ++t) {
    plan::Task* task = plan.mutable_tasks(t);
    if (task->ops_size() == 0) continue;
    const uint32_t op = plan.kernels(task->ops(0).kernel()).op();
    if (op != static_cast<uint32_t>(OpId::kReduceToAll)) continue;
    reducer = static_cast<uint32_t>(t);
    writer.set_stream(task->stream());
    for (const plan::InputPort& in : task->inputs()) {
      const uint32_t r = in.register_();
      if (plan.registers(r).bytes() == 0 || root_of(r) != whole) continue;
      writer.add_inputs()->set_register_(r);  // its own part
    }
  }
  ASSERT_EQ(writer.inputs_size(), 1);
  recv->add_inputs()->set_register_(written);  // its only reader
  plan::InputPort* over = writer.add_inputs();
  over->set_register_(lent);
  over->set_aliased(true);
  writer.add_outputs()->set_register_(written);
  *plan.add_registers() = plan.registers(static_cast<int>(landed));
  plan::Register* acked = plan.mutable_registers(static_cast<int>(whole));
  acked->set_acks_per_copy(acked->acks_per_copy() + 2);
  plan::Task* send = plan.mutable_tasks(FindTask(plan, plan::Task::SEND, true));
  ASSERT_GT(send->outputs_size(), 0);
  const uint32_t edge = send->outputs(0).register_();
  writer.add_inputs()->set_register_(edge);
  plan.mutable_registers(static_cast<int>(edge))
      ->set_acks_per_copy(
          plan.registers(static_cast<int>(edge)).acks_per_copy() + 1);
  plan::Stream* stream =
      plan.mutable_streams(static_cast<int>(writer.stream()));
  std::vector<uint32_t> order;
  for (uint32_t t : stream->order()) {
    if (t == reducer) order.push_back(id);
    order.push_back(t);
  }
  stream->mutable_order()->Assign(order.begin(), order.end());
  *plan.add_tasks() = writer;
  ExpectRefused(plan, ErrorCode::kPlanRefuted, "writes");
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

// Which RECV takes what was lent to this rank, or SEND lends; by channel.
plan::Task* FindLent(plan::Plan* plan, plan::Task::Kind kind) {
  return plan->mutable_tasks(FindTask(*plan, kind, true));
}

// All of it comes back, act by act.
TEST(InPlacePlanTest, AnotherPartThanWasLentIsRefused) {
  for (plan::Task::Kind kind : {plan::Task::RECV, plan::Task::SEND}) {
    const plan::Plan good = PlanInPlace();
    plan::Plan plan = good;
    const plan::Task& task = *FindLanding(&plan, kind);
    const uint32_t r = kind == plan::Task::RECV ? task.outputs(0).register_()
                                                : task.inputs(0).register_();
    plan::Register* landed = plan.mutable_registers(r);
    // Nothing of it, which would be nobody's to keep away from.
    landed->set_bytes(0);
    landed->clear_tensors();
    EXPECT_TRUE(IsError(check::CheckPlan(plan), ErrorCode::kBadPlan));
    *landed = good.registers(r);
    landed->set_bytes(64);
    landed->mutable_tensors(0)->set_dims(0, 16);
    EXPECT_TRUE(IsError(check::CheckPlan(plan), ErrorCode::kBadPlan));
    landed->set_alias_offset(64);
    EXPECT_TRUE(IsError(check::CheckPlan(plan), ErrorCode::kBadPlan));
    *landed = good.registers(r);
    landed->set_copies(2 * landed->copies());
    EXPECT_TRUE(IsError(check::CheckPlan(plan), ErrorCode::kBadPlan));
  }
  plan::Plan plan = PlanInPlace();
  FindLent(&plan, plan::Task::SEND)
      ->mutable_inputs(0)
      ->mutable_pattern()
      ->set_acts("\3");
  FindLanding(&plan, plan::Task::RECV)
      ->mutable_inputs(0)
      ->mutable_pattern()
      ->set_acts("\3");
  ExpectRefused(plan, ErrorCode::kBadPlan, "offers");
}

// A second register there, or a larger one, would reach what was not lent.
TEST(InPlacePlanTest, OnlyTheLentValueIsThere) {
  plan::Plan plan = PlanInPlace();
  plan::Task* recv = FindLent(&plan, plan::Task::RECV);
  const uint32_t there = recv->outputs(0).register_();
  recv->add_outputs()->set_register_(plan.registers_size());
  *plan.add_registers() = plan.registers(static_cast<int>(there));
  ExpectRefused(plan, ErrorCode::kBadPlan, "is not what lies at its peer");
  plan = PlanInPlace();
  plan::Register* reg = plan.mutable_registers(static_cast<int>(there));
  reg->set_bytes(reg->bytes() + 64);
  ExpectRefused(plan, ErrorCode::kBadPlan, "is not what lies at its peer");
  plan = PlanInPlace();
  reg = plan.mutable_registers(static_cast<int>(there));
  reg->mutable_tensors(0)->set_offset(64);
  reg->set_bytes(reg->bytes() + 64);
  ExpectRefused(plan, ErrorCode::kBadPlan, "is not what lies at its peer");
}

TEST(InPlacePlanTest, OnlyWhatLiesAtAPeerIsLent) {
  const plan::Plan good = PlanInPlace();
  for (int r = 0; r < good.registers_size(); ++r) {
    if (good.registers(r).lent()) continue;
    plan::Plan plan = good;
    plan.mutable_registers(r)->set_lent(true);
    ExpectRefused(plan, ErrorCode::kBadPlan, "is lent, but");
  }
}

// Numbers that lead nowhere, one at a time.
TEST(InPlacePlanTest, NoIndexIsTrusted) {
  const plan::Plan good = PlanInPlace();
  for (uint32_t bad : {0u, 1u, 2u, 3u, 1000000u, ~0u}) {
    for (int c = 0; c < good.channels_size(); ++c) {
      plan::Plan plan = good;
      plan.mutable_channels(c)->set_read(bad);
      if (good.channels(c).read() == bad) continue;
      EXPECT_FALSE(check::CheckPlan(plan).ok()) << c << " " << bad;
    }
    for (int r = 0; r < good.registers_size(); ++r) {
      plan::Plan plan = good;
      plan.mutable_registers(r)->set_alias_of(bad);
      if (good.registers(r).alias_of() == bad) continue;
      EXPECT_FALSE(check::CheckPlan(plan).ok()) << r << " " << bad;
    }
    for (int t = 0; t < good.tasks_size(); ++t) {
      plan::Plan plan = good;
      plan.mutable_tasks(t)->set_channel(bad);
      if (good.tasks(t).channel() == bad) continue;
      EXPECT_FALSE(check::CheckPlan(plan).ok()) << t << " " << bad;
    }
  }
  for (int c = 0; c < good.channels_size(); ++c) {
    plan::Plan plan = good;
    plan.mutable_channels(c)->set_lands(!good.channels(c).lands());
    EXPECT_FALSE(check::CheckPlan(plan).ok()) << c;
    plan = good;
    plan.mutable_channels(c)->mutable_tensor()->set_dtype(0);
    plan.mutable_channels(c)->mutable_tensor()->clear_dims();
    EXPECT_FALSE(check::CheckPlan(plan).ok()) << c;
  }
}

}  // namespace
}  // namespace weft
