// Jobs on several ranks: what one rank computes, whatever their number, the
// algorithm and the timing; and an end for all of them, however one ends.

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/os.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"
#include "tests/e2e/harness.h"

namespace weft::e2e {
namespace {

using ::testing::HasSubstr;

TEST(RanksTest, AnyNumberOfThemComputesTheSame) {
  struct Variant {
    const char* name;
    std::string model;
    DataSpec data;
    Sets sets;
  };
  const std::vector<Variant> variants = {
      {"mlp",
       Mlp(),
       {},
       {"model.builtin.args.dropout=0.25", "logical_shards=8",
        "optimizer.adamw.weight_decay=0.01", "optimizer.clip_norm=0.5",
        "epochs=1"}},
      {"mlp_f16",
       Mlp(),
       {},
       {"precision.compute=F16", "logical_shards=4", "steps=6", "epochs=0",
        "precision.loss_scale.dynamic.init_scale=1e8"}},
      {"lenet",
       Lenet(),
       LenetData(),
       {"model.builtin.args.batch_norm=1", "model.builtin.args.dropout=0.25",
        "logical_shards=4", "steps=4", "epochs=0"}},
      {"resnet",
       R"(builtin { name: "resnet18" args { key: "width" value: "2" } })",
       LenetData(),
       {"logical_shards=4", "steps=2", "epochs=0"}},
  };
  for (const Variant& variant : variants) {
    SCOPED_TRACE(variant.name);
    TestJob job(variant.name, variant.model, variant.data);
    const Left one = LeftBy(OnRanks(job, 1, variant.sets));
    for (uint32_t ranks : {2, 4}) {
      SCOPED_TRACE(ranks);
      ExpectSame(LeftBy(OnRanks(job, ranks, variant.sets)), one);
    }
    // Another seed leaves other bits: the comparison can fail.
    Sets other = variant.sets;
    other.push_back("seed=8");
    EXPECT_FALSE(LeftBy(OnRanks(job, 2, other)).state == one.state);
  }
}

// Nodes on ranks: forward and back across them, twice a step, state where its
// nodes are, and all of it in the checkpoint.
TEST(RanksTest, NodesOnRanksComputeTheSame) {
  const Sets sets = {"micro_batches=2", "optimizer.clip_norm=0.5",
                     "model.builtin.args.dropout=0.25", "epochs=1"};
  TestJob whole("whole", Mlp());
  const Left one = LeftBy(OnRanks(whole, 1, sets));
  const std::vector<std::pair<std::string, uint32_t>> placements = {
      {R"(placement { scope: "fc2.*" device: "w1" })", 2},
      // The last rank has nothing to do.
      {R"(placement { scope: "fc2.*" device: "w1" })", 3},
      {R"(placement { scope: "fc1.*" device: "w2/cpu:0" }
          placement { scope: "fc2.*" device: "w1" })",
       3},
  };
  for (const auto& [placement, ranks] : placements) {
    SCOPED_TRACE(placement);
    TestJob job("placed", Mlp());
    WriteText(job.path(), absl::StrCat(ReadText(job.path()), placement));
    const Left placed =
        LeftBy(OnRanks(job, ranks, sets, "delay_max=8&delay_seed=1"));
    EXPECT_TRUE(placed.state == one.state);
    EXPECT_EQ(placed.metrics, one.metrics);
    const absl::Status refused = Train(OnRanks(job, 1, sets)).status();
    EXPECT_TRUE(IsError(refused, ErrorCode::kDeviceNotFound)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("'w"));
  }
}

const Sets kSharded = {"logical_shards=8", "steps=5", "epochs=0",
                       "model.builtin.args.dropout=0.25"};

// What four ranks leave by every algorithm of the order class, with `more` set
// and messages delayed at random, is what `one` rank left.
void ExpectSameByAllAlgorithms(const TestJob& job, const std::string& more,
                               const Left& one) {
  int seed = 0;
  for (const char* algorithm :
       {"direct", "three-stage", "halving-doubling", "doubling", "tree"}) {
    SCOPED_TRACE(algorithm);
    Sets with = kSharded;
    with.push_back(absl::StrCat("collectives.algorithm=", algorithm));
    with.push_back(more);
    ExpectSame(LeftBy(OnRanks(job, 4, with,
                              absl::StrCat("delay_max=8&delay_seed=", ++seed))),
               one);
  }
}

TEST(RanksTest, AnyAlgorithmAndTimingComputesTheSame) {
  TestJob job("algorithms", Mlp());
  const Left one = LeftBy(OnRanks(job, 1, kSharded));
  ExpectSameByAllAlgorithms(job, "collectives.chunk_elements=64", one);
  // A transport that takes one message at a time, and copies few.
  ExpectSame(LeftBy(OnRanks(job, 4, kSharded, "eager_max=512&eager_credits=1")),
             one);
}

// Every value between ranks is read where it lies.
TEST(RanksTest, ReadingInPlaceChangesNothing) {
  TestJob job("mapped", Mlp());
  const Left one = LeftBy(OnRanks(job, 1, kSharded));
  ExpectSameByAllAlgorithms(job, "collectives.mapped_bytes=1", one);
}

// Ranks that sum in place take the norm of their own parts, those that send of
// all: it clips to the same bits.
TEST(RanksTest, NormsOfOwnPartsAreThoseOfAll) {
  TestJob job("norms", Mlp());
  const Sets sets = {
      "model.builtin.args.hidden=2048,300", "optimizer.clip_norm=0.01",
      "collectives.algorithm=three-stage", "steps=2", "epochs=0"};
  for (int ranks : {2, 4}) {
    SCOPED_TRACE(ranks);
    const auto with = [&](const char* more) {
      Sets all = sets;
      all.push_back(more);
      return LeftBy(OnRanks(job, ranks, all));
    };
    const Left sent = with("collectives.mapped_bytes=0");
    ExpectSame(with("collectives.mapped_bytes=1"), sent);
    // The norm matters.
    EXPECT_FALSE(with("optimizer.clip_norm=0").state == sent.state);
  }
}

// Sums go over micro-batches first wherever the parts of state lie.
TEST(RanksTest, PartsOfStateLeaveTheBitsOfOneRank) {
  TestJob job("parts", Mlp());
  Sets sets = kSharded;
  sets.push_back("model.builtin.args.hidden=64,32");
  const Left one = LeftBy(OnRanks(job, 1, sets));
  for (const char* zero : {"zero=1", "zero=2", "zero=3"}) {
    for (int ranks : {2, 4, 8}) {
      SCOPED_TRACE(absl::StrCat(zero, " on ", ranks));
      Sets with = sets;
      with.push_back(zero);
      EXPECT_TRUE(LeftBy(OnRanks(job, ranks, with)).state == one.state);
    }
  }
}

// Without logical shards the ring is as good as any; twice it gives the same.
TEST(RanksTest, TheRingRepeatsItself) {
  TestJob job("ring", Mlp());
  const Sets sets = {"collectives.algorithm=ring", "steps=4", "epochs=0"};
  ExpectSame(LeftBy(OnRanks(job, 4, sets)),
             LeftBy(OnRanks(job, 4, sets, "delay_max=6")));
}

TEST(RanksTest, StoppedAndResumedOnOtherNumbersOfRanks) {
  TestJob job("resumed", Mlp());
  const Sets sets = {"logical_shards=4", "model.builtin.args.dropout=0.25"};
  const Left whole = LeftBy(OnRanks(job, 1, sets));
  StoppingClock clock;
  TrainOptions options = OnRanks(job, 2, sets);
  options.progress = true;
  options.clock = &clock;
  options.on_session = [&clock](runtime::Session* session) {
    clock.SetSession(session);
  };
  clock.StopAt(0);
  absl::StatusOr<TrainResult> part = Train(options);
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_TRUE(part->stopped);
  EXPECT_EQ(part->steps, 0u);
  const std::string run = part->run_directory;
  options.job_path = "";
  options.sets = {};
  options.resume = run;
  for (uint32_t ranks : {2, 4, 1}) {
    SCOPED_TRACE(ranks);
    const uint64_t before = part->steps;
    options.virtual_ranks = ranks;
    clock.StopAt(ranks == 1 ? -1 : 3);
    part = Train(options);
    ASSERT_TRUE(part.ok()) << part.status();
    EXPECT_EQ(part->stopped, ranks != 1);
    EXPECT_GT(part->steps, before);
    EXPECT_EQ(part->run_directory, run);
  }
  EXPECT_EQ(part->steps, whole.steps);
  EXPECT_TRUE(StateOf(run) == whole.state);
  EXPECT_EQ(MetricsOf(run), whole.metrics);
}

// Without logical shards the number of ranks makes the micro-batches.
TEST(RanksTest, OtherMicroBatchesAreNotGoneOnWith) {
  TestJob job("micro", Mlp());
  absl::StatusOr<TrainResult> run =
      Train(OnRanks(job, 2, {"steps=2", "epochs=0"}));
  ASSERT_TRUE(run.ok()) << run.status();
  TrainOptions options = OnRanks(job, 4, {"steps=4", "epochs=0"});
  options.job_path = "";
  options.resume = run->run_directory;
  absl::Status status = Train(options).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kCheckpointForeign)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("micro_batches 2, the job has 4 on 4 ranks; "));
  // One rank that does both is as good as two.
  options.virtual_ranks = 1;
  options.sets.push_back("micro_batches=2");
  absl::StatusOr<TrainResult> resumed = Train(options);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->steps, 4u);
}

// The newest; nothing where there is none, which is not there to be read.
std::string LastRun(const TestJob& job) {
  const std::vector<std::string> runs = job.Runs();
  EXPECT_FALSE(runs.empty());
  return runs.empty() ? "" : runs.back();
}

size_t NumThreads() { return ListNames("/proc/self/task").size(); }

// Every rank says the same, in a file of its own.
void ExpectErrorFiles(const std::string& run, int ranks, ErrorCode code) {
  for (int r = 0; r < ranks; ++r) {
    const std::string json =
        ReadText(absl::StrCat(run, "/errors/rank_0000", r, ".json"));
    EXPECT_THAT(json, HasSubstr(ErrorName(code)));
    EXPECT_THAT(json, HasSubstr(absl::StrCat("\"rank\": ", r)));
  }
}

TEST(RanksTest, ALostRankEndsTheJob) {
  TestJob job("lost", Mlp());
  ASSERT_TRUE(Train(OnRanks(job, 4, {"steps=2", "epochs=0"})).ok());
  const size_t threads = NumThreads();
  absl::Status status =
      Train(OnRanks(job, 4, {}, "lose_peer_after=200")).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kPeerLost)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("is lost"));
  EXPECT_EQ(ExitCodeOf(status), 138);
  EXPECT_EQ(NumThreads(), threads);
  ExpectErrorFiles(LastRun(job), 4, ErrorCode::kPeerLost);
  // The run can be tried again, by whoever is left.
  TrainOptions again = OnRanks(job, 2, {});
  again.job_path = "";
  again.resume = LastRun(job);
  absl::StatusOr<TrainResult> result = Train(again);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(ListNames(again.resume + "/errors"), ::testing::IsEmpty());
}

TEST(RanksTest, WhatIsNotFiniteEndsAllRanks) {
  TestJob job("nan", Mlp());
  ASSERT_TRUE(Train(OnRanks(job, 2, {"steps=2", "epochs=0"})).ok());
  const size_t threads = NumThreads();
  absl::Status status =
      Train(OnRanks(job, 2, {"optimizer.schedule.constant.base=1e30"}))
          .status();
  EXPECT_TRUE(IsError(status, ErrorCode::kNotFinite)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("at step"));
  EXPECT_EQ(NumThreads(), threads);
  ExpectErrorFiles(LastRun(job), 2, ErrorCode::kNotFinite);
}

// Lets nobody write the history of a run, which rank 0 does alone.
class NoMetrics : public Os {
 public:
  explicit NoMetrics(Os* base) : base_(*base) {}
  absl::StatusOr<std::string> ReadFile(const std::string& path,
                                       uint64_t max_bytes) override {
    return base_.ReadFile(path, max_bytes);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) override {
    return base_.Create(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Append(
      const std::string& path) override {
    auto file = base_.Append(path);
    if (!file.ok() || !absl::StrContains(path, "metrics")) return file;
    return std::unique_ptr<WritableFile>(new Full(*std::move(file)));
  }
  absl::Status Truncate(const std::string& path, uint64_t bytes) override {
    return base_.Truncate(path, bytes);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return base_.Rename(from, to);
  }
  absl::Status MakeDirectories(const std::string& path) override {
    return base_.MakeDirectories(path);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    return base_.SyncDirectory(path);
  }
  absl::Status RemoveAll(const std::string& path) override {
    return base_.RemoveAll(path);
  }
  absl::Status RemoveEmptyDirectory(const std::string& path) override {
    return base_.RemoveEmptyDirectory(path);
  }
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) override {
    return base_.List(path);
  }
  bool Exists(const std::string& path) override { return base_.Exists(path); }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(
      const std::string& path) override {
    return base_.Lock(path);
  }

 private:
  // Full after some bytes.
  class Full : public WritableFile {
   public:
    explicit Full(std::unique_ptr<WritableFile> base)
        : base_(std::move(base)) {}
    absl::Status Append(absl::string_view bytes) override {
      if (bytes.size() > left_) {
        return absl::ResourceExhaustedError("no space left");
      }
      left_ -= bytes.size();
      return base_->Append(bytes);
    }
    absl::Status Sync() override { return base_->Sync(); }
    absl::Status Close() override { return base_->Close(); }

   private:
    std::unique_ptr<WritableFile> base_;
    size_t left_ = 700;
  };
  Os& base_;
};

TEST(RanksTest, OneRanksFailureIsEverybodysCause) {
  TestJob job("full", Mlp());
  TrainOptions options = OnRanks(job, 4, {});
  NoMetrics full(options.os);
  options.os = &full;
  absl::Status status = Train(options).status();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("no space left"));
  const std::string run = LastRun(job);
  const ErrorCode code = ErrorCodeOf(status);
  EXPECT_NE(code, ErrorCode::kPeerLost);
  ExpectErrorFiles(run, 4, code);
  EXPECT_THAT(ReadText(run + "/errors/rank_00003.json"),
              HasSubstr("no space left"));
}

TEST(RanksTest, WhatCannotBeIsRefusedAndLeavesNothing) {
  TestJob job("refused", Mlp());
  struct Case {
    uint32_t ranks;
    Sets sets;
    const char* transport;
    ErrorCode code;
    std::vector<std::string> parts;
  };
  for (const Case& c : std::vector<Case>{
           {3,
            {"logical_shards=4"},
            "",
            ErrorCode::kBadJob,
            {"logical_shards is 4", "3 ranks"}},
           {4,
            {"collectives.algorithm=ring", "logical_shards=4"},
            "",
            ErrorCode::kBadJob,
            {"'ring'", "logical_shards (4)"}},
           {3, {}, "", ErrorCode::kBadJob, {"batch_size is 16"}},
           {2, {}, "delay_max", ErrorCode::kBadValue, {"delay_max"}},
           {2, {}, "delay=1", ErrorCode::kBadValue, {"delay"}},
           {2, {}, "delay_max=x", ErrorCode::kBadValue, {"delay_max"}}}) {
    SCOPED_TRACE(c.parts[0]);
    absl::Status status =
        Train(OnRanks(job, c.ranks, c.sets, c.transport)).status();
    EXPECT_TRUE(IsError(status, c.code)) << status;
    for (const std::string& part : c.parts) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    }
    EXPECT_THAT(job.Runs(), ::testing::IsEmpty());
  }
}

TEST(RanksTest, TheCommandSaysWhatIsWrong) {
  TestJob job("command", Mlp());
  WriteText(job.File("mesh.txtpb"),
            absl::StrCat(ReadText(job.path()),
                         "mesh { axis { name: \"data\" size: 4 } }"));
  struct Case {
    std::vector<std::string> args;
    const char* text;
  };
  for (const Case& c : std::vector<Case>{
           {{job.path(), "--virtual-ranks", "65"}, "1 to 64"},
           {{job.path(), "--virtual-ranks", "0"}, "1 to 64"},
           {{job.path(), "--virtual-ranks", "2", "--ranks", "2"},
            "one or the other"},
           {{job.path(), "--transport-options", "delay_max=1"}, "one rank"},
           {{job.File("mesh.txtpb"), "--virtual-ranks", "2"}, "data=4"},
           {{job.File("mesh.txtpb")}, "data=4"}}) {
    SCOPED_TRACE(c.text);
    std::vector<std::string> args = {"train"};
    args.insert(args.end(), c.args.begin(), c.args.end());
    Ended ended = job.Weft(args).Wait();
    EXPECT_EQ(ended.exit_code, 2) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(c.text));
  }
  EXPECT_THAT(job.Runs(), ::testing::IsEmpty());
}

// Gradients of ranks that share micro-batches, activations of those that share
// nodes, in host memory and in that of a device: nearly the same, not the same.
TEST(RanksTest, Bf16OnTheWireIsNearlyTheSame) {
  const struct {
    const char* name;
    std::string placement;
    Sets sets;
  } kCases[] = {
      {"wire_data", "", {}},
      {"wire_zero", "", {"zero=2"}},
      {"wire_sim", "", {"devices=sim:0"}},
      {"wire_nodes", R"(placement { scope: "fc2.*" device: "w1" })", {}},
      {"wire_nodes_sim",
       R"(placement { scope: "fc2.*" device: "w1" })",
       {"devices=sim:0"}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    TestJob job(c.name, Mlp());
    WriteText(job.path(), ReadText(job.path()) + c.placement);
    Sets sets = c.sets;
    for (const char* set : {"steps=10", "epochs=0", "eval.every_epochs=0",
                            "model.builtin.args.hidden=64,48"}) {
      sets.push_back(set);
    }
    absl::StatusOr<TrainResult> exact = Train(OnRanks(job, 2, sets));
    ASSERT_TRUE(exact.ok()) << exact.status();
    sets.push_back("precision.wire=BF16");
    absl::StatusOr<TrainResult> narrow = Train(OnRanks(job, 2, sets));
    ASSERT_TRUE(narrow.ok()) << narrow.status();
    EXPECT_NEAR(narrow->final_loss, exact->final_loss, 0.02);
    EXPECT_NE(narrow->final_loss, exact->final_loss);
  }
}

// Exits with the code of the loss, and not with a hang.
TEST(RanksTest, TheCommandEndsWhenARankIsLost) {
  TestJob job("command_lost", Mlp());
  Ended ended =
      job.Weft({"train", job.path(), "--virtual-ranks", "2",
                "--transport-options", "lose_peer_after=100", "--quiet"})
          .Wait();
  EXPECT_EQ(ended.exit_code, 138) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr(ErrorName(ErrorCode::kPeerLost)));
}

}  // namespace
}  // namespace weft::e2e
