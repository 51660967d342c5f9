// What holds for the engine of elementwise kernels as a whole: a fused program
// computes the bits of its ops one by one, strides and broadcasts change none,
// integers are exact at their own width, and what only moves keeps its bits.
#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/ops/fused.h"
#include "core/ops/schema.h"
#include "devices/cpu/kernel_harness.h"
#include "gtest/gtest.h"

namespace weft::cpu {
namespace {

constexpr DType kF32 = DType::kF32, kBool = DType::kBool;

// A value of any bits: NaNs with a payload, denormals, infinities.
Literal AnyBits(DType dtype, const Shape& shape, std::mt19937* engine) {
  TensorType type{dtype, shape};
  std::string bytes(static_cast<size_t>(type.num_bytes()), '\0');
  for (size_t i = 0; i < bytes.size(); i += 4) {
    const uint32_t bits = static_cast<uint32_t>((*engine)());
    std::memcpy(&bytes[i], &bits, std::min<size_t>(4, bytes.size() - i));
  }
  for (char& byte : bytes) byte &= dtype == kBool ? 1 : -1;
  return Literal(type, std::move(bytes));
}

// ---- Fused and one by one

// A program that grows op by op, each of which is run on its own too.
class Region {
 public:
  Region(uint32_t seed, DType wide) : engine_(seed), values_(seed) {
    // Every type has an operand of the whole shape first.
    const std::vector<DType> types =
        wide == DType::kF64
            ? std::vector<DType>{DType::kF64, kBool}
            : std::vector<DType>{kF32, DType::kBF16, DType::kF16, kBool};
    const std::vector<Shape> shapes = {{3, 7, 129}, {5, 520}, {1300}, {40, 12}};
    shape_ = shapes[Pick(shapes.size())];
    for (DType dtype : types) AddOperand(dtype, shape_);
    for (int i = 0; i < 3; ++i) {
      Shape smaller;
      std::vector<int64_t> dims;
      for (int64_t dim : shape_.dims()) dims.push_back(Pick(2) ? dim : 1);
      AddOperand(types[Pick(types.size())], Shape(dims));
    }
    types_ = types;
  }

  // A random op on random values so far.
  void Grow() {
    const DType dtype = types_[Pick(types_.size())];
    Value x = Choose(dtype, /*whole=*/true);
    if (Pick(4) == 0) {
      const DType to = types_[Pick(types_.size())];
      return Append("Cast", {{"to", to}}, {x});
    }
    if (Pick(6) == 0) {
      return Append("Where", {}, {Choose(kBool, true), x, Choose(dtype)});
    }
    if (dtype == kBool) {
      const char* ops[] = {"And", "Or", "Equal", "Not", "Where"};
      const size_t k = Pick(4);
      if (k == 3) return Append("Not", {}, {x});
      return Append(ops[k], {}, {x, Choose(dtype)});
    }
    const std::vector<std::string> binary = {
        "Add", "Sub", "Mul", "Div", "Max", "Min", "Less", "GreaterOrEqual"};
    const std::vector<std::string> unary = {
        "Neg",       "Abs",       "Exp",  "Tanh",       "Relu",
        "Sigmoid",   "Sqrt",      "Sign", "Reciprocal", "Identity",
        "LeakyRelu", "weft.Gelu", "Log",  "Softplus"};
    if (Pick(2) == 0) {
      return Append(binary[Pick(binary.size())], {}, {x, Choose(dtype)});
    }
    const std::string& op = unary[Pick(unary.size())];
    AttrMap attrs;
    if (op == "weft.Gelu" && Pick(2) == 0) attrs.Set("approximate", "tanh");
    if (op == "LeakyRelu") attrs.Set("alpha", 0.1);
    Append(op, attrs, {x});
  }

  void ExpectSameBits(uint32_t seed) {
    FusedProgram program(static_cast<int>(operands_.size()));
    std::vector<int> codes(literals_.size());
    for (size_t i = 0; i < operands_.size(); ++i)
      codes[i] = static_cast<int>(i);
    for (const Step& step : steps_) {
      std::vector<TensorType> in, out = {literals_[step.result].type()};
      std::vector<int> arguments;
      for (Value v : step.inputs) {
        in.push_back(literals_[v].type());
        arguments.push_back(codes[v]);
      }
      OpView view(*OpRegistry::Global().FindOrNull(step.op), "n", step.attrs,
                  in, out);
      codes[step.result] = program.AddNode(view, arguments);
    }
    std::vector<Value> wanted = {literals_.size() - 1};
    while (wanted.size() < 3) {
      wanted.push_back(operands_.size() + Pick(steps_.size()));
    }
    if (Pick(2) == 0) wanted.resize(1);
    for (Value v : wanted) {
      program.outputs.push_back(codes[v]);
      program.types.push_back(literals_[v].type().dtype);
    }
    // Steps may all be moves.
    if (program.instructions().empty()) return;
    OpCase fused{"weft.fused", program.ToAttrs(), operands_,
                 static_cast<int>(wanted.size())};
    auto got = RunOnCpu(fused, {});
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t i = 0; i < wanted.size(); ++i) {
      const Literal& want = literals_[wanted[i]];
      EXPECT_EQ((*got)[i].type(), want.type()) << seed;
      EXPECT_EQ(FirstDifference((*got)[i], want), -1)
          << "seed " << seed << " output " << i << " of "
          << steps_[wanted[i] - operands_.size()].op << " " << fused.ToString();
    }
  }

 private:
  using Value = size_t;  // of literals_: operands, then results
  struct Step {
    std::string op;
    AttrMap attrs;
    std::vector<Value> inputs;
    Value result;
  };

  static int64_t FirstDifference(const Literal& a, const Literal& b) {
    const size_t size = DTypeSize(a.type().dtype);
    for (size_t i = 0; i < a.bytes().size(); i += size) {
      if (std::memcmp(&a.bytes()[i], &b.bytes()[i], size) != 0) {
        return static_cast<int64_t>(i / size);
      }
    }
    return -1;
  }

  size_t Pick(size_t n) { return engine_() % n; }

  void AddOperand(DType dtype, const Shape& shape) {
    Literal x = Pick(2) == 0 ? AnyBits(dtype, shape, &engine_)
                             : values_.Special(dtype, shape);
    operands_.push_back(x);
    literals_.push_back(std::move(x));
  }

  Value Choose(DType dtype, bool whole = false) {
    std::vector<Value> fitting;
    for (Value v = 0; v < literals_.size(); ++v) {
      const TensorType& type = literals_[v].type();
      if (type.dtype != dtype || (whole && type.shape != shape_)) continue;
      fitting.push_back(v);
    }
    // Half of the time what was made last, so that chains grow.
    return Pick(2) == 0 ? fitting.back() : fitting[Pick(fitting.size())];
  }

  void Append(const std::string& op, const AttrMap& attrs,
              const std::vector<Value>& inputs) {
    OpCase c{op, attrs, {}};
    for (Value v : inputs) c.inputs.push_back(literals_[v]);
    auto result = RunOnCpu(c, {});
    ASSERT_TRUE(result.ok()) << c.ToString() << result.status();
    steps_.push_back({op, attrs, inputs, literals_.size()});
    literals_.push_back((*result)[0]);
  }

  std::mt19937 engine_;
  Values values_;
  Shape shape_;
  std::vector<DType> types_;
  std::vector<Literal> operands_;
  std::vector<Literal> literals_;
  std::vector<Step> steps_;
};

TEST(Engine, FusedComputesTheBitsOfOneByOne) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    Region region(seed, seed % 5 == 0 ? DType::kF64 : kF32);
    for (uint32_t i = 0; i < 2 + seed % 17; ++i) region.Grow();
    region.ExpectSameBits(seed);
  }
}

// ---- Strides

Literal RunWithStrides(const std::string& op, const std::vector<Literal>& in,
                       const std::vector<std::vector<int64_t>>& dims,
                       const std::vector<std::vector<int64_t>>& strides,
                       const TensorType& out) {
  OpDesc desc(static_cast<uint32_t>(OpRegistry::Global().FindOrNull(op)->id));
  std::vector<weft_buffer> buffers;
  for (size_t i = 0; i < in.size(); ++i) {
    desc.In(static_cast<uint32_t>(in[i].type().dtype), dims[i], strides[i]);
    buffers.push_back(AtHost(in[i].bytes().data()));
  }
  std::vector<int64_t> out_dims(out.shape.dims().begin(),
                                out.shape.dims().end());
  desc.Out(static_cast<uint32_t>(out.dtype), out_dims);
  if (op == "Cast") desc.SetDType("to", static_cast<uint32_t>(out.dtype));
  auto match = CpuDevice().Match(desc.desc());
  EXPECT_TRUE(match.ok() && match->has_value()) << op << match.status();
  EXPECT_EQ((*match)->workspace_bytes, 0u) << "an op that small";
  auto kernel = CpuDevice().OpenKernel(desc.desc());
  auto stream = CpuDevice().OpenStream();
  std::string bytes(static_cast<size_t>(out.num_bytes()), '\x5A');
  weft_buffer result = AtHost(bytes.data());
  EXPECT_TRUE((*kernel)->Launch(**stream, buffers.data(), &result).ok());
  return Literal(out, bytes);
}

// The operand that the strides describe, written out.
Literal Dense(const Literal& x, const std::vector<int64_t>& dims,
              const std::vector<int64_t>& strides) {
  const size_t size = DTypeSize(x.type().dtype);
  std::string bytes;
  for (int64_t i = 0; i < dims[0]; ++i) {
    for (int64_t j = 0; j < dims[1]; ++j) {
      const int64_t at = i * strides[0] + j * strides[1];
      bytes +=
          std::string(x.bytes().substr(static_cast<size_t>(at) * size, size));
    }
  }
  return Literal({x.type().dtype, Shape(dims)}, bytes);
}

TEST(Engine, StridesChangeNoBits) {
  std::mt19937 engine(5);
  struct Use {
    std::string op;
    std::vector<DType> in;
    DType out;
  };
  std::vector<Use> uses;
  for (DType t : {kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8,
                  DType::kU8, DType::kI16, DType::kI32, DType::kI64}) {
    uses.push_back({"Add", {t, t}, t});
    uses.push_back({"Less", {t, t}, kBool});
    uses.push_back({"Where", {kBool, t, t}, t});
    uses.push_back({"Abs", {t}, t});
    uses.push_back({"Cast", {t}, kF32});
    uses.push_back({"Cast", {t}, DType::kI32});
    uses.push_back({"Cast", {kBool}, t});
  }
  // Transposed, every third, rows that repeat, columns that repeat.
  const std::vector<int64_t> shapes[] = {{17, 45}, {9, 300}, {3, 700}};
  int count = 0;
  for (const std::vector<int64_t>& dims : shapes) {
    const std::vector<std::vector<int64_t>> layouts = {
        {1, dims[0]}, {3 * dims[1], 3}, {0, 1},          {1, 0},
        {dims[1], 1}, {0, 0},           {dims[1] + 5, 1}};
    for (const Use& use : uses) {
      std::vector<Literal> raw, dense;
      std::vector<std::vector<int64_t>> all_dims, strides;
      for (DType dtype : use.in) {
        strides.push_back(layouts[engine() % layouts.size()]);
        all_dims.push_back(dims);
        const int64_t reach = (dims[0] - 1) * strides.back()[0] +
                              (dims[1] - 1) * strides.back()[1] + 1;
        raw.push_back(AnyBits(dtype, Shape({reach}), &engine));
        dense.push_back(Dense(raw.back(), dims, strides.back()));
      }
      const TensorType out{use.out, Shape(dims)};
      AttrMap attrs;
      if (use.op == "Cast") attrs.Set("to", use.out);
      Literal got = RunWithStrides(use.op, raw, all_dims, strides, out);
      auto want = RunOnCpu({use.op, attrs, dense}, {});
      ASSERT_TRUE(want.ok()) << want.status();
      EXPECT_TRUE(got == (*want)[0])
          << use.op << " of " << DTypeName(use.in.back()) << ", case " << count;
      ++count;
    }
  }
}

// ---- Integers and moves

template <class T>
std::vector<T> ValuesOf(const Literal& x) {
  std::vector<T> values(x.bytes().size() / sizeof(T));
  std::memcpy(values.data(), x.bytes().data(), x.bytes().size());
  return values;
}

// Against C++'s own arithmetic, which the reference in double is not for i64.
template <class T>
void CheckIntegers(std::mt19937* engine) {
  const DType dtype = DTypeOf<T>::value;
  const Shape shape({1111});
  Literal a = AnyBits(dtype, shape, engine), b = AnyBits(dtype, shape, engine);
  std::vector<T> x = ValuesOf<T>(a), y = ValuesOf<T>(b);
  y[0] = 0;
  x[1] = std::numeric_limits<T>::min();
  y[1] = static_cast<T>(-1);
  x[2] = y[2];
  a = Literal::Of<T>(shape, x);
  b = Literal::Of<T>(shape, y);
  auto run = [&](const char* op, auto expected) {
    auto got = RunOnCpu({op, {}, {a, b}}, {});
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t i = 0; i < x.size(); ++i) {
      using R = decltype(expected(x[0], y[0]));
      ASSERT_EQ(ValuesOf<R>((*got)[0])[i], expected(x[i], y[i]))
          << op << " " << DTypeName(dtype) << " " << i;
    }
  };
  using U = uint64_t;
  run("Add", [](T p, T q) { return static_cast<T>(U(p) + U(q)); });
  run("Sub", [](T p, T q) { return static_cast<T>(U(p) - U(q)); });
  run("Mul", [](T p, T q) { return static_cast<T>(U(p) * U(q)); });
  run("Div", [](T p, T q) {
    if (q == 0) return T(0);
    if (std::is_signed_v<T> && q == static_cast<T>(-1)) {
      return static_cast<T>(U(0) - U(p));
    }
    return static_cast<T>(p / q);
  });
  run("Max", [](T p, T q) { return p > q ? p : q; });
  run("Min", [](T p, T q) { return p < q ? p : q; });
  run("Less", [](T p, T q) { return static_cast<uint8_t>(p < q); });
  run("Equal", [](T p, T q) { return static_cast<uint8_t>(p == q); });
}

TEST(Engine, IntegersAreExactAtTheirWidth) {
  std::mt19937 engine(6);
  for (int i = 0; i < 3; ++i) {
    CheckIntegers<int8_t>(&engine);
    CheckIntegers<uint8_t>(&engine);
    CheckIntegers<int16_t>(&engine);
    CheckIntegers<int32_t>(&engine);
    CheckIntegers<int64_t>(&engine);
  }
}

TEST(Engine, CastsOfIntegersRoundOnceAndSaturate) {
  // Halfway between two floats, but for the last bit.
  Literal x = Literal::Of<int64_t>(
      {4},
      {(int64_t{1} << 60) + (int64_t{1} << 36) + 1, INT64_MAX, INT64_MIN, -7});
  auto f32 = RunOnCpu({"Cast", {{"to", kF32}}, {x}}, {});
  ASSERT_TRUE(f32.ok()) << f32.status();
  EXPECT_EQ((*f32)[0], Literal::Of<float>(
                           {4}, {0x1.000002p60f, 0x1p63f, -0x1p63f, -7.0f}));
  // The same of bf16; as doubles the first and the third are halfway.
  const int64_t middle = (int64_t{1} << 62) + (int64_t{1} << 54);
  Literal y = Literal::Of<int64_t>({4}, {middle + 1, middle, -middle - 1, -7});
  auto bf16 = RunOnCpu({"Cast", {{"to", DType::kBF16}}, {y}}, {});
  ASSERT_TRUE(bf16.ok()) << bf16.status();
  EXPECT_EQ((*bf16)[0].ToDoubles(),
            (std::vector<double>{0x1.02p62, 0x1p62, -0x1.02p62, -7.0}));
  auto u8 = RunOnCpu({"Cast", {{"to", DType::kU8}}, {x}}, {});
  ASSERT_TRUE(u8.ok()) << u8.status();
  EXPECT_EQ((*u8)[0], Literal::Of<uint8_t>({4}, {255, 255, 0, 0}));
  // Powers are computed in double and saturate at the operand's type. By its
  // schema the op is one of floats; the kernel takes all numbers.
  const std::vector<std::vector<int64_t>> dims(2, {1, 3}), strides(2, {3, 1});
  Literal pow = RunWithStrides("Pow",
                               {Literal::Of<int8_t>({3}, {10, 2, -10}),
                                Literal::Of<int8_t>({3}, {20, 5, 21})},
                               dims, strides, {DType::kI8, {1, 3}});
  EXPECT_EQ(pow, Literal::Of<int8_t>({1, 3}, {127, 32, -128}));
}

TEST(Engine, WhatMovesKeepsItsBits) {
  std::mt19937 engine(7);
  const Shape shape({700});
  for (DType dtype : {kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8,
                      DType::kI64}) {
    Literal c = AnyBits(kBool, shape, &engine);
    Literal a = AnyBits(dtype, shape, &engine);
    Literal b = AnyBits(dtype, shape, &engine);
    auto chosen = RunOnCpu({"Where", {}, {c, a, b}}, {});
    auto same = RunOnCpu({"Cast", {{"to", dtype}}, {a}}, {});
    ASSERT_TRUE(chosen.ok() && same.ok()) << chosen.status() << same.status();
    EXPECT_TRUE((*same)[0] == a) << DTypeName(dtype);
    std::string want;
    const size_t size = DTypeSize(dtype);
    for (size_t i = 0; i < 700; ++i) {
      const Literal& from = c.bytes()[i] != 0 ? a : b;
      want += std::string(from.bytes().substr(i * size, size));
    }
    EXPECT_TRUE((*chosen)[0].bytes() == want) << DTypeName(dtype);
  }
}

// Large results take another way to memory; small ones are computed before.
TEST(Engine, LargeResultsHaveTheBitsOfTheirPieces) {
  std::mt19937 engine(8);
  constexpr int64_t kCount = (int64_t{17} << 18) + 5, kPiece = kCount / 5;
  struct Use {
    const char* op;
    std::vector<DType> in;
    AttrMap attrs;
  };
  const Use uses[] = {{"Add", {kF32, kF32}, {}},
                      {"Mul", {DType::kBF16, DType::kBF16}, {}},
                      {"Cast", {kF32}, {{"to", DType::kBF16}}},
                      {"Cast", {kBool}, {{"to", kF32}}},
                      {"LeakyRelu", {kF32}, {}},
                      {"Where", {kBool, kF32, kF32}, {}}};
  for (const Use& use : uses) {
    OpCase whole{use.op, use.attrs, {}};
    for (DType dtype : use.in) {
      whole.inputs.push_back(AnyBits(dtype, {kCount}, &engine));
    }
    auto got = RunOnCpu(whole, {});
    ASSERT_TRUE(got.ok()) << got.status();
    RunOptions in_place;
    in_place.in_place = static_cast<int>(use.in.size()) - 1;
    if (use.op != std::string("Cast")) {
      auto again = RunOnCpu(whole, in_place);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_TRUE((*again)[0] == (*got)[0]) << use.op << " in place";
    }
    std::string pieces;
    for (int64_t at = 0; at < kCount; at += kPiece) {
      const int64_t n = std::min(kPiece, kCount - at);
      OpCase piece{use.op, use.attrs, {}};
      for (const Literal& x : whole.inputs) {
        const size_t size = DTypeSize(x.type().dtype);
        piece.inputs.emplace_back(
            TensorType{x.type().dtype, {n}},
            std::string(x.bytes().substr(static_cast<size_t>(at) * size,
                                         static_cast<size_t>(n) * size)));
      }
      auto part = RunOnCpu(piece, {});
      ASSERT_TRUE(part.ok()) << part.status();
      pieces += std::string((*part)[0].bytes());
    }
    EXPECT_TRUE((*got)[0].bytes() == pieces) << use.op;
  }
}

TEST(Engine, AnyNonZeroByteIsTrue) {
  std::string bytes(300, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  Literal odd({kBool, {300}}, bytes);
  std::vector<float> truth(300);
  for (size_t i = 0; i < truth.size(); ++i) truth[i] = bytes[i] != 0 ? 1 : 0;
  auto as_float = RunOnCpu({"Cast", {{"to", kF32}}, {odd}}, {});
  ASSERT_TRUE(as_float.ok()) << as_float.status();
  EXPECT_EQ((*as_float)[0], Literal::Of<float>({300}, truth));
  auto neither = RunOnCpu({"Not", {}, {odd}}, {});
  auto both = RunOnCpu({"And", {}, {odd, odd}}, {});
  ASSERT_TRUE(neither.ok() && both.ok());
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ((*neither)[0].bytes()[i], bytes[i] == 0 ? 1 : 0) << i;
    EXPECT_EQ((*both)[0].bytes()[i], bytes[i] != 0 ? 1 : 0) << i;
  }
}

// 64 operands, 192 constants, 64 instructions of three operands.
TEST(Engine, TheLargestProgram) {
  Values values(11);
  std::vector<Literal> inputs;
  for (int i = 0; i < 64; ++i) {
    inputs.push_back(values.Uniform(DType::kF32, {700}, -1, 1));
  }
  std::vector<int64_t> program;
  std::vector<double> constants;
  for (int64_t i = 0; i < 64; ++i) {  // input i != 0 ? constant : the last one
    program.insert(program.end(), {static_cast<int64_t>(OpId::kWhere), i,
                                   -1 - 3 * i, i == 0 ? int64_t{0} : 63 + i});
  }
  for (int i = 0; i < 192; ++i) constants.push_back(i / 256.0);
  ExpectMatchesReference({"weft.fused",
                          {{"program", program},
                           {"constants", constants},
                           {"outputs", std::vector<int64_t>{127, 64}}},
                          inputs,
                          2},
                         Numerics::kExact);
}

}  // namespace
}  // namespace weft::cpu
