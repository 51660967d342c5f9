// Jobs on a mesh: values, micro-batches, nodes and state shared among ranks, in
// any mixture, compute what one rank computes, with less memory each.

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/harness.h"

namespace weft::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kData2[] = R"(axis { name: "data" size: 2 })";
constexpr char kModel2[] = R"(axis { name: "model" size: 2 })";
constexpr char kPipe2[] = R"(axis { name: "pipe" size: 2 })";

struct Case {
  std::string name;
  std::string mesh;  // its axes
  uint32_t ranks = 2;
  std::string more;  // of the job
};

absl::StatusOr<TrainResult> RunCase(const TestJob& job, const Case& c,
                                    const Sets& sets,
                                    const std::string& delays) {
  const std::string plain = ReadText(job.path());
  WriteText(
      job.path(),
      absl::StrCat(plain,
                   c.mesh.empty() ? "" : absl::StrCat("mesh { ", c.mesh, " }"),
                   c.more));
  TrainOptions options = job.Options(sets);
  options.virtual_ranks = c.ranks;
  options.transport_options = c.ranks > 1 ? delays : "";
  absl::StatusOr<TrainResult> result = Train(options);
  WriteText(job.path(), plain);
  return result;
}

// State in f32, name by name.
void ExpectNear(const std::map<std::string, std::string>& a,
                const std::map<std::string, std::string>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, bytes] : a) {
    ASSERT_TRUE(b.count(name)) << name;
    const std::string& other = b.at(name);
    ASSERT_EQ(bytes.size(), other.size()) << name;
    if (name.find(" f32") == std::string::npos) continue;
    for (size_t i = 0; i < bytes.size(); i += 4) {
      float x = 0, y = 0;
      std::memcpy(&x, &bytes[i], 4);
      std::memcpy(&y, &other[i], 4);
      ASSERT_NEAR(x, y, 2e-5) << name << " " << i / 4;
    }
  }
}

void ExpectLikeOneRank(const TestJob& job, const Sets& sets,
                       const std::vector<Case>& cases) {
  auto one = RunCase(job, {"one", "", 1, ""}, sets, "");
  ASSERT_TRUE(one.ok()) << one.status();
  const auto state = StateOf(one->run_directory);
  bool mapped = false;
  for (const Case& c : cases) {
    // Every second one reads all values of other ranks where they lie.
    mapped = !mapped;
    SCOPED_TRACE(absl::StrCat(c.name, mapped ? ", mapped" : ""));
    Sets with = sets;
    if (mapped) with.push_back("collectives.mapped_bytes=1");
    auto many = RunCase(job, c, with, "delay_max=4&delay_seed=3");
    ASSERT_TRUE(many.ok()) << many.status();
    ExpectNear(StateOf(many->run_directory), state);
    EXPECT_NEAR(many->final_loss, one->final_loss, 1e-5 * one->final_loss);
    EXPECT_NEAR(many->eval.loss, one->eval.loss, 1e-4 * one->eval.loss);
  }
}

std::string Axes(const std::vector<std::string>& axes) {
  std::string out;
  for (const std::string& axis : axes) absl::StrAppend(&out, axis, " ");
  return out;
}

TEST(ShardingTest, AnyMixtureComputesWhatOneRankComputes) {
  TestJob job("mixtures", Mlp());
  const std::string columns =
      R"( sharding { value: "fc1/weight" axis: "model" split: 0 })";
  const std::string rows =
      R"( sharding { value: "fc1/weight" axis: "model" split: 1 })";
  // Each bias counts on one rank: others have more to do for it.
  const std::string all_rows =
      R"( sharding { value: ".*/weight" axis: "model" split: 1 })";
  const std::string stage = R"( placement { scope: "fc2.*" device: "w1" })";
  // As many micro-batches as two data-parallel ranks have.
  const Sets sets = {"optimizer.clip_norm=0.5", "steps=5", "epochs=0",
                     "model.builtin.args.dropout=0.25", "logical_shards=2"};
  ExpectLikeOneRank(
      job, sets,
      {{"columns", kModel2, 2, columns},
       {"rows", kModel2, 2, rows},
       {"by cost", kModel2, 2, ""},
       {"data x model", Axes({kData2, kModel2}), 4, columns},
       {"data x model, all rows", Axes({kData2, kModel2}), 4, all_rows},
       {"model x data", Axes({kModel2, kData2}), 4, columns},
       {"pipe x model", Axes({kPipe2, kModel2}), 4, rows + stage},
       {"pipe x data x model", Axes({kPipe2, kData2, kModel2}), 8,
        columns + stage}});
}

TEST(ShardingTest, PartsOfStateGradientsAndParameters) {
  TestJob job("zero", Mlp());
  for (const std::string zero : {"1", "2", "3"}) {
    SCOPED_TRACE(zero);
    const Sets sets = {"optimizer.clip_norm=0.5", "steps=5", "epochs=0",
                       "logical_shards=4", "model.builtin.args.hidden=64,32"};
    const std::string more = absl::StrCat(" zero: ", zero);
    ExpectLikeOneRank(job, sets,
                      {{"2", "", 2, more},
                       {"4", "", 4, more},
                       {"pipe x data x model", Axes({kPipe2, kData2, kModel2}),
                        8, absl::StrCat(more, R"(
             sharding { value: "fc1/weight" axis: "model" split: 0 }
             placement { scope: "fc2.*" device: "w1" })")}});
  }
}

// Squares of such gradients are no f32.
TEST(ShardingTest, TheNormOfPartsIsThatOfTheWhole) {
  TestJob job("norm", Mlp());
  const Sets sets = {"optimizer.clip_norm=0.5", "steps=4", "epochs=0",
                     "micro_batches=1", "data.normalize.std=1e-22"};
  auto one = RunCase(job, {"one", "", 1, ""}, sets, "");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_GT(one->final_loss, 1e19);
  auto two = RunCase(job, {"two", kModel2, 2, ""}, sets, "");
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_NEAR(two->final_loss / one->final_loss, 1, 1e-4);
  EXPECT_THAT(MetricsOf(two->run_directory), HasSubstr("grad_norm"));
  EXPECT_THAT(MetricsOf(two->run_directory), Not(HasSubstr("null")));
}

// A checkpoint has whole tensors: a run goes on where its ranks lie otherwise.
TEST(ShardingTest, ACheckpointFitsAnyMesh) {
  TestJob job("resumed", Mlp());
  const std::string hidden = "model.builtin.args.hidden=64,32";
  const Sets start = {"steps=2", "epochs=0", "micro_batches=2", hidden};
  auto one = RunCase(job, {"one", "", 1, ""},
                     {"steps=5", "epochs=0", "micro_batches=2", hidden}, "");
  ASSERT_TRUE(one.ok()) << one.status();
  auto part = RunCase(job, {"model", kModel2, 2, ""}, start, "");
  ASSERT_TRUE(part.ok()) << part.status();
  const std::string plain = ReadText(job.path());
  WriteText(job.path(), absl::StrCat(plain, " zero: 3"));
  TrainOptions options =
      job.Options({"steps=5", "epochs=0", "micro_batches=1", hidden});
  options.virtual_ranks = 2;
  options.resume = part->run_directory;
  auto rest = Train(options);
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_EQ(rest->steps, 5u);
  ExpectNear(StateOf(rest->run_directory), StateOf(one->run_directory));
}

TEST(ShardingTest, WhatCannotBeNamesBothSides) {
  TestJob job("refused", Mlp());
  struct Bad {
    Case c;
    ErrorCode code;
    std::vector<std::string> parts;
  };
  const auto sharding = [](const std::string& fields) {
    return absl::StrCat(" sharding { ", fields, " }");
  };
  const std::vector<Bad> all = {
      {{"ranks", Axes({kData2, kModel2}), 2, ""},
       ErrorCode::kBadJob,
       {"data=2 x model=2", "4 ranks", "runs on 2"}},
      {{"twice", Axes({kData2, kData2}), 4, ""},
       ErrorCode::kBadJob,
       {"'data' is there twice"}},
      {{"axis", kModel2, 2,
        sharding(R"(value: "fc1/weight" axis: "modell" split: 1)")},
       ErrorCode::kBadJob,
       {"'fc1/weight'", "'modell'", "model"}},
      {{"value", kModel2, 2,
        sharding(R"(value: "fc1/weigth" axis: "model" split: 1)")},
       ErrorCode::kBadJob,
       {"'fc1/weigth'", "did you mean 'fc1/weight'"}},
      {{"indivisible", R"(axis { name: "model" size: 5 })", 5,
        sharding(R"(value: "fc1/weight" axis: "model" split: 0)")},
       ErrorCode::kShapeMismatch,
       {"'fc1/weight'", "'model'", "5 pieces"}},
      {{"contradiction", kModel2, 2,
        sharding(R"(value: "fc1/weight" axis: "model" split: 0)") +
            sharding(R"(value: "fc1/w.*" axis: "model" split: 1)")},
       ErrorCode::kBadValue,
       {"'fc1/weight' is to be S(0)", "S(1) by sharding of 'fc1/w.*'"}},
      {{"signature", kModel2, 2,
        sharding(R"(value: "fc1" axis: "model" signature: "X")")},
       ErrorCode::kBadJob,
       {"'fc1'", "'X' is no signature"}},
      {{"both", kModel2, 2,
        sharding(R"(value: "fc1" axis: "model" split: 1 signature: "B")")},
       ErrorCode::kBadJob,
       {"split (1)", "signature (B)"}},
      {{"zero", "", 2, " zero: 4"}, ErrorCode::kBadJob, {"zero is 4"}},
      {{"stages", kModel2, 2, R"( placement { scope: "fc2.*" device: "w1" })"},
       ErrorCode::kBadJob,
       {"'fc2.*'", "model=2", "no axis 'pipe'"}},
  };
  for (const Bad& bad : all) {
    SCOPED_TRACE(bad.c.name);
    const absl::Status status =
        RunCase(job, bad.c, {"steps=1", "epochs=0"}, "").status();
    EXPECT_TRUE(IsError(status, bad.code)) << status;
    for (const std::string& part : bad.parts) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    }
  }
}

}  // namespace
}  // namespace weft::e2e
