// A vocabulary of pieces of text: the 256 bytes, and pairs of neighbours that
// were joined one after the other, the most frequent first (byte-pair encoding,
// after Gage 1994 and Sennrich et al. 2016).
//
//   WEFT_ASSIGN_OR_RETURN(BytePairs pairs, BytePairs::Build(text, 1024));
//   std::vector<uint16_t> tokens = pairs.Encode(text);
//   pairs.Decode(tokens) == text;
//
// Text is first cut into words, each with the white space before it (and after
// 64 bytes in any case); no token reaches over a cut. Of pairs that are equally
// frequent the one with the smaller tokens, left then right, is joined first:
// equal texts give equal vocabularies on every machine.
//
// A token below 256 is that byte; token 256 + i is the i-th joined pair.
//
// Threading: immutable.
#ifndef WEFT_RUNTIME_DATA_BYTE_PAIRS_H_
#define WEFT_RUNTIME_DATA_BYTE_PAIRS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weft::data {

class BytePairs {
 public:
  using Pair = std::pair<uint16_t, uint16_t>;  // of tokens
  using Vocabulary = std::vector<Pair>;

  static constexpr int64_t kBytes = 256;
  static constexpr int64_t kMaxSize = 1 << 16;

  // The bytes alone: Encode() takes them as they are.
  BytePairs() = default;

  // `size` entries, bytes included; kBytes <= size <= kMaxSize. kBadJob where
  // the text has too few pairs that occur twice (names both numbers).
  static absl::StatusOr<BytePairs> Build(absl::string_view text, int64_t size);

  int64_t size() const { return kBytes + static_cast<int64_t>(pairs_.size()); }
  // Joined pairs, in order.
  const Vocabulary& vocabulary() const { return pairs_; }
  std::vector<uint16_t> Encode(absl::string_view text) const;
  std::string Decode(absl::Span<const uint16_t> tokens) const;

 private:
  std::vector<uint16_t> EncodeWord(absl::string_view word) const;

  Vocabulary pairs_;
  absl::flat_hash_map<Pair, uint16_t> joined_;  // pair -> token
};

}  // namespace weft::data

#endif  // WEFT_RUNTIME_DATA_BYTE_PAIRS_H_
