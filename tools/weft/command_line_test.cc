#include "tools/weft/command_line.h"

#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CommandLineTest : public ::testing::Test {
 protected:
  CommandLineTest() : line_("tool", "A tool.", "1.2") {
    Command* train = line_.Add("train", "Trains.", "tool train job");
    train->Positional("job", &job_, "the job");
    train->Option("--set", &sets_, "a field");
    train->Option("--run-dir", &dir_, "a directory");
    train->Option("--seed", &seed_, "a number");
    train->Flag("--quiet", &quiet_, "says less");
    train->Run([this] {
      ++runs_;
      return absl::OkStatus();
    });
    Command* run = line_.Add("run", "Runs.", "");
    run->Option("--times", &seed_, "a number");
    run->Flag("--quiet", &quiet_, "says less");
    run->Option("--resume", &dir_, "a directory");
    run->Rest(&rest_, &dir_);
    run->Run([] { return absl::OkStatus(); });
    Command* plan = line_.Add("plan", "Plans.", "");
    plan->Add("show", "Shows.", "tool plan show")->Run([this] {
      ++shows_;
      return absl::OkStatus();
    });
  }

  void ExpectError(std::vector<std::string> args, ErrorCode code,
                   const std::string& text) {
    absl::Status status = line_.ParseAndRun(std::move(args));
    EXPECT_TRUE(IsError(status, code)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_EQ(runs_, 0);
  }

  CommandLine line_;
  std::string job_, dir_;
  std::vector<std::string> sets_, rest_;
  uint64_t seed_ = 7;
  bool quiet_ = false;
  int runs_ = 0, shows_ = 0;
};

TEST_F(CommandLineTest, EmptyValuesAreNobodysWish) {
  ExpectError({"train", "j", "--run-dir", ""}, ErrorCode::kBadValue,
              "after '--run-dir'");
  ExpectError({"train", "--run-dir=", "j"}, ErrorCode::kBadValue,
              "of '--run-dir='");
  ExpectError({"train", ""}, ErrorCode::kBadValue, "after 'train'");
  ExpectError({""}, ErrorCode::kBadValue, "at the start");
}

TEST_F(CommandLineTest, NumbersThatDoNotFit) {
  for (const char* number :
       {"-1", "18446744073709551616", "1.5", "0x10", "many"}) {
    ExpectError({"train", "j", "--seed", number}, ErrorCode::kBadValue, number);
  }
  EXPECT_TRUE(
      line_.ParseAndRun({"train", "j", "--seed=18446744073709551615"}).ok());
  EXPECT_EQ(seed_, ~uint64_t{0});
}

TEST(FormatErrorTest, ATerminalIsToldNothing) {
  EXPECT_THAT(FormatError(MakeError(ErrorCode::kBadJob, "a\x1b[31mb\x7f")),
              HasSubstr("a\\x1b[31mb\\x7f"));
}

TEST_F(CommandLineTest, ParsesAllForms) {
  absl::Status status =
      line_.ParseAndRun({"train", "--set", "a_b=1", "j.txtpb", "--set=c=d",
                         "--run_dir=x_y", "--quiet", "--seed", "3"});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(job_, "j.txtpb");
  EXPECT_THAT(sets_, ElementsAre("a_b=1", "c=d"));
  EXPECT_EQ(dir_, "x_y");
  EXPECT_EQ(seed_, 3u);
  EXPECT_TRUE(quiet_);
  EXPECT_EQ(runs_, 1);
}

TEST_F(CommandLineTest, TheRestIsAnotherCommands) {
  absl::Status status = line_.ParseAndRun(
      {"run", "--quiet", "--times=3", "j", "--times", "4", "k", "--unknown"});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(seed_, 3u);
  EXPECT_THAT(rest_, ElementsAre("j", "--times", "4", "k", "--unknown"));
  rest_.clear();
  const std::vector<std::string> job = {"--set", "a=1", "--times", "5"};
  std::vector<std::string> args = {"run", "--resume", "d"};
  args.insert(args.end(), job.begin(), job.end());
  ASSERT_TRUE(line_.ParseAndRun(args).ok());
  EXPECT_EQ(dir_, "d");
  EXPECT_EQ(rest_, job);
  dir_.clear();
  rest_.clear();
  ExpectError({"run", "--tmies", "3", "j"}, ErrorCode::kUnknownFlag,
              "unknown flag --tmies; did you mean '--times'?");
  ExpectError({"run", "--elsewhere", "j"}, ErrorCode::kUnknownFlag,
              "unknown flag --elsewhere; flags of the job come after it");
}

TEST_F(CommandLineTest, CommandsNest) {
  ASSERT_TRUE(line_.ParseAndRun({"plan", "show"}).ok());
  EXPECT_EQ(shows_, 1);
}

TEST_F(CommandLineTest, HelpIsASuccess) {
  EXPECT_TRUE(line_.ParseAndRun({"--help"}).ok());
  EXPECT_TRUE(line_.ParseAndRun({"train", "--help"}).ok());
  EXPECT_EQ(runs_, 0);
}

TEST_F(CommandLineTest, TheVersionIsALine) {
  testing::internal::CaptureStdout();
  EXPECT_TRUE(line_.ParseAndRun({"--version"}).ok());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "tool 1.2\n");
  EXPECT_EQ(runs_, 0);
}

TEST_F(CommandLineTest, HelpSaysWhatToType) {
  testing::internal::CaptureStdout();
  EXPECT_TRUE(line_.ParseAndRun({"plan", "show", "--help"}).ok());
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              HasSubstr("Usage: tool plan show [OPTIONS]\n"));
}

TEST_F(CommandLineTest, UnknownFlag) {
  ExpectError({"train", "j", "--quite"}, ErrorCode::kUnknownFlag,
              "unknown flag --quite; did you mean '--quiet'?");
}

TEST_F(CommandLineTest, UnknownFlagBesideAMissingArgument) {
  ExpectError({"train", "--sead=4"}, ErrorCode::kUnknownFlag,
              "did you mean '--seed'");
}

TEST_F(CommandLineTest, UnknownCommand) {
  ExpectError({"trian", "j"}, ErrorCode::kUnknownFlag,
              "unknown argument trian; did you mean 'train'?");
}

TEST_F(CommandLineTest, TooManyArguments) {
  ExpectError({"train", "a", "b"}, ErrorCode::kUnknownFlag, "argument b");
}

TEST_F(CommandLineTest, MissingAndMalformedValues) {
  ExpectError({"train"}, ErrorCode::kBadValue, "job");
  ExpectError({"train", "j", "--seed", "x"}, ErrorCode::kBadValue, "--seed");
  ExpectError({"plan"}, ErrorCode::kUnknownFlag, "missing");
  ExpectError({}, ErrorCode::kUnknownFlag, "missing");
}

TEST(FormatErrorTest, NamesNumberAndPage) {
  std::string text = FormatError(MakeError(ErrorCode::kDataMissing, "no 'x'"));
  EXPECT_THAT(text, HasSubstr("weft: error WEFT-5001: no 'x'\n"));
  EXPECT_THAT(text, HasSubstr("docs/errors/WEFT-5001.md"));
}

TEST(NormalizeFlagTest, OnlyNames) {
  EXPECT_EQ(NormalizeFlag("--run_dir"), "--run-dir");
  EXPECT_EQ(NormalizeFlag("--run_dir=a_b"), "--run-dir=a_b");
  EXPECT_EQ(NormalizeFlag("a_b"), "a_b");
}

}  // namespace
}  // namespace weft
