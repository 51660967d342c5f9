// The plan of a tiny job, as `weft plan show` prints it, compared with a file:
// a change of the compiler shows what it does to a plan in its own diff.
//
// The device is the simulated one, with primitives only: what another device
// asks for (workspaces of a vendor's library) may differ from machine to
// machine. tests/golden/update.sh writes the files anew.

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/os.h"
#include "gtest/gtest.h"
#include "plugins/host/test_plugins.h"
#include "tests/e2e/harness.h"

namespace weft::e2e {
namespace {

// The first line that differs, with its number: a diff of two plans in full is
// hard to read in a log.
std::string FirstDifference(const std::string& a, const std::string& b) {
  size_t line = 1, at = 0;
  while (at < a.size() && at < b.size() && a[at] == b[at]) {
    line += a[at++] == '\n';
  }
  auto rest = [](const std::string& s, size_t from) {
    size_t begin = from == 0 ? 0 : s.rfind('\n', from - 1) + 1;
    return s.substr(begin, s.find('\n', begin) - begin);
  };
  return absl::StrCat("line ", line, "\n  expected: ", rest(a, at),
                      "\n  got:      ", rest(b, at));
}

void ExpectGolden(const std::string& file, const Sets& sets) {
  TestJob job("golden", R"(builtin { name: "mlp"
    args { key: "hidden" value: "6" } })");
  std::vector<std::string> args = {"plan", "show", "job.txtpb"};
  for (const std::string& set : sets) {
    args.push_back("--set");
    args.push_back(set);
  }
  Ended shown = job.Weft(args).Wait();
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  const char* update = std::getenv("TEST_UPDATE");
  if (update != nullptr && *update != '\0') {
    WriteText(JoinPath(update, file), shown.out);
    return;
  }
  const std::string expected = ReadText(RunfilePath("tests/golden/" + file));
  EXPECT_EQ(expected == shown.out, true)
      << file << ", " << FirstDifference(expected, shown.out)
      << "\nIf the change is meant: tests/golden/update.sh, and read its diff.";
}

TEST(GoldenTest, TrainPlan) {
  ExpectGolden("mlp_train_plan.txt", {"devices=sim:0", "micro_batches=2"});
}

}  // namespace
}  // namespace weft::e2e
