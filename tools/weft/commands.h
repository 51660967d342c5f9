// The subcommands of weft, by family, each added to a command line.
//
//   train, eval                     train_commands.cc
//   run                             run_commands.cc
//   profile                         profile_commands.cc
//   plan show | check | explain     plan_commands.cc
//   plugin list, ckpt ls | verify, doctor, env     info_commands.cc
//
// Threading: one thread. The context outlives the command line.
#ifndef WEFT_TOOLS_WEFT_COMMANDS_H_
#define WEFT_TOOLS_WEFT_COMMANDS_H_

#include <cstdint>
#include <string>

#include "core/base/env.h"
#include "core/base/error.h"
#include "tools/weft/command_line.h"
#include "tools/weft/trainer.h"

namespace weft {

struct CommandContext {
  Environment env;
  int64_t started_ns = 0;
  int stop_signal = 0;  // that ended a run early; 0: none
  int exit_code = 0;    // of ranks that failed, who have said why
};

void AddTrainCommands(CommandLine* line, CommandContext* context);
void AddRunCommand(CommandLine* line, CommandContext* context);
void AddProfileCommand(CommandLine* line, CommandContext* context);
void AddPlanCommands(CommandLine* line, CommandContext* context);
void AddInfoCommands(CommandLine* line, CommandContext* context);

// `path` of the user, who stands in the directory that `bazel run` was called
// from (BUILD_WORKING_DIRECTORY) or in the current one.
std::string UserPath(const Environment& env, const std::string& path);

// For a launcher, which says what came first: how this rank failed, unless the
// run has written it already.
void LeaveErrorFile(const CommandContext& context, const absl::Status& status);

// Trainer options that every command shares: plugins, environment, paths.
TrainOptions BaseOptions(const CommandContext& context);

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_COMMANDS_H_
