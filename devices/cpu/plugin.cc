// The CPU device as a plugin: one device, memory of the host, kernels from the
// table of the chosen target (isa.h). See README.md.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "devices/cpu/bf16.h"
#include "devices/cpu/isa.h"
#include "devices/cpu/kernel.h"
#include "plugins/sdk/weft_plugin.hpp"

namespace weft_cpu {
namespace {

// The kernel for an op; null where there is none. Throws for a description that
// cannot be right.
std::unique_ptr<Kernel> Make(const weft_sdk::Op& desc, bool* needs_dense) {
  Failure failure;
  Op op(desc, &failure);
  const KernelEntry* entry = ChosenIsa().kernels.Find(desc.id());
  std::unique_ptr<Kernel> kernel;
  if (failure.code == WEFT_OK && entry != nullptr) {
    *needs_dense = false;
    for (const Tensor& t : op.out) *needs_dense |= !t.dense;
    if (!entry->strided_inputs) {
      for (const Tensor& t : op.in) *needs_dense |= !t.dense;
    }
    if (*needs_dense) op.AssumeDense();
    kernel = entry->make(op);
  }
  if (failure.code == WEFT_OK || failure.code == WEFT_UNSUPPORTED) {
    return failure.code == WEFT_OK ? std::move(kernel) : nullptr;
  }
  throw weft_sdk::Error(failure.code, failure.message);
}

class CpuKernel final : public weft_sdk::Kernel {
 public:
  static constexpr bool kStrided = true;  // Match answers for itself

  static bool Match(const weft_sdk::Op& op, weft_match* answer) {
    bool needs_dense = false;
    std::unique_ptr<weft_cpu::Kernel> kernel = Make(op, &needs_dense);
    if (kernel == nullptr) return false;
    if (needs_dense) answer->fit = WEFT_FIT_NEEDS_DENSE;
    answer->workspace_bytes = kernel->workspace;
    answer->in_place = kernel->in_place;
    return true;
  }

  explicit CpuKernel(const weft_sdk::Op& op)
      : num_in_(op.num_in()), num_out_(op.num_out()) {
    bool needs_dense = false;
    kernel_ = Make(op, &needs_dense);
    kernel_->Prepare();
  }

  void Launch(const weft_sdk::Call& call) const override {
    const void* in[WEFT_MAX_OPERANDS];
    void* out[WEFT_MAX_OPERANDS];
    for (int i = 0; i < num_in_; ++i) in[i] = call.in<void>(i);
    for (int i = 0; i < num_out_; ++i) out[i] = call.out<void>(i);
    Failure failure;
    kernel_->Run(Args{in, out, call.workspace<void>(), &failure});
    if (failure.code != WEFT_OK) {
      throw weft_sdk::Error(failure.code, failure.message);
    }
  }

 private:
  int num_in_, num_out_;
  std::unique_ptr<weft_cpu::Kernel> kernel_;
};

constexpr uint64_t kHugePage = uint64_t{2} << 20;

class CpuDevice final : public weft_sdk::InlineDevice {
 public:
  bool SetOption(std::string_view key, std::string_view value) override {
    if (key == "bf16") {
      if (ChooseBf16(value)) return true;
      throw weft_sdk::Error(WEFT_INVALID, "bf16=" + std::string(value) +
                                              ": not auto, onednn or f32");
    }
    if (key != "isa") return false;
    ChooseIsa(value);
    return true;
  }
  void Start() override { ChosenIsa(); }  // throws where there is none

 protected:
  // Arenas are walked from end to end: in huge pages, where the system gives
  // them on request, that needs few entries of the TLB and few page faults.
  void* Obtain(uint64_t bytes, uint64_t alignment) override {
    if (bytes < kHugePage) return InlineDevice::Obtain(bytes, alignment);
    void* memory = nullptr;
    alignment = std::max(alignment, kHugePage);
    if (posix_memalign(&memory, alignment, bytes) != 0) return nullptr;
    madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: it may fail
    return memory;
  }
};

struct Cpu {
  static constexpr char kName[] = "cpu";
  static constexpr char kVendor[] = "weft";
  static constexpr char kVersion[] = "1.0";
  using Device = CpuDevice;

  static bool Describe(uint32_t index, weft_device_info* info) {
    if (index > 0) return false;
    weft_sdk::SetText(info->name,
                      std::string("host processor, ") + DescribeIsa());
    info->memory_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return true;
  }

  static void Register(weft_sdk::Registry* kernels) {
    for (uint32_t op : SupportedOps()) kernels->Add<CpuKernel>(op);
  }
};

}  // namespace
}  // namespace weft_cpu

WEFT_INLINE_PLUGIN(weft_cpu::Cpu, WEFT_ISA_BASELINE)
