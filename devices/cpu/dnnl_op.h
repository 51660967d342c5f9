// One oneDNN primitive with operands in plain layouts: reorders to and from the
// layouts that the primitive prefers, user-mode scratchpad, and no set-up per
// launch beyond the operands' addresses. oneDNN is seen by the files that
// include this one, and by no others.
//
// Threads: oneDNN is built on OpenMP, where the number of threads is a property
// of the calling thread. OneThread sets it to 1 for the calling thread while a
// primitive is made or run, and puts the old value back: the primitive then
// runs in the thread that called and in no other, so the order of every sum is
// fixed by the shapes. A kernel that wants more threads cuts its work into
// blocks and calls once for each (parallel.h).
//
//   DnnlOp op;
//   op.SetPrimitive(pd, [pd] { return dnnl::matmul(pd); });
//   op.AddInput(DNNL_ARG_SRC, user_desc, pd.src_desc());
//   ...
//   op.workspace_bytes();              // in the factory
//   op.Prepare();                      // once, in Kernel::Prepare
//   op.Run(operands, workspace);       // any thread
//
// Threading: Run is thread-safe after Prepare. A launch takes a context (memory
// objects, whose addresses it sets) from a list under a lock that is held for a
// few instructions, and makes a new one where all are in use. Prepare makes one
// for each thread of the host's budget.
#ifndef WEFT_DEVICES_CPU_DNNL_OP_H_
#define WEFT_DEVICES_CPU_DNNL_OP_H_

#ifdef WEFT_DEVICES_CPU_TARGET_H_
#error "to be included before target.h: see there"
#endif

#include <array>
#include <cstdint>
#include <dnnl.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "devices/cpu/kernel.h"

namespace weft_cpu {

class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// The engine of this process.
const dnnl::engine& CpuEngine();

// Attributes every primitive here is made with.
dnnl::primitive_attr UserScratchpad();

class DnnlOp {
 public:
  DnnlOp() = default;
  DnnlOp(const DnnlOp&) = delete;
  DnnlOp& operator=(const DnnlOp&) = delete;

  // `make` is costly: it is called by Prepare.
  void SetPrimitive(const dnnl::memory::desc& scratchpad,
                    std::function<dnnl::primitive()> make);
  // Operands in the order in which Run gets their addresses. `user` is how the
  // caller's memory lies, `wanted` what the primitive reads or writes.
  void AddInput(int arg, const dnnl::memory::desc& user,
                const dnnl::memory::desc& wanted);
  void AddOutput(int arg, const dnnl::memory::desc& user,
                 const dnnl::memory::desc& wanted);

  uint64_t workspace_bytes() const { return workspace_bytes_; }
  void Prepare();
  void Run(void* const* operands, void* workspace) const;

 private:
  struct Operand {
    int arg;
    bool output;
    dnnl::memory::desc user;
    dnnl::memory::desc wanted;
    bool reordered;
    uint64_t offset;  // of its copy in the workspace
    dnnl::reorder reorder;
  };
  struct Bound {
    dnnl::memory user;
    dnnl::memory wanted;  // the same object where nothing is reordered
  };
  struct Context {
    dnnl::stream stream;
    std::vector<Bound> bound;
    dnnl::memory scratchpad;
    std::vector<dnnl_exec_arg_t> args;
  };

  void Add(int arg, bool output, const dnnl::memory::desc& user,
           const dnnl::memory::desc& wanted);
  std::unique_ptr<Context> MakeContext() const;

  std::function<dnnl::primitive()> make_;
  dnnl::primitive primitive_;
  dnnl::memory::desc scratchpad_;
  uint64_t scratchpad_offset_ = 0;
  uint64_t workspace_bytes_ = 0;
  std::vector<Operand> operands_;
  mutable std::mutex mu_;
  mutable std::vector<std::unique_ptr<Context>> idle_;
};

// One op for each shape of the blocks that a kernel cuts its work into.
class DnnlOps {
 public:
  using Shape = std::array<int64_t, 3>;

  // The op of `shape`; `make()` gives it where it is the first of it.
  template <class Make>
  const DnnlOp* Of(const Shape& shape, const Make& make) {
    std::unique_ptr<DnnlOp>& op = ops_[shape];
    if (op == nullptr) op = make();
    return op.get();
  }
  void Prepare() {
    for (auto& [shape, op] : ops_) op->Prepare();
  }

 private:
  std::map<Shape, std::unique_ptr<DnnlOp>> ops_;
};

}  // namespace weft_cpu

#endif  // WEFT_DEVICES_CPU_DNNL_OP_H_
