// Movement of elements and reductions against the reference.
#include <string>
#include <vector>

#include "devices/cpu/kernel_harness.h"
#include "gtest/gtest.h"

namespace weft::cpu {
namespace {

using Ints = std::vector<int64_t>;

// One type of each size, with its name in the tests.
const DType kBySize[] = {DType::kU8, DType::kBF16, DType::kF32, DType::kI64};

TEST(Layout, MovesElementsOfEverySize) {
  Values values(1);
  for (DType dtype : kBySize) {
    auto x = [&](const Shape& shape) {
      return values.Uniform(dtype, shape, 0, 100);
    };
    std::vector<OpCase> cases = {
        {"Reshape", {{"shape", Ints{4, -1}}}, {x({2, 6, 3})}},
        {"Flatten", {{"axis", 2}}, {x({2, 3, 4})}},
        {"Squeeze", {{"axes", Ints{0}}}, {x({1, 5})}},
        {"Unsqueeze", {{"axes", Ints{0, 2}}}, {x({5})}},
        {"Dropout", {{"ratio", 0.5}}, {values.Uniform(DType::kF32, {7}, 0, 1)}},
        {"Transpose", {}, {x({70, 45})}},
        {"Transpose", {{"perm", Ints{0, 2, 3, 1}}}, {x({2, 3, 33, 34})}},
        {"Transpose", {{"perm", Ints{2, 0, 1}}}, {x({3, 40, 1})}},
        {"Transpose", {{"perm", Ints{1, 0, 2}}}, {x({3, 4, 5})}},
        {"Transpose", {}, {x({0, 3})}},
        {"Concat", {{"axis", 1}}, {x({2, 3, 4}), x({2, 1, 4}), x({2, 0, 4})}},
        {"Concat", {{"axis", -1}}, {x({5}), x({6})}},
        {"Split", {{"axis", 1}, {"split", Ints{1, 0, 4}}}, {x({3, 5, 2})}, 3},
        {"Slice",
         {{"starts", Ints{1, -1}},
          {"ends", Ints{4, -100}},
          {"axes", Ints{0, 2}},
          {"steps", Ints{2, -3}}},
         {x({5, 3, 11})}},
        {"Slice", {{"starts", Ints{3}}, {"ends", Ints{1}}}, {x({5, 2})}},
        {"Pad", {{"pads", Ints{1, 0, 2, 3}}, {"value", 7.0}}, {x({3, 4})}},
        {"Pad", {{"pads", Ints{0, 0, 0, 0}}}, {x({3, 4})}},
        {"Expand", {{"shape", Ints{3, 4, 5}}}, {x({4, 1})}},
        {"Expand", {{"shape", Ints{6}}}, {x({})}},
        {"weft.StridedCopy",
         {{"shape", Ints{3, 2}}, {"strides", Ints{-2, 7}}, {"offset", 5}},
         {x({13})}},
        {"weft.StridedCopy",
         {{"shape", Ints{}}, {"strides", Ints{}}, {"offset", 2}},
         {x({4})}},
        {"Gather",
         {{"axis", 1}},
         {x({2, 5, 3}), Literal::Of<int64_t>({2, 2}, {4, -1, 0, -5})}},
        {"Gather", {{"axis", 0}}, {x({5}), Literal::Of<int32_t>({}, {3})}},
        {"Gather", {{"axis", 0}}, {x({5, 2}), Literal::Of<int32_t>({0}, {})}},
    };
    for (const OpCase& c : cases) ExpectMatchesReference(c, Numerics::kExact);
  }
}

TEST(Layout, GatherGradAddsInIndexOrder) {
  Values values(2);
  for (DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    ExpectMatchesReference({"weft.GatherGrad",
                            {{"axis", 1}, {"input_shape", Ints{2, 4, 3}}},
                            {values.Uniform(dtype, {2, 6, 3}, -1, 1),
                             Literal::Of<int32_t>({6}, {0, 3, 3, -1, 0, 0})}},
                           Numerics::kAccumulated);
  }
}

TEST(Layout, Iota) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kI32, DType::kI64,
                      DType::kU8, DType::kF64}) {
    for (int64_t axis : {0, 1, -1}) {
      ExpectMatchesReference(
          {"weft.Iota",
           {{"shape", Ints{3, 5, 2}}, {"dtype", dtype}, {"axis", axis}},
           {}},
          Numerics::kExact);
    }
  }
}

TEST(Reduce, EveryAxisSet) {
  Values values(3);
  const char* const ops[] = {"ReduceSum", "ReduceMean", "ReduceMax",
                             "ReduceMin", "ReduceProd"};
  const Shape shape({3, 17, 2, 70});
  for (const char* op : ops) {
    for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      for (int mask = 0; mask < 16; ++mask) {
        Ints axes;
        for (int d = 0; d < 4; ++d) {
          if ((mask >> d & 1) != 0) axes.push_back(mask % 2 == 0 ? d : d - 4);
        }
        bool product = std::string(op) == "ReduceProd";
        Literal x = values.Uniform(dtype, shape, product ? 0.99 : -1,
                                   product ? 1.01 : 1);
        ExpectMatchesReference(
            {op, {{"axes", axes}, {"keepdims", mask / 2 % 2}}, {x}},
            product && dtype == DType::kBF16 ? Numerics::kRounded
                                             : Numerics::kAccumulated);
      }
    }
  }
}

TEST(Reduce, IntegersLongRowsAndEmptyOnes) {
  Values values(4);
  for (DType dtype : {DType::kI32, DType::kI64, DType::kU8}) {
    for (const char* op : {"ReduceSum", "ReduceMax", "ReduceMin"}) {
      ExpectMatchesReference(
          {op, {{"axes", Ints{1}}}, {values.Uniform(dtype, {4, 37}, 0, 200)}},
          Numerics::kExact);
    }
  }
  // Longer than a block of a row; more rows than a block of columns.
  ExpectMatchesReference(
      {"ReduceSum", {}, {values.Uniform(DType::kF32, {200001}, 0, 1)}},
      Numerics::kAccumulated);
  ExpectMatchesReference({"ReduceSum",
                          {{"axes", Ints{0}}},
                          {values.Uniform(DType::kF32, {1500, 67}, 0, 1)}},
                         Numerics::kAccumulated);
  for (const char* op :
       {"ReduceSum", "ReduceProd", "ReduceMean", "ReduceMax", "ReduceMin"}) {
    for (const Ints& axes : {Ints{0}, Ints{1}, Ints{}}) {
      // An empty choice is refused before any kernel sees it.
      bool choice =
          op == std::string("ReduceMax") || op == std::string("ReduceMin");
      if (choice && axes != Ints{0}) continue;
      OpCase c{
          op, {{"axes", axes}}, {values.Uniform(DType::kF32, {3, 0}, 0, 1)}};
      ExpectMatchesReference(c, Numerics::kExact);
    }
  }
  ExpectMatchesReference({"ReduceSum", {}, {Literal::Scalar<float>(2)}},
                         Numerics::kExact);
}

TEST(Reduce, NaNWinsMaxima) {
  Values values(5);
  for (const char* op : {"ReduceMax", "ReduceMin"}) {
    Literal x = values.Special(DType::kF32, {16, 9});
    ExpectMatchesReference({op, {{"axes", Ints{0}}}, {x}},
                           Numerics::kAccumulated);
    ExpectMatchesReference({op, {{"axes", Ints{1}}}, {x}},
                           Numerics::kAccumulated);
  }
}

TEST(Reduce, ArgMaxTakesTheFirst) {
  Values values(6);
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kI32}) {
    for (int64_t axis : {0, 1, -1}) {
      ExpectMatchesReference({"ArgMax",
                              {{"axis", axis}, {"keepdims", 0}},
                              {values.Uniform(dtype, {4, 9, 5}, 0, 3)}},
                             Numerics::kExact);
    }
  }
  ExpectMatchesReference({"ArgMax", {}, {values.Special(DType::kF32, {20, 7})}},
                         Numerics::kExact);
}

}  // namespace
}  // namespace weft::cpu
