// The factories of one target (target.h), one group for each file, and the
// table of them.
#ifndef WEFT_DEVICES_CPU_FACTORIES_H_
#define WEFT_DEVICES_CPU_FACTORIES_H_

#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

KernelTable AllKernels();

std::unique_ptr<Kernel> MakeBinary(const Op& op);       // elementwise_ops.cc
std::unique_ptr<Kernel> MakeCompare(const Op& op);      // elementwise_ops.cc
std::unique_ptr<Kernel> MakeLogical(const Op& op);      // elementwise_ops.cc
std::unique_ptr<Kernel> MakeNot(const Op& op);          // elementwise_ops.cc
std::unique_ptr<Kernel> MakeWhere(const Op& op);        // elementwise_ops.cc
std::unique_ptr<Kernel> MakeUnary(const Op& op);        // elementwise_ops.cc
std::unique_ptr<Kernel> MakeGeluGrad(const Op& op);     // elementwise_ops.cc
std::unique_ptr<Kernel> MakeCast(const Op& op);         // elementwise_ops.cc
std::unique_ptr<Kernel> MakeFused(const Op& op);        // fused.cc
std::unique_ptr<Kernel> MakeReshape(const Op& op);      // shape.cc
std::unique_ptr<Kernel> MakeTranspose(const Op& op);    // shape.cc
std::unique_ptr<Kernel> MakeConcat(const Op& op);       // shape.cc
std::unique_ptr<Kernel> MakeSplit(const Op& op);        // shape.cc
std::unique_ptr<Kernel> MakeSlice(const Op& op);        // shape.cc
std::unique_ptr<Kernel> MakePad(const Op& op);          // shape.cc
std::unique_ptr<Kernel> MakeExpand(const Op& op);       // shape.cc
std::unique_ptr<Kernel> MakeStridedCopy(const Op& op);  // shape.cc
std::unique_ptr<Kernel> MakeGather(const Op& op);       // gather.cc
std::unique_ptr<Kernel> MakeGatherGrad(const Op& op);   // gather.cc
std::unique_ptr<Kernel> MakeIota(const Op& op);         // gather.cc
std::unique_ptr<Kernel> MakeEmpty(const Op& op);        // gather.cc
std::unique_ptr<Kernel> MakeReduce(const Op& op);       // reduce.cc
std::unique_ptr<Kernel> MakeArgMax(const Op& op);       // reduce.cc
std::unique_ptr<Kernel> MakeReduceToAll(const Op& op);  // reduce_to_all.cc
std::unique_ptr<Kernel> MakeCopyToAll(const Op& op);    // reduce_to_all.cc
std::unique_ptr<Kernel> MakeMatMul(const Op& op);       // matmul.cc
std::unique_ptr<Kernel> MakeGemm(const Op& op);         // matmul.cc
std::unique_ptr<Kernel> MakeConv(const Op& op);         // conv.cc
std::unique_ptr<Kernel> MakeMaxPool(const Op& op);      // pool.cc
std::unique_ptr<Kernel> MakeMaxPoolGrad(const Op& op);  // pool.cc
std::unique_ptr<Kernel> MakeAveragePool(const Op& op);  // pool.cc
std::unique_ptr<Kernel> MakeAveragePoolGrad(const Op& op);     // pool.cc
std::unique_ptr<Kernel> MakeGlobalAveragePool(const Op& op);   // pool.cc
std::unique_ptr<Kernel> MakeBatchNormalization(const Op& op);  // batch_norm
std::unique_ptr<Kernel> MakeBatchNormTraining(const Op& op);   // batch_norm
std::unique_ptr<Kernel> MakeBatchNormGrad(const Op& op);       // batch_norm
std::unique_ptr<Kernel> MakeLayerNormalization(const Op& op);  // layer_norm
std::unique_ptr<Kernel> MakeLayerNormGrad(const Op& op);       // layer_norm
std::unique_ptr<Kernel> MakeSoftmax(const Op& op);             // softmax.cc
std::unique_ptr<Kernel> MakeSelfAttention(const Op& op);       // attention.cc
std::unique_ptr<Kernel> MakeSelfAttentionGrad(const Op& op);   // attention.cc
std::unique_ptr<Kernel> MakeCrossEntropy(const Op& op);        // loss.cc
std::unique_ptr<Kernel> MakeCrossEntropyGrad(const Op& op);    // loss.cc
std::unique_ptr<Kernel> MakeLossAndGrad(const Op& op);         // loss.cc
std::unique_ptr<Kernel> MakeRandom(const Op& op);              // random.cc
std::unique_ptr<Kernel> MakeDropoutTraining(const Op& op);     // random.cc
std::unique_ptr<Kernel> MakeDropoutGrad(const Op& op);         // random.cc
std::unique_ptr<Kernel> MakeUpdate(const Op& op);              // update.cc
std::unique_ptr<Kernel> MakeGlobalNorm(const Op& op);          // training.cc
std::unique_ptr<Kernel> MakeSumOfSquares(const Op& op);        // training.cc
std::unique_ptr<Kernel> MakeClipScale(const Op& op);           // training.cc
std::unique_ptr<Kernel> MakeLearningRate(const Op& op);        // training.cc
std::unique_ptr<Kernel> MakeLossScaleUpdate(const Op& op);     // training.cc

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_FACTORIES_H_
