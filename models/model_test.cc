#include "models/model.h"

#include "core/base/error.h"
#include "core/graph/verify.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::models {
namespace {

using ::testing::HasSubstr;

ModelInput Fashion(int64_t batch) { return {batch, Shape({28, 28}), 10}; }

int64_t CountParameters(const Graph& graph) {
  int64_t count = 0;
  for (const Node* node : graph.Nodes()) {
    if (!node->Is(OpId::kVariable)) continue;
    const Attr* role = node->attrs().Find("role");
    if (role == nullptr || role->s() == "parameter") {
      count += node->output_type(0).shape.num_elements();
    }
  }
  return count;
}

const TensorType& LogitsType(const Graph& graph) {
  const Node* output = graph.FindNode("output/logits");
  return graph.type(output->input(0));
}

TEST(ModelTest, MlpHasTheUsualSize) {
  Graph g = BuildModel("mlp", {}, Fashion(128)).value();
  ASSERT_TRUE(VerifyGraph(g).ok()) << VerifyGraph(g);
  EXPECT_EQ(LogitsType(g), (TensorType{DType::kF32, {128, 10}}));
  // 784 x 512 + 512, 512 x 512 + 512, 512 x 10 + 10.
  EXPECT_EQ(CountParameters(g), 669706);
  EXPECT_EQ(g.FindNode("fc1/weight")->output_type(0).shape, Shape({512, 784}));
}

TEST(ModelTest, LenetHasTheUsualSize) {
  Graph g = BuildModel("lenet", {}, Fashion(8)).value();
  ASSERT_TRUE(VerifyGraph(g).ok()) << VerifyGraph(g);
  EXPECT_EQ(LogitsType(g), (TensorType{DType::kF32, {8, 10}}));
  // 320 + 18496 + (64 x 5 x 5) x 128 + 128 + 1290.
  EXPECT_EQ(CountParameters(g), 225034);
}

TEST(ModelTest, ArgumentsChangeTheNetwork) {
  Graph g =
      BuildModel("mlp", {{"hidden", "16"}, {"dropout", "0.25"}}, Fashion(2))
          .value();
  EXPECT_EQ(CountParameters(g), 784 * 16 + 16 + 170);
  EXPECT_NE(g.FindNode("dropout1"), nullptr);
  g = BuildModel("lenet", {{"batch_norm", "1"}}, Fashion(2)).value();
  ASSERT_TRUE(VerifyGraph(g).ok()) << VerifyGraph(g);
  EXPECT_NE(g.FindNode("norm1/running_var"), nullptr);
  EXPECT_EQ(CountParameters(g), 225034 + 2 * 96);
}

TEST(ModelTest, ColourImages) {
  Graph g = BuildModel("lenet", {}, {4, Shape({3, 32, 32}), 100}).value();
  EXPECT_EQ(LogitsType(g).shape, Shape({4, 100}));
}

ModelInput Text(int64_t batch, int64_t context, int64_t vocabulary) {
  return {batch, Shape(), vocabulary, context};
}

TEST(ModelTest, GptHasTheUsualSize) {
  Graph g = BuildModel("gpt", {}, Text(2, 128, 256)).value();
  ASSERT_TRUE(VerifyGraph(g).ok()) << VerifyGraph(g);
  EXPECT_EQ(LogitsType(g), (TensorType{DType::kF32, {2 * 128, 256}}));
  EXPECT_EQ(g.FindNode("tokens")->output_type(0),
            (TensorType{DType::kI32, {2, 128}}));
  // Token and position embeddings, blocks of 12 w^2 + 13 w, the last norm.
  const int64_t w = 128;
  const int64_t size = 256 * w + 128 * w + 4 * (12 * w * w + 13 * w) + 2 * w;
  EXPECT_EQ(CountParameters(g), size);
  g = BuildModel("gpt", {{"tied", "0"}}, Text(2, 128, 256)).value();
  EXPECT_EQ(CountParameters(g), size + 256 * w);
}

TEST(ModelTest, GptStartsAsItsDepthAsks) {
  Graph g = BuildModel("gpt", {{"layers", "8"}}, Text(1, 4, 9)).value();
  auto scale = [&g](absl::string_view name) {
    return g.View(*g.FindNode(name)).Float("scale");
  };
  EXPECT_EQ(scale("embedding/token"), 0.02);
  EXPECT_EQ(scale("block8/attention/qkv/weight"), 0.02);
  EXPECT_EQ(scale("block8/attention/output/weight"), 0.005);
  EXPECT_EQ(scale("block8/mlp/down/weight"), 0.005);
  EXPECT_EQ(g.FindNode("block9/norm1"), nullptr);
}

TEST(ModelTest, GptArguments) {
  const ModelArgs small = {{"layers", "2"}, {"width", "6"}, {"heads", "3"}};
  ModelArgs args = small;
  args["context"] = "10";  // more than a sample has
  args["dropout"] = "0.1";
  Graph g = BuildModel("gpt", args, Text(3, 4, 9)).value();
  ASSERT_TRUE(VerifyGraph(g).ok()) << VerifyGraph(g);
  EXPECT_EQ(g.FindNode("embedding/position")->output_type(0).shape,
            Shape({10, 6}));
  EXPECT_EQ(CountParameters(g), 9 * 6 + 10 * 6 + 2 * (12 * 36 + 13 * 6) + 12);
  int dropouts = 0;
  for (const Node* node : g.Nodes()) dropouts += node->Is(OpId::kDropout);
  EXPECT_EQ(dropouts, 1 + 2 * 2);
  const Node* attention = g.FindNode("block2/attention/mix");
  ASSERT_NE(attention, nullptr);
  EXPECT_EQ(g.View(*attention).Int("heads"), 3);
  EXPECT_EQ(g.View(*attention).Int("causal"), 1);
  EXPECT_EQ(g.View(*attention).Float("ratio"), 0.1);
  struct Case {
    const char* key;
    const char* value;
    const char* text;
  };
  for (const Case& c : std::vector<Case>{
           {"heads", "4", "width 6 is not a multiple of heads 4"},
           {"context", "3", "context 3, the samples of the data have 4"},
           {"layers", "0", "'layers' is '0'"},
           {"layers", "1025", "expected a count of 1 to 1024"},
           {"tied", "yes", "'tied' is 'yes'"},
           {"classes", "1", "'classes' is '1'"},
           {"hidden", "5", "no argument 'hidden'"}}) {
    args = small;
    args[c.key] = c.value;
    absl::Status status = BuildModel("gpt", args, Text(3, 4, 9)).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kBadValue)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.text));
  }
}

TEST(ModelTest, Resnet18HasTheUsualSize) {
  Graph g = BuildModel("resnet18", {}, {2, Shape({3, 32, 32}), 10}).value();
  ASSERT_TRUE(VerifyGraph(g).ok()) << VerifyGraph(g);
  EXPECT_EQ(LogitsType(g).shape, Shape({2, 10}));
  EXPECT_EQ(CountParameters(g), 11173962);
  auto shape = [&g](absl::string_view name) {
    return g.FindNode(name)->output_type(0).shape;
  };
  EXPECT_EQ(shape("stage1/block2/relu2"), Shape({2, 64, 32, 32}));
  EXPECT_EQ(shape("stage2/block1/relu2"), Shape({2, 128, 16, 16}));
  EXPECT_EQ(shape("stage3/block1/relu2"), Shape({2, 256, 8, 8}));
  EXPECT_EQ(shape("stage4/block2/relu2"), Shape({2, 512, 4, 4}));
  int convolutions = 0;
  for (const Node* node : g.Nodes()) convolutions += node->Is(OpId::kConv);
  EXPECT_EQ(convolutions, 1 + 16 + 3);
}

TEST(ModelTest, Resnet18OnFashion) {
  Graph g = BuildModel("resnet18", {}, Fashion(2)).value();
  // One channel instead of three in the stem.
  EXPECT_EQ(CountParameters(g), 11173962 - 2 * 9 * 64);
  EXPECT_EQ(g.FindNode("stage4/block2/relu2")->output_type(0).shape,
            Shape({2, 512, 4, 4}));
  g = BuildModel("resnet18", {{"width", "2"}, {"classes", "7"}}, Fashion(2))
          .value();
  EXPECT_EQ(LogitsType(g).shape, Shape({2, 7}));
}

TEST(ModelTest, ModelAndDataMustBeOfOneKind) {
  for (const char* model : {"mlp", "lenet", "resnet18"}) {
    absl::Status status = BuildModel(model, {}, Text(2, 16, 9)).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kBadJob)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("16 tokens"));
  }
  absl::Status status = BuildModel("gpt", {}, Fashion(2)).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kBadJob)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("[28,28]"));
}

TEST(ModelTest, ErrorsSuggestAndName) {
  absl::Status status = BuildModel("mpl", {}, Fashion(1)).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kUnknownModel));
  EXPECT_THAT(std::string(status.message()), HasSubstr("did you mean 'mlp'"));
  status = BuildModel("mlp", {{"hiden", "5"}}, Fashion(1)).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kBadValue));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("did you mean 'hidden'"));
  for (const char* bad : {"", "0", "512,", "x", "-3"}) {
    status = BuildModel("mlp", {{"hidden", bad}}, Fashion(1)).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kBadValue)) << bad;
  }
  for (const char* bad : {"1", "-0.1", "nan", "x"}) {
    status = BuildModel("mlp", {{"dropout", bad}}, Fashion(1)).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kBadValue)) << bad;
  }
  // 5 x 5 images are too small for two convolutions with pooling.
  EXPECT_FALSE(BuildModel("lenet", {}, {1, Shape({5, 5}), 10}).ok());
}

}  // namespace
}  // namespace weft::models
