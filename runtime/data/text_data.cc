#include "runtime/data/text_data.h"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/status_macros.h"

namespace weft::data {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxText = uint64_t{1} << 32;  // bytes, of all files

// The files of a folder by their real names, each once.
absl::StatusOr<std::vector<std::string>> FilesIn(Os& os,
                                                 const std::string& folder) {
  absl::StatusOr<std::vector<std::string>> names = os.List(folder);
  if (!names.ok()) {
    return MakeError(ErrorCode::kDataMissing, names.status().message());
  }
  std::vector<std::string> files;
  std::set<std::string> seen;
  for (const std::string& name : *names) {
    const std::string path = JoinPath(folder, name);
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    const bool regular = !error && fs::is_regular_file(real, error);
    if (error) {
      return MakeError(
          ErrorCode::kDataMissing,
          absl::StrCat("cannot resolve '", path, "': ", error.message()));
    }
    if (regular && seen.insert(real.string()).second) files.push_back(path);
  }
  if (files.empty()) {
    return MakeError(ErrorCode::kDataFormat,
                     absl::StrCat("'", folder, "' holds no regular file"));
  }
  return files;
}

absl::Status CheckLength(const std::string& what, size_t tokens,
                         int64_t context, int64_t least) {
  if (static_cast<int64_t>(tokens) >= least) return absl::OkStatus();
  return MakeError(
      ErrorCode::kBadJob,
      absl::StrCat(what, " has ", tokens, " tokens; at least ", least,
                   " are needed (data.train.text.context is ", context, ")"));
}

// Splits the end off for evaluation, or reads its own text.
absl::StatusOr<std::string> EvalText(Os& os, const TextOptions& options,
                                     std::string* text) {
  if (!options.eval_path.empty()) return ReadText(os, options.eval_path);
  const auto kept = static_cast<size_t>(static_cast<double>(text->size()) *
                                        (1 - options.eval_fraction));
  std::string end = text->substr(kept);
  text->resize(kept);
  return end;
}

// The folder's files, or the file itself.
absl::StatusOr<std::vector<std::string>> FilesOf(Os& os,
                                                 const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return FilesIn(os, path);
  return std::vector<std::string>{path};
}

}  // namespace

absl::StatusOr<uint64_t> TextBytes(Os& os, const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                        FilesOf(os, path));
  uint64_t bytes = 0;
  for (const std::string& file : files) {
    std::error_code error;
    const uint64_t size = fs::file_size(file, error);
    if (!error) bytes += size;
  }
  return bytes;
}

absl::StatusOr<std::string> ReadText(Os& os, const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                        FilesOf(os, path));
  std::string text;
  for (const std::string& file : files) {
    absl::StatusOr<std::string> part =
        os.ReadFile(file, kMaxText - text.size());
    if (!part.ok()) {
      return MakeError(ErrorCode::kDataMissing, part.status().message());
    }
    text.append(*part);
  }
  if (text.empty()) {
    return MakeError(ErrorCode::kDataFormat,
                     absl::StrCat("'", path, "' holds no text: 0 bytes"));
  }
  return text;
}

TokenSamples::TokenSamples(std::vector<uint16_t> tokens, int64_t context,
                           int64_t stride, bool training)
    : tokens_(std::move(tokens)),
      context_(context),
      stride_(training ? stride : context) {
  const int64_t labels = static_cast<int64_t>(tokens_.size()) - 1;
  size_ = training ? (labels - context_) / stride_ + 1
                   : (labels + context_ - 1) / context_;
}

std::vector<uint64_t> TokenSamples::FieldBytes() const {
  const auto tokens = static_cast<uint64_t>(context_);
  return {tokens * sizeof(int32_t), tokens * sizeof(int32_t),
          tokens * sizeof(float)};
}

void TokenSamples::Write(int64_t sample, absl::Span<char* const> out) const {
  const int64_t first = sample * stride_;
  const int64_t last = static_cast<int64_t>(tokens_.size()) - 1;
  auto put = [&out](int field, int64_t i, auto value) {
    std::memcpy(out[field] + i * sizeof(value), &value, sizeof(value));
  };
  for (int64_t i = 0; i < context_; ++i) {
    const int64_t p = first + i;
    const bool there = p < last;
    put(0, i, there ? int32_t{tokens_[p]} : 0);
    put(1, i, there ? int32_t{tokens_[p + 1]} : 0);
    put(2, i, there ? 1.0f : 0.0f);
  }
}

absl::Status TokenSamples::CheckClasses(int64_t classes,
                                        const std::string& path) const {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i] >= classes) {
      return MakeError(ErrorCode::kLabelRange,
                       absl::StrCat("'", path, "': token ", i, " is ",
                                    tokens_[i], ", the model has ", classes,
                                    " classes (0 to ", classes - 1, ")"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TextData> LoadTextData(Os& os, const TextOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const bool evaluates =
      !options.eval_path.empty() || options.eval_fraction > 0;
  TextData data;
  WEFT_ASSIGN_OR_RETURN(std::string text, ReadText(os, options.path));
  std::string eval_text;
  if (evaluates) {
    WEFT_ASSIGN_OR_RETURN(eval_text, EvalText(os, options, &text));
  }
  absl::StatusOr<BytePairs> vocabulary =
      BytePairs::Build(text, options.vocabulary);
  if (!vocabulary.ok()) {
    return Annotate(vocabulary.status(), absl::StrCat("'", options.path, "'"));
  }
  data.vocabulary = *std::move(vocabulary);
  std::vector<uint16_t> tokens = data.vocabulary.Encode(text);
  WEFT_RETURN_IF_ERROR(CheckLength(
      absl::StrCat("'", options.path, "'",
                   options.eval_fraction > 0 ? " without its evaluation" : ""),
      tokens.size(), options.context, options.context + 1));
  data.fingerprint = absl::StrCat(
      absl::Hex(StableHash(absl::StrCat(options.context, " ", options.stride,
                                        " ", options.vocabulary, " ", text)),
                absl::kZeroPad16));
  data.train = std::make_unique<TokenSamples>(
      std::move(tokens), options.context, options.stride, /*training=*/true);
  if (evaluates) {
    tokens = data.vocabulary.Encode(eval_text);
    const std::string what =
        options.eval_path.empty()
            ? absl::StrCat("the evaluation part of '", options.path, "'")
            : absl::StrCat("'", options.eval_path, "'");
    WEFT_RETURN_IF_ERROR(CheckLength(what, tokens.size(), options.context, 2));
    data.eval_bytes = static_cast<int64_t>(
        eval_text.size() - data.vocabulary.Decode({&tokens[0], 1}).size());
    data.eval = std::make_unique<TokenSamples>(std::move(tokens),
                                               options.context, options.context,
                                               /*training=*/false);
  }
  data.read_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return data;
}

}  // namespace weft::data
