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
