#include "core/graph/text_values.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft::text {

absl::StatusOr<TensorType> ValueParser::Type() {
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
      if (dims.size() >= kMaxRank) return scan_.TooMany("dimensions", kMaxRank);
      WEFT_ASSIGN_OR_RETURN(int64_t dim, scan_.Integer());
      dims.push_back(dim);
    } while (scan_.Take(','));
    WEFT_RETURN_IF_ERROR(scan_.Expect(']', "after a type's shape"));
  }
  absl::StatusOr<Shape> shape = Shape::Create(dims);
  if (!shape.ok()) return Annotate(shape.status(), scan_.Where(start));
  return TensorType{*dtype, *std::move(shape)};
}

absl::StatusOr<Attr> ValueParser::AttrValue(const AttrSpec* spec) {
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
  WEFT_ASSIGN_OR_RETURN(Number number, scan_.TakeNumber());
  bool wants_float = spec != nullptr && spec->kind == AttrKind::kFloat;
  if (number.is_int && !wants_float) return Attr(number.i);
  return Attr(number.f);
}

absl::StatusOr<Attr> ValueParser::ListValue(const AttrSpec* spec) {
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

absl::StatusOr<Attr> ValueParser::Strings() {
  scan_.Advance();
  std::vector<std::string> values;
  if (scan_.Take(']')) return Attr(std::move(values));
  do {
    if (static_cast<int64_t>(values.size()) >= limits_.list_items) {
      return scan_.TooMany("items", limits_.list_items);
    }
    WEFT_ASSIGN_OR_RETURN(std::string text, scan_.QuotedString());
    values.push_back(std::move(text));
  } while (scan_.Take(','));
  WEFT_RETURN_IF_ERROR(scan_.Expect(']', "after a list"));
  return Attr(std::move(values));
}

// After "[": 1, 2, 3].
absl::StatusOr<std::vector<Number>> ValueParser::Numbers(int64_t limit) {
  std::vector<Number> numbers;
  if (scan_.Take(']')) return numbers;
  do {
    if (static_cast<int64_t>(numbers.size()) >= limit) {
      return scan_.TooMany("items", limit);
    }
    WEFT_ASSIGN_OR_RETURN(Number number, scan_.TakeNumber());
    numbers.push_back(number);
  } while (scan_.Take(','));
  WEFT_RETURN_IF_ERROR(scan_.Expect(']', "after a list"));
  return numbers;
}

// After "tensor".
absl::StatusOr<Literal> ValueParser::Tensor() {
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
  WEFT_ASSIGN_OR_RETURN(Literal literal, TensorData(type));
  WEFT_RETURN_IF_ERROR(scan_.Expect(')', "after a tensor"));
  return literal;
}

absl::StatusOr<Literal> ValueParser::TensorData(const TensorType& type) {
  scan_.SkipSpace();
  size_t start = scan_.position();
  if (scan_.Take('[')) {
    WEFT_ASSIGN_OR_RETURN(std::vector<Number> numbers,
                          Numbers(type.shape.num_elements()));
    return FromNumbers(start, type, numbers);
  }
  if (scan_.Peek() != '"') return Splat(start, type);
  WEFT_ASSIGN_OR_RETURN(std::string text, scan_.QuotedString());
  std::string decoded;
  if (!absl::Base64Unescape(text, &decoded) ||
      static_cast<int64_t>(decoded.size()) != type.num_bytes()) {
    return scan_.ErrorAt(
        start, absl::StrCat("expected ", type.num_bytes(),
                            " bytes in base64 for a tensor ", type.ToString()));
  }
  return Literal(type, std::move(decoded));
}

absl::StatusOr<Literal> ValueParser::Splat(size_t start,
                                           const TensorType& type) {
  if (scan_.Word() != "splat") {
    return scan_.ErrorAt(start, "expected [...], splat(...) or base64");
  }
  WEFT_RETURN_IF_ERROR(scan_.Expect('(', "after 'splat'"));
  WEFT_ASSIGN_OR_RETURN(Number number, scan_.TakeNumber());
  WEFT_ASSIGN_OR_RETURN(Literal one,
                        FromNumbers(start, {type.dtype, Shape()}, {number}));
  std::string repeated;
  repeated.reserve(type.num_bytes());
  while (static_cast<int64_t>(repeated.size()) < type.num_bytes()) {
    absl::StrAppend(&repeated, one.bytes());
  }
  WEFT_RETURN_IF_ERROR(scan_.Expect(')', "after a splat's value"));
  return Literal(type, std::move(repeated));
}

absl::StatusOr<Literal> ValueParser::FromNumbers(
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

}  // namespace weft::text
