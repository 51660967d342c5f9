// Conv and its gradients: oneDNN for f32 (dnnl_conv.h), plain loops for f64 and
// for empty shapes.
#include "devices/cpu/dnnl_conv.h"
#include "devices/cpu/epilogue.h"
#include "devices/cpu/factories.h"
#include "devices/cpu/numeric.h"
#include "devices/cpu/via_float.h"

WEFT_CPU_BEGIN
namespace {

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

// Where pixel `at` of a channel lies.
struct ImageIndex {
  int64_t channels, pixels;
  bool blocked;

  int64_t operator()(int64_t n, int64_t c, int64_t at) const {
    if (!blocked) return (n * channels + c) * pixels + at;
    const int64_t block = (n * channels + c) / kChannelBlock;
    return (block * pixels + at) * kChannelBlock + c % kChannelBlock;
  }
};

// f(image index, weight index, result index) for every product of the
// convolution, in one fixed order.
template <class F>
void ForEachProduct(const ConvShape& s, F f) {
  const Window& w = s.window;
  const ImageIndex image{w.channels, w.image_size(), s.x_blocked};
  const ImageIndex result{s.out_channels(), w.out_size(), s.y_blocked};
  const int64_t kernel = w.kernel[0] * w.kernel[1];
  for (int64_t n = 0; n < w.batch; ++n) {
    for (int64_t m = 0; m < s.out_channels(); ++m) {
      const int64_t group = m / s.out_per_group;
      for (int64_t o = 0; o < w.out_size(); ++o) {
        const int64_t out = result(n, m, o);
        for (int64_t c = 0; c < s.in_per_group; ++c) {
          const int64_t weight = (m * s.in_per_group + c) * kernel;
          ForEachInWindow(
              w, o / w.out[1], o % w.out[1], [&](int64_t at, int64_t k) {
                f(image(n, group * s.in_per_group + c, at), weight + k, out);
              });
        }
      }
    }
  }
}

// f(channel, index) for every element of the result.
template <class F>
void ForEachResult(const ConvShape& s, F f) {
  const ImageIndex result{s.out_channels(), s.window.out_size(), s.y_blocked};
  for (int64_t n = 0; n < s.window.batch; ++n) {
    for (int64_t m = 0; m < s.out_channels(); ++m) {
      for (int64_t o = 0; o < s.window.out_size(); ++o) f(m, result(n, m, o));
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
        ForEachResult(s, [&](int64_t m, int64_t i) {
          y[i] = s.bias ? a.Input<T>(2)[m] : T(0);
        });
        ForEachProduct(s, [&](int64_t image, int64_t weight, int64_t out) {
          y[out] += x[image] * w[weight];
        });
        if (s.relu) ReluRows(y, 1, count, 0);
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
        if (!s.bias) return;
        T* db = a.Output<T>(1);
        std::fill(db, db + s.out_channels(), T(0));
        ForEachResult(s, [&](int64_t m, int64_t i) { db[m] += dy[i]; });
      });
  }
}

// ---- Factory
// -----------------------------------------------------------------

bool ReadShape(const Op& op, ConvShape* s) {
  const bool forward = op.id == WEFT_OP_CONV;
  const bool grad_weights = op.id == WEFT_OP_CONV_GRAD_WEIGHTS;
  if (!op.Arity(2, forward ? 3 : 2, 1, grad_weights ? 2 : 1)) return false;
  const bool grad_input = op.id == WEFT_OP_CONV_GRAD_INPUT;
  s->x_blocked = ReadBlocked(op, "layout");
  s->y_blocked = ReadBlocked(op, "out_layout");
  const Tensor image = AsNchw(op,
                              forward      ? op.in[0]
                              : grad_input ? op.out[0]
                                           : op.in[1],
                              s->x_blocked);
  const Tensor& weights = forward || grad_input ? op.in[1] : op.out[0];
  const Tensor result =
      AsNchw(op, forward ? op.out[0] : op.in[0], s->y_blocked);
  for (const Tensor& t : op.in) {
    op.Check(!t.present() || t.dtype == op.out[0].dtype, "the types differ");
  }
  if (!op.ok()) return false;
  if (!op.Check(weights.rank == 4, "weights that are not [M,C/group,kH,kW]") ||
      !ReadWindow(op, image, result, {weights.dims[2], weights.dims[3]}, false,
                  &s->window)) {
    return false;
  }
  if (forward) {
    Epilogue epilogue;
    if (!ReadEpilogue(op, &epilogue)) return false;
    s->relu = epilogue.relu;
  }
  s->groups = op.Int("group", 1);
  s->in_per_group = weights.dims[1];
  bool fits = s->groups > 0 && weights.dims[0] % s->groups == 0 &&
              result.dims[1] == weights.dims[0] &&
              s->window.channels == s->groups * s->in_per_group;
  if (!op.Check(fits, "channels and groups do not fit")) return false;
  s->out_per_group = weights.dims[0] / s->groups;
  s->bias = (forward && op.HasInput(2)) || (grad_weights && op.HasOutput(1));
  if (!s->bias) return true;
  const Tensor& bias = forward ? op.in[2] : op.out[1];
  return op.Check(bias.dtype == op.out[0].dtype && bias.rank == 1 &&
                      bias.dims[0] == s->out_channels(),
                  "a bias that does not fit");
}

std::unique_ptr<Kernel> MakeConvFloat(const Op& op) {
  ConvShape s;
  if (!ReadShape(op, &s)) return nullptr;
  bool empty =
      op.in[0].count == 0 || op.in[1].count == 0 || op.out[0].count == 0;
  if (op.out[0].dtype == WEFT_F32 && !empty) {
    std::unique_ptr<Kernel> kernel = MakeDnnlConv(op.id, s);
    if (kernel != nullptr) return kernel;
    if (s.x_blocked || s.y_blocked) {
      return op.Unsupported("oneDNN has no fast kernel in this layout");
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
