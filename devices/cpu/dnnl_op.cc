#include "devices/cpu/dnnl_op.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "devices/cpu/bf16.h"
#include "plugins/sdk/weft_host.hpp"

namespace weft_cpu {
namespace {

constexpr size_t kContexts = 64;

enum class Bf16 { kAuto, kDnnl, kF32 };
std::atomic<Bf16> bf16{Bf16::kAuto};

void Bind(const dnnl::memory& memory, void* address) {
  if (memory.get_data_handle() != address) memory.set_data_handle(address);
}

// The C++ wrapper collects its arguments in a map on every call.
void Execute(const dnnl::primitive& primitive, const dnnl::stream& stream,
             const dnnl_exec_arg_t* args, size_t count) {
  dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive.get(), stream.get(),
                                                 static_cast<int>(count), args),
                          "oneDNN could not run a primitive");
}

void Reorder(const dnnl::reorder& reorder, const dnnl::stream& stream,
             const dnnl::memory& from, const dnnl::memory& to) {
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from.get()},
                                  {DNNL_ARG_TO, to.get()}};
  Execute(reorder, stream, args, 2);
}

}  // namespace

OneThread::OneThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}
OneThread::~OneThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}

const dnnl::engine& CpuEngine() {
  static const auto* const engine =
      new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

bool ChooseBf16(std::string_view name) {
  for (auto [known, value] :
       {std::pair("auto", Bf16::kAuto), std::pair("onednn", Bf16::kDnnl),
        std::pair("f32", Bf16::kF32)}) {
    if (name != known) continue;
    bf16 = value;
    return true;
  }
  return false;
}

bool MultipliesBf16() {
  const Bf16 choice = bf16;
  if (choice != Bf16::kAuto) return choice == Bf16::kDnnl;
  // Classes are sets of bits, each for something that the processor has.
  constexpr auto kAmx = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_amx);
  const auto has = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (has & kAmx) == kAmx;
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

void DnnlOp::SetPrimitive(const dnnl::memory::desc& scratchpad,
                          std::function<dnnl::primitive()> make) {
  make_ = std::move(make);
  scratchpad_ = scratchpad;
  scratchpad_offset_ = workspace_bytes_;
  workspace_bytes_ += Align64(scratchpad.get_size());
}

void DnnlOp::AddInput(int arg, const dnnl::memory::desc& user,
                      const dnnl::memory::desc& wanted) {
  Add(arg, false, user, wanted);
}

void DnnlOp::AddOutput(int arg, const dnnl::memory::desc& user,
                       const dnnl::memory::desc& wanted) {
  Add(arg, true, user, wanted);
}

void DnnlOp::Add(int arg, bool output, const dnnl::memory::desc& user,
                 const dnnl::memory::desc& wanted) {
  Operand operand{arg, output, user, wanted, user != wanted, 0, {}};
  if (operand.reordered) {
    operand.offset = workspace_bytes_;
    workspace_bytes_ += Align64(wanted.get_size());
  }
  operands_.push_back(std::move(operand));
}

void DnnlOp::Prepare() {
  OneThread one_thread;
  primitive_ = make_();
  for (Operand& operand : operands_) {
    if (!operand.reordered) continue;
    const auto& from = operand.output ? operand.wanted : operand.user;
    const auto& to = operand.output ? operand.user : operand.wanted;
    operand.reorder = dnnl::reorder(
        dnnl::reorder::primitive_desc(CpuEngine(), from, CpuEngine(), to));
  }
  // One for each thread that may be in Run at once, within reason.
  idle_.reserve(kContexts);
  const size_t threads = weft_sdk::Host::ThreadBudget();
  for (size_t i = 0; i < std::min(threads, kContexts); ++i) {
    idle_.push_back(MakeContext());
  }
}

std::unique_ptr<DnnlOp::Context> DnnlOp::MakeContext() const {
  auto context = std::make_unique<Context>();
  context->stream = dnnl::stream(CpuEngine());
  for (const Operand& operand : operands_) {
    Bound bound;
    bound.user = dnnl::memory(operand.user, CpuEngine(), nullptr);
    bound.wanted = operand.reordered
                       ? dnnl::memory(operand.wanted, CpuEngine(), nullptr)
                       : bound.user;
    context->args.push_back({operand.arg, bound.wanted.get()});
    context->bound.push_back(std::move(bound));
  }
  context->scratchpad = dnnl::memory(scratchpad_, CpuEngine(), nullptr);
  context->args.push_back({DNNL_ARG_SCRATCHPAD, context->scratchpad.get()});
  return context;
}

void DnnlOp::Run(void* const* operands, void* workspace) const {
  OneThread one_thread;
  std::unique_ptr<Context> context;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!idle_.empty()) {
      context = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (context == nullptr) context = MakeContext();
  char* const scratch = static_cast<char*>(workspace);
  if (scratchpad_.get_size() > 0) {
    Bind(context->scratchpad, scratch + scratchpad_offset_);
  }
  for (size_t i = 0; i < operands_.size(); ++i) {
    const Operand& operand = operands_[i];
    const Bound& bound = context->bound[i];
    Bind(bound.user, operands[i]);
    if (!operand.reordered) continue;
    Bind(bound.wanted, scratch + operand.offset);
    if (!operand.output) {
      Reorder(operand.reorder, context->stream, bound.user, bound.wanted);
    }
  }
  Execute(primitive_, context->stream, context->args.data(),
          context->args.size());
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i].reordered && operands_[i].output) {
      const Bound& bound = context->bound[i];
      Reorder(operands_[i].reorder, context->stream, bound.wanted, bound.user);
    }
  }
  std::lock_guard<std::mutex> lock(mu_);
  idle_.push_back(std::move(context));
}

}  // namespace weft_cpu
