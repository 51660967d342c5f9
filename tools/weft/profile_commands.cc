// weft profile.

#include <cstdio>
#include <memory>

#include "core/base/status_macros.h"
#include "tools/weft/commands.h"

namespace weft {
namespace {

struct ProfileFlags {
  std::string job;
  std::vector<std::string> sets;
  ProfileWindow window;
  uint64_t top = 25;
  bool json = false;
};

absl::Status RunProfile(const CommandContext& context,
                        const ProfileFlags& flags) {
  TrainOptions options = BaseOptions(context);
  options.job_path = UserPath(context.env, flags.job);
  options.sets = flags.sets;
  WEFT_ASSIGN_OR_RETURN(runtime::ProfileReport report,
                        Profile(options, flags.window));
  if (flags.json) {
    std::printf("%s\n", runtime::ProfileJson(report).c_str());
  } else {
    std::fputs(runtime::ProfileText(report, flags.top).c_str(), stdout);
  }
  return absl::OkStatus();
}

}  // namespace

void AddProfileCommand(CommandLine* line, CommandContext* context) {
  auto flags = std::make_shared<ProfileFlags>();
  Command* profile = line->Add(
      "profile",
      "Says where the time of training steps goes: per kernel, beside what the "
      "device\ndoes at most, and in the run-time itself. Keeps nothing of the "
      "training.",
      "weft profile examples/fashion_mnist_mlp.txtpb --steps 50 --top 10");
  profile->Positional("job", &flags->job, "the job file");
  profile->Option("--set", &flags->sets,
                  "sets a field of the job, for example --set devices=sim:0; "
                  "may be repeated");
  profile->Option("--steps", &flags->window.steps, "steps to record");
  profile->Option("--warm-up", &flags->window.warm_up, "steps before them");
  profile->Option("--top", &flags->top, "rows to print; 0 prints all");
  profile->Flag("--json", &flags->json, "prints the result as JSON");
  profile->Run([context, flags] { return RunProfile(*context, *flags); });
}

}  // namespace weft
