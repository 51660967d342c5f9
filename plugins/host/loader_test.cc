// Files that must load, and files that must not: each bad one is a copy of a
// good plugin with one defect.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/os.h"
#include "core/types/dtype.h"
#include "plugins/host/elf_file.h"
#include "plugins/host/plugin.h"
#include "plugins/host/test_plugins.h"

namespace weft {
namespace {

std::string MustRead(const std::string& path) {
  absl::StatusOr<std::string> text = RealOs().ReadFile(path, 1 << 28);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : "";
}

std::string GoodPlugin() {
  return MustRead(RunfilePath("devices/null/libweft_null.so"));
}

// Patches the WEFT note's 32-bit field number `field` (0: abi_major).
std::string WithNoteField(std::string so, int field, uint32_t value) {
  const std::string owner("\5\0\0\0\24\0\0\0\1\0\0\0WEFT\0\0\0\0", 20);
  const size_t at = so.find(owner);
  EXPECT_NE(at, std::string::npos);
  std::memcpy(&so[at + owner.size() + 4 * field], &value, 4);
  return so;
}

// Patches the 32-bit field number `field` of the plugin's table (1: magic).
std::string WithTableField(std::string so, int field, uint32_t value) {
  const uint32_t head[3] = {sizeof(weft_plugin), WEFT_PLUGIN_MAGIC,
                            WEFT_ABI_MAJOR};
  const size_t at =
      so.find(std::string(reinterpret_cast<const char*>(head), sizeof(head)));
  EXPECT_NE(at, std::string::npos);
  std::memcpy(&so[at + 4 * field], &value, 4);
  return so;
}

class LoaderTest : public testing::Test {
 protected:
  LoaderTest() {
    dir_ = std::string(std::getenv("TEST_TMPDIR")) + "/" +
           testing::UnitTest::GetInstance()->current_test_info()->name();
    EXPECT_TRUE(RealOs().RemoveAll(dir_).ok());
    EXPECT_TRUE(RealOs().MakeDirectories(dir_).ok());
    chmod(dir_.c_str(), 0755);
    options_.path_policy.allow_sticky_parents = true;
    options_.default_dirs = {{dir_, options_.path_policy}};
    unsetenv("WEFT_PLUGIN_PATH");
  }

  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = dir_ + "/" + name;
    EXPECT_TRUE(WriteFileAtomically(RealOs(), path, bytes).ok());
    chmod(path.c_str(), 0644);
    return path;
  }

  // A copy of the good plugin with the manifest that the build made.
  void Install() {
    Write("libweft_null.so", GoodPlugin());
    Write("null.weftplugin.txtpb",
          MustRead(RunfilePath("devices/null/null.weftplugin.txtpb")));
  }

  void ExpectError(const std::string& name, ErrorCode code,
                   const std::string& part) {
    absl::StatusOr<const Plugin*> plugin = Plugin::Load(name, options_);
    ASSERT_FALSE(plugin.ok());
    EXPECT_TRUE(IsError(plugin.status(), code)) << plugin.status();
    EXPECT_NE(plugin.status().message().find(part), std::string::npos)
        << plugin.status();
  }

  std::string dir_;
  LoadOptions options_;
};

TEST_F(LoaderTest, DTypeIdsAreTheAbis) {
  EXPECT_EQ(static_cast<uint32_t>(DType::kF32), WEFT_F32);
  EXPECT_EQ(static_cast<uint32_t>(DType::kF16), WEFT_F16);
  EXPECT_EQ(static_cast<uint32_t>(DType::kBF16), WEFT_BF16);
  EXPECT_EQ(static_cast<uint32_t>(DType::kF64), WEFT_F64);
  EXPECT_EQ(static_cast<uint32_t>(DType::kI8), WEFT_I8);
  EXPECT_EQ(static_cast<uint32_t>(DType::kU8), WEFT_U8);
  EXPECT_EQ(static_cast<uint32_t>(DType::kI16), WEFT_I16);
  EXPECT_EQ(static_cast<uint32_t>(DType::kI32), WEFT_I32);
  EXPECT_EQ(static_cast<uint32_t>(DType::kI64), WEFT_I64);
  EXPECT_EQ(static_cast<uint32_t>(DType::kBool), WEFT_BOOL);
  EXPECT_EQ(kNumDTypes, WEFT_BOOL + 1) << "a dtype without an id in the ABI";
}

TEST_F(LoaderTest, LoadsAnInstalledPluginOnce) {
  Install();
  absl::StatusOr<const Plugin*> plugin = Plugin::Load("null", options_);
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  EXPECT_EQ((*plugin)->name(), "null");
  EXPECT_EQ((*plugin)->vendor(), "weft");
  EXPECT_EQ((*plugin)->path(), dir_ + "/libweft_null.so");
  EXPECT_EQ((*plugin)->sha256().size(), 64u);
  EXPECT_EQ((*plugin)->DeviceCount(), 2u);
  EXPECT_TRUE((*plugin)->has_compute());
  EXPECT_EQ((*plugin)->Section(WEFT_SECTION_TRANSPORT), nullptr);
  EXPECT_EQ(Plugin::Load("null", options_).value(), *plugin);
  EXPECT_EQ(Plugin::Load(dir_ + "/libweft_null.so", options_).value(), *plugin);
}

TEST_F(LoaderTest, ThreadsStayWhereTheyMayRun) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  absl::StatusOr<const Plugin*> plugin =
      Plugin::Load("binds_itself", TestLoadOptions({"plugins/host"}));
  EXPECT_TRUE(IsError(plugin.status(), ErrorCode::kPluginAbi))
      << plugin.status();
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST_F(LoaderTest, LoadsFromTheRunfilesTree) {
  EXPECT_TRUE(Plugin::Load("null", TestLoadOptions({"devices/null"})).ok());
  EXPECT_TRUE(Plugin::Load("null", TestLoadOptions({"devices"})).ok());
}

TEST_F(LoaderTest, EnvironmentComesBeforeTheDefault) {
  Install();
  options_.default_dirs = {{"/nowhere", {}}};
  setenv("WEFT_PLUGIN_PATH", dir_.c_str(), 1);
  EXPECT_TRUE(Plugin::Load("null", options_).ok());
  setenv("WEFT_PLUGIN_PATH", ".:plugins", 1);
  options_.default_dirs = {{dir_, options_.path_policy}};
  ExpectError("null", ErrorCode::kPluginRefused, "'.' is not absolute");
}

TEST_F(LoaderTest, NotFoundNamesTheDirectories) {
  ExpectError("toaster", ErrorCode::kPluginNotFound, dir_);
  ExpectError("/nowhere/libweft_x.so", ErrorCode::kPluginNotFound, "/nowhere");
}

TEST_F(LoaderTest, OnlyANamedFileMayLackAManifest) {
  const std::string path = Write("libweft_null.so", GoodPlugin());
  ExpectError("null", ErrorCode::kPluginManifest, "no manifest");
  EXPECT_TRUE(Plugin::Load(path, options_).ok());
}

TEST_F(LoaderTest, ManifestOfAnotherFile) {
  Install();
  Write("libweft_null.so", GoodPlugin() + "x");
  ExpectError("null", ErrorCode::kPluginManifest, "sha256");
  // An explicit path does not excuse a manifest that is there and wrong.
  ExpectError(dir_ + "/libweft_null.so", ErrorCode::kPluginManifest, "sha256");
}

TEST_F(LoaderTest, ManifestThatIsNotOne) {
  Install();
  Write("null.weftplugin.txtpb", "name: \"null\"\nsha265: \"x\"\n");
  ExpectError("null", ErrorCode::kPluginManifest, "line 2");
}

TEST_F(LoaderTest, ManifestWithOtherRolesOrSoname) {
  Install();
  std::string text =
      MustRead(RunfilePath("devices/null/null.weftplugin.txtpb"));
  Write("null.weftplugin.txtpb", text + "roles: \"transport\"\n");
  ExpectError("null", ErrorCode::kPluginManifest, "transport");
  const std::string soname = "soname: \"libweft_null.so\"";
  ASSERT_NE(text.find(soname), std::string::npos);
  Write("null.weftplugin.txtpb",
        text.replace(text.find(soname), soname.size(), "soname: \"libc.so\""));
  ExpectError("null", ErrorCode::kPluginManifest, "libc.so");
}

TEST_F(LoaderTest, WritableByOthers) {
  Install();
  chmod((dir_ + "/libweft_null.so").c_str(), 0666);
  ExpectError("null", ErrorCode::kPluginRefused, "mode 0666");
  chmod((dir_ + "/libweft_null.so").c_str(), 0664);
  ExpectError("null", ErrorCode::kPluginRefused, "mode 0664");
  chmod((dir_ + "/libweft_null.so").c_str(), 0644);
  chmod((dir_ + "/null.weftplugin.txtpb").c_str(), 0666);
  ExpectError("null", ErrorCode::kPluginRefused, "txtpb");
  chmod((dir_ + "/null.weftplugin.txtpb").c_str(), 0644);
  chmod(dir_.c_str(), 0777);
  ExpectError("null", ErrorCode::kPluginRefused, "mode 0777");
  chmod(dir_.c_str(), 01777);  // sticky: as /tmp
  EXPECT_TRUE(Plugin::Load("null", options_).ok());
  options_.default_dirs[0].policy.allow_sticky_parents = false;
  ExpectError("null", ErrorCode::kPluginRefused, "writable by others");
}

// What is allowed of the directory beside the program is not allowed of one
// that the environment names, nor of a file that is named by its path.
TEST_F(LoaderTest, EachDirectoryHasItsOwnRules) {
  Install();
  chmod(dir_.c_str(), 01777);
  options_.path_policy.allow_sticky_parents = false;
  EXPECT_TRUE(Plugin::Load("null", options_).ok());
  ExpectError(dir_ + "/libweft_null.so", ErrorCode::kPluginRefused,
              "writable by others");
  setenv("WEFT_PLUGIN_PATH", dir_.c_str(), 1);
  ExpectError("null", ErrorCode::kPluginRefused, "writable by others");
  std::vector<PluginCandidate> all = ListPlugins(options_);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(all[0].is_directory());
  EXPECT_TRUE(IsError(all[0].verdict, ErrorCode::kPluginRefused));
  EXPECT_NE(all[0].verdict.message().find("mode 1777"), std::string::npos);
  EXPECT_FALSE(all[1].usable());
  // Good, but none of this name is loaded.
  EXPECT_EQ(all[2].verdict, absl::OkStatus());
  EXPECT_FALSE(all[2].usable());
  EXPECT_EQ(all[2].hidden_by, all[1].path);
  EXPECT_TRUE(all[2].hidden_by_refused);
  unsetenv("WEFT_PLUGIN_PATH");
}

TEST_F(LoaderTest, AnotherUsersFile) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  Install();
  if (chown((dir_ + "/libweft_null.so").c_str(), 12345, 12345) != 0) {
    GTEST_SKIP() << "no such user in this name space";
  }
  ExpectError("null", ErrorCode::kPluginRefused, "12345");
}

TEST_F(LoaderTest, LinkOutOfItsDirectory) {
  Install();
  const std::string other = dir_ + "/other";
  ASSERT_TRUE(RealOs().MakeDirectories(other).ok());
  chmod(other.c_str(), 0755);
  const std::string link = other + "/libweft_null.so";
  ASSERT_EQ(symlink("../libweft_null.so", link.c_str()), 0);
  ExpectError(link, ErrorCode::kPluginRefused, "is a link to");
  // Within the directory a link is a second name.
  ASSERT_EQ(symlink("libweft_null.so", (dir_ + "/libalias.so").c_str()), 0);
  EXPECT_TRUE(Plugin::Load(dir_ + "/libalias.so", options_).ok());
  ExpectError(dir_, ErrorCode::kPluginRefused, "not a regular file");
}

TEST_F(LoaderTest, RelativePath) {
  ExpectError("./libweft_null.so", ErrorCode::kPluginRefused, "absolute");
}

TEST_F(LoaderTest, ForeignFiles) {
  ExpectError(Write("libempty.so", ""), ErrorCode::kPluginBroken, "too short");
  ExpectError(Write("libtext.so", std::string(4096, 'x')),
              ErrorCode::kPluginBroken, "not an ELF file");
  std::string so = GoodPlugin();
  so[18] = 8;  // e_machine: MIPS
  ExpectError(Write("libmips.so", so), ErrorCode::kPluginBroken,
              "another machine");
  ExpectError("/bin/sh", ErrorCode::kPluginBroken, "");
}

TEST_F(LoaderTest, TruncatedAnywhere) {
  const std::string so = GoodPlugin();
  for (size_t size = 0; size < so.size(); size += 1 + size / 7) {
    absl::StatusOr<ElfFile> elf = ParseElf(so.substr(0, size), "cut");
    EXPECT_TRUE(IsError(elf.status(), ErrorCode::kPluginBroken)) << size;
  }
  EXPECT_TRUE(IsError(ParseElf(so.substr(0, so.size() - 1), "cut").status(),
                      ErrorCode::kPluginBroken));
  ExpectError(Write("libcut.so", so.substr(0, so.size() / 2)),
              ErrorCode::kPluginBroken, "truncated");
}

// Damaged headers must give an answer, whatever it is.
TEST_F(LoaderTest, DamagedBytesNeverCrashTheReader) {
  const std::string so = GoodPlugin();
  uint32_t random = 1;
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bad = so.substr(0, std::min<size_t>(so.size(), 1 << 16));
    for (int i = 0; i < 4; ++i) {
      random = random * 1664525u + 1013904223u;
      bad[(random >> 8) % 4096] = static_cast<char>(random >> 24);
    }
    if (!ParseElf(bad, "bad").ok()) ++refused;
  }
  EXPECT_GT(refused, 0);
}

TEST_F(LoaderTest, TwoExportedSymbols) {
  const std::string so = MustRead(RunfilePath("plugins/host/libweft_two.so"));
  ExpectError(Write("libtwo.so", so), ErrorCode::kPluginBroken,
              "weft_another_symbol");
}

TEST_F(LoaderTest, NoNote) {
  std::string so = GoodPlugin();
  const size_t at = so.find(std::string("\1\0\0\0WEFT\0", 9));
  ASSERT_NE(at, std::string::npos);
  so[at + 4] = 'L';  // somebody else's note
  ExpectError(Write("libbare.so", so), ErrorCode::kPluginBroken,
              "no WEFT note");
}

TEST_F(LoaderTest, NoteOfAnotherAbiOrBuild) {
  const std::string so = GoodPlugin();
  ExpectError(Write("liba.so", WithNoteField(so, 0, 2)), ErrorCode::kPluginAbi,
              "made for plugin ABI 2.0, this is 1.");
  ExpectError(
      Write("libb.so", WithNoteField(so, 2, WEFT_BUILD_TSAN | WEFT_BUILD_ASAN)),
      ErrorCode::kPluginAbi, "sanitizer");
  ExpectError(Write("libc.so", WithNoteField(so, 3, 99)), ErrorCode::kPluginAbi,
              "instructions");
  // A newer minor is welcome.
  EXPECT_TRUE(
      Plugin::Load(Write("libd.so", WithNoteField(so, 1, 7)), options_).ok());
}

TEST_F(LoaderTest, TableUnlikeItsNote) {
  const std::string so = GoodPlugin();
  ExpectError(Write("libroles.so", WithNoteField(so, 4, 1u << 1)),
              ErrorCode::kPluginManifest, "'compute'");
  ExpectError(Write("libmagic.so", WithTableField(so, 1, 0x12345678)),
              ErrorCode::kPluginBroken, "0x12345678");
  ExpectError(Write("libmajor.so", WithTableField(so, 2, 3)),
              ErrorCode::kPluginAbi, "offers plugin ABI 3.0");
  ExpectError(Write("libsize.so", WithTableField(so, 0, 40)),
              ErrorCode::kPluginBroken, "40 bytes");
}

TEST_F(LoaderTest, ListSaysWhy) {
  Install();
  Write("libweft_broken.so", "nothing");
  ASSERT_TRUE(RealOs().MakeDirectories(dir_ + "/null").ok());
  Write("null/libweft_null.so", GoodPlugin());
  setenv("WEFT_PLUGIN_PATH", "relative", 1);
  std::vector<PluginCandidate> list = ListPlugins(options_);
  ASSERT_EQ(list.size(), 4u);
  EXPECT_TRUE(list[0].is_directory());
  EXPECT_NE(list[0].verdict.message().find("not absolute"), std::string::npos);
  EXPECT_EQ(list[1].name, "broken");
  EXPECT_FALSE(list[1].usable());
  EXPECT_NE(list[1].verdict.message().find("too short"), std::string::npos);
  EXPECT_EQ(list[1].sha256.size(), 64u);
  EXPECT_EQ(list[2].name, "null");
  EXPECT_TRUE(list[2].usable()) << list[2].verdict;
  EXPECT_EQ(list[2].hidden_by, "");
  EXPECT_EQ(list[2].abi_major, WEFT_ABI_MAJOR);
  EXPECT_EQ(list[2].roles, 0b11110u);
  EXPECT_FALSE(list[3].usable());
  EXPECT_FALSE(list[3].verdict.ok()) << "no manifest beside it";
  EXPECT_EQ(list[3].hidden_by, list[2].path);
  EXPECT_FALSE(list[3].hidden_by_refused);
}

TEST_F(LoaderTest, ListNamesDirectoriesThatGiveNothing) {
  const std::string file = Write("notes.txt", "nothing");
  const std::string missing = dir_ + "/missing";
  setenv("WEFT_PLUGIN_PATH", (missing + ":" + file).c_str(), 1);
  const std::vector<PluginCandidate> list = ListPlugins(options_);
  unsetenv("WEFT_PLUGIN_PATH");
  const std::vector<std::pair<std::string, std::string>> expected = {
      {missing, "No such file"},
      {file, "Not a directory"},
      {dir_, "holds no plugin"}};
  ASSERT_EQ(list.size(), expected.size());
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_TRUE(list[i].is_directory());
    EXPECT_FALSE(list[i].usable());
    EXPECT_EQ(list[i].path, expected[i].first);
    EXPECT_NE(list[i].verdict.message().find(expected[i].second),
              std::string::npos)
        << list[i].verdict;
  }
}

}  // namespace
}  // namespace weft
