#include "devices/cpu/dnnl_op.h"  // before target.h
//
#include "devices/cpu/parallel.h"
#include "devices/cpu/product_grid.h"
#include "devices/cpu/tile_product.h"
#include "devices/cpu/turned_product.h"

WEFT_CPU_BEGIN
namespace {

// Sides of the tiles that are transposed; m and n are multiples of it.
constexpr int64_t kTile = 16;
// Up to so many rows, from so many columns and terms on it is faster: of 512
// columns and terms by 1.03x (128 rows), 1.15x (64) and 1.3x (16). With other
// numbers of rows oneDNN's inner loops are not full; with more of them it
// matters less what is copied, and with few terms to transpose y takes as long.
constexpr int64_t kMostRows = 128;
constexpr int64_t kLeastColumns = 256;
constexpr int64_t kLeastTerms = 256;

bool IsWorthIt(int64_t m, int64_t n, int64_t k) {
  return m >= kTile && m <= kMostRows && m % kTile == 0 && n % kTile == 0 &&
         n >= std::max(kLeastColumns, 2 * m) &&
         k >= std::max(kLeastTerms, 4 * m);
}

// y, whose rows are n apart, = turned' + bias, then the activation. Bias is
// null where there is none.
template <bool kBias, bool kRelu>
void StoreTurned(const float* turned, int64_t rows, int64_t m,
                 const float* bias, float* y, int64_t n) {
  alignas(64) float tile[kTile * kTile];
  for (int64_t j = 0; j < m; j += kTile) {
    for (int64_t i = 0; i < rows; i += kTile) {
      Transpose16(turned + i * m + j, m, tile, kTile);
      for (int64_t r = 0; r < kTile; ++r) {
        float* const to = y + (j + r) * n + i;
        for (int64_t c = 0; c < kTile; ++c) {
          float v = tile[r * kTile + c];
          if constexpr (kBias) v += bias[i + c];
          if constexpr (kRelu) v = ReluOp::Apply(v);
          to[c] = v;
        }
      }
    }
  }
}

class TurnedProduct final : public Kernel {
 public:
  TurnedProduct(int64_t m, int64_t n, int64_t k, const Epilogue& after)
      : m_(m), n_(n), k_(k), after_(after) {
    OneThread one_thread;
    const Grid grid(1, n, m, k);
    for (int64_t first = 0; first < n; first += grid.rows) {
      AddBlock(first, std::min(grid.rows, n - first));
    }
  }

  // Whether oneDNN has its fast products for all blocks.
  bool fast() const { return fast_; }

  void Prepare() override { ops_.Prepare(); }

  void Run(const Args& a) const override {
    const int64_t blocks = static_cast<int64_t>(blocks_.size());
    ParallelBlocks(blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Multiply(a, blocks_[static_cast<size_t>(i)]);
      }
    });
  }

 private:
  struct Block {
    const DnnlOp* op;
    int64_t first, rows;             // of w
    uint64_t result, workspace = 0;  // bytes into the kernel's
  };

  void AddBlock(int64_t first, int64_t rows) {
    const DnnlOp* const op =
        ops_.Of({rows, k_, m_}, [&] { return MakePrimitive(rows); });
    Block block{op, first, rows, workspace};
    workspace += Align64(static_cast<uint64_t>(rows * m_) * sizeof(float));
    block.workspace = workspace;
    workspace += op->workspace_bytes();
    blocks_.push_back(block);
  }

  std::unique_ptr<DnnlOp> MakePrimitive(int64_t rows) {
    constexpr auto kType = dnnl::memory::data_type::f32;
    using Matrix = dnnl::memory::desc;
    const Matrix a({rows, k_}, kType, dnnl::memory::dims{k_, 1});
    const Matrix b({k_, m_}, kType, dnnl::memory::dims{1, k_});
    const Matrix y({rows, m_}, kType, dnnl::memory::dims{m_, 1});
    dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(a, b, y),
                                    UserScratchpad(), CpuEngine());
    fast_ = fast_ && std::string_view(pd.impl_info_str()).substr(0, 3) == "brg";
    auto op = std::make_unique<DnnlOp>();
    op->SetPrimitive(pd.scratchpad_desc(), [pd] { return dnnl::matmul(pd); });
    op->AddInput(DNNL_ARG_SRC, a, a);
    op->AddInput(DNNL_ARG_WEIGHTS, b, b);
    op->AddOutput(DNNL_ARG_DST, y, y);
    return op;
  }

  void Multiply(const Args& a, const Block& block) const {
    char* const scratch = static_cast<char*>(a.workspace);
    float* const turned = reinterpret_cast<float*>(scratch + block.result);
    void* const operands[] = {
        const_cast<float*>(a.Input<float>(1) + block.first * k_),
        const_cast<float*>(a.Input<float>(0)), turned};
    block.op->Run(operands, scratch + block.workspace);
    const float* const bias =
        after_.residual ? a.Input<float>(2) + block.first : nullptr;
    float* const y = a.Output<float>(0) + block.first;
    WithEpilogue(after_, [&](auto with_bias, auto relu) {
      StoreTurned<decltype(with_bias)::value, decltype(relu)::value>(
          turned, block.rows, m_, bias, y, n_);
    });
  }

  const int64_t m_, n_, k_;
  const Epilogue after_;
  bool fast_ = true;
  DnnlOps ops_;
  std::vector<Block> blocks_;
};

}  // namespace

std::unique_ptr<Kernel> MakeTurnedProduct(int64_t m, int64_t n, int64_t k,
                                          const Epilogue& after) {
  if (!IsWorthIt(m, n, k)) return nullptr;
  try {
    auto kernel = std::make_unique<TurnedProduct>(m, n, k, after);
    if (kernel->fast()) return kernel;
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
  }
  return nullptr;
}

WEFT_CPU_END
