// One checkpoint's directory: what its files are called, and reading them with
// every check that they allow. Which directory is read, and all of saving, is
// in checkpoint.h.
//
//   WEFT_ASSIGN_OR_RETURN(Loaded loaded, ReadCheckpoint(os, directory));
//
// Threading: free functions, thread-safe.
#ifndef WEFT_RUNTIME_CHECKPOINT_READ_CHECKPOINT_H_
#define WEFT_RUNTIME_CHECKPOINT_READ_CHECKPOINT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/os.h"
#include "runtime/checkpoint/checkpoint.h"

namespace weft::checkpoint {

inline constexpr uint64_t kMaxTextFile = uint64_t{64} << 20;
inline constexpr absl::string_view kModelFile = "model.safetensors";
inline constexpr absl::string_view kOptimizerFile = "optim.safetensors";
inline constexpr absl::string_view kIndexFile = "index.txtpb";
inline constexpr absl::string_view kStateFile = "train_state.txtpb";
inline constexpr absl::string_view kChecksumFile = "CHECKSUMS";

// "step_00000100".
std::string StepName(uint64_t step);
bool ParseStepName(absl::string_view name, uint64_t* step);

// Errors: kCheckpointCorrupt names the file and what is wrong with it;
// kCheckpointForeign where more ranks saved it than this version runs;
// kDataMissing where it may not be read.
absl::StatusOr<Loaded> ReadCheckpoint(Os& os, const std::string& directory);

}  // namespace weft::checkpoint

#endif  // WEFT_RUNTIME_CHECKPOINT_READ_CHECKPOINT_H_
