// Text as samples of tokens, for language models.
//
//   TextOptions options;
//   options.path = "/usr/share/common-licenses";
//   options.eval_fraction = 0.1;
//   WEFT_ASSIGN_OR_RETURN(TextData data, LoadTextData(RealOs(), options));
//   BatchReader reader(&*data.train, {.batch = 32, ...});
//
// A sample of c tokens that starts at position p has the fields
//
//   tokens  i32 [c]  positions p     .. p + c - 1
//   labels  i32 [c]  positions p + 1 .. p + c: what comes next
//   weights f32 [c]  1, or 0 beyond the end of the text
//
// In training, samples start every `stride` tokens and lie within the text; the
// rest at its end is left out. In evaluation they follow each other without
// overlap and the last one is padded, so that every token but the first is a
// label exactly once.
//
// The vocabulary is made from the training text alone.
//
// Threading: immutable.
#ifndef WEFT_RUNTIME_DATA_TEXT_DATA_H_
#define WEFT_RUNTIME_DATA_TEXT_DATA_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/os.h"
#include "runtime/data/byte_pairs.h"
#include "runtime/data/samples.h"

namespace weft::data {

class TokenSamples : public Samples {
 public:
  // Pre-condition: at least one sample: training, context + 1 tokens;
  // evaluation, 2.
  TokenSamples(std::vector<uint16_t> tokens, int64_t context, int64_t stride,
               bool training);

  int64_t size() const override { return size_; }
  std::vector<uint64_t> FieldBytes() const override;
  void Write(int64_t sample, absl::Span<char* const> out) const override;
  absl::Status CheckClasses(int64_t classes,
                            const std::string& path) const override;

  const std::vector<uint16_t>& tokens() const { return tokens_; }

 private:
  std::vector<uint16_t> tokens_;
  int64_t context_;
  int64_t stride_;
  int64_t size_;
};

struct TextOptions {
  std::string path;                        // file or folder
  std::string eval_path;                   // empty: none of its own
  double eval_fraction = 0;                // of the text, its end; 0: none
  int64_t context = 128;                   // tokens of a sample
  int64_t stride = 128;                    // of training
  int64_t vocabulary = BytePairs::kBytes;  // larger: of byte pairs
};

struct TextData {
  BytePairs vocabulary;
  std::unique_ptr<TokenSamples> train;
  std::unique_ptr<TokenSamples> eval;  // null where there is none
  // Of the text that the labels of `eval` stand for, all but its first token.
  int64_t eval_bytes = 0;
  std::string fingerprint;  // of the training samples, 16 hex digits
  double read_seconds = 0;  // spent reading and encoding
};

// Errors: those of ReadText and BytePairs::Build; kBadJob where a text is
// shorter than one sample (names both lengths).
absl::StatusOr<TextData> LoadTextData(Os& os, const TextOptions& options);

// What a file holds, or all regular files of a folder, one after the other in
// the order of their names. Links are followed; a file with several names is
// read once, folders in the folder are left out. Errors: kDataMissing for what
// is not there or cannot be read, a broken link included; kDataFormat for a
// folder without files and for a text without a byte.
absl::StatusOr<std::string> ReadText(Os& os, const std::string& path);

// The bytes of what ReadText would read, by the sizes of the files; what has
// none (a pipe, a file that is not there) counts nothing. Reading and encoding
// takes up to kTextCopies times as much memory for a while.
absl::StatusOr<uint64_t> TextBytes(Os& os, const std::string& path);
inline constexpr uint64_t kTextCopies = 4;

}  // namespace weft::data

#endif  // WEFT_RUNTIME_DATA_TEXT_DATA_H_
