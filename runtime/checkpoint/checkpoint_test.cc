#include "runtime/checkpoint/checkpoint.h"

#include <cstdlib>

#include "absl/strings/str_replace.h"
#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/testing/faulty_os.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    run_ = JoinPath(
        std::getenv("TEST_TMPDIR"),
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    RealOs().RemoveAll(run_).IgnoreError();
  }

  std::vector<StateTensor> Tensors() {
    return {{{"fc/weight", {DType::kF32, {2, 2}}, weight_}, false},
            {{"fc/weight/velocity", {DType::kF32, {2, 2}}, velocity_}, true}};
  }

  TrainState StateAt(uint64_t step) {
    TrainState state;
    state.set_step(step);
    state.set_seed(7);
    state.set_batch_size(8);
    state.set_world_size(1);
    return state;
  }

  absl::StatusOr<std::string> SaveAt(uint64_t step, uint64_t keep = 3) {
    return Save(RealOs(), run_, StateAt(step), Tensors(), keep);
  }

  std::string run_;
  std::string weight_ = std::string(16, 'w');
  std::string velocity_ = std::string(16, 'v');
};

TEST_F(CheckpointTest, RoundTripFromAnyPath) {
  std::string directory = SaveAt(12).value();
  for (const std::string& path : {directory, JoinPath(run_, "ckpt"), run_}) {
    absl::StatusOr<Loaded> loaded = Load(RealOs(), path);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->state.step(), 12u);
    EXPECT_EQ(loaded->state.seed(), 7u);
    ASSERT_EQ(loaded->tensors.size(), 2u);
    EXPECT_EQ(loaded->tensors[0].bytes, weight_);
    EXPECT_EQ(loaded->tensors[1].bytes, velocity_);
    EXPECT_TRUE(CheckFits(*loaded, Tensors()).ok());
  }
}

TEST_F(CheckpointTest, KeepsTheNewest) {
  for (uint64_t step : {10, 20, 30, 40}) ASSERT_TRUE(SaveAt(step, 2).ok());
  EXPECT_THAT(RealOs().List(JoinPath(run_, "ckpt")).value(),
              ElementsAre("latest", "step_00000030", "step_00000040"));
  EXPECT_EQ(RealOs().ReadFile(JoinPath(run_, "ckpt/latest"), 99).value(),
            "step_00000040\n");
  EXPECT_EQ(Load(RealOs(), run_)->state.step(), 40u);
}

// A run that went back to step 10 and on from there: its new checkpoints count,
// not the ones of the future that it left.
TEST_F(CheckpointTest, ARunThatWentBackKeepsWhatItSaves) {
  for (uint64_t step : {10, 20, 30}) ASSERT_TRUE(SaveAt(step).ok());
  std::string saved = SaveAt(12, 2).value();
  EXPECT_TRUE(RealOs().Exists(saved));
  EXPECT_EQ(Load(RealOs(), run_)->state.step(), 12u);
  ASSERT_TRUE(SaveAt(14, 2).ok());
  EXPECT_EQ(Load(RealOs(), run_)->state.step(), 14u);
  EXPECT_THAT(RealOs().List(JoinPath(run_, "ckpt")).value(),
              ElementsAre("latest", "step_00000012", "step_00000014"));
  // The order of saving is known without `latest` too.
  ASSERT_TRUE(SaveAt(13).ok());
  ASSERT_TRUE(RealOs().RemoveAll(JoinPath(run_, "ckpt/latest")).ok());
  EXPECT_EQ(Load(RealOs(), run_)->state.step(), 13u);
}

// What cannot be read, nobody knows to be old.
TEST_F(CheckpointTest, ASaveDeletesNothingWhoseOrderItCannotRead) {
  for (uint64_t step : {10, 20, 30}) ASSERT_TRUE(SaveAt(step).ok());
  FaultyOs os(RealOs());
  os.FailReadsOf("train_state.txtpb", absl::UnavailableError("bad sector"));
  // Its step is the smallest: by steps it would be the first to go.
  absl::StatusOr<std::string> saved = Save(os, run_, StateAt(5), Tensors(), 2);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_THAT(RealOs().List(JoinPath(run_, "ckpt")).value(),
              ElementsAre("latest", "step_00000005", "step_00000010",
                          "step_00000020", "step_00000030"));
  EXPECT_EQ(Load(RealOs(), run_)->state.step(), 5u);
  // Nor is anything where only `latest` cannot be read.
  os.FailReadsOf("ckpt/latest", absl::UnavailableError("bad sector"));
  ASSERT_TRUE(Save(os, run_, StateAt(6), Tensors(), 2).ok());
  EXPECT_EQ(RealOs().List(JoinPath(run_, "ckpt"))->size(), 6u);
  // Readable again, all are known to be older than the one saved meanwhile.
  ASSERT_TRUE(SaveAt(4, 3).ok());
  EXPECT_THAT(
      RealOs().List(JoinPath(run_, "ckpt")).value(),
      ElementsAre("latest", "step_00000004", "step_00000005", "step_00000006"));
}

// A damaged one stays, and the others are deleted as if it were not there.
TEST_F(CheckpointTest, DeletionGoesOnAroundWhatIsDamaged) {
  for (uint64_t step : {10, 20, 30}) ASSERT_TRUE(SaveAt(step).ok());
  const std::string root = JoinPath(run_, "ckpt");
  ASSERT_TRUE(WriteFileAtomically(RealOs(),
                                  JoinPath(root,
                                           "step_00000020/"
                                           "train_state.txtpb"),
                                  "damaged {")
                  .ok());
  ASSERT_TRUE(SaveAt(40, 2).ok());
  EXPECT_THAT(
      RealOs().List(root).value(),
      ElementsAre("latest", "step_00000020", "step_00000030", "step_00000040"));
  // With a step below all of them, too.
  ASSERT_TRUE(SaveAt(5, 2).ok());
  EXPECT_THAT(
      RealOs().List(root).value(),
      ElementsAre("latest", "step_00000005", "step_00000020", "step_00000040"));
  EXPECT_EQ(Load(RealOs(), run_)->state.step(), 5u);
}

TEST_F(CheckpointTest, ADamagedNumberNeverMakesTheNewestOld) {
  std::vector<std::string> paths;
  for (uint64_t step : {10, 20, 30}) {
    paths.push_back(JoinPath(SaveAt(step).value(), "train_state.txtpb"));
  }
  for (const std::string& path : paths) {
    TrainState state = StateAt(10);
    state.set_save_number(~uint64_t{0});
    std::string text;
    google::protobuf::TextFormat::PrintToString(state, &text);
    ASSERT_TRUE(WriteFileAtomically(RealOs(), path, text).ok());
  }
  std::string saved = SaveAt(5, 2).value();
  EXPECT_TRUE(RealOs().Exists(saved));
  EXPECT_EQ(Load(RealOs(), run_)->state.step(), 5u);
}

TEST_F(CheckpointTest, KeepsAsManyAsAreWanted) {
  for (uint64_t step : {1, 2, 3, 4, 5}) {
    ASSERT_TRUE(SaveAt(step, ~uint64_t{0} - step).ok());
  }
  ASSERT_TRUE(SaveAt(6, uint64_t{1} << 31).ok());
  EXPECT_EQ(List(RealOs(), run_)->size(), 6u);
}

// A run that goes on while somebody looks: what was listed is deleted.
class RunningOs : public FaultyOs {
 public:
  explicit RunningOs(std::string victim)
      : FaultyOs(RealOs()), victim_(std::move(victim)) {}
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) override {
    absl::StatusOr<std::vector<std::string>> names = FaultyOs::List(path);
    // The first list only finds the directory.
    if (++lists_ == 2) RealOs().RemoveAll(victim_).IgnoreError();
    return names;
  }

 private:
  std::string victim_;
  int lists_ = 0;
};

TEST_F(CheckpointTest, WhatARunDeletesMeanwhileIsNotDamaged) {
  std::string victim = SaveAt(10).value();
  ASSERT_TRUE(SaveAt(20).ok());
  RunningOs os(victim);
  std::vector<Info> infos = List(os, run_).value();
  ASSERT_EQ(infos.size(), 1u);
  EXPECT_EQ(infos[0].step, 20u);
  EXPECT_TRUE(infos[0].verdict.ok());
  // Nor does it keep anybody from the newest that is there.
  ASSERT_TRUE(RealOs().RemoveAll(JoinPath(run_, "ckpt/latest")).ok());
  RunningOs later(SaveAt(30).value());
  ASSERT_TRUE(RealOs().RemoveAll(JoinPath(run_, "ckpt/latest")).ok());
  absl::StatusOr<Loaded> loaded = Load(later, run_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->state.step(), 20u);
}

TEST_F(CheckpointTest, WhatMayNotBeReadIsNotDamaged) {
  ASSERT_TRUE(SaveAt(10).ok());
  FaultyOs os(RealOs());
  os.FailReadsOf("model.safetensors",
                 absl::PermissionDeniedError("Permission denied"));
  EXPECT_TRUE(IsError(Load(os, run_).status(), ErrorCode::kDataMissing));
}

TEST_F(CheckpointTest, RecoversFromADeathInASave) {
  ASSERT_TRUE(SaveAt(1).ok());
  std::string replaced = SaveAt(2).value();
  const std::string root = JoinPath(run_, "ckpt");
  // A death while step 2 was written once more, and one in a deletion.
  ASSERT_TRUE(
      RealOs().Rename(replaced, JoinPath(root, ".old-step_00000002")).ok());
  ASSERT_TRUE(RealOs().MakeDirectories(JoinPath(root, ".tmp-2")).ok());
  ASSERT_TRUE(
      RealOs().MakeDirectories(JoinPath(root, ".old-step_00000000")).ok());
  Recover(RealOs(), run_);
  EXPECT_THAT(RealOs().List(root).value(),
              ElementsAre("latest", "step_00000001", "step_00000002"));
  EXPECT_EQ(Load(RealOs(), run_)->state.step(), 2u);
}

TEST_F(CheckpointTest, ASaveSweepsUpAfterDeaths) {
  ASSERT_TRUE(SaveAt(1).ok());
  for (const char* name : {"ckpt/.tmp-2", "ckpt/.old-step_00000009"}) {
    ASSERT_TRUE(RealOs().MakeDirectories(JoinPath(run_, name)).ok());
  }
  ASSERT_TRUE(SaveAt(3).ok());
  EXPECT_THAT(RealOs().List(JoinPath(run_, "ckpt")).value(),
              ElementsAre("latest", "step_00000001", "step_00000003"));
}

TEST_F(CheckpointTest, AFailedSaveLeavesTheOldOne) {
  FaultyOs os(RealOs());
  ASSERT_TRUE(Save(os, run_, StateAt(1), Tensors(), 3).ok());
  int64_t calls = os.calls();
  ASSERT_GT(calls, 20);
  for (int64_t n = 0; n < calls; ++n) {
    os.FailAt(n, absl::ResourceExhaustedError("No space left on device"));
    absl::StatusOr<std::string> saved =
        Save(os, run_, StateAt(2), Tensors(), 3);
    ASSERT_FALSE(saved.ok()) << n;
    EXPECT_TRUE(IsError(saved.status(), ErrorCode::kWriteFailed));
    EXPECT_THAT(std::string(saved.status().message()), HasSubstr("No space"));
    absl::StatusOr<Loaded> loaded = Load(RealOs(), run_);
    ASSERT_TRUE(loaded.ok()) << n << loaded.status();
    EXPECT_GE(loaded->state.step(), 1u);
    std::vector<std::string> left =
        RealOs().List(JoinPath(run_, "ckpt")).value();
    for (const std::string& name : left) {
      EXPECT_NE(name[0], '.') << name;
    }
    RealOs().RemoveAll(JoinPath(run_, "ckpt/step_00000002")).IgnoreError();
  }
}

TEST_F(CheckpointTest, WritingAStepAgainReplacesIt) {
  ASSERT_TRUE(SaveAt(5).ok());
  weight_ = std::string(16, 'x');
  ASSERT_TRUE(SaveAt(5).ok());
  EXPECT_EQ(Load(RealOs(), run_)->tensors[0].bytes, weight_);
  EXPECT_THAT(RealOs().List(JoinPath(run_, "ckpt")).value(),
              ElementsAre("latest", "step_00000005"));
}

TEST_F(CheckpointTest, DamageIsNoticedInEveryFile) {
  std::string directory = SaveAt(3).value();
  std::vector<std::string> names = RealOs().List(directory).value();
  for (const std::string& name : names) {
    std::string path = JoinPath(directory, name);
    std::string bytes = RealOs().ReadFile(path, 1 << 20).value();
    std::string broken = bytes;
    broken[broken.size() / 2] ^= 1;
    for (const std::string& bad : {broken, bytes.substr(0, bytes.size() / 2)}) {
      ASSERT_TRUE(WriteFileAtomically(RealOs(), path, bad).ok());
      absl::Status status = Load(RealOs(), run_).status();
      EXPECT_TRUE(IsError(status, ErrorCode::kCheckpointCorrupt))
          << name << status;
    }
    ASSERT_TRUE(RealOs().RemoveAll(path).ok());
    EXPECT_FALSE(Load(RealOs(), run_).ok()) << name;
    ASSERT_TRUE(WriteFileAtomically(RealOs(), path, bytes).ok());
    EXPECT_TRUE(Load(RealOs(), run_).ok());
  }
}

// Files whose checksums hold, and which say what cannot be.
TEST_F(CheckpointTest, WhatDisagreesIsNoticedThoughChecksumsHold) {
  std::string directory = SaveAt(3).value();
  struct Edit {
    const char* file;
    const char* from;  // null: the whole text
    const char* to;
    ErrorCode code;
    const char* says;
  };
  constexpr ErrorCode kCorrupt = ErrorCode::kCheckpointCorrupt;
  for (const Edit& e : std::vector<Edit>{
           {"train_state.txtpb", "step: 3", "step: 4", kCorrupt, "of step 4"},
           {"train_state.txtpb", nullptr, "", kCorrupt, "lacks its world_size"},
           {"index.txtpb", nullptr, "", kCorrupt, "lists 0 tensors"},
           {"index.txtpb", "model.safetensors", "optim.safetensors", kCorrupt,
            "at 'fc/weight'"}}) {
    SCOPED_TRACE(e.says);
    auto read = [&](const std::string& name) {
      return RealOs().ReadFile(JoinPath(directory, name), 1 << 20).value();
    };
    auto write = [&](const std::string& name, const std::string& text) {
      ASSERT_TRUE(
          WriteFileAtomically(RealOs(), JoinPath(directory, name), text).ok());
    };
    const std::string text = read(e.file), checksums = read("CHECKSUMS");
    const std::string edited =
        e.from == nullptr ? e.to : absl::StrReplaceAll(text, {{e.from, e.to}});
    ASSERT_NE(edited, text);
    write(e.file, edited);
    write("CHECKSUMS", absl::StrReplaceAll(
                           checksums, {{Sha256Hex(text), Sha256Hex(edited)}}));
    absl::Status status = Load(RealOs(), directory).status();
    EXPECT_TRUE(IsError(status, e.code)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(e.says));
    write(e.file, text);
    write("CHECKSUMS", checksums);
  }
  EXPECT_TRUE(Load(RealOs(), directory).ok());
}

// Rank 0 saves the whole state: it is anybody's.
TEST_F(CheckpointTest, HowManyRanksSavedItDoesNotMatter) {
  TrainState state = StateAt(3);
  state.set_world_size(4);
  ASSERT_TRUE(Save(RealOs(), run_, state, Tensors(), 3).ok());
  absl::StatusOr<Loaded> loaded = Load(RealOs(), run_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->state.world_size(), 4u);
}

TEST_F(CheckpointTest, ForeignCheckpointsAreNamed) {
  ASSERT_TRUE(SaveAt(1).ok());
  Loaded loaded = Load(RealOs(), run_).value();
  std::vector<StateTensor> other = Tensors();
  other[0].tensor.type.shape = Shape({4, 1});
  absl::Status status = CheckFits(loaded, other);
  EXPECT_TRUE(IsError(status, ErrorCode::kCheckpointForeign));
  EXPECT_THAT(std::string(status.message()), HasSubstr("f32[2,2]"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("f32[4,1]"));
  other = Tensors();
  other.pop_back();
  EXPECT_THAT(std::string(CheckFits(loaded, other).message()),
              HasSubstr("velocity"));
  EXPECT_NE(Fingerprint(other), Fingerprint(Tensors()));
}

TEST_F(CheckpointTest, NothingThere) {
  EXPECT_TRUE(
      IsError(Load(RealOs(), run_).status(), ErrorCode::kCheckpointMissing));
  EXPECT_TRUE(
      IsError(List(RealOs(), run_).status(), ErrorCode::kCheckpointMissing));
}

TEST_F(CheckpointTest, ListsWithVerdicts) {
  ASSERT_TRUE(SaveAt(1).ok());
  std::string second = SaveAt(2).value();
  ASSERT_TRUE(RealOs().RemoveAll(JoinPath(second, "model.safetensors")).ok());
  std::vector<Info> infos = List(RealOs(), run_).value();
  ASSERT_EQ(infos.size(), 2u);
  EXPECT_TRUE(infos[0].verdict.ok());
  EXPECT_EQ(infos[0].step, 1u);
  EXPECT_FALSE(infos[1].verdict.ok());
}

}  // namespace
}  // namespace weft::checkpoint
