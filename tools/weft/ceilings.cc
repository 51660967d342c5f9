#include "tools/weft/ceilings.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/placement/kernel_desc.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/ops/schema.h"
#include "runtime/execute/op_desc.h"

namespace weft {
namespace {

// Each of the two measurements.
constexpr int64_t kBudgetNs = 150'000'000;
constexpr int kMostRuns = 200;
constexpr int kLeastRuns = 3;
constexpr int64_t kSlowNs = 400'000'000;
// One product; larger ones are not tried.
constexpr int64_t kLongNs = 60'000'000;
constexpr int64_t kSmallest = 128;
constexpr int64_t kLargest = 2048;
constexpr uint64_t kCopyBytes = uint64_t{64} << 20;
constexpr uint64_t kLeastCopyBytes = uint64_t{1} << 20;

// A buffer of a device, full of ones (of f32; harmless in other dtypes).
class Buffer {
 public:
  static absl::StatusOr<std::unique_ptr<Buffer>> Make(Device* device,
                                                      Stream* stream,
                                                      uint64_t bytes) {
    WEFT_ASSIGN_OR_RETURN(weft_mem mem, device->Alloc(bytes, WEFT_MEM_DEVICE));
    std::unique_ptr<Buffer> buffer(new Buffer(device, mem));
    const std::vector<float> ones((bytes + 3) / 4, 1.0f);
    WEFT_RETURN_IF_ERROR(
        stream->Copy(AtDevice(mem), AtHost(ones.data()), bytes));
    // `ones` goes away, so there is no other end than the copy's.
    WEFT_RETURN_IF_ERROR(stream->Sync());
    return buffer;
  }
  ~Buffer() { device_->Free(mem_).IgnoreError(); }

  weft_place place() const { return AtDevice(mem_); }

 private:
  Buffer(Device* device, weft_mem mem) : device_(device), mem_(mem) {}

  Device* const device_;
  const weft_mem mem_;
};

// The least time of several runs, nanoseconds, at least 1.
absl::StatusOr<int64_t> Fastest(Stream* stream,
                                const std::function<absl::Status()>& submit,
                                int64_t budget_ns = kBudgetNs) {
  int64_t best = INT64_MAX, spent = 0;
  for (int run = 0; run < kMostRuns; ++run) {
    // The first runs meet cold memory; one that is slow beyond reason is
    // enough.
    if (spent >= (run < kLeastRuns ? kSlowNs : budget_ns)) break;
    const int64_t begin = RealClock().MonotonicNs();
    WEFT_RETURN_IF_ERROR(submit());
    WEFT_RETURN_IF_ERROR(stream->Sync());
    const int64_t ns = RealClock().MonotonicNs() - begin;
    best = std::min(best, std::max<int64_t>(ns, 1));
    spent += ns;
  }
  return best;
}

// One MatMul or Identity of the device on operands of its own. Null where the
// device has no such kernel for operands in its memory.
class Probe {
 public:
  static absl::StatusOr<std::unique_ptr<Probe>> Make(
      Device* device, Stream* stream, OpId op,
      const std::vector<TensorType>& inputs) {
    const OpSchema* schema = OpRegistry::Global().FindOrNull(OpName(op));
    const AttrMap attrs;
    WEFT_ASSIGN_OR_RETURN(std::vector<TensorType> outputs,
                          InferTypes(*schema, "ceiling", attrs, inputs, 1));
    const plan::Kernel kernel =
        DescribeKernel(OpView(*schema, "ceiling", attrs, inputs, outputs));
    WEFT_ASSIGN_OR_RETURN(auto desc, runtime::DescribeKernel(kernel));
    WEFT_ASSIGN_OR_RETURN(std::optional<KernelMatch> match,
                          device->Match(desc->desc()));
    if (!match.has_value() || match->host_in != 0 || match->host_out != 0) {
      return std::unique_ptr<Probe>();
    }
    std::unique_ptr<Probe> probe(new Probe());
    WEFT_ASSIGN_OR_RETURN(probe->kernel_, device->OpenKernel(desc->desc()));
    for (const TensorType& type : inputs) {
      WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> buffer,
                            Buffer::Make(device, stream, type.num_bytes()));
      probe->inputs_.push_back(buffer->place());
      probe->buffers_.push_back(std::move(buffer));
    }
    WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> result,
                          Buffer::Make(device, stream, outputs[0].num_bytes()));
    probe->output_ = result->place();
    probe->buffers_.push_back(std::move(result));
    if (match->workspace_bytes == 0) return probe;
    WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> workspace,
                          Buffer::Make(device, stream, match->workspace_bytes));
    probe->workspace_ = workspace->place();
    probe->buffers_.push_back(std::move(workspace));
    return probe;
  }

  absl::StatusOr<int64_t> Time(Stream* stream,
                               int64_t budget_ns = kBudgetNs) const {
    auto launch = [&] {
      return kernel_->Launch(*stream, inputs_.data(), &output_,
                             workspace_.mem != 0 ? &workspace_ : nullptr);
    };
    return Fastest(stream, launch, budget_ns);
  }

 private:
  Probe() = default;

  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<weft_buffer> inputs_;
  weft_buffer output_{};
  weft_buffer workspace_{};
};

// The largest product that does not take too long.
absl::Status MeasureMatMul(Device* device, Stream* stream, DType dtype,
                           runtime::Ceiling* out) {
  for (int64_t n = kSmallest;; n *= 2) {
    const TensorType type{dtype, Shape({n, n})};
    WEFT_ASSIGN_OR_RETURN(
        std::unique_ptr<Probe> probe,
        Probe::Make(device, stream, OpId::kMatMul, {type, type}));
    if (probe == nullptr) return absl::OkStatus();
    WEFT_ASSIGN_OR_RETURN(int64_t ns, probe->Time(stream, kLongNs / 16));
    if (8 * ns <= kLongNs && n < kLargest) continue;
    WEFT_ASSIGN_OR_RETURN(ns, probe->Time(stream));
    out->gflops = 2.0 * static_cast<double>(n * n * n) / ns;
    out->how = absl::StrCat("MatMul of ", n, "x", n, " ", DTypeName(dtype));
    return absl::OkStatus();
  }
}

// The device's own copy, or its Identity where that is faster.
absl::Status MeasureCopy(Device* device, Stream* stream, uint64_t bytes,
                         runtime::Ceiling* out) {
  const TensorType type{DType::kF32, Shape({static_cast<int64_t>(bytes / 4)})};
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> from,
                        Buffer::Make(device, stream, bytes));
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> to,
                        Buffer::Make(device, stream, bytes));
  WEFT_ASSIGN_OR_RETURN(int64_t ns, Fastest(stream, [&] {
                          return stream->Copy(to->place(), from->place(),
                                              bytes);
                        }));
  const char* what = "copy";
  from.reset();
  to.reset();
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Probe> probe,
                        Probe::Make(device, stream, OpId::kIdentity, {type}));
  if (probe != nullptr) {
    WEFT_ASSIGN_OR_RETURN(int64_t identity_ns, probe->Time(stream));
    if (identity_ns < ns) what = "Identity";
    ns = std::min(ns, identity_ns);
  }
  out->gbytes = 2.0 * static_cast<double>(bytes) / static_cast<double>(ns);
  absl::StrAppend(&out->how, out->how.empty() ? "" : "; ", what, " of ",
                  bytes >> 20, " MiB, read and written");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<runtime::Ceiling> MeasureCeiling(Device* device, DType dtype) {
  runtime::Ceiling out;
  out.device = device->Name();
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, device->OpenStream());
  WEFT_RETURN_IF_ERROR(MeasureMatMul(device, stream.get(), dtype, &out));
  if (out.gflops == 0 && dtype != DType::kF32) {
    WEFT_RETURN_IF_ERROR(
        MeasureMatMul(device, stream.get(), DType::kF32, &out));
  }
  // A small device may have less room.
  for (uint64_t bytes = kCopyBytes; bytes >= kLeastCopyBytes; bytes /= 2) {
    absl::Status copied = MeasureCopy(device, stream.get(), bytes, &out);
    if (copied.ok()) break;
    if (!IsError(copied, ErrorCode::kOutOfMemory)) return copied;
  }
  return out;
}

}  // namespace weft
