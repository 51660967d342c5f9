#include "core/base/secret.h"

#include <cstdint>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace weft {
namespace {

// Whether the kernel would leave the mapping with this byte out of a core file.
bool LeftOut(const char* byte) {
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      const auto at = reinterpret_cast<uintptr_t>(byte);
      here = begin <= at && at < end;
    }
    if (here && line.compare(0, 8, "VmFlags:") == 0) {
      return line.find(" dd") != std::string::npos;
    }
  }
  return false;
}

TEST(SecretTest, IsInNoCoreFile) {
  const Secret secret = Secret::Of("0123456789abcdef");
  EXPECT_TRUE(LeftOut(secret.view().data()));
  const std::string copy(secret.view());
  EXPECT_FALSE(LeftOut(copy.data()));
}

TEST(SecretTest, CopiesShareThePages) {
  Secret a = Secret::Join({"ab", "", "c"});
  const Secret b = a;
  EXPECT_EQ(a.view().data(), b.view().data());
  a = Secret();
  EXPECT_TRUE(a.empty());
  EXPECT_TRUE(b == "abc");
  EXPECT_EQ(b.size(), 3u);
}

TEST(SecretTest, MayBeShorterThanItsRoom) {
  const Secret secret = Secret::Fill(100'000, [](char* to) {
    to[0] = 'x';
    to[99'999] = 'y';
    return size_t{1};
  });
  EXPECT_TRUE(secret == "x");
  EXPECT_TRUE(LeftOut(secret.view().data() + 99'999));
  EXPECT_TRUE(Secret::Of("").empty());
  EXPECT_TRUE(Secret::Of("") == "");
}

}  // namespace
}  // namespace weft
