#include "runtime/checkpoint/read_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "google/protobuf/text_format.h"

namespace weft::checkpoint {
namespace {

constexpr uint64_t kMaxTensorFile = uint64_t{1} << 40;

absl::StatusOr<std::string> ReadOrCorrupt(Os& os, const std::string& directory,
                                          absl::string_view name,
                                          uint64_t max_bytes) {
  absl::StatusOr<std::string> bytes =
      os.ReadFile(JoinPath(directory, name), max_bytes);
  if (absl::IsPermissionDenied(bytes.status())) {
    return MakeError(ErrorCode::kDataMissing, bytes.status().message());
  }
  if (!bytes.ok()) {
    return MakeError(ErrorCode::kCheckpointCorrupt, bytes.status().message());
  }
  return bytes;
}

// File name -> expected digest.
absl::StatusOr<std::map<std::string, std::string>> ReadChecksums(
    Os& os, const std::string& directory) {
  WEFT_ASSIGN_OR_RETURN(
      std::string text,
      ReadOrCorrupt(os, directory, kChecksumFile, kMaxTextFile));
  std::map<std::string, std::string> out;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    std::pair<std::string, std::string> row =
        absl::StrSplit(line, absl::MaxSplits("  ", 1));
    if (row.first.size() != 64 || row.second.empty() ||
        absl::StrContains(row.second, '/')) {
      return MakeError(ErrorCode::kCheckpointCorrupt,
                       absl::StrCat("'", directory, "/", kChecksumFile,
                                    "': bad line '", line, "'"));
    }
    out[row.second] = row.first;
  }
  for (absl::string_view name :
       {kModelFile, kOptimizerFile, kIndexFile, kStateFile}) {
    if (out.count(std::string(name)) == 0) {
      return MakeError(ErrorCode::kCheckpointCorrupt,
                       absl::StrCat("'", directory, "/", kChecksumFile,
                                    "' does not list ", name));
    }
  }
  return out;
}

absl::StatusOr<std::string> ReadChecked(
    Os& os, const std::string& directory, absl::string_view name,
    uint64_t max_bytes, const std::map<std::string, std::string>& checksums) {
  WEFT_ASSIGN_OR_RETURN(std::string bytes,
                        ReadOrCorrupt(os, directory, name, max_bytes));
  std::string digest = Sha256Hex(bytes);
  const std::string& expected = checksums.at(std::string(name));
  if (digest != expected) {
    return MakeError(ErrorCode::kCheckpointCorrupt,
                     absl::StrCat("'", directory, "/", name, "' has SHA-256 ",
                                  digest, ", its CHECKSUMS say ", expected));
  }
  return bytes;
}

absl::Status ParseText(const std::string& directory, absl::string_view name,
                       const std::string& text,
                       google::protobuf::Message* message) {
  if (!google::protobuf::TextFormat::ParseFromString(text, message)) {
    return MakeError(
        ErrorCode::kCheckpointCorrupt,
        absl::StrCat("'", directory, "/", name, "' cannot be parsed"));
  }
  return absl::OkStatus();
}

// `files`: of each tensor.
absl::Status CheckIndex(const Loaded& loaded,
                        const std::vector<std::string>& files) {
  std::map<std::string, size_t> by_name;
  for (size_t i = 0; i < loaded.tensors.size(); ++i) {
    by_name[loaded.tensors[i].name] = i;
  }
  auto disagrees = [&loaded](absl::string_view where) {
    return MakeError(ErrorCode::kCheckpointCorrupt,
                     absl::StrCat("'", loaded.directory, "/", kIndexFile,
                                  "' disagrees with the tensor files", where));
  };
  for (const Tensor& row : loaded.index.tensors()) {
    auto it = by_name.find(row.name());
    const bool there = it != by_name.end();
    const TensorType type =
        there ? loaded.tensors[it->second].type : TensorType();
    if (!there || files[it->second] != row.file() ||
        DTypeName(type.dtype) != row.dtype() ||
        !std::equal(row.dims().begin(), row.dims().end(),
                    type.shape.dims().begin(), type.shape.dims().end())) {
      return disagrees(absl::StrCat(" at '", row.name(), "'"));
    }
  }
  if (static_cast<int>(by_name.size()) != loaded.index.tensors_size() ||
      by_name.size() != loaded.tensors.size()) {
    return disagrees(absl::StrCat(": it lists ", loaded.index.tensors_size(),
                                  " tensors, they hold ",
                                  loaded.tensors.size()));
  }
  return absl::OkStatus();
}

// What every state has, and that its directory is named after its step.
absl::Status CheckState(const std::string& directory, const TrainState& state) {
  auto corrupt = [&directory](const std::string& what) {
    return MakeError(ErrorCode::kCheckpointCorrupt,
                     absl::StrCat("'", directory, "/", kStateFile, "' ", what));
  };
  if (state.world_size() == 0 || state.batch_size() == 0) {
    return corrupt("lacks its world_size or batch_size");
  }
  const std::string name = std::filesystem::path(directory).filename();
  if (absl::StartsWith(name, "step_") && name != StepName(state.step())) {
    return corrupt(absl::StrCat("is of step ", state.step()));
  }
  return absl::OkStatus();
}

}  // namespace

std::string StepName(uint64_t step) {
  return absl::StrFormat("step_%08d", step);
}

bool ParseStepName(absl::string_view name, uint64_t* step) {
  return absl::ConsumePrefix(&name, "step_") && absl::SimpleAtoi(name, step);
}

absl::StatusOr<Loaded> ReadCheckpoint(Os& os, const std::string& directory) {
  Loaded loaded;
  loaded.directory = directory;
  WEFT_ASSIGN_OR_RETURN(auto checksums, ReadChecksums(os, directory));
  WEFT_ASSIGN_OR_RETURN(std::string text, ReadChecked(os, directory, kStateFile,
                                                      kMaxTextFile, checksums));
  WEFT_RETURN_IF_ERROR(ParseText(directory, kStateFile, text, &loaded.state));
  WEFT_RETURN_IF_ERROR(CheckState(directory, loaded.state));
  WEFT_ASSIGN_OR_RETURN(
      text, ReadChecked(os, directory, kIndexFile, kMaxTextFile, checksums));
  WEFT_RETURN_IF_ERROR(ParseText(directory, kIndexFile, text, &loaded.index));
  std::vector<std::string> file_of;
  for (absl::string_view name : {kModelFile, kOptimizerFile}) {
    WEFT_ASSIGN_OR_RETURN(
        std::string bytes,
        ReadChecked(os, directory, name, kMaxTensorFile, checksums));
    loaded.files.push_back(std::make_unique<std::string>(std::move(bytes)));
    WEFT_ASSIGN_OR_RETURN(
        SafetensorsFile file,
        ParseSafetensors(JoinPath(directory, name), *loaded.files.back()));
    for (NamedTensor& t : file.tensors) loaded.tensors.push_back(std::move(t));
    file_of.resize(loaded.tensors.size(), std::string(name));
  }
  WEFT_RETURN_IF_ERROR(CheckIndex(loaded, file_of));
  return loaded;
}

}  // namespace weft::checkpoint
