#include <algorithm>
#include <iterator>

#include "devices/cpu/kernel.h"

namespace weft_cpu {
namespace {

// Ordered by op.
constexpr KernelEntry kTable[] = {
    {WEFT_OP_ADD, MakeBinary, true},
    {WEFT_OP_SUB, MakeBinary, true},
    {WEFT_OP_MUL, MakeBinary, true},
    {WEFT_OP_DIV, MakeBinary, true},
    {WEFT_OP_POW, MakeBinary, true},
    {WEFT_OP_MAX, MakeBinary, true},
    {WEFT_OP_MIN, MakeBinary, true},
    {WEFT_OP_EQUAL, MakeCompare, true},
    {WEFT_OP_LESS, MakeCompare, true},
    {WEFT_OP_LESS_OR_EQUAL, MakeCompare, true},
    {WEFT_OP_GREATER, MakeCompare, true},
    {WEFT_OP_GREATER_OR_EQUAL, MakeCompare, true},
    {WEFT_OP_AND, MakeLogical, true},
    {WEFT_OP_OR, MakeLogical, true},
    {WEFT_OP_NEG, MakeUnary, true},
    {WEFT_OP_ABS, MakeUnary, true},
    {WEFT_OP_EXP, MakeUnary, true},
    {WEFT_OP_LOG, MakeUnary, true},
    {WEFT_OP_SQRT, MakeUnary, true},
    {WEFT_OP_RELU, MakeUnary, true},
    {WEFT_OP_LEAKY_RELU, MakeUnary, true},
    {WEFT_OP_SIGMOID, MakeUnary, true},
    {WEFT_OP_TANH, MakeUnary, true},
    {WEFT_OP_ERF, MakeUnary, true},
    {WEFT_OP_SOFTPLUS, MakeUnary, true},
    {WEFT_OP_GELU, MakeUnary, true},
    {WEFT_OP_SIGN, MakeUnary, true},
    {WEFT_OP_RECIPROCAL, MakeUnary, true},
    {WEFT_OP_NOT, MakeNot, true},
    {WEFT_OP_IDENTITY, MakeReshape, true},
    {WEFT_OP_CAST, MakeCast, true},
    {WEFT_OP_WHERE, MakeWhere, true},
    {WEFT_OP_FUSED, MakeFused, true},
    {WEFT_OP_RESHAPE, MakeReshape, true},
    {WEFT_OP_FLATTEN, MakeReshape, true},
    {WEFT_OP_TRANSPOSE, MakeTranspose, true},
    {WEFT_OP_CONCAT, MakeConcat, true},
    {WEFT_OP_SPLIT, MakeSplit, true},
    {WEFT_OP_SLICE, MakeSlice, true},
    {WEFT_OP_PAD, MakePad, true},
    {WEFT_OP_EXPAND, MakeExpand, true},
    {WEFT_OP_SQUEEZE, MakeReshape, true},
    {WEFT_OP_UNSQUEEZE, MakeReshape, true},
    {WEFT_OP_GATHER, MakeGather, false},
    {WEFT_OP_GATHER_GRAD, MakeGatherGrad, false},
    {WEFT_OP_STRIDED_COPY, MakeStridedCopy, false},
    {WEFT_OP_IOTA, MakeIota, false},
    {WEFT_OP_REDUCE_SUM, MakeReduce, false},
    {WEFT_OP_REDUCE_MEAN, MakeReduce, false},
    {WEFT_OP_REDUCE_MAX, MakeReduce, false},
    {WEFT_OP_REDUCE_MIN, MakeReduce, false},
    {WEFT_OP_REDUCE_PROD, MakeReduce, false},
    {WEFT_OP_ARG_MAX, MakeArgMax, false},
    {WEFT_OP_MAT_MUL, MakeMatMul, false},
    {WEFT_OP_GEMM, MakeGemm, false},
    {WEFT_OP_CONV, MakeConv, false},
    {WEFT_OP_CONV_GRAD_INPUT, MakeConv, false},
    {WEFT_OP_CONV_GRAD_WEIGHTS, MakeConv, false},
    {WEFT_OP_MAX_POOL, MakeMaxPool, false},
    {WEFT_OP_MAX_POOL_GRAD, MakeMaxPoolGrad, false},
    {WEFT_OP_AVERAGE_POOL, MakeAveragePool, false},
    {WEFT_OP_AVERAGE_POOL_GRAD, MakeAveragePoolGrad, false},
    {WEFT_OP_GLOBAL_AVERAGE_POOL, MakeGlobalAveragePool, false},
    {WEFT_OP_BATCH_NORMALIZATION, MakeBatchNormalization, false},
    {WEFT_OP_BATCH_NORM_TRAINING, MakeBatchNormTraining, false},
    {WEFT_OP_BATCH_NORM_GRAD, MakeBatchNormGrad, false},
    {WEFT_OP_LAYER_NORMALIZATION, MakeLayerNormalization, false},
    {WEFT_OP_LAYER_NORM_GRAD, MakeLayerNormGrad, false},
    {WEFT_OP_SOFTMAX, MakeSoftmax, false},
    {WEFT_OP_LOG_SOFTMAX, MakeSoftmax, false},
    {WEFT_OP_SOFTMAX_CROSS_ENTROPY_LOSS, MakeCrossEntropy, false},
    {WEFT_OP_SOFTMAX_CROSS_ENTROPY_LOSS_GRAD, MakeCrossEntropyGrad, false},
    {WEFT_OP_DROPOUT, MakeReshape, true},
    {WEFT_OP_DROPOUT_TRAINING, MakeDropoutTraining, false},
    {WEFT_OP_RANDOM_UNIFORM, MakeRandom, false},
    {WEFT_OP_RANDOM_NORMAL, MakeRandom, false},
    {WEFT_OP_ASSIGN, MakeUpdate, false},
    {WEFT_OP_EMA_UPDATE, MakeUpdate, false},
    {WEFT_OP_SGD_UPDATE, MakeUpdate, false},
    {WEFT_OP_MOMENTUM_UPDATE, MakeUpdate, false},
    {WEFT_OP_ADAM_UPDATE, MakeUpdate, false},
    {WEFT_OP_ADAGRAD_UPDATE, MakeUpdate, false},
    {WEFT_OP_GLOBAL_NORM, MakeGlobalNorm, false},
    {WEFT_OP_CLIP_SCALE, MakeClipScale, false},
    {WEFT_OP_LEARNING_RATE, MakeLearningRate, false},
};

}  // namespace

KernelTable AllKernels() { return {std::begin(kTable), std::end(kTable)}; }

const KernelEntry* FindKernel(uint32_t op) {
  const KernelTable all = AllKernels();
  const KernelEntry* row = std::lower_bound(
      all.begin(), all.end(), op,
      [](const KernelEntry& entry, uint32_t id) { return entry.op < id; });
  return row != all.end() && row->op == op ? row : nullptr;
}

}  // namespace weft_cpu
