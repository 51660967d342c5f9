// Conv and its gradients: oneDNN for f32, in the layouts that it prefers (which
// costs a reorder of each operand); plain loops for f64 and for empty shapes.
#include <algorithm>
#include <utility>
#include <vector>

#include "devices/cpu/dnnl_op.h"
#include "devices/cpu/reduction.h"
#include "devices/cpu/via_float.h"
#include "devices/cpu/window.h"

namespace weft_cpu {
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

class DnnlConv final : public Kernel {
 public:
  DnnlConv(uint32_t op, const ConvShape& s) : bias_(s.bias) {
    OneThread one_thread;
    const Window& w = s.window;
    const Dims x_dims = {w.batch, w.channels, w.image[0], w.image[1]};
    const Dims y_dims = {w.batch, s.out_channels(), w.out[0], w.out[1]};
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
    if (op == WEFT_OP_CONV) {
      op_.SetPrimitive(forward.scratchpad_desc(),
                       [forward] { return Forward(forward); });
      op_.AddInput(DNNL_ARG_SRC, x_user, forward.src_desc());
      op_.AddInput(DNNL_ARG_WEIGHTS, w_user, forward.weights_desc());
      if (s.bias) op_.AddInput(DNNL_ARG_BIAS, bias, bias);
      op_.AddOutput(DNNL_ARG_DST, y_user, forward.dst_desc());
    } else if (op == WEFT_OP_CONV_GRAD_INPUT) {
      using Backward = dnnl::convolution_backward_data;
      Backward::primitive_desc pd(Backward::desc(algorithm, x, weights, y,
                                                 strides, dilates, begin, end),
                                  attr, CpuEngine(), forward);
      op_.SetPrimitive(pd.scratchpad_desc(), [pd] { return Backward(pd); });
      op_.AddInput(DNNL_ARG_DIFF_DST, y_user, pd.diff_dst_desc());
      op_.AddInput(DNNL_ARG_WEIGHTS, w_user, pd.weights_desc());
      op_.AddOutput(DNNL_ARG_DIFF_SRC, x_user, pd.diff_src_desc());
    } else {
      using Backward = dnnl::convolution_backward_weights;
      Backward::primitive_desc pd(Backward::desc(algorithm, x, weights, y,
                                                 strides, dilates, begin, end),
                                  attr, CpuEngine(), forward);
      op_.SetPrimitive(pd.scratchpad_desc(), [pd] { return Backward(pd); });
      op_.AddInput(DNNL_ARG_DIFF_DST, y_user, pd.diff_dst_desc());
      op_.AddInput(DNNL_ARG_SRC, x_user, pd.src_desc());
      op_.AddOutput(DNNL_ARG_DIFF_WEIGHTS, w_user, pd.diff_weights_desc());
    }
    workspace = op_.workspace_bytes();
  }

  void Prepare() override { op_.Prepare(); }

  void Run(const Args& a) const override {
    void* operands[4] = {const_cast<void*>(a.in[0]),
                         const_cast<void*>(a.in[1])};
    int n = 2;
    if (bias_) operands[n++] = const_cast<void*>(a.in[2]);
    operands[n] = a.out[0];
    op_.Run(operands, a.workspace);
  }

 private:
  bool bias_;
  DnnlOp op_;
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

}  // namespace weft_cpu
