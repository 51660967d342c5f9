// Updates of state: result i is the new value of operand i, in the same memory
// or another. g is the gradient times the multiplier, g' = g + weight_decay p.
//
//   Ema       x = momentum x + (1 - momentum) value
//   Sgd       p -= lr g'
//   Momentum  v = momentum v + g';  p -= lr v;  Nesterov: lr (g' + momentum v)
//   Adam      m, v = running means of g' and g'^2;
//             p -= lr m^ / (sqrt(v^) + epsilon), both corrected for their
//             start; decoupled: g for g', and p -= lr weight_decay p as well
//   Adagrad   a += g'^2;  p -= lr g' / (sqrt(a) + epsilon)
//
// One launch updates any number of variables: operands are the state of each in
// turn, one gradient for each, then the learning rate (Ema has none), Adam's
// counter, and perhaps the multiplier, which leaves all state as it is where it
// is NaN. The elements of all variables are one range, cut into blocks by
// shapes alone, so that small ones cost no launch and threads share all of them
// evenly.
//
// Adam reads four arrays and writes three, 28 bytes of f32 an element, and its
// one square root and one division take less time than that: the corrections
// are multiplied with, not divided by.
#include "devices/cpu/each_alone.h"
#include "devices/cpu/factories.h"
#include "devices/cpu/numeric.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/via_float.h"

WEFT_CPU_BEGIN
namespace {

// Where operands lie.
struct Layout {
  int slots = 1;         // tensors of state of each variable
  bool rate = false;     // a learning rate []
  bool counter = false;  // then a counter i64[2]
  int variables = 0;
  int first_shared = 0;    // after state and gradients
  int multiplier = -1;     // the last operand, []; none where negative
  bool wide_rate = false;  // f64, as is the multiplier's
  bool wide_multiplier = false;

  int Gradient(int variable) const { return variables * slots + variable; }
};

int SlotsOf(uint32_t op) {
  switch (op) {
    case WEFT_OP_MOMENTUM_UPDATE:
    case WEFT_OP_ADAGRAD_UPDATE:
      return 2;
    case WEFT_OP_ADAM_UPDATE:
      return 3;
    default:
      return 1;
  }
}

bool IsScalar(const Tensor& t) {
  return t.count == 1 && (t.dtype == WEFT_F32 || t.dtype == WEFT_F64);
}

// False where operands do not fit.
bool MakeLayout(const Op& op, Layout* l) {
  l->slots = SlotsOf(op.id);
  l->rate = op.id != WEFT_OP_ASSIGN && op.id != WEFT_OP_EMA_UPDATE;
  l->counter = op.id == WEFT_OP_ADAM_UPDATE;
  const int slots = l->slots;
  const int shared = (l->rate ? 1 : 0) + (l->counter ? 1 : 0);
  l->variables = static_cast<int>(op.out.size()) / slots;
  l->first_shared = l->variables * (slots + 1);
  const size_t inputs = static_cast<size_t>(l->first_shared + shared);
  const size_t updated = static_cast<size_t>(l->variables * slots);
  const size_t most = inputs + (op.id == WEFT_OP_ASSIGN ? 0 : 1);
  if (!op.Arity(inputs, most, updated, updated) ||
      !op.Check(l->variables > 0, "no variable to update")) {
    return false;
  }
  bool fits = true;
  for (int v = 0; v < l->variables; ++v) {
    const Tensor& first = op.in[v * slots];
    const auto same = [&](const Tensor& t) {
      fits = fits && t.dtype == op.in[0].dtype && t.SameDims(first);
    };
    for (int s = 0; s < slots; ++s) {
      same(op.in[v * slots + s]);
      same(op.out[v * slots + s]);
    }
    same(op.in[l->Gradient(v)]);
  }
  if (l->rate) {
    fits = fits && IsScalar(op.in[l->first_shared]);
    l->wide_rate = op.in[l->first_shared].dtype == WEFT_F64;
  }
  if (l->counter) {
    const Tensor& counter = op.in[l->first_shared + 1];
    fits = fits && counter.count == 2 && counter.dtype == WEFT_I64;
  }
  if (op.HasInput(inputs)) {
    l->multiplier = static_cast<int>(inputs);
    fits = fits && IsScalar(op.in[inputs]);
    l->wide_multiplier = op.in[inputs].dtype == WEFT_F64;
  }
  return op.Check(fits, "operands that do not fit the variable");
}

std::unique_ptr<Kernel> MakeAssign(const Op& op) {
  const size_t bytes = static_cast<size_t>(op.in[0].extent);
  return MakeKernel(
      [bytes](const Args& a) {
        if (bytes > 0 && a.out[0] != a.in[1]) {
          std::memmove(a.out[0], a.in[1], bytes);
        }
      },
      1u);
}

double ReadScalar(const Args& a, int i, bool wide) {
  return wide ? a.Input<double>(i)[0]
              : static_cast<double>(a.Input<float>(i)[0]);
}

// Elements of all variables in one range. Each variable starts at a multiple of
// a cache line, so that blocks begin at one.
class Range {
 public:
  Range(const Op& op, const Layout& l) {
    starts_.push_back(0);
    for (int v = 0; v < l.variables; ++v) {
      counts_.push_back(op.in[v * l.slots].count);
      starts_.push_back(starts_.back() + (counts_.back() + 15) / 16 * 16);
    }
  }

  int64_t count(int variable) const { return counts_[variable]; }

  // f(variable, begin, end) for the parts of all variables, on all threads.
  template <class F>
  void ForEach(F&& f) const {
    ParallelElements(starts_.back(), kPlain, [&](int64_t begin, int64_t end) {
      auto next = std::upper_bound(starts_.begin(), starts_.end(), begin);
      for (size_t v = static_cast<size_t>(next - starts_.begin()) - 1;
           v < counts_.size() && starts_[v] < end; ++v) {
        const int64_t from = std::max(begin, starts_[v]) - starts_[v];
        const int64_t to = std::min(end - starts_[v], counts_[v]);
        if (from < to) f(static_cast<int>(v), from, to);
      }
    });
  }

 private:
  std::vector<int64_t> starts_;  // one more than variables
  std::vector<int64_t> counts_;
};

// The formulas, one element at a time: state in place, g times the multiplier.
template <class T>
struct Ema {
  T keep, take;
  void operator()(T g, T& x) const { x = keep * x + take * g; }
};

template <class T>
struct Sgd {
  T lr, decay;
  void operator()(T g, T& p) const { p = p - lr * (g + decay * p); }
};

template <class T, bool kNesterov>
struct Momentum {
  T lr, decay, keep;
  void operator()(T g, T& p, T& v) const {
    const T gradient = g + decay * p;
    v = keep * v + gradient;
    p = p - lr * (kNesterov ? gradient + keep * v : v);
  }
};

template <class T>
struct Adam {
  T lr, start1, start2, beta1, beta2, rest1, rest2, epsilon, coupled, apart;
  void operator()(T g, T& p, T& m, T& v) const {
    const T gradient = g + coupled * p;
    m = beta1 * m + rest1 * gradient;
    v = beta2 * v + rest2 * (gradient * gradient);
    const T direction = (m * start1) / (std::sqrt(v * start2) + epsilon);
    p = p - lr * (direction + apart * p);
  }
};

template <class T>
struct Adagrad {
  T lr, decay, epsilon;
  void operator()(T g, T& p, T& a) const {
    const T gradient = g + decay * p;
    a = a + gradient * gradient;
    p = p - lr * (gradient / (std::sqrt(a) + epsilon));
  }
};

// `formula` on elements [begin, end) of one variable, whose state `in` and
// `out` list.
template <int kSlots, class T, class F>
void Sweep(const void* const* in, void* const* out, const T* g, T scale,
           int64_t begin, int64_t end, const F& formula) {
  const T* a = static_cast<const T*>(in[0]);
  T* new_a = static_cast<T*>(out[0]);
  if constexpr (kSlots == 1) {
    WEFT_CPU_EACH_ALONE
    for (int64_t i = begin; i < end; ++i) {
      T x = a[i];
      formula(scale * g[i], x);
      new_a[i] = x;
    }
  } else if constexpr (kSlots == 2) {
    const T* b = static_cast<const T*>(in[1]);
    T* new_b = static_cast<T*>(out[1]);
    WEFT_CPU_EACH_ALONE
    for (int64_t i = begin; i < end; ++i) {
      T x = a[i], y = b[i];
      formula(scale * g[i], x, y);
      new_a[i] = x;
      new_b[i] = y;
    }
  } else {
    const T *b = static_cast<const T*>(in[1]),
            *c = static_cast<const T*>(in[2]);
    T *new_b = static_cast<T*>(out[1]), *new_c = static_cast<T*>(out[2]);
    WEFT_CPU_EACH_ALONE
    for (int64_t i = begin; i < end; ++i) {
      T x = a[i], y = b[i], z = c[i];
      formula(scale * g[i], x, y, z);
      new_a[i] = x;
      new_b[i] = y;
      new_c[i] = z;
    }
  }
}

// `make` gives the formula of one launch.
template <class T, int kSlots, class M>
std::unique_ptr<Kernel> MakeSweep(const Op& op, const Layout& l, M make) {
  return MakeKernel(
      [l, range = Range(op, l), make](const Args& a) {
        double multiplier = 1;
        if (l.multiplier >= 0) {
          multiplier = ReadScalar(a, l.multiplier, l.wide_multiplier);
        }
        if (multiplier != multiplier) {
          for (int i = 0; i < l.variables * kSlots; ++i) {
            const size_t bytes =
                static_cast<size_t>(range.count(i / kSlots)) * sizeof(T);
            if (bytes > 0 && a.out[i] != a.in[i]) {
              std::memcpy(a.out[i], a.in[i], bytes);
            }
          }
          return;
        }
        const auto formula = make(a);
        const T scale = static_cast<T>(multiplier);
        range.ForEach([&](int v, int64_t begin, int64_t end) {
          Sweep<kSlots, T>(a.in + v * kSlots, a.out + v * kSlots,
                           a.Input<T>(l.Gradient(v)), scale, begin, end,
                           formula);
        });
      },
      1u);
}

struct AdamAttrs {
  double beta1, beta2, epsilon, weight_decay;
  bool decoupled;

  template <class T>
  Adam<T> At(int64_t step, double rate) const {
    const double t = static_cast<double>(step) + 1;
    Adam<T> f;
    f.lr = static_cast<T>(rate);
    // Differences of nearly equal numbers: in double.
    f.start1 = static_cast<T>(1 / (1 - std::pow(beta1, t)));
    f.start2 = static_cast<T>(1 / (1 - std::pow(beta2, t)));
    f.beta1 = static_cast<T>(beta1);
    f.beta2 = static_cast<T>(beta2);
    f.rest1 = static_cast<T>(1 - beta1);
    f.rest2 = static_cast<T>(1 - beta2);
    f.epsilon = static_cast<T>(epsilon);
    f.coupled = decoupled ? T(0) : static_cast<T>(weight_decay);
    f.apart = decoupled ? static_cast<T>(weight_decay) : T(0);
    return f;
  }
};

template <class T>
std::unique_ptr<Kernel> MakeMomentum(const Op& op, const Layout& l, T decay) {
  const T keep = static_cast<T>(op.Float("momentum", 0.9));
  const auto rate = [l](const Args& a) {
    return static_cast<T>(ReadScalar(a, l.first_shared, l.wide_rate));
  };
  if (op.Int("nesterov", 0) != 0) {
    return MakeSweep<T, 2>(op, l, [=](const Args& a) {
      return Momentum<T, true>{rate(a), decay, keep};
    });
  }
  return MakeSweep<T, 2>(op, l, [=](const Args& a) {
    return Momentum<T, false>{rate(a), decay, keep};
  });
}

template <class T>
std::unique_ptr<Kernel> MakeFor(const Op& op, const Layout& l) {
  const double weight_decay = op.Float("weight_decay", 0.0);
  const T decay = static_cast<T>(weight_decay);
  const auto rate = [l](const Args& a) {
    return ReadScalar(a, l.first_shared, l.wide_rate);
  };
  switch (op.id) {
    case WEFT_OP_EMA_UPDATE: {
      const double momentum = op.Float("momentum", 0.9);
      const Ema<T> f{static_cast<T>(momentum), static_cast<T>(1 - momentum)};
      return MakeSweep<T, 1>(op, l, [f](const Args&) { return f; });
    }
    case WEFT_OP_SGD_UPDATE:
      return MakeSweep<T, 1>(op, l, [=](const Args& a) {
        return Sgd<T>{static_cast<T>(rate(a)), decay};
      });
    case WEFT_OP_MOMENTUM_UPDATE:
      return MakeMomentum<T>(op, l, decay);
    case WEFT_OP_ADAM_UPDATE: {
      const AdamAttrs attrs{op.Float("beta1", 0.9), op.Float("beta2", 0.999),
                            op.Float("epsilon", 1e-8), weight_decay,
                            op.Int("decoupled", 0) != 0};
      return MakeSweep<T, 3>(op, l, [=](const Args& a) {
        const int64_t step = a.Input<int64_t>(l.first_shared + 1)[0];
        return attrs.At<T>(step, rate(a));
      });
    }
    case WEFT_OP_ADAGRAD_UPDATE: {
      const T epsilon = static_cast<T>(op.Float("epsilon", 1e-10));
      return MakeSweep<T, 2>(op, l, [=](const Args& a) {
        return Adagrad<T>{static_cast<T>(rate(a)), decay, epsilon};
      });
    }
    default:
      return nullptr;
  }
}

std::unique_ptr<Kernel> UpdateFloat(const Op& op) {
  Layout layout;
  if (!MakeLayout(op, &layout)) return nullptr;
  return WithF32F64(op.in[0].dtype, [&](auto tag) {
    return MakeFor<typename decltype(tag)::Storage>(op, layout);
  });
}

}  // namespace

std::unique_ptr<Kernel> MakeUpdate(const Op& op) {
  if (op.id != WEFT_OP_ASSIGN) return ViaFloat(op, UpdateFloat);
  Layout layout;
  return MakeLayout(op, &layout) &&
                 op.Check(layout.variables == 1, "more than one variable")
             ? MakeAssign(op)
             : nullptr;
}

WEFT_CPU_END
