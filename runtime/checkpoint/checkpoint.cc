#include "runtime/checkpoint/checkpoint.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

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
#include "runtime/checkpoint/read_checkpoint.h"

namespace weft::checkpoint {
namespace {

constexpr int kTries = 5;
constexpr absl::string_view kLatestFile = "latest";
constexpr absl::string_view kOldPrefix = ".old-";

// One file of a save: written, synced, checksummed.
class FileSaver {
 public:
  FileSaver(Os& os, std::string directory)
      : os_(os), directory_(std::move(directory)) {}

  absl::Status Write(absl::string_view name,
                     absl::Span<const absl::string_view> parts) {
    WEFT_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file,
                          os_.Create(JoinPath(directory_, name)));
    Sha256 hash;
    for (absl::string_view part : parts) {
      hash.Update(part);
      WEFT_RETURN_IF_ERROR(file->Append(part));
    }
    WEFT_RETURN_IF_ERROR(file->Sync());
    WEFT_RETURN_IF_ERROR(file->Close());
    absl::StrAppend(&checksums_, hash.HexDigest(), "  ", name, "\n");
    return absl::OkStatus();
  }

  const std::string& checksums() const { return checksums_; }

 private:
  Os& os_;
  std::string directory_;
  std::string checksums_;
};

absl::Status WriteTensors(FileSaver* saver, absl::string_view name,
                          absl::Span<const StateTensor> all, bool optimizer,
                          Index* index) {
  std::vector<NamedTensor> tensors;
  for (const StateTensor& t : all) {
    if (t.optimizer == optimizer) tensors.push_back(t.tensor);
  }
  std::string header = SafetensorsHeader(tensors, {{"format", "weft"}});
  std::vector<absl::string_view> parts = {header};
  for (const NamedTensor& t : tensors) {
    parts.push_back(t.bytes);
    Tensor* row = index->add_tensors();
    row->set_name(t.name);
    row->set_dtype(std::string(DTypeName(t.type.dtype)));
    for (int64_t d : t.type.shape.dims()) row->add_dims(d);
    row->set_file(std::string(name));
  }
  return saver->Write(name, parts);
}

absl::Status WriteDirectory(Os& os, const std::string& directory,
                            const TrainState& state,
                            absl::Span<const StateTensor> tensors) {
  WEFT_RETURN_IF_ERROR(os.MakeDirectories(directory));
  FileSaver saver(os, directory);
  Index index;
  WEFT_RETURN_IF_ERROR(
      WriteTensors(&saver, kModelFile, tensors, false, &index));
  WEFT_RETURN_IF_ERROR(
      WriteTensors(&saver, kOptimizerFile, tensors, true, &index));
  std::string text;
  google::protobuf::TextFormat::PrintToString(index, &text);
  WEFT_RETURN_IF_ERROR(saver.Write(kIndexFile, {text}));
  google::protobuf::TextFormat::PrintToString(state, &text);
  WEFT_RETURN_IF_ERROR(saver.Write(kStateFile, {text}));
  std::string checksums = saver.checksums();
  WEFT_RETURN_IF_ERROR(saver.Write(kChecksumFile, {checksums}));
  return os.SyncDirectory(directory);
}

// Names of complete checkpoints in a ckpt directory, by step.
std::map<uint64_t, std::string> Steps(const std::vector<std::string>& names) {
  std::map<uint64_t, std::string> steps;
  for (const std::string& name : names) {
    uint64_t step;
    if (ParseStepName(name, &step)) steps[step] = name;
  }
  return steps;
}

struct Saved {
  std::optional<uint64_t> number;  // TrainState.save_number; none: unreadable
  uint64_t step = 0;
  std::string name;
};

// Complete checkpoints of a ckpt directory in the order of their saving. Those
// that cannot be read, whose place is not known, come first.
std::vector<Saved> BySaving(Os& os, const std::string& root,
                            const std::vector<std::string>& names) {
  std::vector<Saved> out;
  for (const auto& [step, name] : Steps(names)) {
    Saved saved{std::nullopt, step, name};
    absl::StatusOr<std::string> text =
        os.ReadFile(JoinPath(JoinPath(root, name), kStateFile), kMaxTextFile);
    TrainState state;
    if (text.ok() &&
        google::protobuf::TextFormat::ParseFromString(*text, &state)) {
      saved.number = state.save_number();
    }
    out.push_back(std::move(saved));
  }
  std::stable_sort(out.begin(), out.end(), [](const Saved& a, const Saved& b) {
    return a.number < b.number;
  });
  return out;
}

// Of the next save: above all numbers that are there, with room for those that
// cannot be read at the moment and may be the last ones.
uint64_t NextNumber(const std::vector<Saved>& all) {
  uint64_t largest = 0, above = 1;
  for (const Saved& saved : all) {
    if (saved.number.has_value()) {
      largest = std::max(largest, *saved.number);
    } else {
      ++above;
    }
  }
  // A damaged file may hold any number, and the last one has no next.
  return largest + std::min(above, ~uint64_t{0} - largest);
}

absl::Status Commit(Os& os, const std::string& root, const std::string& name,
                    const std::string& temporary) {
  std::string target = JoinPath(root, name);
  // A run that went back may write a step again: the old one goes only when the
  // new one is complete on disk.
  std::string old = JoinPath(root, absl::StrCat(kOldPrefix, name));
  bool replaces = os.Exists(target);
  if (replaces) {
    WEFT_RETURN_IF_ERROR(os.RemoveAll(old));
    WEFT_RETURN_IF_ERROR(os.Rename(target, old));
  }
  if (absl::Status status = os.Rename(temporary, target); !status.ok()) {
    if (replaces) os.Rename(old, target).IgnoreError();
    return status;
  }
  WEFT_RETURN_IF_ERROR(os.SyncDirectory(root));
  if (replaces) os.RemoveAll(old).IgnoreError();
  return WriteFileAtomically(os, JoinPath(root, kLatestFile), name + "\n");
}

// All but those saved last, `keep` of them, one of which is `just_saved`. Not
// by step: where a run went back, larger steps are of a history that it left.
// Failing to delete is harmless: the next save tries again.
void DeleteOld(Os& os, const std::string& root, const std::string& just_saved,
               uint64_t keep) {
  absl::StatusOr<std::vector<std::string>> names = os.List(root);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    // Of a save or a deletion that a death cut short.
    if (absl::StartsWith(name, ".")) {
      os.RemoveAll(JoinPath(root, name)).IgnoreError();
    }
  }
  absl::StatusOr<std::string> latest =
      os.ReadFile(JoinPath(root, kLatestFile), kMaxTextFile);
  if (!latest.ok()) return;
  // One that cannot be read may be the last one: it is not known to be old, and
  // takes nobody's place among those that are kept.
  std::vector<Saved> all = BySaving(os, root, *names);
  all.erase(std::remove_if(
                all.begin(), all.end(),
                [](const Saved& saved) { return !saved.number.has_value(); }),
            all.end());
  const uint64_t kept = std::max<uint64_t>(keep, 2);
  for (size_t i = 0; i < all.size() && kept < all.size() - i; ++i) {
    const std::string& name = all[i].name;
    if (name == just_saved || *latest == name + "\n") continue;
    // Out of sight first: a checkpoint is there whole or not at all.
    std::string old = JoinPath(root, absl::StrCat(kOldPrefix, name));
    if (os.Rename(JoinPath(root, name), old).ok()) {
      os.RemoveAll(old).IgnoreError();
    }
  }
}

absl::Status NoCheckpoint(const std::string& path) {
  return MakeError(ErrorCode::kCheckpointMissing,
                   absl::StrCat("no checkpoint in '", path, "'"));
}

// The directory that holds step_* for any accepted `path`; "" where `path` is
// itself a checkpoint.
absl::StatusOr<std::string> FindRoot(Os& os, const std::string& path) {
  if (os.Exists(JoinPath(path, kChecksumFile))) return std::string();
  for (const std::string& root : {JoinPath(path, "ckpt"), path}) {
    absl::StatusOr<std::vector<std::string>> names = os.List(root);
    if (names.ok() && !Steps(*names).empty()) return root;
  }
  return NoCheckpoint(path);
}

// The one to go on from.
absl::StatusOr<std::string> Newest(Os& os, const std::string& root) {
  // The one saved last, which need not have the largest step: a run may have
  // gone back. A death just before `latest` was written costs one checkpoint.
  absl::StatusOr<std::string> latest =
      os.ReadFile(JoinPath(root, kLatestFile), kMaxTextFile);
  WEFT_ASSIGN_OR_RETURN(std::vector<std::string> names, os.List(root));
  const std::vector<Saved> all = BySaving(os, root, names);
  if (all.empty()) return NoCheckpoint(root);
  std::string name = all.back().name;
  for (const Saved& there : all) {
    if (latest.ok() && *latest == there.name + "\n") name = there.name;
  }
  return JoinPath(root, name);
}

std::string Describe(const NamedTensor& t) {
  return absl::StrCat("'", t.name, "' ", t.type.ToString());
}

}  // namespace

absl::StatusOr<std::string> Save(Os& os, const std::string& run_dir,
                                 const TrainState& state,
                                 absl::Span<const StateTensor> tensors,
                                 uint64_t keep) {
  std::string root = JoinPath(run_dir, "ckpt");
  std::string name = StepName(state.step());
  std::string temporary = JoinPath(root, absl::StrCat(".tmp-", state.step()));
  absl::Status status = os.MakeDirectories(root);
  if (status.ok()) status = os.RemoveAll(temporary);
  TrainState numbered = state;
  if (absl::StatusOr<std::vector<std::string>> names = os.List(root);
      names.ok()) {
    numbered.set_save_number(NextNumber(BySaving(os, root, *names)));
  } else if (status.ok()) {
    status = names.status();
  }
  if (status.ok()) status = WriteDirectory(os, temporary, numbered, tensors);
  if (status.ok()) status = Commit(os, root, name, temporary);
  if (!status.ok()) {
    os.RemoveAll(temporary).IgnoreError();
    return MakeError(ErrorCode::kWriteFailed,
                     absl::StrCat("checkpoint of step ", state.step(),
                                  " not saved: ", status.message()));
  }
  DeleteOld(os, root, name, keep);
  return JoinPath(root, name);
}

absl::StatusOr<Loaded> Load(Os& os, const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(std::string root, FindRoot(os, path));
  if (root.empty()) return ReadCheckpoint(os, path);
  // A run that goes on may delete the one that was chosen.
  for (int tries = 1;; ++tries) {
    WEFT_ASSIGN_OR_RETURN(std::string newest, Newest(os, root));
    absl::StatusOr<Loaded> loaded = ReadCheckpoint(os, newest);
    if (loaded.ok() || os.Exists(newest) || tries == kTries) return loaded;
  }
}

void Recover(Os& os, const std::string& run_dir) {
  const std::string root = JoinPath(run_dir, "ckpt");
  absl::StatusOr<std::vector<std::string>> names = os.List(root);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!absl::StartsWith(name, ".")) continue;
    const std::string path = JoinPath(root, name);
    absl::string_view step = name;
    uint64_t number;
    if (absl::ConsumePrefix(&step, kOldPrefix) &&
        ParseStepName(step, &number) && !os.Exists(JoinPath(root, step)) &&
        ReadCheckpoint(os, path).ok() &&
        os.Rename(path, JoinPath(root, step)).ok()) {
      continue;
    }
    os.RemoveAll(path).IgnoreError();
  }
}

absl::StatusOr<std::vector<Info>> List(Os& os, const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(std::string root, FindRoot(os, path));
  std::vector<std::string> directories;
  if (root.empty()) {
    directories = {path};
  } else {
    WEFT_ASSIGN_OR_RETURN(std::vector<std::string> names, os.List(root));
    for (const auto& [step, name] : Steps(names)) {
      directories.push_back(JoinPath(root, name));
    }
  }
  std::vector<Info> out;
  for (const std::string& directory : directories) {
    Info info;
    info.directory = directory;
    absl::StatusOr<Loaded> loaded = ReadCheckpoint(os, directory);
    // A run that goes on may have deleted it, or written it anew, meanwhile.
    if (!loaded.ok() && !root.empty()) {
      if (!os.Exists(directory)) continue;
      loaded = ReadCheckpoint(os, directory);
      if (!loaded.ok() && !os.Exists(directory)) continue;
    }
    info.verdict = loaded.status();
    if (loaded.ok()) {
      info.step = loaded->state.step();
      for (const auto& file : loaded->files) info.bytes += file->size();
    }
    out.push_back(std::move(info));
  }
  return out;
}

absl::Status CheckFits(const Loaded& loaded,
                       absl::Span<const StateTensor> expected) {
  std::map<std::string, const NamedTensor*> have;
  for (const NamedTensor& t : loaded.tensors) have[t.name] = &t;
  auto foreign = [&](absl::string_view what) {
    return MakeError(ErrorCode::kCheckpointForeign,
                     absl::StrCat("checkpoint '", loaded.directory,
                                  "' is of another model: ", what));
  };
  for (const StateTensor& e : expected) {
    auto it = have.find(e.tensor.name);
    if (it == have.end()) {
      return foreign(absl::StrCat("it lacks ", Describe(e.tensor)));
    }
    if (it->second->type != e.tensor.type) {
      return foreign(absl::StrCat("it has ", Describe(*it->second),
                                  ", the job needs ", Describe(e.tensor)));
    }
    have.erase(it);
  }
  if (!have.empty()) {
    return foreign(absl::StrCat("it has ", Describe(*have.begin()->second),
                                ", which the job does not know"));
  }
  return absl::OkStatus();
}

std::string Fingerprint(absl::Span<const StateTensor> tensors) {
  std::string text;
  for (const StateTensor& t : tensors) {
    absl::StrAppend(&text, Describe(t.tensor), "\n");
  }
  return Sha256Hex(text).substr(0, 16);
}

}  // namespace weft::checkpoint
