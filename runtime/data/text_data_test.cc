#include "runtime/data/text_data.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "core/base/error.h"
#include "core/testing/faulty_os.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// An empty folder of its own.
std::string Folder(const std::string& name) {
  std::string path = JoinPath(std::getenv("TEST_TMPDIR"), name);
  EXPECT_TRUE(RealOs().RemoveAll(path).ok());
  EXPECT_TRUE(RealOs().MakeDirectories(path).ok());
  return path;
}

std::string Write(const std::string& folder, const std::string& name,
                  absl::string_view text) {
  std::string path = JoinPath(folder, name);
  EXPECT_TRUE(WriteFileAtomically(RealOs(), path, text).ok());
  return path;
}

struct Batch {
  std::vector<int32_t> tokens, labels;
  std::vector<float> weights;
};

Batch Fill(BatchReader* reader, int64_t elements, uint64_t step,
           uint32_t micro = 0) {
  Batch b{std::vector<int32_t>(elements, -1),
          std::vector<int32_t>(elements, -1), std::vector<float>(elements, -1)};
  const auto bytes = static_cast<uint64_t>(elements) * 4;
  std::vector<runtime::HostTensor> out(3);
  out[0] = {DType::kI32, {}, b.tokens.data(), bytes};
  out[1] = {DType::kI32, {}, b.labels.data(), bytes};
  out[2] = {DType::kF32, {}, b.weights.data(), bytes};
  absl::Status status = reader->Fill(step, micro, out);
  EXPECT_TRUE(status.ok()) << status;
  return b;
}

std::vector<uint16_t> Numbers(int n) {
  std::vector<uint16_t> tokens(n);
  std::iota(tokens.begin(), tokens.end(), 100);
  return tokens;
}

TEST(TokenSamplesTest, TheLabelIsTheNextToken) {
  TokenSamples data(Numbers(8), 3, 2, /*training=*/true);
  // Starts 0, 2, 4: the last label is the last token.
  EXPECT_EQ(data.size(), 3);
  BatchReader reader(&data, {.batch = 3, .shuffle = false});
  Batch b = Fill(&reader, 9, 0);
  EXPECT_THAT(b.tokens,
              ElementsAre(100, 101, 102, 102, 103, 104, 104, 105, 106));
  EXPECT_THAT(b.labels,
              ElementsAre(101, 102, 103, 103, 104, 105, 105, 106, 107));
  EXPECT_THAT(b.weights, testing::Each(1));
  // One token less: the last sample does not lie within the text.
  EXPECT_EQ(TokenSamples(Numbers(7), 3, 2, true).size(), 2);
  EXPECT_EQ(TokenSamples(Numbers(4), 3, 9, true).size(), 1);
}

TEST(TokenSamplesTest, EvaluationCountsEachLabelOnce) {
  for (int n = 2; n < 30; ++n) {
    for (int64_t batch : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << n << " tokens, batch " << batch);
      TokenSamples data(Numbers(n), 4, 4, /*training=*/false);
      BatchReader reader(&data, {.batch = batch, .training = false});
      std::vector<int32_t> labels;
      for (int64_t step = 0; step < reader.StepsOf(1); ++step) {
        Batch b = Fill(&reader, 4 * batch, step);
        for (int64_t i = 0; i < 4 * batch; ++i) {
          if (b.weights[i] == 0) {
            EXPECT_EQ(b.labels[i], 0);
            continue;
          }
          EXPECT_EQ(b.weights[i], 1);
          EXPECT_EQ(b.tokens[i] + 1, b.labels[i]);
          labels.push_back(b.labels[i]);
        }
      }
      std::vector<int32_t> all(n - 1);
      std::iota(all.begin(), all.end(), 101);
      EXPECT_EQ(labels, all);
    }
  }
}

TEST(TokenSamplesTest, OrderIsAFunctionOfPosition) {
  TokenSamples data(Numbers(50), 5, 1, /*training=*/true);
  const ReaderOptions options{.batch = 8, .micro_batches = 2, .seed = 4};
  BatchReader forward(&data, options), resumed(&data, options);
  std::vector<std::vector<int32_t>> seen;
  for (uint64_t step = 0; step < 12; ++step) {  // crosses ends of epochs
    seen.push_back(Fill(&forward, 4 * 5, step, 1).tokens);
  }
  for (uint64_t step = 12; step-- > 7;) {
    EXPECT_EQ(Fill(&resumed, 4 * 5, step, 1).tokens, seen[step]);
  }
  EXPECT_NE(seen[0], seen[1]);
}

TEST(TokenSamplesTest, AModelOfFewerClassesIsRefused) {
  TokenSamples data(Numbers(8), 3, 3, /*training=*/true);  // up to 107
  EXPECT_TRUE(data.CheckClasses(108, "x").ok());
  absl::Status status = data.CheckClasses(106, "file");
  EXPECT_TRUE(IsError(status, ErrorCode::kLabelRange)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("'file': token 6 is 106, the model has 106 classes"));
}

TEST(TextDataTest, SplitsTheEndOff) {
  TextOptions options;
  std::string text;
  for (int i = 0; i < 100; ++i) text += static_cast<char>(i);
  options.path = Write(Folder("split"), "text", text);
  options.context = options.stride = 10;
  options.eval_fraction = 0.25;
  TextData data = LoadTextData(RealOs(), options).value();
  EXPECT_EQ(data.train->tokens().size(), 75u);
  EXPECT_EQ(data.train->size(), 7);
  ASSERT_NE(data.eval, nullptr);
  EXPECT_EQ(data.eval->tokens().front(), 75);
  EXPECT_EQ(data.eval->tokens().back(), 99);
  EXPECT_EQ(data.eval->size(), 3);
  EXPECT_EQ(data.eval_bytes, 24);
  EXPECT_EQ(data.vocabulary.size(), 256);
  options.eval_fraction = 0;
  data = LoadTextData(RealOs(), options).value();
  EXPECT_EQ(data.eval, nullptr);
  EXPECT_EQ(data.train->tokens().size(), 100u);
}

TEST(TextDataTest, TheVocabularyIsOfTheTrainingText) {
  const std::string folder = Folder("vocabulary");
  TextOptions options;
  options.path = Write(folder, "train", "abab abab abab abab");
  options.eval_path = Write(folder, "eval", "abab xyxy xyxy xyxy");
  options.context = options.stride = 2;
  options.vocabulary = 258;
  TextData data = LoadTextData(RealOs(), options).value();
  EXPECT_EQ(data.train->tokens().size(), 7u);  // "abab" and " "
  EXPECT_EQ(data.eval->tokens().size(), 16u);
  EXPECT_EQ(data.eval_bytes, 15);  // all but "abab"
}

TEST(TextDataTest, FingerprintsTellSamplesApart) {
  const std::string folder = Folder("fingerprint");
  TextOptions options;
  options.path = Write(folder, "a", "some text, some more text");
  options.context = options.stride = 4;
  const std::string first = LoadTextData(RealOs(), options)->fingerprint;
  EXPECT_EQ(first.size(), 16u);
  EXPECT_EQ(LoadTextData(RealOs(), options)->fingerprint, first);
  options.stride = 2;
  EXPECT_NE(LoadTextData(RealOs(), options)->fingerprint, first);
  options.stride = 4;
  options.vocabulary = 257;
  EXPECT_NE(LoadTextData(RealOs(), options)->fingerprint, first);
  options.vocabulary = 256;
  Write(folder, "a", "some text, some more texu");
  EXPECT_NE(LoadTextData(RealOs(), options)->fingerprint, first);
}

TEST(ReadTextTest, AFolderInTheOrderOfNames) {
  const std::string folder = Folder("folder");
  Write(folder, "b", "2");
  Write(folder, "a", "1");
  Write(folder, "empty", "");
  Write(folder, "c", "3");
  ASSERT_TRUE(RealOs().MakeDirectories(JoinPath(folder, "below")).ok());
  Write(JoinPath(folder, "below"), "d", "4");
  ASSERT_EQ(mkfifo(JoinPath(folder, "fifo").c_str(), 0600), 0);
  EXPECT_EQ(ReadText(RealOs(), folder).value(), "123");
  EXPECT_EQ(ReadText(RealOs(), JoinPath(folder, "b")).value(), "2");
}

TEST(ReadTextTest, AFileOfSeveralNamesIsReadOnce) {
  namespace fs = std::filesystem;
  const std::string outside = Folder("outside");
  const std::string folder = Folder("links");
  Write(folder, "b", "2");
  Write(folder, "c", "3");
  fs::create_symlink("b", JoinPath(folder, "d"));
  fs::create_symlink("c", JoinPath(folder, "a"));
  fs::create_symlink(Write(outside, "x", "9"), JoinPath(folder, "y"));
  fs::create_symlink(outside, JoinPath(folder, "z"));  // a folder
  // "a" is c under its first name.
  EXPECT_EQ(ReadText(RealOs(), folder).value(), "329");
  fs::create_symlink(folder, JoinPath(outside, "folder"));
  EXPECT_EQ(ReadText(RealOs(), JoinPath(outside, "folder")).value(), "329");
}

TEST(ReadTextTest, WhatIsNotThereOrEmpty) {
  const std::string folder = Folder("bad");
  auto check = [](const std::string& path, ErrorCode code, const char* text) {
    absl::Status status = ReadText(RealOs(), path).status();
    EXPECT_TRUE(IsError(status, code)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  check(JoinPath(folder, "nothing"), ErrorCode::kDataMissing, "No such file");
  check(folder, ErrorCode::kDataFormat, "no regular file");
  check(Write(folder, "empty", ""), ErrorCode::kDataFormat, "0 bytes");
  check(folder, ErrorCode::kDataFormat, "0 bytes");
  const std::string fifo = JoinPath(folder, "fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  check(fifo, ErrorCode::kDataMissing, "not a regular file");
  std::filesystem::create_symlink("nothing", JoinPath(folder, "broken"));
  check(folder, ErrorCode::kDataMissing, "broken");
}

// One file cannot be read, whoever asks.
class LockedFile : public FaultyOs {
 public:
  explicit LockedFile(std::string path)
      : FaultyOs(RealOs()), path_(std::move(path)) {}
  absl::StatusOr<std::string> ReadFile(const std::string& path,
                                       uint64_t max_bytes) override {
    if (path != path_) return FaultyOs::ReadFile(path, max_bytes);
    return absl::PermissionDeniedError("cannot open '" + path +
                                       "': Permission denied");
  }

 private:
  std::string path_;
};

TEST(ReadTextTest, AFileThatCannotBeReadIsAnError) {
  const std::string folder = Folder("locked");
  Write(folder, "a", "1");
  LockedFile os(Write(folder, "b", "2"));
  absl::Status status = ReadText(os, folder).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kDataMissing)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("Permission denied"));
}

TEST(TextDataTest, TextsThatAreTooShort) {
  const std::string folder = Folder("short");
  TextOptions options;
  options.path = Write(folder, "train", std::string(16, 'x'));
  options.context = options.stride = 16;
  auto check = [&](const char* text) {
    absl::Status status = LoadTextData(RealOs(), options).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kBadJob)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  check("train' has 16 tokens; at least 17 are needed");
  options.context = options.stride = 15;
  EXPECT_EQ(LoadTextData(RealOs(), options)->train->size(), 1);
  options.eval_fraction = 0.05;
  check("without its evaluation has 15 tokens; at least 16");
  options.context = options.stride = 4;
  check("the evaluation part of '");
  options.eval_fraction = 0;
  options.eval_path = Write(folder, "eval", "x");
  check("eval' has 1 tokens; at least 2");
  options.vocabulary = 500;
  check("train': a vocabulary of 500 byte pairs");
}

}  // namespace
}  // namespace weft::data
