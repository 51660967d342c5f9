// Passes and pipelines by name: for weft-opt, tests and the compiler.
//
//   WEFT_ASSIGN_OR_RETURN(Pipeline p, MakePipeline({"cse", "dce"}));
//   WEFT_ASSIGN_OR_RETURN(Pipeline d, MakeNamedPipeline("default"));
//
// A new pass is a file in compiler/transforms and a line in registry.cc; where
// it runs, and why there, is a line in kPipelines of the same file.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_PASS_REGISTRY_H_
#define WEFT_COMPILER_PASS_REGISTRY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/pass/pass.h"
#include "compiler/pass/pipeline.h"

namespace weft {

struct PassInfo {
  std::string name;
  std::string summary;  // one line
};

std::vector<PassInfo> ListPasses();  // by name

// kBadValue with "did you mean".
absl::StatusOr<std::unique_ptr<Pass>> CreatePass(absl::string_view name);

absl::StatusOr<Pipeline> MakePipeline(absl::Span<const std::string> passes,
                                      PipelineOptions options = {});

// "default": what runs on a finished program, gradients and updates included.
// "none": nothing, so that only the verifier looks.
absl::StatusOr<Pipeline> MakeNamedPipeline(absl::string_view name,
                                           PipelineOptions options = {});

}  // namespace weft

#endif  // WEFT_COMPILER_PASS_REGISTRY_H_
