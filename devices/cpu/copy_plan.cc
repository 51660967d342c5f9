#include "devices/cpu/copy_plan.h"

#include "devices/cpu/parallel.h"
#include "devices/cpu/target.h"

WEFT_CPU_BEGIN
namespace {

LoopPlan<2> MakePlan(int rank, const int64_t* dims, const int64_t* src_strides,
                     const int64_t* dst_strides) {
  int64_t strides[2][WEFT_MAX_RANK] = {};
  for (int i = 0; i < rank; ++i) {
    strides[0][i] = dst_strides[i];
    strides[1][i] = src_strides[i];
  }
  return LoopPlan<2>(rank, dims, strides);
}

}  // namespace

CopyPlan::CopyPlan(int64_t element_size, int rank, const int64_t* dims,
                   const int64_t* src_strides, const int64_t* dst_strides)
    : element_size_(element_size),
      plan_(MakePlan(rank, dims, src_strides, dst_strides)) {
  int last = plan_.rank() - 1;
  if (plan_.strides(last)[0] != 1 || plan_.strides(last)[1] <= 1) return;
  for (int i = 0; i < last; ++i) {
    if (plan_.strides(i)[1] == 1 && plan_.dim(i) > 1) tiled_dim_ = i;
  }
}

template <class U>
void CopyPlan::RunAs(U* dst, const U* src) const {
  auto run = [&](const int64_t* at, const int64_t* step, int64_t n) {
    U* to = dst + at[0];
    const U* from = src + at[1];
    if (step[0] == 1 && step[1] == 1) {
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(U));
    } else if (step[0] == 1 && step[1] == 0) {
      std::fill(to, to + n, *from);
    } else {
      for (int64_t i = 0; i < n; ++i) to[i * step[0]] = from[i * step[1]];
    }
  };
  ParallelElements(plan_.count(), kPlain, [&](int64_t begin, int64_t end) {
    plan_.ForEachRun(begin, end, run);
  });
}

template <class U>
void CopyPlan::RunTiled(U* dst, const U* src) const {
  constexpr int64_t kTile = 32;
  const int last = plan_.rank() - 1;
  const int64_t rows = plan_.dim(tiled_dim_);  // contiguous in the source
  const int64_t columns = plan_.dim(last);     // contiguous in the result
  const int64_t to_step = plan_.strides(tiled_dim_)[0];
  const int64_t from_step = plan_.strides(last)[1];
  int64_t index[WEFT_MAX_RANK] = {0};
  while (true) {
    U* to = dst;
    const U* from = src;
    for (int i = 0; i < last; ++i) {
      to += index[i] * plan_.strides(i)[0];
      from += index[i] * plan_.strides(i)[1];
    }
    for (int64_t r = 0; r < rows; r += kTile) {
      for (int64_t c = 0; c < columns; c += kTile) {
        int64_t r_end = std::min(rows, r + kTile);
        int64_t c_end = std::min(columns, c + kTile);
        for (int64_t i = r; i < r_end; ++i) {
          for (int64_t j = c; j < c_end; ++j) {
            to[i * to_step + j] = from[i + j * from_step];
          }
        }
      }
    }
    int d = last - 1;
    for (; d >= 0; --d) {
      if (d == tiled_dim_) continue;
      if (++index[d] < plan_.dim(d)) break;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

void CopyPlan::Run(void* dst, const void* src) const {
  if (plan_.count() == 0) return;
  auto run = [&](auto* to) {
    using U = std::remove_pointer_t<decltype(to)>;
    const U* from = static_cast<const U*>(src);
    tiled_dim_ >= 0 ? RunTiled(to, from) : RunAs(to, from);
  };
  switch (element_size_) {
    case 1:
      return run(static_cast<uint8_t*>(dst));
    case 2:
      return run(static_cast<uint16_t*>(dst));
    case 4:
      return run(static_cast<uint32_t*>(dst));
    default:
      return run(static_cast<uint64_t*>(dst));
  }
}

WEFT_CPU_END
