// Which values may travel between ranks as bf16, where the job allows it
// (precision.wire): f32 values of at least kNarrowBytes that are sums over
// ranks, as gradients are, or that are made for each micro-batch, as
// activations and their gradients are. Never: parameters and other state;
// integers, counts and scalars (losses, weights, norms), which are small; what
// else is computed once a step.
//
//   if (MayTravelNarrow(graph.type(v), {/*sum=*/true})) ...
//
// Threading: a free function, thread-safe.
#ifndef WEFT_COMPILER_COLLECTIVES_NARROW_H_
#define WEFT_COMPILER_COLLECTIVES_NARROW_H_

#include <cstdint>

#include "core/types/shape.h"

namespace weft {

inline constexpr int64_t kNarrowBytes = 1024;

struct TravelClass {
  bool sum = false;    // over ranks
  bool micro = false;  // made for each micro-batch
  bool state = false;
};

inline bool MayTravelNarrow(const TensorType& type, TravelClass travels) {
  return type.dtype == DType::kF32 &&
         static_cast<int64_t>(type.num_bytes()) >= kNarrowBytes &&
         !travels.state && (travels.sum || travels.micro);
}

}  // namespace weft

#endif  // WEFT_COMPILER_COLLECTIVES_NARROW_H_
