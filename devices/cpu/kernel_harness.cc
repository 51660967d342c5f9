#include "devices/cpu/kernel_harness.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>
#include <mutex>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/schema.h"
#include "core/ops/to_all.h"
#include "core/reference/evaluate.h"
#include "devices/testing/attributes.h"
#include "gtest/gtest.h"
#include "plugins/host/plugin.h"
#include "plugins/host/test_plugins.h"

namespace weft::cpu {
namespace {

// The tolerance table: |got - want| <= relative * max(|want|, scale), where the
// scale is the largest |want| of the tensor for kAccumulated, else 0, and at
// least the smallest normal number. Rows: Numerics.
struct Tolerance {
  double f32, f64, f16, bf16;
};
constexpr Tolerance kTolerances[] = {
    {0, 0, 0, 0},                  // kExact
    {4e-7, 1e-15, 1.0e-3, 8e-3},   // kRounded
    {2e-6, 2e-15, 1.0e-3, 8e-3},   // kTranscendental
    {2e-5, 1e-12, 2.0e-3, 1.6e-2}  // kAccumulated
};

double ToleranceOf(Numerics numerics, DType dtype) {
  const Tolerance& row = kTolerances[static_cast<int>(numerics)];
  switch (dtype) {
    case DType::kF32:
      return row.f32;
    case DType::kF64:
      return row.f64;
    case DType::kF16:
      return row.f16;
    case DType::kBF16:
      return row.bf16;
    default:
      return 0;
  }
}

double SmallestNormal(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return std::numeric_limits<double>::min();
    case DType::kF16:
      return std::ldexp(1.0, -14);
    default:
      return std::numeric_limits<float>::min();
  }
}

constexpr uint64_t kGuard = 192;
constexpr uint8_t kGuardByte = 0xC3;

// Device memory for one operand between guard bytes.
class Guarded {
 public:
  Guarded(Device& device, uint64_t bytes, uint64_t shift)
      : device_(device), bytes_(bytes), offset_(kGuard + shift) {
    mem_ = *device_.Alloc(total());
    base_ = static_cast<uint8_t*>(*device_.HostMap(mem_, 0, total()));
    std::memset(base_, kGuardByte, total());
  }
  ~Guarded() { EXPECT_TRUE(device_.Free(mem_).ok()); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  uint8_t* data() { return base_ + offset_; }
  weft_buffer buffer() const { return AtDevice(mem_, offset_); }
  bool Intact() const {
    auto guard = [](uint8_t b) { return b == kGuardByte; };
    return std::all_of(base_, base_ + offset_, guard) &&
           std::all_of(base_ + offset_ + bytes_, base_ + total(), guard);
  }

 private:
  uint64_t total() const { return offset_ + bytes_ + kGuard; }

  Device& device_;
  uint64_t bytes_;
  uint64_t offset_;
  weft_mem mem_ = 0;
  uint8_t* base_ = nullptr;
};

const OpSchema& SchemaOf(const OpCase& c) {
  const OpSchema* schema = OpRegistry::Global().FindOrNull(c.op);
  EXPECT_NE(schema, nullptr) << c.op;
  return *schema;
}

std::vector<TensorType> InputTypes(const OpCase& c) {
  std::vector<TensorType> types;
  for (const Literal& input : c.inputs) types.push_back(input.type());
  return types;
}

bool Updates(const RunOptions& options, size_t result) {
  return result < 32 && (options.updates >> result & 1) != 0;
}

// Inputs that a launch writes to, by the options.
bool Overwritten(const RunOptions& options, size_t input) {
  return static_cast<int>(input) == options.in_place || Updates(options, input);
}

}  // namespace

std::string OpCase::ToString() const {
  std::string text = op + "(";
  for (const Literal& input : inputs) {
    absl::StrAppend(&text, input.type().ToString(), " ");
  }
  text += ") {";
  for (const auto& [name, value] : attrs) {
    absl::StrAppend(&text, name, ": ", weft::ToString(value), " ");
  }
  return text + "}";
}

Device& CpuDevice() {
  static Device* device = [] {
    absl::StatusOr<const Plugin*> plugin =
        Plugin::Load("cpu", TestLoadOptions({"devices/cpu"}));
    EXPECT_TRUE(plugin.ok()) << plugin.status();
    Device::Options options;
    if (const char* isa = std::getenv("TEST_ISA")) {
      options.emplace_back("isa", isa);
    }
    if (const char* bf16 = std::getenv("TEST_BF16")) {
      options.emplace_back("bf16", bf16);
    }
    absl::StatusOr<std::unique_ptr<Device>> opened =
        Device::Open(**plugin, 0, options);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened->release();
  }();
  return *device;
}

std::vector<TensorType> OutputTypes(const OpCase& c) {
  const OpSchema& schema = SchemaOf(c);
  int n = c.num_outputs >= 0 ? c.num_outputs : schema.outputs.min;
  absl::StatusOr<std::vector<TensorType>> types =
      InferTypes(schema, "case", c.attrs, InputTypes(c), n);
  if (!types.ok()) {
    std::cerr << c.ToString() << types.status() << std::endl;
    std::abort();
  }
  return *types;
}

std::unique_ptr<OpDesc> Describe(const OpCase& c) {
  const OpSchema& schema = SchemaOf(c);
  auto desc = std::make_unique<OpDesc>(static_cast<uint32_t>(schema.id));
  for (const Literal& input : c.inputs) {
    if (input.type().dtype == DType::kInvalid) {
      desc->NoIn();
    } else {
      desc->In(static_cast<uint32_t>(input.type().dtype),
               DimsOf(input.type().shape));
    }
  }
  for (const TensorType& type : OutputTypes(c)) {
    desc->Out(static_cast<uint32_t>(type.dtype), DimsOf(type.shape));
  }
  for (const AttrSpec& spec : schema.attrs) {
    const Attr* given = c.attrs.Find(spec.name);
    if (given != nullptr) {
      SetAttribute(spec.name, *given, desc.get());
    } else if (spec.has_default) {
      SetAttribute(spec.name, spec.default_value, desc.get());
    }
  }
  return desc;
}

// A number that stands for all results of this process but those of products,
// printed at its end (isa_test.sh compares it).
class Digest {
 public:
  static Digest& Get() {
    static Digest digest;
    return digest;
  }
  ~Digest() { std::printf("digest %016llx of %d results\n", hash_, count_); }

  void Add(const OpCase& c, const std::vector<Literal>& results) {
    if (c.op == "MatMul" || c.op == "Gemm" || absl::StartsWith(c.op, "Conv") ||
        absl::StartsWith(c.op, "weft.Conv") ||
        absl::StartsWith(c.op, "weft.SelfAttention")) {
      return;
    }
    std::lock_guard<std::mutex> lock(mu_);
    for (const Literal& result : results) {
      ++count_;
      if (IsFloat(result.type().dtype)) {
        for (double x : result.ToDoubles()) Add(x == x ? x : kNan);
      } else {
        for (char byte : result.bytes()) Add(byte);
      }
    }
  }

 private:
  static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

  void Add(double x) {  // FNV-1a, eight bytes at a time
    unsigned long long bits;
    std::memcpy(&bits, &x, sizeof bits);
    hash_ = (hash_ ^ bits) * 0x100000001b3ull;
  }

  std::mutex mu_;
  unsigned long long hash_ = 0xcbf29ce484222325ull;
  int count_ = 0;
};

absl::StatusOr<std::vector<Literal>> RunOnCpu(const OpCase& c,
                                              const RunOptions& options) {
  Device& device = CpuDevice();
  std::unique_ptr<OpDesc> desc = Describe(c);
  WEFT_ASSIGN_OR_RETURN(std::optional<KernelMatch> match,
                        device.Match(desc->desc()));
  if (!match.has_value()) {
    return absl::UnimplementedError(absl::StrCat("no kernel: ", c.ToString()));
  }
  EXPECT_TRUE(match->deterministic);
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
                        device.OpenKernel(desc->desc()));
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, device.OpenStream());

  std::vector<TensorType> types = OutputTypes(c);
  std::vector<std::unique_ptr<Guarded>> in, out;
  std::vector<weft_buffer> in_buffers, out_buffers;
  for (const Literal& input : c.inputs) {
    absl::string_view bytes = input.bytes();
    in.push_back(
        std::make_unique<Guarded>(device, bytes.size(), options.shift));
    if (!bytes.empty()) {
      std::memcpy(in.back()->data(), bytes.data(), bytes.size());
    }
    bool absent = input.type().dtype == DType::kInvalid;
    in_buffers.push_back(absent ? weft_buffer{} : in.back()->buffer());
  }
  for (size_t i = 0; i < types.size(); ++i) {
    uint64_t bytes = static_cast<uint64_t>(types[i].num_bytes());
    out.push_back(std::make_unique<Guarded>(device, bytes, options.shift));
    std::memset(out.back()->data(), options.garbage, bytes);
    out_buffers.push_back(out.back()->buffer());
  }
  if (options.in_place >= 0) out_buffers[0] = in_buffers[options.in_place];
  for (size_t i = 0; i < types.size(); ++i) {
    if (Updates(options, i)) out_buffers[i] = in_buffers[i];
  }
  Guarded workspace(device, match->workspace_bytes, 0);
  std::memset(workspace.data(), options.garbage, match->workspace_bytes);
  weft_buffer scratch = workspace.buffer();
  WEFT_RETURN_IF_ERROR(
      kernel->Launch(*stream, in_buffers.data(), out_buffers.data(), &scratch));

  EXPECT_TRUE(workspace.Intact()) << c.ToString();
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_TRUE(in[i]->Intact()) << c.ToString() << " input " << i;
    if (Overwritten(options, i) || c.inputs[i].bytes().empty()) {
      continue;
    }
    EXPECT_EQ(std::memcmp(in[i]->data(), c.inputs[i].bytes().data(),
                          c.inputs[i].bytes().size()),
              0)
        << c.ToString() << " changed input " << i;
  }
  std::vector<Literal> results;
  for (size_t i = 0; i < types.size(); ++i) {
    EXPECT_TRUE(out[i]->Intact()) << c.ToString() << " output " << i;
    const bool updates = Updates(options, i);
    const bool moved = updates || (i == 0 && options.in_place >= 0);
    Guarded& from = moved ? *in[updates ? i : options.in_place] : *out[i];
    results.emplace_back(
        types[i], std::string(reinterpret_cast<const char*>(from.data()),
                              static_cast<size_t>(types[i].num_bytes())));
  }
  Digest::Get().Add(c, results);
  return results;
}

void ExpectClose(const Literal& got, const Literal& want, Numerics numerics,
                 const std::string& what) {
  ASSERT_EQ(got.type(), want.type()) << what;
  std::vector<double> a = got.ToDoubles(), b = want.ToDoubles();
  DType dtype = want.type().dtype;
  double scale = SmallestNormal(dtype);
  if (numerics == Numerics::kAccumulated) {
    for (double v : b) {
      if (std::isfinite(v)) scale = std::max(scale, std::fabs(v));
    }
  }
  double tolerance = ToleranceOf(numerics, dtype);
  int shown = 0;
  for (size_t i = 0; i < a.size() && shown < 5; ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i]) continue;
    double error = std::fabs(a[i] - b[i]);
    if (error <= tolerance * std::max(std::fabs(b[i]), scale)) continue;
    ++shown;
    ADD_FAILURE() << what << ": element " << i << " is " << a[i]
                  << " instead of " << b[i];
  }
}

void ExpectMatchesReference(const OpCase& c, Numerics numerics) {
  const OpSchema& schema = SchemaOf(c);
  std::vector<TensorType> in = InputTypes(c), out = OutputTypes(c);
  OpView view(schema, "case", c.attrs, in, out);
  absl::StatusOr<std::vector<Literal>> want = Evaluate(view, c.inputs);
  ASSERT_TRUE(want.ok()) << c.ToString() << want.status();
  absl::StatusOr<std::vector<Literal>> got = RunOnCpu(c, {});
  ASSERT_TRUE(got.ok()) << c.ToString() << got.status();
  ASSERT_EQ(got->size(), want->size()) << c.ToString();
  for (size_t i = 0; i < want->size(); ++i) {
    ExpectClose((*got)[i], (*want)[i], numerics,
                absl::StrCat(c.ToString(), " output ", i));
  }
  // The same bits with other garbage and elsewhere.
  std::vector<RunOptions> others(1);
  others[0].garbage = 0xFF;  // NaN as floats
  others[0].shift = 64;
  absl::StatusOr<std::optional<KernelMatch>> match =
      CpuDevice().Match(Describe(c)->desc());
  ASSERT_TRUE(match.ok() && match->has_value()) << c.ToString();
  // Bits for the first 32 operands.
  const int inputs = std::min(static_cast<int>(c.inputs.size()), 32);
  for (int i = 0; i < inputs; ++i) {
    if (((*match)->in_place >> i & 1) == 0) continue;
    others.emplace_back();
    others.back().in_place = i;
  }
  // Results that may be the memory of operands.
  const size_t over = std::min({out.size(), c.inputs.size(), size_t{32}});
  const auto all = static_cast<uint32_t>((uint64_t{1} << over) - 1);
  if (schema.effect == OpEffect::kUpdate) {
    others.emplace_back();
    others.back().updates = all;
  } else if (GivesToAll(schema)) {
    for (uint32_t some : {all, 0x55555555u & all, 0xAAAAAAAAu & all}) {
      others.emplace_back();
      others.back().updates = some;
    }
  }
  for (const RunOptions& options : others) {
    absl::StatusOr<std::vector<Literal>> again = RunOnCpu(c, options);
    ASSERT_TRUE(again.ok()) << c.ToString() << again.status();
    for (size_t i = 0; i < got->size(); ++i) {
      EXPECT_TRUE((*again)[i] == (*got)[i])
          << c.ToString() << " output " << i << " has other bits with in_place "
          << options.in_place << ", updates " << options.updates;
    }
  }
}

double Values::Next() { return engine_() * (1.0 / 4294967296.0); }

int64_t Values::Pick(int64_t low, int64_t high) {
  return low +
         static_cast<int64_t>(Next() * static_cast<double>(high - low + 1));
}

Literal Values::Uniform(DType dtype, const Shape& shape, double low,
                        double high) {
  std::vector<double> values(static_cast<size_t>(shape.num_elements()));
  for (double& v : values) {
    v = low + Next() * (high - low);
    if (!IsFloat(dtype)) v = std::floor(v);
  }
  if (dtype == DType::kBool) {
    for (double& v : values) v = Next() < 0.5;
  }
  return Literal::FromDoubles({dtype, shape}, values);
}

Literal Values::Special(DType dtype, const Shape& shape) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double specials[] = {0.0,   -0.0,   kInf,   -kInf,  std::nan(""),
                             1e-40, -1e-40, 1e-310, 3e38,   -3e38,
                             1.0,   -1.0,   0.5,    -2.5,   65504.0,
                             127.0, -128.0, 255.0,  256.0,  2147483647.0,
                             1e19,  -1e19,  88.8,   -104.0, 6e-8};
  std::vector<double> values = Uniform(dtype, shape, -4, 4).ToDoubles();
  for (size_t i = 0; i < values.size(); i += 4) {
    values[i] = specials[Pick(0, std::size(specials) - 1)];
    if (dtype == DType::kI64 && std::fabs(values[i]) > 1e15) values[i] = 7;
  }
  return Literal::FromDoubles({dtype, shape}, values);
}

}  // namespace weft::cpu
