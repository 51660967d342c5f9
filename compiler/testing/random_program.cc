#include "compiler/testing/random_program.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/autodiff/autodiff.h"
#include "core/graph/rates.h"
#include "core/ops/expr.h"
#include "core/ops/system_attrs.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kMaxElements = 4096;

Ints Swapped(int rank, int a, int b) {
  Ints perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[a], perm[b]);
  return perm;
}

}  // namespace

RandomProgram::RandomProgram(uint64_t seed, int micro_batches)
    : state_(seed * 7919 + 1),
      trained_(seed % 2 == 0),
      micro_batches_(trained_ ? micro_batches : 1),
      graph_(absl::StrCat("random", seed)),
      micro_feeds_(micro_batches_) {
  AddSources();
  const int ops = 3 + Below(10);
  for (int i = 0; i < ops; ++i) AddSomething();
  if (trained_) Train();
  Finish();
}

int RandomProgram::Below(int n) {
  state_ = state_ * 6364136223846793005u + 1442695040888963407u;
  return static_cast<int>((state_ >> 33) % static_cast<uint64_t>(n));
}

Value RandomProgram::Add(absl::string_view op, const std::vector<Value>& inputs,
                         AttrMap attrs, int num_outputs) {
  auto node = graph_.Add(op, "", inputs, std::move(attrs), num_outputs);
  EXPECT_TRUE(node.ok()) << node.status();
  return node.ok() ? (*node)->output(0) : inputs[0];
}

Literal RandomProgram::Numbers(const TensorType& type, int below) {
  std::vector<double> v(type.shape.num_elements());
  for (double& x : v) {
    x = below > 0 ? Below(below)
                  : (Below(1 << 20) - (1 << 19)) / double{1 << 19};
  }
  return Literal::FromDoubles(type, v);
}

Value RandomProgram::Parameter(const Shape& shape) {
  const TensorType type = {DType::kF64, shape};
  const Value v = Add("weft.Variable", {},
                      VariableAttrs(type, VariableInit::Uniform(-1, 1)));
  feeds_[graph_.node(v)->name()] = {Numbers(type)};
  parameters_.push_back(v);
  return v;
}

Value RandomProgram::Data(const Shape& shape) {
  return Source({DType::kF64, shape}, 0);
}

Value RandomProgram::Numbered(const Shape& shape, int below) {
  return Source({DType::kI32, shape}, below);
}

Value RandomProgram::Source(const TensorType& type, int below) {
  const std::string name = absl::StrCat("data", micro_feeds_[0].size());
  auto node =
      graph_.Add("weft.DataSource", name, {}, DataSourceAttrs(name, {type}), 1);
  EXPECT_TRUE(node.ok()) << node.status();
  for (Feeds& feeds : micro_feeds_) feeds[name] = {Numbers(type, below)};
  return (*node)->output(0);
}

// Later values are picked more often: programs are deep rather than wide. Small
// ones less often: there is little to do with them.
Value RandomProgram::Pick() {
  const int n = static_cast<int>(values_.size());
  for (int i = 0; i < 3; ++i) {
    const Value v = values_[std::max(Below(n), Below(n))];
    if (ShapeOf(v).num_elements() > 4) return v;
  }
  return values_[0];
}

void RandomProgram::AddSources() {
  static const std::vector<Shape> kShapes = {
      Shape({12, 24}), Shape({24, 12}),    Shape({8, 6}),     Shape({12}),
      Shape({24}),     Shape({4, 6, 12}),  Shape({2, 12, 6}), Shape({6, 4, 8}),
      Shape({7, 5}),   Shape({2, 3, 4, 6})};
  const int sources = 1 + Below(3);
  for (int i = 0; i < sources; ++i) {
    const Shape& shape = kShapes[Below(static_cast<int>(kShapes.size()))];
    Keep(i == 0 || Below(2) == 0 ? Data(shape) : Parameter(shape));
  }
}

void RandomProgram::AddSomething() {
  const Value x = Pick();
  switch (Below(16)) {
    case 0:
      return AddUnary(x);
    case 1:
    case 2:
      return AddBinary(x);
    case 3:
    case 4:
      return AddProduct(x);
    case 5:
      return AddReduction(x);
    case 6:
      return AddSoftmax(x);
    case 7:
      return AddNorm(x);
    case 8:
      return AddMovement(x);
    case 9:
      return AddPieces(x);
    case 10:
      return AddChoice(x);
    case 11:
      return AddRows(x);
    case 12:
      return AddDropout(x);
    case 13:
      return AddImageOp();
    default:
      return AddAttention(x);
  }
}

void RandomProgram::AddUnary(Value x) {
  static constexpr const char* kOps[] = {
      "Neg", "Abs", "Relu", "Sigmoid", "Tanh", "Softplus", "weft.Gelu"};
  Keep(Add(kOps[Below(7)], {x}));
}

void RandomProgram::AddBinary(Value x) {
  static constexpr const char* kOps[] = {"Add", "Sub", "Mul", "Max", "Min"};
  const char* op = kOps[Below(5)];
  // Another value that broadcasts to no more than it is, or a new one.
  Value y = Pick();
  const auto both = BroadcastShapes(ShapeOf(x), ShapeOf(y));
  if (!both.ok() || both->num_elements() > kMaxElements || Below(3) == 0) {
    Ints dims = DimsOf(ShapeOf(x));
    for (int64_t& dim : dims) dim = Below(3) == 0 ? 1 : dim;
    const int dropped = Below(static_cast<int>(dims.size()) + 1);
    dims.erase(dims.begin(), dims.begin() + dropped);
    y = Parameter(Shape(dims));
  }
  Keep(Below(2) == 0 ? Add(op, {x, y}) : Add(op, {y, x}));
}

// Products are brought back to the size of 1.
void RandomProgram::AddProduct(Value x) {
  const int rank = ShapeOf(x).rank();
  if (rank == 0) return AddUnary(x);
  const int64_t inner = ShapeOf(x).dim(rank - 1);
  const int64_t columns = Ints{4, 6, 8, 12, 5}[Below(5)];
  Value y;
  if (rank == 2 && Below(3) == 0) {
    const bool b = Below(2) == 0;
    const Value w =
        Parameter(b ? Shape({columns, inner}) : Shape({inner, columns}));
    std::vector<Value> operands = {x, w};
    if (Below(2) == 0) operands.push_back(Parameter(Shape({columns})));
    y = Add("Gemm", operands, {{"transB", b ? 1 : 0}});
  } else if (rank >= 2 && Below(2) == 0 &&
             ShapeOf(x).num_elements() / inner * ShapeOf(x).dim(rank - 2) <=
                 kMaxElements) {
    const Value t =
        Add("Transpose", {x}, {{"perm", Swapped(rank, rank - 2, rank - 1)}});
    y = Add("MatMul", {x, t});
  } else {
    y = Add("MatMul", {x, Parameter(Shape({inner, columns}))});
  }
  Keep(y);
  Keep(Add("Tanh", {y}));
}

void RandomProgram::AddReduction(Value x) {
  static constexpr const char* kOps[] = {"ReduceSum", "ReduceMean", "ReduceMax",
                                         "ReduceMin"};
  Ints axes;
  for (int d = 0; d < ShapeOf(x).rank(); ++d) {
    if (Below(3) == 0) axes.push_back(d);
  }
  if (axes.empty()) axes.push_back(0);
  if (ShapeOf(x).rank() == 0) return AddUnary(x);
  const Value y =
      Add(kOps[Below(4)], {x}, {{"axes", axes}, {"keepdims", Below(2)}});
  Keep(Add("Tanh", {y}));
}

void RandomProgram::AddSoftmax(Value x) {
  const int rank = ShapeOf(x).rank();
  if (rank == 0) return AddUnary(x);
  Keep(Add(Below(2) == 0 ? "Softmax" : "LogSoftmax", {x},
           {{"axis", Below(rank)}}));
}

void RandomProgram::AddNorm(Value x) {
  const int rank = ShapeOf(x).rank();
  if (rank == 0) return AddUnary(x);
  const int axis = Below(rank);
  Ints dims = DimsOf(ShapeOf(x));
  dims.erase(dims.begin(), dims.begin() + axis);
  const Shape tail{absl::MakeConstSpan(dims)};
  if (tail.num_elements() < 4) return AddUnary(x);
  std::vector<Value> operands = {x, Parameter(tail)};
  if (Below(2) == 0) operands.push_back(Parameter(tail));
  Keep(Add("LayerNormalization", operands, {{"axis", axis}, {"epsilon", 0.1}},
           3));
}

void RandomProgram::AddMovement(Value x) {
  const Ints dims = DimsOf(ShapeOf(x));
  const int rank = static_cast<int>(dims.size());
  switch (Below(4)) {
    case 0: {
      if (rank < 2) break;
      const int a = Below(rank);
      Keep(Add("Transpose", {x},
               {{"perm", Swapped(rank, a, (a + 1 + Below(rank - 1)) % rank)}}));
      return;
    }
    case 1: {  // two dimensions become one
      if (rank < 2) break;
      const int a = Below(rank - 1);
      Ints merged = dims;
      merged[a] *= merged[a + 1];
      merged.erase(merged.begin() + a + 1);
      Keep(Add("Reshape", {x}, {{"shape", merged}}));
      return;
    }
    case 2: {  // one becomes two
      if (rank == 0 || rank > 4) break;
      const int a = Below(rank);
      const int64_t part = Below(2) == 0 ? 2 : 3;
      if (dims[a] % part != 0) break;
      Ints cut = dims;
      cut[a] /= part;
      cut.insert(cut.begin() + a + Below(2), part);
      Keep(Add("Reshape", {x}, {{"shape", cut}}));
      return;
    }
    default: {
      if (rank > 4) break;
      Keep(Add("Unsqueeze", {x}, {{"axes", Ints{Below(rank + 1)}}}));
      return;
    }
  }
  AddUnary(x);
}

void RandomProgram::AddPieces(Value x) {
  const int rank = ShapeOf(x).rank();
  if (rank == 0) return AddUnary(x);
  const int axis = Below(rank);
  const int64_t extent = ShapeOf(x).dim(axis);
  switch (Below(3)) {
    case 0: {
      if (ShapeOf(x).num_elements() * 2 > kMaxElements) break;
      Keep(Add("Concat", {x, Add("Neg", {x})}, {{"axis", axis}}));
      return;
    }
    case 1: {
      const int64_t end = (extent + 1) / 2;
      Keep(Add(
          "Slice", {x},
          {{"starts", Ints{0}}, {"ends", Ints{end}}, {"axes", Ints{axis}}}));
      return;
    }
    default: {
      if (extent % 2 != 0) break;
      Add("Split", {x},
          {{"axis", axis}, {"split", Ints{extent / 2, extent / 2}}}, 2);
      const int32_t id = graph_.id_bound() - 1;
      Keep({id, 0});
      Keep({id, 1});
      return;
    }
  }
  AddUnary(x);
}

void RandomProgram::AddChoice(Value x) {
  const Value y = Add("Mul", {x, Parameter(Shape(ShapeOf(x)))});
  const Value less = Add("Less", {y, Parameter(Shape())});
  Keep(Add("Where", {less, x, y}));
}

void RandomProgram::AddAttention(Value x) {
  if (ShapeOf(x).rank() != 3) {
    const Value other = PickOfRank(3);
    if (!other.valid()) return AddProduct(x);
    x = other;
  }
  const int64_t width = 12, heads = Ints{1, 2, 3, 4, 6}[Below(5)];
  const Value w = Parameter(Shape({ShapeOf(x).dim(2), 3 * width}));
  const Value qkv = Add("MatMul", {x, w});
  Keep(Add("weft.SelfAttention", {qkv},
           {{"heads", heads}, {"causal", Below(2)}}, 2));
}

// Rows of a table, by number.
void RandomProgram::AddRows(Value x) {
  if (ShapeOf(x).rank() < 2) return AddUnary(x);
  const int axis = Below(ShapeOf(x).rank());
  const Shape shape = Below(2) == 0 ? Shape({12}) : Shape({4, 6});
  const Value rows = Numbered(shape, static_cast<int>(ShapeOf(x).dim(axis)));
  if (ShapeOf(x).num_elements() / ShapeOf(x).dim(axis) * 24 > kMaxElements) {
    return AddUnary(x);
  }
  Keep(Add("Gather", {x, rows}, {{"axis", axis}}));
}

void RandomProgram::AddDropout(Value x) {
  const Value counter = Add("weft.Counter", {}, {{"rate", "micro"}});
  Keep(Add("weft.DropoutTraining", {x, counter},
           {{"ratio", 0.25}, {"seed", 7}, {"stream", Below(1000)}}, 2));
}

void RandomProgram::AddImageOp() {
  Value x = PickOfRank(4);
  if (!x.valid()) {
    x = Data(Shape({4, 6, 6, 4}));
    Keep(x);
  }
  const int64_t channels = ShapeOf(x).dim(1);
  switch (Below(4)) {
    case 0: {
      const int64_t out = Below(2) == 0 ? 4 : 6;
      const Value w = Parameter(Shape({out, channels, 3, 3}));
      const Value y =
          Add("Conv", {x, w},
              {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{1, 1 + Below(2)}}});
      Keep(Add("Tanh", {y}));
      return;
    }
    case 1:
      Keep(Add("weft.BatchNormTraining",
               {x, Parameter(Shape({channels})), Parameter(Shape({channels}))},
               {{"epsilon", 0.1}}, 3));
      return;
    case 2:
      Keep(Add(Below(2) == 0 ? "MaxPool" : "AveragePool", {x},
               {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{0, 0, 1, 1}}}));
      return;
    default:
      Keep(Add("GlobalAveragePool", {x}));
      return;
  }
}

Value RandomProgram::PickOfRank(int rank) {
  std::vector<Value> all;
  for (Value v : values_) {
    if (ShapeOf(v).rank() == rank) all.push_back(v);
  }
  return all.empty() ? Value() : all[Below(static_cast<int>(all.size()))];
}

// Of what is last, with classes where that has rows.
Value RandomProgram::Loss() {
  const Value x = values_.back();
  if (ShapeOf(x).rank() == 2 && Below(3) > 0) {
    const int64_t rows = ShapeOf(x).dim(0);
    const Value labels =
        Numbered(Shape({rows}), static_cast<int>(ShapeOf(x).dim(1)));
    const Value weights = Data(Shape({rows}));
    return Add("weft.SoftmaxCrossEntropyLoss", {x, labels, weights}, {}, 2);
  }
  return Add("ReduceMean", {Add("Tanh", {x})}, {{"keepdims", 0}});
}

void RandomProgram::Train() {
  const Value loss = Loss();
  auto gradients = AddGradients(&graph_, loss, parameters_);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  auto rates = InferRates(graph_);
  ASSERT_TRUE(rates.ok()) << rates.status();
  const Value lr =
      Add("Constant", {}, {{"value", Literal::Scalar<float>(0.5f)}});
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Value sum = (*gradients)[i];
    if (!sum.valid()) continue;
    if ((*rates)[sum.node] == Rate::kMicro) {
      sum = Add("weft.Accumulate", {sum}, {{"count", micro_batches()}});
    }
    auto update = graph_.Add("weft.SgdUpdate", "", {parameters_[i], sum, lr});
    ASSERT_TRUE(update.ok()) << update.status();
  }
}

void RandomProgram::Finish() {
  for (int i = 0; i < 3; ++i) {
    const Value v = i == 0 ? values_.back() : Pick();
    auto node = graph_.Add("weft.Output", "", {v},
                           {{"name", absl::StrCat("out", i)}}, 0);
    ASSERT_TRUE(node.ok()) << node.status();
  }
}

}  // namespace weft
