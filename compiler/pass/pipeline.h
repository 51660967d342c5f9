// Pipeline: passes in order, with the verifier between them and dumps.
//
//   Pipeline pipeline(options);
//   pipeline.Add(CreateDcePass());
//   WEFT_RETURN_IF_ERROR(pipeline.Run(graph, context));
//
// With `dump_to` set, each pass that `dump_passes` matches and that changed the
// graph leaves two texts (core/graph/text.h), numbered in the order in which
// the pipeline's passes ran:
//
//   <dump_to>/003.cse.before.txt   <dump_to>/003.cse.after.txt
//
// Give each program a directory of its own.
//
// Threading: thread-compatible. Ownership: owns its passes.
#ifndef WEFT_COMPILER_PASS_PIPELINE_H_
#define WEFT_COMPILER_PASS_PIPELINE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/pass/pass.h"
#include "core/graph/graph.h"

namespace weft {

struct PipelineOptions {
  std::string dump_to;             // directory, made where absent; "": no dumps
  std::string dump_passes = ".*";  // ECMAScript, must match the whole name
};

class Pipeline {
 public:
  explicit Pipeline(PipelineOptions options = {})
      : options_(std::move(options)) {}

  void Add(std::unique_ptr<Pass> pass) { passes_.push_back(std::move(pass)); }
  std::vector<std::string> Names() const;

  // True where any pass changed the graph.
  // Errors: what the verifier says of the graph as given; what a pass says,
  // with its name before it; kInternal where a pass leaves a graph that is not
  // well formed; kBadValue for a bad `dump_passes`; kWriteFailed for a dump.
  absl::StatusOr<bool> Run(Graph& graph, PassContext& context) const;

 private:
  PipelineOptions options_;
  std::vector<std::unique_ptr<Pass>> passes_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_PASS_PIPELINE_H_
