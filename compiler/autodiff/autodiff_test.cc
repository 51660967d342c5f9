#include "compiler/autodiff/autodiff.h"

#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"
#include "core/reference/interpreter.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

Graph Parse(const std::string& body) {
  auto graph = ParseGraph(absl::StrCat("graph \"g\" {\n", body, "}"));
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph("broken");
}

// The value of the weft.Output "loss".
double Loss(const Graph& graph, const Feeds& feeds) {
  auto result = Interpret(graph, feeds);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? result->outputs["loss"].at(0).ToDoubles()[0] : NAN;
}

Literal Nudged(const Literal& value, size_t i, double by) {
  std::vector<double> values = value.ToDoubles();
  values[i] += by;
  return Literal::FromDoubles(value.type(), values);
}

// Compares the gradients of "loss" for all weft.Inputs with central
// differences.
void CheckByDifferences(Graph graph, double tolerance = 1e-6) {
  std::mt19937 random(1);
  Feeds feeds;
  std::vector<Value> wrt;
  Value loss;
  for (const Node* node : std::as_const(graph).Nodes()) {
    if (node->Is(OpId::kOutput)) loss = node->input(0);
    if (!node->Is(OpId::kInput)) continue;
    std::vector<double> values(node->output_type(0).shape.num_elements());
    for (double& v : values) v = 0.1 + (random() % 1000) / 500.0;
    feeds[node->name()] = {Literal::FromDoubles(node->output_type(0), values)};
    wrt.push_back(node->output(0));
  }
  Graph forward = graph.Clone();
  auto gradients = AddGradients(&graph, loss, wrt);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  for (size_t k = 0; k < wrt.size(); ++k) {
    if (!(*gradients)[k].valid()) continue;
    ASSERT_TRUE(graph
                    .Add("weft.Output", "", {(*gradients)[k]},
                         {{"name", graph.node(wrt[k])->name()}})
                    .ok());
  }
  ASSERT_EQ(VerifyGraph(graph), absl::OkStatus()) << PrintGraph(graph);
  auto result = Interpret(graph, feeds);
  ASSERT_TRUE(result.ok()) << result.status() << PrintGraph(graph);
  for (Value v : wrt) {
    const std::string& name = graph.node(v)->name();
    std::vector<double> analytic(graph.type(v).shape.num_elements(), 0);
    if (result->outputs.count(name)) {
      analytic = result->outputs[name].at(0).ToDoubles();
    }
    const Literal value = feeds[name][0];
    for (size_t i = 0; i < analytic.size(); ++i) {
      const double step = 1e-5;
      feeds[name] = {Nudged(value, i, step)};
      double up = Loss(forward, feeds);
      feeds[name] = {Nudged(value, i, -step)};
      double down = Loss(forward, feeds);
      feeds[name] = {value};
      double numeric = (up - down) / (2 * step);
      EXPECT_NEAR(analytic[i], numeric,
                  tolerance * std::max(1.0, std::fabs(numeric)))
          << name << "[" << i << "]\n"
          << PrintGraph(forward);
    }
  }
}

TEST(AutodiffTest, Perceptron) {
  CheckByDifferences(Parse(R"(
%x = weft.Input() {dtype: f64, shape: [3, 4]}
%w1 = weft.Input() {dtype: f64, shape: [4, 5]}
%b1 = weft.Input() {dtype: f64, shape: [5]}
%w2 = weft.Input() {dtype: f64, shape: [5, 2]}
%h = MatMul(%x, %w1)
%a = Add(%h, %b1)
%t = Tanh(%a)
%y = MatMul(%t, %w2)
%p = LogSoftmax(%y) {axis: 1}
%l = ReduceSum(%p) {keepdims: 0}
%o = weft.Output(%l) {name: "loss"}
)"));
}

TEST(AutodiffTest, ManyUsesAndSeveralResults) {
  CheckByDifferences(Parse(R"(
%x = weft.Input() {dtype: f64, shape: [6]}
%s = Split(%x) {axis: 0, split: [2, 4]} : f64[2], f64[4]
%t = Split(%s:1) {axis: 0, split: [2, 2]} : f64[2], f64[2]
%a = Mul(%s, %t)
%b = Mul(%a, %a)
%c = Add(%b, %s)
%l = ReduceSum(%c) {keepdims: 0}
%o = weft.Output(%l) {name: "loss"}
)"));
}

// A random expression over broadcasting operands: smooth ops only, so that
// differences mean something.
TEST(AutodiffTest, RandomGraphs) {
  const char* kUnary[] = {"Tanh", "Sigmoid", "Erf", "Softplus", "Neg"};
  const char* kBinary[] = {"Add", "Sub", "Mul"};
  const char* kShapes[] = {"[2, 3]", "[3]", "[2, 1]", "[]"};
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    std::string body;
    int count = 4;
    for (int i = 0; i < count; ++i) {
      absl::StrAppend(&body, "%v", i,
                      " = weft.Input() {dtype: f64, shape: ", kShapes[i],
                      "}\n");
    }
    auto pick = [&] { return absl::StrCat("%v", random() % count); };
    for (int i = 0; i < 8; ++i) {
      if (random() % 3 == 0) {
        absl::StrAppend(&body, "%v", count, " = ", kUnary[random() % 5], "(",
                        pick(), ")\n");
      } else {
        std::string a = pick(), b = pick();
        absl::StrAppend(&body, "%v", count, " = ", kBinary[random() % 3], "(",
                        a, ", ", b, ")\n");
      }
      ++count;
    }
    absl::StrAppend(&body, "%mean = ReduceMean(%v", count - 1,
                    ") {keepdims: 0}\n%o = weft.Output(%mean) {name: "
                    "\"loss\"}\n");
    CheckByDifferences(Parse(body));
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(AutodiffTest, PlacesAndNamesWhatItAdds) {
  Graph g = Parse(R"(
%x = weft.Input() {dtype: f32, shape: [2, 2]}
%w = weft.Variable() {dtype: f32, shape: [2, 2]}
%fc1 = MatMul(%x, %w) device("cpu:0") stage(2)
%l = ReduceSum(%fc1) {keepdims: 0}
)");
  int32_t first = g.id_bound();
  auto grads = AddGradients(&g, g.FindNode("l")->output(0),
                            {g.FindNode("w")->output(0)});
  ASSERT_TRUE(grads.ok()) << grads.status();
  int placed = 0;
  for (int32_t id = first; id < g.id_bound(); ++id) {
    const Node& node = *g.node(id);
    EXPECT_NE(node.name().find("/grad/"), std::string::npos) << node.name();
    ASSERT_EQ(node.provenance.size(), 1u);
    if (node.name().rfind("fc1/grad/", 0) != 0) continue;
    ++placed;
    EXPECT_EQ(node.device, "cpu:0");
    EXPECT_EQ(node.stage, 2);
    EXPECT_EQ(node.provenance[0], "autodiff: gradient of fc1");
  }
  EXPECT_GT(placed, 0);
}

TEST(AutodiffTest, TheSameGraphGivesTheSameNodes) {
  const std::string body = R"(
%x = weft.Input() {dtype: f32, shape: [2]}
%a = Tanh(%x)
%b = Mul(%a, %x)
%c = Add(%b, %x)
%l = ReduceSum(%c) {keepdims: 0}
)";
  std::string text;
  for (int i = 0; i < 3; ++i) {
    Graph g = Parse(body);
    ASSERT_TRUE(AddGradients(&g, g.FindNode("l")->output(0),
                             {g.FindNode("x")->output(0)})
                    .ok());
    if (i == 0) text = PrintGraph(g);
    EXPECT_EQ(PrintGraph(g), text);
  }
}

TEST(AutodiffTest, NoPathGivesNoGradient) {
  Graph g = Parse(R"(
%x = weft.Input() {dtype: f32, shape: [2]}
%w = weft.Variable() {dtype: f32, shape: [2]}
%i = ArgMax(%w) {axis: 0}
%f = Cast(%i) {to: f32}
%y = Mul(%x, %f)
%l = ReduceSum(%y) {keepdims: 0}
)");
  int nodes = g.num_nodes();
  auto grads = AddGradients(&g, g.FindNode("l")->output(0),
                            {g.FindNode("w")->output(0)});
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_FALSE((*grads)[0].valid());
  EXPECT_EQ(g.num_nodes(), nodes);
}

TEST(AutodiffTest, AnOpWithoutAGradientIsNamedOnlyOnThePath) {
  const std::string body = R"(
%x = weft.Variable() {dtype: f32, shape: [2]}
%w = weft.Variable() {dtype: f32, shape: [2]}
%block = weft.fused(%w) {program: [20, 0, 0, 0], outputs: [1]}
%y = Mul(%x, %block)
%l = ReduceSum(%y) {keepdims: 0}
)";
  Graph g = Parse(body);
  absl::Status status =
      AddGradients(&g, g.FindNode("l")->output(0), {g.FindNode("w")->output(0)})
          .status();
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kNoGradient);
  EXPECT_NE(status.message().find("'block' (weft.fused)"),
            absl::string_view::npos)
      << status;
  Graph h = Parse(body);
  EXPECT_TRUE(
      AddGradients(&h, h.FindNode("l")->output(0), {h.FindNode("x")->output(0)})
          .ok());
}

TEST(AutodiffTest, TheLossMustBeAFloatingPointScalar) {
  Graph g = Parse(R"(
%x = weft.Input() {dtype: f32, shape: [2]}
%i = weft.Input() {dtype: i32, shape: []}
)");
  Value x = g.FindNode("x")->output(0);
  EXPECT_EQ(ErrorCodeOf(AddGradients(&g, x, {x}).status()),
            ErrorCode::kShapeMismatch);
  EXPECT_EQ(
      ErrorCodeOf(AddGradients(&g, g.FindNode("i")->output(0), {x}).status()),
      ErrorCode::kDTypeMismatch);
}

}  // namespace
}  // namespace weft
