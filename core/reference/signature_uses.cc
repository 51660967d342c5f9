#include "core/reference/signature_uses.h"

#include <cstdint>
#include <string>
#include <vector>

#include "core/ops/fused.h"
#include "core/ops/schema.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;
using Uses = std::vector<OpUse>;

void Append(Uses more, Uses* all) {
  all->insert(all->end(), more.begin(), more.end());
}

Uses Elementwise() {
  Uses out;
  for (const char* op : {"Add", "Sub", "Mul", "Max", "Min", "Equal", "Less",
                         "LessOrEqual", "Greater", "GreaterOrEqual"}) {
    out.push_back({op, {}, {"x[12,4]", "x[12,4]"}});
    out.push_back({op, {}, {"x[12,1,12]", "x[6,1]"}});
  }
  for (const char* op : {"And", "Or"}) {
    out.push_back({op, {}, {"bool[12]", "bool[12]"}});
  }
  for (const char* op :
       {"Neg", "Abs", "Exp", "Relu", "LeakyRelu", "Sigmoid", "Tanh", "Erf",
        "Softplus", "weft.Gelu", "Sign", "Identity", "weft.Copy"}) {
    out.push_back({op, {}, {"x[12,6]"}});
  }
  for (const char* op : {"Log", "Sqrt", "Reciprocal"}) {
    out.push_back({op, {}, {"x[12,6]"}, -1, 0.5, 2});
  }
  FusedProgram program(2);
  program.outputs = {program.Add(OpId::kMax, program.Add(OpId::kMul, 0, 1),
                                 program.Constant(0.25))};
  const AttrMap to_f64 = {{"to", DType::kF64}}, to_f16 = {{"to", DType::kF16}};
  Append({{"Div", {}, {"x[12,12]", "x[12]"}, -1, 0.5, 2},
          {"Div", {}, {"i64[12]", "i64[12]"}},
          {"Pow", {}, {"x[12,12]", "x[12]"}, -1, 0.5, 2},
          {"Not", {}, {"bool[12]"}},
          {"Cast", to_f64, {"x[12]"}},
          {"Cast", to_f16, {"x[12]"}},
          {"Cast", {{"to", DType::kI32}}, {"x[12]"}},
          {"Where", {}, {"bool[12,1]", "x[12,12]", "x[12]"}},
          {"weft.GeluGrad", {}, {"x[12,6]", "x[12,6]"}},
          {"weft.fused", program.ToAttrs(), {"x[12,6]", "x[6]"}}},
         &out);
  return out;
}

Uses Shapes() {
  return {
      {"Reshape", {{"shape", Ints{144, 36}}}, {"x[12,12,36]"}},
      {"Reshape", {{"shape", Ints{12, 4, 12, 2}}}, {"x[12,96]"}},
      {"Reshape", {{"shape", Ints{0, -1, 1}}}, {"x[12,12,4]"}},
      {"Reshape", {{"shape", Ints{24, 6}}}, {"x[12,1,12]"}},
      {"Flatten", {{"axis", 1}}, {"x[12,2,12]"}},
      {"Squeeze", {}, {"x[1,12,1,2]"}},
      {"Squeeze", {{"axes", Ints{0}}}, {"x[1,12]"}},
      {"Unsqueeze", {{"axes", Ints{0, 2}}}, {"x[12,12]"}},
      {"Transpose", {}, {"x[12,4,6]"}},
      {"Transpose", {{"perm", Ints{1, 2, 0}}}, {"x[12,4,6]"}},
      {"Expand", {{"shape", Ints{12, 1, 12}}}, {"x[12,12,1]"}},
      {"Expand", {{"shape", Ints{12}}}, {"x[12,12,1]"}},
      {"Concat", {{"axis", 1}}, {"x[12,4]", "x[12,8]"}},
      {"Concat", {{"axis", -1}}, {"x[12,12]", "x[12,12]", "x[12,12]"}},
      {"Split", {{"axis", 1}, {"split", Ints{2, 10}}}, {"x[12,12]"}, 2},
      {"Split", {{"axis", 1}, {"split", Ints{12, 12, 12}}}, {"x[4,36]"}, 3},
      {"Slice",
       {{"starts", Ints{1, -12}},
        {"ends", Ints{7, 12}},
        {"axes", Ints{-1, 0}},
        {"steps", Ints{2, 1}}},
       {"x[12,12,12]"}},
      {"Pad", {{"pads", Ints{0, 1, 0, 0, 2, 0}}}, {"x[12,2,12]"}},
      {"Pad", {{"pads", Ints{0, 1, 0, -1}}, {"value", 2.0}}, {"x[12,12]"}},
      {"Gather", {}, {"x[4,12]", "i64[12,2]"}},
      {"Gather", {{"axis", -2}}, {"x[12,4,12]", "i32[12]"}},
      {"weft.GatherGrad",
       {{"axis", 1}, {"input_shape", Ints{12, 4, 12}}},
       {"x[12,12,2,12]", "i64[12,2]"}},
      {"weft.StridedCopy",
       {{"shape", Ints{12, 3, 12}},
        {"strides", Ints{36, -1, 0}},
        {"offset", 5}},
       {"x[12,12,3]"}},
      {"weft.StridedCopy",
       {{"shape", Ints{12, 12}}, {"strides", Ints{1, 36}}, {"offset", 12}},
       {"x[12,36]"}},
      {"weft.Iota",
       {{"shape", Ints{12, 12}}, {"dtype", DType::kI64}, {"axis", 1}},
       {}},
  };
}

Uses Reductions() {
  Uses out;
  for (const char* op :
       {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"}) {
    out.push_back({op, {}, {"x[12,2]"}});
    out.push_back({op, {{"axes", Ints{1}}, {"keepdims", 0}}, {"x[12,12,4]"}});
  }
  out.push_back({"ArgMax", {{"axis", 1}, {"keepdims", 0}}, {"x[12,4,12]"}});
  out.push_back({"weft.SumOfSquares", {}, {"x[12,4,6]"}});
  return out;
}

Uses Products() {
  const AttrMap gemm = {{"alpha", 0.5}, {"beta", 2.0}};
  AttrMap transposed = gemm;
  transposed.Set("transA", 1);
  transposed.Set("transB", 1);
  const AttrMap relu = {{"activation", "relu"}};
  return {
      {"MatMul", {}, {"x[12,4]", "x[4,36]"}},
      {"MatMul", {}, {"x[12,12,4]", "x[4,12]"}},
      {"MatMul", {}, {"x[12,1,2,12]", "x[6,12,3]"}},
      {"MatMul", {}, {"x[12]", "x[12,12]"}},
      {"MatMul", {}, {"x[2,12,12]", "x[12]"}},
      {"MatMul", {}, {"x[12]", "x[12]"}},
      {"Gemm", gemm, {"x[12,12]", "x[12,12]", "x[12]"}},
      {"Gemm", gemm, {"x[12,12]", "x[12,12]", "x[12,1]"}},
      {"Gemm", transposed, {"x[12,6]", "x[36,12]"}},
      {"Gemm", relu, {"x[12,12]", "x[12,12]", "x[12,12]"}},
  };
}

Uses Images() {
  const AttrMap grouped = {{"group", 12}};
  const AttrMap blocked = {{"layout", "NCHW16c"}, {"out_layout", "NCHW16c"}};
  const AttrMap pool = {{"kernel_shape", Ints{2, 2}},
                        {"strides", Ints{1, 1}},
                        {"pads", Ints{0, 0, 0, 0}}};
  AttrMap average_grad = pool;
  average_grad.Set("input_shape", Ints{12, 12, 3, 3});
  AttrMap to_input = {{"input_shape", Ints{12, 12, 3, 3}}};
  AttrMap to_weights = {{"weight_shape", Ints{12, 12, 2, 2}}};
  AttrMap grouped_input = grouped, grouped_weights = grouped;
  grouped_input.Set("input_shape", Ints{2, 12, 2, 2});
  grouped_weights.Set("weight_shape", Ints{24, 1, 1, 1});
  AttrMap blocked_input = blocked;
  blocked_input.Set("input_shape", Ints{2, 64, 1, 1});
  return {
      {"Conv", {}, {"x[12,12,3,3]", "x[12,12,2,2]", "x[12]"}},
      {"Conv", {}, {"x[2,12,2,2]", "x[4,12,1,1]"}},
      {"Conv", grouped, {"x[2,12,2,2]", "x[24,1,1,1]", "x[24]"}},
      {"Conv", blocked, {"x[2,4,1,1,16]", "x[64,64,1,1]"}},
      {"weft.ConvGradInput", to_input, {"x[12,12,2,2]", "x[12,12,2,2]"}},
      {"weft.ConvGradInput", grouped_input, {"x[2,24,2,2]", "x[24,1,1,1]"}},
      {"weft.ConvGradInput", blocked_input, {"x[2,4,1,1,16]", "x[64,64,1,1]"}},
      {"weft.ConvGradWeights", to_weights, {"x[12,12,2,2]", "x[12,12,3,3]"}, 2},
      {"weft.ConvGradWeights", grouped_weights, {"x[2,24,2,2]", "x[2,12,2,2]"}},
      {"MaxPool", pool, {"x[12,12,3,3]"}},
      {"weft.MaxPoolGrad", pool, {"x[12,12,2,2]", "x[12,12,3,3]"}},
      {"AveragePool", pool, {"x[12,12,3,3]"}},
      {"weft.AveragePoolGrad", average_grad, {"x[12,12,2,2]"}},
      {"GlobalAveragePool", {}, {"x[12,12,2,3]"}},
  };
}

Uses Norms() {
  return {
      {"BatchNormalization",
       {},
       {"x[12,12,4]", "x[12]", "x[12]", "x[12]", "x[12]"},
       -1,
       0.5,
       1},
      {"BatchNormalization",
       {{"training_mode", 1}},
       {"x[4,12,4]", "x[12]", "x[12]", "x[12]", "x[12]"},
       3,
       0.5,
       1},
      {"weft.BatchNormTraining",
       {},
       {"x[4,12,2]", "x[12]", "x[12]", "x[4,12,2]"}},
      {"weft.BatchNormGrad",
       {},
       {"x[4,12,2]", "x[4,12,2]", "x[12]", "x[12]", "x[12]"},
       -1,
       0.5,
       1},
      {"LayerNormalization", {}, {"x[12,12,4]", "x[4]", "", "x[12,12,4]"}, 4},
      {"LayerNormalization", {{"axis", 1}}, {"x[12,2,2]", "x[2,2]", "x[2,2]"}},
      {"weft.LayerNormGrad",
       {},
       {"x[12,12,4]", "x[12,12,4]", "x[4]", "x[12,12,1]", "x[12,12,1]"}},
      {"Softmax", {}, {"x[12,12,4]"}},
      {"LogSoftmax", {{"axis", 1}}, {"x[12,12,4]"}},
  };
}

Uses Losses() {
  const AttrMap smooth = {{"label_smoothing", 0.1}};
  const AttrMap dropout = {{"ratio", 0.25}, {"seed", 3}, {"stream", 4}};
  const AttrMap attention = {{"heads", 12}, {"causal", 1}};
  AttrMap dropping = attention;
  dropping.Set("ratio", 0.5);
  dropping.Set("stream", 7);
  const std::string qkv = "x[12,3,72]", rows = "x[12,3,24]", lse = "x[12,12,3]";
  return {
      {"weft.SoftmaxCrossEntropyLoss", smooth, {"x[12,4]", "i64[12]", "x[12]"}},
      {"weft.SoftmaxCrossEntropyLossGrad",
       smooth,
       {"x[]", "x[12,4]", "i64[12]", "x[12]"}},
      {"weft.SoftmaxCrossEntropyLossAndGrad",
       smooth,
       {"x[12,4]", "i32[12]", "x[12]", "x[]"}},
      {"Dropout", {}, {"x[12,12]"}},
      {"weft.DropoutTraining", dropout, {"x[12,5,36]", "i64[2]"}},
      {"weft.DropoutGrad", {{"ratio", 0.25}}, {"x[12,4]", "bool[12,4]"}},
      {"weft.SelfAttention", attention, {qkv}},
      {"weft.SelfAttention", dropping, {qkv, "i64[2]"}},
      {"weft.SelfAttentionGrad", attention, {qkv, rows, lse, rows}},
      {"weft.SelfAttentionGrad",
       dropping,
       {qkv, rows, lse, rows, lse, "i64[2]"}},
      {"weft.RandomUniform",
       {{"shape", Ints{12, 36}}, {"dtype", DType::kF32}, {"stream", 5}},
       {"i64[2]"}},
      {"weft.RandomNormal",
       {{"shape", Ints{12, 3, 12}}, {"dtype", DType::kF64}, {"seed", 5}},
       {"i64[2]"}},
  };
}

Uses State() {
  const std::string p = "x[12,4]", v = "x[4]";
  return {
      {"weft.Variable",
       {{"shape", Ints{12, 36}}, {"dtype", DType::kF32}, {"init", "normal"}},
       {}},
      {"weft.Assign", {}, {p, p}},
      {"weft.EmaUpdate", {{"momentum", 0.9}}, {p, p, "f32[]"}},
      {"weft.SgdUpdate", {{"weight_decay", 0.1}}, {p, p, "f32[]"}},
      {"weft.SgdUpdate", {}, {p, v, p, v, "f32[]"}, 2},
      {"weft.MomentumUpdate", {{"momentum", 0.9}}, {p, p, p, "f32[]"}},
      {"weft.AdamUpdate", {}, {p, p, p, p, "f32[]", "i64[2]"}, -1, 0, 1},
      {"weft.AdagradUpdate", {}, {p, p, p, "f32[]"}, -1, 0, 1},
      {"weft.Accumulate", {{"count", 3}}, {p}},
  };
}

}  // namespace

std::vector<OpUse> SignatureUses() {
  Uses out;
  for (const auto& family : {Elementwise, Shapes, Reductions, Products, Images,
                             Norms, Losses, State}) {
    Append(family(), &out);
  }
  return out;
}

std::map<std::string, std::string> OpsWithoutSignatures() {
  const std::string scalar = "a number that all share";
  const std::string whole = "each member has the whole; slicing is boxing";
  const std::string later = "comes after values have been given to ranks";
  return {
      {"weft.GlobalNorm", "a root of sums; its decomposition has signatures"},
      {"weft.ClipScale", scalar},
      {"weft.LearningRate", scalar},
      {"weft.LossScaleUpdate", scalar},
      {"weft.Counter", scalar},
      {"Constant", whole},
      {"weft.Input", whole},
      {"weft.DataSource", whole},
      {"weft.Output", "the session gets the whole"},
      {"weft.Send", later},
      {"weft.Recv", later},
      {"weft.ReduceToAll", later},
      {"weft.CopyToAll", later},
      {"weft.Empty", later},
  };
}

}  // namespace weft
