// What a value costs that goes to another rank: a chain of kernels that do
// nothing, which lies on two ranks in turn; and a pipeline of four ranks with
// many micro-batches under way, beside the same four stages on four workers of
// one rank. The ranks are threads, joined by transport/loopback. Both pipelines
// run twice: with a thread for each stage, and as it is planned, with one more
// for the source. RESULT lines (benchmarks/result.h). Nobody spins where there
// are more threads than cores.
//
//   rank_hop --plugin=bazel-bin/transport/loopback/libweft_loopback.so
//            --device=bazel-bin/devices/null/libweft_null.so [PART]
//
// PART: only what has it in its name.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmarks/plugin.h"
#include "benchmarks/result.h"
#include "compiler/compile.h"
#include "compiler/partition/by_rank.h"
#include "core/graph/graph.h"
#include "glog/logging.h"
#include "plugins/host/device.h"
#include "plugins/host/transport.h"
#include "runtime/rendezvous/local_rendezvous.h"
#include "runtime/session/device_oracle.h"
#include "runtime/session/session.h"
#include "runtime/testing/plan_builder.h"

namespace weft::benchmarks {
namespace {

constexpr int kRepetitions = 11;
constexpr int kChain = 200;
constexpr uint64_t kPeriods = 10;
constexpr int kMicroBatches = 256;
enum class Threads { kAsPlanned, kOneARank };
constexpr uint64_t kMeetNs = 60'000'000'000;

class Ones : public runtime::SourceReader {
 public:
  absl::Status Fill(uint64_t, uint32_t,
                    absl::Span<const runtime::HostTensor> out) override {
    for (const runtime::HostTensor& t : out) {
      float* values = static_cast<float*>(t.data);
      for (uint64_t i = 0; i < t.bytes / sizeof(float); ++i) values[i] = 1;
    }
    return absl::OkStatus();
  }
};

class Nowhere : public runtime::SinkConsumer {
 public:
  absl::Status Consume(uint64_t, uint32_t,
                       absl::Span<const runtime::HostTensor>) override {
    return absl::OkStatus();
  }
};

const Plugin* null_device = nullptr;
std::optional<Transport> transport;
// What of a name has to be asked for; empty: all.
std::string only;
bool Skipped(const std::string& name) {
  return name.find(only) == std::string::npos;
}

template <typename T>
T Value(absl::StatusOr<T> value) {
  CHECK(value.ok()) << value.status();
  return *std::move(value);
}

// Each thread spins where it can have a core.
uint64_t SpinNs(size_t threads) {
  return threads <= std::thread::hardware_concurrency() ? 20'000 : 0;
}

// `length` kernels, the i-th on rank `rank_of(i)`.
template <typename RankOf>
Graph Chain(int length, const RankOf& rank_of) {
  Graph graph("chain");
  Node* x = Value(graph.Add("weft.DataSource", "x", {},
                            {{"source", "x"},
                             {"dtypes", std::vector<int64_t>{1}},
                             {"ranks", std::vector<int64_t>{1}},
                             {"dims", std::vector<int64_t>{2}}}));
  x->device = "w0";
  for (int i = 0; i < length; ++i) {
    x = Value(graph.Add("Neg", absl::StrCat("n", i), {x->output(0)}));
    x->device = absl::StrCat("w", rank_of(i));
  }
  CHECK(graph.Add("weft.Output", "out", {x->output(0)}, {{"name", "out"}}, 0)
            .ok());
  return graph;
}

// The ranks of one graph, ready to run.
class Ranks {
 public:
  Ranks(const Graph& graph, int ranks, int micro_batches, Threads threads)
      : meeting_(static_cast<uint32_t>(ranks), kMeetNs) {
    const RankAssignment where =
        Value(AssignRanks(graph, ranks, micro_batches));
    for (int r = 0; r < ranks; ++r) {
      devices_.push_back(Value(Device::Open(*null_device, 0)));
      runtime::SessionOptions options;
      options.spin_ns = SpinNs(static_cast<size_t>(ranks));
      options.wire.emplace();
      options.wire->transports = {{&*transport, {}}};
      options.wire->rendezvous = &meeting_;
      options.wire->config.rank = static_cast<uint32_t>(r);
      options.wire->config.world = static_cast<uint32_t>(ranks);
      options.wire->config.job = "rank_hop";
      options.wire->config.epoch = epoch_;
      sessions_.push_back(
          Value(runtime::Session::Create({devices_.back().get()}, options)));
      const Graph mine = Value(GraphOfRank(graph, where, r));
      Load(mine, r, ranks, micro_batches, threads);
    }
  }

  void Run(uint64_t periods) {
    std::vector<std::thread> threads;
    for (auto& session : sessions_) {
      threads.emplace_back([&session, periods] {
        auto done = session->Run("chain", 0, periods);
        CHECK(done.ok()) << done.status();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  void Leave() {
    std::vector<std::thread> threads;
    for (auto& session : sessions_) {
      threads.emplace_back([&session] { CHECK(session->Leave().ok()); });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  void Load(const Graph& graph, int rank, int ranks, int micro_batches,
            Threads threads) {
    plan::Device device;
    device.set_name(devices_.back()->Name());
    device.set_kind("null");
    device.set_inline_(true);
    device.set_host_mapped(true);
    device.set_alignment(devices_.back()->info().alignment);
    runtime::DeviceOracle oracle({devices_.back().get()});
    CompileOptions options;
    options.program = "chain";
    options.devices = {device};
    options.micro_batches = micro_batches;
    options.rank = static_cast<uint32_t>(rank);
    options.ranks = static_cast<uint32_t>(ranks);
    runtime::Bindings bindings;
    bindings.sources["x"] = &ones_;
    bindings.sinks["out"] = &nowhere_;
    plan::Plan plan = Value(Compile(graph, options, oracle));
    if (threads == Threads::kOneARank) {
      for (plan::Stream& s : *plan.mutable_streams()) s.set_worker(0);
      plan.set_workers(1);
    }
    CHECK(sessions_.back()->LoadProgram(plan, bindings).ok());
  }

  static inline uint64_t epochs_ = 0;
  const uint64_t epoch_ = ++epochs_;
  Ones ones_;
  Nowhere nowhere_;
  runtime::LocalRendezvous meeting_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<runtime::Session>> sessions_;
};

void Measure(const std::string& name, const std::string& what,
             const Graph& graph, int ranks, int micro_batches, Threads threads,
             double hops) {
  if (Skipped(name)) return;
  Ranks job(graph, ranks, micro_batches, threads);
  job.Run(1);
  PrintResult("rank_hop", name, what,
              benchmarks::Measure(
                  kRepetitions, [&] { job.Run(kPeriods); }, hops * kPeriods),
              "ns");
  job.Leave();
}

// The same kernels on as many workers of one session, each of which may be so
// many micro-batches ahead of the next.
plan::Plan OnWorkers(const std::string& device, int stages, int micro_batches,
                     uint32_t ahead, Threads threads) {
  using Task = plan::Task;
  runtime::testing::PlanBuilder b("chain");
  const uint32_t host = b.AddDevice(device, true);
  const auto acts = static_cast<uint32_t>(micro_batches);
  const bool own = threads == Threads::kAsPlanned;
  const uint32_t io =
      b.AddStream("io", host, own ? static_cast<uint32_t>(stages) : 0, false);
  uint32_t reg = b.AddRegister("x", host, {2}, ahead);
  b.Output(b.AddTask(Task::SOURCE, "x", io, acts, "x"), reg);
  for (int s = 0; s < stages; ++s) {
    const std::string name = absl::StrCat("n", s);
    const uint32_t stream =
        b.AddStream(name, host, static_cast<uint32_t>(s), true);
    const uint32_t task = b.AddTask(Task::COMPUTE, name, stream, acts);
    const uint32_t next = b.AddRegister(absl::StrCat("r", s), host, {2}, ahead);
    b.Input(task, reg).Output(task, next);
    b.Launch(task, WEFT_OP_NEG, {runtime::testing::In(0)},
             {runtime::testing::Out(0)});
    b.Order(stream, std::vector<uint32_t>(acts, task));
    reg = next;
  }
  const uint32_t end =
      b.AddStream("end", host, static_cast<uint32_t>(stages - 1), false);
  b.Input(b.AddTask(Task::SINK, "out", end, acts, "out"), reg);
  return b.Build();
}

void MeasureWorkers(const std::string& name, const std::string& what,
                    int stages, int micro_batches, uint32_t ahead,
                    Threads threads) {
  if (Skipped(name)) return;
  Ones ones;
  Nowhere nowhere;
  runtime::Bindings bindings;
  bindings.sources["x"] = &ones;
  bindings.sinks["out"] = &nowhere;
  const std::unique_ptr<Device> device = Value(Device::Open(*null_device, 0));
  runtime::SessionOptions options;
  options.spin_ns = SpinNs(static_cast<size_t>(stages));
  auto session = Value(runtime::Session::Create({device.get()}, options));
  const absl::Status loaded = session->LoadProgram(
      OnWorkers(device->Name(), stages, micro_batches, ahead, threads),
      bindings);
  CHECK(loaded.ok()) << loaded;
  const auto run = [&] {
    auto done = session->Run("chain", 0, kPeriods);
    CHECK(done.ok()) << done.status();
  };
  run();
  PrintResult("rank_hop", name, what,
              benchmarks::Measure(
                  kRepetitions, run,
                  double(stages - 1) * micro_batches * double{kPeriods}),
              "ns");
}

int Main(int argc, char** argv) {
  const std::string flags[] = {"--plugin=", "--device="};
  if (argc < 3 || argc > 4 || std::string(argv[1]).rfind(flags[0], 0) != 0 ||
      std::string(argv[2]).rfind(flags[1], 0) != 0) {
    fprintf(stderr,
            "usage: rank_hop --plugin=libweft_loopback.so "
            "--device=libweft_null.so [PART]\n");
    return 2;
  }
  if (argc == 4) only = argv[3];
  const auto plugin = [&](int i) -> const Plugin& {
    return LoadPlugin(std::string(argv[i + 1]).substr(flags[i].size()));
  };
  transport = Value(Transport::Create(plugin(0)));
  null_device = &plugin(1);
  Measure("chain over two ranks, one value under way", "hop and act",
          Chain(kChain, [](int i) { return i % 2; }), 2, 1, Threads::kAsPlanned,
          kChain);
  constexpr int kStages = 4;
  const Graph stages = Chain(kStages, [](int i) { return i; });
  for (Threads threads : {Threads::kOneARank, Threads::kAsPlanned}) {
    Measure(absl::StrCat("four ranks, 256 micro-batches, ",
                         threads == Threads::kOneARank ? "one thread a rank"
                                                       : "as planned"),
            "micro-batch and hop", stages, kStages, kMicroBatches, threads,
            double{kStages - 1} * kMicroBatches);
  }
  // As many ahead as the ranks are, and with larger values.
  for (uint32_t ahead : {16, 2}) {
    for (Threads threads : {Threads::kOneARank, Threads::kAsPlanned}) {
      MeasureWorkers(
          absl::StrCat(
              "four workers of one rank, 256 micro-batches, ", ahead, " ahead",
              threads == Threads::kOneARank ? "" : ", a fifth for the source"),
          "micro-batch and hop", kStages, kMicroBatches, ahead, threads);
    }
  }
  return 0;
}

}  // namespace
}  // namespace weft::benchmarks

int main(int argc, char** argv) { return weft::benchmarks::Main(argc, argv); }
