// The three types that elementwise kernels and reductions compute in, and the
// conversion of stored elements to and from them. A loop is written for the
// wide types only; what it reads and writes is converted piece by piece, in the
// cache:
//
//   stored                wide
//   f32 f16 bf16 bool     kFloat    i8 u8 i16 i32 can be read as floats too
//   f64                   kDouble   every type can be read as doubles
//   i8 u8 i16 i32 i64     kInteger  int64_t; bool can be read too
//
//   Converter load = FindLoad(WEFT_BF16, Wide::kFloat);
//   float block[256];
//   load(x, 256, block);          // null: the stored type is the wide one
//
// Threading: pure functions.
#ifndef WEFT_DEVICES_CPU_ELEMENTS_H_
#define WEFT_DEVICES_CPU_ELEMENTS_H_

#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

enum class Wide { kFloat, kDouble, kInteger };

// Where no op asks for another one: the wide type of the dtype.
Wide WideOf(uint32_t dtype);

// Bytes of one element of the wide type.
inline int64_t WidthOf(Wide wide) { return wide == Wide::kFloat ? 4 : 8; }

// to[i] = from[i] for n elements; the two never overlap.
using Converter = void (*)(const void* from, int64_t n, void* to);

// What a narrower type does to a value that it does not have.
enum class Narrowing {
  kRound,     // floats: to nearest, ties to even, NaN stays one
  kExact,     // floats that have the value: bits move, those of a NaN too
  kWrap,      // integers modulo 2^bits
  kSaturate,  // integers: the nearest one; NaN gives 0
};

// `found` tells whether there is a conversion; null and found: none is needed.
Converter FindLoad(uint32_t dtype, Wide wide, bool* found);
// From floats and doubles to integers always saturates; to bool is "not zero".
Converter FindStore(Wide wide, uint32_t dtype, Narrowing narrowing,
                    bool* found);

// n elements of `size` bytes each, `stride` elements apart, one after another.
void Gather(const void* from, int64_t size, int64_t stride, int64_t n,
            void* to);

// From this many bytes on results are written past the caches: a reader would
// find little of them there, and a line that is written whole need not be read
// before.
inline constexpr int64_t kStreamBytes = int64_t{16} << 20;

// Writes past the caches, in order with later writes of this thread only after
// FinishPastCaches(). Plain copies where the processor has no such writes.
void CopyPastCaches(const char* from, int64_t bytes, char* to);
void FinishPastCaches();

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_ELEMENTS_H_
