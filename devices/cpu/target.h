// Code that is compiled once for each class of instruction sets.
//
// Every family of kernels, and what its loops are made of, lies between
// WEFT_CPU_BEGIN and WEFT_CPU_END: in a namespace that is named after the
// target, with that target's instructions. The build compiles these files once
// for each target (BUILD.bazel); isa.h picks a target's kernels when the device
// is opened. A loop is written once, in plain C++, and the compiler vectorises
// each copy.
//
//   #include "devices/cpu/target.h"
//
//   WEFT_CPU_BEGIN
//   std::unique_ptr<Kernel> MakeRelu(const Op& op) { ... }
//   WEFT_CPU_END
//
// The instructions are asked for by a pragma, not by an option of the compiler:
// an inline function of a header that came before it, of which the linker keeps
// any one of the copies, is not compiled for a processor that this machine may
// not be. So the standard library's headers are included here, and others
// before this one. isa_test looks at the machine code to see that it is so.
//
// No target changes a result: nothing is contracted to fused multiply-add,
// nothing is reassociated. All compute the same bits.
#ifndef WEFT_DEVICES_CPU_TARGET_H_
#define WEFT_DEVICES_CPU_TARGET_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "devices/cpu/kernel.h"

// Given by the build; this is for tools that look at one file.
#ifndef WEFT_CPU_TARGET
#define WEFT_CPU_TARGET plain
#endif

#define WEFT_CPU_plain 0
#define WEFT_CPU_sse4 1
#define WEFT_CPU_avx2 2
#define WEFT_CPU_avx512 3
#define WEFT_CPU_JOIN_(a, b) a##b
#define WEFT_CPU_JOIN(a, b) WEFT_CPU_JOIN_(a, b)
#define WEFT_CPU_LEVEL WEFT_CPU_JOIN(WEFT_CPU_, WEFT_CPU_TARGET)

#if WEFT_CPU_LEVEL == WEFT_CPU_sse4
#define WEFT_CPU_FEATURES "sse4.2,popcnt"
#elif WEFT_CPU_LEVEL == WEFT_CPU_avx2
#define WEFT_CPU_FEATURES "avx2,bmi2,f16c,popcnt"
#elif WEFT_CPU_LEVEL == WEFT_CPU_avx512
#define WEFT_CPU_FEATURES                                              \
  "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,bmi2,f16c,popcnt," \
  "prefer-vector-width=512"
#endif

#define WEFT_CPU_PRAGMA_(text) _Pragma(#text)
#define WEFT_CPU_PRAGMA(text) WEFT_CPU_PRAGMA_(text)
#define WEFT_CPU_PUSH
#define WEFT_CPU_POP
#if defined(WEFT_CPU_FEATURES) && defined(__clang__)
#undef WEFT_CPU_PUSH
#undef WEFT_CPU_POP
#define WEFT_CPU_PUSH                   \
  WEFT_CPU_PRAGMA(clang attribute push( \
      __attribute__((target(WEFT_CPU_FEATURES))), apply_to = function))
#define WEFT_CPU_POP WEFT_CPU_PRAGMA(clang attribute pop)
#elif defined(WEFT_CPU_FEATURES)
// To the end of the file: GCC makes the lambdas of a template when it makes
// the template, with the instructions that hold there.
WEFT_CPU_PRAGMA(GCC target(WEFT_CPU_FEATURES))
#endif

#define WEFT_CPU_BEGIN \
  WEFT_CPU_PUSH        \
  namespace weft_cpu { \
  namespace WEFT_CPU_TARGET {
#define WEFT_CPU_END \
  }                  \
  }                  \
  WEFT_CPU_POP

#endif  // WEFT_DEVICES_CPU_TARGET_H_
