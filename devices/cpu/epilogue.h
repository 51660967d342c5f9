// What follows an op's own result while that lies in the cache: a residual that
// is added, then an activation (attribute "activation": "none" or "relu"). The
// bits are those of an Add and a Relu on their own.
//
//   Epilogue e;
//   if (!ReadEpilogue(op, &e)) return nullptr;
//   ...
//   WithEpilogue(e, [&](auto residual, auto relu) {   // std::bool_constant
//     if constexpr (residual) v = v + r[i];
//     if constexpr (relu) v = ReluOp::Apply(v);
//   });
//
// Threading: free functions.
#ifndef WEFT_DEVICES_CPU_EPILOGUE_H_
#define WEFT_DEVICES_CPU_EPILOGUE_H_

#include "devices/cpu/scalar_ops.h"
#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

struct Epilogue {
  bool residual = false;
  bool relu = false;
};

// Reads the activation; the residual is an operand of its own.
inline bool ReadEpilogue(const Op& op, Epilogue* e) {
  const std::string activation = op.String("activation", "none");
  e->relu = activation == "relu";
  return op.Check(e->relu || activation == "none",
                  "activation must be 'none' or 'relu'");
}

template <class F>
void WithEpilogue(const Epilogue& e, F f) {
  constexpr std::bool_constant<false> no;
  constexpr std::bool_constant<true> yes;
  if (e.residual) {
    e.relu ? f(yes, yes) : f(yes, no);
  } else {
    e.relu ? f(no, yes) : f(no, no);
  }
}

// `rows` rows of `columns` numbers, `stride` apart.
template <class T>
void ReluRows(T* y, int64_t rows, int64_t columns, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r, y += stride) {
    for (int64_t i = 0; i < columns; ++i) {
      y[i] = static_cast<T>(ReluOp::Apply(static_cast<Compute<T>>(y[i])));
    }
  }
}

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_EPILOGUE_H_
