#include "tools/weft_opt/weft_opt.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/pass/registry.h"
#include "core/base/error.h"
#include "core/base/os.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"
#include "core/graph/text.h"

namespace weft {
namespace {

struct Options {
  std::string file = "-";
  std::vector<std::string> passes;
  std::string pipeline;
  std::string dump_to;
  std::string dump_passes = ".*";
  std::vector<std::string> decompose;
  bool training = false;
  bool provenance = false;
  PassSettings settings;
};

std::string Footer() {
  std::string text = "Passes:\n";
  for (const PassInfo& info : ListPasses()) {
    absl::StrAppend(
        &text, "  ", info.name,
        std::string(22 - std::min<size_t>(20, info.name.size()), ' '),
        info.summary, "\n");
  }
  absl::StrAppend(&text, R"(
Example:
  echo 'graph "g" {
    %x = weft.Input() {dtype: f32, shape: [4]}
    %a = Neg(%x)
    %b = Neg(%a)
    %y = weft.Output(%b) {name: "y"}
  }' | weft-opt --passes=algebraic_simplify,dce
)");
  return text;
}

void Declare(CLI::App* app, Options* o) {
  app->add_option("file", o->file, "graph text; - reads standard input");
  // One value each: what follows may be the file.
  app->add_option("--passes", o->passes, "names, with commas between them")
      ->delimiter(',')
      ->allow_extra_args(false);
  app->add_option("--pipeline", o->pipeline, "default, or none");
  app->add_option("--dump-to,--dump_to", o->dump_to,
                  "directory for the graph before and after each pass");
  app->add_option("--dump-passes,--dump_passes", o->dump_passes,
                  "regular expression: passes to dump");
  app->add_option("--decompose", o->decompose,
                  "for the pass decompose: only these operators")
      ->delimiter(',')
      ->allow_extra_args(false);
  app->add_flag("--training", o->training,
                "for the pass set_mode: the training form");
  app->add_option("--seed", o->settings.seed, "for the pass set_mode");
  app->add_flag("--provenance", o->provenance,
                "print which pass made each node");
  app->footer(Footer());
}

// A word that CLI11 knows no meaning for.
absl::Status UnknownArgument(const CLI::App& app,
                             const std::vector<std::string>& args) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) continue;
    known.push_back(option->get_name());
  }
  for (const std::string& arg : args) {
    std::string flag = arg.substr(0, arg.find('='));
    if (!absl::StartsWith(flag, "-") || flag == "-") continue;
    if (std::find(known.begin(), known.end(), flag) != known.end()) continue;
    return MakeError(
        ErrorCode::kUnknownFlag,
        absl::StrCat("unknown flag ", flag, DidYouMean(flag, known)));
  }
  return MakeError(ErrorCode::kUnknownFlag, "more arguments than one file");
}

absl::StatusOr<std::string> ReadText(const std::string& file,
                                     std::istream& in) {
  if (file == "-") {
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  auto text = RealOs().ReadFile(file, ParseLimits().bytes);
  if (text.ok()) return text;
  return MakeError(ErrorCode::kDataMissing, text.status().message());
}

absl::StatusOr<Pipeline> ChoosePipeline(const Options& o) {
  PipelineOptions options;
  options.dump_to = o.dump_to;
  options.dump_passes = o.dump_passes;
  if (!o.passes.empty() && !o.pipeline.empty()) {
    return MakeError(ErrorCode::kBadValue,
                     "give --passes or --pipeline, not both");
  }
  if (!o.passes.empty()) return MakePipeline(o.passes, options);
  return MakeNamedPipeline(o.pipeline.empty() ? "none" : o.pipeline, options);
}

absl::StatusOr<PassSettings> ChooseSettings(const Options& o) {
  PassSettings settings = o.settings;
  settings.training = o.training;
  for (const std::string& op : o.decompose) {
    WEFT_RETURN_IF_ERROR(OpRegistry::Global().Find(op).status());
  }
  if (!o.decompose.empty()) {
    settings.decompose = [ops = o.decompose](const Node& node) {
      return std::find(ops.begin(), ops.end(), node.op()) != ops.end();
    };
  }
  return settings;
}

absl::StatusOr<std::string> Optimize(const Options& o, std::istream& in) {
  WEFT_ASSIGN_OR_RETURN(Pipeline pipeline, ChoosePipeline(o));
  PassContext context;
  WEFT_ASSIGN_OR_RETURN(context.settings, ChooseSettings(o));
  WEFT_ASSIGN_OR_RETURN(std::string text, ReadText(o.file, in));
  absl::StatusOr<Graph> graph = ParseGraph(text);
  if (!graph.ok()) {
    return Annotate(graph.status(), o.file == "-" ? "standard input" : o.file);
  }
  WEFT_RETURN_IF_ERROR(pipeline.Run(*graph, context).status());
  PrintOptions print;
  print.provenance = o.provenance;
  return PrintGraph(*graph, print);
}

// Fills `o`; *help is the text asked for, if any.
absl::Status ParseArgs(const std::vector<std::string>& args, Options* o,
                       std::string* help) {
  CLI::App app("Runs compiler passes on the text of a graph and prints it.",
               "weft-opt");
  Declare(&app, o);
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  // CLI11 reports by exceptions: they end here.
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    *help = app.help();
  } catch (const CLI::ExtrasError&) {
    return UnknownArgument(app, args);
  } catch (const CLI::Error& error) {
    return MakeError(ErrorCode::kBadValue, error.what());
  }
  return absl::OkStatus();
}

}  // namespace

int WeftOpt(const std::vector<std::string>& args, std::istream& in,
            std::ostream& out, std::ostream& err) {
  Options options;
  std::string help;
  absl::Status status = ParseArgs(args, &options, &help);
  if (status.ok() && !help.empty()) {
    out << help;
    return 0;
  }
  if (status.ok()) {
    absl::StatusOr<std::string> text = Optimize(options, in);
    if (text.ok()) out << *text;
    status = text.status();
  }
  if (status.ok()) return 0;
  err << "weft-opt: error " << ErrorName(ErrorCodeOf(status)) << ": "
      << status.message() << "\n";
  return ExitCodeOf(status);
}

}  // namespace weft
