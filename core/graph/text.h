// The text form of a graph: for tests of passes, dumps, weft-opt and bug
// reports.
//
//   graph "mlp" {
//     %x = weft.Input() {dtype: f32, shape: [8, 4]} : f32[8,4]
//     %w = weft.Variable() {dtype: f32, shape: [4, 6]} : f32[4,6]
//     %h = MatMul(%x, %w) : f32[8,6]
//     %s = Split(%h) {axis: 1, split: [2, 4]} : f32[8,2], f32[8,4]
//     %y = Relu(%s:1) : f32[8,4] device("cpu:0") stage(1)
//     %logits = weft.Output(%y) {name: "logits"} control(%h) origin("by hand")
//   }
//
// One node a statement: its name, op, operands, attributes, result types,
// control inputs, device, stage, provenance. `%s` is output 0 of node s, `%s:1`
// output 1, `_` an absent optional operand. A name with other characters than
// [A-Za-z0-9_./-] is quoted: %"my node". `//` starts a comment. A node follows
// what it depends on.
//
// Attributes: 3, 0.5 (a double has '.', 'e', "inf" or "nan"), "text", [1, 2],
// [0.5],
// ["a"], f32, and tensors:
//   tensor(f32[2,2], [1.0, 2.0, 3.0, 4.0])   tensor(f32[512], splat(0.0))
//   tensor(f32[300], "base64 of the bytes, little endian")
// The op's schema tells the kind where the text alone does not ([] or 1
// for 1.0).
//
// The round trip is exact: parsing what was printed gives the same nodes in the
// same order, every double bit for bit, and prints the same text. Node ids are
// not part of the text. Printed types are not believed: they are inferred anew
// and compared.
//
// Use the Plan's printer for what runs; this form knows nothing of actors.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_GRAPH_TEXT_H_
#define WEFT_CORE_GRAPH_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"

namespace weft {

struct PrintOptions {
  bool provenance = false;
  // Tensors with more elements are printed as base64.
  int max_listed_elements = 16;
};

// Nodes in topological order; by id where the graph has a cycle (for messages;
// such a text cannot be parsed).
std::string PrintGraph(const Graph& graph, const PrintOptions& options = {});

// One statement, without the end of line.
std::string PrintNode(const Graph& graph, const Node& node,
                      const PrintOptions& options = {});

// What a text may use up at most. All are checked before anything is allocated.
struct ParseLimits {
  int64_t bytes = int64_t{64} << 20;
  int64_t nodes = int64_t{1} << 20;
  int64_t operands = 4096;  // of one node; also its results and control inputs
  int64_t list_items = int64_t{1} << 20;     // of one attribute
  int64_t tensor_bytes = int64_t{64} << 20;  // of all tensors together
};

// Errors, each with "line:column: ": kGraphSyntax for the text itself (with
// "did you mean" for a name), and the codes of Graph::Add for what it says.
// Never aborts.
absl::StatusOr<Graph> ParseGraph(absl::string_view text,
                                 const ParseLimits& limits = {});

}  // namespace weft

#endif  // WEFT_CORE_GRAPH_TEXT_H_
