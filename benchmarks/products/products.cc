// What the products of the MLP's training step take alone: those of 784-512-
// 512-10 with batches of 128, forward and gradients, each by the faster of
// oneDNN's matmul primitive and its sgemm, one after the other in one thread.
// The lower bound of a step that `weft profile` measures.
//
//   OMP_NUM_THREADS=1 products
//
// Figures: RESULT lines (benchmarks/result.h).
#include <cstdint>
#include <dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "benchmarks/result.h"

namespace weft::benchmarks {
namespace {

constexpr int kRepetitions = 21;

// y [m,n] = a [m,k] b [k,n]; a transposed operand lies as its transpose.
struct Product {
  const char* name;
  int64_t m, n, k;
  bool ta, tb;
};

// (No gradient of the images.)
const Product kProducts[] = {
    {"fc1", 128, 512, 784, false, false},
    {"fc2", 128, 512, 512, false, false},
    {"output", 128, 10, 512, false, false},
    {"output gradient of operand", 128, 512, 10, false, true},
    {"output gradient of weights", 512, 10, 128, true, false},
    {"fc2 gradient of operand", 128, 512, 512, false, true},
    {"fc2 gradient of weights", 512, 512, 128, true, false},
    {"fc1 gradient of weights", 784, 512, 128, true, false},
};

using Memory = std::vector<float>;

Memory Made(int64_t count) {
  Memory out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(static_cast<int>(i % 17) - 8) / 16;
  }
  return out;
}

struct Operands {
  explicit Operands(const Product& p)
      : a(Made(p.m * p.k)), b(Made(p.k * p.n)), y(Made(p.m * p.n)) {}
  Memory a, b, y;
};

class Primitive {
 public:
  Primitive(const Product& p, Operands* o) : stream_(Engine()) {
    using Desc = dnnl::memory::desc;
    constexpr auto kF32 = dnnl::memory::data_type::f32;
    const Desc a(
        {p.m, p.k}, kF32,
        p.ta ? dnnl::memory::dims{1, p.m} : dnnl::memory::dims{p.k, 1});
    const Desc b(
        {p.k, p.n}, kF32,
        p.tb ? dnnl::memory::dims{1, p.k} : dnnl::memory::dims{p.n, 1});
    const Desc y({p.m, p.n}, kF32, dnnl::memory::dims{p.n, 1});
    matmul_ = dnnl::matmul({{a, b, y}, Engine()});
    args_ = {{DNNL_ARG_SRC, {a, Engine(), o->a.data()}},
             {DNNL_ARG_WEIGHTS, {b, Engine(), o->b.data()}},
             {DNNL_ARG_DST, {y, Engine(), o->y.data()}}};
  }
  void Run() {
    matmul_.execute(stream_, args_);
    stream_.wait();
  }

 private:
  static dnnl::engine& Engine() {
    static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    return engine;
  }
  dnnl::stream stream_;
  dnnl::matmul matmul_;
  std::unordered_map<int, dnnl::memory> args_;
};

void Sgemm(const Product& p, Operands* o) {
  dnnl::error::wrap_c_api(
      dnnl_sgemm(p.ta ? 'T' : 'N', p.tb ? 'T' : 'N', p.m, p.n, p.k, 1.0f,
                 o->a.data(), p.ta ? p.m : p.k, o->b.data(), p.tb ? p.k : p.n,
                 0.0f, o->y.data(), p.n),
      "sgemm");
}

void Main() {
  std::vector<Operands> operands;
  for (const Product& p : kProducts) operands.emplace_back(p);
  std::vector<Primitive> primitives;
  std::vector<bool> by_sgemm;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Product& p = kProducts[i];
    primitives.emplace_back(p, &operands[i]);
    const std::vector<double> matmul = Measure(
        kRepetitions, [&] { primitives[i].Run(); }, 1000);
    const std::vector<double> sgemm = Measure(
        kRepetitions, [&] { Sgemm(p, &operands[i]); }, 1000);
    by_sgemm.push_back(Median(sgemm) < Median(matmul));
    PrintResult("products", p.name, by_sgemm[i] ? "sgemm" : "matmul",
                by_sgemm[i] ? sgemm : matmul, "us");
  }
  auto step = [&] {
    for (size_t i = 0; i < operands.size(); ++i) {
      by_sgemm[i] ? Sgemm(kProducts[i], &operands[i]) : primitives[i].Run();
    }
  };
  PrintResult("products", "all of a step of the MLP", "time",
              Measure(10 * kRepetitions, step, 1e6), "ms");
}

}  // namespace
}  // namespace weft::benchmarks

int main() {
  weft::benchmarks::Main();
  return 0;
}
