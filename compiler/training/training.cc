#include "compiler/training/training.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "compiler/autodiff/autodiff.h"
#include "compiler/autodiff/recompute.h"
#include "compiler/pipeline/stages.h"
#include "compiler/training/loss_scale.h"
#include "compiler/training/optimizer.h"
#include "compiler/transforms/accumulate.h"
#include "compiler/transforms/mixed_precision.h"
#include "compiler/transforms/pool_first.h"
#include "compiler/transforms/set_mode.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/graph/rates.h"
#include "core/ops/system_attrs.h"

namespace weft::training {
namespace {

// Nodes of the host's I/O stream: data is decoded ahead of the computation.
constexpr absl::string_view kIo = "io";

struct ModelEnds {
  Node* input = nullptr;
  Node* output = nullptr;  // the weft.Output of the logits
  Value logits;
};

absl::StatusOr<ModelEnds> FindEnds(Graph* graph) {
  ModelEnds ends;
  for (Node* node : graph->Nodes()) {
    if (node->Is(OpId::kInput)) {
      if (ends.input != nullptr) {
        return MakeError(
            ErrorCode::kBadGraph,
            absl::StrCat("model '", graph->name(), "' has two inputs, '",
                         ends.input->name(), "' and '", node->name(),
                         "'; it needs one"));
      }
      ends.input = node;
    }
    if (node->Is(OpId::kOutput) &&
        graph->View(*node).String("name") == "logits") {
      ends.output = node;
      ends.logits = node->input(0);
    }
  }
  if (ends.input == nullptr || ends.output == nullptr) {
    return MakeError(
        ErrorCode::kBadGraph,
        absl::StrCat("model '", graph->name(), "' needs one ",
                     ends.input == nullptr ? "weft.Input"
                                           : "weft.Output named \"logits\""));
  }
  return ends;
}

absl::Status CheckTypes(const Graph& graph, const ModelEnds& ends,
                        const DataSpec& data) {
  const TensorType& input = ends.input->output_type(0);
  const TensorType& logits = graph.type(ends.logits);
  const int64_t batch = input.shape.rank() > 0 ? input.shape.dim(0) : 1;
  std::vector<int64_t> dims = {batch};
  if (data.context > 0) {
    dims.push_back(data.context);
  } else {
    dims.insert(dims.end(), data.image.dims().begin(), data.image.dims().end());
  }
  TensorType expected = {data.context > 0 ? DType::kI32 : DType::kF32,
                         Shape(dims)};
  if (input != expected) {
    return MakeError(ErrorCode::kShapeMismatch,
                     absl::StrCat("model input '", ends.input->name(), "' is ",
                                  input.ToString(), ", the data gives ",
                                  expected.ToString()));
  }
  const int64_t rows = batch * std::max<int64_t>(data.context, 1);
  expected = {DType::kF32, Shape({rows, data.classes})};
  if (logits != expected) {
    return MakeError(
        ErrorCode::kShapeMismatch,
        absl::StrCat("the model's logits, of '",
                     graph.node(ends.logits)->name(), "', are ",
                     logits.ToString(), "; the data has ", data.classes,
                     " classes, which takes ", expected.ToString()));
  }
  return absl::OkStatus();
}

// What one batch gives, as scalars: sums over its samples.
struct BatchSums {
  Value loss;
  Value weight;
  Value correct;     // invalid for text
  int64_t rows = 0;  // terms of the loss
};

// A source of the model's input (as the files hold it), a label and a weight
// for each row of the logits.
absl::StatusOr<Node*> AddSource(Graph* graph, const std::string& source,
                                const TensorType& input, int64_t rows) {
  WEFT_ASSIGN_OR_RETURN(
      Node * data,
      graph->Add(
          "weft.DataSource", absl::StrCat("data/", source), {},
          DataSourceAttrs(
              source, {input, {DType::kI32, {rows}}, {DType::kF32, {rows}}}),
          3));
  data->device = std::string(kIo);
  return data;
}

// Pixels, normalised on the I/O stream.
absl::StatusOr<Value> EmitDecode(Graph* graph, Value pixels,
                                 const DataSpec& data) {
  GraphEmitter decode(graph, "data/decode", "training: decode and normalise");
  decode.set_placement(std::string(kIo), -1);
  Value x = decode.Emit1("Cast", {pixels}, {{"to", DType::kF32}});
  // (x / 255 - mean) / std as one multiplication and one addition.
  Value scale = decode.Scalar(1 / (255 * data.std), DType::kF32);
  Value shift = decode.Scalar(-data.mean / data.std, DType::kF32);
  x = decode.Emit1("Add", {decode.Emit1("Mul", {x, scale}), shift});
  WEFT_RETURN_IF_ERROR(decode.status());
  return x;
}

// The weight of all samples whose highest score is the label's.
Value EmitCorrect(Value logits, Value labels, Value weights,
                  GraphEmitter* emit) {
  Value best = emit->Emit1("ArgMax", {logits}, {{"axis", 1}, {"keepdims", 0}});
  Value hit = emit->Emit1(
      "Equal", {best, emit->Emit1("Cast", {labels}, {{"to", DType::kI64}})});
  Value hit_weight = emit->Emit1(
      "Mul", {emit->Emit1("Cast", {hit}, {{"to", DType::kF32}}), weights});
  return emit->Emit1("ReduceSum", {hit_weight}, {{"keepdims", 0}});
}

// Replaces the model's input by data and its output by loss and metrics.
absl::StatusOr<BatchSums> AttachData(Graph* graph, const std::string& source,
                                     const TrainingSpec& spec) {
  WEFT_ASSIGN_OR_RETURN(ModelEnds ends, FindEnds(graph));
  WEFT_RETURN_IF_ERROR(CheckTypes(*graph, ends, spec.data));
  const bool text = spec.data.context > 0;
  TensorType input = ends.input->output_type(0);
  if (!text) input.dtype = DType::kU8;
  WEFT_ASSIGN_OR_RETURN(
      Node * data,
      AddSource(graph, source, input, graph->type(ends.logits).shape.dim(0)));
  Value x = data->output(0);
  if (!text) {
    WEFT_ASSIGN_OR_RETURN(x, EmitDecode(graph, x, spec.data));
  }
  WEFT_RETURN_IF_ERROR(graph->ReplaceUses(ends.input->output(0), x));
  WEFT_RETURN_IF_ERROR(graph->Remove(ends.input->id()));
  WEFT_RETURN_IF_ERROR(graph->Remove(ends.output->id()));

  Value labels = data->output(1), weights = data->output(2);
  GraphEmitter emit(graph, "loss", "training: loss");
  std::vector<Value> loss =
      emit.Emit("weft.SoftmaxCrossEntropyLoss", {ends.logits, labels, weights},
                {{"label_smoothing", spec.label_smoothing}}, 2);
  emit.set_scope("metrics");
  emit.set_provenance("training: metrics");
  BatchSums sums;
  sums.rows = graph->type(ends.logits).shape.dim(0);
  sums.loss = loss[0];
  if (!text) sums.correct = EmitCorrect(ends.logits, labels, weights, &emit);
  sums.weight = emit.Emit1("ReduceSum", {weights}, {{"keepdims", 0}});
  WEFT_RETURN_IF_ERROR(emit.status());
  return sums;
}

absl::Status AddOutput(Graph* graph, const std::string& name, Value value) {
  return graph
      ->Add("weft.Output", absl::StrCat("output/", name), {value},
            {{"name", name}})
      .status();
}

absl::Status AddOutputs(Graph* graph, const BatchSums& sums, Value loss) {
  WEFT_RETURN_IF_ERROR(AddOutput(graph, "loss", loss));
  WEFT_RETURN_IF_ERROR(AddOutput(graph, "weight", sums.weight));
  if (!sums.correct.valid()) return absl::OkStatus();
  return AddOutput(graph, "correct", sums.correct);
}

// Updates that the mode pass made (running statistics) read one micro-batch; a
// step's update takes the mean over its micro-batches.
absl::Status AverageStatistics(Graph* graph, int micro_batches) {
  if (micro_batches == 1) return absl::OkStatus();
  for (Node* node : graph->Nodes()) {
    if (!node->Is(OpId::kEmaUpdate)) continue;
    WEFT_ASSIGN_OR_RETURN(Value sum,
                          AddAccumulate(graph, node->input(1), micro_batches));
    GraphEmitter emit(graph, absl::StrCat(node->name(), "/mean"),
                      "training: mean over micro-batches");
    Value scale = emit.Scalar(1.0 / micro_batches, graph->type(sum).dtype);
    Value mean = emit.Emit1("Mul", {sum, scale});
    WEFT_RETURN_IF_ERROR(emit.status());
    WEFT_RETURN_IF_ERROR(graph->SetInput(node->id(), 1, mean));
  }
  return absl::OkStatus();
}

absl::Status SetPrecision(Graph* graph, const TrainingSpec& spec) {
  if (spec.compute == DType::kF32) return absl::OkStatus();
  return MixedPrecision(graph, spec.compute).status();
}

std::vector<Node*> TrainableVariables(Graph* graph) {
  std::vector<Node*> out;
  for (Node* node : graph->Nodes()) {
    if (!node->Is(OpId::kVariable)) continue;
    OpView view = graph->View(*node);
    if (view.String("role") == "parameter" && view.Int("trainable") != 0) {
      out.push_back(node);
    }
  }
  return out;
}

absl::StatusOr<std::vector<Value>> Differentiate(
    Graph* graph, Value loss, const std::vector<Value>& parameters,
    const TrainingSpec& spec) {
  absl::flat_hash_set<Value> again;
  const int32_t bound = graph->id_bound();
  if (spec.recompute > 0) {
    Graph trial = graph->Clone();
    WEFT_RETURN_IF_ERROR(AddGradients(&trial, loss, parameters).status());
    again = ChooseRecomputation(trial, bound, spec.recompute);
  }
  WEFT_ASSIGN_OR_RETURN(std::vector<Value> gradients,
                        AddGradients(graph, loss, parameters, again));
  MirrorStages(bound, graph);
  return gradients;
}

}  // namespace

absl::StatusOr<Graph> BuildTrainGraph(const Graph& model,
                                      const TrainingSpec& spec) {
  Graph graph = model.Clone();
  graph.set_name(model.name());
  std::vector<Node*> variables = TrainableVariables(&graph);
  if (variables.empty()) {
    return MakeError(
        ErrorCode::kBadGraph,
        absl::StrCat("model '", model.name(), "' has no trainable parameter"));
  }
  WEFT_RETURN_IF_ERROR(SetMode(&graph, Mode::kTrain, spec.seed));
  WEFT_RETURN_IF_ERROR(PoolFirst(&graph).status());
  WEFT_RETURN_IF_ERROR(AverageStatistics(&graph, spec.micro_batches));
  WEFT_ASSIGN_OR_RETURN(BatchSums sums, AttachData(&graph, "train", spec));
  WEFT_RETURN_IF_ERROR(SetPrecision(&graph, spec));

  std::vector<Value> parameters;
  for (Node* v : variables) parameters.push_back(v->output(0));
  WEFT_ASSIGN_OR_RETURN(
      LossScale scale,
      AddLossScale(&graph, spec.loss_scale, sums.rows * spec.micro_batches));
  GraphEmitter emit(&graph, "step", "training: mean over the step's samples");
  Value objective = sums.loss;
  if (scale.seed.valid()) {
    objective = emit.Emit1("Mul", {sums.loss, scale.seed});
    WEFT_RETURN_IF_ERROR(emit.status());
  }
  WEFT_ASSIGN_OR_RETURN(std::vector<Value> gradients,
                        Differentiate(&graph, objective, parameters, spec));
  if (spec.micro_batches > 1) {
    std::vector<Value*> accumulated = {&sums.loss, &sums.weight};
    if (sums.correct.valid()) accumulated.push_back(&sums.correct);
    for (Value& g : gradients) {
      if (g.valid()) accumulated.push_back(&g);
    }
    for (Value* value : accumulated) {
      WEFT_ASSIGN_OR_RETURN(*value,
                            AddAccumulate(&graph, *value, spec.micro_batches));
    }
  }
  Value inverse = emit.Emit1("Reciprocal", {sums.weight});
  Value mean_loss = emit.Emit1("Mul", {sums.loss, inverse});
  if (scale.unscale.valid()) {
    inverse = emit.Emit1("Mul", {inverse, scale.unscale});
  }
  WEFT_RETURN_IF_ERROR(emit.status());
  WEFT_ASSIGN_OR_RETURN(UpdateMetrics metrics,
                        AddUpdates(&graph, spec.optimizer, parameters,
                                   gradients, inverse, mean_loss, scale));
  WEFT_RETURN_IF_ERROR(AddOutputs(&graph, sums, mean_loss));
  WEFT_RETURN_IF_ERROR(
      AddOutput(&graph, "learning_rate", metrics.learning_rate));
  if (metrics.grad_norm.valid()) {
    WEFT_RETURN_IF_ERROR(AddOutput(&graph, "grad_norm", metrics.grad_norm));
  }
  return graph;
}

absl::StatusOr<Graph> BuildEvalGraph(const Graph& model,
                                     const TrainingSpec& spec) {
  Graph graph = model.Clone();
  WEFT_RETURN_IF_ERROR(SetMode(&graph, Mode::kEval, spec.seed));
  WEFT_RETURN_IF_ERROR(PoolFirst(&graph).status());
  TrainingSpec exact = spec;
  exact.label_smoothing = 0;
  WEFT_ASSIGN_OR_RETURN(BatchSums sums, AttachData(&graph, "eval", exact));
  WEFT_RETURN_IF_ERROR(SetPrecision(&graph, spec));
  WEFT_RETURN_IF_ERROR(AddOutputs(&graph, sums, sums.loss));
  return graph;
}

}  // namespace weft::training
