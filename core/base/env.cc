#include "core/base/env.h"

#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/suggest.h"

namespace weft {

const std::vector<WeftVariable>& WeftVariables() {
  static const auto* table = new std::vector<WeftVariable>{
      {"WEFT_COORDINATOR", "set by weft run: where the ranks of a job meet",
       ""},
      {"WEFT_DEVICES", "device of the job, as its field devices", "devices"},
      {"WEFT_ERROR_FILE", "set by weft run: where a rank says how it failed",
       ""},
      {"WEFT_JOIN_RUN", "set by weft run: the run directory of the job", ""},
      {"WEFT_LAUNCHER",
       "what started the ranks: auto, env, mpi, slurm or none, as --launcher",
       ""},
      {"WEFT_NO_INSTALL", "./bazelw: never install packages", ""},
      {"WEFT_PLUGIN_PATH", "directories of plugins, absolute, ':' between", ""},
      {"WEFT_RUNS_DIR", "where run directories are made; default ./runs", ""},
      {"WEFT_SECRET_FD", "set by weft run: descriptor of the job's secret", ""},
      {"WEFT_SECRET_FILE",
       "file with the job's secret, of mode 0600, for ranks on several hosts",
       ""},
      {"WEFT_SEED", "seed of the job, as its field seed", "seed"},
      {"WEFT_THREADS", "threads of a rank, as runtime.threads",
       "runtime.threads"},
  };
  return *table;
}

Environment Environment::FromProcess() {
  Environment env;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    absl::string_view text(*entry);
    size_t equals = text.find('=');
    if (equals == absl::string_view::npos) continue;
    env.variables_.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return env;
}

std::optional<std::string> Environment::Get(const std::string& name) const {
  auto it = variables_.find(name);
  if (it == variables_.end()) return std::nullopt;
  return it->second;
}

absl::Status Environment::CheckWeftVariables() const {
  std::vector<std::string> known;
  for (const WeftVariable& v : WeftVariables()) known.emplace_back(v.name);
  for (const auto& [name, value] : variables_) {
    if (!absl::StartsWith(name, "WEFT_")) continue;
    bool found = false;
    for (const std::string& k : known) found = found || k == name;
    if (!found) {
      return MakeError(
          ErrorCode::kUnknownEnvironment,
          absl::StrCat("environment variable ", name, " is not known",
                       DidYouMean(name, known), " (weft env lists all)"));
    }
    if (name == "WEFT_RUNS_DIR" && value.empty()) {
      return MakeError(ErrorCode::kBadValue,
                       absl::StrCat("environment variable ", name,
                                    " is empty; unset it for ./runs"));
    }
  }
  return absl::OkStatus();
}

}  // namespace weft
