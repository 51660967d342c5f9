#include "devices/cpu/via_float.h"

#include "devices/cpu/elements.h"
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
  Converter converter;
  int64_t count;
  uint64_t offset;
};

void ConvertAll(Converter converter, int64_t from_size, const void* from,
                int64_t to_size, void* to, int64_t n) {
  ParallelElements(n, kPlain, [=](int64_t begin, int64_t end) {
    converter(static_cast<const char*>(from) + begin * from_size, end - begin,
              static_cast<char*>(to) + begin * to_size);
  });
}

class ViaFloatKernel final : public Kernel {
 public:
  ViaFloatKernel(const Op& op, std::unique_ptr<Kernel> inner)
      : inner_(std::move(inner)),
        num_in_(op.in.size()),
        num_out_(op.out.size()) {
    workspace = Align64(inner_->workspace);
    bool found = false;
    AddStages(op.in, &in_, [&](uint32_t dtype) {
      return FindLoad(dtype, Wide::kFloat, &found);
    });
    AddStages(op.out, &out_, [&](uint32_t dtype) {
      return FindStore(Wide::kFloat, dtype, Narrowing::kRound, &found);
    });
  }

  void Prepare() override { inner_->Prepare(); }

  void Run(const Args& a) const override {
    const void* in[WEFT_MAX_OPERANDS];
    void* out[WEFT_MAX_OPERANDS];
    char* scratch = static_cast<char*>(a.workspace);
    for (size_t i = 0; i < num_in_; ++i) in[i] = a.in[i];
    for (size_t i = 0; i < num_out_; ++i) out[i] = a.out[i];
    for (const Stage& s : in_) {
      void* to = scratch + s.offset;
      ConvertAll(s.converter, 2, a.in[s.index], 4, to, s.count);
      in[s.index] = to;
    }
    for (const Stage& s : out_) out[s.index] = scratch + s.offset;
    inner_->Run(Args{in, out, scratch, a.failure});
    if (a.failure->code != WEFT_OK) return;
    for (const Stage& s : out_) {
      ConvertAll(s.converter, 4, scratch + s.offset, 2, a.out[s.index],
                 s.count);
    }
  }

 private:
  template <class F>
  void AddStages(const std::vector<Tensor>& tensors, std::vector<Stage>* stages,
                 F converter_of) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!Is16Bit(tensors[i])) continue;
      stages->push_back({static_cast<int>(i), converter_of(tensors[i].dtype),
                         tensors[i].count, workspace});
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
