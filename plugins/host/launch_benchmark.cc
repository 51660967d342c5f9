// What a call through the plugin ABI costs, measured on the null device:
//   launch_benchmark [path of libweft_null.so]
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "benchmark/benchmark.h"
#include "plugins/host/device.h"
#include "plugins/host/op_desc.h"

namespace weft {
namespace {

const Plugin* g_plugin = nullptr;

struct Setup {
  Setup() {
    OpDesc op(WEFT_OP_RELU);
    op.In(WEFT_F32, {16}).Out(WEFT_F32, {16});
    device = Device::Open(*g_plugin, 0).value();
    stream = device->OpenStream().value();
    kernel = device->OpenKernel(op.desc()).value();
    x = device->Alloc(64).value();
    y = device->Alloc(64).value();
  }
  ~Setup() {
    kernel.reset();
    stream.reset();
    device->Free(x).IgnoreError();
    device->Free(y).IgnoreError();
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Kernel> kernel;
  weft_mem x, y;
};

void BM_Launch(benchmark::State& state) {
  Setup s;
  const weft_buffer in = AtDevice(s.x);
  const weft_buffer out = AtDevice(s.y);
  for (auto _ : state) {
    if (!s.kernel->Launch(*s.stream, &in, &out).ok()) std::abort();
  }
}
BENCHMARK(BM_Launch);

void BM_CopySixtyFourBytes(benchmark::State& state) {
  Setup s;
  for (auto _ : state) {
    if (!s.stream->Copy(AtDevice(s.y), AtDevice(s.x), 64).ok()) std::abort();
  }
}
BENCHMARK(BM_CopySixtyFourBytes);

void BM_MarkAndPoll(benchmark::State& state) {
  Setup s;
  for (auto _ : state) {
    uint64_t tick = 0;
    uint64_t done = 0;
    if (!s.stream->Mark(&tick).ok() || !s.stream->Poll(&done).ok()) {
      std::abort();
    }
    benchmark::DoNotOptimize(done);
  }
}
BENCHMARK(BM_MarkAndPoll);

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  char path[PATH_MAX];
  if (realpath(argc > 1 ? argv[1] : "devices/null/libweft_null.so", path) ==
      nullptr) {
    std::perror("libweft_null.so");
    return 1;
  }
  weft::LoadOptions options;
  options.path_policy = {/*allow_sticky_parents=*/true, /*allow_links=*/true};
  auto plugin = weft::Plugin::Load(path, options);
  if (!plugin.ok()) {
    std::fprintf(stderr, "%s\n", plugin.status().ToString().c_str());
    return 1;
  }
  weft::g_plugin = *plugin;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
