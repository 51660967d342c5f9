#include "tools/weft/ranks.h"

#include <string>
#include <vector>

#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/weft/job.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

job::Job Job(const std::vector<std::string>& sets, const std::string& more) {
  job::Job job = ParseJob("test", R"(
      name: "test" batch_size: 32 steps: 3
      model { builtin { name: "mlp" } }
      data { train { idx { images: "a" labels: "b" } } })" +
                                      more)
                     .value();
  for (const std::string& set : sets) {
    EXPECT_TRUE(SetField(set, "--set", &job).ok())
        << SetField(set, "--set", &job);
  }
  absl::Status resolved = ResolveJob("test", &job);
  EXPECT_TRUE(resolved.ok()) << resolved;
  return job;
}

void ExpectRefused(const job::Job& job, uint32_t ranks,
                   const std::vector<std::string>& parts) {
  absl::Status status = ShareOfRank(job, 0, ranks).status();
  ASSERT_TRUE(IsError(status, ErrorCode::kBadJob)) << status;
  for (const std::string& part : parts) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

TEST(RanksTest, ShardsAreDealtOutInOrder) {
  const job::Job job = Job({"logical_shards=8"}, "");
  for (uint32_t ranks : {1, 2, 4, 8}) {
    int64_t next = 0;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      RankShare share = ShareOfRank(job, rank, ranks).value();
      EXPECT_EQ(share.rank, rank);
      EXPECT_EQ(share.ranks, ranks);
      EXPECT_EQ(share.all_micro_batches, 8);
      EXPECT_EQ(share.micro_batches, 8 / ranks);
      EXPECT_EQ(share.first_micro_batch(), next);
      next += share.micro_batches;
    }
    EXPECT_EQ(next, 8);
  }
}

// Without shards every rank has the micro-batches of the job.
TEST(RanksTest, MicroBatchesAreOfEachRank) {
  RankShare share = ShareOfRank(Job({"micro_batches=2"}, ""), 3, 4).value();
  EXPECT_EQ(share.micro_batches, 2);
  EXPECT_EQ(share.all_micro_batches, 8);
  EXPECT_EQ(share.first_micro_batch(), 6);
  // Any number of ranks that divides the batch.
  const job::Job odd = Job({"batch_size=33"}, "");
  EXPECT_EQ(ShareOfRank(odd, 2, 3).value().all_micro_batches, 3);
  ExpectRefused(odd, 2, {"batch_size is 33", "2 micro-batches"});
}

TEST(RanksTest, RanksThatDoNotFitTheShards) {
  const job::Job job = Job({"logical_shards=4"}, "");
  ExpectRefused(job, 3, {"logical_shards is 4", "on 3 ranks", "power of two"});
  ExpectRefused(job, 8, {"logical_shards is 4", "on 8 ranks"});
  ExpectRefused(job, 5, {"logical_shards is 4", "on 5 ranks"});
}

TEST(RanksTest, RanksThatDoNotFitTheMesh) {
  const job::Job job = Job({}, R"(mesh { axis { name: "data" size: 4 } })");
  EXPECT_EQ(MeshSize(job), 4u);
  EXPECT_TRUE(ShareOfRank(job, 0, 4).ok());
  ExpectRefused(job, 2, {"data=4", "4 ranks", "runs on 2", "--nproc-per-node"});
  ExpectRefused(job, 1, {"data=4", "runs on 1"});
  EXPECT_EQ(MeshSize(Job({}, "")), 1u);
  EXPECT_TRUE(ShareOfRank(Job({}, ""), 0, 2).ok());  // no mesh: as many as run
}

TEST(RanksTest, APipelineSharesTheModel) {
  const job::Job job = Job({"micro_batches=8", "pipeline.stages=4"}, "");
  EXPECT_EQ(job.pipeline().schedule(), "1f1b");
  RankShare share = ShareOfRank(job, 3, 4).value();
  EXPECT_TRUE(share.placed());
  EXPECT_EQ(share.micro_batches, 8);
  EXPECT_EQ(share.all_micro_batches, 8);
  EXPECT_EQ(share.first_micro_batch(), 0);
  EXPECT_EQ(share.pipeline.stages, 4);
  EXPECT_EQ(share.pipeline.schedule, PipelineSchedule::k1F1B);
  // One rank does as it does without.
  share = ShareOfRank(job, 0, 1).value();
  EXPECT_FALSE(share.placed());
  EXPECT_EQ(share.pipeline.stages, 0);
  EXPECT_EQ(share.micro_batches, 8);
  ExpectRefused(job, 3, {"pipeline.stages is 4", "3 ranks"});
  ExpectRefused(job, 2, {"'1f1b'", "4 on 2 ranks", "'interleaved'"});
}

// By hand every rank is a stage, and the order is by micro-batch unless a
// schedule is named.
TEST(RanksTest, APipelineOfPlacedNodes) {
  const std::string placement = R"(placement { scope: "fc2.*" device: "w1" })";
  const job::Job plain = Job({"micro_batches=4"}, placement);
  EXPECT_EQ(ShareOfRank(plain, 0, 2).value().pipeline.stages, 0);
  const job::Job gpipe =
      Job({"micro_batches=4", "pipeline.schedule=gpipe"}, placement);
  EXPECT_EQ(ShareOfRank(gpipe, 0, 2).value().pipeline.stages, 2);
  ExpectRefused(Job({"pipeline.stages=2", "micro_batches=4"}, placement), 2,
                {"'fc2.*' to a rank", "pipeline.stages (2)"});
  ExpectRefused(Job({"pipeline.schedule=gpipe"}, ""), 2,
                {"'gpipe'", "pipeline.stages is 0"});
}

TEST(RanksTest, APipelineOnAMesh) {
  const std::string mesh = R"(mesh { axis { name: "data" size: 2 }
                                     axis { name: "pipe" size: 2 } })";
  const job::Job job = Job({"micro_batches=4", "pipeline.stages=2"}, mesh);
  const RankShare share = ShareOfRank(job, 3, 4).value();
  EXPECT_EQ(share.pipeline.stages, 2);
  EXPECT_EQ(share.pipeline.ranks, 2);
  EXPECT_EQ(share.pipeline.micro_batches, 4);
  EXPECT_EQ(share.all_micro_batches, 8);
  ExpectRefused(Job({"micro_batches=4", "pipeline.stages=2"},
                    R"(mesh { axis { name: "data" size: 2 } })"),
                2, {"pipeline.stages is 2", "data=2", "no axis 'pipe'"});
}

absl::StatusOr<CollectiveAlgorithm> Algorithm(const std::string& name,
                                              uint32_t logical_shards = 0) {
  job::Job job;
  job.mutable_collectives()->set_algorithm(name);
  job.set_logical_shards(logical_shards);
  return AlgorithmOfJob(job);
}

TEST(RanksTest, AlgorithmsByName) {
  for (int a = 0; a < kNumCollectiveAlgorithms; ++a) {
    const auto algorithm = static_cast<CollectiveAlgorithm>(a);
    EXPECT_EQ(Algorithm(std::string(Name(algorithm))).value(), algorithm);
  }
  absl::Status status = Algorithm("telepathy").status();
  EXPECT_TRUE(IsError(status, ErrorCode::kBadJob)) << status;
  for (const char* part : {"'telepathy'", "direct", "halving-doubling"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

// Whose sums depend on how many ranks there are.
TEST(RanksTest, LogicalShardsRefuseTheRing) {
  absl::Status status = Algorithm("ring", 4).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kBadJob)) << status;
  for (const char* part : {"'ring'", "RING", "logical_shards (4)", "TREE"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
  for (const char* name : {"auto", "direct", "three-stage", "tree",
                           "halving-doubling", "doubling", "hierarchical"}) {
    EXPECT_TRUE(Algorithm(name, 4).ok()) << name;
  }
}

TEST(UnlikeRanksTest, RanksThatShareMicroBatchesShareUpdates) {
  const job::Job job = Job({"devices=w0/cpu:0,w1/sim:0"}, "");
  for (uint32_t rank : {0, 1}) {
    RankShare share = ShareOfRank(job, rank, 2).value();
    EXPECT_EQ(share.zero, 1u);
    EXPECT_EQ(share.unlike_data, "ranks 0 (cpu) and 1 (sim)");
  }
  EXPECT_EQ(ShareOfRank(Job({"devices=w0/cpu,w1/sim", "zero=3"}, ""), 0, 2)
                .value()
                .zero,
            3u);
  RankShare alike =
      ShareOfRank(Job({"devices=w0/sim:0,w1/sim:1"}, ""), 0, 2).value();
  EXPECT_EQ(alike.zero, 0u);
  EXPECT_EQ(alike.unlike, "");
}

TEST(UnlikeRanksTest, StagesMayBeUnlike) {
  const job::Job job = Job({"devices=w0/cpu:0,w1/sim:0"},
                           "mesh { axis { name: 'pipe' size: 2 } }");
  RankShare share = ShareOfRank(job, 0, 2).value();
  EXPECT_EQ(share.unlike, "ranks 0 (cpu) and 1 (sim)");
  EXPECT_EQ(share.unlike_data, "");
  EXPECT_EQ(share.zero, 0u);
}

TEST(UnlikeRanksTest, WhatDevicesSayOfThemselvesCounts) {
  const job::Job job = Job({}, "");
  RankShare share = ShareOfRank(job, 0, 2).value();
  ASSERT_TRUE(TakeKinds(job, {"cpu, avx2", "cpu, avx512"}, &share).ok());
  EXPECT_EQ(share.zero, 1u);
  EXPECT_EQ(share.unlike_data, "ranks 0 (cpu, avx2) and 1 (cpu, avx512)");
}

TEST(UnlikeRanksTest, WhatTheyCannotKeepIsRefused) {
  ExpectRefused(Job({"devices=w0/cpu:0,w1/sim:0", "logical_shards=8"}, ""), 2,
                {"logical_shards is 8", "0 (cpu)", "1 (sim)"});
  ExpectRefused(Job({"devices=w0/cpu:0,w1/sim:0"},
                    "mesh { axis { name: 'model' size: 2 } }"),
                2, {"'model'", "0 (cpu)", "1 (sim)"});
  ExpectRefused(Job({"devices=w0/cpu:0,w5/sim:0"}, ""), 2,
                {"'w5/sim:0'", "w0 to w1"});
  ExpectRefused(Job({"devices=w1/sim:0"}, ""), 2, {"rank w0 has none"});
}

// One rank alone, as for an evaluation, has the devices of the first.
TEST(UnlikeRanksTest, OffRanksTheFirstsDevicesAreLeft) {
  job::Job job = Job({"devices=w1/cpu:0,w0/sim:0"}, "");
  ASSERT_TRUE(TakeOffRanks(&job).ok());
  EXPECT_EQ(job.devices(), "sim:0");
}

}  // namespace
}  // namespace weft
