#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"
#include "core/graph/text.h"
#include "core/graph/text_scanner.h"
#include "core/graph/text_values.h"

namespace weft {
namespace {

using text::IsNameChar;
using text::Scanner;
using text::ValueParser;

// Statements: which node, of which operands.
class Parser {
 public:
  Parser(absl::string_view text, const ParseLimits& limits)
      : limits_(limits), scan_(text), values_(&scan_, limits) {}

  absl::StatusOr<Graph> Run();

 private:
  struct Statement {
    size_t position = 0;
    std::string name;
    const OpSchema* schema = nullptr;
    std::vector<Value> inputs;
    AttrMap attrs;
    std::vector<TensorType> types;
    size_t types_position = 0;
    std::vector<int32_t> control;
    std::string device;
    int stage = -1;
    std::vector<std::string> origin;
  };

  absl::Status ParseStatement(Graph* graph);
  absl::Status ParseHead(const Graph& graph, Statement* s);
  absl::Status ParseOperands(const Graph& graph, Statement* s);
  absl::Status ParseAttrs(Statement* s);
  absl::Status ParseTypes(Statement* s);
  absl::Status ParseSuffix(const Graph& graph, Statement* s);
  absl::Status AddNode(Graph* graph, Statement s);

  absl::StatusOr<std::string> NodeName();
  absl::StatusOr<const Node*> NodeReference(const Graph& graph);
  absl::StatusOr<Value> Operand(const Graph& graph);

  const ParseLimits& limits_;
  Scanner scan_;
  ValueParser values_;
};

absl::StatusOr<Graph> Parser::Run() {
  size_t start = scan_.position();
  if (scan_.Word() != "graph") {
    return scan_.ErrorAt(start, "expected 'graph \"name\" {'");
  }
  scan_.SkipSpace();
  WEFT_ASSIGN_OR_RETURN(std::string name, scan_.QuotedString());
  WEFT_RETURN_IF_ERROR(scan_.Expect('{', "after the graph's name"));
  Graph graph(std::move(name));
  while (!scan_.Take('}')) {
    if (graph.num_nodes() >= limits_.nodes) {
      return scan_.TooMany("nodes", limits_.nodes);
    }
    WEFT_RETURN_IF_ERROR(ParseStatement(&graph));
  }
  scan_.SkipSpace();
  if (!scan_.AtEnd()) {
    return scan_.Error(
        absl::StrCat("unexpected ", scan_.Found(), " after the graph"));
  }
  return graph;
}

absl::Status Parser::ParseStatement(Graph* graph) {
  Statement s;
  WEFT_RETURN_IF_ERROR(ParseHead(*graph, &s));
  WEFT_RETURN_IF_ERROR(ParseOperands(*graph, &s));
  if (scan_.Take('{')) WEFT_RETURN_IF_ERROR(ParseAttrs(&s));
  if (scan_.Take(':')) WEFT_RETURN_IF_ERROR(ParseTypes(&s));
  scan_.SkipSpace();
  while (absl::ascii_isalpha(scan_.Peek())) {
    WEFT_RETURN_IF_ERROR(ParseSuffix(*graph, &s));
    scan_.SkipSpace();
  }
  return AddNode(graph, std::move(s));
}

absl::Status Parser::ParseHead(const Graph& graph, Statement* s) {
  scan_.SkipSpace();
  s->position = scan_.position();
  WEFT_ASSIGN_OR_RETURN(s->name, NodeName());
  if (graph.FindNode(s->name) != nullptr) {
    return scan_.ErrorAt(s->position,
                         absl::StrCat("a second node named '", s->name, "'"));
  }
  WEFT_RETURN_IF_ERROR(scan_.Expect('=', "after the node's name"));
  scan_.SkipSpace();
  size_t op_position = scan_.position();
  absl::string_view op = scan_.Word();
  if (op.empty()) {
    return scan_.Error(
        absl::StrCat("expected an operator, found ", scan_.Found()));
  }
  absl::StatusOr<const OpSchema*> schema = OpRegistry::Global().Find(op);
  if (!schema.ok()) {
    return Annotate(schema.status(), absl::StrCat(scan_.Where(op_position),
                                                  ": node '", s->name, "'"));
  }
  s->schema = *schema;
  return absl::OkStatus();
}

absl::Status Parser::ParseOperands(const Graph& graph, Statement* s) {
  WEFT_RETURN_IF_ERROR(scan_.Expect('(', "before the operands"));
  if (scan_.Take(')')) return absl::OkStatus();
  do {
    if (static_cast<int64_t>(s->inputs.size()) >= limits_.operands) {
      return scan_.TooMany("operands", limits_.operands);
    }
    WEFT_ASSIGN_OR_RETURN(Value v, Operand(graph));
    s->inputs.push_back(v);
  } while (scan_.Take(','));
  return scan_.Expect(')', "after the operands");
}

absl::Status Parser::ParseAttrs(Statement* s) {
  if (scan_.Take('}')) return absl::OkStatus();
  do {
    scan_.SkipSpace();
    size_t start = scan_.position();
    std::string name(scan_.Word());
    if (name.empty()) {
      return scan_.Error(
          absl::StrCat("expected an attribute's name, found ", scan_.Found()));
    }
    if (s->attrs.Find(name) != nullptr) {
      return scan_.ErrorAt(start,
                           absl::StrCat("attribute '", name, "' given twice"));
    }
    WEFT_RETURN_IF_ERROR(scan_.Expect(':', "after the attribute's name"));
    WEFT_ASSIGN_OR_RETURN(Attr value,
                          values_.AttrValue(s->schema->FindAttr(name)));
    s->attrs.Set(name, std::move(value));
  } while (scan_.Take(','));
  return scan_.Expect('}', "after the attributes");
}

absl::Status Parser::ParseTypes(Statement* s) {
  scan_.SkipSpace();
  s->types_position = scan_.position();
  do {
    if (static_cast<int64_t>(s->types.size()) >= limits_.operands) {
      return scan_.TooMany("results", limits_.operands);
    }
    WEFT_ASSIGN_OR_RETURN(TensorType type, values_.Type());
    s->types.push_back(std::move(type));
  } while (scan_.Take(','));
  return absl::OkStatus();
}

absl::Status Parser::ParseSuffix(const Graph& graph, Statement* s) {
  size_t start = scan_.position();
  std::string word(scan_.Word());
  const std::vector<std::string> words = {"control", "device", "stage",
                                          "origin"};
  if (std::find(words.begin(), words.end(), word) == words.end()) {
    std::string suggestion =
        word.size() < 50 ? DidYouMean(word, words) : std::string();
    return scan_.ErrorAt(
        start, absl::StrCat("unknown clause '", word, "'", suggestion));
  }
  WEFT_RETURN_IF_ERROR(scan_.Expect('(', absl::StrCat("after '", word, "'")));
  if (word == "control") {
    do {
      if (static_cast<int64_t>(s->control.size()) >= limits_.operands) {
        return scan_.TooMany("control inputs", limits_.operands);
      }
      WEFT_ASSIGN_OR_RETURN(const Node* from, NodeReference(graph));
      s->control.push_back(from->id());
    } while (scan_.Take(','));
  } else if (word == "device") {
    WEFT_ASSIGN_OR_RETURN(s->device, scan_.QuotedString());
  } else if (word == "stage") {
    size_t at = scan_.position();
    WEFT_ASSIGN_OR_RETURN(int64_t stage, scan_.Integer());
    if (stage < 0 || stage > 1 << 20) {
      return scan_.ErrorAt(at, absl::StrCat("stage ", stage, " out of range"));
    }
    s->stage = static_cast<int>(stage);
  } else {
    do {
      if (static_cast<int64_t>(s->origin.size()) >= limits_.operands) {
        return scan_.TooMany("lines of origin", limits_.operands);
      }
      WEFT_ASSIGN_OR_RETURN(std::string line, scan_.QuotedString());
      s->origin.push_back(std::move(line));
    } while (scan_.Take(','));
  }
  return scan_.Expect(')', absl::StrCat("to close '", word, "'"));
}

absl::Status Parser::AddNode(Graph* graph, Statement s) {
  int count = s.types.empty() ? -1 : static_cast<int>(s.types.size());
  absl::StatusOr<Node*> node =
      graph->Add(s.schema->name, s.name, s.inputs, std::move(s.attrs), count);
  if (!node.ok()) return Annotate(node.status(), scan_.Where(s.position));
  for (size_t i = 0; i < s.types.size(); ++i) {
    const TensorType& inferred = (*node)->output_type(static_cast<int>(i));
    if (s.types[i] == inferred) continue;
    return scan_.ErrorAt(
        s.types_position,
        absl::StrCat("result ", i, " of node '", s.name, "' is written as ",
                     s.types[i].ToString(), ", inference gives ",
                     inferred.ToString()),
        s.types[i].dtype == inferred.dtype ? ErrorCode::kShapeMismatch
                                           : ErrorCode::kDTypeMismatch);
  }
  for (int32_t from : s.control) graph->AddControlInput((*node)->id(), from);
  (*node)->device = std::move(s.device);
  (*node)->stage = s.stage;
  (*node)->provenance = std::move(s.origin);
  return absl::OkStatus();
}

absl::StatusOr<std::string> Parser::NodeName() {
  WEFT_RETURN_IF_ERROR(scan_.Expect('%', "before a node's name"));
  std::string name;
  if (scan_.Peek() == '"') {
    WEFT_ASSIGN_OR_RETURN(name, scan_.QuotedString());
  } else if (IsNameChar(scan_.Peek())) {
    name = std::string(scan_.TakeWhile(IsNameChar));
  }
  if (name.empty()) return scan_.Error("expected a node's name after '%'");
  return name;
}

absl::StatusOr<const Node*> Parser::NodeReference(const Graph& graph) {
  scan_.SkipSpace();
  size_t start = scan_.position();
  WEFT_ASSIGN_OR_RETURN(std::string name, NodeName());
  const Node* node = graph.FindNode(name);
  if (node != nullptr) return node;
  // Suggestions cost a product of lengths: none for what no one mistyped.
  std::vector<std::string> known;
  for (const Node* n : graph.Nodes()) {
    if (name.size() > 200 || known.size() >= 5000) break;
    if (n->name().size() <= 200) known.push_back(n->name());
  }
  return scan_.ErrorAt(start, absl::StrCat("no node '", name, "' before this",
                                           DidYouMean(name, known)));
}

absl::StatusOr<Value> Parser::Operand(const Graph& graph) {
  scan_.SkipSpace();
  size_t start = scan_.position();
  if (scan_.Peek() == '_') {
    scan_.Advance();
    return Value();
  }
  WEFT_ASSIGN_OR_RETURN(const Node* node, NodeReference(graph));
  int64_t index = 0;
  if (scan_.Peek() == ':') {
    scan_.Advance();
    WEFT_ASSIGN_OR_RETURN(index, scan_.Integer());
  }
  if (index < 0 || index >= node->num_outputs()) {
    return scan_.ErrorAt(
        start, absl::StrCat("node '", node->name(), "' has no result ", index,
                            ", it has ", node->num_outputs()));
  }
  return node->output(static_cast<int>(index));
}

}  // namespace

absl::StatusOr<Graph> ParseGraph(absl::string_view text,
                                 const ParseLimits& limits) {
  if (static_cast<int64_t>(text.size()) > limits.bytes) {
    return MakeError(ErrorCode::kGraphSyntax,
                     absl::StrCat("1:1: the text has ", text.size(),
                                  " bytes, more than ", limits.bytes));
  }
  return Parser(text, limits).Run();
}

}  // namespace weft
