#include "devices/cpu/elementwise.h"

#include "devices/cpu/numeric.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/strided.h"

WEFT_CPU_BEGIN
namespace {

constexpr int64_t kBlockBytes = 4096;  // a slot
constexpr int64_t kStackSlots = 8;
constexpr int64_t kMaxParts = 16;
constexpr int64_t kAligned = 16;  // elements: a block starts on a vector

// Bounds the table of block pointers: the largest program that core allows (64
// operands, 192 constants, 64 instructions) fits.
constexpr int kMaxBlocks = 512;

// Elements after which a broadcast operand repeats itself; all of them where it
// does not.
int64_t Period(const LoopPlan<2>& plan) {
  int64_t period = plan.count();
  if (period == 0) return 1;
  int d = 0;
  while (d < plan.rank() && plan.strides(d)[1] == 0) period /= plan.dim(d++);
  return period;
}

int64_t Lcm(int64_t a, int64_t b) {
  int64_t x = a, y = b;
  while (y != 0) {
    const int64_t rest = x % y;
    x = y;
    y = rest;
  }
  return a / x * b;
}

// Results from here on, in bytes of the wide type, are far from the processor,
// and so are their operands: those of the next block are asked for while this
// one is computed. Blocks are a quarter as long then, for a processor waits for
// about 16 lines at a time.
constexpr int64_t kFarBytes = int64_t{2} << 20;

// One loop over operands and a result that are as they lie: of what is small a
// launch takes longer than the loop.
class OneLoop final : public Kernel {
 public:
  OneLoop(decltype(ElementLoop::run) loop, const int (&operands)[3],
          int64_t width, int64_t count, int64_t part)
      : loop_(loop), width_(width), count_(count), part_(part) {
    std::copy(std::begin(operands), std::end(operands), operands_);
  }

  void Run(const Args& a) const override {
    ParallelBlocks(count_, part_, [&](int64_t begin, int64_t end) {
      const int64_t at = begin * width_;
      loop_(a.Output<char>(0) + at, a.Input<char>(operands_[0]) + at,
            a.Input<char>(operands_[1]) + at, a.Input<char>(operands_[2]) + at,
            end - begin);
    });
  }

 private:
  const decltype(ElementLoop::run) loop_;
  int operands_[3];  // inputs; of those that the loop does not take, 0
  const int64_t width_, count_, part_;
};

class ElementKernel final : public Kernel {
 public:
  bool Build(const Op& op, const ElementProgram& program);
  // The same as one loop; null where it is more than that.
  std::unique_ptr<Kernel> AsOneLoop() const;
  void Run(const Args& a) const override;

 private:
  enum class Read { kDense, kOnce, kEachBlock };
  struct Input {
    Read read = Read::kDense;
    Converter load = nullptr;  // null: stored in the wide type
    int64_t size = 0;          // bytes of a stored element
    int slot = -1;             // none where it is read in its place
    LoopPlan<2> plan;
  };
  struct Output {
    Converter store = nullptr;  // null: stored in the wide type
    int64_t size = 0;
    int block = 0;
    bool written = false;  // by the last instruction
    int slot = -1;         // where it is narrowed, if not in its place
  };
  struct Instruction {
    decltype(ElementLoop::run) loop;
    int result;  // block; -1: the place of output 0
    int operands[3];
  };

  void RunPart(const Args& a, char* slots, int64_t begin, int64_t end) const;
  void RunBlock(const Args& a, int64_t start, int64_t n, char* slots,
                const char** blocks) const;
  const char* Fetch(const Input& input, const void* base, int64_t start,
                    int64_t n, char* slots) const;

  bool ReadInputs(const Op& op, const ElementProgram& p);
  bool ReadCode(const Op& op, const ElementProgram& p);
  bool ReadOutputs(const Op& op, const ElementProgram& p);
  bool BlockOf(const Op& op, int64_t code, size_t instruction,
               int* block) const;
  void FillConstants(const ElementProgram& p);
  void ChooseBlock();
  void ChooseParts();

  int64_t width_ = 4;      // bytes of an element of the wide type
  int64_t count_ = 0;      // elements
  int64_t cost_ = 0;       // of one, in halves of a plain one
  int64_t block_ = 1;      // elements
  int64_t row_ = 0;        // blocks end where such rows do; 0: anywhere
  int64_t part_ = 1;       // elements
  int64_t constants_ = 0;  // blocks after those of the inputs, before the slots
  int64_t slots_ = 0;
  bool workspace_slots_ = false;
  bool far_ = false;      // operands are asked for a block ahead
  bool streams_ = false;  // results go past the caches
  std::vector<char> constant_blocks_;
  std::vector<Input> inputs_;
  std::vector<Instruction> code_;
  std::vector<int> results_;  // block of each instruction's value
  std::vector<Output> outputs_;
};

// ---- Running

void ElementKernel::Run(const Args& a) const {
  ParallelBlocks(count_, part_, [&](int64_t begin, int64_t end) {
    if (workspace_slots_) {
      char* slots = static_cast<char*>(a.workspace);
      RunPart(a, slots + begin / part_ * slots_ * kBlockBytes, begin, end);
      return;
    }
    alignas(64) char slots[kStackSlots * kBlockBytes];
    RunPart(a, slots, begin, end);
  });
}

void ElementKernel::RunPart(const Args& a, char* slots, int64_t begin,
                            int64_t end) const {
  const char* blocks[kMaxBlocks];
  const char** next = blocks + inputs_.size();
  for (int64_t i = 0; i < constants_; ++i) {
    *next++ = constant_blocks_.data() + i * kBlockBytes;
  }
  for (int64_t i = 0; i < slots_; ++i) *next++ = slots + i * kBlockBytes;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].read != Read::kOnce) continue;
    const int64_t n = std::min(block_, end - begin);
    blocks[i] = Fetch(inputs_[i], a.in[i], begin, n, slots);
  }
  for (int64_t start = begin, n = 0; start < end; start += n) {
    n = std::min(block_, end - start);
    if (row_ > 0) n = std::min(n, row_ - start % row_);
    RunBlock(a, start, n, slots, blocks);
  }
  if (streams_) FinishPastCaches();
}

void ElementKernel::RunBlock(const Args& a, int64_t start, int64_t n,
                             char* slots, const char** blocks) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].read == Read::kOnce) continue;
    blocks[i] = Fetch(inputs_[i], a.in[i], start, n, slots);
  }
  // The operands of the next block: the processor's own prefetching pauses
  // while later instructions do not read memory. Beyond the end this asks in
  // vain. (No function of its own: GCC takes one that only prefetches for
  // pure.)
  for (size_t i = 0; far_ && i < inputs_.size(); ++i) {
    if (inputs_[i].read != Read::kDense) continue;
    const int64_t bytes = n * inputs_[i].size;
    const char* next =
        a.Input<char>(static_cast<int>(i)) + start * inputs_[i].size + bytes;
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(next + at);
  }
  for (const Instruction& in : code_) {
    char* z = in.result < 0 ? a.Output<char>(0) + start * width_
                            : const_cast<char*>(blocks[in.result]);
    in.loop(z, blocks[in.operands[0]], blocks[in.operands[1]],
            blocks[in.operands[2]], n);
  }
  // Output 0 last: it may be the memory of an input that another one copies.
  for (size_t i = outputs_.size(); i-- > 0;) {
    const Output& output = outputs_[i];
    if (output.written) continue;
    char* z = a.Output<char>(static_cast<int>(i)) + start * output.size;
    const char* from = blocks[output.block];
    if (output.slot >= 0) {
      char* narrowed = slots + output.slot * kBlockBytes;
      output.store(from, n, narrowed);
      CopyPastCaches(narrowed, n * output.size, z);
    } else if (output.store != nullptr) {
      output.store(from, n, z);
    } else if (streams_ && z != from) {
      CopyPastCaches(from, n * width_, z);
    } else if (z != from) {
      std::memcpy(z, from, static_cast<size_t>(n * width_));
    }
  }
}

// Elements [start, start + n) of the result's order in the wide type: where
// they lie, or in the input's slot.
const char* ElementKernel::Fetch(const Input& input, const void* base,
                                 int64_t start, int64_t n, char* slots) const {
  const char* x = static_cast<const char*>(base);
  char* slot = input.slot < 0 ? nullptr : slots + input.slot * kBlockBytes;
  if (input.read == Read::kDense) {
    x += start * input.size;
    if (input.load == nullptr) return x;
    input.load(x, n, slot);
    return slot;
  }
  const LoopPlan<2>& plan = input.plan;
  const int last = plan.rank() - 1;
  const int64_t step = plan.strides(last)[1];
  int64_t index[WEFT_MAX_RANK];
  int64_t rest = start, at = 0;
  for (int d = last; d >= 0; --d) {
    index[d] = rest % plan.dim(d);
    rest /= plan.dim(d);
    at += index[d] * plan.strides(d)[1];
  }
  if (step == 1 && index[last] + n <= plan.dim(last)) {
    x += at * input.size;
    if (input.load == nullptr) return x;
    input.load(x, n, slot);
    return slot;
  }
  // The last slot is for what is gathered before it is widened.
  char* gathered =
      input.load == nullptr ? slot : slots + (slots_ - 1) * kBlockBytes;
  char* to = gathered;
  for (int64_t left = n;;) {
    const int64_t run = std::min(left, plan.dim(last) - index[last]);
    Gather(x + at * input.size, input.size, step, run, to);
    to += run * input.size;
    left -= run;
    if (left == 0) break;
    at -= index[last] * step;
    index[last] = 0;
    for (int d = last - 1; d >= 0; --d) {
      at += plan.strides(d)[1];
      if (++index[d] < plan.dim(d)) break;
      at -= plan.strides(d)[1] * plan.dim(d);
      index[d] = 0;
    }
  }
  if (input.load != nullptr) input.load(gathered, n, slot);
  return slot;
}

// ---- Building

bool ElementKernel::Build(const Op& op, const ElementProgram& p) {
  width_ = WidthOf(p.wide);
  count_ = op.out[0].count;
  constants_ = static_cast<int64_t>(p.constants.size());
  if (!op.Check(2 * p.in.size() + p.constants.size() + p.code.size() +
                        op.out.size() + 1 <
                    kMaxBlocks,
                "a program too long") ||
      !ReadInputs(op, p) || !ReadCode(op, p) || !ReadOutputs(op, p)) {
    return false;
  }
  ChooseBlock();
  ChooseParts();
  FillConstants(p);
  in_place = InPlaceMask(op);
  return true;
}

bool ElementKernel::ReadInputs(const Op& op, const ElementProgram& p) {
  for (size_t i = 0; i < op.in.size(); ++i) {
    const Tensor& t = op.in[i];
    Input input;
    bool found = false;
    input.load = FindLoad(p.in[i], p.wide, &found);
    if (!found) {
      op.Unsupported("an operand of this type");
      return false;
    }
    input.size = SizeOf(t.dtype);
    input.plan = LoopPlan<2>(op.out[0], {&t});
    if (!op.Check(input.plan.ok(), "an operand does not broadcast")) {
      return false;
    }
    // Leading dimensions of 1 change nothing.
    if (!t.dense || t.count != op.out[0].count) input.read = Read::kEachBlock;
    inputs_.push_back(input);
  }
  return true;
}

// The block of an operand code of the instruction given.
bool ElementKernel::BlockOf(const Op& op, int64_t code, size_t instruction,
                            int* block) const {
  const int64_t n = static_cast<int64_t>(inputs_.size());
  if (code < 0) {
    op.Check(-1 - code < constants_, "a constant is missing");
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

// The last instruction that reads the value of each; the number of instructions
// where an output does.
std::vector<size_t> LastUses(const ElementProgram& p) {
  const int64_t inputs = static_cast<int64_t>(p.in.size());
  const size_t n = p.code.size();
  std::vector<size_t> last(n, n);
  auto use = [&](int64_t code, size_t at) {
    if (code >= inputs && code - inputs < static_cast<int64_t>(n)) {
      last[code - inputs] = at;
    }
  };
  for (size_t i = 0; i < n; ++i) {
    const int operands = FindLoop(p.code[i], p.wide).operands;
    for (int k = 0; k < operands; ++k) use(p.code[i].operands[k], i);
  }
  for (int64_t code : p.outputs) use(code, n);
  return last;
}

bool ElementKernel::ReadCode(const Op& op, const ElementProgram& p) {
  const int64_t inputs = static_cast<int64_t>(inputs_.size());
  const size_t n = p.code.size();
  std::vector<size_t> last_use = LastUses(p);
  std::vector<int> free;
  bool native = false;
  far_ = count_ * width_ >= kFarBytes;
  streams_ = count_ * width_ >= kStreamBytes;
  const bool direct =
      n > 0 && !streams_ && p.outputs.size() == 1 &&
      p.outputs[0] == inputs + static_cast<int64_t>(n) - 1 &&
      FindStore(p.wide, p.out[0], Narrowing::kRound, &native) == nullptr;
  for (size_t i = 0; i < n; ++i) {
    const ElementLoop loop = FindLoop(p.code[i], p.wide);
    if (loop.run == nullptr) {
      op.Unsupported("an instruction without a loop for the type");
      return false;
    }
    Instruction in{loop.run, -1, {0, 0, 0}};
    cost_ += loop.cost == kPlain ? 1 : 2 * loop.cost;
    for (int k = 0; k < loop.operands; ++k) {
      if (!BlockOf(op, p.code[i].operands[k], i, &in.operands[k])) return false;
    }
    // An operand read here for the last time gives its slot to the result.
    for (int k = 0; k < loop.operands; ++k) {
      const int64_t from = p.code[i].operands[k] - inputs;
      if (from < 0 || last_use[from] != i) continue;
      free.push_back(in.operands[k]);
      last_use[from] = n;
    }
    if (i + 1 < n || !direct) {
      if (free.empty()) {
        free.push_back(static_cast<int>(inputs + constants_ + slots_++));
      }
      in.result = free.back();
      free.pop_back();
    }
    results_.push_back(in.result);
    code_.push_back(in);
  }
  return true;
}

// The 16-bit format that has each value of the program, by operand code; 0 for
// none. Moves keep it, with all bits of a NaN.
class ExactFormats {
 public:
  explicit ExactFormats(const ElementProgram& p) : p_(p), values_(p.in) {
    for (const ElementInstruction& in : p.code) {
      uint32_t format = 0;
      if (in.op == WEFT_OP_CAST) {
        format = static_cast<uint32_t>(in.operands[1]);
      } else if (in.op == WEFT_OP_IDENTITY) {
        format = Of(in.operands[0]);
      } else if (in.op == WEFT_OP_WHERE) {
        format = Common(in.operands[1], in.operands[2]);
      }
      values_.push_back(format);
    }
  }
  bool Has(int64_t code, uint32_t format) const {
    return code < 0 ? IsExact(p_.constants[-1 - code], format)
                    : values_[code] == format;
  }

 private:
  static bool IsExact(double value, uint32_t format) {
    const float f = static_cast<float>(value);
    return format == WEFT_F16 ? Half(f) == f : Bfloat(f) == f;
  }
  uint32_t Of(int64_t code) const { return code < 0 ? 0 : values_[code]; }
  uint32_t Common(int64_t a, int64_t b) const {
    const uint32_t format = a < 0 ? Of(b) : Of(a);
    const bool short_one = format == WEFT_F16 || format == WEFT_BF16;
    return short_one && Has(a, format) && Has(b, format) ? format : 0;
  }

  const ElementProgram& p_;
  std::vector<uint32_t> values_;
};

bool ElementKernel::ReadOutputs(const Op& op, const ElementProgram& p) {
  const ExactFormats formats(p);
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    Output output;
    bool found = false;
    if (!BlockOf(op, p.outputs[i], code_.size(), &output.block)) return false;
    Narrowing narrowing = p.saturate ? Narrowing::kSaturate : Narrowing::kWrap;
    if (p.wide == Wide::kFloat) {
      narrowing = formats.Has(p.outputs[i], p.out[i]) ? Narrowing::kExact
                                                      : Narrowing::kRound;
    }
    output.store = FindStore(p.wide, p.out[i], narrowing, &found);
    if (!found) {
      op.Unsupported("a result of this type");
      return false;
    }
    output.size = SizeOf(op.out[i].dtype);
    output.written = output.block < 0;
    if (streams_ && output.store != nullptr) {
      output.slot = static_cast<int>(slots_++);
    }
    outputs_.push_back(output);
  }
  return true;
}

void ElementKernel::ChooseBlock() {
  const int64_t most = kBlockBytes / width_ / (far_ ? 4 : 1);
  int64_t unit = kAligned;
  bool periodic = false, widens = false;
  for (Input& input : inputs_) {
    if (input.read == Read::kEachBlock) {
      const int64_t period = Period(input.plan);
      const int64_t both = period <= most ? Lcm(unit, period) : most + 1;
      if (both <= most) {
        unit = both;
        input.read = Read::kOnce;
        periodic = periodic || period > 1;
      }
    }
    if (input.read == Read::kDense && input.load == nullptr) continue;
    widens = widens || (input.load != nullptr && input.read != Read::kDense);
    input.slot = static_cast<int>(slots_++);
  }
  if (widens) ++slots_;
  block_ = most / unit * unit;
  for (const Input& input : inputs_) {
    const int last = input.plan.rank() - 1;
    const int64_t run = input.plan.dim(last);
    if (periodic || row_ > 0 || input.read != Read::kEachBlock ||
        input.plan.strides(last)[1] != 1 || run < most / 4) {
      continue;
    }
    // Read in its place: rows are cut evenly.
    row_ = run;
    const int64_t cuts = (run + most - 1) / most;
    const int64_t even = (run + cuts - 1) / cuts;
    block_ = std::min(most, (even + kAligned - 1) / kAligned * kAligned);
  }
  if (code_.size() <= 1 && slots_ == 0 && constants_ == 0) {
    block_ = std::max<int64_t>(count_, 1);
    far_ = false;
  }
}

void ElementKernel::ChooseParts() {
  const int64_t cost = std::max<int64_t>(1, cost_ / 2);
  int64_t parts = count_ <= kSerialElements / cost
                      ? 1
                      : std::min(kMaxParts, count_ / (kElementBlock / cost));
  const int64_t unit = std::min(block_, kElementBlock);
  const int64_t units = (count_ + unit - 1) / unit;
  part_ = std::max<int64_t>(1, (units + parts - 1) / parts) * unit;
  workspace_slots_ = slots_ > kStackSlots;
  if (!workspace_slots_) return;
  parts = (count_ + part_ - 1) / part_;
  workspace = static_cast<uint64_t>(parts * slots_ * kBlockBytes);
}

std::unique_ptr<Kernel> ElementKernel::AsOneLoop() const {
  const bool as_they_lie =
      std::all_of(inputs_.begin(), inputs_.end(), [](const Input& input) {
        return input.read == Read::kDense && input.load == nullptr;
      });
  if (code_.size() != 1 || !as_they_lie || slots_ != 0 || constants_ != 0 ||
      outputs_.size() != 1 || !outputs_[0].written) {
    return nullptr;
  }
  auto loop = std::make_unique<OneLoop>(code_[0].loop, code_[0].operands,
                                        width_, count_, part_);
  loop->in_place = in_place;
  return loop;
}

void ElementKernel::FillConstants(const ElementProgram& p) {
  constant_blocks_.resize(static_cast<size_t>(constants_ * kBlockBytes));
  for (size_t i = 0; i < p.constants.size(); ++i) {
    char* block = constant_blocks_.data() + i * kBlockBytes;
    for (int64_t j = 0; j < kBlockBytes / width_; ++j) {
      const float rounded = static_cast<float>(p.constants[i]);
      if (width_ == 4) std::memcpy(block + j * 4, &rounded, 4);
      if (width_ == 8) std::memcpy(block + j * 8, &p.constants[i], 8);
    }
  }
}

}  // namespace

std::unique_ptr<Kernel> MakeElementwise(const Op& op,
                                        const ElementProgram& program) {
  auto kernel = std::make_unique<ElementKernel>();
  if (!kernel->Build(op, program)) return nullptr;
  std::unique_ptr<Kernel> loop = kernel->AsOneLoop();
  return loop != nullptr ? std::move(loop) : std::move(kernel);
}

WEFT_CPU_END
