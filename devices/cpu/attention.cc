// Self-attention. In the products a weight that is not visible is 0, and 0
// times an infinity is NaN; so a head with an operand that is not finite takes
// the plain way, which looks at what is visible and nothing else.
#include "devices/cpu/attention.h"

#include "devices/cpu/attention_tiles.h"
#include "devices/cpu/factories.h"
#include "devices/cpu/via_float.h"

WEFT_CPU_BEGIN

bool ReadHeadShape(const Op& op, size_t counter, HeadShape* s) {
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
  const int64_t weights[] = {s->batch, heads, s->tokens, s->tokens};
  if (!s->weights.Read(op, weights, 4)) return false;
  if (!op.HasInput(counter)) {
    s->ratio = 0;
    return true;
  }
  return op.Check(op.in[counter].dtype == WEFT_I64 && op.in[counter].count == 2,
                  "the counter is not i64[2]");
}

bool CheckRows(const Op& op, const HeadShape& s, const Tensor& t) {
  return op.Check(t.dtype == op.in[0].dtype && t.rank == 3 &&
                      t.dims[0] == s.batch && t.dims[1] == s.tokens &&
                      t.dims[2] == s.width,
                  "an operand that is not [batch, tokens, width]");
}
bool CheckLse(const Op& op, const HeadShape& s, const Tensor& t) {
  return op.Check(t.dtype == op.in[0].dtype && t.rank == 3 &&
                      t.dims[0] == s.batch && t.dims[1] == s.heads &&
                      t.dims[2] == s.tokens,
                  "an operand that is not [batch, heads, tokens]");
}

namespace {

template <class T>
struct ForwardScratch {
  ForwardScratch(const HeadShape& s, T* base) {
    Pieces<T> pieces(base);
    const int64_t head = s.padded();
    const int64_t tokens = PadToGroup(s.tokens);
    for (T** whole : {&q, &k, &v}) *whole = pieces.Take(tokens * head);
    qt = pieces.Take(head * kGroup);
    y = pieces.Take(kGroup * head);
    weights = pieces.Take(kKeys * kGroup);
    for (T** each : {&max, &sum, &shrink}) *each = pieces.Take(kGroup);
    if (s.ratio > 0) {
      factors = pieces.Take(kKeys * kGroup);
      factor_rows = pieces.Take(kGroup * kKeys);
    }
    size = pieces.used();
  }
  T *q, *k, *v, *qt, *y, *weights, *max, *sum, *shrink;
  T *factors = nullptr, *factor_rows = nullptr;
  int64_t size;
};

template <class T>
class Forward {
 public:
  Forward(const HeadShape& s, const Args& a, const Dropping<T>& dropping)
      : s_(s), a_(a), dropping_(dropping) {}

  void Run(int64_t item, T* workspace) const {
    const ForwardScratch<T> w(s_, workspace);
    const int64_t row = 3 * s_.width;
    const T* qkv = a_.Input<T>(0) + s_.First(item, row);
    bool finite = Pack(s_, qkv, row, static_cast<T>(s_.scale), w.q);
    finite &= Pack(s_, qkv + s_.width, row, T(1), w.k);
    finite &= Pack(s_, qkv + 2 * s_.width, row, T(1), w.v);
    if (!finite) return Plain(item, qkv);
    Ahead<T> ahead(s_);
    if (item + 1 < s_.items()) {
      const T* next = a_.Input<T>(0) + s_.First(item + 1, row);
      for (int64_t part = 0; part < 3; ++part) {
        ahead.Add(next + part * s_.width, row);
      }
    }
    for (int64_t r = 0; r < s_.tokens; r += kGroup) {
      RunGroup(item, r, std::min(s_.tokens, r + kGroup), w, &ahead);
    }
  }

 private:
  using V = Vector<T>;

  void RunGroup(int64_t item, int64_t begin, int64_t end,
                const ForwardScratch<T>& w, Ahead<T>* ahead) const {
    const int64_t n = end - begin;
    TransposeGroup(s_, w.q + begin * s_.padded(), w.qt);
    ForEachBlock(s_, end, [&](const KeyBlock& block) {
      Scores(s_, begin, n, block, w.k, w.qt, w.weights);
      for (int64_t l = 0; l < n; l += kVectorLanes<T>) {
        Weigh(begin + l, l, block, w, ahead);
      }
      if (block.begin > 0) Shrink(n, w);
      if (dropping_.on()) Drop(item, begin, n, block, w);
      WeightedSum(s_, block.begin > 0, begin, n, block, w.weights, w.v, w.y,
                  ahead);
    });
    Write(item, begin, n, w);
  }

  // Scores of a vector of queries, in lanes from `lane` on, become weights, yet
  // to be divided by their sum; those of what is not seen become 0. The sum so
  // far shrinks to a new maximum; w.shrink says by how much.
  void Weigh(int64_t query, int64_t lane, const KeyBlock& block,
             const ForwardScratch<T>& w, Ahead<T>* ahead) const {
    T* x = w.weights + lane;
    V max = Largest(query, block, x), sum = {};
    if (block.begin > 0) {
      const V before = LoadVector(w.max + lane);
      max = Larger(before, max);
      const V shrink = ExpOf(before - ShiftOf(max));
      sum = LoadVector(w.sum + lane) * shrink;
      StoreVector(w.shrink + lane, shrink);
    }
    const V shift = ShiftOf(max);
    V part = {};
    int64_t k = ForEachKey<T>(s_, block, query, [&](int64_t key, auto hide) {
      if (key % 8 == 0) ahead->Row();
      const V weight = hide(ExpOf(LoadVector(x + key * kGroup) - shift), V{});
      part += weight;
      StoreVector(x + key * kGroup, weight);
    });
    for (; k < block.size(); ++k) StoreVector(x + k * kGroup, V{});
    StoreVector(w.max + lane, max);
    StoreVector(w.sum + lane, sum + part);
  }

  // Of the scores that each query of a vector sees. The order makes no
  // difference; in four chains a comparison need not wait for the one before.
  V Largest(int64_t query, const KeyBlock& block, const T* x) const {
    const V none = V{} - std::numeric_limits<T>::infinity();
    V most[4] = {none, none, none, none};
    const int64_t all = SeenOf(s_, block, query) / 4 * 4;
    for (int64_t k = 0; k < all; k += 4) {
#pragma GCC unroll 4
      for (int64_t j = 0; j < 4; ++j) {
        most[j] = Larger(LoadVector(x + (k + j) * kGroup), most[j]);
      }
    }
    const KeyBlock rest = {block.begin + all, block.end};
    ForEachKey<T>(s_, rest, query, [&](int64_t key, auto hide) {
      const V score = LoadVector(x + (all + key) * kGroup);
      most[0] = Larger(hide(score, none), most[0]);
    });
    return Larger(Larger(most[0], most[1]), Larger(most[2], most[3]));
  }
  static V Larger(const V& a, const V& b) { return a > b ? a : b; }

  // What is taken off scores. Where all so far are -infinity, as products that
  // overflow are, that would give NaN; their weights are 0.
  static V ShiftOf(const V& max) {
    return max > V{} - std::numeric_limits<T>::infinity() ? max : V{};
  }

  void Shrink(int64_t n, const ForwardScratch<T>& w) const {
    const int64_t head = s_.padded();
    for (int64_t q = 0; q < n; ++q) {
      const T shrink = w.shrink[q];
      T* y = w.y + q * head;
      for (int64_t i = 0; i < head; ++i) y[i] *= shrink;
    }
  }

  void Drop(int64_t item, int64_t begin, int64_t n, const KeyBlock& block,
            const ForwardScratch<T>& w) const {
    KeepFactors(s_, dropping_, item, begin, n, block, w.factor_rows, w.factors);
    const int64_t lanes = PadTo<T>(n);
    for (int64_t at = 0; at < block.size() * kGroup; at += kGroup) {
      for (int64_t l = 0; l < lanes; ++l)
        w.weights[at + l] *= w.factors[at + l];
    }
  }

  void Write(int64_t item, int64_t begin, int64_t n,
             const ForwardScratch<T>& w) const {
    T* y = a_.Output<T>(0) + s_.First(item, s_.width) + begin * s_.width;
    T* lse = a_.Output<T>(1) + item * s_.tokens + begin;
    for (int64_t q = 0; q < n; ++q) {
      Unpack(s_, w.y + q * s_.padded(), 1, T(1) / w.sum[q], y + q * s_.width,
             s_.width);
    }
    // Where no score was above -infinity, NaN, as y is.
    for (int64_t q = 0; q < n; ++q) {
      lse[q] = w.sum[q] > 0 ? w.max[q] + Log(w.sum[q])
                            : std::numeric_limits<T>::quiet_NaN();
    }
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

  const HeadShape& s_;
  const Args& a_;
  const Dropping<T>& dropping_;
};

std::unique_ptr<Kernel> ForwardFloat(const Op& op) {
  HeadShape s = {};
  if (!op.Arity(1, 2, 2, 2) || !ReadHeadShape(op, 1, &s) ||
      !CheckRows(op, s, op.out[0]) || !CheckLse(op, s, op.out[1])) {
    return nullptr;
  }
  const int counter = op.HasInput(1) ? 1 : -1;
  return WithF32F64(op.in[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Storage;
    return MakeItems<T, Forward, ForwardScratch<T>>(s, counter);
  });
}

}  // namespace

std::unique_ptr<Kernel> MakeSelfAttention(const Op& op) {
  return ViaFloat(op, ForwardFloat);
}

WEFT_CPU_END
