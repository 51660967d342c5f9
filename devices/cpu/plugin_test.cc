// What holds for the plugin as a whole: strided operands, bad descriptions, bad
// values, and equal bits whatever the thread.
#include <cstring>
#include <thread>
#include <vector>

#include "core/ops/schema.h"
#include "devices/cpu/kernel_harness.h"
#include "gtest/gtest.h"

namespace weft::cpu {
namespace {

using Ints = std::vector<int64_t>;

// Launches `desc` on host memory, one input and one output.
absl::Status LaunchOnHost(OpDesc* desc, const void* in, void* out) {
  absl::StatusOr<std::unique_ptr<Kernel>> kernel =
      CpuDevice().OpenKernel(desc->desc());
  if (!kernel.ok()) return kernel.status();
  absl::StatusOr<std::unique_ptr<Stream>> stream = CpuDevice().OpenStream();
  if (!stream.ok()) return stream.status();
  weft_buffer inputs[] = {AtHost(in)}, outputs[] = {AtHost(out)};
  return (*kernel)->Launch(**stream, inputs, outputs);
}

TEST(Plugin, CoversEveryComputation) {
  // Everything but sources, state, sinks and movement.
  for (const OpSchema* schema : OpRegistry::Global().All()) {
    if (schema->effect == OpEffect::kStateful) continue;
    if (schema->id >= OpId::kAccumulate) continue;
    OpDesc empty(static_cast<uint32_t>(schema->id));
    absl::StatusOr<std::optional<KernelMatch>> match =
        CpuDevice().Match(empty.desc());
    // Without operands it is a wrong use of a known op, not an unknown op.
    EXPECT_FALSE(match.ok()) << schema->name;
  }
  OpDesc unknown(399);
  absl::StatusOr<std::optional<KernelMatch>> match =
      CpuDevice().Match(unknown.desc());
  ASSERT_TRUE(match.ok()) << match.status();
  EXPECT_FALSE(match->has_value());
}

TEST(Plugin, StridedOperandsAreReadOrRefused) {
  // A transposed view of a 2 x 3 matrix.
  const float x[] = {1, 2, 3, 4, 5, 6};
  const float want[] = {-1, -4, -2, -5, -3, -6};
  float y[6];
  OpDesc neg(static_cast<uint32_t>(OpId::kNeg));
  neg.In(WEFT_F32, {3, 2}, {1, 3}).Out(WEFT_F32, {3, 2});
  ASSERT_TRUE(LaunchOnHost(&neg, x, y).ok());
  EXPECT_EQ(std::memcmp(y, want, sizeof y), 0);

  OpDesc flat(static_cast<uint32_t>(OpId::kReshape));
  flat.In(WEFT_F32, {3, 2}, {1, 3}).Out(WEFT_F32, {6});
  flat.Set("shape", Ints{6});
  ASSERT_TRUE(LaunchOnHost(&flat, x, y).ok());
  const float transposed[] = {1, 4, 2, 5, 3, 6};
  EXPECT_EQ(std::memcmp(y, transposed, sizeof y), 0);

  OpDesc softmax(static_cast<uint32_t>(OpId::kSoftmax));
  softmax.In(WEFT_F32, {3, 2}, {1, 3}).Out(WEFT_F32, {3, 2});
  softmax.Set("axis", int64_t{1});
  auto match = CpuDevice().Match(softmax.desc());
  ASSERT_TRUE(match.ok() && match->has_value()) << match.status();
  EXPECT_TRUE((*match)->needs_dense);
  EXPECT_FALSE(LaunchOnHost(&softmax, x, y).ok());
}

TEST(Plugin, BroadcastStrideOfAnOperand) {
  const double x = 3;
  double y[4];
  OpDesc relu(static_cast<uint32_t>(OpId::kRelu));
  relu.In(WEFT_F64, {2, 2}, {0, 0}).Out(WEFT_F64, {2, 2});
  ASSERT_TRUE(LaunchOnHost(&relu, &x, y).ok());
  for (double v : y) EXPECT_EQ(v, 3);
}

TEST(Plugin, RefusesDescriptionsThatCannotBeRight) {
  auto refused = [](OpDesc* desc) {
    return !CpuDevice().Match(desc->desc()).ok();
  };
  OpDesc add(static_cast<uint32_t>(OpId::kAdd));
  add.In(WEFT_F32, {2}).In(WEFT_F32, {3}).Out(WEFT_F32, {3});
  EXPECT_TRUE(refused(&add));
  OpDesc mixed(static_cast<uint32_t>(OpId::kAdd));
  mixed.In(WEFT_F32, {2}).In(WEFT_F64, {2}).Out(WEFT_F32, {2});
  EXPECT_TRUE(refused(&mixed));
  OpDesc axis(static_cast<uint32_t>(OpId::kSoftmax));
  axis.In(WEFT_F32, {2}).Out(WEFT_F32, {2}).Set("axis", int64_t{4});
  EXPECT_TRUE(refused(&axis));
  OpDesc kind(static_cast<uint32_t>(OpId::kSoftmax));
  kind.In(WEFT_F32, {2}).Out(WEFT_F32, {2}).Set("axis", 1.5);
  EXPECT_TRUE(refused(&kind));
  OpDesc scalar(static_cast<uint32_t>(OpId::kSoftmax));
  scalar.In(WEFT_F32, {}).Out(WEFT_F32, {}).Set("axis", int64_t{0});
  EXPECT_TRUE(refused(&scalar));
  OpDesc beyond(static_cast<uint32_t>(OpId::kStridedCopy));
  beyond.In(WEFT_F32, {4}).Out(WEFT_F32, {5});
  beyond.Set("shape", Ints{5}).Set("strides", Ints{1});
  EXPECT_TRUE(refused(&beyond));
  OpDesc huge(static_cast<uint32_t>(OpId::kStridedCopy));
  huge.In(WEFT_F32, {4}).Out(WEFT_F32, {2});
  huge.Set("shape", Ints{2}).Set("strides", Ints{INT64_MAX});
  huge.Set("offset", INT64_MAX);
  EXPECT_TRUE(refused(&huge));
  OpDesc overflow(static_cast<uint32_t>(OpId::kNeg));
  overflow.In(WEFT_F32, {INT64_MAX, 8}).Out(WEFT_F32, {INT64_MAX, 8});
  EXPECT_TRUE(refused(&overflow));
  OpDesc conv(static_cast<uint32_t>(OpId::kConv));
  conv.In(WEFT_F32, {1, 1, 4, 4}).In(WEFT_F32, {1, 1, 3, 3});
  conv.Out(WEFT_F32, {1, 1, 2, 2}).Set("strides", Ints{0, 0});
  EXPECT_TRUE(refused(&conv));
  OpDesc program(static_cast<uint32_t>(OpId::kFused));
  program.In(WEFT_F32, {2}).Out(WEFT_F32, {2});
  program.Set("program", Ints{1, 0, 2, 0}).Set("outputs", Ints{1});
  EXPECT_TRUE(refused(&program));  // an instruction that reads itself
}

TEST(Plugin, IndicesOutOfRangeAreNamedAndNothingIsRead) {
  Literal data = Literal::Of<float>({3}, {1, 2, 3});
  for (int64_t bad : {int64_t{3}, int64_t{-4}, INT64_MIN, INT64_MAX}) {
    auto y =
        RunOnCpu({"Gather", {}, {data, Literal::Of<int64_t>({1}, {bad})}}, {});
    ASSERT_FALSE(y.ok()) << bad;
    EXPECT_NE(y.status().message().find(std::to_string(bad)),
              absl::string_view::npos)
        << y.status();
  }
  Literal scores = Literal::Of<float>({1, 3}, {1, 2, 3});
  auto loss = [&](int32_t label, float weight) {
    return RunOnCpu({"weft.SoftmaxCrossEntropyLoss",
                     {},
                     {scores, Literal::Of<int32_t>({1}, {label}),
                      Literal::Of<float>({1}, {weight})}},
                    {});
  };
  EXPECT_FALSE(loss(3, 1).ok());
  EXPECT_FALSE(loss(-1, 1).ok());
  EXPECT_TRUE(loss(3, 0).ok());  // weight 0: no part in the loss
}

// The same kernel from several threads at once gives the bits of one thread.
TEST(Plugin, ConcurrentLaunchesGiveTheSameBits) {
  Values values(1);
  const std::vector<OpCase> cases = {
      {"MatMul",
       {},
       {values.Uniform(DType::kF32, {70, 300}, -1, 1),
        values.Uniform(DType::kF32, {300, 90}, -1, 1)}},
      {"Conv",
       {{"pads", Ints{1, 1, 1, 1}}},
       {values.Uniform(DType::kF32, {4, 8, 14, 14}, -1, 1),
        values.Uniform(DType::kF32, {16, 8, 3, 3}, -1, 1)}},
      {"weft.ConvGradWeights",
       {{"weight_shape", Ints{16, 8, 3, 3}}},
       {values.Uniform(DType::kF32, {4, 16, 12, 12}, -1, 1),
        values.Uniform(DType::kF32, {4, 8, 14, 14}, -1, 1)}},
      {"ReduceSum", {}, {values.Uniform(DType::kF32, {100000}, -1, 1)}}};
  for (const OpCase& c : cases) {
    std::unique_ptr<OpDesc> desc = Describe(c);
    auto match = CpuDevice().Match(desc->desc());
    ASSERT_TRUE(match.ok() && match->has_value()) << match.status();
    auto kernel = CpuDevice().OpenKernel(desc->desc());
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    size_t bytes = static_cast<size_t>(OutputTypes(c)[0].num_bytes());
    auto launch = [&, match = *match] {
      std::string y(bytes, '\0');
      auto stream = CpuDevice().OpenStream();
      EXPECT_TRUE(stream.ok());
      auto scratch = CpuDevice().Alloc(match->workspace_bytes);
      EXPECT_TRUE(scratch.ok());
      std::vector<weft_buffer> inputs;
      for (const Literal& x : c.inputs)
        inputs.push_back(AtHost(x.bytes().data()));
      weft_buffer output = AtHost(&y[0]), workspace = AtDevice(*scratch);
      EXPECT_TRUE(
          (*kernel)->Launch(**stream, inputs.data(), &output, &workspace).ok());
      EXPECT_TRUE(CpuDevice().Free(*scratch).ok());
      return y;
    };
    const std::string alone = launch();
    std::vector<std::string> results(4);
    std::vector<std::thread> threads;
    for (std::string& result : results) {
      threads.emplace_back([&] {
        for (int i = 0; i < 8; ++i) {
          std::string y = launch();
          if (i == 0) result = y;
          EXPECT_EQ(y == alone, true) << c.ToString();
        }
      });
    }
    for (std::thread& t : threads) t.join();
    for (const std::string& result : results) EXPECT_TRUE(result == alone);
  }
}

}  // namespace
}  // namespace weft::cpu
