#include "devices/cpu/via_float.h"

#include "devices/cpu/numeric.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/target.h"

WEFT_CPU_BEGIN
namespace {

bool Is16Bit(const Tensor& t) {
  return t.dtype == WEFT_F16 || t.dtype == WEFT_BF16;
}

// A 16-bit operand's float copy in the workspace.
struct Stage {
  int index;
  uint32_t dtype;
  int64_t count;
  uint64_t offset;
};

template <class T>
void Widen(const void* from, int64_t n, float* to) {
  const T* x = static_cast<const T*>(from);
  ParallelElements(n, kPlain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = x[i];
  });
}
template <class T>
void Narrow(const float* from, int64_t n, void* to) {
  T* y = static_cast<T*>(to);
  ParallelElements(n, kPlain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = T(from[i]);
  });
}

class ViaFloatKernel final : public Kernel {
 public:
  ViaFloatKernel(const Op& op, std::unique_ptr<Kernel> inner)
      : inner_(std::move(inner)),
        num_in_(op.in.size()),
        num_out_(op.out.size()) {
    workspace = Align64(inner_->workspace);
    AddStages(op.in, &in_);
    AddStages(op.out, &out_);
  }

  void Prepare() override { inner_->Prepare(); }

  void Run(const Args& a) const override {
    const void* in[WEFT_MAX_OPERANDS];
    void* out[WEFT_MAX_OPERANDS];
    char* scratch = static_cast<char*>(a.workspace);
    for (size_t i = 0; i < num_in_; ++i) in[i] = a.in[i];
    for (size_t i = 0; i < num_out_; ++i) out[i] = a.out[i];
    for (const Stage& s : in_) {
      float* to = reinterpret_cast<float*>(scratch + s.offset);
      s.dtype == WEFT_F16 ? Widen<Half>(a.in[s.index], s.count, to)
                          : Widen<Bfloat>(a.in[s.index], s.count, to);
      in[s.index] = to;
    }
    for (const Stage& s : out_) out[s.index] = scratch + s.offset;
    inner_->Run(Args{in, out, scratch, a.failure});
    if (a.failure->code != WEFT_OK) return;
    for (const Stage& s : out_) {
      const float* from = reinterpret_cast<const float*>(scratch + s.offset);
      s.dtype == WEFT_F16 ? Narrow<Half>(from, s.count, a.out[s.index])
                          : Narrow<Bfloat>(from, s.count, a.out[s.index]);
    }
  }

 private:
  void AddStages(const std::vector<Tensor>& tensors,
                 std::vector<Stage>* stages) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!Is16Bit(tensors[i])) continue;
      stages->push_back(
          {static_cast<int>(i), tensors[i].dtype, tensors[i].count, workspace});
      workspace += Align64(static_cast<uint64_t>(tensors[i].count) * 4);
    }
  }

  std::unique_ptr<Kernel> inner_;
  size_t num_in_, num_out_;
  std::vector<Stage> in_, out_;
};

}  // namespace

std::unique_ptr<Kernel> ViaFloat(const Op& op, Factory make) {
  Op wide = op;
  bool any = false;
  for (std::vector<Tensor>* list : {&wide.in, &wide.out}) {
    for (Tensor& t : *list) {
      if (!Is16Bit(t)) continue;
      t.dtype = WEFT_F32;
      any = true;
    }
  }
  std::unique_ptr<Kernel> kernel = make(wide);
  if (!any || kernel == nullptr) return kernel;
  return std::make_unique<ViaFloatKernel>(op, std::move(kernel));
}

WEFT_CPU_END
