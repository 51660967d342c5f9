#include "plugins/host/inspect.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/error.h"
#include "core/base/os.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "plugins/host/manifest.pb.h"
#include "plugins/host/services.h"
#include "plugins/host/trusted_path.h"

namespace weft {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{4} << 30;
constexpr uint64_t kMaxManifestBytes = 1 << 20;
constexpr absl::string_view kEntry = "weft_plugin_query";

constexpr std::pair<uint32_t, absl::string_view> kSections[] = {
    {WEFT_SECTION_DEVICE, "device"}, {WEFT_SECTION_COMPUTE, "compute"},
    {WEFT_SECTION_MEM2, "mem2"},     {WEFT_SECTION_SYNC2, "sync2"},
    {WEFT_SECTION_PEER, "peer"},     {WEFT_SECTION_EXEC, "exec"},
    {WEFT_SECTION_COLL, "coll"},     {WEFT_SECTION_PROF, "prof"},
    {WEFT_SECTION_DIAG, "diag"},     {WEFT_SECTION_TRANSPORT, "transport"}};

absl::string_view Sanitizer(uint32_t build_flags) {
  if ((build_flags & WEFT_BUILD_ASAN) != 0) return "address sanitizer";
  if ((build_flags & WEFT_BUILD_TSAN) != 0) return "thread sanitizer";
  return "no sanitizer";
}

bool HasIsa(uint32_t isa) {
  switch (isa) {
    case WEFT_ISA_BASELINE:
      return true;
#if defined(__x86_64__)
    case WEFT_ISA_AVX2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case WEFT_ISA_AVX512:
      return __builtin_cpu_supports("avx512f");
#endif
    default:
      return false;
  }
}

absl::Status CheckExports(const InspectedFile& file) {
  const std::vector<std::string>& exports = file.elf.exports;
  if (exports.size() == 1 && exports[0] == kEntry) return absl::OkStatus();
  std::vector<std::string> few(
      exports.begin(), exports.begin() + std::min<size_t>(exports.size(), 5));
  return MakeError(
      ErrorCode::kPluginBroken,
      absl::StrCat(file.path, ": exports ", exports.size(), " symbols (",
                   absl::StrJoin(few, ", "), "); a plugin exports ", kEntry,
                   " and nothing else"));
}

absl::Status CheckNote(const InspectedFile& file) {
  if (!file.elf.note.has_value()) {
    return MakeError(ErrorCode::kPluginBroken,
                     absl::StrCat(file.path,
                                  ": has no WEFT note; it is not a "
                                  "plugin, or its note was removed"));
  }
  const weft_note& note = *file.elf.note;
  if (note.abi_major != WEFT_ABI_MAJOR) {
    return MakeError(
        ErrorCode::kPluginAbi,
        absl::StrCat(file.path, ": made for plugin ABI ", note.abi_major, ".",
                     note.abi_minor, ", this is ", WEFT_ABI_MAJOR, ".",
                     WEFT_ABI_MINOR));
  }
  if (note.build_flags != HostServices::BuildFlags()) {
    return MakeError(
        ErrorCode::kPluginAbi,
        absl::StrCat(file.path, ": built with ", Sanitizer(note.build_flags),
                     ", this program with ",
                     Sanitizer(HostServices::BuildFlags())));
  }
  if (!HasIsa(note.isa)) {
    return MakeError(ErrorCode::kPluginAbi,
                     absl::StrCat(file.path, ": needs instructions (kind ",
                                  note.isa, ") that this processor lacks"));
  }
  return absl::OkStatus();
}

// Keeps the first error of a text proto instead of logging it.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat("line ", line + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

absl::Status Disagree(const std::string& manifest, absl::string_view what,
                      absl::string_view says, absl::string_view is) {
  return MakeError(ErrorCode::kPluginManifest,
                   absl::StrCat(manifest, ": ", what, " is '", says,
                                "', the file has '", is, "'"));
}

absl::Status CompareManifest(const std::string& path,
                             const plugin::Manifest& manifest,
                             const InspectedFile& file) {
  const std::string base = file.path.substr(file.path.rfind('/') + 1);
  if (manifest.file() != base) {
    return Disagree(path, "file", manifest.file(), base);
  }
  if (manifest.sha256() != file.sha256) {
    return Disagree(path, "sha256", manifest.sha256(), file.sha256);
  }
  if (manifest.soname() != file.elf.soname) {
    return Disagree(path, "soname", manifest.soname(), file.elf.soname);
  }
  if (manifest.name() != file.name) {
    return Disagree(path, "name", manifest.name(), file.name);
  }
  std::vector<std::string> says(manifest.roles().begin(),
                                manifest.roles().end());
  std::vector<std::string> has = RoleNames(file.elf.note->roles);
  std::sort(says.begin(), says.end());
  std::sort(has.begin(), has.end());
  if (says != has) {
    return Disagree(path, "roles", absl::StrJoin(says, " "),
                    absl::StrJoin(has, " "));
  }
  return absl::OkStatus();
}

absl::Status CheckManifest(const InspectedFile& file, bool needs_manifest,
                           const PathPolicy& policy) {
  const std::string path =
      absl::StrCat(file.path.substr(0, file.path.rfind('/') + 1), file.name,
                   ".weftplugin.txtpb");
  if (!RealOs().Exists(path)) {
    if (!needs_manifest) return absl::OkStatus();
    return MakeError(ErrorCode::kPluginManifest,
                     absl::StrCat(file.path, ": has no manifest ", path,
                                  "; only a file named by its path may go "
                                  "without"));
  }
  WEFT_RETURN_IF_ERROR(TrustedPath(path, policy).status());
  absl::StatusOr<std::string> text = RealOs().ReadFile(path, kMaxManifestBytes);
  if (!text.ok()) {
    return MakeError(ErrorCode::kPluginManifest, text.status().message());
  }
  plugin::Manifest manifest;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(*text, &manifest)) {
    return MakeError(ErrorCode::kPluginManifest,
                     absl::StrCat(path, ": ", error.text()));
  }
  return CompareManifest(path, manifest, file);
}

}  // namespace

std::vector<std::string> RoleNames(uint32_t roles) {
  std::vector<std::string> names;
  uint32_t known = 0;
  for (const auto& [id, name] : kSections) {
    known |= 1u << id;
    if ((roles & (1u << id)) != 0) names.emplace_back(name);
  }
  for (uint32_t bit = 0; bit < 32; ++bit) {
    if ((roles & ~known & (1u << bit)) != 0) {
      names.push_back(absl::StrCat("section", bit));
    }
  }
  return names;
}

std::string NameOfFile(absl::string_view path) {
  absl::string_view name = path.substr(path.rfind('/') + 1);
  if (!absl::ConsumePrefix(&name, "libweft_")) {
    absl::ConsumePrefix(&name, "lib");
  }
  absl::ConsumeSuffix(&name, ".so");
  return std::string(name);
}

absl::Status InspectPlugin(const std::string& path, bool needs_manifest,
                           const PathPolicy& policy, InspectedFile* out) {
  out->path = path;
  out->name = NameOfFile(path);
  WEFT_ASSIGN_OR_RETURN(out->path, TrustedPath(path, policy));
  absl::StatusOr<std::string> bytes =
      RealOs().ReadFile(out->path, kMaxFileBytes);
  if (!bytes.ok()) {
    return MakeError(ErrorCode::kPluginBroken, bytes.status().message());
  }
  out->sha256 = Sha256Hex(*bytes);
  WEFT_ASSIGN_OR_RETURN(out->elf, ParseElf(*bytes, out->path));
  WEFT_RETURN_IF_ERROR(CheckExports(*out));
  WEFT_RETURN_IF_ERROR(CheckNote(*out));
  return CheckManifest(*out, needs_manifest, policy);
}

}  // namespace weft
