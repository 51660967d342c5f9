// Self-attention and its gradient: one pass over queries, keys and values, in
// which no more than a block of scores exists, kRows queries by kColumns keys.
//
// Each head of each sample is worked on alone. Its operands are copied out of
// the rows of qkv first, keys and values transposed where a product reads them
// along the head; blocks right of the diagonal are left out where `causal`. The
// gradient computes the weights again, from the scores and lse.
//
// In the products a weight that is not visible is 0. 0 times an infinity is
// NaN, so a head with an operand that is not finite takes the plain way, which
// looks at what is visible and nothing else.
#include "devices/cpu/factories.h"
#include "devices/cpu/numeric.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/philox.h"
#include "devices/cpu/reduction.h"
#include "devices/cpu/tile_product.h"
#include "devices/cpu/vector_math.h"
#include "devices/cpu/via_float.h"

WEFT_CPU_BEGIN
namespace {

constexpr int64_t kRows = 32;
constexpr int64_t kColumns = 128;
constexpr int64_t kMaxParts = 16;  // of the heads, for the host's threads

// Operands of weft.SelfAttention and of its gradient.
struct Shape {
  int64_t batch, tokens, width, heads, head;
  bool causal;
  double scale;
  double ratio;  // 0 where nothing is dropped
  int64_t seed, stream;
  bool has_dlse;  // of the gradient

  int64_t items() const { return batch * heads; }
  int64_t Visible(int64_t row) const { return causal ? row + 1 : tokens; }
  // Where row 0 of an item begins, in rows of `columns`.
  int64_t First(int64_t item, int64_t columns) const {
    return item / heads * tokens * columns + item % heads * head;
  }
};

// Which weights of an item are kept, and by what they are multiplied then.
template <class T>
class Dropping {
 public:
  Dropping(const Shape& s, const int64_t* counter)
      : on_(counter != nullptr && s.ratio > 0),
        tokens_(s.tokens),
        source_(s.seed, s.stream, on_ ? counter[0] : 0),
        threshold_(KeepThreshold(s.ratio)),
        factor_(static_cast<T>(1 / (1 - s.ratio))) {
    if (!on_) return;
    const int64_t weights = s.items() * tokens_ * tokens_;
    first_ = static_cast<uint64_t>(counter[1]) * static_cast<uint64_t>(weights);
  }

  bool on() const { return on_; }
  // Factors of n weights of a row, from `column` on.
  void Factors(int64_t item, int64_t row, int64_t column, int64_t n,
               T* out) const {
    const int64_t at = (item * tokens_ + row) * tokens_ + column;
    source_.KeepFactors(first_ + static_cast<uint64_t>(at), n, threshold_,
                        factor_, out);
  }

 private:
  bool on_;
  int64_t tokens_;
  RandomSource source_;
  uint32_t threshold_;
  T factor_;
  uint64_t first_ = 0;
};

// Hands out aligned pieces of a workspace; without one it measures.
template <class T>
class Pieces {
 public:
  explicit Pieces(T* base) : base_(base) {}
  T* Take(int64_t n) {
    T* piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += PadTo<T>(n);
    return piece;
  }
  int64_t used() const { return used_; }

 private:
  T* base_;
  int64_t used_ = 0;
};

template <class T>
bool AllFinite(const T* x, int64_t n) {  // 0 times anything else is NaN
  return ReduceRow<SumOf, T>(n, [x](int64_t i) { return x[i] * T(0); }) == 0;
}

// to [n, PadTo(head)] = factor * from, rows of which are `row` apart. True
// where all of it is finite.
template <class T>
bool Pack(const Shape& s, const T* from, int64_t row, int64_t n, T factor,
          T* to) {
  const int64_t padded = PadTo<T>(s.head);
  for (int64_t r = 0; r < n; ++r) {
    const T* __restrict x = from + r * row;
    T* __restrict y = to + r * padded;
    for (int64_t i = 0; i < s.head; ++i) y[i] = factor * x[i];
    for (int64_t i = s.head; i < padded; ++i) y[i] = T(0);
  }
  return AllFinite(to, n * padded);
}

// Asks for rows [begin, end) of a head, which lie too far apart for the
// processor to foresee them.
template <class T>
void Prefetch(const Shape& s, const T* first, int64_t row, int64_t begin,
              int64_t end) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t r = begin; r < end; ++r) {
    for (int64_t i = 0; i < s.head; i += kLine) {
      __builtin_prefetch(first + r * row + i);
    }
  }
}

// to [head, PadTo(tokens)] = the transpose of packed rows.
template <class T>
void Transpose(const Shape& s, const T* from, T* to) {
  constexpr int64_t kBlock = kPadBytes / static_cast<int64_t>(sizeof(T));
  const int64_t row = PadTo<T>(s.head), padded = PadTo<T>(s.tokens);
  for (int64_t c = 0; c < padded; c += kBlock) {
    const int64_t n = std::min(kBlock, s.tokens - c);
    int64_t done = 0;
    if constexpr (sizeof(T) == 4) {
      for (; n == kBlock && done + kBlock <= s.head; done += kBlock) {
        Transpose16(from + c * row + done, row, to + done * padded + c, padded);
      }
    }
    for (int64_t i = done; i < s.head; ++i) {
      T* y = to + i * padded + c;
      const T* x = from + c * row + i;
      for (int64_t l = 0; l < n; ++l) y[l] = x[l * row];
      for (int64_t l = n; l < kBlock; ++l) y[l] = T(0);
    }
  }
}

template <class T>
void Scale(T* x, int64_t n, T factor) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

template <class T>
T DotRow(const T* x, const T* y, int64_t n) {
  return ReduceRow<SumOf, T>(n, [=](int64_t i) { return x[i] * y[i]; });
}

// Columns [begin, end) of a block of scores for rows from `first` on.
struct Block {
  int64_t begin, end;

  int64_t size() const { return end - begin; }
  template <class T>
  int64_t padded() const {
    return PadTo<T>(size());
  }
};

// f(block) for the columns that rows [.., end of the block of rows) see.
template <class F>
void ForEachBlock(const Shape& s, int64_t row_end, F f) {
  const int64_t end = s.causal ? row_end : s.tokens;
  for (int64_t c = 0; c < end; c += kColumns) {
    f(Block{c, std::min(end, c + kColumns)});
  }
}

// ---- Forward
// --------------------------------------------------------------------

template <class T>
struct ForwardScratch {
  ForwardScratch(const Shape& s, T* base) {
    Pieces<T> pieces(base);
    const int64_t head = PadTo<T>(s.head);
    const int64_t tokens = PadTo<T>(s.tokens);
    for (T** whole : {&q, &k, &kt, &v}) *whole = pieces.Take(tokens * head);
    y = pieces.Take(kRows * head);
    weights = pieces.Take(kRows * kColumns);
    factors = pieces.Take(kColumns);
    max = pieces.Take(kRows);
    sum = pieces.Take(kRows);
    size = pieces.used();
  }
  T *q, *k, *kt, *v, *y, *weights, *factors, *max, *sum;
  int64_t size;
};

// x[i] = exp(x[i] - max); the sum of them, in 16 lanes. n is padded.
template <class T>
T ExpAndSum(T* x, int64_t n, T max) {
  for (int64_t i = 0; i < n; ++i) x[i] = Exp(x[i] - max);
  return ReduceRow<SumOf, T>(n, [x](int64_t i) { return x[i]; });
}

template <class T>
class Forward {
 public:
  Forward(const Shape& s, const Args& a, const Dropping<T>& dropping)
      : s_(s), a_(a), dropping_(dropping) {}

  void Run(int64_t item, T* workspace) const {
    const ForwardScratch<T> w(s_, workspace);
    const int64_t row = 3 * s_.width;
    const T* qkv = a_.Input<T>(0) + s_.First(item, row);
    bool finite = Pack(s_, qkv + s_.width, row, s_.tokens, T(1), w.k);
    finite &= Pack(s_, qkv + 2 * s_.width, row, s_.tokens, T(1), w.v);
    finite &= Pack(s_, qkv, row, s_.tokens, static_cast<T>(s_.scale), w.q);
    if (!finite) return Plain(item, qkv);
    Transpose(s_, w.k, w.kt);
    for (int64_t r = 0; r < s_.tokens; r += kRows) {
      RunRows(item, r, std::min(s_.tokens, r + kRows), w);
    }
  }

 private:
  void RunRows(int64_t item, int64_t begin, int64_t end,
               const ForwardScratch<T>& w) const {
    const int64_t n = end - begin;
    const int64_t head = PadTo<T>(s_.head), tokens = PadTo<T>(s_.tokens);
    const T* q = w.q + begin * head;
    PrefetchNext(item + 1, begin, end);
    ForEachBlock(s_, end, [&](const Block& block) {
      Multiply<false>(n, block.size(), s_.head, q, head, 1, w.kt + block.begin,
                      tokens, w.weights, kColumns);
      for (int64_t r = 0; r < n; ++r) Weigh(item, begin, r, block, w);
      const T* v = w.v + block.begin * head;
      if (block.begin == 0) {
        Multiply<false>(n, head, block.size(), w.weights, kColumns, 1, v, head,
                        w.y, head);
      } else {
        Multiply<true>(n, head, block.size(), w.weights, kColumns, 1, v, head,
                       w.y, head);
      }
    });
    T* y = a_.Output<T>(0) + s_.First(item, s_.width) + begin * s_.width;
    T* lse = a_.Output<T>(1) + item * s_.tokens + begin;
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t i = 0; i < s_.head; ++i) {
        y[r * s_.width + i] = w.y[r * head + i] / w.sum[r];
      }
      lse[r] = w.max[r] + Log(w.sum[r]);
    }
  }

  void PrefetchNext(int64_t item, int64_t begin, int64_t end) const {
    if (item == s_.items()) return;
    const T* qkv = a_.Input<T>(0) + s_.First(item, 3 * s_.width);
    for (int64_t part = 0; part < 3; ++part) {
      Prefetch(s_, qkv + part * s_.width, 3 * s_.width, begin, end);
    }
  }

  // Scores of row `begin` + r become weights, yet to be divided by the row's
  // sum; what the row has so far is scaled to a new maximum.
  void Weigh(int64_t item, int64_t begin, int64_t r, const Block& block,
             const ForwardScratch<T>& w) const {
    T* x = w.weights + r * kColumns;
    const int64_t n = block.padded<T>();
    const int64_t seen =
        std::min(block.size(), s_.Visible(begin + r) - block.begin);
    std::fill(x + seen, x + n, -std::numeric_limits<T>::infinity());
    const T top = ReduceRow<MaxOf, T>(n, [x](int64_t i) { return x[i]; });
    if (block.begin == 0) {
      w.max[r] = top;
      w.sum[r] = ExpAndSum(x, n, top);
    } else {
      const T max = MaxOp::Apply(w.max[r], top);
      const T shrink = Exp(w.max[r] - max);
      w.max[r] = max;
      w.sum[r] = w.sum[r] * shrink + ExpAndSum(x, n, max);
      Scale(w.y + r * PadTo<T>(s_.head), PadTo<T>(s_.head), shrink);
    }
    if (!dropping_.on()) return;
    dropping_.Factors(item, begin + r, block.begin, seen, w.factors);
    for (int64_t i = 0; i < seen; ++i) x[i] *= w.factors[i];
  }

  void Plain(int64_t item, const T* qkv) const {
    const int64_t row = 3 * s_.width;
    const T scale = static_cast<T>(s_.scale);
    for (int64_t r = 0; r < s_.tokens; ++r) {
      auto score = [&](int64_t c) {
        return scale * DotRow(qkv + r * row, qkv + s_.width + c * row, s_.head);
      };
      const int64_t seen = s_.Visible(r);
      const T max = ReduceRow<MaxOf, T>(seen, score);
      const T sum = ReduceRow<SumOf, T>(
          seen, [&](int64_t c) { return Exp(score(c) - max); });
      T* y = a_.Output<T>(0) + s_.First(item, s_.width) + r * s_.width;
      std::fill(y, y + s_.head, T(0));
      for (int64_t c = 0; c < seen; ++c) {
        T weight = Exp(score(c) - max) / sum, factor = 1;
        if (dropping_.on()) dropping_.Factors(item, r, c, 1, &factor);
        weight *= factor;
        const T* v = qkv + 2 * s_.width + c * row;
        for (int64_t i = 0; i < s_.head; ++i) y[i] += weight * v[i];
      }
      a_.Output<T>(1)[item * s_.tokens + r] = max + Log(sum);
    }
  }

  const Shape& s_;
  const Args& a_;
  const Dropping<T>& dropping_;
};

// ---- Gradient
// -------------------------------------------------------------------

template <class T>
struct GradScratch {
  GradScratch(const Shape& s, T* base) {
    Pieces<T> pieces(base);
    const int64_t head = PadTo<T>(s.head);
    const int64_t tokens = PadTo<T>(s.tokens);
    for (T** whole : {&q, &k, &v, &kt, &vt, &dy, &dk, &dv}) {
      *whole = pieces.Take(tokens * head);
    }
    taken = pieces.Take(tokens);
    dq = pieces.Take(kRows * head);
    weights = pieces.Take(kRows * kColumns);
    dscores = pieces.Take(kRows * kColumns);
    factors = pieces.Take(kColumns);
    size = pieces.used();
  }
  T *q, *k, *v, *kt, *vt, *dy, *dk, *dv, *taken;
  T *dq, *weights, *dscores, *factors;
  int64_t size;
};

template <class T>
class Gradient {
 public:
  Gradient(const Shape& s, const Args& a, const Dropping<T>& dropping)
      : s_(s), a_(a), dropping_(dropping) {}

  void Run(int64_t item, T* workspace) const {
    const GradScratch<T> w(s_, workspace);
    const int64_t row = 3 * s_.width, first = s_.First(item, s_.width);
    const T* qkv = a_.Input<T>(0) + s_.First(item, row);
    const T* lse = a_.Input<T>(2) + item * s_.tokens;
    const T scale = static_cast<T>(s_.scale);
    bool finite = Pack(s_, qkv, row, s_.tokens, scale, w.q);
    finite &= Pack(s_, qkv + s_.width, row, s_.tokens, T(1), w.k);
    finite &= Pack(s_, qkv + 2 * s_.width, row, s_.tokens, T(1), w.v);
    finite &= Pack(s_, a_.Input<T>(3) + first, s_.width, s_.tokens, T(1), w.dy);
    // What the softmax takes off the gradient of each weight of a row.
    const T* y = a_.Input<T>(1) + first;
    for (int64_t r = 0; r < s_.tokens; ++r) {
      w.taken[r] = DotRow(a_.Input<T>(3) + first + r * s_.width,
                          y + r * s_.width, s_.head);
      if (s_.has_dlse) {
        w.taken[r] -= a_.Input<T>(4)[item * s_.tokens + r];
      }
    }
    finite &= AllFinite(w.taken, s_.tokens) && AllFinite(lse, s_.tokens);
    const int64_t size = s_.tokens * PadTo<T>(s_.head);
    std::fill(w.dk, w.dk + size, T(0));
    std::fill(w.dv, w.dv + size, T(0));
    T* dqkv = a_.Output<T>(0) + s_.First(item, row);
    if (!finite) return Plain(item, w, qkv, lse, dqkv);
    Transpose(s_, w.k, w.kt);
    Transpose(s_, w.v, w.vt);
    for (int64_t r = 0; r < s_.tokens; r += kRows) {
      RunRows(item, r, std::min(s_.tokens, r + kRows), lse, w, dqkv);
    }
    Unpack(w.dk, s_.tokens, T(1), dqkv + s_.width);
    Unpack(w.dv, s_.tokens, T(1), dqkv + 2 * s_.width);
  }

 private:
  void RunRows(int64_t item, int64_t begin, int64_t end, const T* lse,
               const GradScratch<T>& w, T* dqkv) const {
    const int64_t n = end - begin;
    const int64_t head = PadTo<T>(s_.head), tokens = PadTo<T>(s_.tokens);
    const T *q = w.q + begin * head, *dy = w.dy + begin * head;
    PrefetchNext(item + 1, begin, end);
    ForEachBlock(s_, end, [&](const Block& block) {
      const int64_t at = block.begin * head, columns = block.size();
      Multiply<false>(n, columns, s_.head, q, head, 1, w.kt + block.begin,
                      tokens, w.weights, kColumns);
      Multiply<false>(n, columns, s_.head, dy, head, 1, w.vt + block.begin,
                      tokens, w.dscores, kColumns);
      for (int64_t r = 0; r < n; ++r) {
        Differentiate(item, begin + r, lse[begin + r], block, w, r * kColumns);
      }
      Multiply<true>(columns, head, n, w.weights, 1, kColumns, dy, head,
                     w.dv + at, head);
      Multiply<true>(columns, head, n, w.dscores, 1, kColumns, q, head,
                     w.dk + at, head);
      if (block.begin == 0) {
        Multiply<false>(n, head, columns, w.dscores, kColumns, 1, w.k + at,
                        head, w.dq, head);
      } else {
        Multiply<true>(n, head, columns, w.dscores, kColumns, 1, w.k + at, head,
                       w.dq, head);
      }
    });
    Unpack(w.dq, n, static_cast<T>(s_.scale), dqkv + begin * 3 * s_.width);
  }

  void PrefetchNext(int64_t item, int64_t begin, int64_t end) const {
    if (item == s_.items()) return;
    const int64_t first = s_.First(item, s_.width);
    for (int64_t part = 0; part < 3; ++part) {
      const int64_t at = s_.First(item, 3 * s_.width) + part * s_.width;
      Prefetch(s_, a_.Input<T>(0) + at, 3 * s_.width, begin, end);
      Prefetch(s_, a_.Output<T>(0) + at, 3 * s_.width, begin, end);
    }
    Prefetch(s_, a_.Input<T>(1) + first, s_.width, begin, end);
    Prefetch(s_, a_.Input<T>(3) + first, s_.width, begin, end);
  }

  // Of one row, at `at` of the block: scores become the weights that were used,
  // the gradients of those become gradients of the scores.
  void Differentiate(int64_t item, int64_t row, T lse, const Block& block,
                     const GradScratch<T>& w, int64_t at) const {
    T *x = w.weights + at, *dx = w.dscores + at;
    const T taken = w.taken[row];
    const int64_t n = block.padded<T>();
    const int64_t seen = std::min(block.size(), s_.Visible(row) - block.begin);
    std::fill(x + seen, x + n, -std::numeric_limits<T>::infinity());
    std::fill(dx + seen, dx + n, T(0));
    if (!dropping_.on()) {
      for (int64_t i = 0; i < n; ++i) {
        x[i] = Exp(x[i] - lse);
        dx[i] = x[i] * (dx[i] - taken);
      }
      return;
    }
    T* factors = w.factors;
    dropping_.Factors(item, row, block.begin, seen, factors);
    std::fill(factors + seen, factors + n, T(0));
    for (int64_t i = 0; i < n; ++i) {
      const T weight = Exp(x[i] - lse);
      x[i] = weight * factors[i];
      dx[i] = weight * (dx[i] * factors[i] - taken);
    }
  }

  void Unpack(const T* from, int64_t n, T factor, T* to) const {
    const int64_t head = PadTo<T>(s_.head);
    for (int64_t r = 0; r < n; ++r) {
      const T* __restrict x = from + r * head;
      T* __restrict y = to + r * 3 * s_.width;
      for (int64_t i = 0; i < s_.head; ++i) y[i] = factor * x[i];
    }
  }

  void Plain(int64_t item, const GradScratch<T>& w, const T* qkv, const T* lse,
             T* dqkv) const {
    const int64_t row = 3 * s_.width, head = PadTo<T>(s_.head);
    const T scale = static_cast<T>(s_.scale);
    for (int64_t r = 0; r < s_.tokens; ++r) {
      const T* q = qkv + r * row;
      const T* dy = w.dy + r * head;
      T* dq = dqkv + r * row;
      std::fill(dq, dq + s_.head, T(0));
      for (int64_t c = 0; c < s_.Visible(r); ++c) {
        const T *k = w.k + c * head, *v = w.v + c * head;
        const T weight = Exp(scale * DotRow(q, k, s_.head) - lse[r]);
        T factor = 1;
        if (dropping_.on()) dropping_.Factors(item, r, c, 1, &factor);
        const T dweight = DotRow(dy, v, s_.head) * factor;
        const T dscore = weight * (dweight - w.taken[r]) * scale;
        for (int64_t i = 0; i < s_.head; ++i) {
          dq[i] += dscore * k[i];
          w.dk[c * head + i] += dscore * q[i];
          w.dv[c * head + i] += weight * factor * dy[i];
        }
      }
    }
    Unpack(w.dk, s_.tokens, T(1), dqkv + s_.width);
    Unpack(w.dv, s_.tokens, T(1), dqkv + 2 * s_.width);
  }

  const Shape& s_;
  const Args& a_;
  const Dropping<T>& dropping_;
};

// ---- Kernels
// --------------------------------------------------------------------

// `counter` is the operand that may hold one.
bool ReadShape(const Op& op, size_t counter, Shape* s) {
  const Tensor& qkv = op.in[0];
  const int64_t heads = op.Int("heads", 0);
  if (!op.Check(qkv.rank == 3 && heads > 0 && qkv.dims[2] > 0 &&
                    qkv.dims[2] % (3 * heads) == 0,
                "not qkv [batch, tokens, 3 * heads * size]")) {
    return false;
  }
  s->batch = qkv.dims[0];
  s->tokens = qkv.dims[1];
  s->width = qkv.dims[2] / 3;
  s->heads = heads;
  s->head = s->width / heads;
  s->causal = op.Int("causal", 0) != 0;
  s->scale = op.Float("scale", 1 / std::sqrt(static_cast<double>(s->head)));
  s->ratio = op.Float("ratio", 0.0);
  s->seed = op.Int("seed", 0);
  s->stream = op.Int("stream", 0);
  if (!op.Check(s->ratio >= 0 && s->ratio < 1, "ratio outside of [0, 1)")) {
    return false;
  }
  if (!op.HasInput(counter)) {
    s->ratio = 0;
    return true;
  }
  return op.Check(op.in[counter].dtype == WEFT_I64 && op.in[counter].count == 2,
                  "the counter is not i64[2]");
}

bool CheckRows(const Op& op, const Shape& s, const Tensor& t) {
  return op.Check(t.dtype == op.in[0].dtype && t.rank == 3 &&
                      t.dims[0] == s.batch && t.dims[1] == s.tokens &&
                      t.dims[2] == s.width,
                  "an operand that is not [batch, tokens, width]");
}
bool CheckLse(const Op& op, const Shape& s, const Tensor& t) {
  return op.Check(t.dtype == op.in[0].dtype && t.rank == 3 &&
                      t.dims[0] == s.batch && t.dims[1] == s.heads &&
                      t.dims[2] == s.tokens,
                  "an operand that is not [batch, heads, tokens]");
}

// A kernel that runs Work<T> for each item.
template <class T, template <class> class Work, class Scratch>
std::unique_ptr<Kernel> MakeItems(const Shape& s, int counter) {
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

std::unique_ptr<Kernel> ForwardFloat(const Op& op) {
  Shape s = {};
  if (!op.Arity(1, 2, 2, 2) || !ReadShape(op, 1, &s) ||
      !CheckRows(op, s, op.out[0]) || !CheckLse(op, s, op.out[1])) {
    return nullptr;
  }
  const int counter = op.HasInput(1) ? 1 : -1;
  return WithF32F64(op.in[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Storage;
    return MakeItems<T, Forward, ForwardScratch<T>>(s, counter);
  });
}

std::unique_ptr<Kernel> GradFloat(const Op& op) {
  Shape s = {};
  if (!op.Arity(4, 6, 1, 1) || !ReadShape(op, 5, &s) ||
      !CheckRows(op, s, op.in[1]) || !CheckLse(op, s, op.in[2]) ||
      !CheckRows(op, s, op.in[3]) ||
      (op.HasInput(4) && !CheckLse(op, s, op.in[4])) ||
      !op.Check(
          op.out[0].SameDims(op.in[0]) && op.out[0].dtype == op.in[0].dtype,
          "operand and result differ")) {
    return nullptr;
  }
  const int counter = op.HasInput(5) ? 5 : -1;
  s.has_dlse = op.HasInput(4);
  return WithF32F64(op.in[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Storage;
    return MakeItems<T, Gradient, GradScratch<T>>(s, counter);
  });
}

}  // namespace

std::unique_ptr<Kernel> MakeSelfAttention(const Op& op) {
  return ViaFloat(op, ForwardFloat);
}
std::unique_ptr<Kernel> MakeSelfAttentionGrad(const Op& op) {
  return ViaFloat(op, GradFloat);
}

WEFT_CPU_END
