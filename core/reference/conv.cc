// Convolution and its gradients: three readings of the same products.
#include "core/ops/window.h"
#include "core/reference/evaluators.h"

namespace weft {
namespace reference {
namespace {

// Calls use(y, x, w) with the row-major positions of every product
// y += x * w of a convolution; what would read padding is left out.
template <typename Use>
void ForEachProduct(const ConvGeometry& g, Use use) {
  const Window2d& win = g.window;
  Index y(g.OutputShape());
  Shape taps = {g.in_per_group, win.kernel[0], win.kernel[1]};
  for (; !y.done(); y.Next()) {
    int64_t n = y.at()[0], m = y.at()[1];
    int64_t first_channel = m / g.out_per_group * g.in_per_group;
    for (Index tap(taps); !tap.done(); tap.Next()) {
      int64_t channel = first_channel + tap.at()[0];
      int64_t row = win.ImagePosition(0, y.at()[2], tap.at()[1]);
      int64_t column = win.ImagePosition(1, y.at()[3], tap.at()[2]);
      if (row < 0 || row >= win.in[0]) continue;
      if (column < 0 || column >= win.in[1]) continue;
      int64_t plane = n * g.in_channels() + channel;
      use(y.position(), (plane * win.in[0] + row) * win.in[1] + column,
          m * taps.num_elements() + tap.position());
    }
  }
}

absl::Status EvaluateConv(const OpView& op, absl::Span<const Tensor> in,
                          std::vector<Tensor>* out) {
  ConvGeometry g = *GetConvGeometry(op, in[0].shape, in[1].shape);
  std::vector<double>& y = (*out)[0].v;
  if (op.has_input(2)) {
    for (Index it(g.OutputShape()); !it.done(); it.Next()) {
      y[it.position()] = in[2].v[it.at()[1]];
    }
  }
  ForEachProduct(g, [&](int64_t yi, int64_t xi, int64_t wi) {
    y[yi] += in[0].v[xi] * in[1].v[wi];
  });
  return absl::OkStatus();
}

absl::Status EvaluateConvGradInput(const OpView& op,
                                   absl::Span<const Tensor> in,
                                   std::vector<Tensor>* out) {
  Tensor& dx = (*out)[0];
  ForEachProduct(*GetConvGeometry(op, dx.shape, in[1].shape),
                 [&](int64_t yi, int64_t xi, int64_t wi) {
                   dx.v[xi] += in[0].v[yi] * in[1].v[wi];
                 });
  return absl::OkStatus();
}

absl::Status EvaluateConvGradWeights(const OpView& op,
                                     absl::Span<const Tensor> in,
                                     std::vector<Tensor>* out) {
  Tensor& dw = (*out)[0];
  ForEachProduct(*GetConvGeometry(op, in[1].shape, dw.shape),
                 [&](int64_t yi, int64_t xi, int64_t wi) {
                   dw.v[wi] += in[0].v[yi] * in[1].v[xi];
                 });
  if (out->size() < 2) return absl::OkStatus();
  for (Index it(in[0].shape); !it.done(); it.Next()) {
    (*out)[1].v[it.at()[1]] += in[0].v[it.position()];
  }
  return absl::OkStatus();
}

}  // namespace

void AddConvEvaluators(EvaluatorTable* table) {
  table->Add(OpId::kConv, EvaluateConv);
  table->Add(OpId::kConvGradInput, EvaluateConvGradInput);
  table->Add(OpId::kConvGradWeights, EvaluateConvGradWeights);
}

}  // namespace reference
}  // namespace weft
