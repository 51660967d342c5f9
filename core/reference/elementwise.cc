#include "core/base/status_macros.h"
#include "core/ops/fused.h"
#include "core/ops/scalar.h"
#include "core/reference/evaluators.h"
#include "core/reference/integers.h"

namespace weft {
namespace reference {
namespace {

// Applies `f(a, b, c)` over the broadcast of up to three operands.
template <typename F>
void ForEach(absl::Span<const Tensor> in, Tensor* out, F f) {
  std::vector<std::vector<int64_t>> strides;
  for (const Tensor& x : in) {
    strides.push_back(BroadcastStrides(x.shape, out->shape));
  }
  for (Index it(out->shape); !it.done(); it.Next()) {
    double operand[3] = {0, 0, 0};
    for (size_t i = 0; i < in.size(); ++i) {
      operand[i] = in[i].v[it.Dot(strides[i])];
    }
    out->v[it.position()] = f(operand[0], operand[1], operand[2]);
  }
}

absl::Status Elementwise(const OpView& op, absl::Span<const Tensor> in,
                         std::vector<Tensor>* out) {
  OpId id = op.schema().id;
  DType dtype = op.input(0).dtype;
  bool integer = IsInteger(dtype);
  ForEach(in, &(*out)[0], [=](double a, double b, double c) {
    return integer ? IntegerValue(id, dtype, a, b) : ScalarValue(id, a, b, c);
  });
  return absl::OkStatus();
}

absl::Status LeakyRelu(const OpView& op, absl::Span<const Tensor> in,
                       std::vector<Tensor>* out) {
  double alpha = op.Float("alpha");
  ForEach(in, &(*out)[0], [alpha](double x, double, double) {
    return ScalarValue(OpId::kLeakyRelu, x, alpha);
  });
  return absl::OkStatus();
}

absl::Status Gelu(const OpView& op, absl::Span<const Tensor> in,
                  std::vector<Tensor>* out) {
  bool tanh = op.String("approximate") == "tanh";
  ForEach(in, &(*out)[0], [tanh](double x, double, double) {
    return tanh ? GeluTanh(x) : ScalarValue(OpId::kGelu, x);
  });
  return absl::OkStatus();
}

absl::Status GeluGrad(const OpView& op, absl::Span<const Tensor> in,
                      std::vector<Tensor>* out) {
  bool tanh = op.String("approximate") == "tanh";
  ForEach(in, &(*out)[0], [tanh](double dy, double x, double) {
    return dy * GeluSlope(x, tanh);
  });
  return absl::OkStatus();
}

// The conversion is the rounding at the end of Evaluate().
absl::Status Cast(const OpView& op, absl::Span<const Tensor> in,
                  std::vector<Tensor>* out) {
  (*out)[0].v = in[0].v;
  return absl::OkStatus();
}

absl::Status Where(const OpView& op, absl::Span<const Tensor> in,
                   std::vector<Tensor>* out) {
  ForEach(in, &(*out)[0], [](double condition, double x, double y) {
    return ScalarValue(OpId::kWhere, condition, x, y);
  });
  return absl::OkStatus();
}

absl::Status Fused(const OpView& op, absl::Span<const Tensor> in,
                   std::vector<Tensor>* out) {
  WEFT_ASSIGN_OR_RETURN(FusedProgram program, FusedProgram::FromOp(op));
  std::vector<std::vector<int64_t>> strides;
  for (const Tensor& x : in) {
    strides.push_back(BroadcastStrides(x.shape, (*out)[0].shape));
  }
  std::vector<double> operands(in.size());
  std::vector<double> results(out->size());
  for (Index it((*out)[0].shape); !it.done(); it.Next()) {
    for (size_t i = 0; i < in.size(); ++i) {
      operands[i] = in[i].v[it.Dot(strides[i])];
    }
    program.Evaluate(operands, &results);
    for (size_t i = 0; i < out->size(); ++i) {
      (*out)[i].v[it.position()] = results[i];
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddElementwiseEvaluators(EvaluatorTable* table) {
  for (OpId id : {OpId::kAdd,         OpId::kSub,        OpId::kMul,
                  OpId::kDiv,         OpId::kPow,        OpId::kMax,
                  OpId::kMin,         OpId::kEqual,      OpId::kLess,
                  OpId::kLessOrEqual, OpId::kGreater,    OpId::kGreaterOrEqual,
                  OpId::kAnd,         OpId::kOr,         OpId::kNeg,
                  OpId::kAbs,         OpId::kExp,        OpId::kLog,
                  OpId::kSqrt,        OpId::kRelu,       OpId::kSigmoid,
                  OpId::kTanh,        OpId::kErf,        OpId::kSoftplus,
                  OpId::kSign,        OpId::kReciprocal, OpId::kNot,
                  OpId::kIdentity}) {
    table->Add(id, Elementwise);
  }
  table->Add(OpId::kLeakyRelu, LeakyRelu);
  table->Add(OpId::kGelu, Gelu);
  table->Add(OpId::kGeluGrad, GeluGrad);
  table->Add(OpId::kCast, Cast);
  table->Add(OpId::kWhere, Where);
  table->Add(OpId::kFused, Fused);
}

}  // namespace reference
}  // namespace weft
