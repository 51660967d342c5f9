// Checkpoints: the whole state of a run at one step, on disk.
//
//   <run>/ckpt/step_00001000/  model.safetensors    parameters and statistics
//                              optim.safetensors    the optimizer's state
//                              index.txtpb          logical name -> type, file
//                              train_state.txtpb    step, seed, fingerprints
//                              CHECKSUMS            `sha256sum -c` reads it
//   <run>/ckpt/latest          name of the newest complete one
//
// A save is written to ckpt/.tmp-<step>, synced, renamed into place, and only
// then named by `latest`: whenever the process dies, the newest complete
// checkpoint is intact and readable. A failed save leaves nothing behind and
// every older checkpoint as it was (kWriteFailed).
//
// Loading verifies every checksum and offset before anything is used: a damaged
// file is kCheckpointCorrupt, a missing one kCheckpointMissing. Whether a
// checkpoint fits a model is the caller's question: CheckFits.
//
// Threading: functions are thread-safe for different directories.
#ifndef WEFT_RUNTIME_CHECKPOINT_CHECKPOINT_H_
#define WEFT_RUNTIME_CHECKPOINT_CHECKPOINT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/os.h"
#include "core/proto/checkpoint.pb.h"
#include "runtime/checkpoint/safetensors.h"

namespace weft::checkpoint {

struct StateTensor {
  NamedTensor tensor;
  bool optimizer = false;  // goes to optim.safetensors
};

// Writes the checkpoint of `state.step()` into `run_dir`/ckpt and deletes all
// but this one and those saved just before it, `keep` (at least 2) together;
// the order is that of saving, whatever their steps. One whose state file
// cannot be read may be the newest: it stays, beside those. Sweeps up what a
// killed save left. Returns its directory.
absl::StatusOr<std::string> Save(Os& os, const std::string& run_dir,
                                 const TrainState& state,
                                 absl::Span<const StateTensor> tensors,
                                 uint64_t keep);

struct Loaded {
  std::string directory;
  TrainState state;
  Index index;
  std::vector<NamedTensor> tensors;  // all files; bytes owned by `files`
  std::vector<std::unique_ptr<std::string>> files;
};

// `path`: a checkpoint's directory, a ckpt directory, or a run directory; the
// two latter mean the checkpoint that was saved last.
absl::StatusOr<Loaded> Load(Os& os, const std::string& path);

struct Info {
  std::string directory;
  uint64_t step = 0;
  uint64_t bytes = 0;
  absl::Status verdict;  // OK, or why it cannot be loaded
};

// Cleans up what a process that died in Save() left in `run_dir`, without
// waiting for the next save; the old checkpoint of a step that was being
// replaced comes back. For the one process that owns the run directory.
void Recover(Os& os, const std::string& run_dir);

// All checkpoints below `path` (as for Load), oldest first, each verified. One
// that a running training deletes meanwhile is not among them.
absl::StatusOr<std::vector<Info>> List(Os& os, const std::string& path);

// kCheckpointForeign where names, dtypes or shapes differ from `expected`; the
// message names the first difference on both sides.
absl::Status CheckFits(const Loaded& loaded,
                       absl::Span<const StateTensor> expected);

// A short digest of the names and types, for TrainState.model.
std::string Fingerprint(absl::Span<const StateTensor> tensors);

}  // namespace weft::checkpoint

#endif  // WEFT_RUNTIME_CHECKPOINT_CHECKPOINT_H_
