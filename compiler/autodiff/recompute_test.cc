#include "compiler/autodiff/recompute.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/autodiff/autodiff.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"
#include "core/reference/interpreter.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

// Three products with the given statements between, which make %p of %a and %q
// of %b.
std::string Model(const std::string& p, const std::string& q, int rows = 128) {
  return absl::StrCat("graph \"g\" {\n%x = weft.Input() {dtype: f32, shape: [",
                      rows, R"(, 256]}
%w1 = weft.Variable() {dtype: f32, shape: [256, 256]}
%w2 = weft.Variable() {dtype: f32, shape: [256, 256]}
%w3 = weft.Variable() {dtype: f32, shape: [256, 256]}
%a = MatMul(%x, %w1)
)",
                      p, "\n%b = MatMul(%p, %w2)\n", q, R"(
%c = MatMul(%q, %w3)
%loss = ReduceSum(%c) {keepdims: 0}
%o = weft.Output(%loss) {name: "loss"}
})");
}

constexpr char kGeluP[] = "%p = weft.Gelu(%a)";
constexpr char kAbsQ[] = "%q = Abs(%b)";

struct Differentiated {
  Graph graph{"g"};
  int32_t first_gradient = 0;
};

Differentiated Differentiate(const std::string& text,
                             const absl::flat_hash_set<Value>& again = {}) {
  Differentiated d;
  absl::StatusOr<Graph> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return d;
  d.graph = *std::move(graph);
  d.first_gradient = d.graph.id_bound();
  std::vector<Value> wrt;
  for (const char* name : {"w1", "w2", "w3"}) {
    wrt.push_back(d.graph.FindNode(name)->output(0));
  }
  auto gradients =
      AddGradients(&d.graph, d.graph.FindNode("loss")->output(0), wrt, again);
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  for (Value gradient : *gradients) {
    EXPECT_TRUE(d.graph
                    .Add("weft.Output", "", {gradient},
                         {{"name", d.graph.ValueName(gradient)}})
                    .ok());
  }
  EXPECT_TRUE(VerifyGraph(d.graph).ok()) << VerifyGraph(d.graph);
  return d;
}

absl::flat_hash_set<Value> Choose(const std::string& text, double percent) {
  const Differentiated d = Differentiate(text);
  return ChooseRecomputation(d.graph, d.first_gradient, percent);
}

std::vector<std::string> Names(const std::string& text, double percent) {
  const Differentiated d = Differentiate(text);
  std::vector<std::string> names;
  for (Value v : ChooseRecomputation(d.graph, d.first_gradient, percent)) {
    names.push_back(d.graph.ValueName(v));
  }
  std::sort(names.begin(), names.end());
  return names;
}

using List = std::vector<std::string>;

TEST(RecomputeTest, TakesWhatOnePassMakesOfWhatIsThere) {
  // The gradients of Gelu and Abs read their operands, those of products both.
  EXPECT_EQ(Names(Model(kGeluP, kAbsQ), 100), (List{"p", "q"}));
  // That of Sigmoid reads its result: its operand is not there.
  EXPECT_EQ(Names(Model(kGeluP, "%q = Sigmoid(%b)"), 100), List{"p"});
  // No gradient reads a, nor what lies between it and p.
  EXPECT_EQ(Names(Model("%between = Neg(%a)\n%p = Neg(%between)", kAbsQ), 100),
            List{"q"});
  // One reads a: what lies between is made again too.
  EXPECT_EQ(
      Names(Model("%between = weft.Gelu(%a)\n%p = Neg(%between)", kAbsQ), 100),
      (List{"between", "p", "q"}));
  // What follows from variables alone is held for the whole step.
  EXPECT_EQ(Names(Model(kGeluP, "%v = Neg(%w3)\n%q = Mul(%b, %v)", 256), 100),
            (List{"p", "q"}));
  // Small tensors are not worth a node.
  EXPECT_EQ(Names(Model(kGeluP, kAbsQ, /*rows=*/32), 100), List());
}

TEST(RecomputeTest, StaysWithinItsTimeAndTakesTheBestFirst) {
  const std::string model = Model(kGeluP, kAbsQ);
  EXPECT_EQ(Names(model, 0), List());
  // Abs is cheaper than Gelu, for as many bytes.
  double percent = 0.01;
  List names;
  while (names.empty() && percent < 100) names = Names(model, percent *= 1.1);
  EXPECT_EQ(names, List{"q"});
}

TEST(RecomputeTest, GradientsReadTheOtherOneAndAreTheSame) {
  const std::string text =
      Model("%between = weft.Gelu(%a)\n%p = Neg(%between)", kAbsQ);
  const Differentiated kept = Differentiate(text);
  const Differentiated again = Differentiate(text, Choose(text, 100));
  for (const char* name : {"p", "q"}) {
    const Node* node = again.graph.FindNode(absl::StrCat(name, "/again"));
    ASSERT_NE(node, nullptr) << name;
    EXPECT_EQ(node->control_inputs().size(), 1u);
    EXPECT_GE(node->control_inputs()[0], again.first_gradient);
    for (const auto& [user, position] :
         again.graph.Uses(again.graph.FindNode(name)->output(0))) {
      EXPECT_LT(user, again.first_gradient) << again.graph.node(user)->name();
    }
  }
  Feeds feeds;
  for (const Node* node : kept.graph.Nodes()) {
    if (!node->Is(OpId::kVariable) && !node->Is(OpId::kInput)) continue;
    const TensorType& type = node->output_type(0);
    std::vector<double> values(type.shape.num_elements());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 0.01 * static_cast<double>(i * 37 % 41) - 0.2;
    }
    feeds[node->name()] = {Literal::FromDoubles(type, values)};
  }
  auto x = Interpret(kept.graph, feeds), y = Interpret(again.graph, feeds);
  ASSERT_TRUE(x.ok() && y.ok()) << x.status() << y.status();
  EXPECT_EQ(x->outputs.size(), 4u);
  EXPECT_EQ(x->outputs, y->outputs);
}

}  // namespace
}  // namespace weft
