#include "runtime/data/byte_pairs.h"

#include <map>
#include <random>

#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Pieces(const BytePairs& pairs, absl::string_view text) {
  std::string out;
  for (uint16_t token : pairs.Encode(text)) {
    if (!out.empty()) out += '|';
    out += pairs.Decode({&token, 1});
  }
  return out;
}

std::string RandomText(int seed, int bytes, int letters) {
  std::mt19937 random(seed);
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text +=
        random() % 5 == 0 ? ' ' : static_cast<char>('a' + random() % letters);
  }
  return text;
}

// What the header says, without any shortcut: counts all pairs of all words
// anew for each entry.
BytePairs::Vocabulary Plain(const std::string& text, int64_t size) {
  std::vector<std::vector<uint16_t>> words;
  bool blank = true;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool space = text[i] == ' ';
    if (i == 0 || (space && !blank) || words.back().size() == 64) {
      words.emplace_back();
    }
    words.back().push_back(static_cast<uint8_t>(text[i]));
    blank = space;
  }
  BytePairs::Vocabulary pairs;
  while (static_cast<int64_t>(pairs.size()) + 256 < size) {
    std::map<std::pair<uint16_t, uint16_t>, int> counts;
    for (const auto& word : words) {
      for (size_t i = 0; i + 1 < word.size(); ++i)
        ++counts[{word[i], word[i + 1]}];
    }
    auto best = counts.begin();
    for (auto it = counts.begin(); it != counts.end(); ++it) {
      if (it->second > best->second) best = it;
    }
    for (auto& word : words) {
      std::vector<uint16_t> joined;
      for (size_t i = 0; i < word.size(); ++i) {
        const bool here = i + 1 < word.size() && word[i] == best->first.first &&
                          word[i + 1] == best->first.second;
        joined.push_back(here ? 256 + pairs.size() : word[i]);
        if (here) ++i;
      }
      word = joined;
    }
    pairs.push_back(best->first);
  }
  return pairs;
}

TEST(BytePairsTest, BytesAloneAreTakenAsTheyAre) {
  BytePairs bytes;
  EXPECT_EQ(bytes.size(), 256);
  EXPECT_THAT(bytes.Encode("a\xff"), ElementsAre('a', 255));
  EXPECT_EQ(BytePairs::Build("", 256)->size(), 256);
}

TEST(BytePairsTest, TheMostFrequentPairsAreJoinedFirst) {
  const std::string text = "low low low lower lower newest newest";
  // "lo" and "ow" both occur 5 times: 'l' < 'o'. Then " " before words.
  BytePairs pairs = BytePairs::Build(text, 258).value();
  EXPECT_THAT(pairs.vocabulary(),
              ElementsAre(std::make_pair('l', 'o'), std::make_pair(256, 'w')));
  EXPECT_EQ(Pieces(pairs, "low lows"), "low| |low|s");
  pairs = BytePairs::Build(text, 259).value();
  EXPECT_EQ(Pieces(pairs, "low lows"), "low| low|s");
}

TEST(BytePairsTest, AgreesWithThePlainDefinition) {
  for (int seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    // Few letters: pairs overlap, as in "aaaa", and counts fall and rise.
    const std::string text = RandomText(seed, 600, 1 + seed % 5);
    const int64_t size = 256 + 12;
    absl::StatusOr<BytePairs> pairs = BytePairs::Build(text, size);
    ASSERT_TRUE(pairs.ok()) << pairs.status();
    EXPECT_EQ(pairs->vocabulary(), Plain(text, size));
  }
}

TEST(BytePairsTest, DecodingGivesTheText) {
  std::string text = RandomText(7, 3000, 6);
  BytePairs pairs = BytePairs::Build(text, 400).value();
  std::vector<uint16_t> tokens = pairs.Encode(text);
  EXPECT_LT(tokens.size(), text.size() / 2);
  EXPECT_EQ(pairs.Decode(tokens), text);
  // Text that the vocabulary was not made from, any bytes.
  std::string other(70000, '\0');
  std::mt19937 random(3);
  for (char& c : other) c = static_cast<char>(random() % 256);
  other += std::string(200, 'a') + "  \n\t b";
  EXPECT_EQ(pairs.Decode(pairs.Encode(other)), other);
}

TEST(BytePairsTest, NoTokenReachesOverACut) {
  BytePairs pairs = BytePairs::Build("ab ab ab ab", 258).value();
  EXPECT_EQ(Pieces(pairs, "abab ab"), "ab|ab| ab");
  // Words end after 64 bytes.
  BytePairs runs = BytePairs::Build(std::string(64 * 4, 'x'), 262).value();
  EXPECT_EQ(runs.Encode(std::string(64 + 1, 'x')).size(), 2u);
}

TEST(BytePairsTest, ATextThatGivesTooFewIsSaid) {
  absl::Status status = BytePairs::Build("abab abab", 1000).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kBadJob)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("of 1000 byte pairs"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("9 bytes gives 258"));
}

}  // namespace
}  // namespace weft::data
