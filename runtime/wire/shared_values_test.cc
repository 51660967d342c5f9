#include "runtime/wire/shared_values.h"

#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/wire/wire_fixture.h"

namespace weft::runtime {
namespace {

using namespace wire_testing;  // NOLINT
using ::testing::HasSubstr;

TEST(SharedValuesTest, Texts) {
  SharedValues values;
  values.key = std::string("a\0b\n", 4);
  values.values = {{1, ~uint64_t{0}, 64, 0}, {2, 7, 0, 128}};
  const auto read = ParseSharedValues(SharedValuesText(values)).value();
  EXPECT_EQ(read.key, values.key);
  ASSERT_EQ(read.values.size(), 2u);
  EXPECT_EQ(read.values[0].channel, ~uint64_t{0});
  EXPECT_EQ(read.values[0].offset, 64u);
  EXPECT_EQ(read.values[1].reader, 2u);
  EXPECT_EQ(read.values[1].stride, 128u);
  for (const std::string& text :
       {std::string("nonsense"), JoinFields({"key"}),
        JoinFields({"key", "1 2 3\n"}), JoinFields({"key", "1 2 3 -4\n"}),
        JoinFields({"key", "1 2 3 4 5\n"})}) {
    const absl::Status status = ParseSharedValues(text).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kTransportFailed)) << status;
  }
}

class SharedMemoryTest : public WireTest {
 protected:
  // Of all ranks, which meet for it.
  std::vector<absl::StatusOr<PeerValues>> Exchange(
      const std::vector<std::vector<SharedValue>>& mine) {
    std::vector<absl::StatusOr<PeerValues>> out(mine.size());
    std::vector<std::thread> threads;
    for (size_t r = 0; r < mine.size(); ++r) {
      threads.emplace_back(
          [&, r] { out[r] = ranks_[r].wire->ExchangeShared(mine[r]); });
    }
    for (std::thread& thread : threads) thread.join();
    return out;
  }
};

TEST_F(SharedMemoryTest, ValuesAreReadWhereTheyLie) {
  for (const absl::Status& s : Connect(3)) ASSERT_TRUE(s.ok()) << s;
  constexpr uint64_t kBytes = 4096;
  ASSERT_TRUE(ranks_[0].wire->AllocShared(kBytes).ok());
  ASSERT_TRUE(ranks_[2].wire->AllocShared(kBytes).ok());
  const auto values =
      Exchange({{{1, 10, 64, 128}, {2, 11, 0, 0}}, {}, {{1, 12, 256, 0}}});
  for (const auto& v : values) ASSERT_TRUE(v.ok()) << v.status();
  EXPECT_EQ(values[0]->size(), 0u);
  ASSERT_EQ(values[1]->size(), 2u);
  ASSERT_EQ(values[2]->size(), 1u);
  const PeerValue& of_first = values[1]->at({0, 10});
  EXPECT_EQ(of_first.stride, 128u);
  EXPECT_EQ(of_first.room, kBytes - 64);
  std::memcpy(ranks_[0].wire->shared() + 64, "here", 4);
  std::memcpy(ranks_[2].wire->shared() + 256, "last", 4);
  EXPECT_EQ(std::string(of_first.host, 4), "here");
  EXPECT_EQ(std::string(values[1]->at({2, 12}).host, 4), "last");
  EXPECT_EQ(std::string(values[2]->at({0, 11}).host + 64, 4), "here");
}

TEST_F(SharedMemoryTest, ValuesAreWrittenWhereTheirOwnerLetsOthers) {
  for (const absl::Status& s : Connect(2)) ASSERT_TRUE(s.ok()) << s;
  ASSERT_TRUE(ranks_[0].wire->AllocShared(4096, /*writable=*/true).ok());
  ASSERT_TRUE(ranks_[1].wire->AllocShared(4096).ok());
  const auto values = Exchange({{{1, 10, 64, 0}}, {{0, 11, 64, 0}}});
  for (const auto& v : values) ASSERT_TRUE(v.ok()) << v.status();
  EXPECT_FALSE(values[0]->at({1, 11}).writable);
  const PeerValue& value = values[1]->at({0, 10});
  ASSERT_TRUE(value.writable);
  std::memcpy(value.host, "there", 5);
  EXPECT_EQ(std::string(ranks_[0].wire->shared() + 64, 5), "there");
}

TEST_F(SharedMemoryTest, WhatCannotBeIsRefusedByWhoHearsIt) {
  for (const absl::Status& s : Connect(2)) ASSERT_TRUE(s.ok()) << s;
  ASSERT_TRUE(ranks_[0].wire->AllocShared(4096).ok());
  auto values = Exchange({{{1, 10, 1 << 20, 0}}, {}});
  EXPECT_TRUE(IsError(values[1].status(), ErrorCode::kTransportFailed))
      << values[1].status();
  EXPECT_THAT(std::string(values[1].status().message()),
              HasSubstr("rank 0 says that a value lies at byte 1048576 of"));
  // The others hear of it, at once or when they meet again.
  EXPECT_FALSE(meeting_->failure().ok());
}

// A rank that offers values and has no memory.
TEST_F(SharedMemoryTest, WithoutMemoryNothingIsMapped) {
  for (const absl::Status& s : Connect(2)) ASSERT_TRUE(s.ok()) << s;
  auto values = Exchange({{{1, 10, 0, 0}}, {}});
  EXPECT_FALSE(values[1].ok());
  EXPECT_THAT(std::string(values[1].status().message()),
              HasSubstr("values of rank 0 for rank 1"));
}

}  // namespace
}  // namespace weft::runtime
