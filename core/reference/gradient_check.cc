#include "core/reference/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/ops/schema.h"
#include "core/reference/eager.h"
#include "core/reference/evaluate.h"

namespace weft {
namespace {

// What a view refers to, kept together.
struct Prepared {
  const OpSchema* schema = nullptr;
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;

  OpView View(const OpCase& c) const {
    return OpView(*schema, "case", c.attrs, inputs, outputs);
  }
};

absl::StatusOr<Prepared> Prepare(const OpCase& c) {
  Prepared p;
  WEFT_ASSIGN_OR_RETURN(p.schema, OpRegistry::Global().Find(c.op));
  for (const Literal& input : c.inputs) p.inputs.push_back(input.type());
  int num_outputs = c.num_outputs < 0 ? p.schema->outputs.min : c.num_outputs;
  WEFT_ASSIGN_OR_RETURN(
      p.outputs, InferTypes(*p.schema, "case", c.attrs, p.inputs, num_outputs));
  return p;
}

bool Contains(const std::vector<int>& list, int item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// Fixed weights make the results one scalar: the loss that is differentiated.
// weights[i] is a default Literal where result i takes no part.
double Loss(const std::vector<Literal>& results,
            const std::vector<Literal>& weights) {
  double loss = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    if (weights[i].type().dtype == DType::kInvalid) continue;
    std::vector<double> y = results[i].ToDoubles();
    std::vector<double> w = weights[i].ToDoubles();
    for (size_t k = 0; k < y.size(); ++k) loss += y[k] * w[k];
  }
  return loss;
}

absl::StatusOr<std::vector<Literal>> AnalyticGradient(
    const OpCase& c, const Prepared& p, const std::vector<Literal>& results,
    const std::vector<Literal>& weights) {
  EagerEmitter emit;
  std::vector<Value> inputs, outputs, grads;
  for (const Literal& x : c.inputs) {
    inputs.push_back(x.type().dtype == DType::kInvalid ? Value{} : emit.Add(x));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    outputs.push_back(emit.Add(results[i]));
    grads.push_back(weights[i].type().dtype == DType::kInvalid
                        ? Value{}
                        : emit.Add(weights[i]));
  }
  OpView view = p.View(c);
  std::vector<Value> values =
      p.schema->gradient({view, inputs, outputs, grads, emit});
  WEFT_RETURN_IF_ERROR(emit.status());
  if (values.size() != c.inputs.size()) {
    return absl::InternalError(absl::StrCat(c.op, ": ", values.size(),
                                            " gradients for ", c.inputs.size(),
                                            " operands"));
  }
  std::vector<Literal> gradients;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].valid()) {
      gradients.emplace_back();
      continue;
    }
    gradients.push_back(emit.literal(values[i]));
    if (gradients.back().type() != p.inputs[i]) {
      return absl::InternalError(
          absl::StrCat(c.op, ": gradient of operand ", i, " is ",
                       gradients.back().type().ToString(), ", the operand is ",
                       p.inputs[i].ToString()));
    }
  }
  return gradients;
}

absl::StatusOr<double> LossAt(OpCase c, size_t operand, size_t element,
                              double value,
                              const std::vector<Literal>& weights) {
  std::vector<double> x = c.inputs[operand].ToDoubles();
  x[element] = value;
  c.inputs[operand] = Literal::FromDoubles(c.inputs[operand].type(), x);
  WEFT_ASSIGN_OR_RETURN(std::vector<Literal> results, RunOp(c));
  return Loss(results, weights);
}

absl::Status CompareOperand(const OpCase& c, size_t operand,
                            const Literal& gradient,
                            const std::vector<Literal>& weights,
                            const GradientCheckOptions& options) {
  std::vector<double> x = c.inputs[operand].ToDoubles();
  std::vector<double> analytic(x.size(), 0);
  if (gradient.type().dtype != DType::kInvalid) analytic = gradient.ToDoubles();
  for (size_t k = 0; k < x.size(); ++k) {
    double h = options.step * std::max(1.0, std::fabs(x[k]));
    WEFT_ASSIGN_OR_RETURN(double above,
                          LossAt(c, operand, k, x[k] + h, weights));
    WEFT_ASSIGN_OR_RETURN(double below,
                          LossAt(c, operand, k, x[k] - h, weights));
    double numeric = (above - below) / (2 * h);
    double error = std::fabs(analytic[k] - numeric);
    if (error <= options.tolerance * std::max(1.0, std::fabs(numeric))) {
      continue;  // NaN does not pass
    }
    return absl::InternalError(absl::StrCat(
        c.op, ": gradient of operand ", operand, " at element ", k, " (x = ",
        x[k], ") is ", analytic[k], ", finite differences give ", numeric));
  }
  return absl::OkStatus();
}

// `only` >= 0: just that result has an incoming gradient.
absl::Status CheckGradientOf(const OpCase& c, const Prepared& p,
                             const std::vector<Literal>& results,
                             const GradientCheckOptions& options, int only) {
  std::vector<Literal> weights(results.size());
  for (int i = 0; i < static_cast<int>(results.size()); ++i) {
    if (p.outputs[i].dtype != DType::kF64) continue;
    if (Contains(options.skip_outputs, i) || (only >= 0 && i != only)) continue;
    weights[i] = RandomLiteral(p.outputs[i].shape, 1000 + i, 0.5, 1.5);
  }
  WEFT_ASSIGN_OR_RETURN(std::vector<Literal> gradients,
                        AnalyticGradient(c, p, results, weights));
  for (int i = 0; i < static_cast<int>(c.inputs.size()); ++i) {
    if (p.inputs[i].dtype != DType::kF64) continue;
    if (Contains(options.skip_inputs, i)) continue;
    WEFT_RETURN_IF_ERROR(CompareOperand(c, i, gradients[i], weights, options));
  }
  return absl::OkStatus();
}

}  // namespace

Literal RandomLiteral(const Shape& shape, uint64_t seed, double low,
                      double high) {
  std::vector<double> values(shape.num_elements());
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
  for (double& v : values) {  // xorshift64*
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    double unit = static_cast<double>((state * 0x2545f4914f6cdd1du) >> 11) /
                  9007199254740992.0;
    v = low + unit * (high - low);
  }
  return Literal::FromDoubles({DType::kF64, shape}, values);
}

absl::StatusOr<std::vector<Literal>> RunOp(const OpCase& c) {
  WEFT_ASSIGN_OR_RETURN(Prepared p, Prepare(c));
  return Evaluate(p.View(c), c.inputs);
}

absl::Status CheckGradient(const OpCase& c,
                           const GradientCheckOptions& options) {
  WEFT_ASSIGN_OR_RETURN(Prepared p, Prepare(c));
  if (p.schema->gradient == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(c.op, " has no gradient"));
  }
  WEFT_ASSIGN_OR_RETURN(std::vector<Literal> results, RunOp(c));
  WEFT_RETURN_IF_ERROR(CheckGradientOf(c, p, results, options, -1));
  if (results.size() < 2) return absl::OkStatus();
  for (int i = 0; i < static_cast<int>(results.size()); ++i) {
    WEFT_RETURN_IF_ERROR(CheckGradientOf(c, p, results, options, i));
  }
  return absl::OkStatus();
}

absl::Status CheckClose(const Literal& expected, const Literal& actual,
                        double tolerance) {
  if (expected.type() != actual.type()) {
    return absl::InternalError(
        absl::StrCat("expected ", expected.type().ToString(), ", got ",
                     actual.type().ToString()));
  }
  std::vector<double> want = expected.ToDoubles();
  std::vector<double> have = actual.ToDoubles();
  for (size_t i = 0; i < want.size(); ++i) {
    if (want[i] == have[i]) continue;
    if (std::isnan(want[i]) && std::isnan(have[i])) continue;
    double bound = tolerance * std::max(1.0, std::fabs(want[i]));
    if (std::isfinite(want[i]) && std::fabs(want[i] - have[i]) <= bound) {
      continue;
    }
    return absl::InternalError(
        absl::StrCat("element ", i, ": expected ", want[i], ", got ", have[i]));
  }
  return absl::OkStatus();
}

absl::Status CheckDecomposition(const OpCase& c, double tolerance) {
  WEFT_ASSIGN_OR_RETURN(Prepared p, Prepare(c));
  if (p.schema->decompose == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(c.op, " has no decomposition"));
  }
  WEFT_ASSIGN_OR_RETURN(std::vector<Literal> expected, RunOp(c));
  for (auto mode :
       {EagerEmitter::Mode::kDirect, EagerEmitter::Mode::kPrimitives}) {
    EagerEmitter emit(mode);
    std::vector<Value> inputs;
    for (const Literal& x : c.inputs) {
      inputs.push_back(x.type().dtype == DType::kInvalid ? Value{}
                                                         : emit.Add(x));
    }
    std::vector<Value> values = p.schema->decompose(p.View(c), inputs, emit);
    WEFT_RETURN_IF_ERROR(emit.status());
    if (values.size() != expected.size()) {
      return absl::InternalError(
          absl::StrCat(c.op, ": decomposition gives ", values.size(),
                       " results, expected ", expected.size()));
    }
    for (size_t i = 0; i < values.size(); ++i) {
      if (!values[i].valid()) {
        return absl::InternalError(
            absl::StrCat(c.op, ": decomposition gives no result ", i));
      }
      absl::Status same =
          CheckClose(expected[i], emit.literal(values[i]), tolerance);
      if (!same.ok()) {
        return Annotate(same, absl::StrCat(c.op, " decomposed, result ", i));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace weft
