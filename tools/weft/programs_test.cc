#include "tools/weft/programs.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/testing/fake_oracle.h"
#include "core/base/error.h"
#include "core/ops/schema.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/weft/job.h"
#include "tools/weft/ranks.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

job::Job Job(const std::vector<std::string>& sets) {
  job::Job job = ParseJob("test", R"(
      name: "test" batch_size: 8 steps: 3
      model { builtin { name: "mlp" args { key: "hidden" value: "6" } } }
      data { train { idx { images: "a" labels: "b" } } })")
                     .value();
  for (const std::string& set : sets) {
    EXPECT_TRUE(SetField(set, "--set", &job).ok())
        << SetField(set, "--set", &job);
  }
  absl::Status resolved = ResolveJob("test", &job);
  EXPECT_TRUE(resolved.ok()) << resolved;
  return job;
}

DataInfo Info() { return {Shape({4, 4}), 3, 10, true}; }

absl::StatusOr<Programs> Build(const job::Job& job) {
  FakeOracle oracle;
  std::vector<plan::Device> devices = {HostDevice()};
  return BuildPrograms(RealOs(), job, Info(), devices, devices[0].name(),
                       oracle);
}

TEST(ProgramsTest, AllProgramsShareOneState) {
  Programs p = Build(Job({})).value();
  EXPECT_EQ(p.classes, 3);
  ASSERT_EQ(p.plans.size(), 5u);
  for (const auto& [name, plan] : p.plans) EXPECT_EQ(plan.program(), name);
  EXPECT_NE(p.state.Find("fc1/weight"), nullptr);
  EXPECT_NE(p.state.Find("fc1/weight/velocity"), nullptr);
}

uint64_t ChannelBytes(const job::Job& job) {
  FakeOracle oracle;
  std::vector<plan::Device> devices = {HostDevice()};
  ProgramOptions options;
  options.share = ShareOfRank(job, 0, 2).value();
  const Programs programs = BuildPrograms(RealOs(), job, Info(), devices,
                                          devices[0].name(), oracle, options)
                                .value();
  uint64_t bytes = 0;
  for (const plan::Channel& channel : programs.plans.at("train").channels()) {
    uint64_t elements = 1;
    for (int64_t dim : channel.tensor().dims()) elements *= dim;
    bytes += elements * DTypeSize(static_cast<DType>(channel.tensor().dtype()));
  }
  return bytes;
}

// All but what is small: biases, losses, counts.
TEST(ProgramsTest, Bf16OnTheWireHalvesTheBytesOfAPlan) {
  const std::vector<std::string> sets = {"model.builtin.args.hidden=128,64"};
  std::vector<std::string> narrow = sets;
  narrow.push_back("precision.wire=BF16");
  const uint64_t exact = ChannelBytes(Job(sets));
  EXPECT_GT(exact, 40000u);
  EXPECT_LT(ChannelBytes(Job(narrow)), exact * 52 / 100);
}

// The collectives of training: channels are named by them.
std::set<std::string> ExchangesOf(const job::Job& job, const DataInfo& info) {
  FakeOracle oracle;
  std::vector<plan::Device> devices = {HostDevice()};
  ProgramOptions options;
  options.share = ShareOfRank(job, 0, 2).value();
  const Programs programs = BuildPrograms(RealOs(), job, info, devices,
                                          devices[0].name(), oracle, options)
                                .value();
  std::set<std::string> out;
  for (const plan::Channel& channel : programs.plans.at("train").channels()) {
    out.insert(channel.name().substr(0, channel.name().find('#')));
  }
  return out;
}

// The example's perceptron: the first layer by columns, the second by rows; no
// rank sends gradients, of parameters or of data.
TEST(ProgramsTest, APerceptronWhoseValuesAreSharedExchangesTwiceAStep) {
  job::Job job = Job({"model.builtin.args.hidden=512,512", "batch_size=128",
                      "optimizer.clip_norm=1"});
  job::Axis* axis = job.mutable_mesh()->add_axis();
  axis->set_name("model");
  axis->set_size(2);
  const DataInfo info = {Shape({28, 28}), 10, 60000, true};
  EXPECT_THAT(
      ExchangesOf(job, info),
      testing::ElementsAre(HasSubstr("fc2/"), HasSubstr("step/globalnorm/")));
}

// What is computed again costs fusions: here there is nothing to spare.
TEST(ProgramsTest, KeepsAllWhereComputingAgainSparesNothing) {
  auto arenas = [](const Programs& p) {
    uint64_t bytes = 0;
    for (const plan::Arena& a : p.plans.at("train").arenas()) {
      bytes += a.bytes();
    }
    return bytes;
  };
  Programs kept = Build(Job({})).value();
  EXPECT_EQ(kept.recompute_note, "");
  Programs asked = Build(Job({"runtime.recompute=100"})).value();
  EXPECT_EQ(arenas(asked), arenas(kept));
  EXPECT_THAT(asked.recompute_note, HasSubstr("keeps all"));
}

// Of training, on rank 0.
plan::Plan PlanOf(const std::vector<std::string>& sets, uint32_t ranks) {
  FakeOracle oracle;
  std::vector<plan::Device> devices = {HostDevice()};
  const job::Job job = Job(sets);
  ProgramOptions options;
  options.share = ShareOfRank(job, 0, ranks).value();
  absl::StatusOr<Programs> p = BuildPrograms(
      RealOs(), job, Info(), devices, devices[0].name(), oracle, options);
  EXPECT_TRUE(p.ok()) << p.status();
  return p.ok() ? p->plans.at("train") : plan::Plan();
}

// Bytes of arenas, by kind.
std::map<plan::Arena::Kind, uint64_t> Arenas(
    const std::vector<std::string>& sets, uint32_t ranks) {
  std::map<plan::Arena::Kind, uint64_t> out;
  const plan::Plan plan = PlanOf(sets, ranks);
  for (const plan::Arena& a : plan.arenas()) out[a.kind()] += a.bytes();
  return out;
}

// Only where ranks share samples and nothing else, and where the norm need not
// have the bits of one rank.
TEST(ProgramsTest, NormsAreOfPartsWhereRanksShareSamples) {
  const auto has = [](const std::string& more, uint32_t ranks, OpId op) {
    const plan::Plan plan = PlanOf(
        {"model.builtin.args.hidden=512,512", "optimizer.clip_norm=1", more},
        ranks);
    const auto& kernels = plan.kernels();
    return std::any_of(kernels.begin(), kernels.end(),
                       [op](const plan::Kernel& kernel) {
                         return kernel.op() == static_cast<uint32_t>(op);
                       });
  };
  for (const std::string more : {"micro_batches=2", "zero=0"}) {
    EXPECT_FALSE(has(more, 2, OpId::kGlobalNorm)) << more;
    EXPECT_TRUE(has(more, 2, OpId::kSumOfSquares)) << more;
    EXPECT_TRUE(has(more, 1, OpId::kGlobalNorm)) << more;
  }
  EXPECT_TRUE(has("logical_shards=2", 2, OpId::kGlobalNorm));
  EXPECT_FALSE(has("logical_shards=2", 2, OpId::kSumOfSquares));
}

// Of n ranks each keeps an n-th; whole parameters and gradients are there one
// after the other: of eight layers of 256 KiB never more than some.
TEST(ProgramsTest, StateInPartsTakesAnNthAndALayer) {
  constexpr uint64_t kLayer = 256 * 256 * 4;
  const std::vector<std::string> sets = {
      "model.builtin.args.hidden=256,256,256,256,256,256,256,256,256"};
  const auto with = [&](const std::string& zero, const char* mapped_bytes) {
    std::vector<std::string> out = sets;
    out.push_back("zero=" + zero);
    out.push_back(absl::StrCat("collectives.mapped_bytes=", mapped_bytes));
    return out;
  };
  const uint64_t whole = Arenas(sets, 2)[plan::Arena::STATE];
  EXPECT_GT(whole, 16 * kLayer);  // with velocities
  for (uint32_t ranks : {2, 4, 8}) {
    SCOPED_TRACE(ranks);
    uint64_t before = ~uint64_t{0};
    for (const std::string zero : {"1", "2", "3"}) {
      SCOPED_TRACE(zero);
      auto bytes = Arenas(with(zero, "0"), ranks);
      // Biases and the small layers at both ends are whole.
      EXPECT_LT(bytes[plan::Arena::STATE], whole / ranks + kLayer / 4);
      EXPECT_LE(bytes[plan::Arena::ACTIVATIONS], before);
      before = bytes[plan::Arena::ACTIVATIONS];
    }
    // Parts of all gradients, which their norm waits for, and what a layer
    // needs while it is computed.
    EXPECT_LT(before, whole / 2 / ranks + 3 * kLayer);
    // What peers read or write lies apart, and is kept until they have done so;
    // what micro-batches gather, not for all of them.
    const auto made = [&](uint32_t micro_batches) {
      std::vector<std::string> some = with("3", "1");
      some.push_back(absl::StrCat("micro_batches=", micro_batches));
      auto bytes = Arenas(some, ranks);
      return bytes[plan::Arena::ACTIVATIONS] + bytes[plan::Arena::SHARED];
    };
    EXPECT_LT(made(8 / ranks), 2 * made(1));
  }
}

TEST(ProgramsTest, EveryFeatureCompiles) {
  const std::vector<std::vector<std::string>> cases = {
      {"micro_batches=4"},
      {"logical_shards=8"},
      {"optimizer.clip_norm=1"},
      {"optimizer.adamw.weight_decay=0.1"},
      {"optimizer.adagrad.weight_decay=0.1"},
      {"optimizer.schedule.cosine.base=0.1"},
      {"optimizer.schedule.step.base=0.1",
       "optimizer.schedule.step.step_size=2"},
      {"model.builtin.args.dropout=0.5", "micro_batches=2"},
      {"loss.softmax_cross_entropy.label_smoothing=0.1"},
      {"runtime.register_copies=3"},
  };
  for (const auto& sets : cases) {
    absl::StatusOr<Programs> p = Build(Job(sets));
    EXPECT_TRUE(p.ok()) << sets[0] << ": " << p.status();
  }
}

TEST(ProgramsTest, LaunchOrderSeedGivesAnotherLegalPlan) {
  FakeOracle oracle;
  std::vector<plan::Device> devices = {HostDevice()};
  job::Job job = Job({"micro_batches=2"});
  auto hash = [&](uint64_t seed) {
    ProgramOptions options;
    options.launch_order_seed = seed;
    return BuildPrograms(RealOs(), job, Info(), devices, devices[0].name(),
                         oracle, options)
        ->plans.at("train")
        .hash();
  };
  EXPECT_EQ(hash(0), hash(0));
  EXPECT_NE(hash(0), hash(1));
}

TEST(ProgramsTest, PrefetchIsCopiesOfWhatIoFills) {
  auto copies = [](const std::vector<std::string>& sets) {
    Programs p = Build(Job(sets)).value();
    uint32_t most = 0;
    for (const plan::Register& r : p.plans.at("train").registers()) {
      most = std::max(most, r.copies());
    }
    return most;
  };
  EXPECT_EQ(copies({}), 2u);
  EXPECT_EQ(copies({"data.prefetch=5"}), 5u);
  EXPECT_EQ(copies({"data.prefetch=5", "runtime.register_copies=3"}), 3u);
}

TEST(ProgramsTest, GraphTextModels) {
  std::string path = JoinPath(std::getenv("TEST_TMPDIR"), "model.graph");
  ASSERT_TRUE(WriteFileAtomically(RealOs(), path, R"(graph "mine" {
  %image = weft.Input() {dtype: f32, shape: [8, 4, 4]} : f32[8,4,4]
  %flat = Flatten(%image) : f32[8,16]
  %w = weft.Variable() {dtype: f32, shape: [16, 3], init: "normal", scale: 0.1} : f32[16,3]
  %y = MatMul(%flat, %w) : f32[8,3]
  %out = weft.Output(%y) {name: "logits"}
}
)")
                  .ok());
  job::Job job = Job({"model.graph_text.path=" + path});
  absl::StatusOr<Programs> p = Build(job);
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(p->graphs.at("train").name(), "mine");

  job.set_batch_size(16);
  job.set_micro_batches(2);  // of 8, as the text says
  absl::Status status = Build(job).status();
  EXPECT_TRUE(status.ok()) << status;
  job.set_micro_batches(1);
  status = Build(job).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kShapeMismatch)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("f32[8,4,4]"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("16 samples"));

  job.mutable_model()->mutable_graph_text()->set_path("/no/such.graph");
  EXPECT_THAT(std::string(Build(job).status().message()),
              HasSubstr("/no/such.graph"));
}

// What it would give is whatever lies in memory.
TEST(ProgramsTest, AModelReadsNoMemoryThatNobodyWrote) {
  const std::string path = JoinPath(std::getenv("TEST_TMPDIR"), "empty.graph");
  ASSERT_TRUE(WriteFileAtomically(RealOs(), path, R"(graph "mine" {
  %image = weft.Input() {dtype: f32, shape: [8, 4, 4]} : f32[8,4,4]
  %y = weft.Empty(%image) {shape: [8, 3]} : f32[8,3]
  %out = weft.Output(%y) {name: "logits"}
}
)")
                  .ok());
  const absl::Status status =
      Build(Job({"model.graph_text.path=" + path})).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kBadGraph)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("'y' (weft.Empty)"));
}

TEST(ProgramsTest, WarmUpLongerThanTheScheduleIsNamed) {
  job::Job job = Job({"optimizer.schedule.cosine.base=0.1",
                      "optimizer.schedule.cosine.warmup_steps=10"});
  absl::Status status = Build(job).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kBadJob)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("warmup_steps is 10"));
}

TEST(ProgramsTest, BadPlacementIsNamed) {
  job::Job job = Job({});
  job.add_placement()->set_scope("(");
  EXPECT_TRUE(IsError(Build(job).status(), ErrorCode::kBadValue));
  job.mutable_placement(0)->set_scope("fc9.*");
  absl::Status unused = Build(job).status();
  EXPECT_TRUE(IsError(unused, ErrorCode::kBadJob)) << unused;
  EXPECT_THAT(std::string(unused.message()), HasSubstr("'fc9.*'"));
  job.mutable_placement(0)->set_scope("fc1.*");
  job.mutable_placement(0)->set_device("tpu:7");
  absl::Status status = Build(job).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kDeviceNotFound)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("tpu:7"));
}

}  // namespace
}  // namespace weft
