// What one act costs: a chain of 1000 actors on one worker, with every REQ and
// ACK queued; by the firing rules alone (core/actor, a queue, a loop) and by
// the real session (event loop, executor). Beside it, in the same run: a bare
// deque of virtual calls, which is the least that any queue of actors costs,
// and oneTBB's flow graph. Allocations during the session's acts are counted.
//
//   act_cost                       no effect
//   act_cost --null_plugin=PATH    and with a kernel launch of that plugin
//
// Figures: RESULT lines (benchmarks/result.h).
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "benchmarks/plugin.h"
#include "benchmarks/result.h"
#include "core/actor/testing/chain.h"
#include "core/base/error.h"
#include "glog/logging.h"
#include "plugins/abi/weft_op_ids.h"
#include "plugins/host/device.h"
#include "plugins/host/plugin.h"
#include "runtime/session/session.h"
#include "runtime/testing/fake_plugin.h"
#include "runtime/testing/plan_builder.h"

namespace {
std::atomic<uint64_t> allocations{0};
}  // namespace

// Counts what the program allocates, on every thread.
void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  std::abort();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace weft::benchmarks {
namespace {

constexpr int kChain = 1000;
constexpr uint64_t kPeriods = 200;
constexpr int kRepetitions = 21;
using Task = plan::Task;

// A counter, 998 actors that each read their predecessor, and a sink.
plan::Plan Chain(const std::string& device, bool launch, uint32_t copies) {
  runtime::testing::PlanBuilder b("chain");
  uint32_t host = b.AddDevice(device, true);
  uint32_t stream = b.AddStream("compute", host, 0, true);
  uint32_t reg = b.AddRegister("r0", host, {2}, 1, DType::kI64);
  uint32_t task = b.AddTask(Task::SOURCE, "t0", stream, 1, "counter:step");
  b.Output(task, reg);
  std::vector<uint32_t> order = {task};
  for (int i = 1; i < kChain; ++i) {
    const bool last = i == kChain - 1;
    task = b.AddTask(last ? Task::SINK : Task::COMPUTE, "t" + std::to_string(i),
                     stream, 1, last ? "end" : "");
    b.Input(task, reg);
    if (!last) {
      reg = b.AddRegister("r" + std::to_string(i), host, {2}, copies,
                          DType::kI64);
      b.Output(task, reg);
      if (launch) {
        b.Launch(task, WEFT_OP_NEG, {runtime::testing::In(0)},
                 {runtime::testing::Out(0)});
      }
    }
    order.push_back(task);
  }
  b.Order(stream, order);
  return b.Build();
}

class End : public runtime::SinkConsumer {
 public:
  absl::Status Consume(uint64_t, uint32_t,
                       absl::Span<const runtime::HostTensor>) override {
    return absl::OkStatus();
  }
};

// Longer runs allocate no more than short ones: none of it is for acts.
uint64_t AllocationsOf(runtime::Session* session, uint64_t periods) {
  const uint64_t before = allocations.load();
  auto done = session->Run("chain", 0, periods);
  CHECK(done.ok()) << done.status();
  return allocations.load() - before;
}

void RunWeft(const Plugin& plugin, const std::string& name, bool launch,
             uint32_t copies) {
  auto device = Device::Open(plugin, 0);
  CHECK(device.ok()) << device.status();
  // Leases as long as they may be: control is not what is measured here.
  runtime::SessionOptions session_options;
  session_options.periods_in_flight = 16;
  auto session = runtime::Session::Create({device->get()}, session_options);
  CHECK(session.ok()) << session.status();
  End end;
  runtime::Bindings bindings;
  bindings.sinks["end"] = &end;
  absl::Status loaded = (*session)->LoadProgram(
      Chain((*device)->Name(), launch, copies), bindings);
  CHECK(loaded.ok()) << loaded;
  PrintResult("dispatch", name, "ns/op",
              Measure(
                  kRepetitions,
                  [&] {
                    auto done = (*session)->Run("chain", 0, kPeriods);
                    CHECK(done.ok()) << done.status();
                  },
                  double{kChain} * kPeriods),
              "ns");
  const double few = static_cast<double>(AllocationsOf(session->get(), 10));
  const double many =
      static_cast<double>(AllocationsOf(session->get(), kPeriods));
  PrintResult("dispatch", name, "allocations/act",
              {(many - few) / (double{kChain} * (kPeriods - 10))},
              "allocations");
}

void RunRules() {
  auto table = actor::ActorTable::Create(actor::ChainSpec(kChain));
  CHECK(table.ok()) << table.status();
  PrintResult("dispatch", "weft firing rules chain1000, no effect", "ns/op",
              Measure(
                  kRepetitions, [&] { actor::RunChain(&*table, kPeriods); },
                  double{kChain} * kPeriods),
              "ns");
}

struct Actor {
  virtual ~Actor() = default;
  virtual void Fire(std::deque<Actor*>* queue) {
    ++fired;
    if (next != nullptr) queue->push_back(next);
  }
  Actor* next = nullptr;
  long fired = 0;
};

void RunDeque() {
  std::vector<std::unique_ptr<Actor>> chain;
  for (int i = 0; i < kChain; ++i) chain.push_back(std::make_unique<Actor>());
  for (int i = 0; i + 1 < kChain; ++i) chain[i]->next = chain[i + 1].get();
  std::deque<Actor*> queue;
  PrintResult("dispatch", "bare deque of virtual calls chain1000", "ns/op",
              Measure(
                  kRepetitions,
                  [&] {
                    for (uint64_t k = 0; k < kPeriods; ++k) {
                      queue.push_back(chain[0].get());
                      while (!queue.empty()) {
                        Actor* actor = queue.front();
                        queue.pop_front();
                        actor->Fire(&queue);
                      }
                    }
                  },
                  double{kChain} * kPeriods),
              "ns");
}

void RunTbb() {
  using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;
  tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  tbb::flow::graph graph;
  std::vector<std::unique_ptr<Node>> chain;
  for (int i = 0; i < kChain; ++i) {
    chain.push_back(
        std::make_unique<Node>(graph, [](const tbb::flow::continue_msg&) {}));
    if (i > 0) tbb::flow::make_edge(*chain[i - 1], *chain[i]);
  }
  PrintResult("dispatch", "tbb flow graph continue_node chain1000, 1 thread",
              "ns/op",
              Measure(
                  kRepetitions,
                  [&] {
                    for (uint64_t k = 0; k < kPeriods; ++k) {
                      chain[0]->try_put(tbb::flow::continue_msg());
                      graph.wait_for_all();
                    }
                  },
                  double{kChain} * kPeriods),
              "ns");
}

int Main(int argc, char** argv) {
  const char kFlag[] = "--null_plugin=";
  Pin(0);  // inherited by the worker: one core, as for the others
  RunDeque();
  RunTbb();
  RunRules();
  RunWeft(runtime::testing::FakePlugin(), "weft chain1000, no effect", false,
          1);
  RunWeft(runtime::testing::FakePlugin(), "weft chain1000, no effect, 2 copies",
          false, 2);
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], kFlag, sizeof(kFlag) - 1) != 0) continue;
    const Plugin& null = LoadPlugin(argv[i] + sizeof(kFlag) - 1);
    RunWeft(null, "weft chain1000, kernel_launch of null", true, 1);
    RunWeft(null, "weft chain1000, kernel_launch of null, 2 copies", true, 2);
  }
  return 0;
}

}  // namespace
}  // namespace weft::benchmarks

int main(int argc, char** argv) { return weft::benchmarks::Main(argc, argv); }
