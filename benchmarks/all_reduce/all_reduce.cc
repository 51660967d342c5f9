// All-reduce of f32 between processes over transport/shm, as a plan does it: in
// each period every rank gives a value that is there already (an act that
// launches nothing), the ranks sum, and nobody reads the result. Beside it the
// limit: the same sum in buffers that threads share, without any message, each
// of two threads writing its half of the sum into all buffers. Both in one run.
//
//   all_reduce --transport=PATH/libweft_shm.so --cpu=PATH/libweft_cpu.so
//       [--ranks=2] [--algorithm=auto] [--mapped=4097] [--size=4KiB]
//       [--times=1]
//
// Without a size it takes all of them; `times` as many periods, and no limit,
// are for a profiler. Process r runs on core r modulo the cores. RESULT lines
// of rank 0 (benchmarks/result.h).
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/plugin.h"
#include "benchmarks/result.h"
#include "compiler/collectives/collective.h"
#include "compiler/compile.h"
#include "core/graph/graph.h"
#include "glog/logging.h"
#include "plugins/host/device.h"
#include "plugins/host/transport.h"
#include "runtime/rendezvous/coordinator.h"
#include "runtime/rendezvous/grpc_rendezvous.h"
#include "runtime/session/device_oracle.h"
#include "runtime/session/session.h"

namespace weft::benchmarks {
namespace {

constexpr int kRepetitions = 9;

struct Size {
  const char* name;
  int64_t bytes;
  uint64_t periods;
};
constexpr Size kSizes[] = {{"4KiB", 4 << 10, 2000},
                           {"1MiB", 1 << 20, 100},
                           {"64MiB", 64 << 20, 4},
                           {"256MiB", int64_t{256} << 20, 1}};

template <typename T>
T Value(absl::StatusOr<T> value) {
  CHECK(value.ok()) << value.status();
  return *std::move(value);
}

// It is there.
class There : public runtime::SourceReader {
 public:
  absl::Status Fill(uint64_t, uint32_t,
                    absl::Span<const runtime::HostTensor>) override {
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

using Flags = std::map<std::string, std::string>;

Flags ParseFlags(int argc, char** argv) {
  Flags flags = {{"ranks", "2"},
                 {"algorithm", "auto"},
                 {"mapped", "4097"},
                 {"size", ""},
                 {"times", "1"}};
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const size_t equals = flag.find('=');
    CHECK(flag.rfind("--", 0) == 0 && equals != std::string::npos) << flag;
    flags[flag.substr(2, equals - 2)] = flag.substr(equals + 1);
  }
  CHECK(flags.count("transport") != 0 && flags.count("cpu") != 0)
      << "--transport=PATH and --cpu=PATH";
  return flags;
}

int64_t Number(const Flags& flags, const std::string& name) {
  int64_t number = 0;
  CHECK(absl::SimpleAtoi(flags.at(name), &number)) << name;
  return number;
}

std::vector<Size> SizesOf(const Flags& flags) {
  std::vector<Size> sizes;
  for (Size size : kSizes) {
    const std::string& only = flags.at("size");
    if (!only.empty() && only != size.name) continue;
    size.periods *= static_cast<uint64_t>(Number(flags, "times"));
    sizes.push_back(size);
  }
  CHECK(!sizes.empty()) << "no size " << flags.at("size");
  return sizes;
}

CollectiveAlgorithm AlgorithmOf(const Flags& flags) {
  for (int a = 0; a < kNumCollectiveAlgorithms; ++a) {
    const auto algorithm = static_cast<CollectiveAlgorithm>(a);
    if (Name(algorithm) == flags.at("algorithm")) return algorithm;
  }
  LOG(FATAL) << "no algorithm " << flags.at("algorithm");
}

// One rank's graph. What Expand makes is what the ranks sum.
Graph SumGraph(const Flags& flags, uint32_t rank, const Size& size) {
  Graph graph("sum");
  const Node* x = Value(graph.Add("weft.DataSource", "x", {},
                                  {{"source", "x"},
                                   {"dtypes", std::vector<int64_t>{1}},
                                   {"ranks", std::vector<int64_t>{1}},
                                   {"dims", std::vector<int64_t>{1}}}));
  const TensorType type = {DType::kF32, {size.bytes / 4}};
  const Node* made =
      Value(graph.Add("Expand", "made", {x->output(0)},
                      {{"shape", std::vector<int64_t>{type.shape.dim(0)}}}));
  Collective sum;
  sum.algorithm = AlgorithmOf(flags);
  for (int r = 0; r < Number(flags, "ranks"); ++r) sum.ranks.push_back(r);
  sum.rank = static_cast<int>(rank);
  sum.name = "sum";
  sum.rate = "micro";
  sum.topology.mapped_bytes = Number(flags, "mapped");
  const weft::Value total =
      Value(AddCollective(&graph, sum, made->output(0), type));
  CHECK(graph.Add("weft.Output", "out", {total}, {{"name", "out"}}, 0).ok());
  return graph;
}

// Without the kernel that makes the operand: it is there.
void TakeAway(plan::Plan* plan) {
  for (plan::Task& task : *plan->mutable_tasks()) {
    for (const plan::Op& op : task.ops()) {
      if (op.node().rfind("made", 0) != 0) continue;
      CHECK_EQ(task.ops_size(), 1) << "made is one of a chain";
      task.clear_ops();
      return;
    }
  }
  LOG(FATAL) << "nothing makes the operand";
}

class Rank {
 public:
  Rank(const Flags& flags, uint32_t rank)
      : flags_(flags),
        rank_(rank),
        ranks_(static_cast<uint32_t>(Number(flags, "ranks"))),
        transport_(Value(Transport::Create(LoadPlugin(flags.at("transport"))))),
        device_(Value(Device::Open(LoadPlugin(flags.at("cpu")), 0))) {
    runtime::RendezvousOptions options;
    options.address = flags.at("address");
    options.rank = rank;
    options.ranks = ranks_;
    meeting_ = Value(runtime::GrpcRendezvous::Connect(options));
  }

  void Run() {
    uint64_t epoch = 0;
    for (const Size& size : SizesOf(flags_)) RunSize(size, ++epoch);
    CHECK(meeting_->Leave().ok());
  }

 private:
  void RunSize(const Size& size, uint64_t epoch) {
    meeting_->AllGather(rank_, absl::StrCat(size.name), "").IgnoreError();
    runtime::SessionOptions options;
    const uint32_t cores = std::thread::hardware_concurrency();
    options.ranks_on_cores = (ranks_ + cores - 1) / cores;  // it has one core
    options.periods_in_flight = 1000;  // the control thread is on the same core
    options.wire.emplace();
    options.wire->transports = {{&transport_, {}}};
    options.wire->rendezvous = meeting_.get();
    options.wire->config.rank = rank_;
    options.wire->config.world = ranks_;
    options.wire->config.job = "all_reduce";
    options.wire->config.epoch = epoch;
    auto session = Value(runtime::Session::Create({device_.get()}, options));
    Load(size, session.get());
    const auto run = [&] {
      const auto done = session->Run("sum", 0, size.periods);
      CHECK(done.ok()) << done.status();
    };
    run();
    const std::vector<double> ns =
        Measure(kRepetitions, run, static_cast<double>(size.periods) * 1e3);
    if (rank_ == 0) {
      PrintResult("all_reduce",
                  absl::StrCat("weft ", transport_.info().name, " ",
                               flags_.at("algorithm"), " p", ranks_, " mapped ",
                               flags_.at("mapped")),
                  size.name, ns, "us");
    }
    CHECK(session->Leave().ok());
  }

  void Load(const Size& size, runtime::Session* session) {
    plan::Device device;
    device.set_name(device_->Name());
    device.set_kind("cpu");
    device.set_inline_(true);
    device.set_host_mapped(true);
    device.set_alignment(device_->info().alignment);
    runtime::DeviceOracle oracle({device_.get()});
    CompileOptions options;
    options.program = "sum";
    options.max_chain_ops = 1;  // "made" is a task of its own
    options.devices = {device};
    options.rank = rank_;
    options.ranks = ranks_;
    plan::Plan plan =
        Value(Compile(SumGraph(flags_, rank_, size), options, oracle));
    for (plan::Stream& s : *plan.mutable_streams()) s.set_worker(0);
    plan.set_workers(1);
    TakeAway(&plan);
    runtime::Bindings bindings;
    bindings.sources["x"] = &there_;
    bindings.sinks["out"] = &nowhere_;
    const absl::Status loaded = session->LoadProgram(plan, bindings);
    CHECK(loaded.ok()) << loaded;
  }

  const Flags& flags_;
  const uint32_t rank_, ranks_;
  const Transport transport_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<runtime::GrpcRendezvous> meeting_;
  There there_;
  Nowhere nowhere_;
};

// The limit: `buffers` of all ranks, summed by two threads in place.
class Limit {
 public:
  Limit(int ranks, int64_t bytes) : elements_(bytes / 4) {
    for (int r = 0; r < ranks; ++r) {
      void* at =
          mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
      CHECK(at != MAP_FAILED);
      madvise(at, static_cast<size_t>(bytes), MADV_HUGEPAGE);
      buffers_.push_back(static_cast<float*>(at));
    }
  }
  ~Limit() {
    for (float* b : buffers_) munmap(b, static_cast<size_t>(elements_ * 4));
  }

  std::vector<double> Microseconds(uint64_t periods) {
    std::atomic<uint64_t> go{0}, done{0};
    std::thread other([&] {
      Pin(1);
      for (uint64_t k = 1; k <= periods * (kRepetitions + 1); ++k) {
        while (go.load(std::memory_order_acquire) < k) {
        }
        Half(1);
        done.store(k, std::memory_order_release);
      }
    });
    Pin(0);
    uint64_t k = 0;
    auto out = Measure(
        kRepetitions,
        [&] {
          for (uint64_t i = 0; i < periods; ++i) {
            go.store(++k, std::memory_order_release);
            Half(0);
            while (done.load(std::memory_order_acquire) != k) {
            }
          }
        },
        static_cast<double>(periods) * 1e3);
    other.join();
    return out;
  }

 private:
  __attribute__((optimize("O3"), target("avx2"))) void Half(int half) {
    const int64_t begin = half * elements_ / 2,
                  end = (half + 1) * elements_ / 2;
    float* __restrict a = buffers_[0];
    float* __restrict b = buffers_[1];
    if (buffers_.size() == 2) {
      for (int64_t i = begin; i < end; ++i) {
        const float x = a[i] + b[i];
        a[i] = x;
        b[i] = x;
      }
      return;
    }
    float* __restrict c = buffers_[2];
    float* __restrict d = buffers_[3];
    for (int64_t i = begin; i < end; ++i) {
      const float x = (a[i] + b[i]) + (c[i] + d[i]);
      a[i] = x;
      b[i] = x;
      c[i] = x;
      d[i] = x;
    }
  }

  const int64_t elements_;
  std::vector<float*> buffers_;
};

pid_t Spawn(int argc, char** argv, const std::string& address, int rank) {
  std::vector<std::string> words(argv, argv + argc);
  words.push_back(absl::StrCat("--address=", address));
  words.push_back(absl::StrCat("--rank=", rank));
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t pid = fork();
  CHECK_GE(pid, 0);
  if (pid == 0) {
    execv("/proc/self/exe", pointers.data());
    _exit(127);
  }
  return pid;
}

int Main(int argc, char** argv) {
  const Flags flags = ParseFlags(argc, argv);
  const auto ranks = static_cast<int>(Number(flags, "ranks"));
  if (flags.count("rank") != 0) {
    const auto rank = static_cast<uint32_t>(Number(flags, "rank"));
    Pin(static_cast<int>(rank % std::thread::hardware_concurrency()));
    Rank(flags, rank).Run();
    return 0;
  }
  AlgorithmOf(flags);  // or nothing runs
  if ((ranks == 2 || ranks == 4) && flags.at("times") == "1") {
    for (const Size& size : SizesOf(flags)) {
      PrintResult("all_reduce", absl::StrCat("limit p", ranks), size.name,
                  Limit(ranks, size.bytes).Microseconds(size.periods), "us");
    }
  }
  runtime::CoordinatorOptions options;
  options.ranks = static_cast<uint32_t>(ranks);
  auto coordinator = Value(runtime::Coordinator::Start(options));
  std::vector<pid_t> children;
  for (int r = 0; r < ranks; ++r) {
    children.push_back(Spawn(argc, argv, coordinator->address(), r));
  }
  int worst = 0;
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) worst = 1;
  }
  return worst;
}

}  // namespace
}  // namespace weft::benchmarks

int main(int argc, char** argv) { return weft::benchmarks::Main(argc, argv); }
