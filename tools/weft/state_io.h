// The two ends of the programs "save" and "load": host copies of every
// variable.
//
//   StateBuffers buffers(programs.graphs.at("save"));
//   session->LoadProgram(save_plan, buffers.SaveBindings());
//   session->Run("save", 0, 1);
//   checkpoint::Save(os, run, state, buffers.tensors(), keep);
//
// Threading: thread-compatible; a session's workers use it only during a run of
// "save" or "load".
#ifndef WEFT_TOOLS_WEFT_STATE_IO_H_
#define WEFT_TOOLS_WEFT_STATE_IO_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/graph/graph.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/execute/bindings.h"

namespace weft {

class StateBuffers {
 public:
  // One buffer for each weft.Variable of `program`, in the order of its nodes.
  explicit StateBuffers(const Graph& program);
  ~StateBuffers();

  // Sinks "save/<variable>" that fill the buffers, sources "load/<variable>"
  // that read them. Owned by this object.
  runtime::Bindings SaveBindings();
  runtime::Bindings LoadBindings();

  // Names, types and current contents.
  const std::vector<checkpoint::StateTensor>& tensors() const {
    return tensors_;
  }

  // Copies a checkpoint's tensors into the buffers. kCheckpointForeign where it
  // does not fit.
  absl::Status Fill(const checkpoint::Loaded& loaded);

 private:
  class Buffer;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<checkpoint::StateTensor> tensors_;
};

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_STATE_IO_H_
