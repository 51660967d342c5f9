// Interpreter: runs a graph node by node with the reference of each op. It is
// what a program means: passes, plans and devices are tested against it. Slow;
// not for users.
//
//   Feeds feeds;
//   feeds["x"] = {Literal::Of<float>({2}, {1, 2})};
//   feeds["w"] = {Literal::Of<float>({2}, {3, 4})};
//   WEFT_ASSIGN_OR_RETURN(InterpretResult r, Interpret(graph, feeds));
//   r.outputs["y"][0];     // of the weft.Output {name: "y"}
//   r.variables["w"];      // its value after the step
//
// A step of several micro-batches: nodes of the micro rate act once for each,
// with the feeds of that micro-batch; weft.Accumulate gives the tree sum;
// updates act once.
//
//   Interpret(graph, state, {batch0, batch1, batch2, batch3});
//
// Part of a job over several ranks: weft.Recv takes a feed, what goes into a
// weft.Send is not looked at. All ranks together: job_interpreter.h.
//
// Threading: a free function, thread-safe.
#ifndef WEFT_CORE_REFERENCE_INTERPRETER_H_
#define WEFT_CORE_REFERENCE_INTERPRETER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/types/literal.h"

namespace weft {

// Results by node name, one per output of the node: for weft.Input,
// weft.DataSource, weft.Variable, weft.Recv and weft.Counter. A counter without
// a feed gives {0, index of the micro-batch}.
using Feeds = std::map<std::string, std::vector<Literal>, std::less<>>;

struct InterpretResult {
  // By the name attribute of weft.Output: one value per act, so one for each
  // micro-batch or one in all.
  std::map<std::string, std::vector<Literal>, std::less<>> outputs;
  // By node name, for every variable that an update changed: the new value.
  std::map<std::string, Literal, std::less<>> variables;
};

// `feeds` hold for the whole step; `micro_feeds` are one for each micro-batch
// and come first. None: one micro-batch, fed from `feeds`. Errors: kBadValue
// for a feed that is missing or of the wrong type (names the node and both
// types) and for an accumulation over another number of micro-batches; what
// Evaluate says, with the node's name.
absl::StatusOr<InterpretResult> Interpret(
    const Graph& graph, const Feeds& feeds,
    absl::Span<const Feeds> micro_feeds = {});

}  // namespace weft

#endif  // WEFT_CORE_REFERENCE_INTERPRETER_H_
