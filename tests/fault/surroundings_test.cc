// What lies around a run rather than in its job: closed standard streams, files
// that others put into a run directory, lines that they wrote into its files.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/os.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/host/services.h"
#include "plugins/host/test_plugins.h"
#include "tests/e2e/harness.h"

namespace weft::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> Train(const Sets& sets) {
  std::vector<std::string> args = {"train", "job.txtpb", "--quiet"};
  for (const std::string& set : sets) {
    args.push_back("--set");
    args.push_back(set);
  }
  return args;
}

// The last value of an argument counts, and is written once.
TEST(SurroundingsTest, AnyRunOfSetFieldsCanBeResumed) {
  TestJob job("sets", Mlp());
  const Sets sets = {"epochs=1",
                     "model.builtin.args.hidden=9",
                     "model.builtin.args.hidden=5",
                     "optimizer.adam.beta1=0.8",
                     "data.tail=DROP",
                     "data.shuffle=false",
                     "name=named",
                     "seed=3"};
  ASSERT_EQ(job.Weft(Train(sets)).Wait().exit_code, 0);
  const std::string run = job.Runs()[0];
  EXPECT_THAT(ReadText(JoinPath(run, "resolved_job.txtpb")),
              Not(HasSubstr("\"9\"")));
  EXPECT_EQ(StateOf(run).count("fc1/weight f32[5,64]") +
                StateOf(run).count("fc1/weight f32[64,5]"),
            1u);
  Ended evaluated = job.Weft({"eval", run}).Wait();
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
  Ended resumed = job.Weft({"train", "--resume", run, "--set", "epochs=2",
                            "--set", "model.builtin.args.hidden=5"})
                      .Wait();
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("epochs: 1 -> 2"));
  EXPECT_THAT(resumed.err, Not(HasSubstr("hidden")));
}

// What would be printed must not go into the files that are opened next.
TEST(SurroundingsTest, ClosedStandardStreams) {
  TestJob job("closed", Mlp());
  // Without the streams a leak checker's own thread crashes.
  const std::string command =
      absl::StrCat("cd '", job.folder(), "' && ASAN_OPTIONS=detect_leaks=0 ",
                   "WEFT_RUNS_DIR=runs '", RunfilePath("tools/weft/weft"),
                   "' train job.txtpb --set epochs=1");
  EXPECT_EQ(std::system(absl::StrCat(command, " <&- 2>&- >out").c_str()), 0);
  ASSERT_EQ(job.Runs().size(), 1u);
  const std::string run = job.Runs()[0];
  EXPECT_EQ(job.Weft({"ckpt", "verify", run}).Wait().exit_code, 0);
  EXPECT_EQ(MetricsOf(run).substr(0, 9), "{\"step\":1");
  EXPECT_THAT(MetricsOf(run), Not(HasSubstr("weft:")));
  EXPECT_THAT(ReadText(JoinPath(run, "lock")), Not(HasSubstr("weft:")));
  EXPECT_THAT(ReadText(JoinPath(run, "plan.pb")), Not(HasSubstr("weft:")));
  // The result that nobody could get is a failure, as on a full disk.
  EXPECT_NE(std::system(absl::StrCat(command, " >&- 2>err").c_str()), 0);
  EXPECT_THAT(ReadText(job.File("err")), HasSubstr("WEFT-5008"));
}

// Who reads the first lines only, as head does, wants no error; a full disk is
// one.
TEST(SurroundingsTest, AReaderThatWentAway) {
  TestJob job("reader", Mlp());
  ASSERT_EQ(mkfifo(job.File("gone").c_str(), 0600), 0);
  const std::string in = absl::StrCat("cd '", job.folder(), "' && ");
  const std::string show = absl::StrCat("'", RunfilePath("tools/weft/weft"),
                                        "' plan show job.txtpb 2>err");
  const std::string piped =
      absl::StrCat(in, "{ read go <gone; ", show,
                   "; echo $? >code; } | { exec <&-; echo >gone; }");
  ASSERT_EQ(std::system(piped.c_str()), 0);
  EXPECT_EQ(ReadText(job.File("code")), "141\n");
  EXPECT_EQ(ReadText(job.File("err")), "");
  EXPECT_NE(std::system(absl::StrCat(in, show, " >/dev/full").c_str()), 0);
  EXPECT_THAT(ReadText(job.File("err")), HasSubstr("WEFT-5008"));
}

// Where the program and its plugins just fit, what they generate and start next
// may not: that is an error as well, not a crash.
TEST(SurroundingsTest, LittleAddressSpace) {
  if (HostServices::BuildFlags() != 0) {
    GTEST_SKIP() << "sanitizers map terabytes";
  }
  int refused = 0;
  for (uint64_t megabytes = 64; megabytes < 96; megabytes += 2) {
    SCOPED_TRACE(megabytes);
    TestJob job("little", Mlp());
    Ended end =
        job.Weft(Train({"epochs=1"}), {}, {0, megabytes << 20, 0}).Wait();
    EXPECT_EQ(end.signal, 0) << end.err;
    EXPECT_THAT(end.exit_code, ::testing::AnyOf(0, 4, 5, 127)) << end.err;
    if (end.exit_code == 4) ++refused;
    // One that had begun says how it ended, whoever got no memory.
    for (const std::string& run : job.Runs()) {
      if (end.exit_code == 0) break;
      EXPECT_THAT(ReadText(JoinPath(run, "errors/rank_00000.json")),
                  HasSubstr(absl::StrCat("\"exit_code\": ", end.exit_code)));
    }
  }
  EXPECT_GT(refused, 0);
}

// The folders that a run's directory needs are made for it, and go with it.
TEST(SurroundingsTest, ARefusedRunLeavesNothing) {
  TestJob job("refused", Mlp());
  const std::string place = job.File("new/place");
  const Sets missing = {"data.train.idx.images=nowhere"};
  std::vector<std::string> args = Train(missing);
  args.insert(args.end(), {"--run-dir", place});
  EXPECT_EQ(job.Weft(args).Wait().exit_code, 6);
  EXPECT_FALSE(RealOs().Exists(job.File("new")));
  // What was there stays.
  ASSERT_TRUE(RealOs().MakeDirectories(job.File("new")).ok());
  EXPECT_EQ(job.Weft(args).Wait().exit_code, 6);
  EXPECT_TRUE(ListNames(job.File("new")).empty());
  EXPECT_TRUE(RealOs().Exists(job.File("new")));
  // A run that is resumed keeps its directory, and the reason.
  ASSERT_EQ(job.Weft(Train({"epochs=1"})).Wait().exit_code, 0);
  const std::string run = job.Runs()[0];
  Ended refused = job.Weft({"train", "--resume", run, "--set", missing[0],
                            "--set", "epochs=2"})
                      .Wait();
  EXPECT_EQ(refused.exit_code, 6) << refused.err;
  EXPECT_THAT(ReadText(JoinPath(run, "errors/rank_00000.json")),
              HasSubstr("\"WEFT-5001\""));
  EXPECT_FALSE(StateOf(run).empty());
}

TEST(SurroundingsTest, AnOddLineCostsNoHistory) {
  TestJob job("odd_line", Mlp());
  ASSERT_EQ(job.Weft(Train({"epochs=1"})).Wait().exit_code, 0);
  const std::string run = job.Runs()[0];
  const std::string path = JoinPath(run, "metrics.jsonl");
  std::string text = MetricsOf(run);
  const size_t end = text.find('\n') + 1;
  text.insert(end, "a note\n");
  WriteText(path, text);
  Ended resumed =
      job.Weft({"train", "--resume", run, "--set", "epochs=2"}).Wait();
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(MetricsOf(run).substr(0, text.size()), text);
  EXPECT_THAT(resumed.err, HasSubstr("1 lines of metrics.jsonl"));
}

TEST(SurroundingsTest, PlantedFilesNeitherHangNorLeadAway) {
  TestJob job("planted", Mlp());
  ASSERT_EQ(job.Weft(Train({"epochs=1"})).Wait().exit_code, 0);
  const std::string run = job.Runs()[0];
  const std::string victim = job.File("victim");
  WriteText(victim, "keep");
  ASSERT_EQ(mkfifo(JoinPath(run, "plan.pb.tmp").c_str(), 0600), 0);
  ASSERT_EQ(
      symlink(victim.c_str(), JoinPath(run, "resolved_job.txtpb.tmp").c_str()),
      0);
  ASSERT_EQ(symlink(victim.c_str(), JoinPath(run, "ckpt/latest.tmp").c_str()),
            0);
  Ended resumed =
      job.Weft({"train", "--resume", run, "--set", "epochs=2"}).Wait();
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(ReadText(victim), "keep");
  // A log that is none is refused instead of waited for.
  const std::string log = JoinPath(run, "logs/rank_00000.log");
  ASSERT_TRUE(RealOs().RemoveAll(log).ok());
  ASSERT_EQ(mkfifo(log.c_str(), 0600), 0);
  Ended refused =
      job.Weft({"train", "--resume", run, "--set", "epochs=3"}).Wait();
  EXPECT_EQ(refused.exit_code, 6);
  EXPECT_THAT(refused.err, HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace weft::e2e
