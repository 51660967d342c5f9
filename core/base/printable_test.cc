#include "core/base/printable.h"

#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(PrintableTest, ControlCharactersAreShown) {
  EXPECT_EQ(Printable("a\tb\nc d"), "a\tb\nc d");
  EXPECT_EQ(Printable("no '\x1b[2J\r\x7f'"), "no '\\x1b[2J\\r\\x7f'");
  EXPECT_EQ(Printable("Käse"), "Käse");
}

}  // namespace
}  // namespace weft
