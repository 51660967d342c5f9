#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/types/dtype.h"
#include "core/types/literal.h"
#include "core/types/reductions.h"
#include "core/types/shape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(DTypeTest, NamesRoundTrip) {
  for (uint32_t id = 1; id < kNumDTypes; ++id) {
    DType dtype = static_cast<DType>(id);
    EXPECT_EQ(ParseDType(DTypeName(dtype)).value(), dtype);
    EXPECT_GT(DTypeSize(dtype), 0u);
  }
  EXPECT_TRUE(IsError(ParseDType("f31").status(), ErrorCode::kDTypeMismatch));
  EXPECT_EQ(DTypeSize(static_cast<DType>(999)), 0u);
}

TEST(ShapeTest, ElementsAndStrides) {
  Shape s({2, 3, 4});
  EXPECT_EQ(s.num_elements(), 24);
  EXPECT_THAT(s.Strides(), testing::ElementsAre(12, 4, 1));
  EXPECT_EQ(Shape().num_elements(), 1);
  EXPECT_EQ(Shape({3, 0}).num_elements(), 0);
}

TEST(ShapeTest, CreateRefusesWhatOverflows) {
  EXPECT_FALSE(Shape::Create({-1}).ok());
  EXPECT_FALSE(Shape::Create({int64_t{1} << 40, int64_t{1} << 40}).ok());
  EXPECT_FALSE(Shape::Create({1, 1, 1, 1, 1, 1, 1, 1, 1}).ok());
  EXPECT_EQ(Shape::Create({2, 0}).value(), Shape({2, 0}));
}

TEST(ShapeTest, Broadcast) {
  EXPECT_EQ(BroadcastShapes({2, 1}, {3}).value(), Shape({2, 3}));
  EXPECT_EQ(BroadcastShapes({0}, {1}).value(), Shape({0}));
  absl::Status status = BroadcastShapes({2}, {3}).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kShapeMismatch));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("[2]"));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("[3]"));
}

TEST(LiteralTest, HalfFormatsRoundTripEveryValue) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    uint16_t b = static_cast<uint16_t>(bits);
    float f16 = F16ToFloat(b);
    if (!std::isnan(f16)) {
      EXPECT_EQ(FloatToF16(f16), b);
    }
    float bf16 = Bf16ToFloat(b);
    if (!std::isnan(bf16)) {
      EXPECT_EQ(FloatToBf16(bf16), b);
    }
  }
}

TEST(LiteralTest, HalfRoundsToNearestEven) {
  EXPECT_EQ(FloatToF16(1.0f + 1.0f / 2048), FloatToF16(1.0f));
  EXPECT_EQ(FloatToF16(1.0f + 3.0f / 2048), FloatToF16(1.0f + 4.0f / 2048));
  EXPECT_EQ(FloatToF16(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToF16(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToBf16(1.0f + 1.0f / 256), FloatToBf16(1.0f));
  EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(std::nanf("")))));
}

TEST(LiteralTest, DoublesRoundTripAndSaturate) {
  Literal a = Literal::FromDoubles({DType::kI8, {3}}, {-200, 5, 1e30});
  EXPECT_THAT(a.ToDoubles(), testing::ElementsAre(-128, 5, 127));
  EXPECT_EQ(a, Literal::Of<int8_t>({3}, {-128, 5, 127}));
  EXPECT_EQ(Literal::Splat({DType::kF32, {2}}, 1.5).data<float>()[1], 1.5f);
}

TEST(ReductionsTest, AreFoundByOpAndByName) {
  for (const Reduction& reduction : kReductions) {
    EXPECT_EQ(&ReductionOf(reduction.op), &reduction);
    EXPECT_EQ(FindReduction(Name(reduction.op)), &reduction);
  }
  EXPECT_EQ(ReductionOf(ReduceOp::kProd).of_two, "Mul");
  EXPECT_EQ(FindReduction("mean"), nullptr);
}

}  // namespace
}  // namespace weft
