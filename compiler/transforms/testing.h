// For tests of passes: graphs as text in, expected text out, and the same
// results before and after.
//
//   EXPECT_EQ(RunPass("dce", "%x = ..."), "%x = ...");      // body of the
//   graph ExpectSameResults("cse", body);                          // runs both
#ifndef WEFT_COMPILER_TRANSFORMS_TESTING_H_
#define WEFT_COMPILER_TRANSFORMS_TESTING_H_

#include <string>

#include "absl/strings/string_view.h"
#include "compiler/pass/pass.h"
#include "core/graph/graph.h"

namespace weft {

// A graph with these statements. Fails the test where they are wrong.
Graph ParseBody(absl::string_view body);

// The statements of a graph, one a line, without indentation; types left out.
std::string Body(const Graph& graph);

struct PassRun {
  std::string body;  // after
  bool changed = false;
};

// Runs the pass of this name, then the verifier. Fails the test on an error,
// and where the pass says "unchanged" of a graph that it changed or the other
// way round.
PassRun RunPass(absl::string_view pass, absl::string_view body,
                PassSettings settings = {});

// What the pass leaves unchanged: "" where it said so and the text is the same.
std::string Untouched(absl::string_view pass, absl::string_view body,
                      PassSettings settings = {});

// Interprets the graph before and after the pass with the same made-up feeds
// and expects equal outputs and variables, bit for bit, or within `tolerance`,
// relative.
void ExpectSameResults(absl::string_view pass, absl::string_view body,
                       PassSettings settings = {}, double tolerance = 0);

// The same for two graphs that should compute the same.
void ExpectSameResults(const Graph& before, const Graph& after,
                       double tolerance = 0);

}  // namespace weft

#endif  // WEFT_COMPILER_TRANSFORMS_TESTING_H_
