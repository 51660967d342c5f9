// The table behind Evaluate(): one evaluator per op, plain loops in double. An
// evaluator is the op's executable definition, so it is written to be read, not
// to be fast; kernels are tested against it.
//
//   absl::Status EvaluateNeg(const OpView& op, absl::Span<const Tensor> in,
//                            std::vector<Tensor>* out) {
//     for (size_t i = 0; i < in[0].v.size(); ++i) (*out)[0].v[i] = -in[0].v[i];
//     return absl::OkStatus();
//   }
//   ...
//   table->Add(OpId::kNeg, EvaluateNeg);
//
// `out` arrives with one zero-filled tensor per result, of the inferred shape.
// An absent optional operand is an empty tensor: ask op.has_input(i). Values
// that come from data (indices, labels) must be checked and refused with a
// typed error; shapes and attributes were checked by inference.
//
// Threading: the table is built once; evaluators are pure functions.
#ifndef WEFT_CORE_REFERENCE_EVALUATORS_H_
#define WEFT_CORE_REFERENCE_EVALUATORS_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/ops/schema.h"
#include "core/types/shape.h"

namespace weft {
namespace reference {

// Row-major values of any dtype; bool is 0 or 1.
struct Tensor {
  Shape shape;
  std::vector<double> v;
};

using Evaluator = std::function<absl::Status(
    const OpView& op, absl::Span<const Tensor> in, std::vector<Tensor>* out)>;

class EvaluatorTable {
 public:
  void Add(OpId id, Evaluator evaluator) {
    table_[static_cast<uint32_t>(id)] = std::move(evaluator);
  }
  // Null where the op has none (sources and state).
  const Evaluator* Find(OpId id) const {
    auto it = table_.find(static_cast<uint32_t>(id));
    return it == table_.end() ? nullptr : &it->second;
  }

 private:
  absl::flat_hash_map<uint32_t, Evaluator> table_;
};

void AddElementwiseEvaluators(EvaluatorTable* table);
void AddShapeEvaluators(EvaluatorTable* table);
void AddReduceEvaluators(EvaluatorTable* table);
void AddRandomEvaluators(EvaluatorTable* table);
void AddUpdateEvaluators(EvaluatorTable* table);
void AddSystemEvaluators(EvaluatorTable* table);
void AddLinearAlgebraEvaluators(EvaluatorTable* table);
void AddConvEvaluators(EvaluatorTable* table);
void AddPoolEvaluators(EvaluatorTable* table);
void AddNormEvaluators(EvaluatorTable* table);
void AddAttentionEvaluators(EvaluatorTable* table);
void AddLossEvaluators(EvaluatorTable* table);

// Walks the row-major positions of `shape`:
//   for (Index it(shape); !it.done(); it.Next()) use(it.at(), it.position());
class Index {
 public:
  explicit Index(const Shape& shape)
      : shape_(shape), at_(shape.rank(), 0), done_(shape.num_elements() == 0) {}

  bool done() const { return done_; }
  const std::vector<int64_t>& at() const { return at_; }
  int64_t position() const { return position_; }
  // at() . strides
  int64_t Dot(absl::Span<const int64_t> strides) const {
    int64_t sum = 0;
    for (size_t d = 0; d < at_.size(); ++d) sum += at_[d] * strides[d];
    return sum;
  }
  void Next() {
    ++position_;
    for (int d = shape_.rank() - 1; d >= 0; --d) {
      if (++at_[d] < shape_.dim(d)) return;
      at_[d] = 0;
    }
    done_ = true;
  }

 private:
  Shape shape_;
  std::vector<int64_t> at_;
  int64_t position_ = 0;
  bool done_;
};

// Strides that read a tensor of shape `from` as if broadcast to `to` (0 along
// repeated dimensions). Pre-condition: `from` broadcasts to `to`.
std::vector<int64_t> BroadcastStrides(const Shape& from, const Shape& to);

}  // namespace reference
}  // namespace weft

#endif  // WEFT_CORE_REFERENCE_EVALUATORS_H_
