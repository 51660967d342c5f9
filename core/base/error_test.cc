#include "core/base/error.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(ErrorTest, CarriesItsNumber) {
  absl::Status status = MakeError(ErrorCode::kShapeMismatch, "a and b");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kShapeMismatch);
  EXPECT_TRUE(IsError(status, ErrorCode::kShapeMismatch));
  EXPECT_FALSE(IsError(status, ErrorCode::kBadGraph));
  EXPECT_EQ(ErrorName(ErrorCode::kShapeMismatch), "WEFT-2004");
}

TEST(ErrorTest, AnnotateKeepsTheNumber) {
  absl::Status status = Annotate(
      MakeError(ErrorCode::kDataMissing, "no such file"), "reading 'x'");
  EXPECT_EQ(status.message(), "reading 'x': no such file");
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kDataMissing);
  EXPECT_TRUE(Annotate(absl::OkStatus(), "x").ok());
}

TEST(ErrorTest, PlainStatusIsInternal) {
  EXPECT_EQ(ErrorCodeOf(absl::UnknownError("x")), ErrorCode::kInternal);
}

TEST(ErrorTest, ExitCodes) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeOf(absl::UnknownError("x")), 1);
  EXPECT_EQ(ExitCodeOf(MakeError(ErrorCode::kUnknownFlag, "")), 2);
  EXPECT_EQ(ExitCodeOf(MakeError(ErrorCode::kUnknownOp, "")), 3);
  EXPECT_EQ(ExitCodeOf(MakeError(ErrorCode::kOutOfMemory, "")), 4);
  EXPECT_EQ(ExitCodeOf(MakeError(ErrorCode::kPluginAbi, "")), 5);
  EXPECT_EQ(ExitCodeOf(MakeError(ErrorCode::kDataCorrupt, "")), 6);
  EXPECT_EQ(ExitCodeOf(MakeError(ErrorCode::kNotFinite, "")), 7);
  EXPECT_EQ(ExitCodeOf(MakeError(ErrorCode::kPeerLost, "")), 138);
}

}  // namespace
}  // namespace weft
