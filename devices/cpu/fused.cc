// weft.fused: a program of elementwise instructions, interpreted block by
// block. A block of kBlock elements stays in the L1 cache from the first
// instruction to the last, so that memory is passed over once, whatever the
// program's length. Each instruction is one vectorised loop over the block.
// Large tensors are cut into at most kMaxParts parts, which the host's threads
// share; each part has slots of its own in the workspace.
//
// Operand codes: v < inputs: that input; v >= inputs: the result of instruction
// v - inputs; v < 0: constants[-1 - v].
#include "devices/cpu/factories.h"
#include "devices/cpu/fused_loops.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/strided.h"
#include "devices/cpu/target.h"

WEFT_CPU_BEGIN
namespace {

constexpr int64_t kBlock = 512;
constexpr int64_t kMaxParts = 16;

// The largest program this kernel runs: bounds the table of block pointers.
constexpr int kMaxBlocks = 256;

template <class T>
class FusedKernel final : public Kernel {
 public:
  static std::unique_ptr<Kernel> Make(const Op& op) {
    auto kernel = std::make_unique<FusedKernel>();
    if (!kernel->Build(op)) return nullptr;
    return kernel;
  }

  void Run(const Args& a) const override {
    ParallelBlocks(count_, part_, [&](int64_t begin, int64_t end) {
      T* workspace = static_cast<T*>(a.workspace) + begin / part_ * part_slots_;
      RunPart(a, workspace, begin, end);
    });
  }

 private:
  enum Mode { kDense, kScalar, kStrided };
  struct Input {
    Mode mode = kDense;
    size_t stage = 0;  // its workspace block, unless dense
    LoopPlan<2> plan;
  };
  struct Instruction {
    Loop<T> loop;
    int result;       // block
    int operands[3];  // blocks
  };

  void RunPart(const Args& a, T* workspace, int64_t begin, int64_t end) const {
    // Block pointers: inputs, constants, then slots.
    const T* blocks[kMaxBlocks];
    for (size_t i = 0; i < constants_; ++i) {
      blocks[inputs_.size() + i] = constant_blocks_.data() + i * kBlock;
    }
    const size_t slots = inputs_.size() + constants_;
    for (size_t i = 0; i < slots_; ++i) {
      blocks[slots + i] = workspace + i * kBlock;
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].mode == kScalar) {
        T* stage = workspace + inputs_[i].stage * kBlock;
        std::fill(stage, stage + kBlock, a.Input<T>(i)[0]);
        blocks[i] = stage;
      }
    }
    for (int64_t start = begin; start < end; start += kBlock) {
      RunBlock(a, workspace, start, std::min(kBlock, end - start), blocks);
    }
  }

  void RunBlock(const Args& a, T* workspace, int64_t start, int64_t n,
                const T** blocks) const {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Input& input = inputs_[i];
      if (input.mode == kDense) {
        blocks[i] = a.Input<T>(i) + start;
      } else if (input.mode == kStrided) {
        T* stage = workspace + input.stage * kBlock;
        Stage(input.plan, a.Input<T>(i), start, n, stage);
        blocks[i] = stage;
      }
    }
    for (const Instruction& in : program_) {
      T* z = in.result < 0 ? a.Output<T>(0) + start
                           : const_cast<T*>(blocks[in.result]);
      in.loop(z, blocks[in.operands[0]], blocks[in.operands[1]],
              blocks[in.operands[2]], n);
    }
    // Output 0 last: it may be the memory of an input that another one copies.
    for (size_t i = outputs_.size(); i-- > 0;) {
      if (outputs_[i] < 0) continue;  // was written in its place
      T* z = a.Output<T>(i) + start;
      const T* from = blocks[outputs_[i]];
      if (z != from) std::copy(from, from + n, z);
    }
  }

  // Elements [start, start + n) of the result's order, read through `plan`.
  static void Stage(const LoopPlan<2>& plan, const T* x, int64_t start,
                    int64_t n, T* to) {
    int64_t index[WEFT_MAX_RANK];
    int64_t rest = start, at = 0;
    const int last = plan.rank() - 1;
    for (int d = last; d >= 0; --d) {
      index[d] = rest % plan.dim(d);
      rest /= plan.dim(d);
      if (d != last) at += index[d] * plan.strides(d)[1];
    }
    const int64_t step = plan.strides(last)[1];
    while (true) {
      int64_t run = std::min(n, plan.dim(last) - index[last]);
      const T* from = x + at + index[last] * step;
      if (step == 1) {
        std::copy(from, from + run, to);
      } else if (step == 0) {
        std::fill(to, to + run, *from);
      } else {
        for (int64_t i = 0; i < run; ++i) to[i] = from[i * step];
      }
      to += run;
      n -= run;
      if (n == 0) return;
      index[last] = 0;
      for (int d = last - 1; d >= 0; --d) {
        at += plan.strides(d)[1];
        if (++index[d] < plan.dim(d)) break;
        at -= plan.strides(d)[1] * plan.dim(d);
        index[d] = 0;
      }
    }
  }

  bool Build(const Op& op) {
    if (!op.Arity(0, WEFT_MAX_OPERANDS, 1, WEFT_MAX_OPERANDS)) return false;
    const Tensor& out = op.out[0];
    for (const Tensor& t : op.out) {
      op.Check(t.dtype == out.dtype && t.SameDims(out),
               "results of different types");
    }
    for (const Tensor& t : op.in) {
      op.Check(t.dtype == out.dtype, "operands of another type");
    }
    if (!op.ok() || !ReadInputs(op) || !ReadProgram(op)) return false;
    count_ = out.count;
    for (size_t i = 0; i < inputs_.size() && i < 32; ++i) {
      if (inputs_[i].mode == kDense) in_place |= 1u << i;
    }
    size_t stages = slots_;
    for (Input& input : inputs_) {
      if (input.mode != kDense) input.stage = stages++;
    }
    // An instruction costs about as much as an element of a plain loop.
    const int64_t cost = std::max<int64_t>(1, program_.size() / 2);
    int64_t parts = count_ <= kSerialElements / cost
                        ? 1
                        : std::min(kMaxParts, count_ * cost / kElementBlock);
    const int64_t blocks = (count_ + kBlock - 1) / kBlock;
    part_ = std::max<int64_t>(1, (blocks + parts - 1) / parts) * kBlock;
    parts = (count_ + part_ - 1) / part_;
    part_slots_ = static_cast<int64_t>(stages) * kBlock;
    workspace = static_cast<uint64_t>(parts * part_slots_) * sizeof(T);
    return true;
  }

  bool ReadInputs(const Op& op) {
    for (const Tensor& t : op.in) {
      Input input;
      input.plan = LoopPlan<2>(op.out[0], {&t});
      if (!op.Check(input.plan.ok(), "an operand does not broadcast")) {
        return false;
      }
      if (t.count == 1) {
        input.mode = kScalar;
      } else if (!t.dense || !t.SameDims(op.out[0])) {
        // Leading dimensions of 1 need no staging either.
        input.mode = t.dense && t.count == op.out[0].count ? kDense : kStrided;
      }
      inputs_.push_back(input);
    }
    return true;
  }

  // The block of an operand code of the instruction given.
  bool BlockOf(const Op& op, int64_t code, size_t instruction, int* block) {
    int64_t n = static_cast<int64_t>(inputs_.size());
    if (code < 0) {
      op.Check(-1 - code < static_cast<int64_t>(constants_),
               "a constant is missing");
      *block = static_cast<int>(n - 1 - code);
    } else if (code < n) {
      *block = static_cast<int>(code);
    } else {
      op.Check(code - n < static_cast<int64_t>(instruction),
               "an instruction reads a later one");
      *block = op.ok() ? results_[code - n] : 0;
    }
    return op.ok();
  }

  bool ReadProgram(const Op& op) {
    std::vector<int64_t> code = op.Ints("program");
    std::vector<int64_t> outputs = op.Ints("outputs");
    std::vector<double> constants = op.Floats("constants");
    constants_ = constants.size();
    constant_blocks_.resize(constants_ * kBlock);
    for (size_t i = 0; i < constants_; ++i) {
      std::fill_n(constant_blocks_.begin() + i * kBlock, kBlock,
                  static_cast<T>(constants[i]));
    }
    const size_t n = code.size() / 4;
    if (!op.Check(code.size() % 4 == 0, "a program of broken instructions") ||
        !op.Check(outputs.size() == op.out.size(), "outputs do not fit") ||
        !op.Check(inputs_.size() + constants_ + n < kMaxBlocks,
                  "a program too long")) {
      return false;
    }
    std::vector<size_t> last_use = LastUses(code, outputs);
    std::vector<int> free;
    const int first_slot = static_cast<int>(inputs_.size() + constants_);
    for (size_t i = 0; i < n; ++i) {
      Instruction in{};
      int operands = 0;
      in.loop = FindLoop<T>(code[4 * i], &operands);
      if (in.loop == nullptr) {
        op.Unsupported("an instruction that is not elementwise");
        return false;
      }
      for (int k = 0; k < operands; ++k) {
        if (!BlockOf(op, code[4 * i + 1 + k], i, &in.operands[k])) return false;
      }
      // An operand read here for the last time gives its slot to the result.
      for (int k = 0; k < operands; ++k) {
        int64_t from =
            code[4 * i + 1 + k] - static_cast<int64_t>(inputs_.size());
        if (from >= 0 && last_use[from] == i) {
          free.push_back(in.operands[k]);
          last_use[from] = n + 1;
        }
      }
      bool direct = i + 1 == n && outputs.size() == 1 &&
                    outputs[0] == static_cast<int64_t>(inputs_.size() + i);
      if (direct) {
        in.result = -1;
      } else if (!free.empty()) {
        in.result = free.back();
        free.pop_back();
      } else {
        in.result = first_slot + static_cast<int>(slots_++);
      }
      results_.push_back(in.result);
      program_.push_back(in);
    }
    for (int64_t output : outputs) {
      int block = 0;
      if (!BlockOf(op, output, n, &block)) return false;
      outputs_.push_back(block);
    }
    return true;
  }

  // The last instruction that reads the result of each; n where an output does,
  // n + 1 where nothing does.
  std::vector<size_t> LastUses(const std::vector<int64_t>& code,
                               const std::vector<int64_t>& outputs) const {
    const size_t n = code.size() / 4;
    const int64_t inputs = static_cast<int64_t>(inputs_.size());
    std::vector<size_t> last(n, n + 1);
    auto use = [&](int64_t operand, size_t at) {
      if (operand >= inputs && operand - inputs < static_cast<int64_t>(n)) {
        last[operand - inputs] = at;
      }
    };
    for (size_t i = 0; i < n; ++i) {
      int operands = 0;
      FindLoop<T>(code[4 * i], &operands);
      for (int k = 0; k < operands; ++k) use(code[4 * i + 1 + k], i);
    }
    for (int64_t output : outputs) use(output, n);
    return last;
  }

  int64_t count_ = 0;
  int64_t part_ = kBlock;   // elements; the grid follows from shape and program
  int64_t part_slots_ = 0;  // elements of workspace for each part
  size_t constants_ = 0;
  size_t slots_ = 0;
  std::vector<T> constant_blocks_;
  std::vector<Input> inputs_;
  std::vector<Instruction> program_;
  std::vector<int> results_;  // block of each instruction's result
  std::vector<int> outputs_;  // block of each output; -1: written directly
};

}  // namespace

std::unique_ptr<Kernel> MakeFused(const Op& op) {
  if (op.out.empty()) return op.Invalid("no result");
  return WithF32F64(op.out[0].dtype, [&](auto tag) {
    return FusedKernel<typename decltype(tag)::Storage>::Make(op);
  });
}

WEFT_CPU_END
