#include "compiler/compile.h"

#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/check/check.h"
#include "compiler/memory/registers.h"
#include "compiler/testing/fake_oracle.h"
#include "core/base/error.h"
#include "core/graph/text.h"
#include "core/plan/plan.h"
#include "core/plan/print.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using plan::Operand;
using plan::Plan;
using plan::Task;

// One linear layer, four micro-batches, a schedule and an update.
constexpr char kTrain[] = R"(graph "train" {
  %batch = weft.DataSource() {source: "data", dtypes: [1, 1], ranks: [2, 2], dims: [8, 4, 8, 2]} : f32[8,4], f32[8,2]
  %w = weft.Variable() {dtype: f32, shape: [4, 2]}
  %h = MatMul(%batch, %w)
  %d = Sub(%h, %batch:1)
  %loss = ReduceSum(%d)
  %xt = Transpose(%batch)
  %dw = MatMul(%xt, %d)
  %sum = weft.Accumulate(%dw) {count: 4}
  %c = weft.Counter()
  %lr = weft.LearningRate(%c) {base: 0.1}
  %up = weft.SgdUpdate(%w, %sum, %lr)
  %out = weft.Output(%loss) {name: "loss"}
})";

Graph Parse(absl::string_view text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph("broken");
}

CompileOptions HostOptions(int micro_batches) {
  CompileOptions options;
  options.devices = {HostDevice()};
  options.micro_batches = micro_batches;
  return options;
}

// The default device is private and asynchronous, the host is device 0.
CompileOptions SimOptions(int micro_batches) {
  CompileOptions options = HostOptions(micro_batches);
  options.devices.push_back(PrivateDevice("sim:0"));
  options.default_device = "sim:0";
  return options;
}

Plan MustCompile(const Graph& graph, const CompileOptions& options,
                 FakeOracle& oracle) {
  auto plan = Compile(graph, options, oracle);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : Plan();
}

int FindTask(const Plan& plan, absl::string_view name) {
  for (int t = 0; t < plan.tasks_size(); ++t) {
    if (plan.tasks(t).name() == name) return t;
    for (const plan::Op& op : plan.tasks(t).ops()) {
      if (op.node() == name) return t;
    }
  }
  ADD_FAILURE() << "no task for " << name << "\n" << plan::PrintPlan(plan);
  return 0;
}

std::vector<std::string> OrderOf(const Plan& plan, absl::string_view stream) {
  std::vector<std::string> out;
  for (const plan::Stream& s : plan.streams()) {
    if (s.name() != stream) continue;
    for (uint32_t t : s.order()) out.push_back(plan.tasks(t).name());
  }
  return out;
}

int CountKind(const Plan& plan, Task::Kind kind) {
  int count = 0;
  for (const Task& task : plan.tasks()) count += task.kind() == kind ? 1 : 0;
  return count;
}

std::string PatternOf(const plan::InputPort& port) {
  std::string out;
  for (char c : port.pattern().acts()) absl::StrAppend(&out, int{c});
  return out;
}
std::string PatternOf(const plan::OutputPort& port) {
  std::string out;
  for (char c : port.pattern().acts()) absl::StrAppend(&out, int{c});
  return out;
}

TEST(CompileTest, TrainingStepOnTheHost) {
  FakeOracle oracle;
  Plan plan = MustCompile(Parse(kTrain), HostOptions(4), oracle);
  ASSERT_GT(plan.tasks_size(), 0);
  EXPECT_EQ(OrderOf(plan, "cpu:0/compute"),
            (std::vector<std::string>{"w", "h..dw", "sum", "out", "h..dw",
                                      "sum", "out", "h..dw", "sum", "out",
                                      "h..dw", "sum", "out", "lr", "w", "up"}))
      << plan::PrintPlan(plan);
  EXPECT_EQ(plan.workers(), 2u);

  const Task& chain = plan.tasks(FindTask(plan, "h..dw"));
  EXPECT_EQ(chain.acts_per_period(), 4u);
  ASSERT_EQ(chain.ops_size(), 5);
  EXPECT_EQ(chain.ops(0).outputs(0).where(), Operand::SCRATCH);
  EXPECT_EQ(chain.outputs_size(), 2);  // dw for sum, loss for out

  const Task& variable = plan.tasks(FindTask(plan, "w"));
  ASSERT_EQ(variable.outputs_size(), 2);
  EXPECT_EQ(PatternOf(variable.outputs(0)), "34");
  EXPECT_EQ(PatternOf(variable.outputs(1)), "43");
  bool held = false;
  for (const plan::InputPort& in : chain.inputs()) {
    if (in.register_() == variable.outputs(0).register_()) {
      held = PatternOf(in) == "1002";
    }
  }
  EXPECT_TRUE(held) << plan::PrintPlan(plan);

  const Task& sum = plan.tasks(FindTask(plan, "sum"));
  EXPECT_EQ(PatternOf(sum.outputs(0)), "0003");
  EXPECT_EQ(sum.private_bytes(), 3u * 64);

  const Task& update = plan.tasks(FindTask(plan, "up"));
  EXPECT_EQ(update.outputs_size(), 0);
  EXPECT_EQ(update.ops(0).outputs(0).where(), Operand::INPUT);
  EXPECT_EQ(update.ops(0).outputs(0).index(), update.ops(0).inputs(0).index());
}

TEST(CompileTest, EqualArgumentsGiveEqualBytes) {
  FakeOracle a, b;
  Plan first = MustCompile(Parse(kTrain), HostOptions(4), a);
  Plan second = MustCompile(Parse(kTrain), HostOptions(4), b);
  EXPECT_EQ(first.SerializeAsString(), second.SerializeAsString());
  EXPECT_NE(first.hash(), 0u);
  EXPECT_GT(a.questions, 0);
  // Another answer of a device is another plan, even where nothing else is.
  b.Answer(OpId::kReduceSum).cost_ns = 17;
  Plan third = MustCompile(Parse(kTrain), HostOptions(4), b);
  EXPECT_NE(first.hash(), third.hash());
}

TEST(CompileTest, SeedsGiveOtherOrdersOfTheSameWork) {
  FakeOracle oracle;
  std::set<std::string> orders;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    CompileOptions options = HostOptions(4);
    options.launch_order_seed = seed;
    Plan plan = MustCompile(Parse(kTrain), options, oracle);
    std::string order;
    int acts = 0, ops = 0;
    for (const std::string& name : OrderOf(plan, "cpu:0/compute")) {
      absl::StrAppend(&order, name, " ");
      ++acts;
    }
    for (const Task& task : plan.tasks()) ops += task.ops_size();
    EXPECT_GE(acts, 16);
    EXPECT_EQ(ops, 8) << order;
    orders.insert(order);
  }
  EXPECT_GE(orders.size(), 3u);
}

TEST(CompileTest, AsynchronousDeviceGetsCopiesAndItsOwnStreams) {
  FakeOracle oracle;
  oracle.AllowAll(1);
  Plan plan = MustCompile(Parse(kTrain), SimOptions(4), oracle);
  // In: two fields and the counter; out: the loss. The state stays there.
  EXPECT_EQ(CountKind(plan, Task::COPY), 4) << plan::PrintPlan(plan);
  const Task& out = plan.tasks(FindTask(plan, "out"));
  EXPECT_EQ(plan.streams(out.stream()).name(), "cpu:0/sink");
  EXPECT_FALSE(plan.streams(out.stream()).ordered());
  const Task& update = plan.tasks(FindTask(plan, "up"));
  EXPECT_EQ(plan.streams(update.stream()).device(), 1u);
  EXPECT_EQ(update.ops(0).outputs(0).where(), Operand::INPUT);
}

TEST(CompileTest, DeviceWithoutKernelsComputesOnTheHost) {
  FakeOracle oracle;
  Plan plan = MustCompile(Parse(kTrain), SimOptions(4), oracle);
  // The parameter is read once a step for all its readers, and its update
  // travels both ways.
  EXPECT_EQ(CountKind(plan, Task::COPY), 3) << plan::PrintPlan(plan);
  const Task& back = plan.tasks(FindTask(plan, "w/write_back"));
  EXPECT_EQ(back.outputs_size(), 0);
  ASSERT_EQ(back.inputs_size(), 2);
  EXPECT_EQ(plan.registers(back.inputs(1).register_()).state(), "w");
  EXPECT_EQ(plan.registers(back.inputs(1).register_()).acks_per_copy(), 2u);
  const Task& update = plan.tasks(FindTask(plan, "up"));
  EXPECT_EQ(plan.streams(update.stream()).device(), 0u);
  EXPECT_EQ(update.ops(0).outputs(0).where(), Operand::OUTPUT);
  bool said = false;
  for (const std::string& line : update.provenance()) {
    said = said || absl::StrContains(line, "host fallback");
  }
  EXPECT_TRUE(said);

  CompileOptions strict = SimOptions(4);
  strict.strict = true;
  auto refused = Compile(Parse(kTrain), strict, oracle);
  EXPECT_TRUE(IsError(refused.status(), ErrorCode::kNoKernel));
  EXPECT_TRUE(absl::StrContains(refused.status().message(), "sim:0"))
      << refused.status();
}

TEST(CompileTest, HostOperandsOfAPrivateDeviceAreCopied) {
  FakeOracle oracle;
  oracle.AllowAll(1);
  oracle.Answer(OpId::kSgdUpdate).host_in = 1u << 2;  // lr
  Plan plan = MustCompile(Parse(kTrain), SimOptions(4), oracle);
  const Task& update = plan.tasks(FindTask(plan, "up"));
  const Operand& lr = update.ops(0).inputs(2);
  ASSERT_EQ(lr.where(), Operand::INPUT);
  const plan::Register& reg =
      plan.registers(update.inputs(lr.index()).register_());
  EXPECT_EQ(plan.arenas(reg.arena()).device(), 0u);
  EXPECT_EQ(CountKind(plan, Task::COPY), 5) << plan::PrintPlan(plan);
}

TEST(CompileTest, OneCopyServesAllReaders) {
  FakeOracle oracle;
  for (OpId op : {OpId::kRelu, OpId::kTanh, OpId::kExp}) oracle.Allow(1, op);
  Plan plan = MustCompile(Parse(R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [1], dims: [8]}
    %a = Neg(%x) device("cpu")
    %b = Relu(%a) device("sim")
    %c = Tanh(%a) device("sim")
    %d = Exp(%a) device("sim")
    %e = Add(%b, %c) device("cpu")
    %f = Add(%e, %d) device("cpu")
    %o = weft.Output(%f) {name: "f"}
  })"),
                          SimOptions(1), oracle);
  EXPECT_EQ(CountKind(plan, Task::COPY), 1 + 3) << plan::PrintPlan(plan);
}

TEST(CompileTest, IoNodesRunAheadOnTheirOwnWorker) {
  FakeOracle oracle;
  oracle.Answer(OpId::kCast).workspace_bytes = 100;
  Graph graph = Parse(R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [6], ranks: [1], dims: [8]}
    %a = Cast(%x) {to: f32} device("io")
    %b = Neg(%a) device("io")
    %c = Exp(%b)
    %o = weft.Output(%c) {name: "c"}
  })");
  Plan plan = MustCompile(graph, HostOptions(1), oracle);
  const Task& decode = plan.tasks(FindTask(plan, "a"));
  EXPECT_EQ(plan.streams(decode.stream()).name(), "cpu:0/io");
  EXPECT_EQ(plan.streams(decode.stream()).worker(), 1u);
  ASSERT_EQ(decode.ops_size(), 2);
  // Nothing orders the tasks of that stream, so each keeps its own scratch.
  EXPECT_EQ(decode.ops(0).outputs(0).where(), Operand::PRIVATE);
  EXPECT_EQ(decode.ops(0).workspace().where(), Operand::PRIVATE);
  EXPECT_NE(decode.ops(0).outputs(0).offset(),
            decode.ops(0).workspace().offset());
  EXPECT_EQ(plan.registers(decode.outputs(0).register_()).copies(), 2u);
  // Even where registers between streams have one copy.
  CompileOptions one = HostOptions(1);
  one.register_copies = 1;
  Plan frugal = MustCompile(graph, one, oracle);
  const Task& again = frugal.tasks(FindTask(frugal, "a"));
  EXPECT_EQ(frugal.registers(again.outputs(0).register_()).copies(), 2u);
}

TEST(CompileTest, SmallValuesOfMicroBatchesRunFurtherAhead) {
  const auto copies = [](int elements, int micro_batches) {
    FakeOracle oracle;
    Graph graph = Parse(absl::StrCat(R"(graph "g" {
      %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [1], dims: [)",
                                     elements, R"(]}
      %a = Neg(%x)
      %b = Exp(%a)
      %o = weft.Output(%b) {name: "b"}
    })"));
    Plan plan = MustCompile(graph, HostOptions(micro_batches), oracle);
    const Task& source = plan.tasks(FindTask(plan, "x"));
    return plan.registers(source.outputs(0).register_()).copies();
  };
  EXPECT_EQ(copies(8, 64), 16u);
  EXPECT_EQ(copies(8, 5), 5u) << "no more than there are micro-batches";
  EXPECT_EQ(copies(1024, 64), 4u) << "16 KiB at most, but for";
  EXPECT_EQ(copies(1 << 20, 64), 2u) << "two";
  EXPECT_EQ(copies(8, 1), 2u) << "a step's value waits for nobody";
}

TEST(CompileTest, DecodingAheadCutsNoChain) {
  FakeOracle oracle;
  Plan plan = MustCompile(Parse(R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [1, 6], ranks: [1, 1], dims: [8, 8]} : f32[8], u8[8]
    %a = Exp(%x)
    %b = Abs(%a)
    %labels = Cast(%x:1) {to: f32} device("io")
    %c = Sub(%b, %labels)
    %o = weft.Output(%c) {name: "c"}
  })"),
                          HostOptions(1), oracle);
  EXPECT_EQ(plan.tasks(FindTask(plan, "c")).ops_size(), 3)
      << plan::PrintPlan(plan);
}

TEST(CompileTest, KernelsThatAllowItWorkInPlaceInScratch) {
  constexpr char kText[] = R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [1], dims: [64]}
    %a = Exp(%x)
    %b = Neg(%a)
    %c = Abs(%b)
    %o = weft.Output(%c) {name: "c"}
  })";
  FakeOracle oracle;
  Plan apart = MustCompile(Parse(kText), HostOptions(1), oracle);
  const Task& two = apart.tasks(FindTask(apart, "b"));
  EXPECT_NE(two.ops(1).inputs(0).offset(), two.ops(1).outputs(0).offset());
  oracle.Answer(OpId::kNeg).in_place = 1;
  Plan in_place = MustCompile(Parse(kText), HostOptions(1), oracle);
  const Task& one = in_place.tasks(FindTask(in_place, "b"));
  EXPECT_EQ(one.ops(1).outputs(0).where(), Operand::SCRATCH);
  EXPECT_EQ(one.ops(1).inputs(0).offset(), one.ops(1).outputs(0).offset());
}

// The value is read in its own chain and outside of it.
TEST(CompileTest, AChainReadsWhatItGivesFromItsOwnOutput) {
  FakeOracle oracle;
  Plan plan = MustCompile(Parse(R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [1], dims: [8]}
    %a = Exp(%x)
    %b = Neg(%a)
    %o = weft.Output(%a) {name: "a"}
    %p = weft.Output(%b) {name: "b"}
  })"),
                          HostOptions(1), oracle);
  const Task& chain = plan.tasks(FindTask(plan, "b"));
  ASSERT_EQ(chain.ops_size(), 2);
  EXPECT_EQ(chain.ops(1).inputs(0).where(), Operand::OUTPUT);
}

TEST(CompileTest, ControlEdgeBetweenDevicesIsARegisterWithoutBytes) {
  FakeOracle oracle;
  oracle.Allow(1, OpId::kRelu);
  Plan plan = MustCompile(Parse(R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [1], dims: [8]}
    %y = weft.DataSource() {source: "y", dtypes: [1], ranks: [1], dims: [8]}
    %a = Neg(%x) device("cpu")
    %b = Relu(%y) device("sim") control(%a)
    %o = weft.Output(%a) {name: "a"}
    %p = weft.Output(%b) {name: "b"}
  })"),
                          SimOptions(1), oracle);
  const Task& gated = plan.tasks(FindTask(plan, "b"));
  int empty = 0;
  for (const plan::InputPort& in : gated.inputs()) {
    empty += plan.registers(in.register_()).tensors_size() == 0 ? 1 : 0;
  }
  EXPECT_EQ(empty, 1) << plan::PrintPlan(plan);
}

TEST(CompileTest, ViewsRunNowhereAndResultsKeepTheirShape) {
  FakeOracle oracle;
  Plan plan = MustCompile(Parse(R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [2], dims: [2, 4]}
    %flat = Reshape(%x) {shape: [8]}
    %a = Neg(%flat)
    %back = Reshape(%a) {shape: [4, 2]}
    %o = weft.Output(%back) {name: "o"}
    %k = Constant() {value: tensor(f32[2], [1.0, 2.0])}
    %q = weft.Output(%k) {name: "k"}
  })"),
                          HostOptions(1), oracle);
  int launches = 0;
  for (const Task& task : plan.tasks()) {
    launches += task.ops_size();
    if (task.kind() != Task::SINK || task.binding() != "o") continue;
    const plan::Register& reg = plan.registers(task.inputs(0).register_());
    ASSERT_EQ(reg.tensors(0).dims_size(), 2);
    EXPECT_EQ(reg.tensors(0).dims(0), 4);
  }
  // Neg, the Reshape that is a result, and the constant that is one.
  EXPECT_EQ(launches, 3) << plan::PrintPlan(plan);
}

TEST(CompileTest, ProgramsOfASessionShareOneStateLayout) {
  FakeOracle oracle;
  Graph train = Parse(kTrain);
  Graph init = Parse(R"(graph "init" {
    %v = weft.Variable() {dtype: f32, shape: [3]}
    %w = weft.Variable() {dtype: f32, shape: [4, 2]}
    %z = Constant() {value: tensor(f32[4,2], splat(0.5))}
    %set = weft.Assign(%w, %z)
  })");
  CompileOptions options = HostOptions(4);
  auto state = PlanState({&init, &train}, options.devices, "");
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->arena_bytes[0], 128u);
  auto place = [&](const Graph& graph, int micro_batches) {
    CompileOptions o = HostOptions(micro_batches);
    auto plan = Compile(graph, o, *state, oracle);
    EXPECT_TRUE(plan.ok()) << plan.status();
    if (!plan.ok()) return uint64_t{1};
    for (const plan::Register& reg : plan->registers()) {
      if (reg.state() == "w") {
        EXPECT_EQ(plan->arenas(reg.arena()).kind(), plan::Arena::STATE);
        EXPECT_EQ(plan->arenas(reg.arena()).bytes(), 128u);
        return reg.offset();
      }
    }
    return uint64_t{2};
  };
  EXPECT_EQ(place(init, 1), 64u);
  EXPECT_EQ(place(train, 4), 64u);

  Graph other = Parse(R"(graph "eval" {
    %w = weft.Variable() {dtype: f32, shape: [2, 4]}
  })");
  auto conflict = PlanState({&train, &other}, options.devices, "");
  EXPECT_TRUE(IsError(conflict.status(), ErrorCode::kBadGraph));
  EXPECT_TRUE(absl::StrContains(conflict.status().message(), "f32[2,4]"));
}

TEST(CompileTest, MemoryIsReusedWhereOrderProvesIt) {
  // A chain cut into single kernels: each value is a register.
  std::string text = R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [1], dims: [256]}
    %n0 = Neg(%x)
)";
  for (int i = 1; i < 12; ++i) {
    absl::StrAppend(&text, "%n", i, " = Neg(%n", i - 1, ")\n");
  }
  absl::StrAppend(&text, "%o = weft.Output(%n11) {name: \"o\"}\n}");
  FakeOracle oracle;
  CompileOptions options = HostOptions(1);
  options.max_chain_ops = 1;
  Plan plan = MustCompile(Parse(text), options, oracle);
  uint64_t activations = 0;
  for (const plan::Arena& arena : plan.arenas()) {
    if (arena.kind() == plan::Arena::ACTIVATIONS) activations = arena.bytes();
  }
  // Two copies of the data, two values of the chain at a time, and the last
  // one, which the session may still read when the next step begins.
  EXPECT_EQ(activations, 5u * 1024) << plan::PrintPlan(plan);
  EXPECT_EQ(PlannedBytes(plan)[0], activations);
}

TEST(CompileTest, ImpossibleOrderNamesTheNodes) {
  FakeOracle oracle;
  auto plan = Compile(Parse(R"(graph "swap" {
    %a = weft.Variable() {dtype: f32, shape: [2]}
    %b = weft.Variable() {dtype: f32, shape: [2]}
    %ua = weft.Assign(%a, %b)
    %ub = weft.Assign(%b, %a)
  })"),
                      HostOptions(1), oracle);
  EXPECT_TRUE(IsError(plan.status(), ErrorCode::kBadGraph)) << plan.status();
  EXPECT_TRUE(absl::StrContains(plan.status().message(), "'ua'"));
  EXPECT_TRUE(absl::StrContains(plan.status().message(), "'ub'"));
}

TEST(CompileTest, ConstantIndicesLieInTheirAxis) {
  auto compile = [](absl::string_view index, absl::string_view axis) {
    FakeOracle oracle;
    return Compile(Parse(absl::StrCat(R"(graph "g" {
      %x = weft.Variable() {dtype: f32, shape: [2, 3]}
      %i = Constant() {value: tensor()",
                                      index, R"()}
      %g = Gather(%x, %i) {axis: )",
                                      axis, R"(}
      %o = weft.Output(%g) {name: "o"}
    })")),
                   HostOptions(1), oracle)
        .status();
  };
  for (const char* good : {"i64[2], [0, 1]", "i32[2], [-2, -1]"}) {
    EXPECT_EQ(compile(good, "0"), absl::OkStatus()) << good;
  }
  EXPECT_EQ(compile("i64[1], [2]", "1"), absl::OkStatus());
  for (const char* bad : {"i64[2], [1, 2]", "i32[2], [0, 2]", "i64[2], [0, -3]",
                          "i64[2], [0, -9223372036854775808]"}) {
    const absl::Status status = compile(bad, "-2");
    EXPECT_TRUE(IsError(status, ErrorCode::kIndexRange)) << bad << status;
    for (const char* text : {"'g' (Gather)", "(at position 1) of 'i'",
                             "axis 0 of [2,3]", "2 elements"}) {
      EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
    }
  }
  // The gradient's indices are those of the gathered tensor.
  FakeOracle oracle;
  const absl::Status gradient = Compile(Parse(R"(graph "g" {
    %x = weft.Variable() {dtype: f32, shape: [1, 3]}
    %i = Constant() {value: tensor(i64[1], [4])}
    %g = weft.GatherGrad(%x, %i) {axis: 0, input_shape: [4, 3]}
    %o = weft.Output(%g) {name: "o"}
  })"),
                                        HostOptions(1), oracle)
                                    .status();
  EXPECT_TRUE(IsError(gradient, ErrorCode::kIndexRange)) << gradient;
}

TEST(CompileTest, KernelsThatReadNothingArePaced) {
  FakeOracle oracle;
  Plan plan = MustCompile(Parse(R"(graph "g" {
    %i = weft.Iota() {shape: [4], dtype: f32}
    %o = weft.Output(%i) {name: "o"}
  })"),
                          HostOptions(1), oracle);
  const Task& iota = plan.tasks(FindTask(plan, "i"));
  ASSERT_EQ(iota.inputs_size(), 1);
  EXPECT_EQ(plan.tasks(FindTask(plan, "weft/pace")).binding(), "counter:step");
}

TEST(CompileTest, EmptyGraphIsAnEmptyPlan) {
  FakeOracle oracle;
  Graph empty("empty");
  Plan plan = MustCompile(empty, HostOptions(1), oracle);
  EXPECT_EQ(plan.tasks_size(), 0);
  EXPECT_EQ(plan.graph(), "empty");
}

TEST(CompileTest, UnknownDeviceIsNamed) {
  FakeOracle oracle;
  CompileOptions options = HostOptions(1);
  options.default_device = "gpu:3";
  Graph empty("empty");
  auto plan = Compile(empty, options, oracle);
  EXPECT_TRUE(IsError(plan.status(), ErrorCode::kDeviceNotFound));
  EXPECT_TRUE(absl::StrContains(plan.status().message(), "gpu:3"));
  EXPECT_TRUE(absl::StrContains(plan.status().message(), "cpu:0"));
}

}  // namespace
}  // namespace weft
