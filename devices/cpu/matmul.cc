// MatMul and Gemm: oneDNN for f32, and for bf16 where the processor multiplies
// it fast (otherwise bf16 goes through f32), plain loops for f64. A large
// product is cut into blocks of the result, each one oneDNN call in one thread.
#include "devices/cpu/dnnl_op.h"  // before target.h
//
#include "devices/cpu/bf16.h"
#include "devices/cpu/epilogue.h"
#include "devices/cpu/factories.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/product_grid.h"
#include "devices/cpu/reduction.h"
#include "devices/cpu/strided.h"
#include "devices/cpu/turned_product.h"
#include "devices/cpu/via_float.h"

WEFT_CPU_BEGIN
namespace {

// y[b] = alpha * a[b] x b[b] + (what y held, if accumulate), with one matrix of
// each for every step of `batches`, whose strides count matrices.
struct Product3 {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_column = 0;  // strides
  int64_t b_row = 0, b_column = 0;
  double alpha = 1;
  bool accumulate = false;
  bool relu = false;    // of what has been stored
  LoopPlan<3> batches;  // y, a, b
};

// The operand that is added: y = beta * c, before the product.
struct Addend {
  bool present = false;
  double beta = 1;
  LoopPlan<2> plan;

  // One number for each column, as it is: what oneDNN adds by itself.
  bool IsBias(int64_t columns) const {
    const int last = plan.rank() - 1;
    return present && beta == 1 && plan.dim(last) == columns &&
           plan.strides(last)[1] == 1 &&
           (last == 0 || (last == 1 && plan.strides(0)[1] == 0));
  }

  // y, of the product's type, before the product is added.
  template <class T>
  void WriteTo(T* y, const T* c) const {
    const T factor = static_cast<T>(beta);
    auto run = [&](const int64_t* at, const int64_t* step, int64_t n) {
      T* to = y + at[0];
      const T* from = c + at[1];
      if (step[1] == 1) {
        for (int64_t i = 0; i < n; ++i) to[i] = factor * from[i];
      } else {
        for (int64_t i = 0; i < n; ++i) to[i] = factor * from[i * step[1]];
      }
    };
    ParallelElements(plan.count(), kPlain, [&](int64_t begin, int64_t end) {
      plan.ForEachRun(begin, end, run);
    });
  }
};

// ---- f64
// ---------------------------------------------------------------------

// Rows [begin, end) of one product.
template <class T>
void MultiplyRows(const Product3& p, const T* a, const T* b, T* y,
                  int64_t begin, int64_t end) {
  const T alpha = static_cast<T>(p.alpha);
  for (int64_t i = begin; i < end; ++i) {
    T* row = y + i * p.n;
    const T* left = a + i * p.a_row;
    if (!p.accumulate) std::fill(row, row + p.n, T(0));
    if (p.b_column == 1) {
      for (int64_t k = 0; k < p.k; ++k) {
        const T factor = alpha * left[k * p.a_column];
        const T* right = b + k * p.b_row;
        for (int64_t j = 0; j < p.n; ++j) row[j] += factor * right[j];
      }
      continue;
    }
    for (int64_t j = 0; j < p.n; ++j) {
      const T* right = b + j * p.b_column;
      row[j] += alpha * ReduceRow<SumOf, T>(p.k, [&](int64_t k) {
                  return left[k * p.a_column] * right[k * p.b_row];
                });
    }
  }
}

template <class T>
class PlainProduct final : public Kernel {
 public:
  PlainProduct(Product3 product, Addend addend)
      : p_(std::move(product)), addend_(std::move(addend)) {}

  void Run(const Args& a) const override {
    T* y = a.Output<T>(0);
    if (addend_.present) addend_.WriteTo(y, a.Input<T>(2));
    p_.batches.ForEachRun([&](const int64_t* at, const int64_t* step,
                              int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        const T* left = a.Input<T>(0) + (at[1] + i * step[1]) * p_.m * p_.k;
        const T* right = a.Input<T>(1) + (at[2] + i * step[2]) * p_.k * p_.n;
        T* to = y + (at[0] + i * step[0]) * p_.m * p_.n;
        const int64_t block = RowBlock(p_.m, p_.n * p_.k, kPlain);
        ParallelBlocks(p_.m, block, [&](int64_t begin, int64_t end) {
          MultiplyRows(p_, left, right, to, begin, end);
          if (!p_.relu) return;
          ReluRows(to + begin * p_.n, end - begin, p_.n, p_.n);
        });
      }
    });
  }

 private:
  Product3 p_;
  Addend addend_;
};

// ---- f32, bf16
// ---------------------------------------------------------------------

using Dims = dnnl::memory::dims;
using Type = dnnl::memory::data_type;

// From here on dnnl_sgemm is faster than the primitive, by up to 1.1x; it has
// no bias. With a transposed right operand and a long inner dimension it is
// slower, by as much.
constexpr double kSgemmFlops = 1e6;
constexpr int64_t kSgemmTransposedInner = 256;

class DnnlProduct final : public Kernel {
 public:
  // Pre-condition: type bf16 has no addend but a bias.
  DnnlProduct(Product3 product, Addend addend, Type type)
      : p_(std::move(product)),
        addend_(std::move(addend)),
        type_(type),
        size_(type == Type::bf16 ? 2 : 4) {
    OneThread one_thread;
    bias_ = p_.alpha == 1 && addend_.IsBias(p_.n);
    if (bias_) p_.accumulate = false;
    // The whole innermost run is one product where the matrices of all three
    // follow one another; the left ones alone are then more rows.
    const auto& step = p_.batches.strides(p_.batches.rank() - 1);
    const int64_t run = p_.batches.dim(p_.batches.rank() - 1);
    const bool dense_left = p_.a_column == 1 && p_.a_row == p_.k;
    whole_run_ = step[0] == 1 && step[1] == 1 &&
                 (step[2] == 1 || (step[2] == 0 && dense_left));
    int64_t lead = 1, rows = p_.m;
    if (whole_run_) (step[2] == 0 ? rows : lead) *= run;
    const Grid grid(lead, rows, p_.n, p_.k);
    sgemm_ = type_ == Type::f32 && lead == 1 && !bias_ &&
             (p_.b_column == 1 || p_.k <= kSgemmTransposedInner) &&
             2.0 * static_cast<double>(rows) * static_cast<double>(p_.n) *
                     static_cast<double>(p_.k) >=
                 kSgemmFlops;
    for (int64_t l = 0; l < lead; l += grid.lead) {
      for (int64_t i = 0; i < rows; i += grid.rows) {
        for (int64_t j = 0; j < p_.n; j += grid.columns) {
          AddBlock(
              l * p_.m * p_.k + i * p_.a_row, l * p_.k * p_.n + j * p_.b_column,
              l * p_.m * p_.n + i * p_.n + j, j, std::min(grid.lead, lead - l),
              std::min(grid.rows, rows - i), std::min(grid.columns, p_.n - j));
        }
      }
    }
  }

  void Prepare() override { ops_.Prepare(); }

  void Run(const Args& a) const override {
    char* y = a.Output<char>(0);
    if (addend_.present && !bias_) {
      addend_.WriteTo(a.Output<float>(0), a.Input<float>(2));
    }
    const char* bias = bias_ ? a.Input<char>(2) : nullptr;
    p_.batches.ForEachRun([&](const int64_t* at, const int64_t* step,
                              int64_t n) {
      for (int64_t i = 0; i < (whole_run_ ? 1 : n); ++i) {
        Multiply(a.Input<char>(0) + (at[1] + i * step[1]) * p_.m * p_.k * size_,
                 a.Input<char>(1) + (at[2] + i * step[2]) * p_.k * p_.n * size_,
                 bias, y + (at[0] + i * step[0]) * p_.m * p_.n * size_,
                 a.workspace);
      }
    });
  }

 private:
  struct Block {
    const DnnlOp* op;  // null: by dnnl_sgemm
    int64_t rows, columns;
    int64_t a, b, y;     // elements
    int64_t column;      // of the result, where the block begins
    uint64_t workspace;  // bytes
  };

  dnnl::memory::desc Matrix(const Dims& dims, const Dims& strides) const {
    return dnnl::memory::desc(dims, type_, strides);
  }

  void AddBlock(int64_t a, int64_t b, int64_t y, int64_t column, int64_t lead,
                int64_t rows, int64_t columns) {
    if (sgemm_) {
      blocks_.push_back({nullptr, rows, columns, a, b, y, column, 0});
      return;
    }
    const DnnlOp* const op = ops_.Of({lead, rows, columns}, [&] {
      return MakePrimitive(lead, rows, columns);
    });
    blocks_.push_back({op, rows, columns, a, b, y, column, workspace});
    workspace += op->workspace_bytes();
  }

  std::unique_ptr<DnnlOp> MakePrimitive(int64_t lead, int64_t rows,
                                        int64_t columns) const {
    auto matrix = [&](int64_t r, int64_t c, int64_t sr, int64_t sc,
                      int64_t size) {
      if (lead == 1) return Matrix({r, c}, {sr, sc});
      return Matrix({lead, r, c}, {size, sr, sc});
    };
    auto a = matrix(rows, p_.k, p_.a_row, p_.a_column, p_.m * p_.k);
    auto b = matrix(p_.k, columns, p_.b_row, p_.b_column, p_.k * p_.n);
    auto y = matrix(rows, columns, p_.n, 1, p_.m * p_.n);
    dnnl::primitive_attr attr = UserScratchpad();
    if (p_.alpha != 1) {
      attr.set_output_scales(0, {static_cast<float>(p_.alpha)});
    }
    if (p_.accumulate) {
      dnnl::post_ops ops;
      ops.append_sum(1.0f);
      attr.set_post_ops(ops);
    }
    const auto bias = lead == 1
                          ? Matrix({1, columns}, {columns, 1})
                          : Matrix({1, 1, columns}, {columns, columns, 1});
    dnnl::matmul::primitive_desc pd(
        bias_ ? dnnl::matmul::desc(a, b, bias, y) : dnnl::matmul::desc(a, b, y),
        attr, CpuEngine());
    auto op = std::make_unique<DnnlOp>();
    op->SetPrimitive(pd.scratchpad_desc(), [pd] { return dnnl::matmul(pd); });
    op->AddInput(DNNL_ARG_SRC, a, a);
    op->AddInput(DNNL_ARG_WEIGHTS, b, b);
    if (bias_) op->AddInput(DNNL_ARG_BIAS, bias, bias);
    op->AddOutput(DNNL_ARG_DST, y, y);
    return op;
  }

  void Multiply(const char* a, const char* b, const char* bias, char* y,
                void* scratch) const {
    const int64_t blocks = static_cast<int64_t>(blocks_.size());
    ParallelBlocks(blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        MultiplyBlock(blocks_[static_cast<size_t>(i)], a, b, bias, y, scratch);
      }
    });
  }

  void MultiplyBlock(const Block& block, const char* a, const char* b,
                     const char* bias, char* y, void* scratch) const {
    y += block.y * size_;
    if (block.op == nullptr) {
      Sgemm(block, a + block.a * size_, b + block.b * size_, y);
    } else {
      void* operands[4];
      int n = 0;
      operands[n++] = const_cast<char*>(a + block.a * size_);
      operands[n++] = const_cast<char*>(b + block.b * size_);
      if (bias != nullptr) {
        operands[n++] = const_cast<char*>(bias + block.column * size_);
      }
      operands[n++] = y;
      block.op->Run(operands, static_cast<char*>(scratch) + block.workspace);
    }
    if (!p_.relu) return;
    if (type_ == Type::f32) {
      ReluRows(reinterpret_cast<float*>(y), block.rows, block.columns, p_.n);
    } else {
      ReluRows(reinterpret_cast<Bfloat*>(y), block.rows, block.columns, p_.n);
    }
  }

  // (dnnl_sgemm takes row-major matrices and has memory of its own to pack
  // them.)
  void Sgemm(const Block& block, const char* a, const char* b, char* y) const {
    OneThread one_thread;
    const bool ta = p_.a_column != 1, tb = p_.b_column != 1;
    // A single row may have any distance from the next.
    const int64_t lda = ta ? p_.a_column : std::max(p_.a_row, p_.k);
    const int64_t ldb = tb ? p_.b_column : std::max(p_.b_row, p_.n);
    dnnl::error::wrap_c_api(
        dnnl_sgemm(
            ta ? 'T' : 'N', tb ? 'T' : 'N', block.rows, block.columns, p_.k,
            static_cast<float>(p_.alpha), reinterpret_cast<const float*>(a),
            lda, reinterpret_cast<const float*>(b), ldb,
            p_.accumulate ? 1.0f : 0.0f, reinterpret_cast<float*>(y), p_.n),
        "oneDNN could not multiply");
  }

  Product3 p_;
  Addend addend_;
  Type type_;
  int64_t size_;        // bytes of an element
  bool bias_ = false;   // the addend is oneDNN's bias
  bool sgemm_ = false;  // no primitives
  bool whole_run_ = false;
  DnnlOps ops_;
  std::vector<Block> blocks_;
};

std::unique_ptr<Kernel> MakeProduct(const Op& op, Product3 p, Addend addend) {
  p.accumulate = addend.present;
  const uint32_t dtype = op.out[0].dtype;
  const bool bf16 = dtype == WEFT_BF16;
  if (bf16 && addend.present && !(p.alpha == 1 && addend.IsBias(p.n))) {
    return nullptr;
  }
  if ((bf16 || dtype == WEFT_F32) && p.m > 0 && p.n > 0 && p.k > 0 &&
      p.batches.count() > 0) {
    try {
      return std::make_unique<DnnlProduct>(p, addend,
                                           bf16 ? Type::bf16 : Type::f32);
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw;
    }
  }
  if (bf16) return nullptr;
  return WithF32F64(dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return std::make_unique<PlainProduct<T>>(std::move(p), std::move(addend));
  });
}

bool SameTypes(const Op& op) {
  bool same = true;
  for (const Tensor& t : op.in) {
    same = same && (!t.present() || t.dtype == op.out[0].dtype);
  }
  return op.Check(same, "the types differ");
}

std::unique_ptr<Kernel> MakeMatMulFloat(const Op& op) {
  if (!op.Arity(2, 1) || !SameTypes(op)) return nullptr;
  Tensor a = op.in[0], b = op.in[1];
  const Tensor& y = op.out[0];
  if (a.rank == 0 || b.rank == 0) return op.Invalid("a scalar operand");
  const bool a_vector = a.rank == 1, b_vector = b.rank == 1;
  if (a_vector) {
    a.rank = 2;
    a.dims[1] = a.dims[0];
    a.dims[0] = 1;
  }
  if (b_vector) {
    b.rank = 2;
    b.dims[1] = 1;
  }
  Product3 p;
  p.m = a.dims[a.rank - 2];
  p.k = a.dims[a.rank - 1];
  p.n = b.dims[b.rank - 1];
  if (b.dims[b.rank - 2] != p.k) return op.Invalid("inner dimensions differ");
  p.a_row = p.k;
  p.b_row = p.n;
  p.a_column = p.b_column = 1;
  // The batches as tensors of matrices.
  auto batch_of = [](Tensor t, int drop) {
    t.rank -= drop;
    t.count = 1;
    for (int i = t.rank - 1; i >= 0; --i) {
      t.strides[i] = t.count;
      t.count *= t.dims[i];
    }
    return t;
  };
  const int dropped = 2 - (a_vector ? 1 : 0) - (b_vector ? 1 : 0);
  if (y.rank < dropped) return op.Invalid("the result has the wrong rank");
  Tensor batch_y = batch_of(y, dropped);
  Tensor batch_a = batch_of(a, 2), batch_b = batch_of(b, 2);
  bool fits = IsBroadcastOf(batch_y, {&batch_a, &batch_b});
  int at = batch_y.rank;
  if (fits && !a_vector) fits = y.dims[at++] == p.m;
  if (fits && !b_vector) fits = y.dims[at++] == p.n;
  if (!fits) return op.Invalid("the result does not fit the operands");
  p.batches = LoopPlan<3>(batch_y, {&batch_a, &batch_b});
  return MakeProduct(op, std::move(p), {});
}

std::unique_ptr<Kernel> MakeGemmFloat(const Op& op) {
  if (!op.Arity(2, 3, 1, 1) || !SameTypes(op)) return nullptr;
  const Tensor &a = op.in[0], &b = op.in[1], &y = op.out[0];
  if (a.rank != 2 || b.rank != 2 || y.rank != 2) {
    return op.Invalid("operands that are no matrices");
  }
  const int ta = op.Int("transA", 0) != 0 ? 1 : 0;
  const int tb = op.Int("transB", 0) != 0 ? 1 : 0;
  Product3 p;
  p.m = a.dims[ta];
  p.k = a.dims[1 - ta];
  p.n = b.dims[1 - tb];
  if (b.dims[tb] != p.k || y.dims[0] != p.m || y.dims[1] != p.n) {
    return op.Invalid("the matrices do not fit");
  }
  p.a_row = ta != 0 ? 1 : p.k;
  p.a_column = ta != 0 ? p.m : 1;
  p.b_row = tb != 0 ? 1 : p.n;
  p.b_column = tb != 0 ? p.k : 1;
  p.alpha = op.Float("alpha", 1.0);
  Epilogue epilogue;
  if (!ReadEpilogue(op, &epilogue)) return nullptr;
  p.relu = epilogue.relu;
  const int64_t one[1] = {1};
  const int64_t strides[3][WEFT_MAX_RANK] = {};
  p.batches = LoopPlan<3>(1, one, strides);
  Addend addend;
  if (op.HasInput(2)) {
    addend.present = true;
    addend.beta = op.Float("beta", 1.0);
    addend.plan = LoopPlan<2>(y, {&op.in[2]});
    if (!addend.plan.ok()) return op.Invalid("C does not broadcast");
  }
  const bool bias = p.alpha == 1 && addend.IsBias(p.n);
  if (y.dtype == WEFT_F32 && p.alpha == 1 && ta == 0 && tb == 1 &&
      (bias || !addend.present)) {
    std::unique_ptr<Kernel> turned =
        MakeTurnedProduct(p.m, p.n, p.k, {bias, p.relu});
    if (turned != nullptr) return turned;
  }
  return MakeProduct(op, std::move(p), std::move(addend));
}

std::unique_ptr<Kernel> Make(const Op& op, Factory make) {
  if (MultipliesBf16() && !op.out.empty() && op.out[0].dtype == WEFT_BF16) {
    std::unique_ptr<Kernel> kernel = make(op);
    if (kernel != nullptr || !op.ok()) return kernel;
  }
  return ViaFloat(op, make);
}

}  // namespace

std::unique_ptr<Kernel> MakeMatMul(const Op& op) {
  return Make(op, MakeMatMulFloat);
}

std::unique_ptr<Kernel> MakeGemm(const Op& op) {
  return Make(op, MakeGemmFloat);
}

WEFT_CPU_END
