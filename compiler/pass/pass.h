// Pass: one rewrite of a graph. A pass keeps what the program computes and
// every side effect (updates, outputs, data), reads nothing but the graph and
// the settings, and gives the same result for the same arguments, byte for
// byte.
//
//   class RemoveIdentity : public Pass {
//    public:
//     absl::string_view Name() const override { return "remove_identity"; }
//     absl::StatusOr<bool> Run(Graph& graph, PassContext& context) override;
//   };
//
// Sequences of passes: compiler/pass/pipeline.h. By name:
// compiler/pass/registry.h.
//
// Threading: a pass keeps no state between runs; one thread at a time.
#ifndef WEFT_COMPILER_PASS_PASS_H_
#define WEFT_COMPILER_PASS_PASS_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"

namespace weft {

// What a job fixes about its passes. One struct for all of them, so that a
// pipeline is a list of names.
struct PassSettings {
  // set_mode: the training form, or the evaluation form.
  bool training = false;
  // set_mode: key of the random ops that it makes.
  uint64_t seed = 0;
  // constant_folding: no constant larger than this is made.
  int64_t fold_bytes = int64_t{256} << 10;
  // constant_folding: no node that costs more is evaluated.
  double fold_flops = 1e7;
  // decompose: nodes to replace by their decomposition. Empty: all that have
  // one.
  std::function<bool(const Node& node)> decompose;
  // layout, epilogues: whether a device would run the node by one kernel, and
  // not take it apart or refuse it (RunsAsKernel of compiler/placement). Empty:
  // none would.
  std::function<bool(const Graph& graph, const Node& node)> runs_as_kernel;
  // fuse_elementwise: instructions of a region at most (the format allows 64).
  int max_fused = 64;
};

struct PassContext {
  PassSettings settings;
};

class Pass {
 public:
  virtual ~Pass() = default;

  // Lower case with '_'; unique.
  virtual absl::string_view Name() const = 0;

  // True where the graph was changed. After an error the graph is unspecified.
  virtual absl::StatusOr<bool> Run(Graph& graph, PassContext& context) = 0;
};

}  // namespace weft

#endif  // WEFT_COMPILER_PASS_PASS_H_
