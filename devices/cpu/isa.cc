#include "devices/cpu/isa.h"

#include <dnnl.hpp>
#include <mutex>

#include "plugins/sdk/weft_plugin.hpp"

namespace weft_cpu {

#ifdef __x86_64__
namespace sse4 {
KernelTable AllKernels();
}
namespace avx2 {
KernelTable AllKernels();
}
namespace avx512 {
KernelTable AllKernels();
}
#else
namespace plain {
KernelTable AllKernels();
}
#endif

namespace {

struct Class {
  const char* name;
  KernelTable (*kernels)();
  bool supported;
  dnnl::cpu_isa dnnl_limit;
};

// From the newest to the oldest.
std::vector<Class> AllClasses() {
#ifdef __x86_64__
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") &&
                    __builtin_cpu_supports("bmi2") &&
                    __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
  const bool sse4 = __builtin_cpu_supports("sse4.2");
  return {
      {"avx512", avx512::AllKernels, avx512, dnnl::cpu_isa::all},
      {"avx2", avx2::AllKernels, avx2, dnnl::cpu_isa::avx2},
      {"sse4", sse4::AllKernels, sse4, dnnl::cpu_isa::sse41},
  };
#else
  return {{"plain", plain::AllKernels, true, dnnl::cpu_isa::all}};
#endif
}

Class Find(std::string_view name) {
  const bool best = name.empty() || name == "native";
  std::string known;
  for (const Class& c : AllClasses()) {
    if (best ? c.supported : name == c.name) {
      if (c.supported) return c;
      throw weft_sdk::Error(WEFT_UNSUPPORTED, "isa=" + std::string(name) +
                                                  ": this processor lacks it");
    }
    known += std::string(known.empty() ? "" : ", ") + c.name;
  }
  if (best) {
    throw weft_sdk::Error(WEFT_UNSUPPORTED,
                          "this processor has none of: " + known);
  }
  throw weft_sdk::Error(WEFT_INVALID, "isa=" + std::string(name) +
                                          ": not one of native, " + known);
}

std::mutex mu;
bool made = false;                      // the choice; guarded by mu
Isa chosen = {"", {nullptr, nullptr}};  // never written again once it is made

}  // namespace

const Isa& ChooseIsa(std::string_view name) {
  std::lock_guard<std::mutex> lock(mu);
  if (made && (name.empty() || name == chosen.name)) return chosen;
  const Class found = Find(name);
  if (made && found.name != std::string_view(chosen.name)) {
    throw weft_sdk::Error(WEFT_INVALID, "isa=" + std::string(name) +
                                            ": this process already uses " +
                                            chosen.name);
  }
  if (!made) {
    dnnl::set_max_cpu_isa(found.dnnl_limit);  // no effect if the user set it
    chosen = {found.name, found.kernels()};
    made = true;
  }
  return chosen;
}

std::string DescribeIsa() {
  std::lock_guard<std::mutex> lock(mu);
  if (made) return chosen.name;
  for (const Class& c : AllClasses()) {
    if (c.supported) return c.name;
  }
  return "too old";
}

std::vector<uint32_t> SupportedOps() {
  std::vector<uint32_t> ops;
  for (const KernelEntry& entry : AllClasses().back().kernels()) {
    ops.push_back(entry.op);
  }
  return ops;
}

}  // namespace weft_cpu
