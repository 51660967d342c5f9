#include "runtime/data/byte_pairs.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace weft::data {
namespace {

using Pair = BytePairs::Pair;
using Tokens = std::vector<uint16_t>;

constexpr size_t kMaxWord = 64;  // bytes

// The next word of `text`, with the white space before it.
absl::string_view NextWord(absl::string_view text) {
  size_t end = 0;
  while (end < text.size() && absl::ascii_isspace(text[end])) ++end;
  while (end < text.size() && !absl::ascii_isspace(text[end])) ++end;
  return text.substr(0, std::min(end, kMaxWord));
}

Tokens BytesOf(absl::string_view word) {
  Tokens tokens;
  for (char c : word) tokens.push_back(static_cast<uint8_t>(c));
  return tokens;
}

// Replaces every `pair`, from the left.
void Join(Pair pair, uint16_t token, Tokens* tokens) {
  size_t to = 0;
  for (size_t from = 0; from < tokens->size(); ++from, ++to) {
    const bool here = from + 1 < tokens->size() &&
                      Pair((*tokens)[from], (*tokens)[from + 1]) == pair;
    (*tokens)[to] = here ? token : (*tokens)[from];
    if (here) ++from;
  }
  tokens->resize(to);
}

// Counts of all pairs in the words of a text, kept while pairs are joined.
class PairCounts {
 public:
  explicit PairCounts(absl::string_view text) {
    absl::flat_hash_map<absl::string_view, size_t> index;
    while (!text.empty()) {
      absl::string_view word = NextWord(text);
      auto [it, fresh] = index.try_emplace(word, words_.size());
      if (fresh) words_.push_back({BytesOf(word), 0});
      ++words_[it->second].count;
      text.remove_prefix(word.size());
    }
    for (size_t i = 0; i < words_.size(); ++i) Count(i, words_[i].count);
    for (const auto& [pair, entry] : pairs_) Push(pair, entry.count);
  }

  // The pair to join next; false where none occurs twice.
  bool Best(Pair* pair) {
    while (!queue_.empty()) {
      auto [count, left, right] = queue_.top();
      *pair = {static_cast<uint16_t>(~left), static_cast<uint16_t>(~right)};
      const int64_t now = pairs_[*pair].count;
      if (now == count) return count >= 2;
      // An entry of the past: growth made another one, decline makes it here.
      queue_.pop();
      if (now > 0 && now < count) Push(*pair, now);
    }
    return false;
  }

  void JoinEverywhere(Pair pair, uint16_t token) {
    std::vector<size_t> words = std::move(pairs_[pair].words);
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    grown_.clear();
    for (size_t i : words) {
      Count(i, -words_[i].count);
      Join(pair, token, &words_[i].tokens);
      Count(i, words_[i].count);
    }
    for (Pair p : grown_) Push(p, pairs_[p].count);
  }

 private:
  struct Word {
    Tokens tokens;
    int64_t count;  // in the text
  };
  struct Entry {
    int64_t count = 0;
    std::vector<size_t> words;  // that have it, or had it
  };

  // Adds `count` (a number of words, negative to take back) for each pair of a
  // word.
  void Count(size_t word, int64_t count) {
    const Tokens& tokens = words_[word].tokens;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const Pair pair(tokens[i], tokens[i + 1]);
      Entry& entry = pairs_[pair];
      entry.count += count;
      if (count < 0) continue;
      if (entry.words.empty() || entry.words.back() != word) {
        entry.words.push_back(word);
      }
      grown_.push_back(pair);
    }
  }

  // The queue's top is the largest: small tokens first means complements.
  void Push(Pair pair, int64_t count) {
    queue_.emplace(count, static_cast<uint16_t>(~pair.first),
                   static_cast<uint16_t>(~pair.second));
  }

  std::vector<Word> words_;
  absl::flat_hash_map<Pair, Entry> pairs_;
  std::vector<Pair> grown_;
  std::priority_queue<std::tuple<int64_t, uint16_t, uint16_t>> queue_;
};

}  // namespace

absl::StatusOr<BytePairs> BytePairs::Build(absl::string_view text,
                                           int64_t size) {
  BytePairs out;
  if (size == kBytes) return out;
  PairCounts counts(text);
  while (out.size() < size) {
    Pair pair;
    if (!counts.Best(&pair)) {
      return MakeError(
          ErrorCode::kBadJob,
          absl::StrCat("a vocabulary of ", size, " byte pairs is asked for, ",
                       "the text of ", text.size(), " bytes gives ",
                       out.size()));
    }
    const auto token = static_cast<uint16_t>(out.size());
    counts.JoinEverywhere(pair, token);
    out.joined_[pair] = token;
    out.pairs_.push_back(pair);
  }
  return out;
}

std::vector<uint16_t> BytePairs::EncodeWord(absl::string_view word) const {
  Tokens tokens = BytesOf(word);
  while (tokens.size() > 1) {
    // The pair that was joined first, as when the vocabulary was built.
    uint32_t best = kMaxSize;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      auto it = joined_.find(Pair(tokens[i], tokens[i + 1]));
      if (it != joined_.end()) best = std::min<uint32_t>(best, it->second);
    }
    if (best == kMaxSize) break;
    Join(pairs_[best - kBytes], static_cast<uint16_t>(best), &tokens);
  }
  return tokens;
}

std::vector<uint16_t> BytePairs::Encode(absl::string_view text) const {
  if (pairs_.empty()) return BytesOf(text);
  Tokens out;
  absl::flat_hash_map<absl::string_view, Tokens> known;
  while (!text.empty()) {
    absl::string_view word = NextWord(text);
    auto [it, fresh] = known.try_emplace(word);
    if (fresh) it->second = EncodeWord(word);
    out.insert(out.end(), it->second.begin(), it->second.end());
    text.remove_prefix(word.size());
  }
  return out;
}

std::string BytePairs::Decode(absl::Span<const uint16_t> tokens) const {
  std::string out;
  std::vector<uint16_t> rest(tokens.rbegin(), tokens.rend());  // a stack
  while (!rest.empty()) {
    const uint16_t token = rest.back();
    rest.pop_back();
    if (token < kBytes) {
      out.push_back(static_cast<char>(token));
      continue;
    }
    rest.push_back(pairs_[token - kBytes].second);
    rest.push_back(pairs_[token - kBytes].first);
  }
  return out;
}

}  // namespace weft::data
