#include "tools/weft/job.h"

#include <cstdlib>
#include <filesystem>

#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

constexpr char kSmall[] = R"(
  model { builtin { name: "mlp" } }
  data { train { idx { images: "a" labels: "/b" } } }
)";

job::Job Small() { return ParseJob("small.txtpb", kSmall).value(); }

void ExpectError(const absl::Status& status, ErrorCode code,
                 const std::string& text) {
  EXPECT_TRUE(IsError(status, code)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

// A resolved job is read from other directories: by `weft eval RUN`.
TEST(JobTest, RelativeJobPathGivesAbsoluteFiles) {
  job::Job job = Small();
  ASSERT_TRUE(ResolveJob("jobs/x.txtpb", &job).ok());
  std::string cwd = std::filesystem::current_path();
  EXPECT_EQ(job.data().train().idx().images(), cwd + "/jobs/a");
  job = Small();
  ASSERT_TRUE(ResolveJob("x.txtpb", &job).ok());
  EXPECT_EQ(job.data().train().idx().images(), cwd + "/a");
  EXPECT_EQ(job.data().train().idx().labels(), "/b");
}

TEST(JobTest, DefaultsAreFilledIn) {
  job::Job job = Small();
  ASSERT_TRUE(ResolveJob("/jobs/small.txtpb", &job).ok());
  EXPECT_EQ(job.name(), "small");
  EXPECT_EQ(job.batch_size(), 128u);
  EXPECT_EQ(job.epochs(), 1u);
  EXPECT_EQ(job.micro_batches(), 1u);
  EXPECT_EQ(job.devices(), "cpu");
  EXPECT_TRUE(job.data().shuffle());
  EXPECT_TRUE(job.guards().stop_on_nan());
  EXPECT_EQ(job.data().train().idx().images(), "/jobs/a");
  EXPECT_EQ(job.data().train().idx().labels(), "/b");
  EXPECT_FLOAT_EQ(job.optimizer().sgd().momentum(), 0.9f);
  EXPECT_FLOAT_EQ(job.optimizer().schedule().constant().base(), 0.1f);
}

TEST(JobTest, ResolvedTextRepeatsTheJob) {
  job::Job job = Small();
  ASSERT_TRUE(ResolveJob("/jobs/small.txtpb", &job).ok());
  job::Job again = ParseJob("resolved", JobText(job)).value();
  ASSERT_TRUE(ResolveJob("/elsewhere/resolved.txtpb", &again).ok());
  EXPECT_EQ(JobText(again), JobText(job));
}

TEST(JobTest, UnknownFieldsAreNamedWithPlace) {
  absl::Status status =
      ParseJob("job.txtpb", "name: \"x\"\nepoch: 5\n").status();
  ExpectError(status, ErrorCode::kUnknownField, "job.txtpb:2:6");
  ExpectError(status, ErrorCode::kUnknownField, "did you mean 'epochs'");
  status = ParseJob("j", "data { norm { mean: 1 } }").status();
  ExpectError(status, ErrorCode::kUnknownField, "'norm' in Data");
  status = ParseJob("j", "batch_size: many").status();
  ExpectError(status, ErrorCode::kBadValue, "j:1:13");
  status = ParseJob("j", "batch_size: -1").status();
  ExpectError(status, ErrorCode::kBadValue, "j:1:13");
  status = ParseJob("j", "data { tail: KEEP }").status();
  ExpectError(status, ErrorCode::kBadValue, "KEEP");
}

TEST(JobTest, SetOverridesTheFile) {
  job::Job job = Small();
  for (const char* set :
       {"seed=7", "optimizer.sgd.momentum=0.5", "data.shuffle=false",
        "devices=sim:0", "model.builtin.args.hidden=64,32",
        "data.train.idx.images=/x y", "data.tail=DROP"}) {
    ASSERT_TRUE(SetField(set, "--set", &job).ok())
        << set << SetField(set, "--set", &job);
  }
  EXPECT_EQ(job.seed(), 7u);
  EXPECT_FLOAT_EQ(job.optimizer().sgd().momentum(), 0.5f);
  EXPECT_FALSE(job.data().shuffle());
  EXPECT_EQ(job.devices(), "sim:0");
  EXPECT_EQ(job.model().builtin().args().at("hidden"), "64,32");
  EXPECT_EQ(job.data().train().idx().images(), "/x y");
  EXPECT_EQ(job.data().train().idx().labels(), "/b");
  EXPECT_EQ(job.data().tail(), job::Data::DROP);
}

TEST(JobTest, BadSetsAreExplained) {
  job::Job job = Small();
  ExpectError(SetField("seeds=7", "--set", &job), ErrorCode::kUnknownField,
              "did you mean 'seed'");
  ExpectError(SetField("seed", "--set", &job), ErrorCode::kBadValue,
              "field=value");
  ExpectError(SetField("=7", "--set", &job), ErrorCode::kBadValue,
              "field=value");
  ExpectError(SetField("data=1", "--set", &job), ErrorCode::kBadValue,
              "group of fields");
  ExpectError(SetField("seed.x=1", "--set", &job), ErrorCode::kBadValue,
              "no fields of its own");
  ExpectError(SetField("seed=1 batch_size: 3", "--set", &job),
              ErrorCode::kBadValue, "not one value");
  ExpectError(SetField("seed=x", "WEFT_SEED", &job), ErrorCode::kBadValue,
              "WEFT_SEED");
}

TEST(JobTest, ContradictionsNameBothSides) {
  const std::vector<std::vector<const char*>> cases = {
      {"epochs=2", "steps=5", "epochs (2) and steps (5)"},
      {"logical_shards=6", "", "power of two"},
      {"logical_shards=8", "micro_batches=4", "micro_batches is 4"},
      {"logical_shards=8", "batch_size=100", "100 is not a multiple"},
      {"checkpoint.keep=1", "", "at least 2"},
      {"optimizer.sgd.momentum=1.5", "", "expected [0, 1)"},
      {"optimizer.sgd.nesterov=true", "", "needs a momentum"},
      {"optimizer.schedule.constant.base=-1", "", "above 0"},
      {"optimizer.schedule.step.base=1", "", "step_size"},
      {"loss.softmax_cross_entropy.label_smoothing=1", "", "[0, 1)"},
      {"data.normalize.std=-1", "", "std above 0"},
      {"precision.compute=BF16", "", "only F32"},
      {"observe.http=127.0.0.1:0", "", "not available"},
      {"name=a/b", "", "slash"},
      {"name=a\nb", "", "control"},
      {"steps=9223372036854775808", "", "at most"},
      {"optimizer.schedule.cosine.base=1", "optimizer.schedule.cosine.final=-1",
       "final is -1"},
      {"optimizer.adam.beta1=1", "", "beta1 is 1"},
      {"optimizer.adamw.epsilon=-1", "", "epsilon -1"},
      {"optimizer.sgd.weight_decay=nan", "", "weight_decay is nan"},
  };
  for (const auto& c : cases) {
    job::Job job = Small();
    for (int i : {0, 1}) {
      if (!*c[i]) continue;
      ASSERT_TRUE(SetField(c[i], "--set", &job).ok()) << c[i];
    }
    ExpectError(ResolveJob("j.txtpb", &job), ErrorCode::kBadJob, c[2]);
  }
}

TEST(JobTest, PatternsAreBounded) {
  job::Job job = Small();
  job.mutable_optimizer()->mutable_sgd()->set_decay_exclude(
      std::string(1001, '('));
  ExpectError(ResolveJob("j", &job), ErrorCode::kBadJob, "1001 characters");
}

TEST(JobTest, NeedsModelAndData) {
  job::Job job;
  ExpectError(ResolveJob("j", &job), ErrorCode::kBadJob, "no model");
  job.mutable_model()->mutable_builtin()->set_name("mlp");
  ExpectError(ResolveJob("j", &job), ErrorCode::kBadJob, "data.train");
  job.mutable_data()->mutable_train()->mutable_idx()->set_images("a");
  ExpectError(ResolveJob("j", &job), ErrorCode::kBadJob, "images and labels");
}

TEST(JobTest, EnvironmentLiesBetweenFileAndFlags) {
  std::string path = JoinPath(std::getenv("TEST_TMPDIR"), "env.txtpb");
  ASSERT_TRUE(
      WriteFileAtomically(RealOs(), path, std::string(kSmall) + "seed: 1")
          .ok());
  Environment env =
      Environment::Of({{"WEFT_SEED", "2"}, {"WEFT_DEVICES", "sim:0"}});
  EXPECT_EQ(LoadJob(RealOs(), path, Environment(), {})->seed(), 1u);
  EXPECT_EQ(LoadJob(RealOs(), path, env, {})->seed(), 2u);
  EXPECT_EQ(LoadJob(RealOs(), path, env, {"seed=3"})->seed(), 3u);
  EXPECT_EQ(LoadJob(RealOs(), path, env, {})->devices(), "sim:0");
  ExpectError(LoadJob(RealOs(), "/no/job.txtpb", env, {}).status(),
              ErrorCode::kBadJob, "/no/job.txtpb");
}

}  // namespace
}  // namespace weft
