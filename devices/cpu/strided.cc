#include "devices/cpu/strided.h"

#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

bool BroadcastStrides(const Tensor& in, const Tensor& out, int64_t* strides) {
  if (in.rank > out.rank) return false;
  int shift = out.rank - in.rank;
  for (int i = 0; i < out.rank; ++i) {
    int64_t dim = i < shift ? 1 : in.dims[i - shift];
    if (dim != 1 && dim != out.dims[i]) return false;
    strides[i] = dim == 1 ? 0 : in.strides[i - shift];
  }
  return true;
}

bool IsBroadcastOf(const Tensor& out,
                   const std::vector<const Tensor*>& inputs) {
  int rank = 0;
  for (const Tensor* in : inputs) rank = in->rank > rank ? in->rank : rank;
  if (rank != out.rank) return false;
  for (int i = 0; i < rank; ++i) {
    int64_t want = 1;
    for (const Tensor* in : inputs) {
      int j = i - (rank - in->rank);
      int64_t dim = j < 0 ? 1 : in->dims[j];
      if (dim == 1) continue;
      if (want != 1 && want != dim) return false;
      want = dim;
    }
    if (want != out.dims[i]) return false;
  }
  return true;
}

WEFT_CPU_END
