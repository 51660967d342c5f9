#include "core/base/crc32c.h"

#include <string>

#include "gtest/gtest.h"

namespace weft {
namespace {

// The vectors of RFC 3720, B.4, and the usual check value.
TEST(Crc32cTest, KnownValues) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending += c;
  EXPECT_EQ(Crc32c(ascending), 0x46DD794Eu);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(Crc32cTest, TheTableSaysTheSame) {
  std::string bytes;
  for (uint32_t i = 0; i < 300; ++i) {
    EXPECT_EQ(Crc32c(bytes), internal::Crc32cByTable(bytes)) << i;
    bytes += static_cast<char>(i * i * 37 >> 3);
  }
}

}  // namespace
}  // namespace weft
