#include "compiler/pass/pipeline.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "compiler/autodiff/autodiff.h"
#include "compiler/pass/registry.h"
#include "compiler/transforms/set_mode.h"
#include "compiler/transforms/testing.h"
#include "core/base/error.h"
#include "core/base/os.h"
#include "core/graph/text.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

Graph Sample() {
  auto graph = ParseGraph(R"(graph "g" {
%x = weft.Input() {dtype: f32, shape: [2]}
%a = Identity(%x)
%b = Relu(%a)
%c = Relu(%a)
%d = Add(%b, %c)
%e = Neg(%d)
%o = weft.Output(%d) {name: "d"}
})");
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

std::string Directory(const std::string& name) {
  const char* base = std::getenv("TEST_TMPDIR");
  return absl::StrCat(base != nullptr ? base : "/tmp", "/", name);
}

class Breaks : public Pass {
 public:
  absl::string_view Name() const override { return "breaks"; }
  absl::StatusOr<bool> Run(Graph& graph, PassContext&) override {
    graph.AddControlInput(graph.FindNode("b")->id(), graph.FindNode("d")->id());
    return true;
  }
};

class Fails : public Pass {
 public:
  absl::string_view Name() const override { return "fails"; }
  absl::StatusOr<bool> Run(Graph&, PassContext&) override {
    return MakeError(ErrorCode::kNoGradient, "because");
  }
};

TEST(PipelineTest, DefaultPipelineRuns) {
  Graph g = Sample();
  auto pipeline = MakeNamedPipeline("default");
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  PassContext context;
  auto changed = pipeline->Run(g, context);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_TRUE(*changed);
  EXPECT_EQ(g.num_nodes(), 3) << PrintGraph(g);
  std::string once = PrintGraph(g);
  changed = pipeline->Run(g, context);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_FALSE(*changed);
  EXPECT_EQ(PrintGraph(g), once);
}

TEST(PipelineTest, DumpsChangedPassesThatMatch) {
  Graph g = Sample();
  PipelineOptions options;
  options.dump_to = Directory("dumps");
  options.dump_passes = "cse|dce|decompose";
  auto pipeline = MakePipeline(
      {"algebraic_simplify", "cse", "dce", "dce", "decompose"}, options);
  ASSERT_TRUE(pipeline.ok());
  PassContext context;
  context.settings.decompose = [](const Node&) { return false; };
  ASSERT_TRUE(pipeline->Run(g, context).ok());
  auto files = RealOs().List(options.dump_to);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(*files, (std::vector<std::string>{
                        "002.cse.after.txt", "002.cse.before.txt",
                        "003.dce.after.txt", "003.dce.before.txt"}));
  auto text =
      RealOs().ReadFile(options.dump_to + "/003.dce.after.txt", 1 << 20);
  ASSERT_TRUE(text.ok());
  EXPECT_TRUE(ParseGraph(*text).ok());
}

TEST(PipelineTest, ADefectOfAPassIsNamed) {
  Graph g = Sample();
  Pipeline pipeline;
  pipeline.Add(std::make_unique<Breaks>());
  PassContext context;
  absl::Status status = pipeline.Run(g, context).status();
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kInternal) << status;
  EXPECT_NE(status.message().find("breaks"), absl::string_view::npos);
}

TEST(PipelineTest, AnErrorOfAPassKeepsItsCode) {
  Graph g = Sample();
  Pipeline pipeline;
  pipeline.Add(std::make_unique<Fails>());
  PassContext context;
  absl::Status status = pipeline.Run(g, context).status();
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kNoGradient) << status;
  EXPECT_NE(status.message().find("fails"), absl::string_view::npos);
}

TEST(PipelineTest, BadSettingsAreRefused) {
  EXPECT_EQ(ErrorCodeOf(MakePipeline({"cze"}).status()), ErrorCode::kBadValue);
  EXPECT_NE(MakePipeline({"cze"}).status().message().find("'cse'"),
            absl::string_view::npos);
  EXPECT_EQ(ErrorCodeOf(MakeNamedPipeline("defalt").status()),
            ErrorCode::kBadValue);
  Graph g = Sample();
  PassContext context;
  PipelineOptions options;
  options.dump_to = Directory("other");
  options.dump_passes = "(";
  EXPECT_EQ(ErrorCodeOf(Pipeline(options).Run(g, context).status()),
            ErrorCode::kBadValue);
  options.dump_passes = ".*";
  options.dump_to = "/proc/nowhere/dumps";
  EXPECT_EQ(ErrorCodeOf(Pipeline(options).Run(g, context).status()),
            ErrorCode::kWriteFailed);
}

// A whole training step: forward, gradients, running statistics, updates.
TEST(PipelineTest, ATrainingProgramKeepsItsResults) {
  Graph g = ParseBody(R"(
%x = weft.Input() {dtype: f64, shape: [4, 3]}
%w1 = weft.Variable() {dtype: f64, shape: [3, 5]}
%b1 = weft.Variable() {dtype: f64, shape: [5]}
%v1 = weft.Variable() {dtype: f64, shape: [5]}
%w2 = weft.Variable() {dtype: f64, shape: [5, 2]}
%mean = weft.Variable() {dtype: f64, shape: [5], role: "statistic"}
%var = weft.Variable() {dtype: f64, shape: [5], role: "statistic"}
%scale = Constant() {value: tensor(f64[5], splat(1.0))}
%shift = Constant() {value: tensor(f64[5], splat(0.5))}
%h = MatMul(%x, %w1)
%n = BatchNormalization(%h, %scale, %shift, %mean, %var)
%a = Add(%n, %b1)
%r = LeakyRelu(%a)
%d = Dropout(%r) {ratio: 0.5}
%t = Tanh(%d)
%y = MatMul(%t, %w2)
%p = LogSoftmax(%y) {axis: 1}
%m = Mul(%p, %p)
%l = ReduceSum(%m) {keepdims: 0}
%o = weft.Output(%l) {name: "loss"})");
  ASSERT_TRUE(SetMode(&g, Mode::kTrain, 3).ok());
  std::vector<Value> parameters;
  for (const char* name : {"w1", "b1", "w2"}) {
    parameters.push_back(g.FindNode(name)->output(0));
  }
  auto grads = AddGradients(&g, g.FindNode("l")->output(0), parameters);
  ASSERT_TRUE(grads.ok()) << grads.status();
  Value lr =
      (*g.Add("Constant", "lr", {}, {{"value", Literal::Scalar(0.125f)}}))
          ->output(0);
  for (int i : {0, 2}) {
    ASSERT_TRUE(
        g.Add("weft.SgdUpdate", "", {parameters[i], (*grads)[i], lr}).ok());
  }
  ASSERT_TRUE(
      g.Add("weft.MomentumUpdate", "",
            {parameters[1], g.FindNode("v1")->output(0), (*grads)[1], lr},
            {{"momentum", 0.5}}, 2)
          .ok());
  Graph before = g.Clone();
  PassContext context;
  auto pipeline = MakeNamedPipeline("default");
  ASSERT_TRUE(pipeline.ok());
  auto changed = pipeline->Run(g, context);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_TRUE(*changed);
  EXPECT_LT(g.num_nodes(), before.num_nodes());
  EXPECT_NE(PrintGraph(g).find("weft.fused"), std::string::npos);
  ExpectSameResults(before, g, 1e-12);
  // Without any kernel but primitives.
  auto primitives = MakePipeline({"decompose", "cse", "dce"});
  ASSERT_TRUE(primitives.ok());
  changed = primitives->Run(g, context);
  ASSERT_TRUE(changed.ok()) << changed.status();
  ExpectSameResults(before, g, 1e-9);
}

TEST(RegistryTest, EveryPassIsListedUnderItsName) {
  for (const PassInfo& info : ListPasses()) {
    auto pass = CreatePass(info.name);
    ASSERT_TRUE(pass.ok()) << info.name;
    EXPECT_EQ((*pass)->Name(), info.name);
    EXPECT_FALSE(info.summary.empty());
  }
}

}  // namespace
}  // namespace weft
