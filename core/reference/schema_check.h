// What a schema says about a use of its op, as text, for tests only: types in,
// types or the error out, so that a case is one line.
//
//   EXPECT_EQ(InferText("MatMul", {}, {"f32[2,3]", "f32[3,4]"}), "f32[2,4]");
//   EXPECT_THAT(InferText("MatMul", {}, {"f32[2,3]", "f32[4,5]"}),
//               ErrorWith("WEFT-2004", {"[2,3]", "[4,5]"}));
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_REFERENCE_SCHEMA_CHECK_H_
#define WEFT_CORE_REFERENCE_SCHEMA_CHECK_H_

#include <string>
#include <vector>

#include "core/ops/attr.h"
#include "core/ops/schema.h"
#include "core/reference/gradient_check.h"
#include "core/types/shape.h"
#include "gmock/gmock.h"

namespace weft {

// "f32[2,3]"; "" is an absent operand. Pre-condition: well formed.
TensorType ParseType(const std::string& text);

// The results' types, separated by spaces, or "WEFT-2004: message".
// `num_outputs` < 0: the schema's minimum.
std::string InferText(const std::string& op, const AttrMap& attrs,
                      const std::vector<std::string>& inputs,
                      int num_outputs = -1);

// Result `i` of running the case; empty, and the test fails, where it cannot
// run.
std::vector<double> ResultOf(const OpCase& c, int i = 0);

// The schema's cost. Pre-condition: the types infer.
Cost CostOf(const std::string& op, const AttrMap& attrs,
            const std::vector<std::string>& inputs);

// The ops that the schema's gradient emits, in order, where every float result
// has an incoming gradient. Pre-condition: the types infer.
std::vector<std::string> GradientOps(const std::string& op,
                                     const AttrMap& attrs,
                                     const std::vector<std::string>& inputs);

// Matches an InferText that failed with `code` and names all of `parts`.
testing::Matcher<std::string> ErrorWith(const std::string& code,
                                        const std::vector<std::string>& parts);

}  // namespace weft

#endif  // WEFT_CORE_REFERENCE_SCHEMA_CHECK_H_
