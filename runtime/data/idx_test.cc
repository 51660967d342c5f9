#include "runtime/data/idx.h"

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>

#include "absl/strings/match.h"
#include "core/base/error.h"
#include "core/base/os.h"
#include "core/testing/gzip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::data {
namespace {

using ::testing::HasSubstr;

IdxArray Sample() { return {Shape({2, 3}), std::string("\1\2\3\4\5\6", 6)}; }

void ExpectError(const std::string& file, ErrorCode code,
                 const std::string& text) {
  absl::Status status = ParseIdx("some.idx", file).status();
  EXPECT_TRUE(IsError(status, code)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  EXPECT_THAT(std::string(status.message()), HasSubstr("some.idx"));
}

TEST(IdxTest, PlainAndGzip) {
  std::string file = EncodeIdx(Sample());
  for (const std::string& bytes : {file, Gzip(file)}) {
    absl::StatusOr<IdxArray> array = ParseIdx("a", bytes);
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->shape, Shape({2, 3}));
    EXPECT_EQ(array->bytes, Sample().bytes);
  }
}

TEST(IdxTest, SeveralGzipMembersAreOneFile) {
  std::string file = EncodeIdx(Sample());
  std::string two = Gzip(file.substr(0, 5)) + Gzip(file.substr(5));
  EXPECT_EQ(ParseIdx("a", two).value().bytes, Sample().bytes);
}

// As gzip itself: blocks of a tape or a disk end with zeros.
TEST(IdxTest, ZerosBehindGzipArePadding) {
  const std::string zipped = Gzip(EncodeIdx(Sample()));
  for (size_t zeros : {1, 2, 17, 4096}) {
    EXPECT_EQ(ParseIdx("a", zipped + std::string(zeros, '\0')).value().bytes,
              Sample().bytes);
  }
  ExpectError(zipped + std::string(9, '\0') + "x", ErrorCode::kDataCorrupt,
              "gzip");
  ExpectError(zipped + "x", ErrorCode::kDataCorrupt, "gzip");
}

TEST(IdxTest, RefusesWrongMagic) {
  std::string file = EncodeIdx(Sample());
  file[2] = 0x0d;  // floats
  ExpectError(file, ErrorCode::kDataFormat, "0x00000d02");
  ExpectError("PNG\r\n\x1a\n...", ErrorCode::kDataFormat, "starts with");
  ExpectError(std::string("\0\0\x8\0", 4), ErrorCode::kDataFormat, "rank");
}

TEST(IdxTest, RefusesEveryTruncation) {
  std::string file = EncodeIdx(Sample());
  for (size_t n = 0; n < file.size(); ++n) {
    absl::Status status = ParseIdx("a", file.substr(0, n)).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kDataCorrupt)) << n << status;
  }
  std::string zipped = Gzip(file);
  for (size_t n = 2; n < zipped.size(); ++n) {
    absl::Status status = ParseIdx("a", zipped.substr(0, n)).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kDataCorrupt)) << n << status;
  }
}

TEST(IdxTest, RefusesTrailingBytesAndDamage) {
  ExpectError(EncodeIdx(Sample()) + "x", ErrorCode::kDataCorrupt, "[2,3]");
  std::string zipped = Gzip(EncodeIdx(Sample()));
  zipped[zipped.size() - 6] ^= 1;  // its checksum
  ExpectError(zipped, ErrorCode::kDataCorrupt, "gzip");
}

TEST(IdxTest, RefusesAbsurdExtents) {
  std::string file = std::string("\0\0\x8\x8", 4) + std::string(32, '\xff');
  ExpectError(file, ErrorCode::kDataCorrupt, "too large");
}

TEST(IdxTest, MissingFile) {
  absl::Status status = ReadIdx(RealOs(), "/no/such.idx").status();
  EXPECT_TRUE(IsError(status, ErrorCode::kDataMissing));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/such.idx"));
}

TEST(IdxTest, InflationIsBounded) {
  std::string bomb = Gzip(std::string(1 << 20, 'x'));
  EXPECT_FALSE(Gunzip(bomb, 1000).ok());
  EXPECT_EQ(Gunzip(bomb, 1 << 20).value().size(), 1u << 20);
}

// Whether large pages are wished for ("hg") where `at` lies.
bool InLargePages(const char* at) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) ==
        2) {
      here = begin <= address && address < end;
    } else if (here && absl::StartsWith(line, "VmFlags:")) {
      return absl::StrContains(line, " hg");
    }
  }
  return false;
}

TEST(IdxTest, WhatIsInflatedLiesInLargePages) {
  if (!RealOs().Exists("/sys/kernel/mm/transparent_hugepage/enabled")) {
    GTEST_SKIP() << "no large pages in this system";
  }
  const IdxArray large = {Shape({8 << 20}), std::string(8 << 20, 'x')};
  EXPECT_FALSE(InLargePages(&large.bytes[4 << 20]));
  const IdxArray array = ParseIdx("a", Gzip(EncodeIdx(large))).value();
  EXPECT_TRUE(InLargePages(&array.bytes[4 << 20]));
}

}  // namespace
}  // namespace weft::data
