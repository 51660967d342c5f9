// The process's environment: the only place that reads it. Weft's own variables
// all start with WEFT_ and stand in one table, so that a misspelt one is an
// error (kUnknownEnvironment, with "did you mean") instead of silence.
//
//   Environment env = Environment::FromProcess();
//   WEFT_RETURN_IF_ERROR(env.CheckWeftVariables());
//   std::optional<std::string> path = env.Get("WEFT_PLUGIN_PATH");
//
// Tests build one from a map and touch no global state.
//
// Threading: thread-compatible value type; FromProcess() must not race with
// setenv, which Weft never calls.
#ifndef WEFT_CORE_BASE_ENV_H_
#define WEFT_CORE_BASE_ENV_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weft {

struct WeftVariable {
  absl::string_view name;
  absl::string_view help;
  // The job's field that it sets, "" where it is no part of a job.
  absl::string_view job_field;
};

// Every variable that Weft reads, sorted by name.
const std::vector<WeftVariable>& WeftVariables();

class Environment {
 public:
  static Environment FromProcess();

  static Environment Of(std::map<std::string, std::string> variables) {
    Environment env;
    env.variables_ = std::move(variables);
    return env;
  }

  std::optional<std::string> Get(const std::string& name) const;

  const std::map<std::string, std::string>& variables() const {
    return variables_;
  }

  // kUnknownEnvironment where a WEFT_ variable is not in the table, kBadValue
  // where one that names a directory is empty.
  absl::Status CheckWeftVariables() const;

 private:
  std::map<std::string, std::string> variables_;
};

}  // namespace weft

#endif  // WEFT_CORE_BASE_ENV_H_
