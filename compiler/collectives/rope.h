// Rope: a one-dimensional tensor that lies in pieces of several values. Pieces
// are put anywhere; a range is read as one value, with as few nodes as that
// takes: none where it is exactly one value, a Slice where it is a part of one,
// a Concat where it crosses pieces.
//
//   Rope rope(&emit);
//   rope.Put(0, {x, 0, 6});        // all of x [6]
//   rope.Get(2, 4);                // Slice of x
//   rope.Put(4, {y, 0, 2});        // elements 4 and 5 are now those of y [2]
//   rope.Get(0, 6);                // Concat(Slice(x), y)
//
// Nodes are remembered: reading a range again makes none.
//
// Threading: thread-compatible. Ownership: refers to the emitter.
#ifndef WEFT_COMPILER_COLLECTIVES_ROPE_H_
#define WEFT_COMPILER_COLLECTIVES_ROPE_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "core/ops/schema.h"

namespace weft {

// Elements [offset, offset + length) of a one-dimensional value.
struct RopePiece {
  Value value;
  int64_t offset = 0;
  int64_t length = 0;
};

class Rope {
 public:
  explicit Rope(NodeEmitter* emit) : emit_(emit) {}

  // `piece` becomes elements [begin, begin + piece.length); nothing for length
  // 0.
  void Put(int64_t begin, RopePiece piece);

  // Pre-condition of both: begin < end, and all of it was put.
  Value Get(int64_t begin, int64_t end);
  // The pieces that make it up; no node is made.
  std::vector<RopePiece> Pieces(int64_t begin, int64_t end) const;

 private:
  // Makes `at` the begin of a piece, where it lies within one.
  void Cut(int64_t at);
  // The piece as a value.
  Value Materialise(const RopePiece& piece);

  NodeEmitter* emit_;
  std::map<int64_t, RopePiece> pieces_;  // by begin
  std::map<std::tuple<Value, int64_t, int64_t>, Value> slices_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_COLLECTIVES_ROPE_H_
