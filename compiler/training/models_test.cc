// Training programs of whole models: their gradients against differences of the
// loss, and what is particular to models of text.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/autodiff/autodiff.h"
#include "compiler/training/training.h"
#include "compiler/transforms/set_mode.h"
#include "core/base/error.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"
#include "core/reference/gradient_check.h"
#include "core/reference/interpreter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/model.h"

namespace weft::training {
namespace {

using models::BuildModel;
using models::ModelArgs;
using models::ModelInput;
using ::testing::HasSubstr;

// A model in f64 with its loss and the gradients of all parameters, as outputs
// "loss" and "grad/<parameter>".
class Differentiated {
 public:
  Differentiated(const std::string& name, const ModelArgs& args,
                 const ModelInput& input) {
    absl::StatusOr<Graph> model = BuildModel(name, args, input);
    EXPECT_TRUE(model.ok()) << model.status();
    std::string text =
        absl::StrReplaceAll(PrintGraph(*model), {{"f32", "f64"}});
    absl::StatusOr<Graph> graph = ParseGraph(text);
    EXPECT_TRUE(graph.ok()) << graph.status();
    graph_ = *std::move(graph);
    EXPECT_TRUE(SetMode(&graph_, Mode::kTrain, 1).ok());
    Feed(input);
    AddLoss(input.classes);
  }

  // Differences at some elements of every parameter.
  void Check(double tolerance) {
    ASSERT_FALSE(parameters_.empty());
    InterpretResult result = Run();
    for (const std::string& name : parameters_) {
      std::vector<double> gradient =
          result.outputs.at("grad/" + name)[0].ToDoubles();
      ASSERT_TRUE(std::any_of(gradient.begin(), gradient.end(), [](double g) {
        return g != 0;
      })) << name;
      const size_t stride = std::max<size_t>(1, gradient.size() / 2);
      for (size_t i = 0; i < gradient.size(); i += stride) {
        const double expected = Difference(name, i);
        EXPECT_NEAR(gradient[i], expected,
                    tolerance * std::max(1.0, std::fabs(expected)))
            << name << " element " << i;
      }
    }
  }

 private:
  static constexpr double kStep = 1e-6;

  void Feed(const ModelInput& input) {
    uint64_t seed = 1;
    for (const Node* node : graph_.Nodes()) {
      if (node->num_outputs() == 0) continue;
      const TensorType& type = node->output_type(0);
      if (node->Is(OpId::kVariable)) {
        feeds_[node->name()] = {RandomLiteral(type.shape, ++seed)};
        if (graph_.View(*node).String("role") == "parameter") {
          parameters_.push_back(node->name());
        }
      } else if (node->Is(OpId::kInput) && type.dtype == DType::kF64) {
        feeds_[node->name()] = {RandomLiteral(type.shape, ++seed)};
      } else if (node->Is(OpId::kInput)) {
        feeds_[node->name()] = {Classes(type.shape, input.classes, 5)};
      }
    }
  }

  static Literal Classes(const Shape& shape, int64_t classes, int step) {
    std::vector<int32_t> values(shape.num_elements());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<int32_t>((i * i * step + i + 1) % classes);
    }
    return Literal::Of<int32_t>(shape, values);
  }

  void AddLoss(int64_t classes) {
    Value logits = graph_.FindNode("output/logits")->input(0);
    const int64_t rows = graph_.type(logits).shape.dim(0);
    GraphEmitter emit(&graph_, "loss", "test");
    Value labels = AddInput("labels", DType::kI32, rows);
    Value weights = AddInput("weights", DType::kF64, rows);
    feeds_["labels"] = {Classes({rows}, classes, 3)};
    feeds_["weights"] = {RandomLiteral({rows}, 99, 0, 1)};
    Value loss = emit.Emit("weft.SoftmaxCrossEntropyLoss",
                           {logits, labels, weights}, {}, 2)[0];
    ASSERT_TRUE(emit.status().ok()) << emit.status();
    std::vector<Value> values;
    for (const std::string& name : parameters_) {
      values.push_back(graph_.FindNode(name)->output(0));
    }
    absl::StatusOr<std::vector<Value>> gradients =
        AddGradients(&graph_, loss, values);
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    Deliver("loss", loss);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_TRUE((*gradients)[i].valid()) << parameters_[i];
      Deliver("grad/" + parameters_[i], (*gradients)[i]);
    }
    ASSERT_TRUE(VerifyGraph(graph_).ok()) << VerifyGraph(graph_);
  }

  Value AddInput(const std::string& name, DType dtype, int64_t rows) {
    return graph_
        .Add("weft.Input", name, {},
             {{"dtype", dtype}, {"shape", std::vector<int64_t>{rows}}})
        .value()
        ->output(0);
  }

  void Deliver(const std::string& name, Value value) {
    ASSERT_TRUE(
        graph_.Add("weft.Output", "output/" + name, {value}, {{"name", name}})
            .ok());
  }

  InterpretResult Run() const {
    absl::StatusOr<InterpretResult> result = Interpret(graph_, feeds_);
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }

  double Difference(const std::string& name, size_t element) {
    const Literal before = feeds_[name][0];
    std::vector<double> values = before.ToDoubles();
    const double x = values[element];
    double loss[2];
    for (int side : {0, 1}) {
      values[element] = x + (side == 0 ? -kStep : kStep);
      feeds_[name] = {Literal::FromDoubles(before.type(), values)};
      loss[side] = Run().outputs.at("loss")[0].ToDoubles()[0];
    }
    feeds_[name] = {before};
    return (loss[1] - loss[0]) / (2 * kStep);
  }

  Graph graph_{"none"};
  Feeds feeds_;
  std::vector<std::string> parameters_;
};

ModelArgs TinyGpt() {
  return {{"layers", "2"}, {"width", "6"}, {"heads", "2"}};
}

ModelInput Text(int64_t batch) { return {batch, Shape(), 7, 4}; }

TEST(ModelGradientTest, Gpt) {
  Differentiated("gpt", TinyGpt(), Text(2)).Check(1e-6);
}

TEST(ModelGradientTest, GptWithMorePositionsAndAnOwnHead) {
  ModelArgs args = TinyGpt();
  args["context"] = "5";
  args["tied"] = "0";
  Differentiated("gpt", args, Text(1)).Check(1e-6);
}

TEST(ModelGradientTest, Resnet18) {
  ModelInput images{3, Shape({8, 8}), 3};
  Differentiated("resnet18", {{"width", "1"}}, images).Check(1e-5);
}

TrainingSpec TextSpec() {
  TrainingSpec spec;
  spec.data.classes = 7;
  spec.data.context = 4;
  spec.seed = 3;
  return spec;
}

Graph Gpt(int64_t batch) {
  return BuildModel("gpt", TinyGpt(), Text(batch)).value();
}

TEST(TextTrainingTest, EachTokenIsASampleOfTheLoss) {
  Graph train = BuildTrainGraph(Gpt(2), TextSpec()).value();
  ASSERT_TRUE(VerifyGraph(train).ok()) << VerifyGraph(train);
  const Node* source = train.FindNode("data/train");
  EXPECT_EQ(source->output_type(0), (TensorType{DType::kI32, {2, 4}}));
  EXPECT_EQ(source->output_type(1), (TensorType{DType::kI32, {8}}));
  EXPECT_EQ(source->output_type(2), (TensorType{DType::kF32, {8}}));
  EXPECT_EQ(train.FindNode("output/correct"), nullptr);
  EXPECT_NE(train.FindNode("output/loss"), nullptr);
  Graph eval = BuildEvalGraph(Gpt(2), TextSpec()).value();
  EXPECT_EQ(eval.FindNode("output/correct"), nullptr);
}

// Tokens, labels and weights of samples [first, first + count).
std::vector<Literal> Batch(int first, int count) {
  std::vector<int32_t> tokens, labels;
  std::vector<float> weights;
  for (int i = first * 4; i < (first + count) * 4; ++i) {
    tokens.push_back(i * i % 7);
    labels.push_back((i + 1) * (i + 1) % 7);
    weights.push_back(i % 5 == 0 ? 0 : 1);
  }
  return {Literal::Of<int32_t>({count, 4}, tokens),
          Literal::Of<int32_t>({count * 4}, labels),
          Literal::Of<float>({count * 4}, weights)};
}

TEST(TextTrainingTest, MicroBatchesGiveTheSameStep) {
  std::map<int, InterpretResult> results;
  for (int micro : {1, 2}) {
    TrainingSpec spec = TextSpec();
    spec.micro_batches = micro;
    Graph train = BuildTrainGraph(Gpt(4 / micro), spec).value();
    Feeds feeds;
    uint64_t seed = 1;
    for (const Node* node : train.Nodes()) {
      if (!node->Is(OpId::kVariable)) continue;
      const TensorType& type = node->output_type(0);
      feeds[node->name()] = {Literal::FromDoubles(
          type, RandomLiteral(type.shape, ++seed).ToDoubles())};
    }
    std::vector<Feeds> batches(micro);
    for (int m = 0; m < micro; ++m) {
      batches[m]["data/train"] = Batch(m * 4 / micro, 4 / micro);
    }
    absl::StatusOr<InterpretResult> result = Interpret(train, feeds, batches);
    ASSERT_TRUE(result.ok()) << result.status();
    results[micro] = *std::move(result);
  }
  EXPECT_EQ(results[1].outputs.at("weight")[0].ToDoubles()[0], 12);
  EXPECT_EQ(results[2].outputs.at("weight")[0].ToDoubles()[0], 12);
  for (const auto& [name, value] : results[1].variables) {
    absl::Status same = CheckClose(value, results[2].variables.at(name), 1e-5);
    EXPECT_TRUE(same.ok()) << name << ": " << same;
  }
}

TEST(TextTrainingTest, AModelOfAnotherShapeIsRefused) {
  TrainingSpec spec = TextSpec();
  spec.data.context = 5;
  absl::Status status = BuildTrainGraph(Gpt(2), spec).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kShapeMismatch)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("i32[2,4]"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("i32[2,5]"));
  spec = TextSpec();
  spec.data.classes = 9;
  status = BuildTrainGraph(Gpt(2), spec).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kShapeMismatch)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("f32[8,9]"));
}

}  // namespace
}  // namespace weft::training
