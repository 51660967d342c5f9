// Self-attention: what the kernels of the op and of its gradient have in
// common. One pass over queries, keys and values, in which no more than a block
// of scores exists; each head of each sample is an item, worked on alone.
//
//   HeadShape s;
//   if (!ReadHeadShape(op, 1, &s)) return nullptr;
//   return MakeItems<float, Forward, ForwardScratch<float>>(s, counter);
//
// Threading: a HeadShape and a Dropping are immutable once made.
#ifndef WEFT_DEVICES_CPU_ATTENTION_H_
#define WEFT_DEVICES_CPU_ATTENTION_H_

#include "devices/cpu/cuts.h"
#include "devices/cpu/numeric.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/philox.h"
#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

// Operands of weft.SelfAttention and of its gradient.
struct HeadShape {
  int64_t batch, tokens, width, heads, head;
  bool causal;
  double scale;
  double ratio;  // 0 where nothing is dropped
  int64_t seed, stream;
  bool has_dlse;  // of the gradient
  Cuts weights;   // the part of [batch, heads, tokens, tokens]

  // Numbers that a packed row takes: whole lines, and whole tiles of 16 by 16.
  int64_t padded() const { return (head + 15) / 16 * 16; }
  int64_t items() const { return batch * heads; }
  int64_t Visible(int64_t row) const { return causal ? row + 1 : tokens; }
  // Where row 0 of an item begins, in rows of `columns`.
  int64_t First(int64_t item, int64_t columns) const {
    return item / heads * tokens * columns + item % heads * head;
  }
};

// Reads operand 0 and the attributes; operand `counter` may be a counter.
// Records a failure and gives false where they do not fit.
bool ReadHeadShape(const Op& op, size_t counter, HeadShape* s);
// True if `t` is [batch, tokens, width], or [batch, heads, tokens].
bool CheckRows(const Op& op, const HeadShape& s, const Tensor& t);
bool CheckLse(const Op& op, const HeadShape& s, const Tensor& t);

// Which weights of an item are kept, and by what they are multiplied then. The
// HeadShape outlives it.
template <class T>
class Dropping {
 public:
  Dropping(const HeadShape& s, const int64_t* counter)
      : on_(counter != nullptr && s.ratio > 0),
        tokens_(s.tokens),
        weights_(s.weights),
        source_(s.seed, s.stream, on_ ? counter[0] : 0),
        threshold_(KeepThreshold(s.ratio)),
        factor_(static_cast<T>(1 / (1 - s.ratio))) {
    if (!on_) return;
    first_ = static_cast<uint64_t>(counter[1]) *
             static_cast<uint64_t>(weights_.count());
  }

  bool on() const { return on_; }
  // Factors of n weights of a row, from `column` on.
  void Factors(int64_t item, int64_t row, int64_t column, int64_t n,
               T* out) const {
    const int64_t at =
        weights_.PositionOf((item * tokens_ + row) * tokens_) + column;
    source_.KeepFactors(first_ + static_cast<uint64_t>(at), n, threshold_,
                        factor_, out);
  }

 private:
  bool on_;
  int64_t tokens_;
  const Cuts& weights_;
  RandomSource source_;
  uint32_t threshold_;
  T factor_;
  uint64_t first_ = 0;
};

inline constexpr int64_t kMaxParts = 16;  // of the items, for the threads

// A kernel that runs Work<T> for each item. Operand `counter` is one, if not
// negative.
template <class T, template <class> class Work, class Scratch>
std::unique_ptr<Kernel> MakeItems(const HeadShape& s, int counter) {
  const int64_t items = s.items();
  const int64_t size = Scratch(s, nullptr).size;
  const double flops =
      8.0 * static_cast<double>(items) * static_cast<double>(s.tokens) *
      static_cast<double>(s.tokens) * static_cast<double>(s.head);
  const int64_t parts = flops < 8e6 ? 1 : std::min(kMaxParts, items);
  const int64_t part = items > 0 ? (items + parts - 1) / parts : 1;
  const uint64_t workspace = static_cast<uint64_t>(
      (items + part - 1) / part * size * static_cast<int64_t>(sizeof(T)));
  return MakeKernel(
      [=](const Args& a) {
        const Dropping<T> dropping(
            s, counter < 0 ? nullptr : a.Input<int64_t>(counter));
        const Work<T> work(s, a, dropping);
        ParallelBlocks(items, part, [&](int64_t begin, int64_t end) {
          T* scratch = static_cast<T*>(a.workspace) + begin / part * size;
          for (int64_t i = begin; i < end; ++i) work.Run(i, scratch);
        });
      },
      0, workspace);
}

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_ATTENTION_H_
