#include "models/args.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/error.h"
#include "core/base/suggest.h"

namespace weft::models {
std::string ArgReader::Text(const std::string& key, std::string fallback) {
  known_.push_back(key);
  auto it = args_.find(key);
  return it == args_.end() ? std::move(fallback) : it->second;
}

std::vector<int64_t> ArgReader::Sizes(const std::string& key,
                                      std::string fallback) {
  std::string text = Text(key, std::move(fallback));
  std::vector<int64_t> out;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    int64_t size = 0;
    if (!absl::SimpleAtoi(part, &size) || size < 1 || size > kMaxSize ||
        out.size() == kMaxLayers) {
      Fail(key, text,
           absl::StrCat("sizes such as 512,512, up to ", kMaxLayers,
                        " of 1 to ", kMaxSize));
      return {1};
    }
    out.push_back(size);
  }
  return out;
}

int64_t ArgReader::Count(const std::string& key, int64_t fallback,
                         int64_t least, int64_t most) {
  std::string text = Text(key, absl::StrCat(fallback));
  int64_t count = 0;
  if (absl::SimpleAtoi(text, &count) && count >= least && count <= most) {
    return count;
  }
  Fail(key, text, absl::StrCat("a count of ", least, " to ", most));
  return least;
}

int64_t ArgReader::Classes(const ModelInput& input) {
  return Count("classes", input.classes, 2);
}

double ArgReader::Ratio(const std::string& key) {
  std::string text = Text(key, "0");
  double ratio = 0;
  if (!absl::SimpleAtod(text, &ratio) || !(ratio >= 0 && ratio < 1)) {
    Fail(key, text, "a ratio in [0, 1)");
    return 0;
  }
  return ratio;
}

bool ArgReader::Flag(const std::string& key, bool fallback) {
  std::string text = Text(key, fallback ? "1" : "0");
  if (text != "0" && text != "1") Fail(key, text, "0 or 1");
  return text == "1";
}

absl::Status ArgReader::Done() const {
  if (!status_.ok()) return status_;
  for (const auto& [key, value] : args_) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat("model '", model_, "' has no argument '", key,
                                  "'", DidYouMean(key, known_)));
  }
  return absl::OkStatus();
}

void ArgReader::Fail(absl::string_view key, absl::string_view text,
                     absl::string_view expected) {
  if (!status_.ok()) return;
  status_ = MakeError(ErrorCode::kBadValue,
                      absl::StrCat("model '", model_, "': argument '", key,
                                   "' is '", text, "', expected ", expected));
}

}  // namespace weft::models
