// RandomProgram: a small logical program of all kinds of ops, for tests of what
// spreads programs over ranks.
//
//   RandomProgram program(seed);
//   Interpret(program.graph(), program.feeds(), program.micro_feeds());
//
// It is built of matrix products, elementwise ops with broadcasting,
// reductions, softmax, norms, movement, attention, ops on images and dropout.
// Every second one is trained: gradients, sums over micro-batches, updates.
// Numbers are f64 and of the size of 1, so that whoever computes the same in
// another order is within 1e-9 of it.
//
// Threading: thread-compatible. Test only.
#ifndef WEFT_COMPILER_TESTING_RANDOM_PROGRAM_H_
#define WEFT_COMPILER_TESTING_RANDOM_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/reference/interpreter.h"

namespace weft {

class RandomProgram {
 public:
  // `micro_batches`: of a step, where the program is trained.
  explicit RandomProgram(uint64_t seed, int micro_batches = 2);

  const Graph& graph() const { return graph_; }
  int micro_batches() const { return micro_batches_; }
  // Of variables, and of data for each micro-batch.
  const Feeds& feeds() const { return feeds_; }
  const std::vector<Feeds>& micro_feeds() const { return micro_feeds_; }
  // More numbers from the program's seed.
  int Below(int n);

 private:
  Value Add(absl::string_view op, const std::vector<Value>& inputs,
            AttrMap attrs = {}, int num_outputs = -1);
  const Shape& ShapeOf(Value v) const { return graph_.type(v).shape; }
  // In [-1, 1), or integers in [0, below).
  Literal Numbers(const TensorType& type, int below = 0);
  Value Parameter(const Shape& shape);
  Value Data(const Shape& shape);
  Value Numbered(const Shape& shape, int below);
  Value Source(const TensorType& type, int below);
  Value Pick();
  // A value of the given rank; invalid where there is none.
  Value PickOfRank(int rank);
  void Keep(Value v) { values_.push_back(v); }

  void AddSources();
  void AddSomething();
  void AddUnary(Value x);
  void AddBinary(Value x);
  void AddProduct(Value x);
  void AddReduction(Value x);
  void AddSoftmax(Value x);
  void AddNorm(Value x);
  void AddMovement(Value x);
  void AddPieces(Value x);
  void AddChoice(Value x);
  void AddAttention(Value x);
  void AddRows(Value x);
  void AddDropout(Value x);
  void AddImageOp();
  Value Loss();
  void Train();
  void Finish();

  uint64_t state_;
  const bool trained_;
  const int micro_batches_;
  Graph graph_;
  Feeds feeds_;
  std::vector<Feeds> micro_feeds_;
  std::vector<Value> values_;
  std::vector<Value> parameters_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_TESTING_RANDOM_PROGRAM_H_
