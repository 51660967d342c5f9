// Sessions of several ranks whose plans were proved alone: what their ranks
// compute together, and what they are told where they do not agree on a
// collective, where one lacks it, or where one is not there.
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/collectives/collective.h"
#include "compiler/compile.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/graph/graph.h"
#include "core/ops/expr.h"
#include "core/ops/system_attrs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/host/device.h"
#include "plugins/host/test_plugins.h"
#include "plugins/host/transport.h"
#include "runtime/rendezvous/local_rendezvous.h"
#include "runtime/session/device_oracle.h"
#include "runtime/session/session.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr int kRanks = 4;
constexpr int64_t kLength = 24;
constexpr int64_t kInPlaceLength = 1000;  // blocks of some lines of memory
constexpr uint64_t kPatientNs = 30'000'000'000;
constexpr uint64_t kImpatientNs = 300'000'000;

const Plugin& Loaded(const std::string& name, const std::string& package) {
  return **Plugin::Load(name, TestLoadOptions({package}));
}

// Every rank gives its number, plus one for each step; in the case of f64 as
// f64.
class Numbers : public runtime::SourceReader {
 public:
  explicit Numbers(int rank) : rank_(rank) {}
  absl::Status Fill(uint64_t step, uint32_t,
                    absl::Span<const runtime::HostTensor> out) override {
    if (on_fill) on_fill(step);
    const auto fill = [&](auto* values, size_t bytes) {
      for (size_t i = 0; i < bytes / sizeof(*values); ++i) {
        values[i] = rank_ + static_cast<int>(step);
      }
    };
    const runtime::HostTensor& x = out[0];
    if (x.bytes == kLength * sizeof(double)) {
      fill(static_cast<double*>(x.data), x.bytes);
    } else {
      fill(static_cast<float*>(x.data), x.bytes);
    }
    return absl::OkStatus();
  }
  std::function<void(uint64_t step)> on_fill;

 private:
  const int rank_;
};

// Keeps what the last step gave.
class Keeper : public runtime::SinkConsumer {
 public:
  absl::Status Consume(uint64_t step, uint32_t,
                       absl::Span<const runtime::HostTensor> in) override {
    values.resize(in[0].bytes / sizeof(float));
    std::memcpy(values.data(), in[0].data, in[0].bytes);
    if (on_step) return on_step(step);
    return absl::OkStatus();
  }
  std::vector<float> values;
  std::function<absl::Status(uint64_t step)> on_step;
};

// Among all ranks.
Collective CollectiveOf(int rank, CollectiveAlgorithm algorithm) {
  Collective c;
  c.algorithm = algorithm;
  for (int r = 0; r < kRanks; ++r) c.ranks.push_back(r);
  c.rank = rank;
  c.name = "fc1/grad";
  return c;
}

Value AddSource(Graph* graph, const TensorType& type) {
  return graph->Add("weft.DataSource", "x", {}, DataSourceAttrs("x", {type}))
      .value()
      ->output(0);
}

// Changes what a rank takes the collective for: the others have an all-reduce
// by halving of f32[24].
using Change = void (*)(Collective* c, TensorType* type);

Graph GraphOf(int rank, Change change) {
  Graph graph("g");
  Collective c = CollectiveOf(rank, CollectiveAlgorithm::kHalvingDoubling);
  TensorType type = {DType::kF32, {kLength}};
  if (change != nullptr) change(&c, &type);
  const Value x = AddSource(&graph, type);
  const Value y = AddCollective(&graph, c, x, type).value();
  EXPECT_TRUE(graph.Add("weft.Output", "", {y}, {{"name", "y"}}).ok());
  return graph;
}

// Twice x, plus 1, summed in the memory of all ranks.
Graph InPlaceGraph(int rank) {
  Graph graph("g");
  Collective c = CollectiveOf(rank, CollectiveAlgorithm::kThreeStage);
  c.topology.mapped_bytes = 1;
  const TensorType type = {DType::kF32, {kInPlaceLength}};
  const Value x = AddSource(&graph, type);
  GraphEmitter emit(&graph, "t", "test");
  const Expr y = Expr(emit, x) * 2.0 + 1.0;
  const Value sum = AddCollective(&graph, c, Value(y), type).value();
  emit.Emit("weft.Output", {Expr(emit, sum)}, {{"name", "y"}}, 0);
  EXPECT_TRUE(emit.status().ok()) << emit.status();
  return graph;
}

// Rank 0 keeps x and sends it to rank 1, which keeps what comes.
Graph SendingGraph(int rank) {
  Graph graph("g");
  const TensorType type = {DType::kF32, {kLength}};
  GraphEmitter emit(&graph, "t", "test");
  Value x = rank == 1 ? emit.Emit1("weft.Recv", {},
                                   {{"channel", "x"},
                                    {"peer", 0},
                                    {"rate", "micro"},
                                    {"dtype", type.dtype},
                                    {"shape", std::vector<int64_t>{kLength}}})
                      : AddSource(&graph, type);
  emit.Emit("weft.Output", {x}, {{"name", "y"}}, 0);
  if (rank == 0) {
    emit.Emit("weft.Send", {x},
              {{"channel", "x"}, {"peer", 1}, {"rate", "micro"}}, 0);
  }
  EXPECT_TRUE(emit.status().ok()) << emit.status();
  return graph;
}

// A rank without the collective.
Graph LonelyGraph() {
  Graph graph("g");
  const Value x = AddSource(&graph, {DType::kF32, {kLength}});
  EXPECT_TRUE(graph.Add("weft.Output", "", {x}, {{"name", "y"}}).ok());
  return graph;
}

// One rank, from its plan to its end.
class Rank {
 public:
  Rank(int rank, const Graph& graph, runtime::Rendezvous* meeting,
       const runtime::WireTransport& transport, uint32_t max_workers)
      : device_(Device::Open(Loaded("cpu", "devices/cpu"), 0).value()),
        numbers_(rank) {
    runtime::SessionOptions options;
    options.max_workers = max_workers;
    options.wire.emplace();
    options.wire->transports = {transport};
    options.wire->rendezvous = meeting;
    options.wire->config.rank = static_cast<uint32_t>(rank);
    options.wire->config.world = kRanks;
    options.wire->config.job = "collectives";
    session_ = runtime::Session::Create({device_.get()}, options).value();
    plan::Device described;
    described.set_name(device_->Name());
    described.set_kind("cpu");
    described.set_inline_(true);
    described.set_host_mapped(true);
    described.set_alignment(device_->info().alignment);
    runtime::DeviceOracle oracle({device_.get()});
    CompileOptions compile;
    compile.program = "train";
    compile.devices = {described};
    compile.rank = static_cast<uint32_t>(rank);
    compile.ranks = kRanks;
    runtime::Bindings bindings;
    bindings.sources["x"] = &numbers_;
    bindings.sinks["y"] = &keeper_;
    absl::StatusOr<plan::Plan> plan = Compile(graph, compile, oracle);
    EXPECT_TRUE(plan.ok()) << plan.status();
    for (const plan::Channel& channel : plan->channels()) {
      in_place_ += channel.lands();
    }
    EXPECT_TRUE(session_->LoadProgram(*plan, bindings).ok());
  }

  absl::Status Run(uint64_t steps) {
    return session_->Run("train", 0, steps).status();
  }
  absl::Status Leave() { return session_->Leave(); }
  // As if its process had died.
  void Die() { session_.reset(); }

  const std::vector<float>& result() const { return keeper_.values; }
  // Called by the rank's worker when a step's result is there.
  void set_on_step(std::function<absl::Status(uint64_t step)> on_step) {
    keeper_.on_step = std::move(on_step);
  }
  // Called by the worker that reads data, before it does.
  void set_on_fill(std::function<void(uint64_t step)> on_fill) {
    numbers_.on_fill = std::move(on_fill);
  }
  // Channels that bring back what was changed where it lies.
  int in_place() const { return in_place_; }

 private:
  std::unique_ptr<Device> device_;
  Numbers numbers_;
  Keeper keeper_;
  int in_place_ = 0;
  std::unique_ptr<runtime::Session> session_;
};

using Ranks = std::vector<std::unique_ptr<Rank>>;

runtime::WireTransport By(const std::string& name) {
  static std::map<std::string, Transport> made;
  if (made.count(name) == 0) {
    made.emplace(name,
                 Transport::Create(Loaded(name, "transport/" + name)).value());
  }
  return {&made.at(name), {}};
}

template <typename GraphOf>
Ranks Load(runtime::Rendezvous* meeting, const GraphOf& graph_of,
           const runtime::WireTransport& transport = By("loopback"),
           uint32_t max_workers = 0) {
  Ranks ranks;
  for (int r = 0; r < kRanks; ++r) {
    ranks.push_back(std::make_unique<Rank>(r, graph_of(r), meeting, transport,
                                           max_workers));
  }
  return ranks;
}

// `of(rank)` for all of them at once.
std::vector<absl::Status> OnEach(
    const Ranks& ranks, const std::function<absl::Status(int rank)>& of) {
  std::vector<absl::Status> results(ranks.size());
  std::vector<std::thread> threads;
  for (int r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] { results[r] = of(r); });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::vector<absl::Status> RunAll(const Ranks& ranks, uint64_t steps) {
  return OnEach(ranks, [&](int r) { return ranks[r]->Run(steps); });
}

TEST(CollectiveSessionsTest, RanksThatAgreeComputeTogether) {
  runtime::LocalRendezvous meeting(kRanks, kPatientNs);
  const Ranks ranks = Load(&meeting, [](int r) { return GraphOf(r, nullptr); });
  for (const absl::Status& status : RunAll(ranks, 3)) {
    EXPECT_TRUE(status.ok()) << status;
  }
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank->result(),
              std::vector<float>(kLength, 0 + 1 + 2 + 3 + 4 * 2));
  }
  for (const absl::Status& status :
       OnEach(ranks, [&](int r) { return ranks[r]->Leave(); })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

// In one process, whose memory a sanitizer sees whole; loopback has one address
// of each byte, and its messages come late at random.
TEST(CollectiveSessionsTest, RanksSumInPlace) {
  std::vector<runtime::WireTransport> transports = {By("shm")};
  for (const char* seed : {"1", "2", "3"}) {
    transports.push_back(By("loopback"));
    transports.back().options = {{"delay_max", "8"}, {"delay_seed", seed}};
  }
  for (const runtime::WireTransport& transport : transports) {
    runtime::LocalRendezvous meeting(kRanks, kPatientNs);
    const Ranks ranks = Load(&meeting, InPlaceGraph, transport);
    for (uint64_t steps : {1, 50}) {
      for (const absl::Status& status : RunAll(ranks, steps)) {
        EXPECT_TRUE(status.ok()) << status;
      }
      for (const auto& rank : ranks) {
        EXPECT_GT(rank->in_place(), 0);
        EXPECT_EQ(
            rank->result(),
            std::vector<float>(kInPlaceLength,
                               2 * (0 + 1 + 2 + 3 + 4 * (steps - 1)) + 4));
      }
    }
    for (const absl::Status& status :
         OnEach(ranks, [&](int r) { return ranks[r]->Leave(); })) {
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

// Takes a millisecond, which is long.
void TakeLong() {
  const int64_t begin_ns = RealClock().MonotonicNs();
  while (RealClock().MonotonicNs() - begin_ns < 1'000'000) {
  }
}

// Rank 0 keeps a value, and does so for as long as rank 1 lacks it: the SEND of
// it comes first. With one worker: of what another one has read the act may
// have heard before the SEND has.
TEST(CollectiveSessionsTest, AnActThatTakesLongKeepsNoPeerWaiting) {
  runtime::LocalRendezvous meeting(kRanks, kPatientNs);
  const Ranks ranks =
      Load(&meeting, SendingGraph, By("loopback"), /*max_workers=*/1);
  constexpr uint64_t kSteps = 8;
  Mutex mutex;
  CondVar changed;
  uint64_t seen = 0;  // steps that rank 1 has
  ranks[1]->set_on_step([&](uint64_t step) {
    MutexLock lock(&mutex);
    seen = step + 1;
    changed.NotifyAll();
    return absl::OkStatus();
  });
  ranks[0]->set_on_step([&](uint64_t step) -> absl::Status {
    TakeLong();
    if (step == 0) return absl::OkStatus();  // now it is known to take long
    MutexLock lock(&mutex);
    const std::chrono::nanoseconds patience(kPatientNs);
    while (seen <= step) {
      if (changed.WaitFor(&mutex, patience)) continue;
      return MakeError(ErrorCode::kInternal, "rank 1 still lacks its value");
    }
    return absl::OkStatus();
  });
  for (const absl::Status& status : RunAll(ranks, kSteps)) {
    EXPECT_TRUE(status.ok()) << status;
  }
  for (const absl::Status& status :
       OnEach(ranks, [&](int r) { return ranks[r]->Leave(); })) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

// With one worker: a step is kept before data of the next one is read.
TEST(CollectiveSessionsTest, WhatReadsDataComesLast) {
  runtime::LocalRendezvous meeting(kRanks, kPatientNs);
  const Ranks ranks =
      Load(&meeting, SendingGraph, By("loopback"), /*max_workers=*/1);
  std::vector<std::string> order;  // rank 0's only worker alone writes
  ranks[0]->set_on_fill([&](uint64_t step) {
    order.push_back(absl::StrCat("read ", step));
    TakeLong();
  });
  ranks[0]->set_on_step([&](uint64_t step) {
    order.push_back(absl::StrCat("keep ", step));
    TakeLong();
    return absl::OkStatus();
  });
  constexpr uint64_t kSteps = 6;
  for (const absl::Status& status : RunAll(ranks, kSteps)) {
    EXPECT_TRUE(status.ok()) << status;
  }
  // Of the first ones nobody knows yet how long they take.
  std::vector<std::string> want;
  for (uint64_t step = 2; step < kSteps; ++step) {
    want.push_back(absl::StrCat("read ", step));
    want.push_back(absl::StrCat("keep ", step));
  }
  ASSERT_EQ(order.size(), 2 * kSteps);
  EXPECT_THAT(std::vector<std::string>(order.begin() + 4, order.end()),
              testing::ElementsAreArray(want));
}

struct Case {
  const char* name;
  Change change;
  const char* others;
  const char* its;
};

// The act that puts itself off fails: nothing is left of it, and rank 1 hears.
TEST(CollectiveSessionsTest, AnActThatWasPutOffMayFail) {
  runtime::LocalRendezvous meeting(kRanks, kPatientNs);
  const Ranks ranks = Load(&meeting, SendingGraph);
  int failures = 0;  // rank 0's worker alone counts
  ranks[0]->set_on_step([&](uint64_t step) -> absl::Status {
    TakeLong();
    if (step < 3) return absl::OkStatus();
    ++failures;
    return MakeError(ErrorCode::kWriteFailed, "no room");
  });
  const std::vector<absl::Status> statuses = RunAll(ranks, 1000);
  EXPECT_TRUE(IsError(statuses[0], ErrorCode::kWriteFailed)) << statuses[0];
  EXPECT_FALSE(statuses[1].ok());
  EXPECT_THAT(std::string(statuses[1].message()), HasSubstr("rank 0"));
  EXPECT_EQ(failures, 1);
}

class DisagreeingSessionsTest : public testing::TestWithParam<Case> {};

TEST_P(DisagreeingSessionsTest, AllRanksAreToldBoth) {
  runtime::LocalRendezvous meeting(kRanks, kPatientNs);
  const Ranks ranks = Load(&meeting, [](int r) {
    return GraphOf(r, r == 1 ? GetParam().change : nullptr);
  });
  for (const absl::Status& status : RunAll(ranks, 3)) {
    EXPECT_TRUE(IsError(status, ErrorCode::kPlansDiffer)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("program 'train'"), HasSubstr("'fc1/grad'"),
                      HasSubstr(GetParam().others), HasSubstr(GetParam().its),
                      HasSubstr("rank 1 has")));
  }
  for (const auto& rank : ranks) {
    EXPECT_TRUE(rank->result().empty()) << "nothing ran";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, DisagreeingSessionsTest,
    testing::ValuesIn(std::vector<Case>{
        {"Length",
         [](Collective*, TensorType* type) { type->shape = Shape({25}); },
         "f32[24]", "f32[25]"},
        {"DType",
         [](Collective*, TensorType* type) { type->dtype = DType::kF64; },
         "f32[24]", "f64[24]"},
        {"Op", [](Collective* c, TensorType*) { c->op = ReduceOp::kMax; },
         "all-reduce.sum", "all-reduce.max"},
        {"Algorithm",
         [](Collective* c, TensorType*) {
           c->algorithm = CollectiveAlgorithm::kDirect;
         },
         "halving-doubling", "direct"},
    }),
    [](const testing::TestParamInfo<Case>& info) {
      return std::string(info.param.name);
    });

TEST(CollectiveSessionsTest, ARankWithoutTheCollectiveIsNamedToAll) {
  runtime::LocalRendezvous meeting(kRanks, kPatientNs);
  const Ranks ranks = Load(&meeting, [](int r) {
    return r == 1 ? LonelyGraph() : GraphOf(r, nullptr);
  });
  for (const absl::Status& status : RunAll(ranks, 3)) {
    EXPECT_TRUE(IsError(status, ErrorCode::kPlansDiffer)) << status;
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr("fc1/grad"), AnyOf(HasSubstr("rank 1 receives nothing"),
                                           HasSubstr("rank 1 sends nothing"))));
  }
}

TEST(CollectiveSessionsTest, ARankThatNeverComesIsNamed) {
  runtime::LocalRendezvous meeting(kRanks, kImpatientNs);
  const Ranks ranks = Load(&meeting, [](int r) { return GraphOf(r, nullptr); });
  const std::vector<absl::Status> results = OnEach(ranks, [&](int r) {
    return r == 2 ? absl::OkStatus() : ranks[r]->Run(3);
  });
  for (int r : {0, 1, 3}) {
    EXPECT_TRUE(IsError(results[r], ErrorCode::kPeerLost)) << results[r];
    EXPECT_THAT(std::string(results[r].message()),
                EndsWith("have not come: 2"));
  }
}

TEST(CollectiveSessionsTest, ARankThatDiesIsNamed) {
  runtime::LocalRendezvous meeting(kRanks, kPatientNs);
  const Ranks ranks = Load(&meeting, [](int r) { return GraphOf(r, nullptr); });
  const std::vector<absl::Status> results = OnEach(ranks, [&](int r) {
    if (r != 2) return ranks[r]->Run(1000);
    const absl::Status status = ranks[r]->Run(5);
    ranks[r]->Die();
    return status;
  });
  EXPECT_TRUE(results[2].ok()) << results[2];
  for (int r : {0, 1, 3}) {
    EXPECT_TRUE(IsError(results[r], ErrorCode::kPeerLost)) << results[r];
    EXPECT_THAT(std::string(results[r].message()), HasSubstr("rank 2"));
  }
}

}  // namespace
}  // namespace weft
