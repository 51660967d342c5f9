#include "tools/weft/memory_limit.h"

#include <cstdlib>
#include <new>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "core/base/os.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/host/services.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kNone = ~uint64_t{0};

// Files of a machine with 1000 kB free, in a process of 300 kB, 100 resident.
class MemoryLimitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = JoinPath(
        std::getenv("TEST_TMPDIR"),
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    Write("proc/meminfo",
          "MemTotal:  9000 kB\nMemAvailable:  900 kB\nSwapFree: 100 kB\n");
    Write("proc/self/status", "VmSize:\t     300 kB\nVmRSS:\t 100 kB\n");
  }
  void Write(const std::string& name, const std::string& text) {
    const std::string path = JoinPath(root_, name);
    ASSERT_TRUE(RealOs().MakeDirectories(path.substr(0, path.rfind('/'))).ok());
    ASSERT_TRUE(WriteFileAtomically(RealOs(), path, text).ok());
  }
  MemoryLimit Limit(uint64_t address_space = kNone) {
    return HostMemoryLimit(RealOs(), JoinPath(root_, "proc"),
                           JoinPath(root_, "groups"), address_space);
  }
  std::string root_;
};

TEST_F(MemoryLimitTest, TheMachinesFreeMemory) {
  EXPECT_EQ(Limit().bytes, 1000u * 1024);
  EXPECT_THAT(Limit().name, HasSubstr("free memory"));
}

TEST_F(MemoryLimitTest, WhatIsLeftOfTheAddressSpace) {
  EXPECT_EQ(Limit(500 * 1024).bytes, 200u * 1024);
  EXPECT_THAT(Limit(500 * 1024).name, HasSubstr("ulimit -v"));
  EXPECT_EQ(Limit(200 * 1024).bytes, 0u);
  EXPECT_EQ(Limit(uint64_t{1} << 40).bytes, 1000u * 1024);
}

TEST_F(MemoryLimitTest, TheSmallestGroupOfVersionTwo) {
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("groups/a/b/memory.max", "max\n");
  Write("groups/a/memory.max", "409600\n");
  EXPECT_EQ(Limit().bytes, 300u * 1024);
  EXPECT_THAT(Limit().name, HasSubstr("control group"));
}

// Others use the outer group; what they only have cached can be had.
TEST_F(MemoryLimitTest, AGroupThatOthersFill) {
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("groups/a/b/memory.max", "819200\n");  // 800 kB, of which 200 are used
  Write("groups/a/b/memory.current", "204800\n");
  EXPECT_EQ(Limit().bytes, 600u * 1024);
  Write("groups/a/memory.max", "921600\n");  // 900 kB, of which 700 are used
  Write("groups/a/memory.current", "716800\n");
  EXPECT_EQ(Limit().bytes, 200u * 1024);
  Write("groups/a/memory.stat",
        "anon 512000\nactive_file 2048\ninactive_file 204800\n");
  EXPECT_EQ(Limit().bytes, 400u * 1024);
  Write("groups/a/memory.current", "1000000\n");  // a limit lowered later
  Write("groups/a/memory.stat", "inactive_file 0\n");
  EXPECT_EQ(Limit().bytes, 0u);
}

TEST_F(MemoryLimitTest, AGroupOfVersionOneThatOthersFill) {
  Write("proc/self/cgroup", "4:memory:/x\n");
  Write("groups/memory/x/memory.limit_in_bytes", "819200\n");
  Write("groups/memory/x/memory.usage_in_bytes", "716800\n");
  Write("groups/memory/x/memory.stat",
        "inactive_file 1\ntotal_inactive_file 204800\n");
  EXPECT_EQ(Limit().bytes, 300u * 1024);
}

TEST_F(MemoryLimitTest, AGroupOfVersionOne) {
  Write("proc/self/cgroup", "3:cpu:/x\n4:memory:/\n");
  Write("groups/memory/memory.limit_in_bytes", "204800\n");
  EXPECT_EQ(Limit().bytes, 100u * 1024);
}

TEST_F(MemoryLimitTest, NoFilesNoLimit) {
  EXPECT_EQ(HostMemoryLimit(RealOs(), "/nowhere", "/nowhere", kNone).bytes,
            kNone);
}

// Without memory on a thread of its own.
void Exhaust() {
  EndWhereMemoryEnds();
  std::thread([] {
    volatile size_t most = ~size_t{0} >> 1;
    ::operator delete(::operator new(most));
  }).join();
}

TEST(ThreadMemoryReportDeathTest, AThreadsEndIsReported) {
  if (HostServices::BuildFlags() != 0) {
    GTEST_SKIP() << "a sanitizer ends the process itself";
  }
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string path =
      JoinPath(std::getenv("TEST_TMPDIR"), "last_words.txt");
  EXPECT_EXIT(
      {
        const ThreadMemoryReport report([&path](const absl::Status& status) {
          if (WriteFileAtomically(RealOs(), path, status.ToString()).ok()) {
            return;
          }
        });
        Exhaust();
      },
      ::testing::ExitedWithCode(4), "weft: error WEFT-3001: ");
  EXPECT_THAT(RealOs().ReadFile(path, 9999).value_or(""),
              HasSubstr("gave no more memory"));
  // A report that gets no memory itself is no way out.
  EXPECT_EXIT(
      {
        const ThreadMemoryReport report([](const absl::Status&) {
          volatile size_t most = ~size_t{0} >> 1;
          ::operator delete(::operator new(most));
        });
        Exhaust();
      },
      ::testing::ExitedWithCode(4), "WEFT-3001");
  EXPECT_EXIT(Exhaust(), ::testing::ExitedWithCode(4), "WEFT-3001");
  // The first thread is no other.
  EXPECT_EXIT(
      {
        EndWhereMemoryEnds();
        volatile size_t most = ~size_t{0} >> 1;
        ::operator delete(::operator new(most));
      },
      ::testing::ExitedWithCode(4), "WEFT-3001");
}

TEST(CatchOutOfMemoryTest, WhatIsThrownBecomesAnError) {
  absl::Status status = CatchOutOfMemory(
      "planning", []() -> absl::Status { throw std::bad_alloc(); });
  EXPECT_TRUE(IsError(status, ErrorCode::kOutOfMemory));
  EXPECT_THAT(std::string(status.message()), HasSubstr("planning"));
  EXPECT_TRUE(CatchOutOfMemory("", [] { return absl::OkStatus(); }).ok());
}

}  // namespace
}  // namespace weft
