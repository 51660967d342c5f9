#include "tools/weft/job.h"

#include <cstdlib>
#include <filesystem>

#include "core/base/error.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
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

// Optional fields without a value, "eval.every_epochs", and groups that are not
// there, in all of `message`.
std::vector<std::string> LeftOut(const google::protobuf::Message& message,
                                 const std::string& path = "") {
  std::vector<std::string> out;
  const auto* reflection = message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const auto* field = message.GetDescriptor()->field(i);
    if (field->is_repeated() || !field->has_presence()) continue;
    if (!reflection->HasField(message, field)) {
      if (field->real_containing_oneof() != nullptr) continue;
      out.push_back(path + field->name());
    } else if (field->message_type() != nullptr) {
      for (const std::string& name :
           LeftOut(reflection->GetMessage(message, field),
                   path + field->name() + ".")) {
        out.push_back(name);
      }
    }
  }
  return out;
}

TEST(JobTest, ResolvedTextHasEveryDefault) {
  const std::string idx = R"(data {
    train { idx { images: "a" labels: "b" } }
    eval { idx { images: "c" labels: "d" } } })";
  const std::string text = R"(data {
    train { text { path: "a" bpe {} } }
    eval { text { path: "b" } } })";
  const std::vector<std::string> zeros = {
      "seed: 0\n",         "steps: 0\n",           "logical_shards: 0\n",
      "clip_norm: 0\n",    "tail: CARRY\n",        "compute: F32\n",
      "wire: F32\n",       "label_smoothing: 0\n", "every_steps: 0\n",
      "threads: 0\n",      "register_copies: 0\n", "trace_steps: \"\"\n",
      "warmup_steps: 0\n", "weight_decay: 0\n",    "decay_exclude: \"\"\n"};
  for (const std::string& data : {idx, text}) {
    for (const std::string optimizer : {"sgd", "adam", "adamw", "adagrad"}) {
      for (const std::string schedule :
           {"constant { base: 1 }", "step { base: 1 step_size: 3 }",
            "cosine { base: 1 }"}) {
        const std::string file = "model { builtin { name: \"mlp\" } } " + data +
                                 " optimizer { " + optimizer +
                                 " {} schedule { " + schedule + " } }";
        SCOPED_TRACE(file);
        job::Job job = ParseJob("job", file).value();
        ASSERT_TRUE(ResolveJob("/jobs/job.txtpb", &job).ok());
        if (data == idx) {
          EXPECT_THAT(LeftOut(job),
                      ElementsAre("precision.loss_scale", "mesh"));
        } else {
          EXPECT_THAT(
              LeftOut(job),
              ElementsAre("data.eval.text.context", "data.eval.text.stride",
                          "data.normalize", "precision.loss_scale", "mesh"));
        }
        const std::string printed = JobText(job);
        for (const std::string& zero : zeros) {
          EXPECT_THAT(printed, HasSubstr(zero));
        }
        job::Job again = ParseJob("resolved", printed).value();
        EXPECT_EQ(JobChanges(again, job), "");
        ASSERT_TRUE(ResolveJob("/elsewhere/resolved.txtpb", &again).ok());
        EXPECT_EQ(JobChanges(again, job), "");
        EXPECT_EQ(JobText(again), printed);
      }
    }
  }
}

TEST(JobTest, F16HasADynamicLossScale) {
  job::Job job = Small();
  ASSERT_TRUE(SetField("precision.compute=F16", "--set", &job).ok());
  ASSERT_TRUE(ResolveJob("j", &job).ok());
  const job::DynamicLossScale& scale = job.precision().loss_scale().dynamic();
  EXPECT_EQ(scale.init_scale(), 65536);
  EXPECT_EQ(scale.growth_factor(), 2);
  EXPECT_EQ(scale.backoff_factor(), 0.5);
  EXPECT_EQ(scale.growth_interval(), 2000u);
  job = Small();
  ASSERT_TRUE(SetField("precision.compute=F16", "--set", &job).ok());
  ASSERT_TRUE(SetField("precision.loss_scale.fixed=8", "--set", &job).ok());
  ASSERT_TRUE(ResolveJob("j", &job).ok());
  EXPECT_FALSE(job.precision().loss_scale().has_dynamic());
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
      {"precision.loss_scale.fixed=0", "", "loss_scale.fixed is 0"},
      {"precision.loss_scale.fixed=nan", "", "loss_scale.fixed is nan"},
      {"precision.loss_scale.fixed=1e-40", "", "expected 2^-24"},
      {"precision.loss_scale.dynamic.init_scale=0.5", "", "init_scale is 0.5"},
      {"precision.loss_scale.dynamic.growth_factor=1", "", "above 1"},
      {"precision.loss_scale.dynamic.backoff_factor=1", "",
       "dynamic.backoff_factor is 1"},
      {"precision.loss_scale.dynamic.growth_interval=0", "",
       "growth_interval is 0"},
      {"precision.compute=7", "", "precision.compute is 7, expected"},
      {"data.tail=-1", "", "data.tail is -1, expected CARRY, DROP"},
      {"runtime.recompute=-1", "", "runtime.recompute is -1"},
      {"runtime.recompute=nan", "", "runtime.recompute is nan"},
      {"runtime.recompute=101", "", "expected 0 to 100"},
      {"precision.wire=F16", "", "F32 and BF16"},
      {"precision.wire=BF16", "logical_shards=8", "logical_shards is 8"},
      {"observe.http=127.0.0.1:0", "", "not available"},
      {"name=a/b", "", "slash"},
      {"name=a\nb", "", "control"},
      {"steps=9223372036854775808", "", "at most"},
      {"optimizer.schedule.cosine.base=1", "optimizer.schedule.cosine.final=-1",
       "final is -1"},
      {"optimizer.adam.beta1=1", "", "beta1 is 1"},
      {"optimizer.adamw.epsilon=-1", "", "epsilon -1"},
      {"optimizer.sgd.weight_decay=nan", "", "weight_decay is nan"},
      {"batch_size=0", "", "batch_size is 0"},
      {"micro_batches=0", "", "micro_batches is 0"},
      {"epochs=0", "", "epochs is 0"},
      {"epochs=0", "steps=0", "epochs is 0"},
      {"data.normalize.std=0", "", "std 0"},
      {"data.normalize.std=inf", "", "std inf"},
      {"data.prefetch=0", "", "1 to 64"},
      {"optimizer.schedule.step.base=1", "optimizer.schedule.step.step_size=0",
       "step_size"},
      {"name=.", "", "dot"},
      {"name=..", "", "dot"},
      {"name=\xc3(", "", "UTF-8"},
      {"name=\xed\xa0\x80", "", "UTF-8"},
      {"name=\xc0\xaf", "", "UTF-8"},
      {"observe.trace_steps=9-7", "", "'9-7'"},
      {"observe.trace_steps=x", "", "'x'"},
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

job::Job OfText() {
  return ParseJob("j", R"(
      model { builtin { name: "gpt" } }
      data { train { text { path: "a" } } })")
      .value();
}

TEST(JobTest, TextHasDefaults) {
  job::Job job = OfText();
  ASSERT_TRUE(ResolveJob("/jobs/j.txtpb", &job).ok());
  const job::Text& text = job.data().train().text();
  EXPECT_EQ(text.path(), "/jobs/a");
  EXPECT_EQ(text.context(), 128u);
  EXPECT_EQ(text.stride(), 128u);
  EXPECT_TRUE(text.has_byte());
  EXPECT_EQ(job.eval().metrics(), "perplexity");
  EXPECT_FALSE(job.data().has_normalize());
  // The resolved job is a job.
  job::Job again = ParseJob("again", JobText(job)).value();
  absl::Status status = ResolveJob("/elsewhere/j.txtpb", &again);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(JobText(again), JobText(job));

  job = OfText();
  for (const char* set :
       {"data.train.text.context=9", "data.eval.text.path=b"}) {
    ASSERT_TRUE(SetField(set, "--set", &job).ok()) << set;
  }
  job.mutable_data()->mutable_train()->mutable_text()->mutable_bpe();
  ASSERT_TRUE(ResolveJob("/jobs/j.txtpb", &job).ok());
  EXPECT_EQ(job.data().train().text().stride(), 9u);
  EXPECT_EQ(job.data().train().text().bpe().size(), 1024u);
  EXPECT_EQ(job.data().eval().text().path(), "/jobs/b");
}

TEST(JobTest, TextsThatCannotBeMeant) {
  const std::vector<std::vector<const char*>> cases = {
      {"data.train.text.path=", "", "train.text needs a path"},
      {"data.eval.text.path=", "", "eval.text needs a path"},
      {"data.train.text.context=0", "", "context is 0"},
      {"data.train.text.context=1048577", "", "context is 1048577"},
      {"data.train.text.stride=0", "", "stride is 0"},
      {"data.train.text.bpe.size=256", "", "bpe.size is 256, expected 257"},
      {"data.train.text.bpe.size=65537", "", "bpe.size is 65537"},
      {"data.train.text.eval_fraction=1", "", "eval_fraction is 1"},
      {"data.train.text.eval_fraction=-0.5", "", "eval_fraction is -0.5"},
      {"data.train.text.eval_fraction=nan", "", "eval_fraction is nan"},
      {"data.train.text.eval_fraction=0.5", "data.eval.text.path=b",
       "choose one"},
      {"data.eval.text.path=b", "data.eval.text.context=3", "a path alone"},
      {"data.eval.text.path=b", "data.eval.text.bpe.size=300", "a path alone"},
      {"data.eval.idx.images=b", "data.eval.idx.labels=c",
       "data.train is text and data.eval idx"},
      {"data.normalize.mean=0.5", "", "normalize is for images"},
      {"eval.metrics=accuracy", "", "there is: perplexity"},
  };
  for (const auto& c : cases) {
    job::Job job = OfText();
    for (int i : {0, 1}) {
      if (!*c[i]) continue;
      ASSERT_TRUE(SetField(c[i], "--set", &job).ok()) << c[i];
    }
    ExpectError(ResolveJob("j.txtpb", &job), ErrorCode::kBadJob, c[2]);
  }
  job::Job job = OfText();
  job.mutable_data()->mutable_train()->mutable_text()->set_path({'a', 0, 'z'});
  ExpectError(ResolveJob("j", &job), ErrorCode::kBadJob,
              "data.train.text.path is 'a\\x00z'");
  job = OfText();
  job.mutable_data()->clear_train();
  ExpectError(ResolveJob("j", &job), ErrorCode::kBadJob, "names no data set");
  job = OfText();
  job.mutable_data()->mutable_eval();
  ExpectError(ResolveJob("j", &job), ErrorCode::kBadJob, "data.eval names no");
}

TEST(JobTest, PatternsAreBounded) {
  job::Job job = Small();
  job.mutable_optimizer()->mutable_sgd()->set_decay_exclude(
      std::string(1001, '('));
  ExpectError(ResolveJob("j", &job), ErrorCode::kBadValue, "1001 characters");
  job = Small();
  job.add_placement()->set_scope("fc(1");
  ExpectError(ResolveJob("j", &job), ErrorCode::kBadValue, "placement.scope");
}

TEST(JobTest, AMeshAxisHasASize) {
  job::Job job = Small();
  job.mutable_mesh()->add_axis()->set_name("data");
  ExpectError(ResolveJob("j", &job), ErrorCode::kBadJob, "'data' has size 0");
  job.mutable_mesh()->mutable_axis(0)->set_size(1);
  EXPECT_TRUE(ResolveJob("j", &job).ok());
}

TEST(JobTest, PipelinesHaveASchedule) {
  job::Job job = Small();
  job.mutable_pipeline()->set_stages(4);
  ASSERT_TRUE(ResolveJob("j", &job).ok());
  EXPECT_EQ(job.pipeline().schedule(), "1f1b");
  job.mutable_pipeline()->set_schedule("zigzag");
  ExpectError(ResolveJob("j", &job), ErrorCode::kBadJob,
              "pipeline.schedule is 'zigzag'; there are gpipe, 1f1b, "
              "interleaved");
  job = Small();
  job.mutable_pipeline()->set_stages(1u << 31);
  ExpectError(ResolveJob("j", &job), ErrorCode::kBadJob,
              "pipeline.stages is 2147483648, at most 4096");
}

TEST(JobTest, AGammaOfZeroIsNoDefault) {
  job::Job job = Small();
  job::Step* step = job.mutable_optimizer()->mutable_schedule()->mutable_step();
  step->set_base(1);
  step->set_step_size(2);
  step->set_gamma(0);
  ExpectError(ResolveJob("j", &job), ErrorCode::kBadJob, "gamma is 0");
  step->clear_gamma();
  ASSERT_TRUE(ResolveJob("j", &job).ok());
  EXPECT_FLOAT_EQ(step->gamma(), 0.1f);
}

TEST(JobTest, StepsTakeTheEpochsOfAFileBack) {
  job::Job job = Small();
  job.set_epochs(3);
  ASSERT_TRUE(SetField("steps=7", "--set", &job).ok());
  ASSERT_TRUE(SetField("epochs=0", "--set", &job).ok());
  ASSERT_TRUE(ResolveJob("j", &job).ok());
  EXPECT_FALSE(job.has_epochs());
  EXPECT_EQ(job.steps(), 7u);
}

TEST(JobTest, AnArgumentIsWrittenOnce) {
  const std::string twice =
      "model { builtin { name: \"mlp\" args { key: \"hidden\" value: \"1\" } "
      "args { key: \"hidden\" value: \"2\" } } }";
  ExpectError(ParseJob("j", twice).status(), ErrorCode::kBadValue,
              "key 'hidden' twice");
}

// What --set made is what the run's own file says, whatever the kind of field:
// resuming reads that.
TEST(JobTest, EverySetIsWrittenOnce) {
  const std::string with_args =
      "model { builtin { name: \"mlp\" args { key: \"hidden\" value: \"1\" } } "
      "} data { train { idx { images: \"a\" labels: \"/b\" } } }";
  for (const std::vector<const char*>& sets :
       std::vector<std::vector<const char*>>{
           {"model.builtin.args.hidden=5"},
           {"model.builtin.args.hidden=5", "model.builtin.args.classes=9",
            "model.builtin.args.hidden=7"},
           {"model.graph_text.path=m.graph"},
           {"optimizer.adam.beta1=0.8"},
           {"optimizer.adagrad.epsilon=1e-7", "optimizer.sgd.momentum=0.2"},
           {"optimizer.schedule.cosine.base=0.3", "epochs=2"},
           {"data.shuffle=false", "data.tail=DROP", "data.normalize.std=0.3"},
           {"epochs=0", "steps=9"},
           {"logical_shards=4"},
           {"name=a b\"c'd"},
           {"seed=18446744073709551615", "runtime.threads=2"},
           {"optimizer.sgd.decay_exclude=.*\\.bias",
            "devices=sim:0?tier=T1"}}) {
    SCOPED_TRACE(sets[0]);
    job::Job job = ParseJob("j", with_args).value();
    for (const char* set : sets) {
      absl::Status status = SetField(set, "--set", &job);
      ASSERT_TRUE(status.ok()) << status;
    }
    absl::Status status = ResolveJob("/jobs/j.txtpb", &job);
    ASSERT_TRUE(status.ok()) << status;
    absl::StatusOr<job::Job> again = ParseJob("resolved", JobText(job));
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_TRUE(ResolveJob("/runs/resolved.txtpb", &*again).ok());
    EXPECT_EQ(JobText(*again), JobText(job));
    EXPECT_EQ(JobChanges(*again, job), "");
  }
  job::Job job = ParseJob("j", with_args).value();
  ASSERT_TRUE(SetField("model.builtin.args.hidden=5", "--set", &job).ok());
  EXPECT_EQ(job.model().builtin().args().at("hidden"), "5");
  EXPECT_THAT(JobText(job), testing::Not(HasSubstr("value: \"1\"")));
  ExpectError(SetField("placement.device=cpu", "--set", &job),
              ErrorCode::kBadValue, "is a list");
}

TEST(JobTest, NumbersThatNobodyMeans) {
  for (const auto& [set, text] :
       std::vector<std::pair<std::string, std::string>>{
           {"optimizer.adam.epsilon=inf", "epsilon inf"},
           {"optimizer.adamw.epsilon=nan", "epsilon nan"},
           {"optimizer.adagrad.epsilon=-1", "epsilon is -1"},
           {"optimizer.adagrad.epsilon=inf", "epsilon is inf"},
           {"optimizer.clip_norm=inf", "clip_norm is inf"},
           {"optimizer.schedule.constant.warmup_steps=9223372036854775808",
            "warmup_steps is 9223372036854775808"},
           {"optimizer.schedule.cosine.total_steps=18446744073709551615",
            "total_steps is 18446744073709551615"},
           {"runtime.threads=1025", "threads is 1025"}}) {
    job::Job job = Small();
    ASSERT_TRUE(SetField(set, "--set", &job).ok()) << set;
    if (set.find("schedule") != std::string::npos) {
      SetField("optimizer.schedule.constant.base=1", "", &job).IgnoreError();
    }
    if (set.find("cosine") != std::string::npos) {
      SetField("optimizer.schedule.cosine.base=1", "", &job).IgnoreError();
      ASSERT_TRUE(SetField(set, "--set", &job).ok()) << set;
    }
    ExpectError(ResolveJob("j", &job), ErrorCode::kBadJob, text);
  }
  job::Job job = Small();
  job.mutable_data()->mutable_train()->mutable_idx()->set_images(
      std::string("a\0/x", 4));
  ExpectError(ResolveJob("j", &job), ErrorCode::kBadJob, "'a\\x00/x'");
}

TEST(JobTest, NamesOfOtherScriptsAreFine) {
  for (const char* name :
       {"\xc3\xbc", "\xe6\xa8\xa1\xe5\x9e\x8b", "\xf0\x9f\xa7\xb5", "v1.2"}) {
    job::Job job = Small();
    job.set_name(name);
    EXPECT_TRUE(ResolveJob("j", &job).ok()) << name;
  }
}

TEST(JobTest, ChangesAreListed) {
  job::Job before = Small();
  ASSERT_TRUE(ResolveJob("/j", &before).ok());
  job::Job after = before;
  EXPECT_EQ(JobChanges(before, after), "");
  after.set_epochs(5);
  after.mutable_optimizer()->mutable_sgd()->set_momentum(0.5f);
  EXPECT_THAT(JobChanges(before, after), HasSubstr("epochs: 1 -> 5"));
  EXPECT_THAT(JobChanges(before, after),
              HasSubstr("optimizer.sgd.momentum: 0.9 -> 0.5"));
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
