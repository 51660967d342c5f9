#include "compiler/transforms/testing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/pass/registry.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"
#include "core/reference/interpreter.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

bool RunOn(absl::string_view name, Graph* graph, PassSettings settings) {
  auto pass = CreatePass(name);
  EXPECT_TRUE(pass.ok()) << pass.status();
  if (!pass.ok()) return false;
  PassContext context{std::move(settings)};
  std::string before = PrintGraph(*graph);
  auto changed = (*pass)->Run(*graph, context);
  EXPECT_TRUE(changed.ok()) << changed.status();
  if (!changed.ok()) return false;
  EXPECT_EQ(VerifyGraph(*graph), absl::OkStatus()) << PrintGraph(*graph);
  EXPECT_EQ(PrintGraph(*graph) != before, *changed) << PrintGraph(*graph);
  return *changed;
}

// Deterministic, different everywhere, with a zero, negative and repeated
// values.
Literal MadeUp(const TensorType& type, int seed) {
  std::vector<double> values(type.shape.num_elements());
  for (size_t i = 0; i < values.size(); ++i) {
    int v = static_cast<int>((i * 7 + seed * 13 + 3) % 23) - 11;
    if (type.dtype == DType::kBool) v = v > 0;
    if (type.dtype == DType::kU8) v = std::abs(v);
    values[i] = IsFloat(type.dtype) ? v / 4.0 : v;
  }
  return Literal::FromDoubles(type, values);
}

Feeds MakeFeeds(const Graph& graph) {
  Feeds feeds;
  int seed = 0;
  for (const Node* node : graph.Nodes()) {
    if (!node->Is(OpId::kInput) && !node->Is(OpId::kDataSource) &&
        !node->Is(OpId::kVariable)) {
      continue;
    }
    for (const TensorType& type : node->output_types()) {
      feeds[node->name()].push_back(MadeUp(type, ++seed));
    }
  }
  return feeds;
}

std::map<std::string, Literal> AllResults(const Graph& graph,
                                          const Feeds& feeds) {
  std::map<std::string, Literal> all;
  auto result = Interpret(graph, feeds);
  EXPECT_TRUE(result.ok()) << result.status() << "\n" << PrintGraph(graph);
  if (!result.ok()) return all;
  for (const auto& [name, values] : result->outputs) {
    all["output " + name] = values[0];
  }
  for (const auto& [name, value] : result->variables) {
    all["variable " + name] = value;
  }
  return all;
}

void ExpectClose(const std::string& name, const Literal& expected,
                 const Literal& actual, double tolerance) {
  ASSERT_TRUE(expected.type() == actual.type()) << name;
  if (tolerance == 0) {
    EXPECT_TRUE(expected == actual) << name;
    return;
  }
  std::vector<double> a = expected.ToDoubles(), b = actual.ToDoubles();
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::fabs(a[i])))
        << name << " element " << i;
  }
}

}  // namespace

Graph ParseBody(absl::string_view body) {
  auto graph = ParseGraph(absl::StrCat("graph \"g\" {\n", body, "\n}\n"));
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph("broken");
}

std::string Body(const Graph& graph) {
  std::string out;
  for (absl::string_view line : absl::StrSplit(PrintGraph(graph), '\n')) {
    if (!absl::StartsWith(line, "  ")) continue;
    std::string text(absl::StripAsciiWhitespace(line));
    // The types: from " : " to the next clause or the end.
    size_t at = text.find(" : ");
    if (at != std::string::npos) {
      size_t end = text.size();
      for (const char* clause : {" control(", " device(", " stage("}) {
        end = std::min(end, text.find(clause, at));
      }
      text.erase(at, end - at);
    }
    absl::StrAppend(&out, text, "\n");
  }
  return out;
}

PassRun RunPass(absl::string_view pass, absl::string_view body,
                PassSettings settings) {
  Graph graph = ParseBody(body);
  PassRun run;
  run.changed = RunOn(pass, &graph, std::move(settings));
  run.body = Body(graph);
  return run;
}

std::string Untouched(absl::string_view pass, absl::string_view body,
                      PassSettings settings) {
  std::string before = Body(ParseBody(body));
  PassRun run = RunPass(pass, body, std::move(settings));
  return run.changed || run.body != before ? run.body : "";
}

void ExpectSameResults(absl::string_view pass, absl::string_view body,
                       PassSettings settings, double tolerance) {
  Graph before = ParseBody(body);
  Graph after = before.Clone();
  EXPECT_TRUE(RunOn(pass, &after, std::move(settings))) << "nothing was done";
  ExpectSameResults(before, after, tolerance);
}

void ExpectSameResults(const Graph& before, const Graph& after,
                       double tolerance) {
  Feeds feeds = MakeFeeds(before);
  auto expected = AllResults(before, feeds);
  auto actual = AllResults(after, feeds);
  EXPECT_FALSE(expected.empty()) << "the graph has no results to compare";
  ASSERT_EQ(expected.size(), actual.size());
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(actual.count(name)) << name;
    ExpectClose(name, value, actual[name], tolerance);
  }
}

}  // namespace weft
