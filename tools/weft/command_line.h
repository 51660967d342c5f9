// Command lines: subcommands, flags and help, by CLI11, whose exceptions and
// messages stay behind this header.
//
//   CommandLine line("tool", "What it is for.");
//   Command* add = line.Add("add", "Adds a file.", "tool add --dry notes.txt");
//   add->Positional("file", &file, "the file");
//   add->Flag("--dry", &dry, "only says what it would do");
//   add->Run([&] { return AddFile(file, dry); });
//   int code = line.Main(argc, argv);
//
// An unknown command or flag is kUnknownFlag with "did you mean"; a missing or
// malformed value kBadValue. Main() prints an error as
//   weft: error WEFT-1001: unknown flag --epoch; did you mean '--epochs'?
// and returns its exit code, or quietly 141, as of SIGPIPE, where whoever read
// stdout went away before the end. `--set a=b` and `--set=a=b`, dashes and
// underscores in flag names are the same.
//
// Threading: one thread.
#ifndef WEFT_TOOLS_WEFT_COMMAND_LINE_H_
#define WEFT_TOOLS_WEFT_COMMAND_LINE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace weft {

class Command {
 public:
  ~Command();

  // Required, unless `optional`.
  void Positional(const std::string& name, std::string* value,
                  const std::string& help, bool optional = false);
  void Flag(const std::string& name, bool* value, const std::string& help);
  void Option(const std::string& name, std::string* value,
              const std::string& help);
  void Option(const std::string& name, uint64_t* value,
              const std::string& help);
  // May be given several times.
  void Option(const std::string& name, std::vector<std::string>* values,
              const std::string& help);

  // Takes the first argument that is no flag, and all that follow, as they are:
  // another command's. None of them may come before, unless `head`, the value
  // of an option, stands for the first: then they may all be flags.
  void Rest(std::vector<std::string>* rest, const std::string* head);

  Command* Add(const std::string& name, const std::string& help,
               const std::string& example);
  void Run(std::function<absl::Status()> run) { run_ = std::move(run); }

 private:
  friend class CommandLine;
  explicit Command(CLI::App* app) : app_(app) {}
  absl::Status Unknown(const std::string& word) const;
  Command* Chosen();

  CLI::App* app_;
  std::vector<std::string>* rest_ = nullptr;  // null: nothing may be left
  const std::string* head_ = nullptr;         // where there is a rest_
  std::function<absl::Status()> run_;
  std::vector<std::unique_ptr<Command>> children_;
};

class CommandLine {
 public:
  // `version`: what --version prints after the name.
  CommandLine(const std::string& name, const std::string& help,
              const std::string& version);
  ~CommandLine();

  Command* Add(const std::string& name, const std::string& help,
               const std::string& example) {
    return root_->Add(name, help, example);
  }

  // Parses and runs. Help and version go to stdout and are a success.
  absl::Status ParseAndRun(std::vector<std::string> args);
  int Main(int argc, char** argv);
  // Of Main.
  const absl::Status& status() const { return status_; }

 private:
  absl::Status Parse(std::vector<std::string> args, bool* done);

  std::unique_ptr<CLI::App> app_;
  std::unique_ptr<Command> root_;
  absl::Status status_;
};

// "--a_b=c_d" -> "--a-b=c_d": what is no flag stays as it is.
std::string NormalizeFlag(std::string arg);

// "weft: error WEFT-5001: ..." and a line that names the error's page.
std::string FormatError(const absl::Status& status);

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_COMMAND_LINE_H_
