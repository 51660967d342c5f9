#include "core/reference/job_interpreter.h"

#include "core/base/error.h"
#include "core/graph/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using testing::HasSubstr;

Graph Parse(const std::string& body) {
  auto graph = ParseGraph("graph \"g\" {" + body + "}");
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph("broken");
}

Literal F(std::vector<float> values) {
  int64_t n = values.size();
  return Literal::Of<float>({n}, std::move(values));
}

// Runs graphs with the same feeds on each.
absl::StatusOr<std::vector<InterpretResult>> RunAll(
    const std::vector<const Graph*>& graphs, const Feeds& feeds,
    JobOrder order = JobOrder::kReady) {
  std::vector<RankProgram> job;
  for (const Graph* graph : graphs) job.push_back({graph, feeds, {}});
  return InterpretJob(job, order);
}

// The job fails with the code, and the message names all of `parts`.
void ExpectError(const std::vector<const Graph*>& graphs, ErrorCode code,
                 const std::vector<std::string>& parts) {
  absl::Status status = RunAll(graphs, {{"x", {F({1, 2})}}}).status();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(ErrorCodeOf(status), code) << status;
  for (const std::string& part : parts) {
    EXPECT_THAT(status.message(), HasSubstr(part));
  }
}

constexpr char kSender[] = R"(
%x = weft.Variable() {dtype: f32, shape: [2]}
%s = weft.Send(%x) {channel: "c", peer: 1})";
constexpr char kReceiver[] = R"(
%r = weft.Recv() {channel: "c", peer: 0, dtype: f32, shape: [2]}
%o = weft.Output(%r) {name: "o"})";

TEST(JobInterpreterTest, RecvGivesWhatSendTook) {
  Graph a = Parse(kSender), b = Parse(kReceiver);
  for (JobOrder order : {JobOrder::kReady, JobOrder::kInOrder}) {
    // Rank 1 stands first in no order: it waits for rank 0 wherever that is.
    auto r = RunAll({&a, &b}, {{"x", {F({1, 2})}}}, order);
    ASSERT_TRUE(r.ok()) << r.status();
    EXPECT_TRUE((*r)[0].outputs.empty());
    EXPECT_TRUE((*r)[1].outputs["o"].at(0) == F({1, 2}));
  }
}

// There and back: each rank goes on when the other has sent.
TEST(JobInterpreterTest, RanksTakeTurns) {
  Graph a = Parse(R"(
%x = weft.Variable() {dtype: f32, shape: [2]}
%s = weft.Send(%x) {channel: "c", peer: 1}
%r = weft.Recv() {channel: "c", peer: 1, dtype: f32, shape: [2]}
%y = Add(%x, %r)
%o = weft.Output(%y) {name: "o"})");
  Graph b = Parse(R"(
%r = weft.Recv() {channel: "c", peer: 0, dtype: f32, shape: [2]}
%y = Mul(%r, %r)
%s = weft.Send(%y) {channel: "c", peer: 0})");
  auto r = RunAll({&a, &b}, {{"x", {F({2, 3})}}});
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_TRUE((*r)[0].outputs["o"].at(0) == F({6, 12}));
}

TEST(JobInterpreterTest, MicroBatchesTravelOneByOne) {
  Graph a = Parse(R"(
%x = weft.Input() {dtype: f32, shape: [1]}
%s = weft.Send(%x) {channel: "c", peer: 1})");
  Graph b = Parse(R"(
%r = weft.Recv() {channel: "c", peer: 0, dtype: f32, shape: [1], rate: "micro"}
%a = weft.Accumulate(%r) {count: 2}
%p = weft.Output(%r) {name: "each"}
%q = weft.Output(%a) {name: "sum"})");
  std::vector<Feeds> micro = {{{"x", {F({1})}}}, {{"x", {F({2})}}}};
  std::vector<RankProgram> job = {{&a, {}, micro}, {&b, {}, micro}};
  auto r = InterpretJob(job);
  ASSERT_TRUE(r.ok()) << r.status();
  ASSERT_EQ((*r)[1].outputs["each"].size(), 2u);
  EXPECT_TRUE((*r)[1].outputs["each"][1] == F({2}));
  EXPECT_TRUE((*r)[1].outputs["sum"].at(0) == F({3}));

  job[0].micro_feeds.pop_back();
  absl::Status status = InterpretJob(job).status();
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kBadValue);
  EXPECT_THAT(status.message(), HasSubstr("rank 0 sends 1 values"));
  EXPECT_THAT(status.message(), HasSubstr("rank 1 receives 2"));

  Graph step = Parse(R"(
%r = weft.Recv() {channel: "c", peer: 0, dtype: f32, shape: [1]}
%x = weft.Input() {dtype: f32, shape: [1]}
%y = Add(%x, %r)
%a = weft.Accumulate(%y) {count: 2})");
  ExpectError({&a, &step}, ErrorCode::kBadGraph,
              {"'c'", "rank 0 sends to rank 1", "once a micro-batch",
               "rank 1 receives from rank 0", "once a step"});
}

TEST(JobInterpreterTest, ChannelsWithOneEnd) {
  Graph a = Parse(kSender), b = Parse(kReceiver), none = Parse("");
  ExpectError({&a, &none}, ErrorCode::kBadGraph,
              {"'c'", "rank 0 sends to rank 1 (node 's')", "no weft.Recv"});
  ExpectError(
      {&none, &b}, ErrorCode::kBadGraph,
      {"'c'", "rank 1 receives from rank 0 (node 'r')", "no weft.Send"});
}

TEST(JobInterpreterTest, ChannelsWithAWrongPeer) {
  Graph a = Parse(kSender), none = Parse("");
  Graph elsewhere = Parse(R"(
%r = weft.Recv() {channel: "c", peer: 2, dtype: f32, shape: [2]})");
  ExpectError({&a, &elsewhere, &none}, ErrorCode::kBadGraph,
              {"'c'", "rank 1 receives from rank 2"});
  ExpectError({&a}, ErrorCode::kBadGraph,
              {"'c'", "rank 0 sends to rank 1", "the job has ranks 0-0"});
  ExpectError({&none, &a}, ErrorCode::kBadGraph,
              {"'c'", "rank 1 sends to rank 1", "itself"});
  Graph twice = Parse(std::string(kReceiver) + R"(
%q = weft.Recv() {channel: "c", peer: 0, dtype: f32, shape: [2]})");
  ExpectError({&a, &twice}, ErrorCode::kBadGraph, {"'c'", "'r'", "'q'"});
}

TEST(JobInterpreterTest, ChannelsOfTwoTypes) {
  Graph a = Parse(kSender);
  Graph shape = Parse(R"(
%r = weft.Recv() {channel: "c", peer: 0, dtype: f32, shape: [3]})");
  ExpectError({&a, &shape}, ErrorCode::kShapeMismatch,
              {"'c'", "rank 0", "f32[2]", "rank 1", "f32[3]"});
  Graph dtype = Parse(R"(
%r = weft.Recv() {channel: "c", peer: 0, dtype: i32, shape: [2]})");
  ExpectError({&a, &dtype}, ErrorCode::kDTypeMismatch,
              {"'c'", "rank 0", "f32[2]", "rank 1", "i32[2]"});
}

TEST(JobInterpreterTest, RanksThatDisagree) {
  Graph a = Parse(R"(
%x = weft.Variable() {dtype: f32, shape: [2]}
%s = weft.Send(%x) {channel: "g#sum/0", peer: 1})");
  Graph b = Parse(R"(
%r = weft.Recv() {channel: "g#max/0", peer: 0, dtype: f32, shape: [2]})");
  ExpectError({&a, &b}, ErrorCode::kBadGraph,
              {"'g'", "rank 0 has 'sum'", "rank 1 has 'max'"});
}

TEST(JobInterpreterTest, RanksThatWaitForEachOther) {
  auto circle = [](int peer) {
    const std::string p = std::to_string(peer);
    return Parse("%r = weft.Recv() {channel: \"c\", peer: " + p +
                 ", dtype: f32, shape: [2]}\n%s = weft.Send(%r) "
                 "{channel: \"c\", peer: " +
                 p + "}");
  };
  Graph a = circle(1), b = circle(0);
  ExpectError({&a, &b}, ErrorCode::kBadGraph,
              {"rank 0 waits in node 'r' for channel 'c' from rank 1",
               "rank 1 waits in node 'r' for channel 'c' from rank 0"});
}

// In order a receive holds up the send behind it; by what is ready it does not.
TEST(JobInterpreterTest, OneOrderWaitsInReceives) {
  auto receive_first = [](int peer) {
    const std::string p = std::to_string(peer);
    return Parse(
        "%x = weft.Variable() {dtype: f32, shape: [2]}\n"
        "%r = weft.Recv() {channel: \"c\", peer: " +
        p +
        ", dtype: f32, shape: [2]}\n"
        "%s = weft.Send(%x) {channel: \"c\", peer: " +
        p + "}\n%o = weft.Output(%r) {name: \"o\"}");
  };
  Graph a = receive_first(1), b = receive_first(0);
  Feeds feeds = {{"x", {F({1, 2})}}};
  auto ready = RunAll({&a, &b}, feeds, JobOrder::kReady);
  ASSERT_TRUE(ready.ok()) << ready.status();
  EXPECT_TRUE((*ready)[1].outputs["o"].at(0) == F({1, 2}));
  absl::Status in_order = RunAll({&a, &b}, feeds, JobOrder::kInOrder).status();
  EXPECT_EQ(ErrorCodeOf(in_order), ErrorCode::kBadGraph);
  EXPECT_THAT(in_order.message(), HasSubstr("no rank can go on"));
}

TEST(JobInterpreterTest, ErrorsNameTheRank) {
  Graph a = Parse(kSender), b = Parse(kReceiver);
  absl::Status status = RunAll({&a, &b}, {}).status();
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kBadValue);
  EXPECT_THAT(status.message(), HasSubstr("rank 0: node 'x'"));
}

}  // namespace
}  // namespace weft
