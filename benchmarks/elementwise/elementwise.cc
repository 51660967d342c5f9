// What kernels that pass over memory reach of what a copy does, on one thread:
// a fused chain of elementwise instructions beside the same as one op after the
// other, GELU, softmax, layer normalisation, cross-entropy; attention, of which
// products are most; and small elementwise ops, whose operands stay in a cache.
// Bytes are those of operands and results, each counted once.
//
//   elementwise --plugin=PATH           all
//   elementwise --plugin=PATH NAME...   whose names hold one of these
//
// Figures: RESULT lines (benchmarks/result.h), GB/s for large operands (64 MiB
// each, or as said), GFLOP/s for attention and microseconds a launch for small
// ones.
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/plugin.h"
#include "benchmarks/result.h"
#include "glog/logging.h"
#include "plugins/abi/weft_op_ids.h"
#include "plugins/host/device.h"
#include "plugins/host/op_desc.h"
#include "plugins/host/plugin.h"

namespace weft::benchmarks {
namespace {

using Dims = std::vector<int64_t>;

struct Type {
  uint32_t dtype;
  Dims dims;
};

uint64_t BytesOf(const Type& type) {
  uint64_t n = type.dtype == WEFT_F32 || type.dtype == WEFT_I32 ? 4
               : type.dtype == WEFT_BOOL                        ? 1
                                                                : 2;
  for (int64_t dim : type.dims) n *= static_cast<uint64_t>(dim);
  return n;
}

// A kernel with memory for its operands and results, filled with values that
// every op here takes.
class Launchable {
 public:
  Launchable(Device* device, Stream* stream, uint32_t op,
             const std::vector<Type>& in, const std::vector<Type>& out,
             const std::function<void(OpDesc&)>& attributes,
             bool in_place = false)
      : device_(device), stream_(stream), desc_(op) {
    for (const Type& t : in) {
      desc_.In(t.dtype, t.dims);
      in_.push_back(NewBuffer(t));
    }
    for (const Type& t : out) {
      desc_.Out(t.dtype, t.dims);
      if (!in_place) out_.push_back(NewBuffer(t));
    }
    if (in_place) {  // written as well as read
      out_ = in_;
      bytes_ *= 2;
    }
    if (attributes) attributes(desc_);
    auto match = device->Match(desc_.desc());
    CHECK(match.ok()) << match.status();
    if (!match->has_value()) return;
    workspace_ = NewBuffer(
        {WEFT_BOOL, {static_cast<int64_t>((*match)->workspace_bytes + 64)}});
    bytes_ -= (*match)->workspace_bytes + 64;
    auto kernel = device->OpenKernel(desc_.desc());
    CHECK(kernel.ok()) << kernel.status();
    kernel_ = std::move(*kernel);
  }
  ~Launchable() {
    kernel_.reset();
    for (weft_mem mem : memory_) CHECK(device_->Free(mem).ok());
  }

  bool ok() const { return kernel_ != nullptr; }
  uint64_t bytes() const { return bytes_; }
  void Run() {
    CHECK(kernel_->Launch(*stream_, in_.data(), out_.data(), &workspace_).ok());
  }

 private:
  weft_buffer NewBuffer(const Type& type) {
    const uint64_t bytes = BytesOf(type);
    bytes_ += bytes;
    auto mem = device_->Alloc(bytes);
    CHECK(mem.ok()) << mem.status();
    memory_.push_back(*mem);
    auto host = device_->HostMap(*mem, 0, bytes);
    CHECK(host.ok()) << host.status();
    std::memset(*host, 0, bytes);
    if (type.dtype == WEFT_F32) {
      float* x = static_cast<float*>(*host);
      for (uint64_t i = 0; i < bytes / 4; ++i) {
        x[i] = static_cast<float>(i * 2654435761u % 4096) / 1024 - 2;
      }
    }
    return AtDevice(*mem, 0);
  }

  Device* device_;
  Stream* stream_;
  OpDesc desc_;
  uint64_t bytes_ = 0;
  std::vector<weft_mem> memory_;
  std::vector<weft_buffer> in_, out_;
  weft_buffer workspace_{};
  std::unique_ptr<Kernel> kernel_;
};

struct Case {
  std::string name;
  uint32_t op;
  std::vector<Type> in, out;
  std::function<void(OpDesc&)> attributes = nullptr;
  bool in_place = false;  // result i in the memory of operand i
};

constexpr int64_t kRows = 16384, kColumns = 1024;  // 64 MiB of f32

// ((x * y + 0.5) * x - y), relu, * 0.25: six instructions, two operands.
void ChainProgram(OpDesc& desc) {
  desc.Set("program", std::vector<int64_t>{WEFT_OP_MUL,  0, 1,  0,  //
                                           WEFT_OP_ADD,  2, -1, 0,  //
                                           WEFT_OP_MUL,  3, 0,  0,  //
                                           WEFT_OP_SUB,  4, 1,  0,  //
                                           WEFT_OP_RELU, 5, 0,  0,  //
                                           WEFT_OP_MUL,  6, -2, 0});
  desc.Set("constants", std::vector<double>{0.5, 0.25});
  desc.Set("outputs", std::vector<int64_t>{7});
}

// What all-reduce does with a block that `n` ranks have mapped.
Case ReduceToAll(const std::string& size, int64_t bytes, size_t n) {
  const std::vector<Type> x(n, {WEFT_F32, {bytes / 4}});
  return {"ReduceToAll " + std::to_string(n) + " of " + size,
          WEFT_OP_REDUCE_TO_ALL,
          x,
          x,
          nullptr,
          /*in_place=*/true};
}

std::vector<Case> LargeCases() {
  const Type x{WEFT_F32, {kRows, kColumns}}, column{WEFT_F32, {kRows, 1}};
  const Type row{WEFT_F32, {kColumns}}, one{WEFT_F32, {}};
  const Type labels{WEFT_I32, {kRows}};
  auto last_axis = [](OpDesc& d) { d.Set("axis", int64_t{-1}); };
  auto epsilon = [](OpDesc& d) {
    d.Set("axis", int64_t{-1});
    d.Set("epsilon", 1e-5);
  };
  return {
      {"Identity", WEFT_OP_IDENTITY, {x}, {x}},
      {"Add", WEFT_OP_ADD, {x, x}, {x}},
      {"Add row", WEFT_OP_ADD, {x, row}, {x}},
      {"Relu", WEFT_OP_RELU, {x}, {x}},
      {"Cast bf16",
       WEFT_OP_CAST,
       {x},
       {{WEFT_BF16, x.dims}},
       [](OpDesc& d) { d.SetDType("to", WEFT_BF16); }},
      {"Where", WEFT_OP_WHERE, {{WEFT_BOOL, x.dims}, x, x}, {x}},
      {"fused chain of 6", WEFT_OP_FUSED, {x, x}, {x}, ChainProgram},
      {"Gelu", WEFT_OP_GELU, {x}, {x}},
      {"GeluGrad", WEFT_OP_GELU_GRAD, {x, x}, {x}},
      {"Softmax", WEFT_OP_SOFTMAX, {x}, {x}, last_axis},
      {"LayerNormalization",
       WEFT_OP_LAYER_NORMALIZATION,
       {x, row, row},
       {x, column, column},
       epsilon},
      {"CrossEntropyLoss",
       WEFT_OP_SOFTMAX_CROSS_ENTROPY_LOSS,
       {x, labels, {WEFT_F32, {kRows}}},
       {one, x}},
      {"CrossEntropyLossGrad",
       WEFT_OP_SOFTMAX_CROSS_ENTROPY_LOSS_GRAD,
       {one, x, labels, {WEFT_F32, {kRows}}},
       {x}},
      {"CrossEntropyLossAndGrad",
       WEFT_OP_SOFTMAX_CROSS_ENTROPY_LOSS_AND_GRAD,
       {x, labels, {WEFT_F32, {kRows}}, one},
       {one, x}},
      {"ReduceSum rows",
       WEFT_OP_REDUCE_SUM,
       {x},
       {column},
       [](OpDesc& d) { d.Set("axes", std::vector<int64_t>{1}); }},
      {"ReduceSum columns",
       WEFT_OP_REDUCE_SUM,
       {x},
       {{WEFT_F32, {1, kColumns}}},
       [](OpDesc& d) { d.Set("axes", std::vector<int64_t>{0}); }},
      ReduceToAll("32MiB", 32 << 20, 2),
      ReduceToAll("32MiB", 32 << 20, 4),
      ReduceToAll("32MiB", 32 << 20, 8),
  };
}

std::vector<Case> SmallCases() {
  const Type x{WEFT_F32, {128, 512}}, h{WEFT_BF16, {128, 512}};
  const Type narrow{WEFT_F32, {4096, 10}}, one{WEFT_F32, {}};
  return {
      {"Add f32[]", WEFT_OP_ADD, {one, one}, {one}},
      {"Add f32[128,512]", WEFT_OP_ADD, {x, x}, {x}},
      {"Relu f32[128,512]", WEFT_OP_RELU, {x}, {x}},
      {"Add f32[128,512]+[512]", WEFT_OP_ADD, {x, {WEFT_F32, {512}}}, {x}},
      {"Add f32[128,512]+[128,1]", WEFT_OP_ADD, {x, {WEFT_F32, {128, 1}}}, {x}},
      {"Add f32[4096,10]+[10]",
       WEFT_OP_ADD,
       {narrow, {WEFT_F32, {10}}},
       {narrow}},
      {"Where f32[128,512]", WEFT_OP_WHERE, {{WEFT_BOOL, x.dims}, x, x}, {x}},
      {"Greater f32[128,512]",
       WEFT_OP_GREATER,
       {x, one},
       {{WEFT_BOOL, x.dims}}},
      {"Add bf16[128,512]", WEFT_OP_ADD, {h, h}, {h}},
      {"Gelu f32[128,512]", WEFT_OP_GELU, {x}, {x}},
      {"Gelu bf16[128,512]", WEFT_OP_GELU, {h}, {h}},
      {"GeluGrad f32[128,512]", WEFT_OP_GELU_GRAD, {x, x}, {x}},
      {"GeluGrad bf16[128,512]", WEFT_OP_GELU_GRAD, {h, h}, {h}},
      {"Exp f32[128,512]", WEFT_OP_EXP, {x}, {x}},
      ReduceToAll("512KiB", 512 << 10, 2),
      ReduceToAll("512KiB", 512 << 10, 4),
  };
}

// Causal attention and its gradient; of the products, what is visible counts.
void RunAttention(Device* device, Stream* stream,
                  const std::function<bool(const std::string&)>& wanted) {
  struct Heads {
    int64_t samples, tokens, heads, size;
  };
  for (const Heads& h : std::vector<Heads>{{32, 128, 4, 32},
                                           {32, 128, 2, 64},
                                           {4, 512, 8, 64},
                                           {1, 128, 4, 32}}) {
    const int64_t width = h.heads * h.size;
    const Type qkv{WEFT_F32, {h.samples, h.tokens, 3 * width}};
    const Type y{WEFT_F32, {h.samples, h.tokens, width}};
    const Type lse{WEFT_F32, {h.samples, h.heads, h.tokens}};
    auto causal = [&](OpDesc& d) {
      d.Set("heads", h.heads);
      d.Set("causal", int64_t{1});
    };
    const std::string shape =
        std::to_string(h.samples) + "x" + std::to_string(h.tokens) + "x" +
        std::to_string(h.heads) + "x" + std::to_string(h.size);
    const double weights = static_cast<double>(h.samples * h.heads) * 0.5 *
                           static_cast<double>(h.tokens * (h.tokens + 1));
    // Two products a weight; the gradient has five.
    const double flops = weights * 4 * static_cast<double>(h.size);
    auto run = [&](const Case& c, double work) {
      if (!wanted(c.name)) return;
      Launchable kernel(device, stream, c.op, c.in, c.out, c.attributes);
      if (!kernel.ok()) return;
      std::vector<double> rates = Measure(
          21, [&] { kernel.Run(); }, 1);
      for (double& v : rates) v = work / v;
      PrintResult("elementwise", c.name, "causal", rates, "GFLOP/s");
    };
    run({"SelfAttention " + shape,
         WEFT_OP_SELF_ATTENTION,
         {qkv},
         {y, lse},
         causal},
        flops);
    run({"SelfAttentionGrad " + shape,
         WEFT_OP_SELF_ATTENTION_GRAD,
         {qkv, y, lse, y},
         {qkv},
         causal},
        2.5 * flops);
  }
}

void RunCopy() {
  const size_t bytes = kRows * kColumns * 4;
  std::vector<char> from(bytes, 1), to(bytes, 2);
  std::vector<double> ns = Measure(
      9, [&] { std::memcpy(to.data(), from.data(), bytes); }, 1);
  for (double& v : ns) v = 2 * static_cast<double>(bytes) / v;
  PrintResult("elementwise", "memcpy", "GB/s", ns, "GB/s");
}

// The chain's six instructions as ops of their own.
void RunSeparate(Device* device, Stream* stream) {
  const Type x{WEFT_F32, {kRows, kColumns}}, one{WEFT_F32, {}};
  std::vector<std::unique_ptr<Launchable>> ops;
  const std::vector<std::pair<uint32_t, std::vector<Type>>> chain = {
      {WEFT_OP_MUL, {x, x}}, {WEFT_OP_ADD, {x, one}}, {WEFT_OP_MUL, {x, x}},
      {WEFT_OP_SUB, {x, x}}, {WEFT_OP_RELU, {x}},     {WEFT_OP_MUL, {x, one}}};
  for (const auto& [op, in] : chain) {
    ops.push_back(std::make_unique<Launchable>(device, stream, op, in,
                                               std::vector<Type>{x}, nullptr));
  }
  Launchable fused(device, stream, WEFT_OP_FUSED, {x, x}, {x}, ChainProgram);
  std::vector<double> ratio;
  for (int i = 0; i < 5; ++i) {
    auto separate = Measure(
        1,
        [&] {
          for (auto& op : ops) op->Run();
        },
        1);
    auto together = Measure(
        1, [&] { fused.Run(); }, 1);
    ratio.push_back(separate[0] / together[0]);
  }
  PrintResult("elementwise", "chain of 6, separate / fused", "time", ratio,
              "x");
}

bool Wanted(const std::string& name, int argc, char** argv) {
  bool any = false;
  for (int i = 2; i < argc; ++i) {
    any = true;
    if (name.find(argv[i]) != std::string::npos) return true;
  }
  return !any;
}

int Main(int argc, char** argv) {
  const std::string flag = "--plugin=";
  if (argc < 2 || std::string(argv[1]).rfind(flag, 0) != 0) {
    std::fprintf(stderr, "usage: elementwise --plugin=PATH [NAME...]\n");
    return 2;
  }
  auto device = Device::Open(LoadPlugin(argv[1] + flag.size()), 0, {});
  CHECK(device.ok()) << device.status();
  auto stream = (*device)->OpenStream();
  CHECK(stream.ok()) << stream.status();
  auto make = [&](const Case& c) {
    return Launchable(device->get(), stream->get(), c.op, c.in, c.out,
                      c.attributes, c.in_place);
  };
  if (Wanted("memcpy", argc, argv)) RunCopy();
  for (const Case& c : LargeCases()) {
    if (!Wanted(c.name, argc, argv)) continue;
    Launchable kernel = make(c);
    if (!kernel.ok()) continue;
    std::vector<double> ns = Measure(
        9, [&] { kernel.Run(); }, 1);
    for (double& v : ns) v = static_cast<double>(kernel.bytes()) / v;
    PrintResult("elementwise", c.name, "64 MiB", ns, "GB/s");
  }
  if (Wanted("separate", argc, argv)) RunSeparate(device->get(), stream->get());
  RunAttention(device->get(), stream->get(), [&](const std::string& name) {
    return Wanted(name, argc, argv);
  });
  for (const Case& c : SmallCases()) {
    if (!Wanted(c.name, argc, argv)) continue;
    Launchable kernel = make(c);
    if (!kernel.ok()) continue;
    constexpr int kLaunches = 200;
    std::vector<double> us = Measure(
        21,
        [&] {
          for (int i = 0; i < kLaunches; ++i) kernel.Run();
        },
        1000.0 * kLaunches);
    PrintResult("elementwise", c.name, "a launch", us, "us");
  }
  return 0;
}

}  // namespace
}  // namespace weft::benchmarks

int main(int argc, char** argv) { return weft::benchmarks::Main(argc, argv); }
