#include "tools/weft/job_data.h"

#include <cmath>
#include <filesystem>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

constexpr uint32_t kBytes = 256;
constexpr uint32_t kMaxVocabulary = 1 << 16;
constexpr uint32_t kMaxContext = 1 << 20;

absl::Status Bad(absl::string_view message) {
  return MakeError(ErrorCode::kBadJob, message);
}

absl::Status ResolveIdx(const std::string& job_path, absl::string_view which,
                        job::Idx* idx) {
  if (idx->images().empty() || idx->labels().empty()) {
    return Bad(
        absl::StrCat("data.", which, ".idx needs both images and labels"));
  }
  const std::string field = absl::StrCat("data.", which, ".idx.");
  WEFT_RETURN_IF_ERROR(CheckPath(idx->images(), field + "images"));
  WEFT_RETURN_IF_ERROR(CheckPath(idx->labels(), field + "labels"));
  idx->set_images(AbsolutePath(job_path, idx->images()));
  idx->set_labels(AbsolutePath(job_path, idx->labels()));
  return absl::OkStatus();
}

absl::Status ResolveTextPath(const std::string& job_path,
                             absl::string_view which, job::Text* text) {
  if (text->path().empty()) {
    return Bad(absl::StrCat("data.", which, ".text needs a path"));
  }
  WEFT_RETURN_IF_ERROR(
      CheckPath(text->path(), absl::StrCat("data.", which, ".text.path")));
  text->set_path(AbsolutePath(job_path, text->path()));
  return absl::OkStatus();
}

// Samples and vocabulary of both texts.
absl::Status ResolveTrainText(job::Text* text) {
  if (!text->has_context()) text->set_context(128);
  if (text->context() == 0 || text->context() > kMaxContext) {
    return Bad(absl::StrCat("data.train.text.context is ", text->context(),
                            ", expected 1 to ", kMaxContext));
  }
  if (!text->has_stride()) text->set_stride(text->context());
  if (text->stride() == 0) {
    return Bad("data.train.text.stride is 0, it must be at least 1");
  }
  if (text->vocabulary_case() == job::Text::VOCABULARY_NOT_SET) {
    text->mutable_byte();
  }
  if (text->has_bpe()) {
    job::BytePairs* bpe = text->mutable_bpe();
    if (!bpe->has_size()) bpe->set_size(1024);
    if (bpe->size() <= kBytes || bpe->size() > kMaxVocabulary) {
      return Bad(absl::StrCat("data.train.text.bpe.size is ", bpe->size(),
                              ", expected ", kBytes + 1, " to ", kMaxVocabulary,
                              ": it counts the ", kBytes, " bytes"));
    }
  }
  if (!(text->eval_fraction() >= 0 && text->eval_fraction() < 1)) {
    return Bad(absl::StrCat("data.train.text.eval_fraction is ",
                            text->eval_fraction(), ", expected [0, 1)"));
  }
  return absl::OkStatus();
}

absl::Status CheckEvalText(const job::Text& train, const job::Text& eval) {
  if (train.eval_fraction() > 0) {
    return Bad(absl::StrCat("data.train.text.eval_fraction is ",
                            train.eval_fraction(),
                            " and data.eval names a text; choose one"));
  }
  if (eval.has_context() || eval.has_stride() || eval.eval_fraction() != 0 ||
      eval.vocabulary_case() != job::Text::VOCABULARY_NOT_SET) {
    return Bad(
        "data.eval.text takes a path alone: context and vocabulary are those "
        "of data.train.text");
  }
  return absl::OkStatus();
}

absl::Status ResolveSets(const std::string& job_path, job::Data* data) {
  if (data->eval().kind_case() == job::Dataset::KIND_NOT_SET) {
    if (data->has_eval()) {
      return Bad("data.eval names no data set (idx or text)");
    }
  } else if (data->eval().kind_case() != data->train().kind_case()) {
    return Bad(
        absl::StrCat("data.train is ", data->train().has_idx() ? "idx" : "text",
                     " and data.eval ", data->eval().has_idx() ? "idx" : "text",
                     "; both must be of one kind"));
  }
  if (data->train().has_idx()) {
    WEFT_RETURN_IF_ERROR(
        ResolveIdx(job_path, "train", data->mutable_train()->mutable_idx()));
    if (!data->has_eval()) return absl::OkStatus();
    return ResolveIdx(job_path, "eval", data->mutable_eval()->mutable_idx());
  }
  job::Text* train = data->mutable_train()->mutable_text();
  WEFT_RETURN_IF_ERROR(ResolveTextPath(job_path, "train", train));
  WEFT_RETURN_IF_ERROR(ResolveTrainText(train));
  if (!data->has_eval()) return absl::OkStatus();
  job::Text* eval = data->mutable_eval()->mutable_text();
  WEFT_RETURN_IF_ERROR(CheckEvalText(*train, *eval));
  return ResolveTextPath(job_path, "eval", eval);
}

absl::Status ResolveNormalize(job::Data* data) {
  if (data->train().has_text()) {
    if (!data->has_normalize()) return absl::OkStatus();
    return Bad("data.normalize is for images, data.train is text");
  }
  job::Normalize* normalize = data->mutable_normalize();
  if (!normalize->has_std()) normalize->set_std(1);
  if (!(normalize->std() > 0) || !std::isfinite(normalize->std()) ||
      !std::isfinite(normalize->mean())) {
    return Bad(absl::StrCat("data.normalize: mean is ", normalize->mean(),
                            ", std ", normalize->std(),
                            "; expected finite numbers, std above 0"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPath(const std::string& path, absl::string_view field) {
  if (path.find('\0') == std::string::npos) return absl::OkStatus();
  return Bad(absl::StrCat(field, " is '", absl::CHexEscape(path),
                          "': a path has no NUL byte"));
}

std::string AbsolutePath(const std::string& job_path, const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty()) return path;
  fs::path joined = fs::path(job_path).parent_path() / path;
  std::error_code error;
  fs::path absolute = fs::absolute(joined, error);
  return (error ? joined : absolute).lexically_normal().string();
}

absl::Status ResolveData(const std::string& job_path, job::Data* data) {
  if (data->train().kind_case() == job::Dataset::KIND_NOT_SET) {
    return Bad("data.train names no data set (idx or text)");
  }
  WEFT_RETURN_IF_ERROR(ResolveSets(job_path, data));
  WEFT_RETURN_IF_ERROR(ResolveNormalize(data));
  if (!data->has_shuffle()) data->set_shuffle(true);
  if (!data->has_prefetch()) data->set_prefetch(2);
  if (data->prefetch() == 0 || data->prefetch() > 64) {
    return Bad(absl::StrCat("data.prefetch is ", data->prefetch(),
                            ", expected 1 to 64"));
  }
  return absl::OkStatus();
}

}  // namespace weft
