// Ranks that may open few files (ulimit -n): they work, or each says before the
// first step which limit it met, with the exit code that belongs to it.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/harness.h"

namespace weft::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kFiles = 64;

const Sets kSteps = {"steps=5", "epochs=0", "logical_shards=2"};

std::vector<Ended> Launch(const TestJob& job, int ranks,
                          const std::string& transport) {
  const std::string name = UniqueName("files");
  std::vector<std::string> args = {"train", job.path(), "--transport",
                                   transport};
  for (const std::string& set : kSteps) {
    args.insert(args.end(), {"--set", set});
  }
  std::vector<Process> processes;
  for (int r = 0; r < ranks; ++r) {
    processes.push_back(
        job.Weft(args,
                 {{"OMPI_COMM_WORLD_RANK", absl::StrCat(r)},
                  {"OMPI_COMM_WORLD_SIZE", absl::StrCat(ranks)},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", absl::StrCat(r)},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", absl::StrCat(ranks)},
                  {"PMIX_NAMESPACE", name}},
                 {0, 0, kFiles}));
  }
  std::vector<Ended> ends;
  for (Process& process : processes) ends.push_back(process.Wait());
  return ends;
}

TEST(DescriptorsTest, TwoRanksNeedFew) {
  TestJob threads("threads", Mlp());
  const Left one = LeftBy(OnRanks(threads, 1, kSteps));
  for (const char* transport : {"shm", "grpc"}) {
    SCOPED_TRACE(transport);
    TestJob job(transport, Mlp());
    for (const Ended& end : Launch(job, 2, transport)) {
      EXPECT_EQ(end.exit_code, 0) << end.err;
    }
    ASSERT_EQ(job.Runs().size(), 1u);
    EXPECT_TRUE(StateOf(job.Runs()[0]) == one.state);
    EXPECT_EQ(MetricsOf(job.Runs()[0]), one.metrics);
  }
}

TEST(DescriptorsTest, ManyRanksNeedMoreAndEachSaysSo) {
  for (const char* transport : {"shm", "grpc"}) {
    SCOPED_TRACE(transport);
    TestJob job(transport, Mlp());
    for (const Ended& end : Launch(job, 6, transport)) {
      EXPECT_EQ(end.exit_code, 4) << end.err;
      EXPECT_THAT(end.err, AllOf(HasSubstr("WEFT-3003"),
                                 HasSubstr("a rank of 6 needs some 68 file "
                                           "descriptors, the limit is 64")));
    }
    EXPECT_THAT(job.Runs(), IsEmpty());
  }
}

}  // namespace
}  // namespace weft::e2e
