// What every kernel family of this plugin is written against: the description
// of one use of an op (Op), the kernel made from it (Kernel), and the table of
// factories (KernelTable).
//
//   std::unique_ptr<Kernel> MakeRelu(const Op& op) {
//     if (!op.Arity(1, 1)) return nullptr;
//     int64_t n = op.out[0].count;
//     return MakeKernel([n](const Args& a) {
//       const float* x = a.Input<float>(0);
//       ...
//     });
//   }
//
// A factory is pure and cheap enough for kernel_match: all costly set-up
// belongs into Kernel::Prepare. It returns null after op.Invalid(...) or
// op.Unsupported(...), or plainly null where a dtype is not covered.
//
// Threading: an Op lives on one thread; a Kernel is immutable after Prepare and
// runs on many threads at once. Ownership: the opened kernel owns all it keeps;
// descriptors are copied.
#ifndef WEFT_DEVICES_CPU_KERNEL_H_
#define WEFT_DEVICES_CPU_KERNEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/abi/weft_plugin.h"
#include "plugins/sdk/weft_kernel.hpp"

namespace weft_cpu {

// The first failure of a call, in words.
struct Failure {
  weft_code code = WEFT_OK;
  char message[224] = {0};

  // Keeps an earlier failure. Returns the code that holds now.
  weft_code Set(weft_code new_code, const char* format, ...)
      __attribute__((format(printf, 3, 4)));
};

struct Tensor {
  uint32_t dtype = 0;  // 0: absent
  int rank = 0;
  int64_t dims[WEFT_MAX_RANK] = {0};
  int64_t strides[WEFT_MAX_RANK] = {0};
  int64_t count = 0;   // elements
  int64_t extent = 0;  // bytes from the first to the end of the last element
  bool dense = true;

  bool present() const { return dtype != 0; }
  bool SameDims(const Tensor& other) const;
};

// A launch: where the operands lie. Absent operands are null.
struct Args {
  const void* const* in;
  void* const* out;
  void* workspace;
  Failure* failure;

  template <class T>
  const T* Input(int i) const {
    return static_cast<const T*>(in[i]);
  }
  template <class T>
  T* Output(int i) const {
    return static_cast<T*>(out[i]);
  }
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // The costly part of opening (code generation); once, before any Run.
  virtual void Prepare() {}
  virtual void Run(const Args& args) const = 0;  // args.failure tells

  uint64_t workspace = 0;  // bytes, 64-byte aligned at Run
  uint32_t in_place = 0;   // bit i: output 0 may be the memory of input i
};

class Op {
 public:
  // Checks the operands' own consistency; failure->code tells. `desc` must
  // outlive this.
  Op(const weft_sdk::Op& desc, Failure* failure);

  uint32_t id = 0;
  std::vector<Tensor> in;
  std::vector<Tensor> out;

  // Takes all operands as dense: for an answer about what would be.
  void AssumeDense();

  bool HasInput(size_t i) const { return i < in.size() && in[i].present(); }
  bool HasOutput(size_t i) const { return i < out.size() && out[i].present(); }

  // True if the first `inputs` operands and `outputs` results are there and no
  // more than the given maxima; otherwise records why not.
  bool Arity(size_t inputs, size_t outputs) const {
    return Arity(inputs, inputs, outputs, outputs);
  }
  bool Arity(size_t min_in, size_t max_in, size_t min_out,
             size_t max_out) const;
  // Records `what` where the condition is false. True while all is well.
  bool Check(bool condition, const char* what) const;

  // Attributes; the fallback where one is absent. A wrong kind throws
  // weft_sdk::Error.
  int64_t Int(std::string_view name, int64_t fallback) const {
    return desc_.Int(name, fallback);
  }
  double Float(std::string_view name, double fallback) const {
    return desc_.Float(name, fallback);
  }
  std::string String(std::string_view name, std::string_view fallback) const {
    return desc_.String(name, fallback);
  }
  std::vector<int64_t> Ints(std::string_view name) const {
    return desc_.Ints(name);
  }
  std::vector<double> Floats(std::string_view name) const {
    return desc_.Floats(name);
  }
  uint32_t DType(std::string_view name, uint32_t fallback) const {
    return desc_.DType(name, fallback);
  }

  // `axis` in [-rank, rank) made non-negative; records a failure and gives -1
  // otherwise.
  int Axis(int64_t axis, int rank) const;

  // Records why there is no kernel. Both return null.
  std::unique_ptr<Kernel> Invalid(const char* what) const;
  std::unique_ptr<Kernel> Unsupported(const char* what) const;
  bool ok() const { return failure_->code == WEFT_OK; }

 private:
  const weft_sdk::Op& desc_;
  Failure* failure_;
};

using Factory = std::unique_ptr<Kernel> (*)(const Op& op);

struct KernelEntry {
  uint32_t op;
  Factory make;
  // The kernel reads operands by their strides. Results are always dense.
  bool strided_inputs;
};

// All rows, ordered by op.
struct KernelTable {
  const KernelEntry* first;
  const KernelEntry* last;
  const KernelEntry* begin() const { return first; }
  const KernelEntry* end() const { return last; }

  // The row of an op; null where there is no kernel.
  const KernelEntry* Find(uint32_t op) const;
};

// A kernel from a function object void(const Args&).
template <class F>
std::unique_ptr<Kernel> MakeKernel(F run, uint32_t in_place = 0,
                                   uint64_t workspace = 0) {
  class FunctionKernel final : public Kernel {
   public:
    explicit FunctionKernel(F run) : run_(std::move(run)) {}
    void Run(const Args& args) const override { run_(args); }

   private:
    F run_;
  };
  auto kernel = std::make_unique<FunctionKernel>(std::move(run));
  kernel->in_place = in_place;
  kernel->workspace = workspace;
  return kernel;
}

// fn(arg, begin, end) for blocks of `block` of [0, n), the last of which may be
// shorter, on the threads that the host lends. parallel.h has the loops that
// are made of it.
void RunBlocks(int64_t n, int64_t block,
               void (*fn)(void* arg, int64_t begin, int64_t end), void* arg);

// Bit i for each dense operand of output 0's dtype and dims.
uint32_t InPlaceMask(const Op& op);

inline uint64_t Align64(uint64_t bytes) { return (bytes + 63) & ~uint64_t{63}; }

// Product of dims [begin, end).
inline int64_t Product(const int64_t* dims, int begin, int end) {
  int64_t n = 1;
  for (int i = begin; i < end; ++i) n *= dims[i];
  return n;
}

}  // namespace weft_cpu

#endif  // WEFT_DEVICES_CPU_KERNEL_H_
