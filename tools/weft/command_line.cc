#include "tools/weft/command_line.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/suggest.h"
#include "tools/weft/memory_limit.h"

namespace weft {

std::string NormalizeFlag(std::string arg) {
  if (!absl::StartsWith(arg, "--")) return arg;
  size_t end = std::min(arg.find('='), arg.size());
  std::replace(arg.begin(), arg.begin() + end, '_', '-');
  return arg;
}

namespace {

// Who reads stdout has seen enough, as head does, and went away.
bool ReaderLeft() {
  pollfd out = {STDOUT_FILENO, POLLOUT, 0};
  return poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0;
}

}  // namespace

Command::~Command() = default;

void Command::Positional(const std::string& name, std::string* value,
                         const std::string& help, bool optional) {
  CLI::Option* option = app_->add_option(name, *value, help);
  if (!optional) option->required();
}

void Command::Flag(const std::string& name, bool* value,
                   const std::string& help) {
  app_->add_flag(name, *value, help);
}

void Command::Option(const std::string& name, std::string* value,
                     const std::string& help) {
  app_->add_option(name, *value, help)->capture_default_str();
}

void Command::Option(const std::string& name, uint64_t* value,
                     const std::string& help) {
  // CLI11 alone takes -1 and 2^64 as well, for other numbers.
  app_->add_option(name, *value, help)
      ->capture_default_str()
      ->check([](const std::string& text) {
        uint64_t number;
        if (absl::SimpleAtoi(text, &number)) return std::string();
        return absl::StrCat("'", text, "' is no number of 0 to 2^64 - 1");
      });
}

void Command::Option(const std::string& name, std::vector<std::string>* values,
                     const std::string& help) {
  // One value each time: what follows may be the job file.
  app_->add_option(name, *values, help)->allow_extra_args(false);
}

void Command::Rest(std::vector<std::string>* rest, const std::string* head) {
  rest_ = rest;
  head_ = head;
  app_->prefix_command();
}

Command* Command::Add(const std::string& name, const std::string& help,
                      const std::string& example) {
  CLI::App* app = app_->add_subcommand(name, help);
  app->allow_extras();
  if (!example.empty()) app->footer("Example:\n  " + example);
  children_.push_back(std::unique_ptr<Command>(new Command(app)));
  return children_.back().get();
}

absl::Status Command::Unknown(const std::string& word) const {
  std::vector<std::string> known;
  bool is_flag = absl::StartsWith(word, "-");
  if (is_flag) {
    for (const CLI::Option* option : app_->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        known.push_back("--" + name);
      }
    }
  } else {
    for (const CLI::App* app : app_->get_subcommands({})) {
      known.push_back(app->get_name());
    }
  }
  std::string shown = word.substr(0, word.find('='));
  const std::string mean = DidYouMean(shown, known);
  const bool misplaced = is_flag && rest_ != nullptr && mean.empty();
  return MakeError(
      ErrorCode::kUnknownFlag,
      absl::StrCat("unknown ", is_flag ? "flag " : "argument ", shown, mean,
                   misplaced ? "; flags of the job come after it" : ""));
}

Command* Command::Chosen() {
  for (const auto& child : children_) {
    if (child->app_->parsed()) return child->Chosen();
  }
  return this;
}

CommandLine::CommandLine(const std::string& name, const std::string& help,
                         const std::string& version)
    : app_(std::make_unique<CLI::App>(help, name)) {
  app_->allow_extras();
  app_->set_version_flag("--version", absl::StrCat(name, " ", version),
                         "Print the version and exit");
  root_.reset(new Command(app_.get()));
}

CommandLine::~CommandLine() = default;

absl::Status CommandLine::Parse(std::vector<std::string> args, bool* done) {
  *done = false;
  for (std::string& arg : args) arg = NormalizeFlag(std::move(arg));
  // A name that an empty variable of a script left out.
  for (size_t i = 0; i < args.size(); ++i) {
    const bool flag = absl::StartsWith(args[i], "--") &&
                      args[i].find('=') == args[i].size() - 1;
    if (!args[i].empty() && !flag) continue;
    const std::string which = flag ? absl::StrCat("of '", args[i], "'")
                              : i > 0
                                  ? absl::StrCat("after '", args[i - 1], "'")
                                  : std::string("at the start");
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat("the value ", which, " is empty"));
  }
  std::reverse(args.begin(), args.end());  // as CLI11 wants them
  try {
    app_->parse(args);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app_->help().c_str(), stdout);  // of the one that is chosen
    *done = true;
    return absl::OkStatus();
  } catch (const CLI::CallForVersion& version) {
    std::fprintf(stdout, "%s\n", version.what());
    *done = true;
    return absl::OkStatus();
  } catch (const CLI::ParseError& error) {
    // An unknown word explains a missing one better than the other way round.
    std::vector<std::string> extras = root_->Chosen()->app_->remaining();
    if (!extras.empty()) return root_->Chosen()->Unknown(extras[0]);
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat(error.what(), " (see --help)"));
  }
  Command* command = root_->Chosen();
  std::vector<std::string> extras = command->app_->remaining();
  if (command->rest_ != nullptr && !extras.empty() &&
      !(absl::StartsWith(extras[0], "-") && command->head_->empty())) {
    *command->rest_ = std::move(extras);
    return absl::OkStatus();
  }
  if (extras.empty()) extras = app_->remaining();
  if (!extras.empty()) return command->Unknown(extras[0]);
  return absl::OkStatus();
}

absl::Status CommandLine::ParseAndRun(std::vector<std::string> args) {
  bool done = false;
  absl::Status status = Parse(std::move(args), &done);
  if (!status.ok() || done) return status;
  Command* command = root_->Chosen();
  if (command->run_ != nullptr) {
    return CatchOutOfMemory("the command", command->run_);
  }
  std::fputs(app_->help().c_str(), stderr);
  return MakeError(ErrorCode::kUnknownFlag, "a command is missing");
}

int CommandLine::Main(int argc, char** argv) {
  status_ = ParseAndRun(std::vector<std::string>(argv + 1, argv + argc));
  // Results that nobody got are no success.
  if (const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
      lost && status_.ok()) {
    if (ReaderLeft()) return 128 + SIGPIPE;
    status_ = MakeError(ErrorCode::kWriteFailed, "cannot write to stdout");
  }
  if (!status_.ok()) std::fputs(FormatError(status_).c_str(), stderr);
  return ExitCodeOf(status_);
}

std::string FormatError(const absl::Status& status) {
  std::string name = ErrorName(ErrorCodeOf(status));
  return absl::StrCat("weft: error ", name, ": ", Printable(status.message()),
                      "\nweft: see docs/errors/", name, ".md\n");
}

}  // namespace weft
