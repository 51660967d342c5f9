#include "core/plan/job.h"

#include <string>

#include "core/base/error.h"
#include "core/plan/plan.h"
#include "core/plan/testing/plan_builder.h"
#include "core/types/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::plan {
namespace {

using ::testing::HasSubstr;

Channel* AddChannel(Plan* plan, uint32_t rank, bool receives) {
  plan->set_rank(rank);
  plan->set_ranks(2);
  Channel* channel = plan->add_channels();
  channel->set_id(7);
  channel->set_name("x:0>1");
  channel->set_peer(1 - rank);
  channel->set_receives(receives);
  channel->set_copies(1);
  return channel;
}

// Rank 0 sends 'x' to rank 1.
Plan Sender() {
  PlanBuilder b;
  b.Stream("io", false);
  b.Stream("wire", false);
  b.Task("x", Task::SOURCE, "io");
  b.Task("send", Task::SEND, "wire");
  b.Edge("x", "send", {"x/y"});
  Plan plan = b.Build();
  Channel* channel = AddChannel(&plan, 0, false);
  *channel->mutable_tensor() = plan.registers(0).tensors(0);
  plan.mutable_tasks(1)->set_channel(1);
  return plan;
}

Plan Receiver() {
  PlanBuilder b;
  b.Stream("wire", false);
  b.Stream("sink", false);
  b.Task("post", Task::POST, "wire");
  b.Task("recv", Task::RECV, "wire");
  b.Task("out", Task::SINK, "sink");
  b.Output("post", {"posted"});
  b.InPlace("recv", "posted", "x");
  b.plan().mutable_tasks(1)->clear_ops();
  b.Edge("recv", "out", {"x"});
  Plan plan = b.Build();
  Channel* channel = AddChannel(&plan, 1, true);
  *channel->mutable_tensor() = plan.registers(0).tensors(0);
  plan.mutable_tasks(0)->set_channel(1);
  plan.mutable_tasks(1)->set_channel(1);
  return plan;
}

TEST(JobTest, RegistersTakeThePlaceOfChannels) {
  const Plan a = Sender(), b = Receiver();
  ASSERT_TRUE(Validate(a).ok()) << Validate(a);
  ASSERT_TRUE(Validate(b).ok()) << Validate(b);
  auto job = JoinRanks({&a, &b});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->tasks_size(), 5);
  EXPECT_EQ(job->channels_size(), 0);
  EXPECT_EQ(job->tasks(1).name(), "rank 0/send");
  EXPECT_EQ(job->tasks(3).name(), "rank 1/recv");
  // The credit goes from POST to SEND, the data from SEND to RECV.
  const uint32_t credit = job->tasks(1).inputs(1).register_();
  const uint32_t data = job->tasks(3).inputs(1).register_();
  EXPECT_EQ(job->tasks(2).outputs(1).register_(), credit);
  EXPECT_EQ(job->tasks(1).outputs(0).register_(), data);
  EXPECT_TRUE(Validate(*job).ok()) << Validate(*job);
}

TEST(JobTest, NamesTheFirstChannelThatDiffers) {
  const Plan a = Sender();
  Plan b = Receiver();
  auto text = [&](const Plan& x, const Plan& y) {
    auto job = JoinRanks({&x, &y});
    EXPECT_TRUE(IsError(job.status(), ErrorCode::kPlansDiffer)) << job.status();
    return std::string(job.status().message());
  };
  Plan other = b;
  other.mutable_channels(0)->set_id(8);
  EXPECT_THAT(text(a, other), HasSubstr("rank 0 sends f32[16], 1 copies, rank "
                                        "1 receives nothing"));
  other = b;
  other.mutable_pipeline()->set_schedule("gpipe");
  other.mutable_pipeline()->set_stages(2);
  EXPECT_THAT(text(a, other),
              HasSubstr("rank 0 plans for no pipeline, rank 1 for the pipeline "
                        "gpipe of 2 stages"));
  other = b;
  for (TensorDesc* t : {other.mutable_channels(0)->mutable_tensor(),
                        other.mutable_registers(0)->mutable_tensors(0),
                        other.mutable_registers(1)->mutable_tensors(0)}) {
    t->set_dims(0, 8);
    t->set_dtype(static_cast<uint32_t>(DType::kF64));
  }
  EXPECT_THAT(text(a, other), HasSubstr("rank 0 sends f32[16], 1 copies, rank "
                                        "1 receives f64[8], 1 copies"));
}

TEST(JobTest, EachPlanIsOfItsRank) {
  const Plan a = Sender(), b = Receiver();
  auto job = JoinRanks({&b, &a});
  EXPECT_TRUE(IsError(job.status(), ErrorCode::kBadPlan)) << job.status();
}

TEST(ChannelTest, EndsAreChecked) {
  auto refused = [](const Plan& plan, absl::string_view what) {
    EXPECT_TRUE(IsError(Validate(plan), ErrorCode::kBadPlan));
    EXPECT_THAT(std::string(Validate(plan).message()),
                HasSubstr(std::string(what)));
  };
  Plan plan = Receiver();
  plan.mutable_channels(0)->set_peer(1);
  refused(plan, "leads to rank 1");
  plan = Receiver();
  plan.mutable_channels(0)->set_copies(0);
  refused(plan, "has 0 copies");
  plan = Receiver();
  plan.mutable_channels(0)->set_copies(2);
  refused(plan, "has 1 copies at channel 'x:0>1' from rank 0, which has 2");
  plan = Receiver();
  plan.mutable_tasks(0)->set_channel(2);
  refused(plan, "channel 1 of 1");
  plan = Sender();
  plan.mutable_channels(0)->set_receives(true);
  refused(plan, "wrong end");
  plan = Sender();
  plan.mutable_channels(0)->mutable_tensor()->set_dims(0, 5);
  refused(plan, "carry");
  plan = Sender();
  plan.set_rank(2);
  refused(plan, "rank 2 of 2");
}

}  // namespace
}  // namespace weft::plan
