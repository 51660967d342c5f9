// Elementwise kernels with numpy broadcasting: arithmetic, comparisons, logic,
// functions of one operand, Where and Cast.
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "devices/sim/kernels.h"

namespace weft_sim {
namespace {

using weft_sdk::Call;
using weft_sdk::Kernel;
using weft_sdk::Op;
using weft_sdk::Tensor;

// Where element i of the result reads an operand: i itself, or the list.
class Positions {
 public:
  Positions(const Tensor& from, const Tensor& to) {
    if (from.same_dims(to)) return;
    bool ok = false;
    const std::vector<int64_t> strides = BroadcastStrides(from, to, &ok);
    list_.resize(to.numel());
    ForEach(to.dims(), strides, 0,
            [&](int64_t i, int64_t position) { list_[i] = position; });
  }
  int64_t operator[](int64_t i) const { return list_.empty() ? i : list_[i]; }

 private:
  std::vector<int64_t> list_;
};

bool Broadcasts(const Op& op) {
  for (int i = 0; i < op.num_in(); ++i) {
    bool ok = false;
    BroadcastStrides(op.in(i), op.out(0), &ok);
    if (!ok) return false;
  }
  return true;
}

// The result may overwrite an input of its own type and shape.
void OfferInPlace(const Op& op, weft_match* answer) {
  for (int i = 0; i < op.num_in() && i < 32; ++i) {  // a bit for each
    if (op.in(i).dtype() == op.out(0).dtype() &&
        op.in(i).same_dims(op.out(0))) {
      answer->in_place |= 1u << i;
    }
  }
}

// What kernels of two operands have in common.
class TwoOperands : public Kernel {
 protected:
  explicit TwoOperands(const Op& op)
      : op_(op.id()),
        type_(op.in(0).dtype()),
        n_(op.out(0).numel()),
        a_(op.in(0), op.out(0)),
        b_(op.in(1), op.out(0)) {}

  // y = f(a, b) for each element; the result's type is that of f.
  template <typename F>
  void ForEachPair(const Call& call, F f) const {
    WithType(type_, [&](auto zero) {
      using T = decltype(zero);
      const T* a = call.in<T>(0);
      const T* b = call.in<T>(1);
      auto* y = call.out<decltype(f(zero, zero))>(0);
      for (int64_t i = 0; i < n_; ++i) y[i] = f(a[a_[i]], b[b_[i]]);
    });
  }

  const uint32_t op_;

 private:
  uint32_t type_;
  int64_t n_;
  Positions a_, b_;
};

// Integers wrap around; division by zero gives 0.
template <typename T>
T IntegerArithmetic(uint32_t op, T a, T b) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
    case WEFT_OP_ADD:
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    case WEFT_OP_SUB:
      return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
    case WEFT_OP_MUL:
      return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    case WEFT_OP_DIV:
      if (b == 0) return 0;
      // The one quotient that does not fit.
      if (b == T(-1)) return static_cast<T>(U{0} - static_cast<U>(a));
      return static_cast<T>(a / b);
    case WEFT_OP_MAX:
      return a > b ? a : b;
    default:
      return a < b ? a : b;
  }
}

template <typename T>
T FloatArithmetic(uint32_t op, T a, T b) {
  switch (op) {
    case WEFT_OP_ADD:
      return a + b;
    case WEFT_OP_SUB:
      return a - b;
    case WEFT_OP_MUL:
      return a * b;
    case WEFT_OP_DIV:
      return a / b;
    case WEFT_OP_POW:
      return std::pow(a, b);
    case WEFT_OP_MAX:
      return std::isnan(a) || a > b ? a : b;  // NaN in b: a > b is false
    default:
      return std::isnan(a) || a < b ? a : b;
  }
}

class Arithmetic : public TwoOperands {
 public:
  static bool Match(const Op& op, weft_match* answer) {
    const uint32_t type = op.out(0).dtype();
    OfferInPlace(op, answer);
    return op.num_in() == 2 && op.all(type) && Broadcasts(op) &&
           (IsFloat(type) || (IsInt(type) && op.id() != WEFT_OP_POW));
  }
  explicit Arithmetic(const Op& op) : TwoOperands(op) {}

  void Launch(const Call& call) const override {
    ForEachPair(call, [op = op_](auto a, auto b) {
      using T = decltype(a);
      if constexpr (std::is_floating_point_v<T>) {
        return FloatArithmetic<T>(op, a, b);
      } else {
        return IntegerArithmetic<T>(op, a, b);
      }
    });
  }
};

template <typename T>
bool CompareOne(uint32_t op, T a, T b) {
  switch (op) {
    case WEFT_OP_EQUAL:
      return a == b;
    case WEFT_OP_LESS:
      return a < b;
    case WEFT_OP_LESS_OR_EQUAL:
      return a <= b;
    case WEFT_OP_GREATER:
      return a > b;
    case WEFT_OP_GREATER_OR_EQUAL:
      return a >= b;
    case WEFT_OP_AND:
      return a != 0 && b != 0;
    default:  // WEFT_OP_OR
      return a != 0 || b != 0;
  }
}

class Comparison : public TwoOperands {
 public:
  static bool Match(const Op& op, weft_match* answer) {
    if (op.num_in() != 2 || op.out(0).dtype() != WEFT_BOOL) return false;
    const uint32_t type = op.in(0).dtype();
    const bool logic = op.id() == WEFT_OP_AND || op.id() == WEFT_OP_OR;
    const bool typed = logic ? type == WEFT_BOOL
                             : IsNumber(type) || (type == WEFT_BOOL &&
                                                  op.id() == WEFT_OP_EQUAL);
    return typed && op.in(1).dtype() == type && Broadcasts(op);
  }
  explicit Comparison(const Op& op) : TwoOperands(op) {}

  void Launch(const Call& call) const override {
    ForEachPair(call, [op = op_](auto a, auto b) -> uint8_t {
      return CompareOne(op, a, b) ? 1 : 0;
    });
  }
};

template <typename T>
T FloatFunction(uint32_t op, T x) {
  switch (op) {
    case WEFT_OP_NEG:
      return -x;
    case WEFT_OP_ABS:
      return std::fabs(x);
    case WEFT_OP_EXP:
      return std::exp(x);
    case WEFT_OP_LOG:
      return std::log(x);
    case WEFT_OP_SQRT:
      return std::sqrt(x);
    case WEFT_OP_TANH:
      return std::tanh(x);
    case WEFT_OP_ERF:
      return std::erf(x);
    case WEFT_OP_RECIPROCAL:
      return 1 / x;
    default:  // WEFT_OP_SIGN; keeps NaN and the zero's sign
      return x > 0 ? T(1) : x < 0 ? T(-1) : x;
  }
}

template <typename T>
T IntegerFunction(uint32_t op, T x) {
  const T negated = IntegerArithmetic<T>(WEFT_OP_SUB, 0, x);
  if (op == WEFT_OP_NEG) return negated;
  if (op == WEFT_OP_ABS) return x < 0 ? negated : x;
  return x > 0 ? 1 : x < 0 ? -1 : 0;
}

class Function : public Kernel {
 public:
  static bool Match(const Op& op, weft_match* answer) {
    const uint32_t type = op.out(0).dtype();
    const bool exact = op.id() == WEFT_OP_NEG || op.id() == WEFT_OP_ABS ||
                       op.id() == WEFT_OP_SIGN;
    OfferInPlace(op, answer);
    return op.num_in() == 1 && op.all(type) && op.in(0).same_dims(op.out(0)) &&
           (IsFloat(type) || (exact && IsInt(type)));
  }
  explicit Function(const Op& op)
      : op_(op.id()), type_(op.out(0).dtype()), n_(op.out(0).numel()) {}

  void Launch(const Call& call) const override {
    WithType(type_, [&](auto zero) {
      using T = decltype(zero);
      const T* x = call.in<T>(0);
      T* y = call.out<T>(0);
      for (int64_t i = 0; i < n_; ++i) {
        if constexpr (std::is_floating_point_v<T>) {
          y[i] = FloatFunction(op_, x[i]);
        } else {
          y[i] = IntegerFunction(op_, x[i]);
        }
      }
    });
  }

 private:
  uint32_t op_, type_;
  int64_t n_;
};

class Not : public Kernel {
 public:
  static bool Match(const Op& op, weft_match* answer) {
    OfferInPlace(op, answer);
    return op.num_in() == 1 && op.all(WEFT_BOOL) &&
           op.in(0).same_dims(op.out(0));
  }
  explicit Not(const Op& op) : n_(op.out(0).numel()) {}
  void Launch(const Call& call) const override {
    const uint8_t* x = call.in<uint8_t>(0);
    uint8_t* y = call.out<uint8_t>(0);
    for (int64_t i = 0; i < n_; ++i) y[i] = x[i] == 0 ? 1 : 0;
  }

 private:
  int64_t n_;
};

class Where : public Kernel {
 public:
  static bool Match(const Op& op, weft_match* answer) {
    const uint32_t type = op.out(0).dtype();
    return op.num_in() == 3 && op.in(0).dtype() == WEFT_BOOL &&
           op.all(type, 1) && (IsNumber(type) || type == WEFT_BOOL) &&
           Broadcasts(op);
  }
  explicit Where(const Op& op)
      : type_(op.out(0).dtype()),
        n_(op.out(0).numel()),
        c_(op.in(0), op.out(0)),
        a_(op.in(1), op.out(0)),
        b_(op.in(2), op.out(0)) {}

  void Launch(const Call& call) const override {
    WithType(type_, [&](auto zero) {
      using T = decltype(zero);
      const uint8_t* c = call.in<uint8_t>(0);
      const T* a = call.in<T>(1);
      const T* b = call.in<T>(2);
      T* y = call.out<T>(0);
      for (int64_t i = 0; i < n_; ++i) {
        y[i] = c[c_[i]] != 0 ? a[a_[i]] : b[b_[i]];
      }
    });
  }

 private:
  uint32_t type_;
  int64_t n_;
  Positions c_, a_, b_;
};

// Out of range saturates, NaN becomes 0.
template <typename To, typename From>
To Convert(From x) {
  if constexpr (std::is_same_v<To, From> || std::is_floating_point_v<To>) {
    return static_cast<To>(x);
  } else if constexpr (std::is_floating_point_v<From>) {
    if (std::isnan(x)) return 0;
    // Both limits as floats: max() rounds up, hence >=.
    if (x >= static_cast<From>(std::numeric_limits<To>::max())) {
      return std::numeric_limits<To>::max();
    }
    if (x <= static_cast<From>(std::numeric_limits<To>::min())) {
      return std::numeric_limits<To>::min();
    }
    return static_cast<To>(x);
  } else {
    const int64_t wide = x;
    if (wide > int64_t{std::numeric_limits<To>::max()}) {
      return std::numeric_limits<To>::max();
    }
    if (wide < int64_t{std::numeric_limits<To>::min()}) {
      return std::numeric_limits<To>::min();
    }
    return static_cast<To>(wide);
  }
}

class Cast : public Kernel {
 public:
  static bool Match(const Op& op, weft_match* answer) {
    return op.num_in() == 1 && op.in(0).same_dims(op.out(0)) &&
           Known(op.in(0).dtype()) && Known(op.out(0).dtype());
  }
  explicit Cast(const Op& op)
      : from_(op.in(0).dtype()),
        to_(op.out(0).dtype()),
        n_(op.out(0).numel()) {}

  void Launch(const Call& call) const override {
    WithType(from_, [&](auto a) {
      using From = decltype(a);
      const From* x = call.in<From>(0);
      WithType(to_, [&](auto b) {
        using To = decltype(b);
        To* y = call.out<To>(0);
        for (int64_t i = 0; i < n_; ++i) {
          // The one 8-bit type is bool: anything but zero is true.
          if constexpr (sizeof(To) == 1) {
            y[i] = x[i] != 0 ? 1 : 0;
          } else {
            y[i] = Convert<To>(x[i]);
          }
        }
      });
    });
  }

 private:
  static bool Known(uint32_t type) {
    return IsNumber(type) || type == WEFT_BOOL;
  }

  uint32_t from_, to_;
  int64_t n_;
};

}  // namespace

void RegisterElementwise(weft_sdk::Registry* kernels) {
  kernels->Add<Arithmetic>({WEFT_OP_ADD, WEFT_OP_SUB, WEFT_OP_MUL, WEFT_OP_DIV,
                            WEFT_OP_POW, WEFT_OP_MAX, WEFT_OP_MIN});
  kernels->Add<Comparison>({WEFT_OP_EQUAL, WEFT_OP_LESS, WEFT_OP_LESS_OR_EQUAL,
                            WEFT_OP_GREATER, WEFT_OP_GREATER_OR_EQUAL,
                            WEFT_OP_AND, WEFT_OP_OR});
  kernels->Add<Function>({WEFT_OP_NEG, WEFT_OP_ABS, WEFT_OP_EXP, WEFT_OP_LOG,
                          WEFT_OP_SQRT, WEFT_OP_TANH, WEFT_OP_ERF, WEFT_OP_SIGN,
                          WEFT_OP_RECIPROCAL});
  kernels->Add<Not>(WEFT_OP_NOT);
  kernels->Add<Where>(WEFT_OP_WHERE);
  kernels->Add<Cast>(WEFT_OP_CAST);
}

}  // namespace weft_sim
