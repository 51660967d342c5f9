// What the tests of sessions share: small plans on the fake devices, what they
// must compute, and a session with its readers and consumers.
//
//   Fixture f;
//   f.Load(shape);               // programs "init" and "train"
//   f.Run("init", 0, 1);
//   f.Run("train", 0, 2);
//   EXPECT_EQ(f.State("w"), Reference(0, 2, shape.micro).w);
//
// Threading: one thread. Ownership: a Fixture owns all that it makes.
#ifndef WEFT_RUNTIME_SESSION_SESSION_FIXTURE_H_
#define WEFT_RUNTIME_SESSION_SESSION_FIXTURE_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/actor/spec.h"
#include "core/base/error.h"
#include "gtest/gtest.h"
#include "plugins/abi/weft_op_ids.h"
#include "runtime/session/session.h"
#include "runtime/testing/fake_plugin.h"
#include "runtime/testing/plan_builder.h"

namespace weft::runtime::session_test {

using testing::Const;
using testing::FakeOptions;
using testing::FakePlugin;
using testing::In;
using testing::NotifyingFakePlugin;
using testing::Out;
using testing::PlanBuilder;
using testing::SetFakeOptions;
using Task = plan::Task;

inline constexpr int64_t kWidth = 4;

// Element i of micro-batch `micro` of step `step`.
inline float Datum(uint64_t step, uint32_t micro, int64_t i) {
  return 0.001f * static_cast<float>(1 + (step * 7 + micro * 3 + i) % 11);
}

class Data : public SourceReader {
 public:
  absl::Status Fill(uint64_t step, uint32_t micro,
                    absl::Span<const HostTensor> out) override {
    if (fail_at_step >= 0 && step == static_cast<uint64_t>(fail_at_step)) {
      return MakeError(ErrorCode::kDataCorrupt, "data ends here");
    }
    EXPECT_EQ(out.size(), 1u);
    for (int64_t i = 0; i < kWidth; ++i) {
      static_cast<float*>(out[0].data)[i] = Datum(step, micro, i);
    }
    ++fills;
    return absl::OkStatus();
  }
  int64_t fail_at_step = -1;
  uint64_t fills = 0;
};

struct Row {
  uint64_t step;
  uint32_t micro;
  std::vector<float> values;
  friend bool operator==(const Row& a, const Row& b) {
    return a.step == b.step && a.micro == b.micro &&
           memcmp(a.values.data(), b.values.data(),
                  a.values.size() * sizeof(float)) == 0;
  }
};

class Rows : public SinkConsumer {
 public:
  absl::Status Consume(uint64_t step, uint32_t micro,
                       absl::Span<const HostTensor> in) override {
    Row row{step, micro, {}};
    for (const HostTensor& t : in) {
      const float* data = static_cast<const float*>(t.data);
      row.values.insert(row.values.end(), data, data + t.bytes / sizeof(float));
    }
    rows.push_back(std::move(row));
    if (on_row) on_row();
    return absl::OkStatus();
  }
  std::vector<Row> rows;
  std::function<void()> on_row;
};

struct Shape {
  bool async = false;      // compute on fake:1
  uint32_t io_worker = 0;  // 1: two workers
  uint32_t micro = 4;      // micro-batches a step
  uint32_t copies = 2;     // of the registers between tasks
};

inline std::string Words(std::initializer_list<int> bits) {
  std::string s;
  for (int b : bits) s.push_back(static_cast<char>(b));
  return s;
}

// w += sum over micro-batches of (x * w); the sum goes to a sink.
inline plan::Plan TrainPlan(const Shape& shape) {
  PlanBuilder b("train");
  const uint32_t n = shape.micro;
  b.proto().set_micro_batches(n);
  uint32_t host = b.AddDevice("fake:0", true);
  uint32_t dev = shape.async ? b.AddDevice("fake:1", false) : host;
  uint32_t compute = b.AddStream("compute", dev, 0, true);
  uint32_t io = b.AddStream("io", host, shape.io_worker, false);
  uint32_t x = b.AddRegister("x", host, {kWidth}, shape.copies);
  uint32_t xd =
      shape.async ? b.AddRegister("xd", dev, {kWidth}, shape.copies) : x;
  auto [w, we] = b.AddState("w", dev, {kWidth});
  uint32_t y = b.AddRegister("y", dev, {kWidth}, shape.copies);
  uint32_t g = b.AddRegister("g", dev, {kWidth}, shape.copies);
  uint32_t gh =
      shape.async ? b.AddRegister("gh", host, {kWidth}, shape.copies) : g;

  uint32_t source = b.AddTask(Task::SOURCE, "data", io, n, "data");
  b.Output(source, x);
  uint32_t var = b.AddTask(Task::VARIABLE, "w", compute, 2);
  b.Output(var, w, Words({7, 4})).Output(var, we, Words({4, 7}));
  uint32_t up = 0;
  if (shape.async) {
    up = b.AddTask(Task::COPY, "upload", compute, n);
    b.Input(up, x).Output(up, xd);
  }
  uint32_t mul = b.AddTask(Task::COMPUTE, "mul", compute, n);
  b.Input(mul, xd).Input(mul, w, actor::Held(n)).Output(mul, y);
  b.Launch(mul, WEFT_OP_MUL, {In(0), In(1)}, {Out(0)});
  uint32_t acc = b.AddTask(Task::ACCUMULATE, "sum", compute, n);
  b.Input(acc, y).Output(acc, g, actor::Accumulated(n));
  b.Launch(acc, WEFT_OP_ADD, {In(0), In(0)}, {Out(0)});
  uint32_t update = b.AddTask(Task::COMPUTE, "update", compute);
  b.Input(update, we).Input(update, g);
  b.Launch(update, WEFT_OP_ADD, {In(0), In(1)}, {In(0)});
  uint32_t down = 0;
  if (shape.async) {
    down = b.AddTask(Task::COPY, "download", compute);
    b.Input(down, g).Output(down, gh);
  }
  uint32_t sink = b.AddTask(Task::SINK, "loss", io, 1, "loss");
  b.Input(sink, gh);

  std::vector<uint32_t> order = {var};
  for (uint32_t i = 0; i < n; ++i) {
    if (shape.async) order.push_back(up);
    order.push_back(mul);
    order.push_back(acc);
  }
  order.push_back(var);
  order.push_back(update);
  if (shape.async) order.push_back(down);
  b.Order(compute, order);
  return b.Build();
}

// w = constant.
inline plan::Plan InitPlan(const Shape& shape,
                           const std::vector<float>& value) {
  PlanBuilder b("init");
  uint32_t host = b.AddDevice("fake:0", true);
  uint32_t dev = shape.async ? b.AddDevice("fake:1", false) : host;
  uint32_t compute = b.AddStream("compute", dev, 0, true);
  auto [w, we] = b.AddState("w", dev, {kWidth});
  uint32_t c = b.AddConstant(dev, value);
  uint32_t zero = b.AddConstant(dev, std::vector<float>(kWidth, 0));
  uint32_t var = b.AddTask(Task::VARIABLE, "w", compute, 2);
  b.Output(var, w, Words({7, 4})).Output(var, we, Words({4, 7}));
  uint32_t set = b.AddTask(Task::COMPUTE, "set", compute);
  b.Input(set, we);
  b.Launch(set, WEFT_OP_ADD, {Const(c), Const(zero)}, {In(0)});
  b.Order(compute, {var, var, set});
  return b.Build();
}

inline const std::vector<float> kStart = {1.0f, 0.5f, 0.25f, 3.0f};

struct Expected {
  std::vector<Row> rows;
  std::vector<float> w = kStart;
};

// The same, in plain code: the tree sum of 2^k operands, leftovers low first.
inline Expected Reference(uint64_t first_step, uint64_t steps, uint32_t micro) {
  Expected e;
  for (uint64_t s = first_step; s < first_step + steps; ++s) {
    std::vector<float> g(kWidth);
    for (int64_t i = 0; i < kWidth; ++i) {
      std::vector<std::pair<uint32_t, float>> stack;  // size, sum
      for (uint32_t m = 0; m < micro; ++m) {
        stack.push_back({1, Datum(s, m, i) * e.w[i]});
        while (stack.size() > 1 &&
               stack[stack.size() - 2].first == stack.back().first) {
          float right = stack.back().second;
          stack.pop_back();
          stack.back().first *= 2;
          stack.back().second = stack.back().second + right;
        }
      }
      while (stack.size() > 1) {
        float right = stack.back().second;
        stack.pop_back();
        stack.back().second = stack.back().second + right;
      }
      g[i] = stack[0].second;
    }
    for (int64_t i = 0; i < kWidth; ++i) e.w[i] = e.w[i] + g[i];
    e.rows.push_back({s, 0, g});
  }
  return e;
}

class Fixture {
 public:
  explicit Fixture(const FakeOptions& options = {}, bool signals = false,
                   SessionOptions session_options = {})
      : Fixture(options, FakePlugin(signals), session_options) {}
  Fixture(const FakeOptions& options, const Plugin& plugin,
          SessionOptions session_options = {}) {
    SetFakeOptions(options);
    host = *Device::Open(plugin, 0);
    dev = *Device::Open(plugin, 1);
    bindings.sources["data"] = &data;
    bindings.sinks["loss"] = &rows;
    session = *Session::Create({host.get(), dev.get()}, session_options);
  }
  ~Fixture() {
    session.reset();
    if (session_stays) {
      StayForEver();
      return;
    }
    EXPECT_TRUE(host->Close().ok());
    EXPECT_TRUE(dev->Close().ok());
  }
  // What a session that is not freed still has.
  void StayForEver() {
    static auto* devices = new std::vector<std::unique_ptr<Device>>;
    for (auto* device : {&host, &dev}) {
      EXPECT_FALSE((*device)->Close().ok());
      devices->push_back(std::move(*device));
    }
  }
  void Load(const Shape& shape) {
    absl::Status s = session->LoadProgram(InitPlan(shape, kStart), {});
    ASSERT_TRUE(s.ok()) << s;
    s = session->LoadProgram(TrainPlan(shape), bindings);
    ASSERT_TRUE(s.ok()) << s;
  }
  void Run(const std::string& program, uint64_t first, uint64_t periods) {
    absl::StatusOr<uint64_t> done = session->Run(program, first, periods);
    ASSERT_TRUE(done.ok()) << done.status();
    EXPECT_EQ(*done, periods);
  }
  std::vector<float> State(const std::string& name) {
    std::vector<float> w(kWidth);
    absl::Status s = session->ReadState(
        name, absl::MakeSpan(reinterpret_cast<char*>(w.data()),
                             w.size() * sizeof(float)));
    EXPECT_TRUE(s.ok()) << s;
    return w;
  }

  bool session_stays = false;
  std::unique_ptr<Device> host, dev;
  Data data;
  Rows rows;
  Bindings bindings;
  std::unique_ptr<Session> session;
};

// data on worker 1 -> neg on worker 0 -> loss on worker 1. `async`: neg between
// copies to and from fake:1.
inline plan::Plan NegPlan(bool async = false) {
  PlanBuilder b("neg");
  uint32_t host = b.AddDevice("fake:0", true);
  uint32_t dev = async ? b.AddDevice("fake:1", false) : host;
  uint32_t compute = b.AddStream("compute", dev, 0, true);
  uint32_t io = b.AddStream("io", host, 1, false);
  uint32_t x = b.AddRegister("x", host, {kWidth});
  uint32_t y = b.AddRegister("y", host, {kWidth});
  uint32_t xd = async ? b.AddRegister("xd", dev, {kWidth}) : x;
  uint32_t yd = async ? b.AddRegister("yd", dev, {kWidth}) : y;
  std::vector<uint32_t> order;
  uint32_t source = b.AddTask(Task::SOURCE, "data", io, 1, "data");
  b.Output(source, x);
  if (async) {
    order.push_back(b.AddTask(Task::COPY, "upload", compute));
    b.Input(order.back(), x).Output(order.back(), xd);
  }
  uint32_t neg = b.AddTask(Task::COMPUTE, "neg", compute);
  b.Input(neg, xd).Output(neg, yd);
  b.Launch(neg, WEFT_OP_NEG, {In(0)}, {Out(0)});
  order.push_back(neg);
  if (async) {
    order.push_back(b.AddTask(Task::COPY, "download", compute));
    b.Input(order.back(), yd).Output(order.back(), y);
  }
  uint32_t sink = b.AddTask(Task::SINK, "loss", io, 1, "loss");
  b.Input(sink, y);
  b.Order(compute, order);
  return b.Build();
}

}  // namespace weft::runtime::session_test

#endif  // WEFT_RUNTIME_SESSION_SESSION_FIXTURE_H_
