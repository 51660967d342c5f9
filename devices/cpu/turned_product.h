// y = x w' of few rows, as a layer computes it forward: turned around, w x'.
//
// oneDNN copies the right operand at each call into the order in which its
// loops read it, and the left one is read where it lies. So the small operand
// stands on the right, the weights are not copied, and blocks of them give
// dense results, which its fast products want. Each block's result lies in the
// cache when it is transposed into y, with bias and activation.
//
//   w [n,k] block by block  x  x' [k,m]   ->   [rows,m]  ->  columns of y [m,n]
//
// Threading: as kernels.
#ifndef WEFT_DEVICES_CPU_TURNED_PRODUCT_H_
#define WEFT_DEVICES_CPU_TURNED_PRODUCT_H_

#include "devices/cpu/epilogue.h"
#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

// The kernel of y [m,n] = x [m,k] w' of f32, all dense, w being [n,k], with
// `after.residual` plus a bias [n], operand 2. Null where that is no faster
// than the product as it stands.
std::unique_ptr<Kernel> MakeTurnedProduct(int64_t m, int64_t n, int64_t k,
                                          const Epilogue& after);

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_TURNED_PRODUCT_H_
