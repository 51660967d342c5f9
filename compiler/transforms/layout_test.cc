#include "compiler/transforms/layout.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/transforms/testing.h"
#include "core/ops/image_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A device with kernels for everything.
PassSettings All() {
  PassSettings settings;
  settings.runs_as_kernel = [](const Graph&, const Node&) { return true; };
  return settings;
}

// A device without kernels for blocks of `op`.
PassSettings AllBut(OpId op) {
  PassSettings settings;
  settings.runs_as_kernel = [op](const Graph&, const Node& node) {
    return !node.Is(op);
  };
  return settings;
}

int Count(const std::string& body, const std::string& op) {
  int count = 0;
  for (size_t at = body.find(op + "("); at != std::string::npos;
       at = body.find(op + "(", at + 1)) {
    ++count;
  }
  return count;
}

constexpr char kParameters[] = R"(
%w1 = weft.Variable() {dtype: f32, shape: [16, 1, 3, 3]}
%b1 = weft.Variable() {dtype: f32, shape: [16]}
%w2 = weft.Variable() {dtype: f32, shape: [32, 16, 3, 3]}
)";
constexpr char kInput[] = "%x = weft.Input() {dtype: f32, shape: [2, 1, 8, 8]}";

// Input of one channel, a pool, Relu, a second convolution, Flatten.
std::string Net() {
  return absl::StrCat(kInput, kParameters, R"(
%c1 = Conv(%x, %w1, %b1) {pads: [1,1,1,1]}
%p = MaxPool(%c1) {kernel_shape: [2,2], strides: [2,2]}
%r = Relu(%p)
%c2 = Conv(%r, %w2)
%f = Flatten(%c2)
%o = weft.Output(%f) {name: "y"})");
}

TEST(LayoutTest, TurnsARegionAndItsBorders) {
  PassRun run = RunPass("layout", Net(), All());
  EXPECT_TRUE(run.changed);
  EXPECT_EQ(
      run.body,
      absl::StrCat(kInput, kParameters,
                   R"(%c1/blocks = Conv(%x, %w1, %b1) {out_layout: "NCHW16c", )"
                   R"(pads: [1, 1, 1, 1]}
%p/blocks = MaxPool(%c1/blocks) {kernel_shape: [2, 2], layout: "NCHW16c", )"
                   R"(strides: [2, 2]}
%r/blocks = Relu(%p/blocks)
%c2/blocks = Conv(%r/blocks, %w2) {layout: "NCHW16c", out_layout: "NCHW16c"}
%c2/as_planes/transpose = Transpose(%c2/blocks) {perm: [0, 1, 4, 2, 3]}
%c2/as_planes/reshape = Reshape(%c2/as_planes/transpose) )"
                   R"({shape: [2, 32, 2, 2]}
%f = Flatten(%c2/as_planes/reshape)
%o = weft.Output(%f) {name: "y"}
)"));
}

TEST(LayoutTest, KeepsResults) {
  ExpectSameResults("layout", Net(), All(), 1e-6);
}

TEST(LayoutTest, SaysWhy) {
  Graph graph = ParseBody(Net());
  PassContext context{All()};
  ASSERT_TRUE(CreateLayoutPass()->Run(graph, context).ok());
  const Node* conv = graph.FindNode("c1/blocks");
  ASSERT_NE(conv, nullptr);
  ASSERT_FALSE(conv->provenance.empty());
  EXPECT_EQ(conv->provenance.back(),
            "layout: c1, images in blocks of 16 channels");
  EXPECT_THAT(graph.FindNode("c2/as_planes/transpose")->provenance.back(),
              HasSubstr("layout: "));
}

// No answers, a refusal, nothing that fills blocks, nothing to gain.
TEST(LayoutTest, LeavesAlone) {
  EXPECT_EQ(Untouched("layout", Net()), "");
  EXPECT_EQ(Untouched("layout", Net(), AllBut(OpId::kConv)), "");
  EXPECT_EQ(Untouched("layout", absl::StrCat(kInput, R"(
%w = weft.Variable() {dtype: f32, shape: [12, 1, 3, 3]}
%c = Conv(%x, %w)
%o = weft.Output(%c) {name: "y"})"),
                      All()),
            "");
  EXPECT_EQ(Untouched("layout", R"(
%x = weft.Input() {dtype: f32, shape: [2, 16, 8, 8]}
%p = MaxPool(%x) {kernel_shape: [2,2]}
%r = Relu(%p)
%o = weft.Output(%r) {name: "y"})",
                      All()),
            "");
  EXPECT_EQ(Untouched("layout", absl::StrCat(kInput, kParameters, R"(
%c = Conv(%x, %w1) control(%b1)
%o = weft.Output(%c) {name: "y"})"),
                      All()),
            "");
  // A graph that is in blocks already.
  std::string done = RunPass("layout", Net(), All()).body;
  EXPECT_EQ(Untouched("layout", done, All()), "");
}

// A pool that the device has no kernel for stays between two borders.
TEST(LayoutTest, GoesAroundARefusal) {
  PassRun run = RunPass("layout", Net(), AllBut(OpId::kMaxPool));
  EXPECT_THAT(run.body, HasSubstr("%p = MaxPool(%c1/as_planes/reshape) "));
  EXPECT_THAT(run.body, HasSubstr("%c2/blocks = Conv("));
  ExpectSameResults("layout", Net(), AllBut(OpId::kMaxPool), 1e-6);
}

// Two readers, one of them outside: turned once.
TEST(LayoutTest, TurnsAValueOnce) {
  const std::string body = absl::StrCat(R"(
%x = weft.Input() {dtype: f32, shape: [2, 16, 6, 6]}
%w = weft.Variable() {dtype: f32, shape: [16, 16, 3, 3]}
%v = weft.Variable() {dtype: f32, shape: [16, 16, 1, 1]}
%a = Conv(%x, %w) {pads: [1,1,1,1]}
%b = Conv(%x, %v)
%s = Add(%a, %b)
%r = Relu(%s)
%f = Flatten(%r)
%g = Softmax(%r) {axis: 3}
%o = weft.Output(%f) {name: "y"}
%q = weft.Output(%g) {name: "z"})");
  PassRun run = RunPass("layout", body, All());
  EXPECT_EQ(Count(run.body, "Transpose"), 2) << run.body;
  EXPECT_THAT(run.body, HasSubstr("%s/blocks = Add(%a/blocks, %b/blocks)"));
  ExpectSameResults("layout", body, All(), 1e-6);
}

// Operands that broadcast: a number, one a channel, one a pixel.
TEST(LayoutTest, TurnsBroadcastsByReshape) {
  const std::string body = absl::StrCat(R"(
%x = weft.Input() {dtype: f32, shape: [2, 16, 3, 5]}
%k = weft.Input() {dtype: f32, shape: [32, 1, 1]}
%n = weft.Input() {dtype: f32, shape: [2, 32, 1, 1]}
%h = weft.Input() {dtype: f32, shape: [3, 5]}
%two = Constant() {value: tensor(f32[], [2.0])}
%w = weft.Variable() {dtype: f32, shape: [32, 16, 1, 1]}
%c = Conv(%x, %w)
%a = Add(%c, %k)
%b = Mul(%a, %two)
%d = Sub(%b, %n)
%e = Mul(%d, %h)
%g = GlobalAveragePool(%e)
%o = weft.Output(%g) {name: "y"})");
  PassRun run = RunPass("layout", body, All());
  EXPECT_THAT(run.body, HasSubstr("%e/blocks = Mul("));
  // The image itself; its result of one pixel is turned by a Reshape.
  EXPECT_EQ(Count(run.body, "Transpose"), 1) << run.body;
  ExpectSameResults("layout", body, All(), 1e-6);
}

// A whole training step: gradients, batch norm, a shortcut.
TEST(LayoutTest, TurnsGradients) {
  const std::string body =
      absl::StrCat(R"(
%x = weft.Input() {dtype: f32, shape: [2, 16, 4, 4]}
%dy = weft.Input() {dtype: f32, shape: [2, 16, 1, 1]}
%w = weft.Variable() {dtype: f32, shape: [16, 16, 3, 3]}
%s = weft.Variable() {dtype: f32, shape: [16]}
%zero = Constant() {value: tensor(f32[], [0.0])}
%c = Conv(%x, %w) {pads: [1,1,1,1]}
%n = weft.BatchNormTraining(%c, %s, %s)
%t = Add(%n, %x)
%r = Relu(%t)
%g = GlobalAveragePool(%r)
%e = Expand(%dy) {shape: [2, 16, 4, 4]}
%p = Greater(%r, %zero)
%d = Where(%p, %e, %zero)
%dn = weft.BatchNormGrad(%d, %c, %s, %n:1, %n:2)
%dx = weft.ConvGradInput(%dn, %w) {input_shape: [2,16,4,4], pads: [1,1,1,1]}
%dw = weft.ConvGradWeights(%dn, %x) {pads: [1,1,1,1], )"
                   R"(weight_shape: [16,16,3,3]} : f32[16,16,3,3], f32[16]
%dt = Add(%dx, %d)
%o1 = weft.Output(%g) {name: "y"}
%o2 = weft.Output(%dt) {name: "dx"}
%o3 = weft.Output(%dw) {name: "dw"}
%o4 = weft.Output(%dw:1) {name: "dbias"}
%o5 = weft.Output(%dn:1) {name: "ds"}
%o6 = weft.Output(%n:1) {name: "m"})");
  PassRun run = RunPass("layout", body, All());
  // x on the way in, dx on the way out.
  EXPECT_EQ(Count(run.body, "Transpose"), 2) << run.body;
  for (const char* op : {"c", "t", "r", "g", "e", "p", "d", "dx", "dt"}) {
    EXPECT_THAT(run.body, Not(HasSubstr(absl::StrCat("%", op, " = "))));
  }
  ExpectSameResults("layout", body, All(), 1e-5);
}

// The device is that of the node.
TEST(LayoutTest, AsksForTheNodesDevice) {
  PassSettings settings;
  settings.runs_as_kernel = [](const Graph&, const Node& node) {
    return node.device == "sim:0";
  };
  std::string body = Net();
  EXPECT_EQ(Untouched("layout", body, settings), "");
  const size_t at = body.find("\n%p = ");
  body.insert(at, " device(\"sim:0\")");
  PassRun run = RunPass("layout", body, settings);
  EXPECT_THAT(run.body, HasSubstr("%c1/blocks = Conv("));
  EXPECT_THAT(run.body, HasSubstr("%p = MaxPool("));
  EXPECT_THAT(run.body, HasSubstr("device(\"sim:0\")"));
}

}  // namespace
}  // namespace weft
