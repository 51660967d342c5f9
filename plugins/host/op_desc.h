// Builds the description of an op for Device::Match and Device::OpenKernel, and
// owns what it points to.
//
//   OpDesc gemm(WEFT_OP_MAT_MUL);
//   gemm.In(WEFT_F32, {64, 784}).In(WEFT_F32, {784, 128});
//   gemm.Out(WEFT_F32, {64, 128});
//   gemm.Set("axis", int64_t{1});
//   device->OpenKernel(gemm.desc());
//
// Threading: thread-compatible. Ownership: desc() is good until the next change
// or the end of the object.
#ifndef WEFT_PLUGINS_HOST_OP_DESC_H_
#define WEFT_PLUGINS_HOST_OP_DESC_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "plugins/abi/weft_plugin.h"

namespace weft {

class OpDesc {
 public:
  explicit OpDesc(uint32_t op, uint32_t version = 1);
  OpDesc(const OpDesc&) = delete;
  OpDesc& operator=(const OpDesc&) = delete;

  // A dense operand; strides and flags only where given.
  OpDesc& In(uint32_t dtype, const std::vector<int64_t>& dims,
             const std::vector<int64_t>& strides = {}, uint32_t flags = 0);
  OpDesc& Out(uint32_t dtype, const std::vector<int64_t>& dims,
              const std::vector<int64_t>& strides = {});
  // An optional input that is not there.
  OpDesc& NoIn();

  OpDesc& Set(absl::string_view name, int64_t value);
  OpDesc& Set(absl::string_view name, double value);
  OpDesc& Set(absl::string_view name, const std::string& value);
  OpDesc& Set(absl::string_view name, std::vector<int64_t> value);
  OpDesc& Set(absl::string_view name, std::vector<double> value);
  OpDesc& Set(absl::string_view name, const std::vector<std::string>& value);
  OpDesc& SetDType(absl::string_view name, uint32_t dtype);

  const weft_op_desc& desc();

 private:
  weft_attr& NewAttr(absl::string_view name, uint32_t kind);

  weft_op_desc desc_{};
  std::vector<weft_tensor> inputs_;
  std::vector<weft_tensor> outputs_;
  std::vector<weft_attr> attrs_;
  // Deques: what attrs_ points to must not move.
  std::deque<std::string> text_;
  std::deque<std::vector<int64_t>> ints_;
  std::deque<std::vector<double>> floats_;
  std::deque<std::vector<weft_string>> strings_;
};

}  // namespace weft

#endif  // WEFT_PLUGINS_HOST_OP_DESC_H_
