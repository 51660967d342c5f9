#include "core/graph/graph.h"

#include "core/base/error.h"
#include "core/graph/verify.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

Node* Input(Graph* g, const char* name, std::vector<int64_t> shape) {
  return *g->Add("weft.Input", name, {},
                 {{"dtype", DType::kF32}, {"shape", std::move(shape)}});
}

TEST(GraphTest, InfersTypesAndMakesNamesUnique) {
  Graph g("g");
  Node* x = Input(&g, "x", {2, 3});
  Node* a = *g.Add("Relu", "a", {x->output(0)});
  Node* b = *g.Add("Relu", "a", {x->output(0)});
  Node* c = *g.Add("Relu", "", {x->output(0)});
  EXPECT_EQ(a->output_type(0).ToString(), "f32[2,3]");
  EXPECT_EQ(b->name(), "a_1");
  EXPECT_EQ(c->name(), "relu");
  EXPECT_EQ(g.FindNode("a_1"), b);
  EXPECT_EQ(g.FindNode("zz"), nullptr);
  ASSERT_TRUE(g.Remove(b->id()).ok());
  EXPECT_EQ(g.num_nodes(), 3);
  EXPECT_EQ(g.id_bound(), 4);
  EXPECT_EQ((*g.Add("Relu", "a", {x->output(0)}))->id(), 4);
}

TEST(GraphTest, ErrorsNameNodeShapesAndOrigin) {
  Graph g("g");
  Node* x = Input(&g, "x", {2, 3});
  Node* w = Input(&g, "w", {4, 5});
  absl::Status status =
      g.Add("MatMul", "fc1", {x->output(0), w->output(0)}).status();
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kShapeMismatch);
  for (const char* part : {"'fc1'", "[2,3]", "[4,5]", "'x'", "'w'"}) {
    EXPECT_NE(status.message().find(part), absl::string_view::npos)
        << part << " in " << status.message();
  }
  EXPECT_EQ(g.num_nodes(), 2);
  status = g.Add("Rellu", "y", {x->output(0)}).status();
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kUnknownOp);
  EXPECT_NE(status.message().find("Relu"), absl::string_view::npos);
  status = g.Add("Relu", "y", {Value{7, 0}}).status();
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kBadGraph);
  status = g.Add("Relu", "y", {Value{x->id(), 1}}).status();
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kBadGraph);
}

TEST(GraphTest, TopologicalOrderTakesSmallestReadyId) {
  Graph g("g");
  Node* x = Input(&g, "x", {2});
  Node* y = Input(&g, "y", {2});
  Node* a = *g.Add("Add", "a", {x->output(0), y->output(0)});
  Node* late = Input(&g, "late", {2});
  ASSERT_TRUE(g.SetInput(a->id(), 1, late->output(0)).ok());
  g.AddControlInput(y->id(), a->id());
  auto order = g.TopologicalOrder();
  ASSERT_TRUE(order.ok());
  std::vector<std::string> names;
  for (const Node* n : *order) names.push_back(n->name());
  EXPECT_EQ(names, (std::vector<std::string>{"x", "late", "a", "y"}));
}

// What the first sends is made anew, with a late id; the second is ready
// before.
TEST(GraphTest, TopologicalOrderKeepsThatOfChannels) {
  Graph g("g");
  const auto send = [&g](const char* name, Node* of) {
    return *g.Add("weft.Send", name, {of->output(0)},
                  {{"channel", name}, {"peer", 1}, {"rate", "micro"}});
  };
  const auto names = [&g] {
    std::string out;
    const auto order = g.TopologicalOrder();
    EXPECT_TRUE(order.ok()) << order.status();
    for (const Node* n : *order) absl::StrAppend(&out, n->name(), " ");
    return out;
  };
  Node* x = Input(&g, "x", {2});
  Node* first = send("first", x);
  Node* second = send("second", x);
  Node* third = send("third", x);
  Node* late = *g.Add("Relu", "late", {x->output(0)});
  ASSERT_TRUE(g.SetInput(first->id(), 0, late->output(0)).ok());
  EXPECT_EQ(names(), "x late first second third ");
  // Edges come first.
  g.AddControlInput(late->id(), second->id());
  EXPECT_EQ(names(), "x second late first third ");
  g.AddControlInput(second->id(), third->id());
  EXPECT_EQ(names(), "x third second late first ");
}

TEST(GraphTest, CycleIsNamed) {
  Graph g("g");
  Node* x = Input(&g, "x", {2});
  Node* a = *g.Add("Relu", "a", {x->output(0)});
  Node* b = *g.Add("Relu", "b", {a->output(0)});
  ASSERT_TRUE(g.SetInput(a->id(), 0, b->output(0)).ok());
  absl::Status status = g.TopologicalOrder().status();
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kBadGraph);
  EXPECT_NE(status.message().find("'a'"), absl::string_view::npos);
  EXPECT_NE(status.message().find("'b'"), absl::string_view::npos);
  EXPECT_EQ(status.message().find("'x'"), absl::string_view::npos);
}

TEST(GraphTest, UsesFollowRewrites) {
  Graph g("g");
  Value x = Input(&g, "x", {2})->output(0);
  Value y = Input(&g, "y", {2})->output(0);
  Node* a = *g.Add("Add", "a", {x, x});
  Node* b = *g.Add("Relu", "b", {x});
  using Uses = std::vector<std::pair<int32_t, int>>;
  EXPECT_EQ(g.Uses(x), (Uses{{a->id(), 0}, {a->id(), 1}, {b->id(), 0}}));
  ASSERT_TRUE(g.ReplaceUses(x, y).ok());
  EXPECT_TRUE(g.Uses(x).empty());
  EXPECT_EQ(g.Uses(y).size(), 3u);
  EXPECT_EQ(g.View(*a).input(1).ToString(), "f32[2]");
  // y = f(x) takes x's place without reading itself.
  Node* n = *g.Add("Neg", "n", {y});
  ASSERT_TRUE(g.ReplaceUses(y, n->output(0)).ok());
  EXPECT_EQ(n->input(0), y);
  EXPECT_EQ(b->input(0), n->output(0));
  EXPECT_EQ(g.Uses(n->output(0)).size(), 3u);
  EXPECT_EQ(g.Uses(y), (Uses{{n->id(), 0}}));
  // What does not fit changes nothing.
  Value wide = Input(&g, "wide", {3})->output(0);
  EXPECT_FALSE(g.ReplaceUses(n->output(0), wide).ok());
  EXPECT_EQ(g.Uses(n->output(0)).size(), 3u);
  EXPECT_TRUE(g.Uses(wide).empty());
}

// Copying the uses for each of them would take minutes.
TEST(GraphTest, AValueMayHaveVeryManyUses) {
  Graph g("g");
  Value x = Input(&g, "x", {2})->output(0);
  Value y = Input(&g, "y", {2})->output(0);
  const size_t readers = 60000;
  for (size_t i = 0; i < readers; ++i) {
    ASSERT_TRUE(g.Add("Relu", "r", {x}).ok());
  }
  EXPECT_EQ(VerifyGraph(g), absl::OkStatus());
  ASSERT_TRUE(g.ReplaceUses(x, y).ok());
  EXPECT_EQ(g.Uses(y).size(), readers);
  EXPECT_EQ(VerifyGraph(g), absl::OkStatus());
}

TEST(GraphTest, NamesThatNoCheckpointCouldKeep) {
  Graph g("g");
  for (const char* name : {"__metadata__", "\xff", "a\xc0\xafz"}) {
    absl::Status status =
        g.Add("weft.Input", name, {},
              {{"dtype", DType::kF32}, {"shape", std::vector<int64_t>{2}}})
            .status();
    EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kBadGraph) << name;
    EXPECT_EQ(status.message().find('\xff'), absl::string_view::npos);
  }
  EXPECT_EQ(g.num_nodes(), 0);
  EXPECT_EQ(Input(&g, "gr\xc3\xbc\xc3\x9f", {2})->name(), "gr\xc3\xbc\xc3\x9f");
}

TEST(GraphTest, RewritesThatChangeTypesAreRefused) {
  Graph g("g");
  Value x = Input(&g, "x", {2})->output(0);
  Value wide = Input(&g, "wide", {3})->output(0);
  Node* a = *g.Add("Relu", "a", {x});
  EXPECT_EQ(ErrorCodeOf(g.SetInput(a->id(), 0, wide)), ErrorCode::kBadGraph);
  EXPECT_EQ(a->input(0), x);
  Node* source = g.node(x);
  EXPECT_EQ(
      ErrorCodeOf(g.SetAttr(source->id(), "shape", std::vector<int64_t>{5})),
      ErrorCode::kBadGraph);
  EXPECT_EQ(ErrorCodeOf(g.SetAttr(source->id(), "shappe", 1)),
            ErrorCode::kUnknownAttribute);
  EXPECT_TRUE(g.SetAttr(wide.node, "shape", std::vector<int64_t>{5}).ok());
  EXPECT_EQ(g.type(wide).ToString(), "f32[5]");
}

TEST(GraphTest, RemoveRefusesWhatIsInUse) {
  Graph g("g");
  Node* x = Input(&g, "x", {2});
  Node* a = *g.Add("Relu", "a", {x->output(0)});
  Node* b = Input(&g, "b", {2});
  g.AddControlInput(b->id(), a->id());
  EXPECT_EQ(ErrorCodeOf(g.Remove(x->id())), ErrorCode::kBadGraph);
  EXPECT_EQ(ErrorCodeOf(g.Remove(a->id())), ErrorCode::kBadGraph);
  g.RemoveControlInput(b->id(), a->id());
  EXPECT_TRUE(g.Remove(a->id()).ok());
  EXPECT_TRUE(g.Remove(x->id()).ok());
  EXPECT_FALSE(g.Contains(0));
}

TEST(GraphTest, CloneIsIndependent) {
  Graph g("g");
  Node* x = Input(&g, "x", {2});
  Graph copy = g.Clone();
  ASSERT_TRUE(copy.Add("Relu", "a", {x->output(0)}).ok());
  EXPECT_EQ(g.num_nodes(), 1);
  EXPECT_EQ(copy.num_nodes(), 2);
  EXPECT_TRUE(g.Remove(x->id()).ok());
  EXPECT_NE(copy.FindNode("x"), nullptr);
}

TEST(GraphEmitterTest, NamesPlacesAndKeepsTheFirstError) {
  Graph g("g");
  Node* x = Input(&g, "x", {2});
  GraphEmitter emit(&g, "fc1/grad", "autodiff: gradient of fc1");
  emit.set_placement("cpu:0", 3);
  Value v = emit.Emit1("weft.Gelu", {x->output(0)});
  ASSERT_TRUE(v.valid());
  EXPECT_EQ(g.node(v)->name(), "fc1/grad/gelu");
  EXPECT_EQ(g.node(v)->device, "cpu:0");
  EXPECT_EQ(g.node(v)->stage, 3);
  EXPECT_EQ(g.node(v)->provenance.at(0), "autodiff: gradient of fc1");
  EXPECT_FALSE(emit.Emit1("Nope", {v}).valid());
  EXPECT_FALSE(emit.Emit1("Relu", {v}).valid());
  EXPECT_EQ(ErrorCodeOf(emit.status()), ErrorCode::kUnknownOp);
}

}  // namespace
}  // namespace weft
