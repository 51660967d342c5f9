// The same jobs on a device whose memory no host pointer reaches: what works
// there touches device memory only through the plugin.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/host/test_plugins.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/testing/no_threads.h"
#include "tests/e2e/harness.h"
#include "tools/weft/prepare.h"
#include "tools/weft/scalar_sinks.h"
#include "tools/weft/state_io.h"

namespace weft::e2e {
namespace {

using ::testing::HasSubstr;

struct Variant {
  const char* name;
  bool lenet;
  Sets sets;
  double tolerance;  // of T1, relative to the largest value of a tensor
};

// T1 sums in another order than the CPU, so its bits differ; how far they may
// is a table, by what multiplies the differences.
const std::vector<Variant>& Variants() {
  static const auto* variants = new std::vector<Variant>{
      {"mlp", false, {}, 1e-5},
      {"mlp_micro",
       false,
       {"logical_shards=4", "optimizer.clip_norm=0.5"},
       1e-5},
      // Adam divides by the root of small averages.
      {"mlp_adamw",
       false,
       {"optimizer.adamw.weight_decay=0.01",
        "optimizer.schedule.constant.base=0.01"},
       1e-4},
      {"mlp_dropout", false, {"model.builtin.args.dropout=0.25"}, 1e-5},
      {"lenet", true, {}, 1e-4},
      {"lenet_batch_norm", true, {"model.builtin.args.batch_norm=1"}, 1e-3},
      // Channels that fill blocks: where the CPU (and T0, by host fallback)
      // computes images in blocks, T1 has them in planes.
      {"lenet_blocks", true, {"model.builtin.args.channels=16,32"}, 1e-4},
      {"lenet_blocks_norm",
       true,
       {"model.builtin.args.channels=16,32", "model.builtin.args.batch_norm=1"},
       1e-3},
  };
  return *variants;
}

constexpr int kSteps = 10;

Sets With(const Variant& variant, const std::string& device) {
  Sets sets = variant.sets;
  sets.push_back("epochs=0");
  sets.push_back(absl::StrCat("steps=", kSteps));
  sets.push_back(absl::StrCat("devices=", device));
  return sets;
}

TestJob MakeJob(const Variant& variant) {
  return variant.lenet ? TestJob(variant.name, Lenet(), LenetData())
                       : TestJob(variant.name, Mlp());
}

double LargestDifference(const std::string& a, const std::string& b) {
  std::vector<float> x(a.size() / 4), y(b.size() / 4);
  std::memcpy(x.data(), a.data(), a.size());
  std::memcpy(y.data(), b.data(), b.size());
  double difference = 0, size = 1;
  for (size_t i = 0; i < x.size(); ++i) {
    difference = std::max<double>(difference, std::fabs(x[i] - y[i]));
    size = std::max<double>(size, std::fabs(x[i]));
    if (std::isnan(y[i])) return HUGE_VAL;
  }
  return difference / size;
}

TEST(DevicesTest, HostFallbackGivesTheBitsOfTheHost) {
  for (const Variant& variant : Variants()) {
    SCOPED_TRACE(variant.name);
    TestJob job = MakeJob(variant);
    absl::StatusOr<TrainResult> cpu = job.Train(With(variant, "cpu"));
    ASSERT_TRUE(cpu.ok()) << cpu.status();
    absl::StatusOr<TrainResult> sim = job.Train(With(variant, "sim:0?tier=T0"));
    ASSERT_TRUE(sim.ok()) << sim.status();
    EXPECT_EQ(StateOf(sim->run_directory), StateOf(cpu->run_directory));
    EXPECT_EQ(MetricsOf(sim->run_directory), MetricsOf(cpu->run_directory));
    EXPECT_GT(sim->device_bytes.at("sim:0"), 0u);
  }
}

TEST(DevicesTest, PrimitivesAgreeWithinATolerance) {
  for (const Variant& variant : Variants()) {
    SCOPED_TRACE(variant.name);
    TestJob job = MakeJob(variant);
    absl::StatusOr<TrainResult> cpu = job.Train(With(variant, "cpu"));
    ASSERT_TRUE(cpu.ok()) << cpu.status();
    absl::StatusOr<TrainResult> sim = job.Train(With(variant, "sim:0?tier=T1"));
    ASSERT_TRUE(sim.ok()) << sim.status();
    auto expected = StateOf(cpu->run_directory);
    auto got = StateOf(sim->run_directory);
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [name, bytes] : expected) {
      ASSERT_EQ(got.count(name), 1u) << name;
      EXPECT_LE(LargestDifference(bytes, got[name]), variant.tolerance) << name;
    }
    EXPECT_NEAR(sim->eval.loss, cpu->eval.loss, 10 * variant.tolerance);
  }
}

// What docs/plugins.md promises a vendor.
TEST(DevicesTest, AVendorsSmallDeviceTrains) {
  const Variant& variant = Variants()[0];
  TestJob job = MakeJob(variant);
  absl::StatusOr<TrainResult> cpu = job.Train(With(variant, "cpu"));
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  absl::StatusOr<TrainResult> acme = job.Train(With(variant, "acme"));
  ASSERT_TRUE(acme.ok()) << acme.status();
  EXPECT_GT(acme->device_bytes.at("acme:0"), 0u);
  auto got = StateOf(acme->run_directory);
  for (const auto& [name, bytes] : StateOf(cpu->run_directory)) {
    ASSERT_EQ(got.count(name), 1u) << name;
    EXPECT_LE(LargestDifference(bytes, got[name]), variant.tolerance) << name;
  }

  int lines = 0;
  for (const char* file : {"acme.cc", "BUILD.bazel"}) {
    const std::string text =
        ReadText(RunfilePath(absl::StrCat("examples/vendor_device/", file)));
    lines += static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }
  EXPECT_GT(lines, 50);
  EXPECT_LE(lines, 250);
}

TEST(DevicesTest, SlowWorkGivesTheSameBits) {
  const Variant& variant = Variants()[1];
  TestJob job = MakeJob(variant);
  absl::StatusOr<TrainResult> fast = job.Train(With(variant, "sim:1"));
  ASSERT_TRUE(fast.ok()) << fast.status();
  absl::StatusOr<TrainResult> slow =
      job.Train(With(variant, "sim:1?delay_us=30"));
  ASSERT_TRUE(slow.ok()) << slow.status();
  EXPECT_EQ(StateOf(slow->run_directory), StateOf(fast->run_directory));
}

// Ten steps with a checkpoint after each second one, on a device that fails at
// some time after the first of them.
TEST(DevicesTest, AFailedDeviceIsNamedAndTheLastCheckpointStays) {
  const Sets often = {"checkpoint.every_steps=2", "checkpoint.keep=9",
                      "epochs=0", "steps=10", "eval.every_epochs=0"};
  TestJob job("faults", Mlp());
  auto with = [&](const std::string& device) {
    Sets sets = often;
    sets.push_back("devices=" + device);
    return sets;
  };
  struct Fault {
    const char* device;
    const char* text;
  };
  std::map<std::string, std::map<std::string, std::string>> healthy;
  for (const char* tier : {"T0", "T1"}) {
    absl::StatusOr<TrainResult> run =
        job.Train(with(absl::StrCat("sim:0?tier=", tier)));
    ASSERT_TRUE(run.ok()) << run.status();
    healthy[tier] = StateOf(run->run_directory);
  }
  const std::vector<std::pair<std::string, Fault>> faults = {
      {"T1", {"&fault_at_launch=400", "launch fails"}},
      {"T1", {"&fault_at_launch=401&delay_us=20", "launch fails"}},
      {"T1", {"&fault_at_copy=90", "copy fails"}},
      {"T1", {"&lose_device_at=500", "lost"}},
      {"T0", {"&fault_at_copy=400", "copy fails"}},
      {"T0", {"&lose_device_at=401", "lost"}},
  };
  for (const auto& [tier, fault] : faults) {
    SCOPED_TRACE(tier + fault.device);
    const size_t before = job.Runs().size();
    absl::Status status =
        job.Train(with(absl::StrCat("sim:0?tier=", tier, fault.device)))
            .status();
    ASSERT_TRUE(IsError(status, ErrorCode::kDeviceFailed)) << status;
    EXPECT_EQ(ExitCodeOf(status), 5);
    EXPECT_THAT(std::string(status.message()), HasSubstr(fault.text));
    EXPECT_THAT(std::string(status.message()), HasSubstr("node '"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("device sim:0"));
    ASSERT_EQ(job.Runs().size(), before + 1);
    std::string run;
    for (const std::string& r : job.Runs()) {
      std::string error = JoinPath(r, "errors/rank_00000.json");
      if (!RealOs().Exists(error)) continue;
      run = r;
      EXPECT_THAT(ReadText(error), HasSubstr("\"WEFT-4007\""));
    }
    ASSERT_NE(run, "");
    absl::StatusOr<std::vector<checkpoint::Info>> list =
        checkpoint::List(RealOs(), run);
    ASSERT_TRUE(list.ok()) << list.status();
    EXPECT_GE(list->size(), 1u);
    for (const checkpoint::Info& info : *list) {
      EXPECT_TRUE(info.verdict.ok()) << info.verdict;
    }
    // On a healthy device the run goes on as if nothing had happened.
    TrainOptions resume = job.Options({"devices=sim:0?tier=" + tier});
    resume.job_path = "";
    resume.resume = run;
    absl::StatusOr<TrainResult> resumed = Train(resume);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    EXPECT_EQ(resumed->steps, 10u);
    EXPECT_EQ(StateOf(run), healthy[tier]);
    EXPECT_FALSE(RealOs().Exists(JoinPath(run, "errors/rank_00000.json")));
  }
}

TEST(DevicesTest, NoMemoryIsAnErrorBeforeTheFirstStep) {
  TestJob job("memory", Mlp());
  for (const char* device :
       {"sim:0?memory_bytes=5000", "sim:0?fail_alloc_at=1"}) {
    absl::Status status =
        job.Train({absl::StrCat("devices=", device)}).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kOutOfMemory)) << status;
    EXPECT_EQ(ExitCodeOf(status), 4);
    EXPECT_THAT(std::string(status.message()), HasSubstr("sim:0"));
    // The device says so when the first program asks it for memory.
    ASSERT_FALSE(job.Runs().empty());
    const std::string run = job.Runs().back();
    EXPECT_TRUE(ListNames(JoinPath(run, "ckpt")).empty());
    EXPECT_THAT(ReadText(JoinPath(run, "errors/rank_00000.json")),
                HasSubstr("\"WEFT-3001\""));
  }
}

TEST(DevicesTest, NoThreadForAStreamIsSaid) {
  TestJob job("no_threads", Mlp());
  absl::Status status;
  {
    runtime::testing::NoThreads none;
    status = job.Train({"devices=sim"}).status();
  }
  EXPECT_TRUE(IsError(status, ErrorCode::kNoThread)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("sim:0, stream_open"));
  // Streams are opened by the first program that runs.
  ASSERT_EQ(job.Runs().size(), 1u);
  EXPECT_THAT(ReadText(JoinPath(job.Runs()[0], "errors/rank_00000.json")),
              HasSubstr("\"WEFT-3002\""));
  EXPECT_TRUE(job.Train({"devices=sim", "epochs=1"}).ok());
}

// What the plan says, what the session asked for and what the devices gave.
void ExpectPlannedIsMeasured(const TestJob& test, const Sets& sets) {
  TrainOptions options = test.Options(sets);
  absl::StatusOr<job::Job> job = ReadJob(options);
  ASSERT_TRUE(job.ok()) << job.status();
  absl::StatusOr<std::unique_ptr<Prepared>> prepared = Prepare(options, *job);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  const auto& plans = (*prepared)->programs.plans;
  StateBuffers state((*prepared)->programs.graphs.at("train"));
  auto ignore = [](uint64_t, const ScalarSinks::Values&) {
    return absl::OkStatus();
  };
  ScalarSinks train_sinks({"loss", "weight", "correct", "learning_rate"},
                          ignore);
  ScalarSinks eval_sinks({"loss", "weight", "correct"}, ignore);
  runtime::Bindings train = train_sinks.bindings();
  train.sources["train"] = (*prepared)->train_reader.get();
  runtime::Bindings eval = eval_sinks.bindings();
  eval.sources["eval"] = (*prepared)->eval_reader.get();
  auto session = runtime::Session::Create((*prepared)->devices.pointers());
  ASSERT_TRUE(session.ok()) << session.status();
  auto load = [&](const char* program, const runtime::Bindings& bindings) {
    absl::Status status = (*session)->LoadProgram(plans.at(program), bindings);
    ASSERT_TRUE(status.ok()) << status;
  };
  load("train", train);
  load("eval", eval);
  load("init", {});
  load("save", state.SaveBindings());
  for (auto [program, steps] : std::vector<std::pair<const char*, int>>{
           {"init", 1}, {"train", 4}, {"eval", 2}, {"train", 1}, {"save", 1}}) {
    absl::Status status = (*session)->Run(program, 0, steps).status();
    ASSERT_TRUE(status.ok()) << program << ": " << status;
  }
  const std::map<std::string, uint64_t> planned = (*session)->PlannedBytes();
  for (Device* device : (*prepared)->devices.pointers()) {
    absl::StatusOr<MemInfo> info = device->GetMemInfo();
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(planned.at(device->Name()), info->peak_bytes) << device->Name();
    EXPECT_GT(info->peak_bytes, 0u);
  }
}

TEST(DevicesTest, PlannedMemoryIsMeasuredMemory) {
  for (const Variant& variant : Variants()) {
    if (variant.name == std::string("mlp_micro")) continue;  // more sinks
    TestJob job = MakeJob(variant);
    for (const char* device : {"cpu", "sim:0?tier=T0", "sim:0?tier=T1"}) {
      SCOPED_TRACE(absl::StrCat(variant.name, " on ", device));
      ExpectPlannedIsMeasured(job, With(variant, device));
    }
  }
}

}  // namespace
}  // namespace weft::e2e
