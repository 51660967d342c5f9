// Before a loop whose iterations read and write element i alone: compilers
// would otherwise ask whether the arrays overlap, which they do where a result
// is in the memory of an operand, place by place, and then not vectorise.
//
//   WEFT_CPU_EACH_ALONE
//   for (int64_t i = 0; i < n; ++i) z[i] = x[i] + y[i];
#ifndef WEFT_DEVICES_CPU_EACH_ALONE_H_
#define WEFT_DEVICES_CPU_EACH_ALONE_H_

#if defined(__clang__)
#define WEFT_CPU_EACH_ALONE _Pragma("clang loop vectorize(assume_safety)")
#else
#define WEFT_CPU_EACH_ALONE _Pragma("GCC ivdep")
#endif

#endif  // WEFT_DEVICES_CPU_EACH_ALONE_H_
