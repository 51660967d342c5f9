// weft plugin list, ckpt ls | verify, doctor, env.

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/base/version.h"
#include "plugins/host/plugin.h"
#include "plugins/host/transport.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/pool/cores.h"
#include "runtime/rendezvous/worker_spec.h"
#include "tools/weft/commands.h"
#include "tools/weft/devices.h"
#include "tools/weft/launcher_flags.h"

namespace weft {
namespace {

// The verdict on a candidate, in full.
std::string Verdict(const PluginCandidate& c) {
  const std::string hidden =
      c.hidden_by.empty()
          ? ""
          : absl::StrCat("; not looked at: ", c.hidden_by,
                         " comes first and is ",
                         c.hidden_by_refused ? "refused" : "used");
  return absl::StrCat(c.verdict.ok() ? "ok" : c.verdict.message(), hidden);
}

// What a plugin is to a user: "device", "transport", "?" where its note could
// not be read.
std::string Kind(const PluginCandidate& c) {
  std::vector<absl::string_view> kinds;
  if ((c.roles & (1u << WEFT_SECTION_DEVICE)) != 0) kinds.push_back("device");
  if ((c.roles & (1u << WEFT_SECTION_TRANSPORT)) != 0) {
    kinds.push_back("transport");
  }
  return kinds.empty() ? "?" : absl::StrJoin(kinds, "+");
}

absl::Status ListPluginFiles(bool explain) {
  int usable = 0;
  for (const PluginCandidate& c : ListPlugins(PluginLoadOptions())) {
    usable += c.usable();
    if (!explain && !c.usable()) continue;
    if (c.is_directory()) {
      std::printf("folder   %s\n", c.path.c_str());
    } else {
      // A file that was not looked into says nothing of an ABI.
      const std::string abi =
          c.abi_major == 0 ? "?" : absl::StrCat(c.abi_major, ".", c.abi_minor);
      std::printf("%-8s %-9s ABI %s  %s\n", c.name.c_str(), Kind(c).c_str(),
                  abi.c_str(), c.path.c_str());
    }
    if (!explain) continue;
    std::printf("         %s\n", Verdict(c).c_str());
    if (!c.sha256.empty())
      std::printf("         sha256 %s\n", c.sha256.c_str());
  }
  if (usable == 0) {
    return MakeError(ErrorCode::kPluginNotFound,
                     "no usable plugin; weft plugin list --explain says why");
  }
  return absl::OkStatus();
}

absl::Status ListCheckpoints(const std::string& path, bool verify) {
  WEFT_ASSIGN_OR_RETURN(std::vector<checkpoint::Info> infos,
                        checkpoint::List(RealOs(), path));
  absl::Status worst;
  for (const checkpoint::Info& info : infos) {
    if (info.verdict.ok()) {
      std::printf("step %-10llu %8.1f MB  ok  %s\n",
                  static_cast<unsigned long long>(info.step), info.bytes / 1e6,
                  info.directory.c_str());
    } else {
      std::printf("damaged: %s  %s\n",
                  std::string(info.verdict.message()).c_str(),
                  info.directory.c_str());
      worst = info.verdict;
    }
  }
  return verify ? worst : absl::OkStatus();
}

// One line of the doctor's report; returns the status as it is.
absl::Status Report(absl::string_view what, const absl::Status& status,
                    absl::string_view detail) {
  std::string line =
      status.ok() ? absl::StrCat("ok      ", what, "  ", detail)
                  : absl::StrCat("broken  ", what, "  ", status.message());
  std::printf("%s\n", line.c_str());
  return status;
}

// Opens it; what it says of itself is added to `detail`.
absl::Status CheckDevice(const std::string& name, std::string* detail) {
  absl::StatusOr<JobDevices> devices =
      JobDevices::Open(name, PluginLoadOptions());
  if (!devices.ok()) return devices.status();
  absl::StrAppend(detail, "  ", devices->Describe());
  return absl::OkStatus();
}

absl::Status CheckTransport(const std::string& name, std::string* detail) {
  absl::StatusOr<const Plugin*> plugin =
      Plugin::Load(name, PluginLoadOptions());
  if (!plugin.ok()) return plugin.status();
  absl::StatusOr<Transport> transport = Transport::Create(**plugin);
  if (!transport.ok()) return transport.status();
  if (transport->info().in_process) {
    absl::StrAppend(detail, "  (within one process)");
  }
  return absl::OkStatus();
}

absl::Status CheckRunsDir(const std::string& dir) {
  Os& os = RealOs();
  absl::Status status = os.MakeDirectories(dir);
  std::string probe = JoinPath(dir, ".weft-doctor");
  if (status.ok()) status = WriteFileAtomically(os, probe, "");
  os.RemoveAll(probe).IgnoreError();
  return status.ok()
             ? status
             : MakeError(ErrorCode::kUnwritableRunDir, status.message());
}

absl::Status Doctor(const CommandContext& context) {
  const uint32_t cores = runtime::AvailableCores(RealOs());
  std::printf("weft %s, %u core%s\n", std::string(kVersion).c_str(), cores,
              cores == 1 ? "" : "s");
  absl::Status first;
  auto keep = [&first](const absl::Status& s) {
    if (first.ok()) first = s;
  };
  for (const PluginCandidate& c : ListPlugins(PluginLoadOptions())) {
    if (c.is_directory()) {
      keep(Report("plugin folder", c.verdict, c.path));
    } else if (c.hidden_by.empty()) {
      std::string detail = c.path;
      const bool transport = Kind(c) == "transport";
      absl::Status verdict = c.verdict;
      if (c.usable()) {
        verdict = transport ? CheckTransport(c.name, &detail)
                            : CheckDevice(c.name, &detail);
      }
      keep(Report(absl::StrCat(transport ? "transport " : "device ", c.name),
                  verdict, detail));
    }
  }
  std::string runs =
      UserPath(context.env, context.env.Get("WEFT_RUNS_DIR").value_or("runs"));
  keep(Report("run directory", CheckRunsDir(runs), runs));
  std::string data = "/usr/share/datasets/fashion-mnist";
  bool there = RealOs().Exists(JoinPath(data, "train-images-idx3-ubyte.gz"));
  Report("example data",
         there ? absl::OkStatus()
               : MakeError(ErrorCode::kDataMissing,
                           "not here; Debian package dataset-fashion-mnist"),
         data)
      .IgnoreError();
  return first;
}

void ListVariables(const Environment& env) {
  for (const WeftVariable& v : WeftVariables()) {
    // Which are set: a forgotten one explains much.
    const bool set = env.Get(std::string(v.name)).has_value();
    std::printf("%c %-18s %s\n", set ? '*' : ' ', std::string(v.name).c_str(),
                std::string(v.help).c_str());
  }
}

// What a rank that was started like this command would be.
absl::Status ShowEnvironment(const CommandContext& context,
                             const runtime::LauncherFlags& flags) {
  ListVariables(context.env);
  WEFT_ASSIGN_OR_RETURN(runtime::WorkerSpec spec,
                        runtime::WorkerSpecFrom(context.env, flags));
  const uint32_t cores = runtime::AvailableCores(RealOs());
  std::printf("this process: %s; threads %u of %u cores\n",
              runtime::Describe(spec).c_str(),
              runtime::ThreadsPerRank(cores, spec), cores);
  return absl::OkStatus();
}

}  // namespace

void AddInfoCommands(CommandLine* line, CommandContext* context) {
  auto explain = std::make_shared<bool>(false);
  Command* list =
      line->Add("plugin", "Device and transport plugins.", "weft plugin list")
          ->Add("list", "Lists the plugins that can be used.",
                "weft plugin list --explain");
  list->Flag("--explain", explain.get(),
             "every candidate with its verdict and reason");
  list->Run([explain] { return ListPluginFiles(*explain); });

  auto path = std::make_shared<std::string>();
  Command* ckpt = line->Add("ckpt", "Checkpoints.", "weft ckpt ls runs/my-run");
  for (bool verify : {false, true}) {
    Command* command = ckpt->Add(
        verify ? "verify" : "ls",
        verify ? "Fails where a checkpoint is damaged." : "Lists checkpoints.",
        absl::StrCat("weft ckpt ", verify ? "verify" : "ls",
                     " runs/fashion-mlp-20260102-030405"));
    command->Positional("path", path.get(), "run directory or checkpoint");
    command->Run(
        [=] { return ListCheckpoints(UserPath(context->env, *path), verify); });
  }

  line->Add("doctor", "Checks plugins, directories and data.", "weft doctor")
      ->Run([context] { return Doctor(*context); });
  auto flags = std::make_shared<runtime::LauncherFlags>();
  Command* env = line->Add(
      "env",
      "Lists the environment variables that Weft reads, and says of which job "
      "this process is a rank.",
      "mpirun -n 2 weft env");
  AddLauncherFlags(env, flags.get());
  env->Run([context, flags] { return ShowEnvironment(*context, *flags); });
}

}  // namespace weft
