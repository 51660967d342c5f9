// The kernels of the simulated device: the primitives, each written in the
// plainest way, one file per family. They need dense operands.
//
// Threading: as weft_sdk::Kernel.
#ifndef WEFT_DEVICES_SIM_KERNELS_H_
#define WEFT_DEVICES_SIM_KERNELS_H_

#include <cstdint>
#include <vector>

#include "plugins/sdk/weft_plugin.hpp"

namespace weft_sim {

void RegisterElementwise(weft_sdk::Registry* kernels);
void RegisterMovement(weft_sdk::Registry* kernels);
void RegisterReductions(weft_sdk::Registry* kernels);
void RegisterMatMul(weft_sdk::Registry* kernels);
void RegisterUpdates(weft_sdk::Registry* kernels);

inline void RegisterKernels(weft_sdk::Registry* kernels) {
  RegisterElementwise(kernels);
  RegisterMovement(kernels);
  RegisterReductions(kernels);
  RegisterMatMul(kernels);
  RegisterUpdates(kernels);
}

inline bool IsFloat(uint32_t dtype) {
  return dtype == WEFT_F32 || dtype == WEFT_F64;
}
inline bool IsInt(uint32_t dtype) {
  return dtype == WEFT_I32 || dtype == WEFT_I64;
}
inline bool IsNumber(uint32_t dtype) { return IsFloat(dtype) || IsInt(dtype); }

// An axis attribute counted from the front; -1 where out of range.
inline int Axis(const weft_sdk::Op& op, const char* name, int rank) {
  const int64_t axis = op.Int(name);
  const int64_t at = axis < 0 ? axis + rank : axis;
  return at >= 0 && at < rank ? static_cast<int>(at) : -1;
}

// Calls f(T{}) with the type of `dtype`, one of those of IsNumber or bool.
template <typename F>
void WithType(uint32_t dtype, F&& f) {
  switch (dtype) {
    case WEFT_F32:
      return f(float{});
    case WEFT_F64:
      return f(double{});
    case WEFT_I32:
      return f(int32_t{});
    case WEFT_I64:
      return f(int64_t{});
    case WEFT_BOOL:
      return f(uint8_t{});
    default:
      throw weft_sdk::Error(WEFT_UNSUPPORTED, "element type");
  }
}

// Row-major positions of every element of `dims` in an operand with `strides`:
// visit(i, position) for i = 0, 1, ...
template <typename F>
void ForEach(const std::vector<int64_t>& dims,
             const std::vector<int64_t>& strides, int64_t offset, F&& visit) {
  const int rank = static_cast<int>(dims.size());
  std::vector<int64_t> index(rank, 0);
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  int64_t position = offset;
  for (int64_t i = 0; i < n; ++i) {
    visit(i, position);
    for (int d = rank - 1; d >= 0; --d) {
      position += strides[d];
      if (++index[d] < dims[d]) break;
      position -= strides[d] * dims[d];
      index[d] = 0;
    }
  }
}

// The strides with which dense `from` is read as `to`, numpy broadcasting: 0
// along the stretched dimensions. `ok` is false where the shapes do not
// broadcast.
inline std::vector<int64_t> BroadcastStrides(const weft_sdk::Tensor& from,
                                             const weft_sdk::Tensor& to,
                                             bool* ok) {
  std::vector<int64_t> strides(to.rank(), 0);
  *ok = from.rank() <= to.rank();
  int64_t dense = 1;
  for (int i = 1; *ok && i <= from.rank(); ++i) {
    const int64_t n = from.dim(-i);
    if (n != 1 && n != to.dim(-i)) *ok = false;
    strides[to.rank() - i] = n == 1 ? 0 : dense;
    dense *= n;
  }
  return strides;
}

}  // namespace weft_sim

#endif  // WEFT_DEVICES_SIM_KERNELS_H_
