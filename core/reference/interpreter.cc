#include "core/reference/interpreter.h"

#include "core/base/status_macros.h"
#include "core/reference/graph_run.h"

namespace weft {

absl::StatusOr<InterpretResult> Interpret(const Graph& graph,
                                          const Feeds& feeds,
                                          absl::Span<const Feeds> micro_feeds) {
  GraphRun run(graph, feeds, micro_feeds);
  WEFT_RETURN_IF_ERROR(run.Prepare());
  for (const Node* node : run.order()) WEFT_RETURN_IF_ERROR(run.Act(*node));
  return run.TakeResult();
}

}  // namespace weft
