#include "runtime/data/image_data.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/data/idx.h"

namespace weft::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string WriteIdx(const std::string& name, const IdxArray& array) {
  std::string path = JoinPath(std::getenv("TEST_TMPDIR"), name);
  EXPECT_TRUE(WriteFileAtomically(RealOs(), path, EncodeIdx(array)).ok());
  return path;
}

// `n` images of two pixels {i, i}, labels i % 10.
ImageData Numbered(int n) {
  ImageData data;
  data.samples = n;
  data.image = Shape({1, 2});
  for (int i = 0; i < n; ++i) {
    data.pixels.append(2, static_cast<char>(i));
    data.labels.push_back(i % 10);
  }
  return data;
}

struct Batch {
  std::string images;
  std::vector<int32_t> labels;
  std::vector<float> weights;
};

Batch Fill(BatchReader* reader, int64_t count, uint64_t step, uint32_t micro) {
  Batch batch{std::string(count * 2, '?'), std::vector<int32_t>(count, -1),
              std::vector<float>(count, -1)};
  std::vector<runtime::HostTensor> out(3);
  out[0] = {DType::kU8, {}, &batch.images[0], batch.images.size()};
  out[1] = {
      DType::kI32, {}, batch.labels.data(), static_cast<uint64_t>(count) * 4};
  out[2] = {
      DType::kF32, {}, batch.weights.data(), static_cast<uint64_t>(count) * 4};
  EXPECT_TRUE(reader->Fill(step, micro, out).ok());
  return batch;
}

TEST(SampleOrderTest, EachEpochIsAPermutation) {
  SampleOrder order({.samples = 100, .batch = 7, .seed = 3});
  std::vector<int64_t> first;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> seen;
    for (int i = 0; i < 100; ++i) seen.push_back(order.At(epoch * 100 + i));
    if (epoch == 0) first = seen;
    if (epoch > 0) {
      EXPECT_NE(seen, first);
    }
    std::sort(seen.begin(), seen.end());
    for (int i = 0; i < 100; ++i) ASSERT_EQ(seen[i], i);
  }
}

TEST(SampleOrderTest, IsAFunctionOfPosition) {
  OrderOptions options{.samples = 50, .batch = 8, .seed = 9};
  SampleOrder forward(options), backward(options);
  std::vector<int64_t> a(200), b(200);
  for (int i = 0; i < 200; ++i) a[i] = forward.At(i);
  for (int i = 199; i >= 0; --i) b[i] = backward.At(i);
  EXPECT_EQ(a, b);
  options.seed = 10;
  SampleOrder other(options);
  for (int i = 0; i < 200; ++i) b[i] = other.At(i);
  EXPECT_NE(a, b);
}

TEST(SampleOrderTest, TailsAndEpochs) {
  SampleOrder carry({.samples = 10, .batch = 4});
  EXPECT_EQ(carry.StepsOf(1), 3);
  EXPECT_EQ(carry.StepsOf(2), 5);
  SampleOrder drop({.samples = 10, .batch = 4, .tail = Tail::kDrop});
  EXPECT_EQ(drop.samples_per_epoch(), 8);
  EXPECT_EQ(drop.StepsOf(2), 4);
  std::set<int64_t> seen;
  for (int i = 8; i < 16; ++i) seen.insert(drop.At(i));
  EXPECT_EQ(seen.size(), 8u);  // of one permutation
  SampleOrder plain({.samples = 3, .batch = 2, .shuffle = false});
  EXPECT_EQ(plain.At(4), 1);
}

TEST(SampleOrderTest, EveryOrderOfThreeOccurs) {
  std::map<std::string, int> counts;
  SampleOrder order({.samples = 3, .batch = 1, .seed = 5});
  for (int epoch = 0; epoch < 6000; ++epoch) {
    std::string key;
    for (int i = 0; i < 3; ++i) key += std::to_string(order.At(3 * epoch + i));
    ++counts[key];
  }
  ASSERT_EQ(counts.size(), 6u);
  for (const auto& [key, count] : counts) EXPECT_NEAR(count, 1000, 150) << key;
}

TEST(BatchReaderTest, MicroBatchesSplitTheStep) {
  ImageData data = Numbered(20);
  BatchReader whole(&data, {.batch = 8, .seed = 1});
  BatchReader parts(&data, {.batch = 8, .micro_batches = 2, .seed = 1});
  for (uint64_t step : {0, 1, 2, 3}) {  // crosses two ends of an epoch
    Batch all = Fill(&whole, 8, step, 0);
    Batch a = Fill(&parts, 4, step, 0), b = Fill(&parts, 4, step, 1);
    EXPECT_EQ(all.images, a.images + b.images);
    EXPECT_THAT(all.weights, ElementsAre(1, 1, 1, 1, 1, 1, 1, 1));
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(all.labels[i], all.images[2 * i] % 10);
    }
  }
}

TEST(BatchReaderTest, EvaluationIsInOrderAndPadded) {
  ImageData data = Numbered(5);
  BatchReader reader(&data, {.batch = 4, .training = false});
  EXPECT_EQ(reader.StepsOf(1), 2);
  EXPECT_THAT(Fill(&reader, 4, 0, 0).labels, ElementsAre(0, 1, 2, 3));
  Batch last = Fill(&reader, 4, 1, 0);
  EXPECT_THAT(last.labels, ElementsAre(4, 0, 0, 0));
  EXPECT_THAT(last.weights, ElementsAre(1, 0, 0, 0));
  EXPECT_EQ(last.images, std::string("\4\4\0\0\0\0\0\0", 8));
}

TEST(ImageDataTest, LoadsAPair) {
  std::string images =
      WriteIdx("images", {Shape({2, 1, 2}), std::string("\1\2\3\4", 4)});
  std::string labels = WriteIdx("labels", {Shape({2}), std::string("\7\3", 2)});
  ImageData data = LoadImageData(RealOs(), images, labels).value();
  EXPECT_EQ(data.samples, 2);
  EXPECT_EQ(data.image, Shape({1, 2}));
  EXPECT_THAT(data.labels, ElementsAre(7, 3));
  EXPECT_EQ(data.fingerprint.size(), 16u);
  std::string other = WriteIdx("other", {Shape({2}), std::string("\7\4", 2)});
  EXPECT_NE(LoadImageData(RealOs(), images, other)->fingerprint,
            data.fingerprint);
}

TEST(ImageDataTest, RefusesWhatDoesNotFit) {
  std::string images =
      WriteIdx("images", {Shape({2, 1, 2}), std::string("\1\2\3\4", 4)});
  std::string three = WriteIdx("three", {Shape({3}), "abc"});
  std::string labels = WriteIdx("labels", {Shape({2}), std::string("\7\3", 2)});
  auto error = [](const std::string& i, const std::string& l) {
    return LoadImageData(RealOs(), i, l).status();
  };
  absl::Status status = error(images, three);
  EXPECT_TRUE(IsError(status, ErrorCode::kDataFormat));
  EXPECT_THAT(std::string(status.message()), HasSubstr("2 images"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("3 labels"));
  EXPECT_TRUE(IsError(error(labels, images), ErrorCode::kDataFormat));
  ImageData data = LoadImageData(RealOs(), images, labels).value();
  EXPECT_EQ(CountClasses(data), 8);
  EXPECT_TRUE(data.CheckClasses(8, labels).ok());
  status = data.CheckClasses(5, labels);
  EXPECT_TRUE(IsError(status, ErrorCode::kLabelRange));
  EXPECT_THAT(std::string(status.message()), HasSubstr("sample 0 is 7"));
  EXPECT_TRUE(IsError(error("/no/such", labels), ErrorCode::kDataMissing));
  std::string none = WriteIdx("none", {Shape({0, 1, 2}), ""});
  std::string no_labels = WriteIdx("no_labels", {Shape({0}), ""});
  EXPECT_TRUE(IsError(error(none, no_labels), ErrorCode::kDataFormat));
}

TEST(ImageDataTest, BatchLargerThanTheData) {
  ImageData data = Numbered(5);
  EXPECT_TRUE(CheckBatch(data, 5, "x").ok());
  absl::Status status = CheckBatch(data, 6, "train.idx");
  EXPECT_TRUE(IsError(status, ErrorCode::kBatchTooLarge));
  EXPECT_THAT(std::string(status.message()), HasSubstr("batch_size 6"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("train.idx"));
}

}  // namespace
}  // namespace weft::data
