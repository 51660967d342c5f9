// Conv and its gradients: oneDNN for f32, in the layouts that it prefers (which
// costs a reorder of each operand); plain loops for f64 and for empty shapes.
#include "devices/cpu/dnnl_op.h"  // before target.h
//
#include "devices/cpu/factories.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/reduction.h"
#include "devices/cpu/via_float.h"
#include "devices/cpu/window.h"

WEFT_CPU_BEGIN
namespace {

struct ConvShape {
  Window window;
  int64_t groups = 1;
  int64_t in_per_group = 0;
  int64_t out_per_group = 0;
  bool bias = false;

  int64_t out_channels() const { return groups * out_per_group; }
};

// ---- Plain loops
// -------------------------------------------------------------

// f(row, column of the image) for the elements of window (oh, ow) that lie in
// the image, with their index in the kernel.
template <class F>
void ForEachInWindow(const Window& w, int64_t oh, int64_t ow, F f) {
  for (int64_t kh = 0; kh < w.kernel[0]; ++kh) {
    int64_t h = w.At(0, oh, kh);
    if (h < 0 || h >= w.image[0]) continue;
    for (int64_t kw = 0; kw < w.kernel[1]; ++kw) {
      int64_t x = w.At(1, ow, kw);
      if (x < 0 || x >= w.image[1]) continue;
      f(h * w.image[1] + x, kh * w.kernel[1] + kw);
    }
  }
}

// f(image index, weight index, result index) for every product of the
// convolution, in one fixed order.
template <class F>
void ForEachProduct(const ConvShape& s, F f) {
  const Window& w = s.window;
  const int64_t kernel = w.kernel[0] * w.kernel[1];
  for (int64_t n = 0; n < w.batch; ++n) {
    for (int64_t m = 0; m < s.out_channels(); ++m) {
      const int64_t group = m / s.out_per_group;
      for (int64_t o = 0; o < w.out_size(); ++o) {
        const int64_t out = (n * s.out_channels() + m) * w.out_size() + o;
        for (int64_t c = 0; c < s.in_per_group; ++c) {
          const int64_t image =
              (n * w.channels + group * s.in_per_group + c) * w.image_size();
          const int64_t weight = (m * s.in_per_group + c) * kernel;
          ForEachInWindow(
              w, o / w.out[1], o % w.out[1],
              [&](int64_t at, int64_t k) { f(image + at, weight + k, out); });
        }
      }
    }
  }
}

template <class T>
std::unique_ptr<Kernel> MakePlain(const Op& op, const ConvShape& s) {
  const int64_t count = op.out[0].count;
  switch (op.id) {
    case WEFT_OP_CONV:
      return MakeKernel([s, count](const Args& a) {
        const T *x = a.Input<T>(0), *w = a.Input<T>(1);
        T* y = a.Output<T>(0);
        for (int64_t i = 0; i < count; ++i) {
          int64_t m = i / s.window.out_size() % s.out_channels();
          y[i] = s.bias ? a.Input<T>(2)[m] : T(0);
        }
        ForEachProduct(s, [&](int64_t image, int64_t weight, int64_t out) {
          y[out] += x[image] * w[weight];
        });
      });
    case WEFT_OP_CONV_GRAD_INPUT:
      return MakeKernel([s, count](const Args& a) {
        const T *dy = a.Input<T>(0), *w = a.Input<T>(1);
        T* dx = a.Output<T>(0);
        std::fill(dx, dx + count, T(0));
        ForEachProduct(s, [&](int64_t image, int64_t weight, int64_t out) {
          dx[image] += dy[out] * w[weight];
        });
      });
    default:
      return MakeKernel([s, count](const Args& a) {
        const T *dy = a.Input<T>(0), *x = a.Input<T>(1);
        T* dw = a.Output<T>(0);
        std::fill(dw, dw + count, T(0));
        ForEachProduct(s, [&](int64_t image, int64_t weight, int64_t out) {
          dw[weight] += dy[out] * x[image];
        });
      });
  }
}

// ---- oneDNN
// ------------------------------------------------------------------

using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
using Desc = dnnl::memory::desc;
constexpr auto kF32 = dnnl::memory::data_type::f32;

// Images that are worth a thread of their own: some 200 us.
constexpr double kPartFlops = 16e6;
constexpr int64_t kMaxParts = 32;
// Bound of the memory for gradients of the parts.
constexpr int64_t kMaxPartialBytes = int64_t{32} << 20;

// Images in a part: a divisor of the batch, so that parts are of one shape and
// one primitive does for all.
int64_t ImagesPerPart(const ConvShape& s, int64_t max_parts) {
  const double flops =
      2.0 * static_cast<double>(s.window.out_size() * s.out_channels()) *
      static_cast<double>(s.in_per_group * s.window.kernel[0] *
                          s.window.kernel[1]);
  const double wanted = kPartFlops / flops;
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

// The batch is cut into parts, by shapes alone; each part is one call of oneDNN
// in one thread. Weights are reordered once for all parts. The gradient of the
// weights is the balanced tree over those of the parts.
class DnnlConv final : public Kernel {
 public:
  DnnlConv(uint32_t op, const ConvShape& s)
      : bias_(s.bias), grad_weights_(op == WEFT_OP_CONV_GRAD_WEIGHTS) {
    OneThread one_thread;
    const int64_t weights = s.out_channels() * s.in_per_group *
                            s.window.kernel[0] * s.window.kernel[1];
    const int64_t max_parts =
        grad_weights_ ? std::clamp<int64_t>(kMaxPartialBytes / (weights * 4), 1,
                                            kMaxParts)
                      : kMaxParts;
    const int64_t images = ImagesPerPart(s, max_parts);
    parts_ = s.window.batch / images;
    SetPart(op, s, images);
    part_bytes_ = part_.workspace_bytes();
    workspace = first_part_ + static_cast<uint64_t>(parts_) * part_bytes_;
    if (grad_weights_ && parts_ > 1) {
      partials_ = workspace;
      partial_bytes_ = Align64(weights_wanted_.get_size());
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
    AddPartials(scratch + partials_);
    void* operands[] = {scratch + partials_, a.out[0]};
    reorder_.Run(operands, scratch + reorder_scratch_);
  }

 private:
  // Sets part_, its operands in the order of the kernel's, and first_part_.
  void SetPart(uint32_t op, const ConvShape& s, int64_t images) {
    const Window& w = s.window;
    const Dims x_dims = {images, w.channels, w.image[0], w.image[1]};
    const Dims y_dims = {images, s.out_channels(), w.out[0], w.out[1]};
    Dims w_dims = {s.out_per_group, s.in_per_group, w.kernel[0], w.kernel[1]};
    if (s.groups > 1) w_dims.insert(w_dims.begin(), s.groups);
    const Desc x(x_dims, kF32, Tag::any), y(y_dims, kF32, Tag::any);
    const Desc weights(w_dims, kF32, Tag::any);
    const Desc x_user(x_dims, kF32, Tag::nchw), y_user(y_dims, kF32, Tag::nchw);
    const Desc w_user(w_dims, kF32, s.groups > 1 ? Tag::goihw : Tag::oihw);
    const Desc bias = s.bias ? Desc({s.out_channels()}, kF32, Tag::a) : Desc();
    const Dims strides = {w.stride[0], w.stride[1]};
    const Dims dilates = {w.dilation[0] - 1, w.dilation[1] - 1};
    const Dims begin = {w.pad_begin[0], w.pad_begin[1]};
    const Dims end = {w.pad_end[0], w.pad_end[1]};
    const auto algorithm = dnnl::algorithm::convolution_direct;
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
      in_bytes_ = y_bytes;
      out_bytes_ = x_bytes;
      SetWeights(pd.weights_desc());
      part_.SetPrimitive(pd.scratchpad_desc(), [pd] { return Backward(pd); });
      part_.AddInput(DNNL_ARG_DIFF_DST, y_user, pd.diff_dst_desc());
      part_.AddInput(DNNL_ARG_WEIGHTS, weights_wanted_, weights_wanted_);
      part_.AddOutput(DNNL_ARG_DIFF_SRC, x_user, pd.diff_src_desc());
    } else {
      using Backward = dnnl::convolution_backward_weights;
      Backward::primitive_desc pd(Backward::desc(algorithm, x, weights, y,
                                                 strides, dilates, begin, end),
                                  attr, CpuEngine(), forward);
      in_bytes_ = y_bytes;
      x_bytes_ = x_bytes;
      weights_wanted_ = pd.diff_weights_desc();
      part_.SetPrimitive(pd.scratchpad_desc(), [pd] { return Backward(pd); });
      part_.AddInput(DNNL_ARG_DIFF_DST, y_user, pd.diff_dst_desc());
      part_.AddInput(DNNL_ARG_SRC, x_user, pd.src_desc());
      part_.AddOutput(DNNL_ARG_DIFF_WEIGHTS,
                      parts_ > 1 ? weights_wanted_ : w_user, weights_wanted_);
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
      add(a.Input<char>(1) + i * x_bytes_);
      add(parts_ == 1 ? a.Output<char>(0)
                      : scratch + partials_ +
                            static_cast<uint64_t>(i) * partial_bytes_);
    } else {
      add(weights);
      if (bias_) add(a.in[2]);
      add(a.Output<char>(0) + i * out_bytes_);
    }
    part_.Run(operands,
              scratch + first_part_ + static_cast<uint64_t>(i) * part_bytes_);
  }

  // Leaves the sum in the first.
  void AddPartials(char* first) const {
    const int64_t count =
        static_cast<int64_t>(weights_wanted_.get_size() / sizeof(float));
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
  bool grad_weights_;
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
  uint64_t partials_ = 0, partial_bytes_ = 0;
};

// ---- Factory
// -----------------------------------------------------------------

bool ReadShape(const Op& op, ConvShape* s) {
  const bool forward = op.id == WEFT_OP_CONV;
  if (!op.Arity(2, forward ? 3 : 2, 1, 1)) return false;
  const bool grad_input = op.id == WEFT_OP_CONV_GRAD_INPUT;
  const Tensor& image = forward ? op.in[0] : grad_input ? op.out[0] : op.in[1];
  const Tensor& weights = forward || grad_input ? op.in[1] : op.out[0];
  const Tensor& result = forward ? op.out[0] : op.in[0];
  for (const Tensor& t : op.in) {
    op.Check(!t.present() || t.dtype == op.out[0].dtype, "the types differ");
  }
  if (!op.ok()) return false;
  if (!op.Check(weights.rank == 4, "weights that are not [M,C/group,kH,kW]") ||
      !ReadWindow(op, image, result, {weights.dims[2], weights.dims[3]}, false,
                  &s->window)) {
    return false;
  }
  s->groups = op.Int("group", 1);
  s->in_per_group = weights.dims[1];
  bool fits = s->groups > 0 && weights.dims[0] % s->groups == 0 &&
              result.dims[1] == weights.dims[0] &&
              s->window.channels == s->groups * s->in_per_group;
  if (!op.Check(fits, "channels and groups do not fit")) return false;
  s->out_per_group = weights.dims[0] / s->groups;
  s->bias = forward && op.HasInput(2);
  return op.Check(
      !s->bias || (op.in[2].rank == 1 && op.in[2].dims[0] == s->out_channels()),
      "a bias that does not fit");
}

std::unique_ptr<Kernel> MakeConvFloat(const Op& op) {
  ConvShape s;
  if (!ReadShape(op, &s)) return nullptr;
  bool empty =
      op.in[0].count == 0 || op.in[1].count == 0 || op.out[0].count == 0;
  if (op.out[0].dtype == WEFT_F32 && !empty) {
    try {
      return std::make_unique<DnnlConv>(op.id, s);
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw;
    }
  }
  return WithF32F64(op.out[0].dtype, [&](auto tag) {
    return MakePlain<typename decltype(tag)::Storage>(op, s);
  });
}

}  // namespace

std::unique_ptr<Kernel> MakeConv(const Op& op) {
  return ViaFloat(op, MakeConvFloat);
}

WEFT_CPU_END
