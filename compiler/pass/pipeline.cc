#include "compiler/pass/pipeline.h"

#include <regex>  // NOLINT: the only regular expressions that we have

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/error.h"
#include "core/base/os.h"
#include "core/base/status_macros.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"

namespace weft {
namespace {

// std::regex throws: kept within these few lines.
absl::StatusOr<std::regex> CompileRegex(const std::string& pattern) {
  try {
    return std::regex(pattern);
  } catch (const std::regex_error& error) {
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat("--dump_passes=", pattern,
                                  " is no regular expression: ", error.what()));
  }
}

absl::StatusOr<bool> Matches(const std::regex& pattern,
                             const std::string& name) {
  try {
    return std::regex_match(name, pattern);
  } catch (const std::regex_error& error) {
    return MakeError(
        ErrorCode::kBadValue,
        absl::StrCat("--dump_passes is too complex: ", error.what()));
  }
}

class Dumper {
 public:
  static absl::StatusOr<Dumper> Create(const PipelineOptions& options) {
    Dumper dumper(options.dump_to);
    if (options.dump_to.empty()) return dumper;
    WEFT_ASSIGN_OR_RETURN(dumper.pattern_, CompileRegex(options.dump_passes));
    absl::Status made = RealOs().MakeDirectories(options.dump_to);
    if (!made.ok()) return MakeError(ErrorCode::kWriteFailed, made.message());
    return dumper;
  }

  absl::StatusOr<bool> Wants(const Pass& pass) const {
    if (directory_.empty()) return false;
    return Matches(pattern_, std::string(pass.Name()));
  }

  absl::Status Write(size_t number, const Pass& pass, absl::string_view when,
                     const std::string& text) const {
    std::string path =
        JoinPath(directory_,
                 absl::StrFormat("%03d.%s.%s.txt", number, pass.Name(), when));
    absl::Status written = WriteFileAtomically(RealOs(), path, text);
    if (written.ok()) return written;
    return MakeError(ErrorCode::kWriteFailed, written.message());
  }

 private:
  explicit Dumper(std::string directory) : directory_(std::move(directory)) {}

  std::string directory_;
  std::regex pattern_;
};

}  // namespace

std::vector<std::string> Pipeline::Names() const {
  std::vector<std::string> names;
  for (const auto& pass : passes_) names.emplace_back(pass->Name());
  return names;
}

absl::StatusOr<bool> Pipeline::Run(Graph& graph, PassContext& context) const {
  WEFT_ASSIGN_OR_RETURN(Dumper dumper, Dumper::Create(options_));
  WEFT_RETURN_IF_ERROR(VerifyGraph(graph));
  PrintOptions print;
  print.provenance = true;
  bool any = false;
  for (size_t i = 0; i < passes_.size(); ++i) {
    Pass& pass = *passes_[i];
    WEFT_ASSIGN_OR_RETURN(bool dump, dumper.Wants(pass));
    std::string before = dump ? PrintGraph(graph, print) : std::string();
    absl::StatusOr<bool> changed = pass.Run(graph, context);
    if (!changed.ok()) {
      return Annotate(changed.status(), absl::StrCat("pass ", pass.Name()));
    }
    if (dump && *changed) {
      WEFT_RETURN_IF_ERROR(dumper.Write(i + 1, pass, "before", before));
      WEFT_RETURN_IF_ERROR(
          dumper.Write(i + 1, pass, "after", PrintGraph(graph, print)));
    }
    absl::Status sound = VerifyGraph(graph);
    if (!sound.ok()) {
      return MakeError(ErrorCode::kInternal,
                       absl::StrCat("pass ", pass.Name(),
                                    " left a broken graph: ", sound.message()));
    }
    any = any || *changed;
  }
  return any;
}

}  // namespace weft
