// The one engine of elementwise kernels: it runs a small program over blocks of
// elements that stay in the L1 cache from the first instruction to the last, so
// that memory is passed over once, whatever the program's length. A single op
// is a program of one instruction, a Cast one of none.
//
//   ElementProgram p;                              // relu(x + y) of bf16
//   p.wide = Wide::kFloat;
//   p.in = {WEFT_BF16, WEFT_BF16};
//   p.out = {WEFT_BF16};
//   p.code = {{WEFT_OP_ADD, {0, 1}},
//             {WEFT_OP_CAST, {2, WEFT_BF16}},
//             {WEFT_OP_RELU, {3}}};
//   p.outputs = {4};
//   return MakeElementwise(op, p);
//
// Operand codes: 0 .. n-1 are the op's operands, n + i is the value of
// instruction i, and -1 - k is constant k.
//
// How it works. All instructions compute in one wide type (elements.h); each is
// a vectorised loop over a block (element_loops.h). An operand that lies there
// in the wide type without gaps is read where it is. Others are gathered by
// their strides and widened into a slot, a block of scratch: once for all
// blocks where what is broadcast repeats itself from block to block, else block
// by block. A result of the wide type is written to its place by the last
// instruction, others are narrowed once from their slot. An operation on dense
// operands of the wide type with one instruction is one loop over all elements.
// A program of many results, or one that does not fit the slots on the stack,
// takes workspace.
//
// From results of 2 MiB on, counted in the wide type, the operands of the next
// block are fetched while one is computed; from 16 MiB on results are written
// past the caches, where the processor can: a chain of instructions then takes
// about as long as a copy.
//
// Large results are cut into at most kMaxParts parts, which the host's threads
// share; the cut follows from shapes and program. Result 0 may be the memory of
// a dense operand of its type and shape.
//
// Threading: as any factory.
#ifndef WEFT_DEVICES_CPU_ELEMENTWISE_H_
#define WEFT_DEVICES_CPU_ELEMENTWISE_H_

#include "devices/cpu/element_loops.h"
#include "devices/cpu/elements.h"
#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

struct ElementProgram {
  Wide wide = Wide::kFloat;
  std::vector<uint32_t> in;   // the dtype that each operand's bits are read as
  std::vector<uint32_t> out;  // and written as; of the size of the real one
  std::vector<ElementInstruction> code;
  std::vector<double> constants;  // rounded to the wide type; floats only
  std::vector<int64_t> outputs;   // codes
  bool saturate = false;          // integers are narrowed so, not modulo 2^bits
};

// The kernel of `op` by `program`; null after a recorded failure. Operands
// broadcast to the results, which have one shape.
std::unique_ptr<Kernel> MakeElementwise(const Op& op,
                                        const ElementProgram& program);

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_ELEMENTWISE_H_
