// "pool_first": MaxPool(Relu(x)) becomes Relu(MaxPool(x)), which is the same
// maximum with a fraction of the elements for Relu, and, in training, for its
// gradient and for what is kept between the two.
//
// Relu never falls, so the largest of its values is its value of the largest.
// The results are equal as numbers. (Only the sign of a zero may differ: of -1
// and -0 the one order makes +0, the other -0. Values of the two compare
// equal, and the gradient, which flows to positive maxima alone, is the same.)
//
// Where: Relu has no other reader, both lie in one place and in no control
// order, and no window lies in the padding alone, where no maximum is. Before
// gradients are taken, so that those are of the new order.
//
// Threading: thread-compatible.
#ifndef WEFT_COMPILER_TRANSFORMS_POOL_FIRST_H_
#define WEFT_COMPILER_TRANSFORMS_POOL_FIRST_H_

#include <memory>

#include "absl/status/statusor.h"
#include "compiler/pass/pass.h"

namespace weft {

// True where the graph was changed.
absl::StatusOr<bool> PoolFirst(Graph* graph);

std::unique_ptr<Pass> CreatePoolFirstPass();

}  // namespace weft

#endif  // WEFT_COMPILER_TRANSFORMS_POOL_FIRST_H_
