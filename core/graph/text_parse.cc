#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"
#include "core/graph/text.h"

namespace weft {
namespace {

bool IsNameChar(char c) {
  return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '/' || c == '-';
}

bool IsWordChar(char c) {
  return absl::ascii_isalnum(c) || c == '_' || c == '.';
}

// Characters, positions and errors.
class Scanner {
 public:
  explicit Scanner(absl::string_view text) : text_(text) {}

  size_t position() const { return at_; }
  bool AtEnd() const { return at_ >= text_.size(); }
  // '\0' at the end.
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void Advance() { ++at_; }

  void SkipSpace() {
    while (!AtEnd()) {
      if (absl::ascii_isspace(Peek())) {
        ++at_;
      } else if (Peek() == '/' && Peek(1) == '/') {
        while (!AtEnd() && Peek() != '\n') ++at_;
      } else {
        return;
      }
    }
  }

  // Skips space, then takes `c` where it comes next.
  bool Take(char c) {
    SkipSpace();
    if (AtEnd() || Peek() != c) return false;
    ++at_;
    return true;
  }

  absl::Status Expect(char c, absl::string_view where) {
    if (Take(c)) return absl::OkStatus();
    return Error(absl::StrCat("expected '", std::string(1, c), "' ", where,
                              ", found ", Found()));
  }

  // Skips space, then takes the longest run of characters that `accept` likes.
  template <typename F>
  absl::string_view TakeWhile(F accept) {
    SkipSpace();
    size_t start = at_;
    while (!AtEnd() && accept(Peek())) ++at_;
    return text_.substr(start, at_ - start);
  }

  absl::string_view Word() { return TakeWhile(IsWordChar); }

  absl::StatusOr<std::string> QuotedString() {
    WEFT_RETURN_IF_ERROR(Expect('"', "to open a string"));
    size_t start = at_;
    while (!AtEnd() && Peek() != '"' && Peek() != '\n') {
      at_ += Peek() == '\\' ? 2 : 1;
    }
    if (AtEnd() || Peek() != '"') {
      return ErrorAt(start, "this string is not closed");
    }
    std::string out;
    if (!absl::CUnescape(text_.substr(start, at_ - start), &out)) {
      return ErrorAt(start, "this string has a bad escape");
    }
    ++at_;
    return out;
  }

  std::string Found() const {
    if (AtEnd()) return "the end of the text";
    return absl::StrCat("'", absl::CHexEscape(text_.substr(at_, 1)), "'");
  }

  std::string Where(size_t position) const {
    size_t line = 1;
    size_t column = 1;
    for (size_t i = 0; i < position && i < text_.size(); ++i) {
      column = text_[i] == '\n' ? 1 : column + 1;
      line += text_[i] == '\n';
    }
    return absl::StrCat(line, ":", column);
  }

  absl::Status ErrorAt(size_t position, absl::string_view message,
                       ErrorCode code = ErrorCode::kGraphSyntax) const {
    return MakeError(code, absl::StrCat(Where(position), ": ", message));
  }
  absl::Status Error(absl::string_view message) const {
    return ErrorAt(at_, message);
  }

 private:
  absl::string_view text_;
  size_t at_ = 0;
};

struct Number {
  bool is_int = false;
  int64_t i = 0;
  double f = 0;
};

class Parser {
 public:
  Parser(absl::string_view text, const ParseLimits& limits)
      : limits_(limits), scan_(text) {}

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
  absl::StatusOr<int64_t> Integer();
  absl::StatusOr<Number> ParseNumber();
  absl::StatusOr<double> NaNWithBits(size_t start);
  absl::StatusOr<TensorType> Type();
  absl::StatusOr<Attr> AttrValue(const AttrSpec* spec);
  absl::StatusOr<Attr> ListValue(const AttrSpec* spec);
  absl::StatusOr<Attr> Strings();
  absl::StatusOr<Literal> Tensor();
  absl::StatusOr<std::vector<Number>> Numbers(int64_t limit);
  absl::StatusOr<Literal> FromNumbers(size_t start, const TensorType& type,
                                      const std::vector<Number>& numbers);

  absl::Status TooMany(absl::string_view what, int64_t limit) const {
    return scan_.Error(absl::StrCat("more than ", limit, " ", what));
  }

  const ParseLimits& limits_;
  Scanner scan_;
  int64_t tensor_bytes_ = 0;
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
      return TooMany("nodes", limits_.nodes);
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
      return TooMany("operands", limits_.operands);
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
    WEFT_ASSIGN_OR_RETURN(Attr value, AttrValue(s->schema->FindAttr(name)));
    s->attrs.Set(name, std::move(value));
  } while (scan_.Take(','));
  return scan_.Expect('}', "after the attributes");
}

absl::Status Parser::ParseTypes(Statement* s) {
  scan_.SkipSpace();
  s->types_position = scan_.position();
  do {
    if (static_cast<int64_t>(s->types.size()) >= limits_.operands) {
      return TooMany("results", limits_.operands);
    }
    WEFT_ASSIGN_OR_RETURN(TensorType type, Type());
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
        return TooMany("control inputs", limits_.operands);
      }
      WEFT_ASSIGN_OR_RETURN(const Node* from, NodeReference(graph));
      s->control.push_back(from->id());
    } while (scan_.Take(','));
  } else if (word == "device") {
    WEFT_ASSIGN_OR_RETURN(s->device, scan_.QuotedString());
  } else if (word == "stage") {
    size_t at = scan_.position();
    WEFT_ASSIGN_OR_RETURN(int64_t stage, Integer());
    if (stage < 0 || stage > 1 << 20) {
      return scan_.ErrorAt(at, absl::StrCat("stage ", stage, " out of range"));
    }
    s->stage = static_cast<int>(stage);
  } else {
    do {
      if (static_cast<int64_t>(s->origin.size()) >= limits_.operands) {
        return TooMany("lines of origin", limits_.operands);
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
    WEFT_ASSIGN_OR_RETURN(index, Integer());
  }
  if (index < 0 || index >= node->num_outputs()) {
    return scan_.ErrorAt(
        start, absl::StrCat("node '", node->name(), "' has no result ", index,
                            ", it has ", node->num_outputs()));
  }
  return node->output(static_cast<int>(index));
}

absl::StatusOr<int64_t> Parser::Integer() {
  scan_.SkipSpace();
  size_t start = scan_.position();
  WEFT_ASSIGN_OR_RETURN(Number number, ParseNumber());
  if (!number.is_int) return scan_.ErrorAt(start, "expected an integer");
  return number.i;
}

absl::StatusOr<Number> Parser::ParseNumber() {
  scan_.SkipSpace();
  size_t start = scan_.position();
  std::string text(scan_.TakeWhile([](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '+';
  }));
  Number number;
  if (text.empty()) {
    return scan_.Error(
        absl::StrCat("expected a number, found ", scan_.Found()));
  }
  if (text == "nan" && scan_.Peek() == '(') {
    WEFT_ASSIGN_OR_RETURN(number.f, NaNWithBits(start));
    return number;
  }
  if (text.find_first_not_of("-0123456789") == std::string::npos) {
    number.is_int = true;
    if (!absl::SimpleAtoi(text, &number.i)) {
      return scan_.ErrorAt(start,
                           absl::StrCat("'", text, "' is no 64-bit integer"));
    }
    number.f = static_cast<double>(number.i);
    return number;
  }
  const char* end = text.data() + text.size();
  auto result = std::from_chars(text.data(), end, number.f);
  if (result.ec != std::errc() || result.ptr != end) {
    return scan_.ErrorAt(start,
                         absl::StrCat("'", text, "' is no 64-bit number"));
  }
  if (std::isnan(number.f)) number.f = std::nan("");
  return number;
}

// After "nan": (0x7ff8000000000001).
absl::StatusOr<double> Parser::NaNWithBits(size_t start) {
  scan_.Advance();
  std::string text(scan_.Word());
  uint64_t bits = 0;
  double value = 0;
  if (!absl::SimpleHexAtoi(text, &bits)) {
    return scan_.ErrorAt(start, "expected nan(0x...)");
  }
  std::memcpy(&value, &bits, sizeof(value));
  if (!std::isnan(value)) return scan_.ErrorAt(start, "these bits are no NaN");
  WEFT_RETURN_IF_ERROR(scan_.Expect(')', "after the bits of a NaN"));
  return value;
}

absl::StatusOr<TensorType> Parser::Type() {
  scan_.SkipSpace();
  size_t start = scan_.position();
  absl::StatusOr<DType> dtype = ParseDType(scan_.Word());
  if (!dtype.ok()) {
    return scan_.ErrorAt(start, dtype.status().message(),
                         ErrorCode::kDTypeMismatch);
  }
  WEFT_RETURN_IF_ERROR(scan_.Expect('[', "before a type's shape"));
  std::vector<int64_t> dims;
  if (!scan_.Take(']')) {
    do {
      if (dims.size() >= kMaxRank) return TooMany("dimensions", kMaxRank);
      WEFT_ASSIGN_OR_RETURN(int64_t dim, Integer());
      dims.push_back(dim);
    } while (scan_.Take(','));
    WEFT_RETURN_IF_ERROR(scan_.Expect(']', "after a type's shape"));
  }
  absl::StatusOr<Shape> shape = Shape::Create(dims);
  if (!shape.ok()) return Annotate(shape.status(), scan_.Where(start));
  return TensorType{*dtype, *std::move(shape)};
}

// One attribute's value; `spec` decides where the text leaves a choice.
absl::StatusOr<Attr> Parser::AttrValue(const AttrSpec* spec) {
  scan_.SkipSpace();
  char c = scan_.Peek();
  if (c == '"') {
    WEFT_ASSIGN_OR_RETURN(std::string text, scan_.QuotedString());
    return Attr(std::move(text));
  }
  if (c == '[') return ListValue(spec);
  bool is_word = absl::ascii_isalpha(c);
  if (is_word && c != 'n' && !(c == 'i' && scan_.Peek(1) == 'n')) {
    size_t start = scan_.position();
    std::string word(scan_.Word());
    if (word == "tensor") {
      WEFT_ASSIGN_OR_RETURN(Literal tensor, Tensor());
      return Attr(std::move(tensor));
    }
    absl::StatusOr<DType> dtype = ParseDType(word);
    if (dtype.ok()) return Attr(*dtype);
    return scan_.ErrorAt(
        start, absl::StrCat("'", word, "' is no value; text needs quotes"));
  }
  WEFT_ASSIGN_OR_RETURN(Number number, ParseNumber());
  bool wants_float = spec != nullptr && spec->kind == AttrKind::kFloat;
  if (number.is_int && !wants_float) return Attr(number.i);
  return Attr(number.f);
}

absl::StatusOr<Attr> Parser::ListValue(const AttrSpec* spec) {
  AttrKind kind = spec == nullptr ? AttrKind::kInts : spec->kind;
  if (kind == AttrKind::kStrings) return Strings();
  size_t start = scan_.position();
  scan_.Advance();
  scan_.SkipSpace();
  if (scan_.Peek() == '"') {
    return scan_.ErrorAt(start, "a list of strings does not fit here");
  }
  WEFT_ASSIGN_OR_RETURN(std::vector<Number> numbers,
                        Numbers(limits_.list_items));
  bool floats = kind == AttrKind::kFloats;
  for (const Number& n : numbers) floats = floats || !n.is_int;
  if (floats) {
    std::vector<double> values;
    for (const Number& n : numbers) values.push_back(n.f);
    return Attr(std::move(values));
  }
  std::vector<int64_t> values;
  for (const Number& n : numbers) values.push_back(n.i);
  return Attr(std::move(values));
}

absl::StatusOr<Attr> Parser::Strings() {
  scan_.Advance();
  std::vector<std::string> values;
  if (scan_.Take(']')) return Attr(std::move(values));
  do {
    if (static_cast<int64_t>(values.size()) >= limits_.list_items) {
      return TooMany("items", limits_.list_items);
    }
    WEFT_ASSIGN_OR_RETURN(std::string text, scan_.QuotedString());
    values.push_back(std::move(text));
  } while (scan_.Take(','));
  WEFT_RETURN_IF_ERROR(scan_.Expect(']', "after a list"));
  return Attr(std::move(values));
}

// After "[": 1, 2, 3].
absl::StatusOr<std::vector<Number>> Parser::Numbers(int64_t limit) {
  std::vector<Number> numbers;
  if (scan_.Take(']')) return numbers;
  do {
    if (static_cast<int64_t>(numbers.size()) >= limit) {
      return TooMany("items", limit);
    }
    WEFT_ASSIGN_OR_RETURN(Number number, ParseNumber());
    numbers.push_back(number);
  } while (scan_.Take(','));
  WEFT_RETURN_IF_ERROR(scan_.Expect(']', "after a list"));
  return numbers;
}

// After "tensor".
absl::StatusOr<Literal> Parser::Tensor() {
  WEFT_RETURN_IF_ERROR(scan_.Expect('(', "after 'tensor'"));
  scan_.SkipSpace();
  size_t start = scan_.position();
  WEFT_ASSIGN_OR_RETURN(TensorType type, Type());
  int64_t bytes = type.num_bytes();
  if (bytes > limits_.tensor_bytes - tensor_bytes_) {
    return scan_.ErrorAt(
        start, absl::StrCat("tensors of more than ", limits_.tensor_bytes,
                            " bytes in one text"));
  }
  tensor_bytes_ += bytes;
  WEFT_RETURN_IF_ERROR(scan_.Expect(',', "after a tensor's type"));
  scan_.SkipSpace();
  size_t data = scan_.position();
  Literal literal;
  if (scan_.Take('[')) {
    WEFT_ASSIGN_OR_RETURN(std::vector<Number> numbers,
                          Numbers(type.shape.num_elements()));
    WEFT_ASSIGN_OR_RETURN(literal, FromNumbers(data, type, numbers));
  } else if (scan_.Peek() == '"') {
    WEFT_ASSIGN_OR_RETURN(std::string text, scan_.QuotedString());
    std::string decoded;
    if (!absl::Base64Unescape(text, &decoded) ||
        static_cast<int64_t>(decoded.size()) != bytes) {
      return scan_.ErrorAt(data, absl::StrCat("expected ", bytes,
                                              " bytes in base64 for a tensor ",
                                              type.ToString()));
    }
    literal = Literal(type, std::move(decoded));
  } else {
    if (scan_.Word() != "splat") {
      return scan_.ErrorAt(data, "expected [...], splat(...) or base64");
    }
    WEFT_RETURN_IF_ERROR(scan_.Expect('(', "after 'splat'"));
    WEFT_ASSIGN_OR_RETURN(Number number, ParseNumber());
    WEFT_ASSIGN_OR_RETURN(Literal one,
                          FromNumbers(data, {type.dtype, Shape()}, {number}));
    std::string repeated;
    repeated.reserve(bytes);
    while (static_cast<int64_t>(repeated.size()) < bytes) {
      absl::StrAppend(&repeated, one.bytes());
    }
    literal = Literal(type, std::move(repeated));
    WEFT_RETURN_IF_ERROR(scan_.Expect(')', "after a splat's value"));
  }
  WEFT_RETURN_IF_ERROR(scan_.Expect(')', "after a tensor"));
  return literal;
}

absl::StatusOr<Literal> Parser::FromNumbers(
    size_t start, const TensorType& type, const std::vector<Number>& numbers) {
  if (static_cast<int64_t>(numbers.size()) != type.shape.num_elements()) {
    return scan_.ErrorAt(
        start,
        absl::StrCat(numbers.size(), " values for a tensor ", type.ToString()));
  }
  std::vector<double> values;
  values.reserve(numbers.size());
  for (const Number& n : numbers) {
    if (!IsFloat(type.dtype) && !n.is_int) {
      return scan_.ErrorAt(start, absl::StrCat("a tensor ", type.ToString(),
                                               " holds integers only"));
    }
    values.push_back(n.f);
  }
  if (type.dtype == DType::kI64) {
    std::vector<int64_t> ints;
    for (const Number& n : numbers) ints.push_back(n.i);
    return Literal::Of<int64_t>(type.shape, std::move(ints));
  }
  Literal literal = Literal::FromDoubles(type, values);
  if (!IsFloat(type.dtype) && literal.ToDoubles() != values) {
    return scan_.ErrorAt(
        start, absl::StrCat("a value does not fit ", DTypeName(type.dtype)));
  }
  return literal;
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
