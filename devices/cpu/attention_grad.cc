// The gradient of self-attention. It computes the weights again, from the
// scores and lse. As in attention.cc, a head with an operand that is not finite
// takes the plain way.
#include "devices/cpu/attention.h"
#include "devices/cpu/attention_tiles.h"
#include "devices/cpu/factories.h"
#include "devices/cpu/via_float.h"

WEFT_CPU_BEGIN
namespace {

template <class T>
struct GradScratch {
  GradScratch(const HeadShape& s, T* base) {
    Pieces<T> pieces(base);
    const int64_t head = s.padded();
    const int64_t tokens = PadToGroup(s.tokens);
    for (T** whole : {&q, &k, &v, &dy, &dk, &dv}) {
      *whole = pieces.Take(tokens * head);
    }
    for (T** whole : {&taken, &lse}) *whole = pieces.Take(tokens);
    for (T** group : {&qt, &dyt, &dq}) *group = pieces.Take(kGroup * head);
    for (T** block : {&weights, &dscores}) *block = pieces.Take(kKeys * kGroup);
    if (s.ratio > 0) {
      factors = pieces.Take(kKeys * kGroup);
      factor_rows = pieces.Take(kGroup * kKeys);
    }
    size = pieces.used();
  }
  T *q, *k, *v, *dy, *dk, *dv, *taken, *lse;
  T *qt, *dyt, *dq, *weights, *dscores;
  T *factors = nullptr, *factor_rows = nullptr;
  int64_t size;
};

template <class T>
class Gradient {
 public:
  Gradient(const HeadShape& s, const Args& a, const Dropping<T>& dropping)
      : s_(s), a_(a), dropping_(dropping) {}

  void Run(int64_t item, T* workspace) const {
    const GradScratch<T> w(s_, workspace);
    const int64_t row = 3 * s_.width, first = s_.First(item, s_.width);
    const T* qkv = a_.Input<T>(0) + s_.First(item, row);
    const T* dy = a_.Input<T>(3) + first;
    bool finite = Pack(s_, qkv, row, static_cast<T>(s_.scale), w.q);
    finite &= Pack(s_, qkv + s_.width, row, T(1), w.k);
    finite &= Pack(s_, qkv + 2 * s_.width, row, T(1), w.v);
    finite &= Pack(s_, dy, s_.width, T(1), w.dy);
    finite &= PackRows(item, a_.Input<T>(1) + first, dy, w);
    const int64_t size = s_.tokens * s_.padded();
    std::fill(w.dk, w.dk + size, T(0));
    std::fill(w.dv, w.dv + size, T(0));
    T* dqkv = a_.Output<T>(0) + s_.First(item, row);
    if (!finite) return Plain(item, w, qkv, w.lse, dqkv);
    Ahead<T> ahead = AheadOf(item + 1);
    for (int64_t r = 0; r < s_.tokens; r += kGroup) {
      RunGroup(item, r, std::min(s_.tokens, r + kGroup), w, dqkv, &ahead);
    }
    Unpack(s_, w.dk, s_.tokens, T(1), dqkv + s_.width, row);
    Unpack(s_, w.dv, s_.tokens, T(1), dqkv + 2 * s_.width, row);
  }

 private:
  using V = Vector<T>;

  // What there is one of for each query: lse, and what the softmax takes off
  // the gradient of each weight. True where all of it is finite. A query that
  // only fills a group has an infinite lse, so that its weights are 0.
  bool PackRows(int64_t item, const T* y, const T* dy,
                const GradScratch<T>& w) const {
    const int64_t n = s_.tokens, padded = PadToGroup(n);
    const T* lse = a_.Input<T>(2) + item * n;
    DotRows(s_, dy, s_.width, y, s_.width, w.taken);
    if (s_.has_dlse) {
      const T* dlse = a_.Input<T>(4) + item * n;
      for (int64_t r = 0; r < n; ++r) w.taken[r] -= dlse[r];
    }
    std::copy(lse, lse + n, w.lse);
    std::fill(w.lse + n, w.lse + padded, std::numeric_limits<T>::infinity());
    std::fill(w.taken + n, w.taken + padded, T(0));
    return ReduceRow<SumOf, T>(n, [&](int64_t r) {
             return w.taken[r] * T(0) + w.lse[r] * T(0);
           }) == 0;
  }

  void RunGroup(int64_t item, int64_t begin, int64_t end,
                const GradScratch<T>& w, T* dqkv, Ahead<T>* ahead) const {
    const int64_t n = end - begin, head = s_.padded();
    const T *q = w.q + begin * head, *dy = w.dy + begin * head;
    TransposeGroup(s_, q, w.qt);
    TransposeGroup(s_, dy, w.dyt);
    ForEachBlock(s_, end, [&](const KeyBlock& block) {
      Scores(s_, begin, n, block, w.k, w.qt, w.weights);
      Scores(s_, begin, n, block, w.v, w.dyt, w.dscores);
      if (dropping_.on()) {
        KeepFactors(s_, dropping_, item, begin, n, block, w.factor_rows,
                    w.factors);
      }
      for (int64_t l = 0; l < n; l += kVectorLanes<T>) {
        dropping_.on() ? Differentiate<true>(begin + l, l, block, w)
                       : Differentiate<false>(begin + l, l, block, w);
      }
      AddToKeys(s_, begin, n, block, w.weights, dy, w.dv, ahead);
      AddToKeys(s_, begin, n, block, w.dscores, q, w.dk, ahead);
      WeightedSum(s_, block.begin > 0, begin, n, block, w.dscores, w.k, w.dq,
                  ahead);
    });
    Unpack(s_, w.dq, n, static_cast<T>(s_.scale), dqkv + begin * 3 * s_.width,
           3 * s_.width);
  }

  Ahead<T> AheadOf(int64_t item) const {
    Ahead<T> ahead(s_);
    if (item == s_.items()) return ahead;
    const int64_t row = 3 * s_.width, first = s_.First(item, s_.width);
    ahead.Add(a_.Input<T>(1) + first, s_.width);
    ahead.Add(a_.Input<T>(3) + first, s_.width);
    for (int64_t part = 0; part < 3; ++part) {
      const int64_t at = s_.First(item, row) + part * s_.width;
      ahead.Add(a_.Input<T>(0) + at, row);
      ahead.Add(a_.Output<T>(0) + at, row);
    }
    return ahead;
  }

  // Of a vector of queries, in lanes from `lane` on: scores become the weights
  // that were used, the gradients of those become gradients of the scores.
  template <bool kDrops>
  void Differentiate(int64_t query, int64_t lane, const KeyBlock& block,
                     const GradScratch<T>& w) const {
    T *x = w.weights + lane, *dx = w.dscores + lane;
    const V lse = LoadVector(w.lse + query),
            taken = LoadVector(w.taken + query);
    int64_t k = ForEachKey<T>(s_, block, query, [&](int64_t key, auto hide) {
      const int64_t at = key * kGroup;
      const V weight = hide(ExpOf(LoadVector(x + at) - lse), V{});
      // Hidden as well: 0 times what lies there may be NaN.
      V dweight = hide(LoadVector(dx + at), V{}), used = weight;
      if constexpr (kDrops) {
        const V factor = LoadVector(w.factors + lane + at);
        dweight *= factor;
        used *= factor;
      }
      StoreVector(x + at, used);
      StoreVector(dx + at, weight * (dweight - taken));
    });
    for (; k < block.size(); ++k) {
      StoreVector(x + k * kGroup, V{});
      StoreVector(dx + k * kGroup, V{});
    }
  }

  void Plain(int64_t item, const GradScratch<T>& w, const T* qkv, const T* lse,
             T* dqkv) const {
    const int64_t row = 3 * s_.width, head = s_.padded();
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
    Unpack(s_, w.dk, s_.tokens, T(1), dqkv + s_.width, row);
    Unpack(s_, w.dv, s_.tokens, T(1), dqkv + 2 * s_.width, row);
  }

  const HeadShape& s_;
  const Args& a_;
  const Dropping<T>& dropping_;
};

std::unique_ptr<Kernel> GradFloat(const Op& op) {
  HeadShape s = {};
  if (!op.Arity(4, 6, 1, 1) || !ReadHeadShape(op, 5, &s) ||
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

std::unique_ptr<Kernel> MakeSelfAttentionGrad(const Op& op) {
  return ViaFloat(op, GradFloat);
}

WEFT_CPU_END
