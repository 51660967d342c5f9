// Layers: what models are built from. A LayerBuilder adds nodes to a graph; the
// first error is kept and every later call does nothing, so that a model reads
// as a list of layers and checks once:
//
//   LayerBuilder b(&graph);
//   Value x = b.Input("image", TensorType{DType::kF32, {128, 784}});
//   x = b.Relu(b.Linear("fc1", x, 512));
//   b.Output("logits", b.Linear("fc2", x, 10));
//   WEFT_RETURN_IF_ERROR(b.status());
//
// Parameters are named "<layer>/weight" and "<layer>/bias", those of norms
// "<layer>/scale" and "<layer>/bias". Weights start uniform in
// +-sqrt(6 / fan_in) (He et al. 2015, for ReLU) where nothing else is said;
// biases start at 0, scales at 1.
//
// Threading: thread-compatible. Ownership: borrows the graph.
#ifndef WEFT_MODELS_LAYERS_H_
#define WEFT_MODELS_LAYERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"
#include "core/ops/system_attrs.h"

namespace weft::models {

class LayerBuilder {
 public:
  explicit LayerBuilder(Graph* graph) : graph_(graph) {}

  absl::Status status() const { return status_; }
  const TensorType& type(Value v) const { return graph_->type(v); }

  Value Input(absl::string_view name, const TensorType& type);
  void Output(absl::string_view name, Value x);

  // x [n, in] -> [n, out]; weight [out, in], bias [out].
  Value Linear(absl::string_view name, Value x, int64_t out);
  Value Linear(absl::string_view name, Value x, int64_t out,
               const VariableInit& weight);
  // x [n, c, h, w] -> [n, out, h', w']; square kernel, weight [out, c, k, k].
  Value Conv(absl::string_view name, Value x, int64_t out, int64_t kernel,
             int64_t stride = 1, int64_t pad = 0, bool bias = true);
  Value BatchNorm(absl::string_view name, Value x);
  // Over the last dimension.
  Value LayerNorm(absl::string_view name, Value x);
  Value MaxPool(absl::string_view name, Value x, int64_t kernel,
                int64_t stride);
  Value Relu(absl::string_view name, Value x);
  Value Dropout(absl::string_view name, Value x, double ratio);
  Value Reshape(absl::string_view name, Value x, const Shape& shape);
  Value Flatten(absl::string_view name, Value x);

  // Causal: qkv [batch, tokens, 3 * width] -> [batch, tokens, width]. `dropout`
  // is of the weights, in training.
  Value SelfAttention(absl::string_view name, Value qkv, int64_t heads,
                      double dropout);

  Value Variable(absl::string_view name, const Shape& shape,
                 const VariableInit& init,
                 absl::string_view role = "parameter");
  Value Scalar(absl::string_view name, float value);

  // Any other op: the node's first output, or an invalid value after an error.
  Value Add(absl::string_view op, absl::string_view name,
            std::vector<Value> inputs, AttrMap attrs = {});

 private:
  Graph* graph_;
  absl::Status status_;
};

}  // namespace weft::models

#endif  // WEFT_MODELS_LAYERS_H_
