// Every kernel of the simulated device against the reference definition of the
// op, through the plugin ABI: device memory, a queue, results copied back.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/reference/eager.h"
#include "core/types/literal.h"
#include "devices/testing/attributes.h"
#include "plugins/host/device.h"
#include "plugins/host/op_desc.h"
#include "plugins/host/test_plugins.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

class KernelsTest : public testing::Test {
 protected:
  KernelsTest() {
    plugin_ = Plugin::Load("sim", TestLoadOptions({"devices/sim"})).value();
    device_ = Device::Open(*plugin_, 0).value();
    stream_ = device_->OpenStream().value();
  }
  ~KernelsTest() override {
    for (weft_mem mem : memory_) EXPECT_TRUE(device_->Free(mem).ok());
  }

  weft_buffer Put(const Literal& literal) {
    const weft_mem mem = device_->Alloc(literal.bytes().size()).value();
    memory_.push_back(mem);
    EXPECT_TRUE(stream_
                    ->Copy(AtDevice(mem), AtHost(literal.bytes().data()),
                           literal.bytes().size())
                    .ok());
    EXPECT_TRUE(stream_->Sync().ok());  // the literal may go when we return
    return AtDevice(mem);
  }

  Literal Get(const weft_buffer& buffer, const TensorType& type) {
    std::string bytes(type.shape.num_elements() * DTypeSize(type.dtype), '\0');
    EXPECT_TRUE(stream_->Copy(AtHost(bytes.data()), buffer, bytes.size()).ok());
    EXPECT_TRUE(stream_->Sync().ok());
    return Literal(type, std::move(bytes));
  }

  // Runs the op on the device and by its definition, and compares all results.
  // `in_place`: result i is written over input i.
  void Check(uint32_t id, const std::string& name,
             const std::vector<Literal>& inputs, const AttrMap& attrs = {},
             int outputs = 1, bool in_place = false) {
    SCOPED_TRACE(name);
    EagerEmitter reference;
    std::vector<Value> values;
    for (const Literal& x : inputs) values.push_back(reference.Add(x));
    const std::vector<Value> expected =
        reference.Emit(name, values, attrs, outputs);
    ASSERT_TRUE(reference.status().ok()) << reference.status();

    OpDesc desc(id);
    std::vector<weft_buffer> in, out;
    for (const Literal& x : inputs) {
      desc.In(static_cast<uint32_t>(x.type().dtype), DimsOf(x.type().shape));
      in.push_back(Put(x));
    }
    for (int i = 0; i < outputs; ++i) {
      const Literal& y = reference.literal(expected[i]);
      desc.Out(static_cast<uint32_t>(y.type().dtype), DimsOf(y.type().shape));
      out.push_back(in_place ? in[i] : Put(Literal::Splat(y.type(), 1)));
    }
    for (const auto& [name, attr] : attrs) SetAttribute(name, attr, &desc);
    auto match = device_->Match(desc.desc());
    ASSERT_TRUE(match.ok()) << match.status();
    ASSERT_TRUE(match->has_value()) << "not supported";
    EXPECT_FALSE((*match)->needs_dense);
    auto kernel = device_->OpenKernel(desc.desc());
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    ASSERT_TRUE((*kernel)->Launch(*stream_, in.data(), out.data()).ok());
    for (int i = 0; i < outputs; ++i) {
      const Literal& want = reference.literal(expected[i]);
      Compare(Get(out[i], want.type()), want);
    }
  }

  static void Compare(const Literal& got, const Literal& want) {
    const std::vector<double> a = got.ToDoubles();
    const std::vector<double> b = want.ToDoubles();
    ASSERT_EQ(a.size(), b.size());
    const double slack = want.type().dtype == DType::kF64   ? 1e-13
                         : want.type().dtype == DType::kF32 ? 3e-7
                                                            : 0;
    for (size_t i = 0; i < a.size(); ++i) {
      if (std::isnan(b[i]) || std::isinf(b[i])) {
        EXPECT_TRUE(std::isnan(b[i]) ? std::isnan(a[i]) : a[i] == b[i])
            << i << ": " << a[i] << ", want " << b[i];
      } else {
        EXPECT_NEAR(a[i], b[i], slack * (1 + std::fabs(b[i]))) << i;
      }
    }
  }

  const Plugin* plugin_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::vector<weft_mem> memory_;
};

// Reproducible values around zero, ties included.
Literal Some(DType dtype, Shape shape, int salt = 0) {
  std::vector<double> v(shape.num_elements());
  for (size_t i = 0; i < v.size(); ++i) {
    const int k = static_cast<int>((i + salt) * 7919 % 17) - 8;
    v[i] = IsFloat(dtype) ? k * 0.375 : k;
  }
  return Literal::FromDoubles({dtype, shape}, v);
}
Literal Special(DType dtype) {
  return Literal::FromDoubles(
      {dtype, {8}}, {0.0, -0.0, kNan, kInf, -kInf, 1e30, -1e-30, 0.5});
}
Literal Bools(Shape shape, int salt = 0) {
  std::vector<double> v(shape.num_elements());
  for (size_t i = 0; i < v.size(); ++i) v[i] = (i * 3 + salt) % 5 < 2;
  return Literal::FromDoubles({DType::kBool, shape}, v);
}

const std::pair<Shape, Shape> kShapes[] = {{{2, 3}, {2, 3}}, {{2, 3}, {3}},
                                           {{2, 1}, {1, 3}}, {{}, {2, 2}},
                                           {{0, 3}, {3}},    {{4}, {}}};

TEST_F(KernelsTest, ArithmeticBroadcasts) {
  const std::pair<uint32_t, std::string> ops[] = {
      {WEFT_OP_ADD, "Add"}, {WEFT_OP_SUB, "Sub"}, {WEFT_OP_MUL, "Mul"},
      {WEFT_OP_DIV, "Div"}, {WEFT_OP_MAX, "Max"}, {WEFT_OP_MIN, "Min"}};
  for (DType type : {DType::kF32, DType::kF64, DType::kI32, DType::kI64}) {
    for (const auto& [a, b] : kShapes) {
      for (const auto& [id, name] : ops) {
        Check(id, name, {Some(type, a), Some(type, b, 5)});
      }
    }
  }
  for (const auto& [id, name] : ops) {
    Check(id, name, {Special(DType::kF32), Some(DType::kF32, {8})});
    Check(id, name, {Some(DType::kF64, {8}), Special(DType::kF64)});
  }
  Check(WEFT_OP_POW, "Pow",
        {Some(DType::kF32, {3}), Some(DType::kF32, {3}, 2)});
}

TEST_F(KernelsTest, IntegersWrapAround) {
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min();
  constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
  const Literal a = Literal::Of<int32_t>({5}, {kMax, kMin, kMin, 7, -7});
  const Literal b = Literal::Of<int32_t>({5}, {1, 1, -1, 0, 2});
  Check(WEFT_OP_ADD, "Add", {a, b});
  Check(WEFT_OP_SUB, "Sub", {a, b});
  Check(WEFT_OP_MUL, "Mul", {a, a});
  Check(WEFT_OP_DIV, "Div", {a, b});
  Check(WEFT_OP_NEG, "Neg", {a});
  Check(WEFT_OP_ABS, "Abs", {a});
}

TEST_F(KernelsTest, ComparisonsAndLogic) {
  const std::pair<uint32_t, std::string> ops[] = {
      {WEFT_OP_EQUAL, "Equal"},
      {WEFT_OP_LESS, "Less"},
      {WEFT_OP_LESS_OR_EQUAL, "LessOrEqual"},
      {WEFT_OP_GREATER, "Greater"},
      {WEFT_OP_GREATER_OR_EQUAL, "GreaterOrEqual"}};
  for (const auto& [id, name] : ops) {
    for (DType type : {DType::kF32, DType::kI64}) {
      for (const auto& [a, b] : kShapes) {
        Check(id, name, {Some(type, a), Some(type, b, 5)});
      }
    }
    Check(id, name, {Special(DType::kF32), Special(DType::kF32)});
  }
  Check(WEFT_OP_AND, "And", {Bools({4, 5}), Bools({5}, 1)});
  Check(WEFT_OP_OR, "Or", {Bools({4, 5}), Bools({5}, 1)});
  Check(WEFT_OP_NOT, "Not", {Bools({9})});
  for (DType type : {DType::kF32, DType::kI32, DType::kBool}) {
    Check(
        WEFT_OP_WHERE, "Where",
        {Bools({2, 3}), type == DType::kBool ? Bools({3}, 2) : Some(type, {3}),
         type == DType::kBool ? Bools({2, 1}, 3) : Some(type, {2, 1}, 4)});
  }
}

TEST_F(KernelsTest, Functions) {
  const std::pair<uint32_t, std::string> ops[] = {
      {WEFT_OP_NEG, "Neg"},
      {WEFT_OP_ABS, "Abs"},
      {WEFT_OP_EXP, "Exp"},
      {WEFT_OP_LOG, "Log"},
      {WEFT_OP_SQRT, "Sqrt"},
      {WEFT_OP_TANH, "Tanh"},
      {WEFT_OP_ERF, "Erf"},
      {WEFT_OP_SIGN, "Sign"},
      {WEFT_OP_RECIPROCAL, "Reciprocal"}};
  for (const auto& [id, name] : ops) {
    for (DType type : {DType::kF32, DType::kF64}) {
      Check(id, name, {Some(type, {3, 6})});
      Check(id, name, {Special(type)});
      Check(id, name, {Some(type, {5})}, {}, 1, /*in_place=*/true);
    }
  }
  Check(WEFT_OP_SIGN, "Sign", {Some(DType::kI32, {17})});
}

TEST_F(KernelsTest, CastSaturates) {
  const DType types[] = {DType::kF32, DType::kF64, DType::kI32, DType::kI64,
                         DType::kBool};
  for (DType to : types) {
    for (DType from : types) {
      const Literal x = from == DType::kBool ? Bools({7}) : Some(from, {7});
      Check(WEFT_OP_CAST, "Cast", {x}, {{"to", to}});
    }
    if (to == DType::kI64) continue;  // the reference counts in double
    Check(WEFT_OP_CAST, "Cast", {Special(DType::kF64)}, {{"to", to}});
  }
}

TEST_F(KernelsTest, Movement) {
  const Literal x = Some(DType::kF32, {2, 3, 4});
  Check(WEFT_OP_IDENTITY, "Identity", {x});
  Check(WEFT_OP_RESHAPE, "Reshape", {x}, {{"shape", Ints{6, 4}}});
  Check(WEFT_OP_STRIDED_COPY, "weft.StridedCopy", {x},
        {{"shape", Ints{4, 3, 2}}, {"strides", Ints{1, 4, 12}}, {"offset", 0}});
  Check(WEFT_OP_STRIDED_COPY, "weft.StridedCopy", {Some(DType::kI64, {5})},
        {{"shape", Ints{2, 5}}, {"strides", Ints{0, -1}}, {"offset", 4}});
  for (DType index : {DType::kI32, DType::kI64}) {
    const Literal at = Literal::FromDoubles({index, {2, 2}}, {0, 2, -1, 1});
    for (int axis : {0, 1, -1}) {
      const Literal data = Some(DType::kF32, {3, 3, 3});
      Check(WEFT_OP_GATHER, "Gather", {data, at}, {{"axis", axis}});
      const Shape gathered = axis == 0   ? Shape{2, 2, 3, 3}
                             : axis == 1 ? Shape{3, 2, 2, 3}
                                         : Shape{3, 3, 2, 2};
      Check(WEFT_OP_GATHER_GRAD, "weft.GatherGrad",
            {Some(DType::kF32, gathered), at},
            {{"axis", axis}, {"input_shape", Ints{3, 3, 3}}});
    }
  }
  for (DType type : {DType::kF32, DType::kI32, DType::kI64}) {
    Check(WEFT_OP_IOTA, "weft.Iota", {},
          {{"shape", Ints{2, 3, 2}}, {"dtype", type}, {"axis", 1}});
  }
}

TEST_F(KernelsTest, Reductions) {
  const std::pair<uint32_t, std::string> ops[] = {
      {WEFT_OP_REDUCE_SUM, "ReduceSum"},
      {WEFT_OP_REDUCE_PROD, "ReduceProd"},
      {WEFT_OP_REDUCE_MAX, "ReduceMax"},
      {WEFT_OP_REDUCE_MIN, "ReduceMin"}};
  for (const auto& [id, name] : ops) {
    for (DType type : {DType::kF32, DType::kF64, DType::kI32, DType::kI64}) {
      for (const Ints& axes : {Ints{}, Ints{0}, Ints{-1}, Ints{0, 2}}) {
        for (int keep : {0, 1}) {
          Check(id, name, {Some(type, {2, 3, 2})},
                {{"axes", axes}, {"keepdims", keep}});
        }
      }
    }
    Check(id, name, {Special(DType::kF32)},
          {{"axes", Ints{0}}, {"keepdims", 1}});
  }
  for (int axis : {0, 1, -1}) {
    Check(WEFT_OP_ARG_MAX, "ArgMax", {Some(DType::kF32, {4, 5, 6})},
          {{"axis", axis}, {"keepdims", 0}});
  }
  Check(WEFT_OP_ARG_MAX, "ArgMax", {Special(DType::kF32)},
        {{"axis", 0}, {"keepdims", 1}});
}

TEST_F(KernelsTest, MatMul) {
  const std::pair<Shape, Shape> shapes[] = {{{2, 3}, {3, 4}},
                                            {{3}, {3, 4}},
                                            {{2, 3}, {3}},
                                            {{3}, {3}},
                                            {{2, 2, 3}, {3, 2}},
                                            {{2, 3}, {5, 3, 2}},
                                            {{2, 1, 2, 3}, {4, 3, 2}},
                                            {{0, 3}, {3, 2}},
                                            {{2, 0}, {0, 2}}};
  for (const auto& [a, b] : shapes) {
    Check(WEFT_OP_MAT_MUL, "MatMul",
          {Some(DType::kF32, a), Some(DType::kF32, b, 3)});
    Check(WEFT_OP_MAT_MUL, "MatMul",
          {Some(DType::kF64, a), Some(DType::kF64, b, 3)});
  }
}

TEST_F(KernelsTest, Updates) {
  for (bool in_place : {false, true}) {
    for (DType type : {DType::kF32, DType::kF64}) {
      const Literal p = Some(type, {3, 5});
      const Literal g = Some(type, {3, 5}, 4);
      const Literal v = Some(type, {3, 5}, 9);
      const Literal lr = Literal::Scalar<float>(0.25f);
      const Literal half = Literal::Scalar<float>(0.5f);
      const Literal nan = Literal::Scalar<float>(std::nanf(""));
      Check(WEFT_OP_ASSIGN, "weft.Assign", {p, g}, {}, 1, in_place);
      for (const Literal& multiplier : {half, nan}) {
        Check(WEFT_OP_SGD_UPDATE, "weft.SgdUpdate", {p, g, lr, multiplier},
              {{"weight_decay", 0.5}}, 1, in_place);
        Check(WEFT_OP_MOMENTUM_UPDATE, "weft.MomentumUpdate",
              {p, v, g, lr, multiplier}, {{"momentum", 0.5}}, 2, in_place);
      }
      Check(WEFT_OP_SGD_UPDATE, "weft.SgdUpdate", {p, g, lr},
            {{"weight_decay", 0.5}}, 1, in_place);
      for (int nesterov : {0, 1}) {
        Check(
            WEFT_OP_MOMENTUM_UPDATE, "weft.MomentumUpdate", {p, v, g, lr},
            {{"momentum", 0.5}, {"nesterov", nesterov}, {"weight_decay", 0.25}},
            2, in_place);
      }
    }
  }
}

}  // namespace
}  // namespace weft
