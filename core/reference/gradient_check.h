// Checks of a schema against its own reference, for tests only:
//
//   OpCase c{"MatMul", {}, {RandomLiteral({2, 3}, 1), RandomLiteral({3, 4},
//   2)}}; EXPECT_EQ(CheckGradient(c), absl::OkStatus());
//   EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
//
// Keep the inputs away from kinks (|x| at 0, ties of a maximum): a central
// difference across one is meaningless.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_REFERENCE_GRADIENT_CHECK_H_
#define WEFT_CORE_REFERENCE_GRADIENT_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ops/attr.h"
#include "core/types/literal.h"

namespace weft {

// One use of an op on concrete values. A default Literal is an absent operand.
struct OpCase {
  std::string op;
  AttrMap attrs;
  std::vector<Literal> inputs;
  int num_outputs = -1;  // < 0: the schema's minimum
};

// f64 values in [low, high), the same for the same seed on every machine.
Literal RandomLiteral(const Shape& shape, uint64_t seed, double low = -1,
                      double high = 1);

// Infers and evaluates.
absl::StatusOr<std::vector<Literal>> RunOp(const OpCase& c);

struct GradientCheckOptions {
  double step = 1e-5;
  double tolerance = 1e-6;  // of |analytic - numeric| / max(1, |numeric|)
  // Operands to leave out: statistics and the like, whose gradient the op
  // declares absent although the function does depend on them.
  std::vector<int> skip_inputs = {};
  // Results whose incoming gradient stays absent; results that are not f64
  // never get one.
  std::vector<int> skip_outputs = {};
};

// Compares the schema's gradient with central differences of the weighted sum
// of the results, for every element of every f64 operand: once with gradients
// of all results present, then with each alone. An absent gradient must be a
// numeric zero. The message names operand, element and both values.
absl::Status CheckGradient(const OpCase& c,
                           const GradientCheckOptions& options = {});

// Compares the decomposition with direct evaluation, as written and expanded
// down to primitives. kInvalidArgument where the op has no decomposition.
absl::Status CheckDecomposition(const OpCase& c, double tolerance = 1e-9);

// Equal types, and |a - b| <= tolerance * max(1, |a|) everywhere; infinities
// and NaN must agree.
absl::Status CheckClose(const Literal& expected, const Literal& actual,
                        double tolerance);

}  // namespace weft

#endif  // WEFT_CORE_REFERENCE_GRADIENT_CHECK_H_
