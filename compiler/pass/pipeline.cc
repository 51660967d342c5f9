#include "compiler/pass/pipeline.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/error.h"
#include "core/base/os.h"
#include "core/base/pattern.h"
#include "core/base/status_macros.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"

namespace weft {
namespace {

class Dumper {
 public:
  static absl::StatusOr<Dumper> Create(const PipelineOptions& options) {
    Dumper dumper(options.dump_to);
    if (options.dump_to.empty()) return dumper;
    absl::StatusOr<Pattern> pattern = Pattern::Compile(options.dump_passes);
    if (!pattern.ok()) return Annotate(pattern.status(), "--dump_passes");
    dumper.pattern_ = *std::move(pattern);
    absl::Status made = RealOs().MakeDirectories(options.dump_to);
    if (!made.ok()) return MakeError(ErrorCode::kWriteFailed, made.message());
    return dumper;
  }

  bool Wants(const Pass& pass) const {
    return pattern_.has_value() && pattern_->MatchesAll(pass.Name());
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
  std::optional<Pattern> pattern_;  // none: nothing is dumped
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
    const bool dump = dumper.Wants(pass);
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
