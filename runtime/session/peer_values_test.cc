// What a program makes of what other ranks say of values that it is to read
// where they lie.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/plan/testing/plan_builder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/host/device.h"
#include "runtime/registers/memory.h"
#include "runtime/session/program.h"
#include "runtime/testing/fake_plugin.h"

namespace weft::runtime {
namespace {

using plan::Task;
using ::testing::HasSubstr;

constexpr uint64_t kValue = 5, kRead = 6;  // channels
constexpr uint64_t kBytes = 64;

// Rank 0 reads two copies of 'x' of rank 1.
plan::Plan ReaderPlan(const Device& device) {
  plan::PlanBuilder b;
  b.Stream("wire", false);
  b.Stream("compute", true);
  b.Task("post", Task::POST, "wire");
  b.Task("recv", Task::RECV, "wire");
  b.Task("use", Task::COMPUTE, "compute");
  b.Task("read", Task::SEND, "wire");
  b.Edge("post", "recv", {"posted", 0, 2});
  b.Edge("recv", "use", {"x", kBytes, 2});
  b.Edge("use", "read", {"used", 0});
  plan::Plan plan = b.Build();
  plan.set_rank(0);
  plan.set_ranks(2);
  plan::Device* host = plan.mutable_devices(0);
  host->set_name(device.Name());
  host->set_inline_(true);
  host->set_host_mapped(true);
  plan::Arena* peer = plan.add_arenas();
  peer->set_kind(plan::Arena::PEER);
  plan::Register* x =
      plan.mutable_registers(static_cast<int>(b.FindRegister("x")));
  x->set_arena(static_cast<uint32_t>(plan.arenas_size()) - 1);
  x->set_offset(0);
  for (uint64_t id : {kValue, kRead}) {
    plan::Channel* channel = plan.add_channels();
    channel->set_id(id);
    channel->set_peer(1);
    channel->set_copies(2);
    channel->set_receives(id == kValue);
    channel->set_name(id == kValue ? "x" : "x.read");
  }
  *plan.mutable_channels(0)->mutable_tensor() = x->tensors(0);
  plan.mutable_channels(0)->set_read(2);
  for (int task : {0, 1}) plan.mutable_tasks(task)->set_channel(1);
  plan.mutable_tasks(3)->set_channel(2);
  plan.mutable_tasks(2)->clear_ops();
  return plan;
}

class PeerValuesTest : public ::testing::Test {
 protected:
  PeerValuesTest()
      : device_(Device::Open(testing::FakePlugin(), 0).value()),
        memory_({device_.get()}) {
    bool reserved = false;
    auto program =
        Program::Load(ReaderPlan(*device_), {}, 0, &memory_, &reserved);
    EXPECT_TRUE(program.ok()) << program.status();
    if (program.ok()) program_ = *std::move(program);
  }

  absl::Status Take(uint32_t rank, const PeerValue& value) {
    return program_->TakePeerValues({{{rank, kValue}, value}});
  }

  alignas(4096) char bytes_[4096] = {};
  std::unique_ptr<Device> device_;
  SessionMemory memory_;
  std::unique_ptr<Program> program_;
};

TEST_F(PeerValuesTest, WhatFitsIsTaken) {
  EXPECT_TRUE(Take(1, {bytes_, 1024, 1024 + kBytes}).ok());
  EXPECT_TRUE(Take(1, {bytes_, 0, kBytes}).ok());  // one copy for both
}

TEST_F(PeerValuesTest, WhatDoesNotFitNamesTheChannelAndTheRank) {
  struct Case {
    const char* what;
    uint32_t rank;
    PeerValue value;
  };
  for (const Case& c : std::vector<Case>{
           {"another's word for it", 0, {bytes_, 0, kBytes}},
           {"no room", 1, {bytes_, 0, kBytes - 1}},
           {"no room for the second", 1, {bytes_, 1024, 1023 + kBytes}},
           {"a stride beyond all bounds", 1, {bytes_, ~uint64_t{63}, 4096}},
           {"a copy that is not aligned", 1, {bytes_, 65, 4096}},
           {"a place that is not aligned", 1, {bytes_ + 4, 64, 4000}}}) {
    SCOPED_TRACE(c.what);
    const absl::Status status = Take(c.rank, c.value);
    EXPECT_TRUE(IsError(status, ErrorCode::kTransportFailed)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("channel 'x' from rank 1: rank 1"));
  }
}

}  // namespace
}  // namespace weft::runtime
