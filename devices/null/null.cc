// A device that moves bytes and computes nothing: every op has a kernel, every
// launch returns at once. It measures what Weft itself costs per act, and it is
// the shortest plugin there is.
#include "plugins/sdk/weft_plugin.hpp"

namespace {

// Claims every op and leaves the outputs as they are.
class Nothing : public weft_sdk::Kernel {
 public:
  static constexpr bool kStrided = true;
  static bool Match(const weft_sdk::Op& op, weft_match* answer) { return true; }
  explicit Nothing(const weft_sdk::Op& op) {}
  void Launch(const weft_sdk::Call& call) const override {}
};

struct Null {
  static constexpr char kName[] = "null";
  static constexpr char kVendor[] = "weft";
  static constexpr char kVersion[] = "1.0";
  using Device = weft_sdk::InlineDevice;

  static bool Describe(uint32_t index, weft_device_info* info) {
    if (index > 1) return false;  // two, so that copies between devices exist
    weft_sdk::SetText(info->name, "null device");
    info->memory_bytes = uint64_t{1} << 40;
    return true;
  }
  static void Register(weft_sdk::Registry* kernels) {
    kernels->AddForAll<Nothing>();
  }
};

}  // namespace

WEFT_INLINE_PLUGIN(Null, WEFT_ISA_BASELINE)
