// The loops under the elementwise kernels: z = f(x) and z = f(x, y) over a
// LoopPlan, with the common stride patterns as separate loops, so that the
// compiler vectorises them. The result may be the memory of an operand walked
// alike: each element is read before its place is written. Large tensors are
// cut into blocks for the host's threads.
//
// Threading: stateless.
#ifndef WEFT_DEVICES_CPU_MAP_H_
#define WEFT_DEVICES_CPU_MAP_H_

#include "devices/cpu/parallel.h"
#include "devices/cpu/strided.h"
#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

template <class Z, class X, class F>
void Map1(const LoopPlan<2>& plan, Z* z, const X* x, F f,
          int64_t cost = kPlain) {
  auto run = [&](const int64_t* at, const int64_t* step, int64_t n) {
    Z* zp = z + at[0];
    const X* xp = x + at[1];
    if (step[1] == 1) {
      for (int64_t i = 0; i < n; ++i) zp[i] = f(xp[i]);
    } else if (step[1] == 0) {
      const Z value = f(xp[0]);
      for (int64_t i = 0; i < n; ++i) zp[i] = value;
    } else {
      for (int64_t i = 0; i < n; ++i) zp[i] = f(xp[i * step[1]]);
    }
  };
  ParallelElements(plan.count(), cost, [&](int64_t begin, int64_t end) {
    plan.ForEachRun(begin, end, run);
  });
}

// The result's own inner stride is 1: results are dense.
template <class Z, class X, class F>
void Map2(const LoopPlan<3>& plan, Z* z, const X* x, const X* y, F f,
          int64_t cost = kPlain) {
  auto run = [&](const int64_t* at, const int64_t* step, int64_t n) {
    Z* zp = z + at[0];
    const X* xp = x + at[1];
    const X* yp = y + at[2];
    if (step[1] == 1 && step[2] == 1) {
      for (int64_t i = 0; i < n; ++i) zp[i] = f(xp[i], yp[i]);
    } else if (step[1] == 1 && step[2] == 0) {
      const X value = yp[0];
      for (int64_t i = 0; i < n; ++i) zp[i] = f(xp[i], value);
    } else if (step[1] == 0 && step[2] == 1) {
      const X value = xp[0];
      for (int64_t i = 0; i < n; ++i) zp[i] = f(value, yp[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) {
        zp[i] = f(xp[i * step[1]], yp[i * step[2]]);
      }
    }
  };
  ParallelElements(plan.count(), cost, [&](int64_t begin, int64_t end) {
    plan.ForEachRun(begin, end, run);
  });
}

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_MAP_H_
