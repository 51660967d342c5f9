#include "core/graph/text.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/error.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

// What was printed parses to a graph that prints the same.
void ExpectRoundTrip(const Graph& graph) {
  PrintOptions options;
  options.provenance = true;
  std::string text = PrintGraph(graph, options);
  auto again = ParseGraph(text);
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
  EXPECT_EQ(PrintGraph(*again, options), text);
  ASSERT_EQ(again->num_nodes(), graph.num_nodes());
  for (const Node* node : graph.Nodes()) {
    const Node* same = again->FindNode(node->name());
    ASSERT_NE(same, nullptr) << node->name();
    EXPECT_TRUE(same->attrs() == node->attrs()) << node->name();
    EXPECT_EQ(same->device, node->device);
    EXPECT_EQ(same->stage, node->stage);
    EXPECT_EQ(same->provenance, node->provenance);
  }
}

void ExpectError(absl::string_view text, ErrorCode code, absl::string_view part,
                 ParseLimits limits = {}) {
  auto graph = ParseGraph(text, limits);
  ASSERT_FALSE(graph.ok()) << text;
  EXPECT_EQ(ErrorCodeOf(graph.status()), code) << graph.status();
  EXPECT_NE(graph.status().message().find(part), absl::string_view::npos)
      << graph.status();
}

TEST(TextTest, PrintsTheDocumentedForm) {
  const char text[] = R"(graph "mlp" {
  %x = weft.Input() {dtype: f32, shape: [8, 4]} : f32[8,4]
  %fc1/weight = weft.Variable() {dtype: f32, shape: [4, 6]} : f32[4,6]
  %h = MatMul(%x, %fc1/weight) : f32[8,6]
  %s = Split(%h) {axis: 1, split: [2, 4]} : f32[8,2], f32[8,4]
  %y = Relu(%s:1) : f32[8,4] device("cpu:0") stage(1)
  %"odd name" = LeakyRelu(%y) {alpha: 0.1} : f32[8,4] control(%h, %s)
  %out = weft.Output(%"odd name") {name: "logits"}
}
)";
  auto graph = ParseGraph(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(PrintGraph(*graph), text);
  ExpectRoundTrip(*graph);
}

TEST(TextTest, AbsentOperandCommentsAndOmittedTypes) {
  auto graph = ParseGraph(R"(// a comment
graph "g" {  %a = weft.Input(){shape:[2,2],dtype:f32} // types may be left out
 %y = Gemm(%a, %a, _) {alpha: 2}
})");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const Node* y = graph->FindNode("y");
  EXPECT_FALSE(y->input(2).valid());
  EXPECT_EQ(y->attrs().Find("alpha")->f(), 2.0);
  ExpectRoundTrip(*graph);
}

Literal Roundtrip(const Literal& value) {
  Graph g("g");
  EXPECT_TRUE(g.Add("Constant", "c", {}, {{"value", value}}).ok());
  auto again = ParseGraph(PrintGraph(g));
  EXPECT_TRUE(again.ok()) << again.status() << PrintGraph(g);
  if (!again.ok()) return Literal();
  return again->FindNode("c")->attrs().Find("value")->tensor();
}

TEST(TextTest, TensorsOfEveryDTypeKeepTheirBits) {
  for (uint32_t id = 1; id < kNumDTypes; ++id) {
    DType dtype = static_cast<DType>(id);
    Literal few = Literal::FromDoubles({dtype, {3}}, {0, 1, 0.1});
    EXPECT_TRUE(Roundtrip(few) == few) << DTypeName(dtype);
    Literal splat = Literal::Splat({dtype, {40}}, 1);
    EXPECT_TRUE(Roundtrip(splat) == splat) << DTypeName(dtype);
    std::vector<double> values(100);
    for (int i = 0; i < 100; ++i) values[i] = i % 7;
    Literal many = Literal::FromDoubles({dtype, {100}}, values);
    EXPECT_TRUE(Roundtrip(many) == many) << DTypeName(dtype);
    Literal none = Literal({dtype, {0, 2}}, "");
    EXPECT_TRUE(Roundtrip(none) == none) << DTypeName(dtype);
  }
}

TEST(TextTest, HardValuesKeepTheirBits) {
  double inf = std::numeric_limits<double>::infinity();
  double payload;
  uint64_t bits = 0xfff8000000001234;
  std::memcpy(&payload, &bits, 8);
  for (const Literal& value : {
           Literal::Of<double>({4},
                               {-0.0, 5e-324, 1.7976931348623157e308, 0.1}),
           Literal::Of<double>({3}, {inf, -inf, std::nan("")}),
           Literal::Of<double>({}, {payload}),
           Literal::Of<float>({3}, {0.1f, -1e-45f, 16777217.0f}),
           Literal::Of<int64_t>({2}, {std::numeric_limits<int64_t>::min(),
                                      std::numeric_limits<int64_t>::max()}),
           Literal::Of<uint8_t>({2}, {0, 255}),
           Literal::Of<int8_t>({2}, {-128, 127}),
       }) {
    EXPECT_TRUE(Roundtrip(value) == value) << value.type().ToString();
  }
}

TEST(TextTest, FloatsPrintShort) {
  Graph g("g");
  ASSERT_TRUE(g.Add("Constant", "c", {},
                    {{"value", Literal::Of<float>({2}, {0.1f, 3.0f})}})
                  .ok());
  EXPECT_NE(PrintGraph(g).find("tensor(f32[2], [0.1, 3.0])"), std::string::npos)
      << PrintGraph(g);
}

TEST(TextTest, ProvenanceIsOptionalAndExact) {
  Graph g("g \"quoted\" \n \x01");
  Node* c = *g.Add("Constant", "c", {}, {{"value", Literal::Scalar(1.0f)}});
  c->provenance = {"autodiff: gradient of \"fc1\"", "fold"};
  EXPECT_EQ(PrintGraph(g).find("origin"), std::string::npos);
  ExpectRoundTrip(g);
}

TEST(TextTest, PrintsInTopologicalOrder) {
  auto parsed = ParseGraph(
      "graph \"g\" {%x = weft.Input() {dtype: f32, shape: [2]}"
      "%y = Neg(%x) %z = Relu(%x)}");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  Graph& g = *parsed;
  ASSERT_TRUE(
      g.SetInput(g.FindNode("y")->id(), 0, g.FindNode("z")->output(0)).ok());
  std::string text = PrintGraph(g);
  EXPECT_LT(text.find("%z ="), text.find("%y ="));
  ExpectRoundTrip(g);
}

TEST(TextTest, ErrorsHaveAPlaceAndASuggestion) {
  const std::string x =
      "graph \"g\" {\n%input = weft.Input() {dtype: f32, shape: [2]}\n";
  ExpectError("", ErrorCode::kGraphSyntax, "1:1");
  ExpectError("graph g", ErrorCode::kGraphSyntax, "1:7");
  ExpectError(x, ErrorCode::kGraphSyntax, "3:1");
  ExpectError(x + "} x", ErrorCode::kGraphSyntax, "3:3");
  ExpectError(x + "%y = Relu(%inptu)}", ErrorCode::kGraphSyntax,
              "3:11: no node 'inptu' before this; did you mean 'input'?");
  ExpectError(x + "%y = Relu(%input:1)}", ErrorCode::kGraphSyntax,
              "no result 1");
  ExpectError(x + "%y = Rellu(%input)}", ErrorCode::kUnknownOp, "3:6");
  ExpectError(x + "%input = Relu(%input)}", ErrorCode::kGraphSyntax,
              "second node named 'input'");
  ExpectError(x + "%y = LeakyRelu(%input) {alfa: 1}}",
              ErrorCode::kUnknownAttribute, "3:1");
  ExpectError(x + "%y = LeakyRelu(%input) {alpha: 1, alpha: 2}}",
              ErrorCode::kGraphSyntax, "given twice");
  ExpectError(x + "%y = LeakyRelu(%input) {alpha: 1e999}}",
              ErrorCode::kGraphSyntax, "64-bit number");
  ExpectError(x + "%y = Relu(%input) : f32[3]}", ErrorCode::kShapeMismatch,
              "3:21: result 0 of node 'y' is written as f32[3], inference "
              "gives f32[2]");
  ExpectError(x + "%y = Relu(%input) : f64[2]}", ErrorCode::kDTypeMismatch,
              "f64[2]");
  ExpectError(x + "%y = Relu(%input) : f99[2]}", ErrorCode::kDTypeMismatch,
              "3:21");
  ExpectError(x + "%y = Relu(%input) stag(1)}", ErrorCode::kGraphSyntax,
              "did you mean 'stage'?");
  ExpectError(x + "%y = Relu(%input) device(\"cpu}", ErrorCode::kGraphSyntax,
              "not closed");
  ExpectError(x + "%c = Constant() {value: tensor(u8[1], [256])}}",
              ErrorCode::kGraphSyntax, "does not fit u8");
  ExpectError(x + "%c = Constant() {value: tensor(u8[2], [1])}}",
              ErrorCode::kGraphSyntax, "1 values");
  ExpectError(x + "%c = Constant() {value: tensor(f32[2], \"AAAA\")}}",
              ErrorCode::kGraphSyntax, "8 bytes in base64");
}

TEST(TextTest, LimitsAreChecked) {
  const char text[] =
      "graph \"g\" {%x = weft.Input() {dtype: f32, shape: [2]}"
      "%y = Add(%x, %x)}";
  ParseLimits limits;
  limits.bytes = 10;
  ExpectError(text, ErrorCode::kGraphSyntax, "more than 10", limits);
  limits = {};
  limits.nodes = 1;
  ExpectError(text, ErrorCode::kGraphSyntax, "more than 1 nodes", limits);
  limits = {};
  limits.operands = 1;
  ExpectError(text, ErrorCode::kGraphSyntax, "more than 1 operands", limits);
  ExpectError(
      "graph \"g\" {%c = Constant() {value: tensor(f32[1000000000], "
      "splat(0.0))}}",
      ErrorCode::kGraphSyntax, "in one text");
  ExpectError(
      "graph \"g\" {%c = Constant() {value: tensor(f32[1,1,1,1,1,1,1,"
      "1,1], [0.0])}}",
      ErrorCode::kGraphSyntax, "more than 8 dimensions");
  ExpectError(
      "graph \"g\" {%c = Constant() {value: tensor(f32[4611686018427387"
      "904,4], [0.0])}}",
      ErrorCode::kShapeMismatch, "too large");
}

}  // namespace
}  // namespace weft
