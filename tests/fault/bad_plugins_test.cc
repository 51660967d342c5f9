// Plugins that may not be loaded, through the real command.

#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/base/os.h"
#include "core/base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/host/test_plugins.h"
#include "tests/e2e/harness.h"
#include "tests/fault/case.h"

namespace weft::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A program in the job's folder, with the plugins that belong to it: wherever
// tests run, below /tmp too, those may be trusted. The simulated device is
// there to be spoilt.
struct PluginCopy {
  explicit PluginCopy(const TestJob& job) : dir(job.File("lib/weft/plugins")) {
    namespace fs = std::filesystem;
    const std::string bin = job.File("bin");
    for (const std::string& made : {bin, dir}) {
      EXPECT_TRUE(RealOs().MakeDirectories(made).ok());
    }
    for (fs::path at = dir; at != job.folder(); at = at.parent_path()) {
      chmod(at.c_str(), 0755);
    }
    chmod(bin.c_str(), 0755);
    chmod(job.folder().c_str(), 0755);
    fs::copy_file(RunfilePath("tools/weft/weft"), JoinPath(bin, "weft"),
                  fs::copy_options::overwrite_existing);
    for (const char* file : {"libweft_cpu.so", "cpu.weftplugin.txtpb"}) {
      fs::copy_file(RunfilePath(JoinPath("devices/cpu", file)),
                    JoinPath(dir, file), fs::copy_options::overwrite_existing);
    }
    so = ReadText(RunfilePath("devices/sim/libweft_sim.so"));
    manifest = ReadText(RunfilePath("devices/sim/sim.weftplugin.txtpb"));
  }
  // With the manifest that belongs to what `so` now is.
  void Write(mode_t mode = 0644) {
    const size_t at = manifest.find("sha256: \"") + 9;
    WriteRaw(std::string(manifest).replace(at, 64, Sha256Hex(so)), mode);
  }
  void WriteRaw(const std::string& text, mode_t mode = 0644) {
    WriteText(JoinPath(dir, "libweft_sim.so"), so);
    WriteText(JoinPath(dir, "sim.weftplugin.txtpb"), text);
    chmod(JoinPath(dir, "libweft_sim.so").c_str(), mode);
  }
  // Field 0 of the note in the file: the ABI that it was made for.
  void SetAbiMajor(char major) {
    const std::string note("\5\0\0\0\24\0\0\0\1\0\0\0WEFT\0\0\0\0", 20);
    ASSERT_NE(so.find(note), std::string::npos);
    so[so.find(note) + note.size()] = major;
  }

  std::string dir, so, manifest;
};

TEST(BadPluginsTest, AreRefused) {
  auto sim = [](const std::string& device = "sim:0") {
    return Train({"devices=" + device});
  };
  auto install = [](const std::function<void(PluginCopy*)>& write) {
    return [=](const TestJob& job) {
      PluginCopy copy(job);
      write(&copy);
    };
  };
  CheckCases(
      "plugin", Mlp(),
      {
          {"not found",
           sim("toaster"),
           "WEFT-4001",
           5,
           {"'toaster'", "libweft_toaster.so"}},
          {"no such device", sim("sim:9"), "WEFT-4006", 5, {"sim", "9"}},
          {"bad name", sim(":0"), "WEFT-1005", 2, {"':0'"}},
          {"unknown option", sim("sim:0?teir=T0"), "WEFT-1005", 2, {"'teir'"}},
          {"relative path",
           sim(),
           "WEFT-4002",
           5,
           {"not absolute"},
           {},
           {{"WEFT_PLUGIN_PATH", "plugins"}}},
          {"world-writable",
           sim(),
           "WEFT-4002",
           5,
           {"libweft_sim.so", "0666"},
           install([](PluginCopy* p) { p->Write(0666); })},
          {"truncated",
           sim(),
           "WEFT-4003",
           5,
           {"libweft_sim.so", "truncated"},
           install([](PluginCopy* p) {
             p->so.resize(p->so.size() / 8);  // within the first segment
             p->Write();
           })},
          {"not a plugin",
           sim(),
           "WEFT-4003",
           5,
           {"libweft_sim.so", "ELF"},
           install([](PluginCopy* p) {
             p->so = std::string(5000, 'x');
             p->Write();
           })},
          {"wrong ABI",
           sim(),
           "WEFT-4004",
           5,
           {"libweft_sim.so", "ABI 2."},
           install([](PluginCopy* p) {
             p->SetAbiMajor(2);
             p->Write();
           })},
          {"not the file of the manifest",
           sim(),
           "WEFT-4005",
           5,
           {"sha256"},
           install([](PluginCopy* p) {
             p->so += "x";
             p->WriteRaw(p->manifest);
           })},
      });
  // The same copy without a defect works.
  TestJob job("plugin", Mlp());
  PluginCopy(job).Write();
  Ended good = job.Weft(sim()).Wait();
  EXPECT_EQ(good.exit_code, 0) << good.err;
}

// What a folder of plugins is worth is said where somebody asks.
TEST(BadPluginsTest, FoldersAreNamed) {
  TestJob job("folders", Mlp());
  PluginCopy copy(job);
  copy.Write();
  const std::string missing = job.File("missing");
  const std::string open = job.File("open");
  ASSERT_TRUE(RealOs().MakeDirectories(open).ok());
  WriteText(JoinPath(open, "libweft_sim.so"), "no plugin");
  chmod(open.c_str(), 0777);
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{"doctor"},
                                             {"plugin", "list", "--explain"}}) {
    const Environ path = {{"WEFT_PLUGIN_PATH", missing + ":" + open}};
    const Ended end = job.Weft(args, path).Wait();
    EXPECT_THAT(end.out, HasSubstr(missing)) << args[0];
    EXPECT_THAT(end.out, HasSubstr("No such file"));
    EXPECT_THAT(end.out, HasSubstr(open + ": writable by others (mode 0777)"));
    if (args[0] == "doctor") {
      EXPECT_EQ(end.exit_code, 5);
      EXPECT_THAT(end.err, HasSubstr("WEFT-4001"));
    } else {
      EXPECT_EQ(end.exit_code, 0);
      EXPECT_THAT(end.out, HasSubstr(JoinPath(open, "libweft_sim.so") +
                                     " comes first and is refused"));
      EXPECT_THAT(end.out, Not(HasSubstr("and is used")));
    }
  }
  // Without such folders nothing is said of folders.
  const Ended good = job.Weft({"plugin", "list", "--explain"}).Wait();
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_THAT(good.out, Not(HasSubstr("folder ")));
}

}  // namespace
}  // namespace weft::e2e
