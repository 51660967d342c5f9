// Softmax cross entropy with sample weights and label smoothing, and its
// gradient with respect to the scores.
//
// With q = (1 - s) onehot(label) + s / C: l = -sum q log p, loss = sum w l,
// dscores = dloss w (p - q). A sample of weight 0 has no part in either,
// whatever its scores and its label are. Any other label outside of [0, C) ends
// the launch with WEFT_RANGE before anything is written.
#include "devices/cpu/factories.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/softmax.h"
#include "devices/cpu/via_float.h"

WEFT_CPU_BEGIN
namespace {

struct LossShape {
  int64_t samples = 0;
  int64_t classes = 0;
  double smoothing = 0;
};

bool ReadShape(const Op& op, const Tensor& scores, const Tensor& labels,
               const Tensor& weights, LossShape* s) {
  bool fits = scores.rank == 2 && labels.rank == 1 && weights.rank == 1 &&
              labels.dims[0] == scores.dims[0] &&
              weights.dims[0] == scores.dims[0];
  if (!op.Check(fits, "not scores [N,C], labels [N], weights [N]") ||
      !op.Check(labels.dtype == WEFT_I32 || labels.dtype == WEFT_I64 ||
                    labels.dtype == WEFT_U8,
                "labels are not i32, i64 or u8") ||
      !op.Check(weights.dtype == scores.dtype, "the types differ")) {
    return false;
  }
  s->samples = scores.dims[0];
  s->classes = scores.dims[1];
  s->smoothing = op.Float("label_smoothing", 0.0);
  return true;
}

template <class F>
std::unique_ptr<Kernel> WithLabel(uint32_t dtype, F f) {
  if (dtype == WEFT_I32) return f(Tag<int32_t>());
  if (dtype == WEFT_U8) return f(Tag<uint8_t>());
  return f(Tag<int64_t>());
}

template <class T, class L>
bool CheckLabels(const LossShape& s, const L* labels, const T* weights,
                 Failure* failure) {
  for (int64_t i = 0; i < s.samples; ++i) {
    const int64_t label = static_cast<int64_t>(labels[i]);
    if (weights[i] == 0 || (label >= 0 && label < s.classes)) continue;
    failure->Set(WEFT_RANGE,
                 "label %lld of sample %lld is outside of [0, %lld)",
                 static_cast<long long>(label), static_cast<long long>(i),
                 static_cast<long long>(s.classes));
    return false;
  }
  return true;
}

// What a sample is to be: 1 - s at its label, and s / C everywhere.
template <class T>
struct Target {
  T hit, each;

  explicit Target(const LossShape& s)
      : hit(static_cast<T>(1 - s.smoothing)),
        each(static_cast<T>(s.smoothing / static_cast<double>(s.classes))) {}
};

// -w l of one sample.
template <class T>
T WeightedGain(const LossShape& s, const Target<T>& target, const T* log_prob,
               int64_t label, T weight) {
  if (weight == 0) return T(0);
  T gain = target.hit == 0 ? T(0) : target.hit * log_prob[label];
  if (target.each != 0) {  // 0 * -inf is not 0
    gain += target.each * ReduceRow<SumOf, T>(s.classes, [log_prob](int64_t c) {
              return log_prob[c];
            });
  }
  return weight * gain;
}

// `to` may be log_prob.
template <class T>
void GradOfRow(const LossShape& s, const Target<T>& target, const T* log_prob,
               int64_t label, T weight, T dloss, T* to) {
  if (weight == 0) {
    std::fill(to, to + s.classes, T(0));
    return;
  }
  const T factor = dloss * weight;
  const T p = Exp(log_prob[label]);
  InPieces(log_prob, s.classes, std::integral_constant<int64_t, 1>(),
           [=](int64_t begin, int64_t end) {
             for (int64_t c = begin; c < end; ++c) {
               to[c] = factor * (Exp(log_prob[c]) - target.each);
             }
           });
  to[label] = factor * (p - (target.each + target.hit));
}

// f(i, place) for each sample; results of all classes may be made in `place`.
template <class T, class F>
void ForEachSample(const LossShape& s, F f) {
  const int64_t block = RowBlock(s.samples, s.classes, kCostly);
  const bool far = RowsAreFar<T>(s.samples, s.classes);
  ParallelBlocks(s.samples, block, [&](int64_t begin, int64_t end) {
    RowPlace<T> place(far);
    for (int64_t i = begin; i < end; ++i) f(i, place);
  });
}

// Samples' gains are kept in the workspace, for their order of addition.
template <class T>
T LossOf(const LossShape& s, const T* gains) {
  return T(0) -
         ReduceRow<SumOf, T>(s.samples, [=](int64_t i) { return gains[i]; });
}

template <class T, class L>
void RunLoss(const LossShape& s, const Args& a) {
  const L* labels = a.Input<L>(1);
  const T* weights = a.Input<T>(2);
  if (!CheckLabels(s, labels, weights, a.failure)) return;
  T* gains = static_cast<T*>(a.workspace);
  const Target<T> target(s);
  ForEachSample<T>(s, [&](int64_t i, RowPlace<T>& place) {
    T* log_prob = a.Output<T>(1) + i * s.classes;
    T* row = place.Of(log_prob);
    LogSoftmaxRow(a.Input<T>(0) + i * s.classes, row, s.classes, 1);
    gains[i] = WeightedGain(s, target, row, static_cast<int64_t>(labels[i]),
                            weights[i]);
    place.Write(log_prob, s.classes);
  });
  a.Output<T>(0)[0] = LossOf(s, gains);
}

template <class T, class L>
void RunGrad(const LossShape& s, const Args& a) {
  const L* labels = a.Input<L>(2);
  const T* weights = a.Input<T>(3);
  if (!CheckLabels(s, labels, weights, a.failure)) return;
  const Target<T> target(s);
  ForEachSample<T>(s, [&](int64_t i, RowPlace<T>& place) {
    T* to = a.Output<T>(0) + i * s.classes;
    GradOfRow(s, target, a.Input<T>(1) + i * s.classes,
              static_cast<int64_t>(labels[i]), weights[i], a.Input<T>(0)[0],
              place.Of(to));
    place.Write(to, s.classes);
  });
}

// Both in one pass, with one exp an element: exp(x - max) is kept where the
// gradient will be, and no log probabilities are written. Gives the gain.
template <class T>
T LossAndGradOfRow(const LossShape& s, const Target<T>& target, const T* x,
                   int64_t label, T weight, T dloss, T* to) {
  if (weight == 0) {
    std::fill(to, to + s.classes, T(0));
    return T(0);
  }
  T max;
  const T sum =
      ExpRow(x, to, s.classes, std::integral_constant<int64_t, 1>(), &max);
  const T log_sum = std::log(sum);
  // 0 * -inf is not 0.
  T gain = target.hit == 0 ? T(0) : target.hit * ((x[label] - max) - log_sum);
  if (target.each != 0) {
    const T shifted = ReduceRow<SumOf, T>(
        s.classes, [x, max](int64_t c) { return x[c] - max; });
    gain += target.each * (shifted - static_cast<T>(s.classes) * log_sum);
  }
  const T factor = dloss * weight;
  const T scale = factor / sum, rest = factor * target.each;
  const T p = to[label] / sum;
  for (int64_t c = 0; c < s.classes; ++c) to[c] = to[c] * scale - rest;
  to[label] = factor * (p - (target.each + target.hit));
  return weight * gain;
}

template <class T, class L>
void RunLossAndGrad(const LossShape& s, const Args& a) {
  const L* labels = a.Input<L>(1);
  const T* weights = a.Input<T>(2);
  if (!CheckLabels(s, labels, weights, a.failure)) return;
  T* gains = static_cast<T*>(a.workspace);
  const Target<T> target(s);
  ForEachSample<T>(s, [&](int64_t i, RowPlace<T>& place) {
    T* to = a.Output<T>(1) + i * s.classes;
    gains[i] = LossAndGradOfRow(s, target, a.Input<T>(0) + i * s.classes,
                                static_cast<int64_t>(labels[i]), weights[i],
                                a.Input<T>(3)[0], place.Of(to));
    place.Write(to, s.classes);
  });
  a.Output<T>(0)[0] = LossOf(s, gains);
}

std::unique_ptr<Kernel> LossFloat(const Op& op) {
  LossShape s;
  if (!op.Arity(3, 2) || !ReadShape(op, op.in[0], op.in[1], op.in[2], &s) ||
      !op.Check(op.out[0].count == 1 && op.out[1].SameDims(op.in[0]) &&
                    op.out[0].dtype == op.in[0].dtype &&
                    op.out[1].dtype == op.in[0].dtype,
                "results that do not fit")) {
    return nullptr;
  }
  return WithF32F64(op.in[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Storage;
    return WithLabel(op.in[1].dtype, [&](auto l) -> std::unique_ptr<Kernel> {
      using L = typename decltype(l)::Storage;
      return MakeKernel([s](const Args& a) { RunLoss<T, L>(s, a); }, 0,
                        static_cast<uint64_t>(s.samples) * sizeof(T));
    });
  });
}

std::unique_ptr<Kernel> GradFloat(const Op& op) {
  LossShape s;
  if (!op.Arity(4, 1) || !ReadShape(op, op.in[1], op.in[2], op.in[3], &s) ||
      !op.Check(op.in[0].count == 1 && op.out[0].SameDims(op.in[1]) &&
                    op.in[0].dtype == op.in[1].dtype &&
                    op.out[0].dtype == op.in[1].dtype,
                "operands that do not fit")) {
    return nullptr;
  }
  return WithF32F64(op.in[1].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Storage;
    return WithLabel(op.in[2].dtype, [&](auto l) -> std::unique_ptr<Kernel> {
      using L = typename decltype(l)::Storage;
      return MakeKernel([s](const Args& a) { RunGrad<T, L>(s, a); },
                        InPlaceMask(op) & 2u);
    });
  });
}

std::unique_ptr<Kernel> LossAndGradFloat(const Op& op) {
  LossShape s;
  if (!op.Arity(4, 2) || !ReadShape(op, op.in[0], op.in[1], op.in[2], &s) ||
      !op.Check(op.in[3].count == 1 && op.out[0].count == 1 &&
                    op.out[1].SameDims(op.in[0]) &&
                    op.in[3].dtype == op.in[0].dtype &&
                    op.out[0].dtype == op.in[0].dtype &&
                    op.out[1].dtype == op.in[0].dtype,
                "operands that do not fit")) {
    return nullptr;
  }
  return WithF32F64(op.in[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Storage;
    return WithLabel(op.in[1].dtype, [&](auto l) -> std::unique_ptr<Kernel> {
      using L = typename decltype(l)::Storage;
      return MakeKernel([s](const Args& a) { RunLossAndGrad<T, L>(s, a); }, 0,
                        static_cast<uint64_t>(s.samples) * sizeof(T));
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> MakeCrossEntropy(const Op& op) {
  return ViaFloat(op, LossFloat);
}
std::unique_ptr<Kernel> MakeCrossEntropyGrad(const Op& op) {
  return ViaFloat(op, GradFloat);
}
std::unique_ptr<Kernel> MakeLossAndGrad(const Op& op) {
  return ViaFloat(op, LossAndGradFloat);
}

WEFT_CPU_END
