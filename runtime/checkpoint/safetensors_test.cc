#include "runtime/checkpoint/safetensors.h"

#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::checkpoint {
namespace {

using ::testing::HasSubstr;

std::string FileOf(const std::string& json, const std::string& buffer) {
  std::string out(8, '\0');
  out[0] = static_cast<char>(json.size() & 0xff);
  out[1] = static_cast<char>(json.size() >> 8);
  return out + json + buffer;
}

std::string Entry(const std::string& name, const std::string& rest) {
  return "\"" + name + "\":{" + rest + "}";
}

TEST(SafetensorsTest, RoundTrip) {
  std::string a(24, 'a'), b(2, 'b');
  std::vector<NamedTensor> tensors = {{"fc1/weight", {DType::kF32, {2, 3}}, a},
                                      {"scalar", {DType::kBF16, {}}, b},
                                      {"empty", {DType::kI64, {0, 4}}, ""}};
  std::string file = SafetensorsHeader(tensors, {{"format", "weft"}}) + a + b;
  EXPECT_EQ(file.size() % 8, 2u);  // the buffer starts aligned
  absl::StatusOr<SafetensorsFile> parsed = ParseSafetensors("f", file);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->metadata.at("format"), "weft");
  ASSERT_EQ(parsed->tensors.size(), 3u);
  for (const NamedTensor& t : parsed->tensors) {
    bool found = false;
    for (const NamedTensor& e : tensors) {
      if (e.name != t.name) continue;
      found = true;
      EXPECT_EQ(e.type, t.type);
      EXPECT_EQ(e.bytes, t.bytes);
    }
    EXPECT_TRUE(found) << t.name;
  }
}

TEST(SafetensorsTest, RefusesEveryTruncation) {
  std::string a(24, 'a');
  std::string file =
      SafetensorsHeader({{{"a", {DType::kF32, {2, 3}}, a}}}, {}) + a;
  for (size_t n = 0; n < file.size(); ++n) {
    EXPECT_TRUE(IsError(ParseSafetensors("f", file.substr(0, n)).status(),
                        ErrorCode::kCheckpointCorrupt))
        << n;
  }
}

TEST(SafetensorsTest, RefusesBadHeaders) {
  const std::string good = "\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "does not start"},
      {"[1]", "does not start"},
      {"{\"a\"", "JSON"},
      {"{" + Entry("a", good + "[0,3]") + "}", "do not hold"},
      {"{" + Entry("a", good + "[2,0]") + "}", "do not hold"},
      {"{" + Entry("a", good + "[1,3]") + "}", "expected to start at 0"},
      {"{" + Entry("a", good + "[-1,1]") + "}", "counts"},
      {"{" + Entry("a", good + "[0,2]") + "," + Entry("b", good + "[0,2]") +
           "}",
       "expected to start at 2"},
      {"{" + Entry("a", good + "[0,2],\"x\":1") + "}", "exactly"},
      {"{" +
           Entry("a", "\"dtype\":\"F8\",\"shape\":[],\"data_offsets\":[0,1]") +
           "}",
       "dtype"},
      {"{" +
           Entry("a",
                 "\"dtype\":\"F64\",\"shape\":[4611686018427387904,4],"
                 "\"data_offsets\":[0,0]") +
           "}",
       "too large"},
      {"{\"__metadata__\":{\"a\":1}}", "not a string"},
      {"{}", "after the last tensor"},
  };
  for (const auto& [json, text] : cases) {
    absl::Status status =
        ParseSafetensors("f.safetensors", FileOf(json, "abc")).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kCheckpointCorrupt)) << json;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text)) << json;
    EXPECT_THAT(std::string(status.message()), HasSubstr("f.safetensors"));
  }
}

TEST(SafetensorsTest, RefusesAHugeHeaderLength) {
  std::string file(64, '\xff');
  EXPECT_TRUE(IsError(ParseSafetensors("f", file).status(),
                      ErrorCode::kCheckpointCorrupt));
}

}  // namespace
}  // namespace weft::checkpoint
