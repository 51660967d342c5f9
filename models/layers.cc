#include "models/layers.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace weft::models {
namespace {

std::vector<int64_t> Dims(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}

VariableInit HeUniform(int64_t fan_in) {
  double bound = std::sqrt(6.0 / static_cast<double>(fan_in));
  return VariableInit::Uniform(-bound, bound);
}

}  // namespace

Value LayerBuilder::Add(absl::string_view op, absl::string_view name,
                        std::vector<Value> inputs, AttrMap attrs) {
  if (!status_.ok()) return {};
  absl::StatusOr<Node*> node = graph_->Add(op, name, inputs, std::move(attrs));
  if (!node.ok()) {
    status_ = node.status();
    return {};
  }
  return (*node)->num_outputs() > 0 ? (*node)->output(0) : Value{};
}

Value LayerBuilder::Input(absl::string_view name, const TensorType& type) {
  return Add("weft.Input", name, {},
             {{"dtype", type.dtype}, {"shape", Dims(type.shape)}});
}

void LayerBuilder::Output(absl::string_view name, Value x) {
  Add("weft.Output", absl::StrCat("output/", name), {x},
      {{"name", std::string(name)}});
}

Value LayerBuilder::Variable(absl::string_view name, const Shape& shape,
                             const VariableInit& init, absl::string_view role) {
  return Add("weft.Variable", name, {},
             VariableAttrs({DType::kF32, shape}, init, role,
                           /*trainable=*/role == "parameter"));
}

Value LayerBuilder::Linear(absl::string_view name, Value x, int64_t out) {
  if (!status_.ok()) return {};
  return Linear(name, x, out, HeUniform(type(x).shape.dim(1)));
}

Value LayerBuilder::Linear(absl::string_view name, Value x, int64_t out,
                           const VariableInit& weight) {
  if (!status_.ok()) return {};
  int64_t in = type(x).shape.dim(1);
  Value w = Variable(absl::StrCat(name, "/weight"), {out, in}, weight);
  Value bias =
      Variable(absl::StrCat(name, "/bias"), {out}, VariableInit::Zeros());
  return Add("Gemm", name, {x, w, bias}, {{"transB", 1}});
}

Value LayerBuilder::Conv(absl::string_view name, Value x, int64_t out,
                         int64_t kernel, int64_t stride, int64_t pad,
                         bool bias) {
  if (!status_.ok()) return {};
  int64_t in = type(x).shape.dim(1);
  std::vector<Value> operands = {x};
  operands.push_back(Variable(absl::StrCat(name, "/weight"),
                              {out, in, kernel, kernel},
                              HeUniform(in * kernel * kernel)));
  if (bias) {
    operands.push_back(
        Variable(absl::StrCat(name, "/bias"), {out}, VariableInit::Zeros()));
  }
  return Add("Conv", name, std::move(operands),
             {{"strides", std::vector<int64_t>(2, stride)},
              {"pads", std::vector<int64_t>(4, pad)}});
}

Value LayerBuilder::BatchNorm(absl::string_view name, Value x) {
  if (!status_.ok()) return {};
  Shape channels({type(x).shape.dim(1)});
  auto variable = [&](absl::string_view part, double start,
                      absl::string_view role) {
    return Variable(absl::StrCat(name, "/", part), channels,
                    VariableInit::Constant(start), role);
  };
  std::vector<Value> operands = {x};
  operands.push_back(variable("scale", 1, "parameter"));
  operands.push_back(variable("bias", 0, "parameter"));
  operands.push_back(variable("running_mean", 0, "statistic"));
  operands.push_back(variable("running_var", 1, "statistic"));
  return Add("BatchNormalization", name, std::move(operands));
}

Value LayerBuilder::LayerNorm(absl::string_view name, Value x) {
  if (!status_.ok()) return {};
  const Shape& shape = type(x).shape;
  Shape features({shape.dim(shape.rank() - 1)});
  Value scale = Variable(absl::StrCat(name, "/scale"), features,
                         VariableInit::Constant(1));
  Value bias =
      Variable(absl::StrCat(name, "/bias"), features, VariableInit::Zeros());
  return Add("LayerNormalization", name, {x, scale, bias});
}

Value LayerBuilder::SelfAttention(absl::string_view name, Value qkv,
                                  int64_t heads, double dropout) {
  if (!status_.ok()) return {};
  AttrMap attrs = {{"heads", heads}, {"causal", 1}, {"ratio", dropout}};
  absl::StatusOr<Node*> node =
      graph_->Add("weft.SelfAttention", name, {qkv}, std::move(attrs), 2);
  status_ = node.status();
  return node.ok() ? (*node)->output(0) : Value{};
}

Value LayerBuilder::Scalar(absl::string_view name, float value) {
  return Add("Constant", name, {}, {{"value", Literal::Scalar(value)}});
}

Value LayerBuilder::MaxPool(absl::string_view name, Value x, int64_t kernel,
                            int64_t stride) {
  return Add("MaxPool", name, {x},
             {{"kernel_shape", std::vector<int64_t>(2, kernel)},
              {"strides", std::vector<int64_t>(2, stride)}});
}

Value LayerBuilder::Relu(absl::string_view name, Value x) {
  return Add("Relu", name, {x});
}

Value LayerBuilder::Dropout(absl::string_view name, Value x, double ratio) {
  if (ratio == 0) return x;
  return Add("Dropout", name, {x}, {{"ratio", ratio}});
}

Value LayerBuilder::Reshape(absl::string_view name, Value x,
                            const Shape& shape) {
  return Add("Reshape", name, {x}, {{"shape", Dims(shape)}});
}

Value LayerBuilder::Flatten(absl::string_view name, Value x) {
  return Add("Flatten", name, {x});
}

}  // namespace weft::models
