// The loops of elementwise programs: one per instruction and wide type
// (elements.h), over a block of elements that lies in the cache, written to be
// vectorised.
//
//   ElementLoop loop = FindLoop({WEFT_OP_ADD, 0, 1}, Wide::kFloat);
//   if (loop.run != nullptr) loop.run(z, a, b, nullptr, n);
//
// The result may be the memory of an operand, place by place, or overlap none.
//
// Threading: pure functions.
#ifndef WEFT_DEVICES_CPU_ELEMENT_LOOPS_H_
#define WEFT_DEVICES_CPU_ELEMENT_LOOPS_H_

#include "devices/cpu/elements.h"
#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

// Functions of one operand that are no op of their own, beside those that are.
inline constexpr int64_t kGeluTanh = int64_t{1} << 32;
inline constexpr int64_t kGeluSlope = kGeluTanh + 1;
inline constexpr int64_t kGeluTanhSlope = kGeluTanh + 2;

// An op and what it takes: operand codes (elementwise.h). Cast takes (operand,
// dtype): the value rounded to a 16-bit format, or 1 where it is not zero and 0
// where it is for bool. LeakyRelu takes (operand, slope).
struct ElementInstruction {
  int64_t op;
  int64_t operands[3];
};

struct ElementLoop {
  void (*run)(void* z, const void* a, const void* b, const void* c, int64_t n);
  int operands;
  int64_t cost;  // of an element, see parallel.h
};

// run is null where the op has no loop for the type.
ElementLoop FindLoop(const ElementInstruction& in, Wide wide);

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_ELEMENT_LOOPS_H_
