#include "devices/cpu/dnnl_op.h"  // before target.h
//
#include "devices/cpu/dnnl_conv.h"
#include "devices/cpu/epilogue.h"
#include "devices/cpu/parallel.h"

WEFT_CPU_BEGIN
namespace {

using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
using Desc = dnnl::memory::desc;
using Algorithm = dnnl::algorithm;
constexpr auto kF32 = dnnl::memory::data_type::f32;

// Images that are worth a thread of their own: some 200 us, and 64 operations
// for each byte of the weights, which every part reads.
constexpr double kPartFlops = 16e6;
constexpr double kFlopsPerWeightByte = 64;
constexpr int64_t kMaxParts = 32;
// Each part of a Winograd convolution transforms all weights again and takes
// scratch of many megabytes.
constexpr int64_t kMaxWinogradParts = 2;
// Bound of the memory for gradients of the parts.
constexpr int64_t kMaxPartialBytes = int64_t{32} << 20;

int64_t WeightCount(const ConvShape& s) {
  return s.out_channels() * s.in_per_group * s.window.kernel[0] *
         s.window.kernel[1];
}

double FlopsOfImage(const ConvShape& s) {
  return 2.0 * static_cast<double>(s.window.out_size()) *
         static_cast<double>(WeightCount(s));
}

// Winograd's F(4,3) computes tiles of 4 x 4 results with 36 products for each
// pair of channels instead of 144. What is spared there is spent on turning
// tiles of the images and the weights. The prices, in operations of a direct
// convolution, come from measurements.
bool PrefersWinograd(uint32_t op, const ConvShape& s) {
  const Window& w = s.window;
  if (!s.x_blocked || !s.y_blocked || s.groups > 1) return false;
  for (int d = 0; d < 2; ++d) {
    if (w.kernel[d] != 3 || w.stride[d] != 1 || w.dilation[d] != 1 ||
        w.pad_begin[d] > 1 || w.pad_end[d] > 1) {
      return false;
    }
  }
  constexpr double kTurnPixel = 60, kTurnWeight = 180;
  const int64_t* extent = op == WEFT_OP_CONV_GRAD_INPUT ? w.image : w.out;
  const double tiles = static_cast<double>(w.batch * ((extent[0] + 3) / 4) *
                                           ((extent[1] + 3) / 4));
  const double in = static_cast<double>(w.channels);
  const double out = static_cast<double>(s.out_channels());
  const double winograd =
      36 * (2 * tiles * in * out + kTurnPixel * tiles * (in + out) +
            kTurnWeight * in * out * static_cast<double>(kMaxWinogradParts));
  return winograd < 0.9 * FlopsOfImage(s) * static_cast<double>(w.batch);
}

// Images in a part: a divisor of the batch, so that parts are of one shape and
// one primitive does for all.
int64_t ImagesPerPart(const ConvShape& s, int64_t max_parts) {
  const double wanted =
      std::max(kPartFlops,
               kFlopsPerWeightByte * 4 * static_cast<double>(WeightCount(s))) /
      FlopsOfImage(s);
  const int64_t batch = s.window.batch;
  for (int64_t n = 1; n < batch; ++n) {
    if (batch % n == 0 && batch / n <= max_parts &&
        static_cast<double>(n) >= wanted) {
      return n;
    }
  }
  return batch;
}

int64_t Elements(const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

// oneDNN runs anything in any layout; what it has no code for by plain loops or
// after copies of its own, which is no reason to choose that layout.
template <class PrimitiveDesc>
void RequireFast(const PrimitiveDesc& pd, const ConvShape& s) {
  if (!s.x_blocked && !s.y_blocked) return;
  const std::string_view name = pd.impl_info_str();
  if (name.substr(0, 3) == "jit" || name.substr(0, 3) == "brg") return;
  throw dnnl::error(dnnl_unimplemented, "no fast kernel in this layout");
}

// The batch is cut into parts, by shapes alone; each part is one call of oneDNN
// in one thread. Weights are reordered once for all parts. The gradient of the
// weights is the balanced tree over those of the parts.
class DnnlConv final : public Kernel {
 public:
  DnnlConv(uint32_t op, const ConvShape& s, bool winograd)
      : bias_(s.bias),
        relu_(s.relu),
        grad_weights_(op == WEFT_OP_CONV_GRAD_WEIGHTS),
        bias_count_(s.out_channels()) {
    OneThread one_thread;
    int64_t max_parts = winograd ? kMaxWinogradParts : kMaxParts;
    if (grad_weights_) {
      max_parts = std::clamp<int64_t>(kMaxPartialBytes / (WeightCount(s) * 4),
                                      1, max_parts);
    }
    const int64_t images = ImagesPerPart(s, max_parts);
    parts_ = s.window.batch / images;
    SetPart(op, s, images,
            winograd ? Algorithm::convolution_winograd
                     : Algorithm::convolution_direct);
    part_bytes_ = part_.workspace_bytes();
    workspace = first_part_ + static_cast<uint64_t>(parts_) * part_bytes_;
    if (grad_weights_ && parts_ > 1) {
      partials_ = workspace;
      bias_offset_ = Align64(weights_wanted_.get_size());
      partial_bytes_ =
          bias_offset_ + Align64(static_cast<uint64_t>(bias_count_) * 4);
      workspace += static_cast<uint64_t>(parts_) * partial_bytes_;
      SetReorder(weights_wanted_, weights_user_);
    }
  }

  void Prepare() override {
    part_.Prepare();
    if (reorders_) reorder_.Prepare();
  }

  void Run(const Args& a) const override {
    char* const scratch = static_cast<char*>(a.workspace);
    const char* weights = a.Input<char>(1);
    if (reorders_ && !grad_weights_) {
      void* operands[] = {const_cast<char*>(weights), scratch};
      reorder_.Run(operands, scratch + reorder_scratch_);
      weights = scratch;
    }
    ParallelBlocks(parts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) RunPart(a, weights, i);
    });
    if (!grad_weights_ || parts_ == 1) return;
    char* const first = scratch + partials_;
    AddPartials(first, static_cast<int64_t>(weights_wanted_.get_size() / 4));
    void* operands[] = {first, a.out[0]};
    reorder_.Run(operands, scratch + reorder_scratch_);
    if (!bias_) return;
    AddPartials(first + bias_offset_, bias_count_);
    std::memcpy(a.out[1], first + bias_offset_,
                static_cast<size_t>(bias_count_) * 4);
  }

 private:
  // Sets part_, its operands in the order of the kernel's, and first_part_.
  void SetPart(uint32_t op, const ConvShape& s, int64_t images,
               Algorithm algorithm) {
    const Window& w = s.window;
    const Dims x_dims = {images, w.channels, w.image[0], w.image[1]};
    const Dims y_dims = {images, s.out_channels(), w.out[0], w.out[1]};
    Dims w_dims = {s.out_per_group, s.in_per_group, w.kernel[0], w.kernel[1]};
    if (s.groups > 1) w_dims.insert(w_dims.begin(), s.groups);
    auto image = [](const Dims& dims, bool blocked, Tag nchw) {
      return Desc(dims, kF32, blocked ? Tag::nChw16c : nchw);
    };
    const Desc x = image(x_dims, s.x_blocked, Tag::any);
    const Desc y = image(y_dims, s.y_blocked, Tag::any);
    const Desc weights(w_dims, kF32, Tag::any);
    const Desc x_user = image(x_dims, s.x_blocked, Tag::nchw);
    const Desc y_user = image(y_dims, s.y_blocked, Tag::nchw);
    const Desc w_user(w_dims, kF32, s.groups > 1 ? Tag::goihw : Tag::oihw);
    const Desc bias = s.bias ? Desc({s.out_channels()}, kF32, Tag::a) : Desc();
    const Dims strides = {w.stride[0], w.stride[1]};
    const Dims dilates = {w.dilation[0] - 1, w.dilation[1] - 1};
    const Dims begin = {w.pad_begin[0], w.pad_begin[1]};
    const Dims end = {w.pad_end[0], w.pad_end[1]};
    const dnnl::primitive_attr attr = UserScratchpad();
    using Forward = dnnl::convolution_forward;
    Forward::primitive_desc forward(
        Forward::desc(dnnl::prop_kind::forward_training, algorithm, x, weights,
                      bias, y, strides, dilates, begin, end),
        attr, CpuEngine());
    weights_user_ = w_user;
    const int64_t x_bytes = Elements(x_dims) * 4,
                  y_bytes = Elements(y_dims) * 4;
    if (op == WEFT_OP_CONV) {
      RequireFast(forward, s);
      in_bytes_ = x_bytes;
      out_bytes_ = y_bytes;
      SetWeights(forward.weights_desc());
      part_.SetPrimitive(forward.scratchpad_desc(),
                         [forward] { return Forward(forward); });
      part_.AddInput(DNNL_ARG_SRC, x_user, forward.src_desc());
      part_.AddInput(DNNL_ARG_WEIGHTS, weights_wanted_, weights_wanted_);
      if (s.bias) part_.AddInput(DNNL_ARG_BIAS, bias, bias);
      part_.AddOutput(DNNL_ARG_DST, y_user, forward.dst_desc());
    } else if (op == WEFT_OP_CONV_GRAD_INPUT) {
      using Backward = dnnl::convolution_backward_data;
      Backward::primitive_desc pd(Backward::desc(algorithm, x, weights, y,
                                                 strides, dilates, begin, end),
                                  attr, CpuEngine(), forward);
      RequireFast(pd, s);
      in_bytes_ = y_bytes;
      out_bytes_ = x_bytes;
      SetWeights(pd.weights_desc());
      part_.SetPrimitive(pd.scratchpad_desc(), [pd] { return Backward(pd); });
      part_.AddInput(DNNL_ARG_DIFF_DST, y_user, pd.diff_dst_desc());
      part_.AddInput(DNNL_ARG_WEIGHTS, weights_wanted_, weights_wanted_);
      part_.AddOutput(DNNL_ARG_DIFF_SRC, x_user, pd.diff_src_desc());
    } else {
      using Backward = dnnl::convolution_backward_weights;
      Backward::primitive_desc pd(Backward::desc(algorithm, x, weights, bias, y,
                                                 strides, dilates, begin, end),
                                  attr, CpuEngine(), forward);
      RequireFast(pd, s);
      in_bytes_ = y_bytes;
      x_bytes_ = x_bytes;
      weights_wanted_ = pd.diff_weights_desc();
      part_.SetPrimitive(pd.scratchpad_desc(), [pd] { return Backward(pd); });
      part_.AddInput(DNNL_ARG_DIFF_DST, y_user, pd.diff_dst_desc());
      part_.AddInput(DNNL_ARG_SRC, x_user, pd.src_desc());
      part_.AddOutput(DNNL_ARG_DIFF_WEIGHTS,
                      parts_ > 1 ? weights_wanted_ : w_user, weights_wanted_);
      if (s.bias) part_.AddOutput(DNNL_ARG_DIFF_BIAS, bias, bias);
    }
  }

  // The weights as the parts read them lie at the start of the workspace.
  void SetWeights(const Desc& wanted) {
    weights_wanted_ = wanted;
    if (wanted == weights_user_) return;
    first_part_ = Align64(wanted.get_size());
    reorder_scratch_ = first_part_;
    SetReorder(weights_user_, wanted);
    first_part_ += reorder_.workspace_bytes();
  }

  void SetReorder(const Desc& from, const Desc& to) {
    reorders_ = true;
    if (grad_weights_) reorder_scratch_ = workspace;
    dnnl::reorder::primitive_desc pd(CpuEngine(), from, CpuEngine(), to,
                                     UserScratchpad());
    reorder_.SetPrimitive(pd.scratchpad_desc(),
                          [pd] { return dnnl::reorder(pd); });
    reorder_.AddInput(DNNL_ARG_FROM, from, from);
    reorder_.AddOutput(DNNL_ARG_TO, to, to);
    if (grad_weights_) workspace += reorder_.workspace_bytes();
  }

  void RunPart(const Args& a, const char* weights, int64_t i) const {
    char* const scratch = static_cast<char*>(a.workspace);
    void* operands[4];
    int n = 0;
    auto add = [&](const void* p) { operands[n++] = const_cast<void*>(p); };
    add(a.Input<char>(0) + i * in_bytes_);
    if (grad_weights_) {
      char* const partial =
          scratch + partials_ + static_cast<uint64_t>(i) * partial_bytes_;
      add(a.Input<char>(1) + i * x_bytes_);
      add(parts_ == 1 ? a.Output<char>(0) : partial);
      if (bias_) add(parts_ == 1 ? a.Output<char>(1) : partial + bias_offset_);
    } else {
      add(weights);
      if (bias_) add(a.in[2]);
      add(a.Output<char>(0) + i * out_bytes_);
    }
    part_.Run(operands,
              scratch + first_part_ + static_cast<uint64_t>(i) * part_bytes_);
    if (!relu_) return;
    ReluRows(reinterpret_cast<float*>(operands[n - 1]), 1, out_bytes_ / 4, 0);
  }

  // `first` is the first part's `count` numbers. Leaves the sum there.
  void AddPartials(char* first, int64_t count) const {
    auto partial = [&](int64_t i) {
      return reinterpret_cast<float*>(first + static_cast<uint64_t>(i) *
                                                  partial_bytes_);
    };
    ParallelElements(count, parts_, [&](int64_t begin, int64_t end) {
      for (int64_t width = 1; width < parts_; width *= 2) {
        for (int64_t i = 0; i + width < parts_; i += 2 * width) {
          float* to = partial(i);
          const float* from = partial(i + width);
          for (int64_t k = begin; k < end; ++k) to[k] += from[k];
        }
      }
    });
  }

  bool bias_;
  bool relu_;
  bool grad_weights_;
  int64_t bias_count_;
  int64_t parts_ = 1;
  DnnlOp part_;
  int64_t in_bytes_ = 0;   // of operand 0, for each part
  int64_t x_bytes_ = 0;    // of the image, where it is operand 1
  int64_t out_bytes_ = 0;  // of the result, where the parts share it out
  Desc weights_user_, weights_wanted_;
  bool reorders_ = false;
  DnnlOp reorder_;  // of the weights, or of the sum of their gradients
  uint64_t reorder_scratch_ = 0;
  uint64_t first_part_ = 0, part_bytes_ = 0;
  // Of a part's gradients: that of the bias lies behind that of the weights.
  uint64_t partials_ = 0, partial_bytes_ = 0, bias_offset_ = 0;
};

std::unique_ptr<Kernel> TryDnnlConv(uint32_t op, const ConvShape& s,
                                    bool winograd) {
  try {
    return std::make_unique<DnnlConv>(op, s, winograd);
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
    return nullptr;
  }
}

}  // namespace

std::unique_ptr<Kernel> MakeDnnlConv(uint32_t op, const ConvShape& shape) {
  std::unique_ptr<Kernel> kernel;
  if (PrefersWinograd(op, shape)) kernel = TryDnnlConv(op, shape, true);
  return kernel != nullptr ? std::move(kernel) : TryDnnlConv(op, shape, false);
}

WEFT_CPU_END
