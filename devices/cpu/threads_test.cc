// Every family of kernels gives the same bits whatever threads the host lends,
// in whatever order they take the blocks; on shapes that are cut into several.
#include <atomic>
#include <thread>
#include <vector>

#include "core/ops/schema.h"
#include "devices/cpu/kernel_harness.h"
#include "gtest/gtest.h"
#include "plugins/host/services.h"

namespace weft::cpu {
namespace {

using Ints = std::vector<int64_t>;

std::atomic<uint64_t> loops{0};  // that were cut into two or more blocks

// Blocks in the order 0, 1, 2 ... in the calling thread.
void Forwards(uint64_t n, void (*fn)(void*, uint64_t), void* arg) {
  loops += n > 1 ? 1 : 0;
  for (uint64_t i = 0; i < n; ++i) fn(arg, i);
}
void Backwards(uint64_t n, void (*fn)(void*, uint64_t), void* arg) {
  for (uint64_t i = n; i-- > 0;) fn(arg, i);
}
// kThreads threads, thread t takes blocks t, t + kThreads ...
template <uint64_t kThreads>
void Threads(uint64_t n, void (*fn)(void*, uint64_t), void* arg) {
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([=] {
      for (uint64_t i = t; i < n; i += kThreads) fn(arg, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class ThreadsTest : public testing::Test {
 protected:
  void TearDown() override { SetHostHooks({}); }

  // The kernel cuts its work, and the cut makes no difference.
  void ExpectSameBits(const OpCase& c) {
    loops = 0;
    absl::StatusOr<std::vector<Literal>> want = With(&Forwards, 1, c);
    ASSERT_TRUE(want.ok()) << c.ToString() << want.status();
    EXPECT_GT(loops.load(), 0u) << "never parallel: " << c.ToString();
    Same(c, *want, With(&Backwards, 1, c), "backwards");
    Same(c, *want, With(&Threads<2>, 2, c), "2 threads");
    Same(c, *want, With(&Threads<3>, 3, c), "3 threads");
    Same(c, *want, With(&Threads<4>, 4, c), "4 threads");
    SetHostHooks({});  // what a plugin without a host's threads does
    Same(c, *want, RunOnCpu(c, {}), "no hook");
  }

  Literal Make(const Shape& shape, double low = -1, double high = 1) {
    return values_.Uniform(DType::kF32, shape, low, high);
  }
  Literal MakeOf(DType dtype, const Shape& shape, double low, double high) {
    return values_.Uniform(dtype, shape, low, high);
  }

 private:
  static absl::StatusOr<std::vector<Literal>> With(
      decltype(HostHooks::parallel_for) hook, uint32_t budget,
      const OpCase& c) {
    static uint32_t threads;
    threads = budget;
    HostHooks hooks;
    hooks.parallel_for = hook;
    hooks.thread_budget = [] { return threads; };
    SetHostHooks(hooks);
    RunOptions options;
    options.garbage = static_cast<uint8_t>(0x10 + budget);
    return RunOnCpu(c, options);
  }
  static void Same(const OpCase& c, const std::vector<Literal>& want,
                   const absl::StatusOr<std::vector<Literal>>& got,
                   const char* how) {
    ASSERT_TRUE(got.ok()) << c.ToString() << got.status();
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE((*got)[i] == want[i])
          << c.ToString() << " output " << i << " has other bits with " << how;
    }
  }

  Values values_{11};
};

TEST_F(ThreadsTest, Elementwise) {
  const Shape shape({7, 101, 139});
  Literal x = Make(shape, 0.1, 2), y = Make(shape);
  ExpectSameBits({"Relu", {}, {y}});
  ExpectSameBits({"Exp", {}, {x}});
  ExpectSameBits({"weft.GeluGrad", {{"approximate", "tanh"}}, {y, x}});
  ExpectSameBits({"Add", {}, {x, y}});
  ExpectSameBits({"Mul", {}, {x, Make({101, 1})}});
  ExpectSameBits({"Less", {}, {x, y}});
  ExpectSameBits({"Cast", {{"to", DType::kF16}}, {x}});
  ExpectSameBits({"Where", {}, {MakeOf(DType::kBool, shape, 0, 2), x, y}});
  ExpectSameBits({"Transpose", {{"perm", Ints{1, 0, 2}}}, {x}});
}

TEST_F(ThreadsTest, Fused) {
  // relu(a * b + c) * 0.5, and a * b.
  const Shape shape({300, 1001});
  auto id = [](OpId op) { return static_cast<int64_t>(op); };
  AttrMap attrs = {
      {"program", Ints{id(OpId::kMul), 0, 1, 0, id(OpId::kAdd), 3, 2, 0,
                       id(OpId::kRelu), 4, 0, 0, id(OpId::kMul), 5, -1, 0}},
      {"constants", std::vector<double>{0.5}},
      {"outputs", Ints{6, 3}}};
  ExpectSameBits(
      {"weft.fused", attrs, {Make(shape), Make({1001}), Make({})}, 2});
}

TEST_F(ThreadsTest, Products) {
  ExpectSameBits({"MatMul", {}, {Make({200, 300}), Make({300, 520})}});
  ExpectSameBits({"MatMul", {}, {Make({24, 70, 130}), Make({24, 130, 150})}});
  ExpectSameBits({"Gemm",
                  {{"transA", 1}, {"alpha", 0.5}},
                  {Make({128, 784}), Make({128, 300}), Make({300})}});
  ExpectSameBits({"Gemm",
                  {{"transB", 1}},
                  {Make({128, 784}), Make({300, 784}), Make({300})}});
  ExpectSameBits({"Gemm",
                  {{"transB", 1}, {"activation", "relu"}},
                  {Make({64, 784}), Make({512, 784}), Make({512})}});
  ExpectSameBits({"MatMul",
                  {},
                  {MakeOf(DType::kF64, {64, 65}, -1, 1),
                   MakeOf(DType::kF64, {65, 66}, -1, 1)}});
}

TEST_F(ThreadsTest, Convolutions) {
  const AttrMap attrs = {{"pads", Ints{1, 1, 1, 1}}, {"group", 2}};
  Literal x = Make({12, 16, 20, 20}), w = Make({48, 8, 3, 3});
  Literal dy = Make({12, 48, 20, 20});
  ExpectSameBits({"Conv", attrs, {x, w, Make({48})}});
  AttrMap to_input = attrs, to_weights = attrs;
  to_input.Set("input_shape", Ints{12, 16, 20, 20});
  to_weights.Set("weight_shape", Ints{48, 8, 3, 3});
  ExpectSameBits({"weft.ConvGradInput", to_input, {dy, w}});
  ExpectSameBits({"weft.ConvGradWeights", to_weights, {dy, x}});
  ExpectSameBits({"weft.ConvGradWeights", to_weights, {dy, x}, 2});
}

TEST_F(ThreadsTest, ImagesInBlocksOfChannels) {
  const AttrMap layout = {{"layout", "NCHW16c"}};
  AttrMap conv = layout;
  conv.Set("out_layout", "NCHW16c");
  conv.Set("pads", Ints{1, 1, 1, 1});
  Literal x = Make({12, 4, 20, 20, 16}), w = Make({64, 64, 3, 3});
  AttrMap to_input = conv, to_weights = conv;
  to_input.Set("input_shape", Ints{12, 64, 20, 20});
  to_weights.Set("weight_shape", Ints{64, 64, 3, 3});
  absl::StatusOr<std::optional<KernelMatch>> match =
      CpuDevice().Match(Describe({"Conv", conv, {x, w}})->desc());
  ASSERT_TRUE(match.ok()) << match.status();
  if (match->has_value()) {  // with AVX-512 alone
    // By Winograd's algorithm, and, with strides, directly.
    for (int64_t stride : {1, 2}) {
      for (AttrMap* attrs : {&conv, &to_input, &to_weights}) {
        attrs->Set("strides", Ints{stride, stride});
      }
      Literal dy = Make({12, 4, 20 / stride, 20 / stride, 16});
      ExpectSameBits({"Conv", conv, {x, w, Make({64})}});
      ExpectSameBits({"weft.ConvGradInput", to_input, {dy, w}});
      ExpectSameBits({"weft.ConvGradWeights", to_weights, {dy, x}, 2});
    }
  }
  for (const Ints& kernel : {Ints{2, 2}, Ints{3, 3}}) {
    AttrMap pool = layout;
    pool.Set("kernel_shape", kernel);
    pool.Set("strides", Ints{2, 2});
    pool.Set("ceil_mode", 1);
    Literal dy = Make({12, 4, 10, 10, 16});
    ExpectSameBits({"MaxPool", pool, {x}});
    ExpectSameBits({"weft.MaxPoolGrad", pool, {dy, x}});
    ExpectSameBits({"AveragePool", pool, {x}});
    pool.Set("input_shape", Ints{12, 64, 20, 20});
    ExpectSameBits({"weft.AveragePoolGrad", pool, {dy}});
  }
  ExpectSameBits({"GlobalAveragePool", layout, {x}});
  Literal scale = Make({64}), bias = Make({64}), mean = Make({64});
  Literal variance = Make({64}, 0.5, 1);
  ExpectSameBits(
      {"BatchNormalization", layout, {x, scale, bias, mean, variance}});
  ExpectSameBits({"weft.BatchNormTraining", layout, {x, scale, bias}});
  ExpectSameBits({"weft.BatchNormGrad",
                  layout,
                  {Make({12, 4, 20, 20, 16}), x, scale, mean, variance}});
}

TEST_F(ThreadsTest, Pools) {
  Literal x = Make({5, 30, 32, 32}), dy = Make({5, 30, 16, 16});
  for (const Ints& kernel : {Ints{2, 2}, Ints{2, 3}}) {
    AttrMap attrs = {{"kernel_shape", kernel}, {"strides", Ints{2, 2}}};
    attrs.Set("pads", Ints{0, 0, 0, kernel[1] - 2});
    ExpectSameBits({"MaxPool", attrs, {x}});
    ExpectSameBits({"weft.MaxPoolGrad", attrs, {dy, x}});
    ExpectSameBits({"AveragePool", attrs, {x}});
    attrs.Set("input_shape", Ints{5, 30, 32, 32});
    ExpectSameBits({"weft.AveragePoolGrad", attrs, {dy}});
  }
  ExpectSameBits({"GlobalAveragePool", {}, {x}});
}

TEST_F(ThreadsTest, Norms) {
  Literal x = Make({6, 24, 30, 30}), dy = Make({6, 24, 30, 30});
  Literal scale = Make({24}), bias = Make({24});
  Literal mean = Make({24}), variance = Make({24}, 0.5, 1);
  ExpectSameBits({"BatchNormalization", {}, {x, scale, bias, mean, variance}});
  ExpectSameBits({"weft.BatchNormTraining", {}, {x, scale, bias}});
  ExpectSameBits({"weft.BatchNormGrad", {}, {dy, x, scale, mean, variance}});
  Literal rows = Make({700, 150});
  ExpectSameBits({"LayerNormalization", {}, {rows, Make({150}), Make({150})}});
  ExpectSameBits({"weft.LayerNormGrad",
                  {},
                  {Make({700, 150}), rows, Make({150}), Make({700, 1}),
                   Make({700, 1}, 0.5, 1)}});
}

TEST_F(ThreadsTest, Attention) {
  const AttrMap attrs = {
      {"heads", 4}, {"causal", 1}, {"ratio", 0.2}, {"seed", 1}, {"stream", 2}};
  Literal qkv = Make({5, 100, 96}), y = Make({5, 100, 32});
  Literal lse = Make({5, 4, 100}, 4, 5);
  Literal counter = Literal::Of<int64_t>({2}, {3, 1});
  ExpectSameBits({"weft.SelfAttention", attrs, {qkv, counter}});
  ExpectSameBits(
      {"weft.SelfAttentionGrad", attrs, {qkv, y, lse, y, lse, counter}});
}

TEST_F(ThreadsTest, SoftmaxAndLoss) {
  Literal scores = Make({999, 100}, -5, 5);
  ExpectSameBits({"Softmax", {}, {scores}});
  ExpectSameBits({"LogSoftmax", {{"axis", 0}}, {Make({400, 300})}});
  Literal labels = MakeOf(DType::kI32, {999}, 0, 100);
  Literal weights = Make({999}, 0.5, 1);
  ExpectSameBits(
      {"weft.SoftmaxCrossEntropyLoss", {}, {scores, labels, weights}});
  ExpectSameBits({"weft.SoftmaxCrossEntropyLossGrad",
                  {},
                  {Make({}), scores, labels, weights}});
}

TEST_F(ThreadsTest, Reductions) {
  Literal x = Make({40, 50, 60});
  for (const Ints& axes : {Ints{0}, Ints{1}, Ints{2}, Ints{0, 2}, Ints{1, 2}}) {
    ExpectSameBits({"ReduceSum", {{"axes", axes}}, {x}});
  }
  ExpectSameBits({"ReduceMax", {{"axes", Ints{2}}}, {x}});
  ExpectSameBits({"weft.GlobalNorm", {}, {x, Make({300000}), Make({5})}});
  ExpectSameBits({"weft.SumOfSquares", {}, {Make({300000})}});
  ExpectSameBits({"weft.SumOfSquares",
                  {{"parts", 2}, {"blocks", Ints{150016}}},
                  {Make({300000})}});
  for (int n : {2, 3, 8}) {
    std::vector<Literal> inputs;
    for (int i = 0; i < n; ++i) inputs.push_back(Make({7, 101, 139}));
    ExpectSameBits({"weft.ReduceToAll", {}, inputs, n});
    ExpectSameBits({"weft.ReduceToAll", {{"squares", 1}}, inputs, n + 1});
    ExpectSameBits({"weft.CopyToAll", {}, inputs, n - 1});
  }
}

TEST_F(ThreadsTest, UpdatesAndRandomNumbers) {
  const Shape shape({100001});
  Literal p = Make(shape), g = Make(shape), m = Make(shape);
  Literal v = Make(shape, 0, 1), rate = Make({}, 0.01, 0.1);
  Literal counter = Literal::Of<int64_t>({2}, {3, 1});
  ExpectSameBits({"weft.SgdUpdate", {}, {p, g, rate}});
  ExpectSameBits({"weft.MomentumUpdate", {{"momentum", 0.9}}, {p, m, g, rate}});
  ExpectSameBits({"weft.AdamUpdate",
                  {{"beta1", 0.9}, {"beta2", 0.99}, {"epsilon", 1e-8}},
                  {p, m, v, g, rate, counter}});
  ExpectSameBits({"weft.AdagradUpdate", {{"epsilon", 1e-8}}, {p, v, g, rate}});
  ExpectSameBits({"weft.EmaUpdate", {{"momentum", 0.9}}, {p, g}});
  Literal small = Make({7}), next = Make({50000});
  ExpectSameBits({"weft.SgdUpdate",
                  {},
                  {p, small, next, g, small, next, rate, Make({}, 0, 1)},
                  3});
  const AttrMap random = {{"seed", 1},
                          {"stream", 2},
                          {"shape", Ints{100001}},
                          {"dtype", DType::kF32}};
  ExpectSameBits({"weft.RandomUniform", random, {counter}});
  ExpectSameBits({"weft.RandomNormal", random, {counter}});
  ExpectSameBits({"weft.DropoutTraining",
                  {{"seed", 1}, {"stream", 2}, {"ratio", 0.4}},
                  {p, counter}});
  ExpectSameBits({"weft.DropoutGrad",
                  {{"ratio", 0.4}},
                  {p, MakeOf(DType::kBool, shape, 0, 2)}});
}

// The first `rows` of an f32 [n, columns].
Literal FirstRows(const Literal& x, int64_t rows) {
  const int64_t columns = x.type().shape.dim(1);
  const absl::Span<const float> values =
      x.data<float>().subspan(0, rows * columns);
  return Literal::Of<float>({rows, columns}, {values.begin(), values.end()});
}

// Its rows again and again, until there are `rows`.
Literal Repeated(const Literal& x, int64_t rows) {
  std::vector<float> values;
  const absl::Span<const float> once = x.data<float>();
  const int64_t columns = x.type().shape.dim(1);
  while (static_cast<int64_t>(values.size()) < rows * columns) {
    values.insert(values.end(), once.begin(), once.end());
  }
  values.resize(rows * columns);
  return Literal::Of<float>({rows, columns}, values);
}

// A large result is written past the caches, from a buffer; rows that begin on
// a cache line and others.
TEST(FarRowsTest, HaveTheSameBits) {
  Values values(8);
  const int64_t few = 70;
  for (int64_t columns : {1024, 1022}) {
    const int64_t rows = (int64_t{16} << 20) / 4 / columns + 1;
    const Literal near_x = values.Uniform(DType::kF32, {few, columns}, -8, 0);
    const Literal far_x = Repeated(near_x, rows);
    auto expect_same = [&](OpCase c, size_t x, size_t result) {
      auto near = RunOnCpu(c, {});
      c.inputs[x] = far_x;
      for (size_t i = x + 1; i < std::min(x + 3, c.inputs.size()); ++i) {
        const TensorType type = c.inputs[i].type();  // labels, weights
        c.inputs[i] = Literal::Splat({type.dtype, {rows}}, 1);
      }
      auto far = RunOnCpu(c, {});
      ASSERT_TRUE(far.ok() && near.ok()) << far.status() << near.status();
      EXPECT_TRUE(FirstRows((*far)[result], few) == (*near)[result])
          << c.op << " of rows of " << columns;
    };
    const Literal dloss = Literal::Scalar<float>(0.5f);
    const Literal labels = Literal::Splat({DType::kI32, {few}}, 1);
    const Literal weights = Literal::Splat({DType::kF32, {few}}, 1);
    expect_same({"Softmax", {}, {near_x}}, 0, 0);
    if (columns % 16 != 0) continue;
    expect_same({"LogSoftmax", {}, {near_x}}, 0, 0);
    expect_same({"weft.SoftmaxCrossEntropyLoss", {}, {near_x, labels, weights}},
                0, 1);
    expect_same({"weft.SoftmaxCrossEntropyLossGrad",
                 {},
                 {dloss, near_x, labels, weights}},
                1, 0);
    expect_same({"weft.SoftmaxCrossEntropyLossAndGrad",
                 {},
                 {near_x, labels, weights, dloss}},
                0, 1);
  }
}

}  // namespace
}  // namespace weft::cpu
