// ValueParser: types, attribute values and tensors within a graph's text.
//
//   ValueParser values(&scan, limits);
//   WEFT_ASSIGN_OR_RETURN(Attr a, values.AttrValue(schema->FindAttr(name)));
//
// The limits are those of one text: tensors count together.
//
// Threading: thread-compatible. Ownership: borrows the scanner and the limits.
#ifndef WEFT_CORE_GRAPH_TEXT_VALUES_H_
#define WEFT_CORE_GRAPH_TEXT_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/text.h"
#include "core/graph/text_scanner.h"
#include "core/ops/schema.h"
#include "core/types/literal.h"

namespace weft::text {

class ValueParser {
 public:
  ValueParser(Scanner* scan, const ParseLimits& limits)
      : scan_(*scan), limits_(limits) {}

  // f32[2,3]
  absl::StatusOr<TensorType> Type();
  // One attribute's value; `spec`, which may be null, decides where the text
  // leaves a choice.
  absl::StatusOr<Attr> AttrValue(const AttrSpec* spec);

 private:
  absl::StatusOr<Attr> ListValue(const AttrSpec* spec);
  absl::StatusOr<Attr> Strings();
  absl::StatusOr<Literal> Tensor();
  absl::StatusOr<Literal> TensorData(const TensorType& type);
  absl::StatusOr<Literal> Splat(size_t start, const TensorType& type);
  absl::StatusOr<std::vector<Number>> Numbers(int64_t limit);
  absl::StatusOr<Literal> FromNumbers(size_t start, const TensorType& type,
                                      const std::vector<Number>& numbers);

  Scanner& scan_;
  const ParseLimits& limits_;
  int64_t tensor_bytes_ = 0;
};

}  // namespace weft::text

#endif  // WEFT_CORE_GRAPH_TEXT_VALUES_H_
