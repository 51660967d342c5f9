// Pooling and its gradients, window by window.
#include <cmath>

#include "core/ops/window.h"
#include "core/reference/evaluators.h"

namespace weft {
namespace reference {
namespace {

// One window: the image elements that it covers, row by row.
struct Window {
  std::vector<int64_t> elements;
  // Elements and padding; what ceil_mode overhangs is neither.
  int64_t padded_count = 0;
};

// Calls use(y, window) for every window of images of shape `x`, where y is the
// row-major position of the window's result.
template <typename Use>
void ForEachWindow(const OpView& op, const Shape& x, Use use) {
  Window2d g = *PoolWindow(op, x);
  auto in_padded = [&g](int d, int64_t position) {
    return position >= -g.pad_begin[d] && position < g.in[d] + g.pad_end[d];
  };
  Shape y = {x.dim(0), x.dim(1), g.out[0], g.out[1]};
  for (Index it(y); !it.done(); it.Next()) {
    int64_t plane = it.at()[0] * x.dim(1) + it.at()[1];
    Window window;
    for (Index k({g.kernel[0], g.kernel[1]}); !k.done(); k.Next()) {
      int64_t row = g.ImagePosition(0, it.at()[2], k.at()[0]);
      int64_t column = g.ImagePosition(1, it.at()[3], k.at()[1]);
      if (!in_padded(0, row) || !in_padded(1, column)) continue;
      ++window.padded_count;
      if (row < 0 || row >= g.in[0]) continue;
      if (column < 0 || column >= g.in[1]) continue;
      window.elements.push_back((plane * g.in[0] + row) * g.in[1] + column);
    }
    use(it.position(), window);
  }
}

// The first maximum; a NaN counts as above all numbers.
int64_t FirstMaximum(const Window& window, const std::vector<double>& x) {
  int64_t best = window.elements[0];
  for (int64_t i : window.elements) {
    if (x[i] > x[best] || (std::isnan(x[i]) && !std::isnan(x[best]))) best = i;
  }
  return best;
}

double Divisor(const OpView& op, const Window& window) {
  bool include_pad = op.Int("count_include_pad") != 0;
  return static_cast<double>(
      include_pad ? window.padded_count
                  : static_cast<int64_t>(window.elements.size()));
}

absl::Status EvaluateMaxPool(const OpView& op, absl::Span<const Tensor> in,
                             std::vector<Tensor>* out) {
  ForEachWindow(op, in[0].shape, [&](int64_t y, const Window& window) {
    (*out)[0].v[y] = in[0].v[FirstMaximum(window, in[0].v)];
  });
  return absl::OkStatus();
}

absl::Status EvaluateMaxPoolGrad(const OpView& op, absl::Span<const Tensor> in,
                                 std::vector<Tensor>* out) {
  ForEachWindow(op, in[1].shape, [&](int64_t y, const Window& window) {
    (*out)[0].v[FirstMaximum(window, in[1].v)] += in[0].v[y];
  });
  return absl::OkStatus();
}

absl::Status EvaluateAveragePool(const OpView& op, absl::Span<const Tensor> in,
                                 std::vector<Tensor>* out) {
  ForEachWindow(op, in[0].shape, [&](int64_t y, const Window& window) {
    double sum = 0;
    for (int64_t i : window.elements) sum += in[0].v[i];
    (*out)[0].v[y] = sum / Divisor(op, window);
  });
  return absl::OkStatus();
}

absl::Status EvaluateAveragePoolGrad(const OpView& op,
                                     absl::Span<const Tensor> in,
                                     std::vector<Tensor>* out) {
  Tensor& dx = (*out)[0];
  ForEachWindow(op, dx.shape, [&](int64_t y, const Window& window) {
    double share = in[0].v[y] / Divisor(op, window);
    for (int64_t i : window.elements) dx.v[i] += share;
  });
  return absl::OkStatus();
}

absl::Status EvaluateGlobalAveragePool(const OpView&,
                                       absl::Span<const Tensor> in,
                                       std::vector<Tensor>* out) {
  std::vector<double>& y = (*out)[0].v;
  if (y.empty()) return absl::OkStatus();
  size_t pixels = in[0].v.size() / y.size();
  for (size_t plane = 0; plane < y.size(); ++plane) {
    double sum = 0;
    for (size_t i = 0; i < pixels; ++i) sum += in[0].v[plane * pixels + i];
    y[plane] = sum / static_cast<double>(pixels);
  }
  return absl::OkStatus();
}

}  // namespace

void AddPoolEvaluators(EvaluatorTable* table) {
  table->Add(OpId::kMaxPool, EvaluateMaxPool);
  table->Add(OpId::kMaxPoolGrad, EvaluateMaxPoolGrad);
  table->Add(OpId::kAveragePool, EvaluateAveragePool);
  table->Add(OpId::kAveragePoolGrad, EvaluateAveragePoolGrad);
  table->Add(OpId::kGlobalAveragePool, EvaluateGlobalAveragePool);
}

}  // namespace reference
}  // namespace weft
