#include "runtime/launch/options.h"

#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

LaunchFlags TwoHosts() {
  LaunchFlags flags;
  flags.nnodes = "2";
  flags.node_rank = "1";
  flags.nproc_per_node = "3";
  flags.master_addr = "n1";
  flags.secret_file = "s";
  return flags;
}

LaunchOptions Resolved(const LaunchFlags& flags) {
  absl::StatusOr<LaunchOptions> options = ResolveLaunch(flags, 8);
  EXPECT_TRUE(options.ok()) << options.status();
  return options.ok() ? *options : LaunchOptions();
}

void ExpectRefused(const LaunchFlags& flags, const std::string& text) {
  absl::Status status = ResolveLaunch(flags, 8).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kBadLaunch)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(LaunchOptionsTest, NothingIsOneRankOfOneHost) {
  const LaunchOptions options = Resolved({});
  EXPECT_EQ(options.ranks(), 1u);
  EXPECT_EQ(options.coordinator, "127.0.0.1:0");
  EXPECT_EQ(options.max_restarts, 0u);
}

TEST(LaunchOptionsTest, OneHost) {
  LaunchFlags flags;
  flags.nproc_per_node = "auto";
  flags.standalone = true;
  flags.max_restarts = "3";
  flags.grace = "5";
  flags.rdzv_id = "j";
  const LaunchOptions options = Resolved(flags);
  EXPECT_EQ(options.ranks(), 8u);
  EXPECT_EQ(options.max_restarts, 3u);
  EXPECT_EQ(options.grace_ns, 5'000'000'000u);
  EXPECT_EQ(options.job_id, "j");
  flags.standalone = false;
  flags.master_port = "4000";
  EXPECT_EQ(Resolved(flags).coordinator, "127.0.0.1:4000");
}

TEST(LaunchOptionsTest, SeveralHosts) {
  LaunchFlags flags = TwoHosts();
  const LaunchOptions options = Resolved(flags);
  EXPECT_EQ(options.ranks(), 6u);
  EXPECT_EQ(options.first_rank(), 3u);
  EXPECT_EQ(options.coordinator, "n1:29500");
  EXPECT_EQ(options.job_id, "run-n1:29500");
  flags.master_addr.clear();
  flags.rdzv_endpoint = "n2:77";
  flags.rdzv_backend = "c10d";
  EXPECT_EQ(Resolved(flags).coordinator, "n2:77");
  flags.rdzv_endpoint = "n2";
  EXPECT_EQ(Resolved(flags).coordinator, "n2:29500");
}

TEST(LaunchOptionsTest, NumbersThatCannotBe) {
  LaunchFlags flags;
  flags.nproc_per_node = "0";
  ExpectRefused(flags, "--nproc-per-node is '0', expected 1 to 1024");
  flags.nproc_per_node = "two";
  ExpectRefused(flags, "--nproc-per-node is 'two'");
  flags = {};
  flags.nnodes = "0";
  ExpectRefused(flags, "--nnodes is '0'");
  flags.nnodes = "1:2";
  ExpectRefused(flags, "expected one number");
  flags = {};
  flags.node_rank = "1";
  ExpectRefused(flags, "--node-rank is 1, and --nnodes is 1");
  flags = {};
  flags.max_restarts = "-1";
  ExpectRefused(flags, "--max-restarts is '-1'");
  flags = {};
  flags.grace = "x";
  ExpectRefused(flags, "--grace is 'x'");
  flags = {};
  flags.master_port = "65536";
  ExpectRefused(flags, "--master-port is '65536'");
  flags = {};
  flags.rdzv_endpoint = "n1:99999";
  ExpectRefused(flags, "--rdzv-endpoint is 'n1:99999'");
}

TEST(LaunchOptionsTest, AddressesOfIPv6) {
  LaunchFlags flags = TwoHosts();
  for (const char* host : {"2001:db8::1", "[2001:db8::1]"}) {
    flags.master_addr = host;
    EXPECT_EQ(Resolved(flags).coordinator, "[2001:db8::1]:29500");
  }
  flags.master_addr = "::1";
  ExpectRefused(flags, "--master-addr is '::1'");
  flags.master_addr = "";
  for (const char* endpoint :
       {"2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:29500"}) {
    flags.rdzv_endpoint = endpoint;
    EXPECT_EQ(Resolved(flags).coordinator, "[2001:db8::1]:29500");
  }
  flags.rdzv_endpoint = "[2001:db8::1]:x";
  ExpectRefused(flags, "--rdzv-endpoint is '[2001:db8::1]:x'");
}

TEST(LaunchOptionsTest, Contradictions) {
  LaunchFlags flags = TwoHosts();
  flags.node_rank = "2";
  ExpectRefused(flags, "--node-rank is 2, and --nnodes is 2");
  flags = TwoHosts();
  flags.node_rank = "";
  ExpectRefused(flags, "which of them this is");
  flags = TwoHosts();
  flags.standalone = true;
  ExpectRefused(flags, "--standalone is one host, and --nnodes is 2");
  flags = TwoHosts();
  flags.master_addr = "";
  ExpectRefused(flags, "--master-addr is not given");
  flags.master_addr = "localhost";
  ExpectRefused(flags, "--master-addr is 'localhost'");
  flags = TwoHosts();
  flags.rdzv_endpoint = "n1:1";
  ExpectRefused(flags, "the same thing twice");
  flags = TwoHosts();
  flags.master_port = "0";
  ExpectRefused(flags, "cannot know");
  flags = TwoHosts();
  flags.secret_file = "";
  ExpectRefused(flags, "--secret-file is not given");
  flags = {};
  flags.standalone = true;
  flags.master_port = "1";
  ExpectRefused(flags, "--standalone takes a free port");
  flags = {};
  flags.rdzv_backend = "etcd";
  ExpectRefused(flags, "--rdzv-backend is 'etcd'");
}

// "out/err" of each rank: f file, c console, e but errors, w warnings, b as it
// is.
std::string Rules(const std::string& redirects, const std::string& tee,
                  bool first_host = true) {
  absl::StatusOr<StreamRules> rules =
      ParseStreamRules(redirects, tee, 3, first_host);
  if (!rules.ok()) {
    EXPECT_TRUE(IsError(rules.status(), ErrorCode::kBadLaunch));
    return "refused";
  }
  std::vector<std::string> ranks;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    std::string text;
    for (Stream stream : {Stream::kOut, Stream::kErr}) {
      const StreamRule& rule = rules->of(rank, stream);
      if (stream == Stream::kErr) text += "/";
      if (rule.file) text += "f";
      if (rule.console == Show::kAll) text += "c";
      if (rule.console == Show::kAllButErrors) text += "ce";
      if (rule.console == Show::kWarnings) text += "w";
      if (rule.bare) text += "b";
    }
    ranks.push_back(text);
  }
  return absl::StrJoin(ranks, " ");
}

TEST(StreamRulesTest, AsTorchrun) {
  EXPECT_EQ(Rules("", ""), "fcb/fce f/fw f/fw");
  EXPECT_EQ(Rules("", "", /*first_host=*/false), "f/fw f/fw f/fw");
  EXPECT_EQ(Rules("3", ""), "f/f f/f f/f");
  EXPECT_EQ(Rules("0", ""), "c/c c/c c/c");
  EXPECT_EQ(Rules("1", "2"), "f/fc f/fc f/fc");
  EXPECT_EQ(Rules("0:1,2:2", "1:3"), "f/c fc/fc c/f");
}

TEST(StreamRulesTest, Refused) {
  for (const char* text : {"4", "x", "3:1", "0:4", "0:", ":1", "0:1,", "-1"}) {
    EXPECT_EQ(Rules(text, ""), "refused") << text;
    EXPECT_EQ(Rules("", text), "refused") << text;
  }
}

TEST(IsWarningTest, ByItsForm) {
  EXPECT_TRUE(IsWarning("W20260102 03:04:05.1 42 x.cc:1] a"));
  EXPECT_TRUE(IsWarning("F20260102 03:04:05.1 42 x.cc:1] a"));
  EXPECT_TRUE(IsWarning("weft: warning: a"));
  for (const char* line : {"I20260102 03:04:05.1 42 x.cc:1] a", "", "W",
                           "Weft is here", "weft: error WEFT-7001: a"}) {
    EXPECT_FALSE(IsWarning(line)) << line;
  }
}

TEST(LineSplitterTest, HoweverBytesCome) {
  std::vector<std::string> lines;
  auto take = [&](absl::string_view line) { lines.emplace_back(line); };
  LineSplitter splitter;
  splitter.Add("a", take);
  splitter.Add("b\n\nc", take);
  splitter.Add("\nd", take);
  EXPECT_THAT(lines, ElementsAre("ab", "", "c"));
  splitter.Finish(take);
  splitter.Finish(take);
  EXPECT_THAT(lines, ElementsAre("ab", "", "c", "d"));
  lines.clear();
  splitter.Add(std::string(150'000, 'x') + "\ny\n", take);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].size(), 65536u);
  EXPECT_EQ(lines[0].size() + lines[1].size() + lines[2].size(), 150'000u);
  EXPECT_EQ(lines[3], "y");
}

}  // namespace
}  // namespace weft::launch
