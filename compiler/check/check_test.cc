#include "compiler/check/check.h"

#include <string>

#include "compiler/check/happens_before.h"
#include "core/actor/spec.h"
#include "core/base/error.h"
#include "core/plan/actor_spec.h"
#include "core/plan/plan.h"
#include "core/plan/testing/plan_builder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::check {
namespace {

using plan::Plan;
using plan::PlanBuilder;
using plan::Task;
using ::testing::HasSubstr;

// One step of two micro-batches: data on its own stream, a parameter, an
// in-place activation, an accumulator and an update.
PlanBuilder Train() {
  PlanBuilder b;
  b.Stream("io", false);
  b.Stream("compute", true);
  b.Task("x", Task::SOURCE, "io", 2);
  b.Variable("w", "compute");
  b.Task("fc1", Task::COMPUTE, "compute", 2);
  b.Task("relu", Task::COMPUTE, "compute", 2);
  b.Task("sum", Task::COMPUTE, "compute", 2);
  b.Task("update", Task::COMPUTE, "compute");
  b.Task("loss", Task::SINK, "io", 1);
  b.Edge("x", "fc1", {"x/y", 64, 2});
  b.Edge("w", "fc1", {"w/shared", 64, 1, "", actor::Held(2)});
  b.Output("fc1", {"fc1/y"});
  b.InPlace("relu", "fc1/y", "relu/y");
  b.Edge("relu", "sum", {"relu/y"});
  b.Edge("sum", "update", {"sum/y", 64, 1, actor::Accumulated(2)});
  b.Edge("sum", "loss", {"sum/y"});
  b.Update("update", "w/exclusive");
  b.Order("compute",
          {"w", "fc1", "relu", "sum", "fc1", "relu", "sum", "w", "update"});
  return b;
}

// Four computes in a row between a source and a sink, on one stream.
PlanBuilder Row() {
  PlanBuilder b;
  b.Stream("compute", true);
  b.Task("x", Task::SOURCE, "compute");
  b.Task("a", Task::COMPUTE, "compute");
  b.Task("b", Task::COMPUTE, "compute");
  b.Task("c", Task::COMPUTE, "compute");
  b.Task("d", Task::COMPUTE, "compute");
  b.Task("out", Task::SINK, "compute");
  b.Edge("x", "a", {"x/y"});
  b.Edge("a", "b", {"a/y"});
  b.Edge("b", "c", {"b/y"});
  b.Edge("c", "d", {"c/y"});
  b.Edge("d", "out", {"d/y"});
  return b;
}

void ExpectRefuted(const Plan& plan, const std::string& text) {
  absl::Status status = CheckPlan(plan);
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(IsError(status, ErrorCode::kPlanRefuted)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

void Move(PlanBuilder* b, Plan* plan, const std::string& reg,
          const std::string& onto) {
  plan->mutable_registers(b->FindRegister(reg))
      ->set_offset(plan->registers(b->FindRegister(onto)).offset());
  FitArenas(plan);
}

TEST(CheckPlanTest, AcceptsATrainingStep) {
  EXPECT_EQ(CheckPlan(Train().Build()), absl::OkStatus());
}

TEST(CheckPlanTest, AcceptsAnEmptyPlan) {
  EXPECT_EQ(CheckPlan(PlanBuilder().Build()), absl::OkStatus());
}

TEST(CheckPlanTest, MalformedPlanIsBadPlan) {
  PlanBuilder b = Row();
  Plan plan = b.Build();
  plan.mutable_tasks(1)->mutable_inputs(0)->set_register_(99);
  EXPECT_TRUE(IsError(CheckPlan(plan), ErrorCode::kBadPlan));
}

TEST(CheckPlanTest, RefusesRatesThatDiffer) {
  // held(2) takes one of the two order edges that fc1 gives.
  PlanBuilder b = Train();
  b.Edge("fc1", "sum", {"fc1 done", 0, 1, "", actor::Held(2)});
  ExpectRefuted(b.Build(), "'fc1' [task 2] gives the order of 'fc1'");
}

TEST(CheckPlanTest, RefusesWrongNumberOfAcks) {
  PlanBuilder b = Train();
  Plan plan = b.Build();
  plan.mutable_registers(b.FindRegister("sum/y"))->set_acks_per_copy(1);
  ExpectRefuted(plan, "waits for 1 acks a copy, its final readers send 2");
}

TEST(CheckPlanTest, RefusesAnAliasThatNobodyReads) {
  PlanBuilder b = Row();
  b.Task("view", Task::COMPUTE, "compute");
  b.InPlace("view", "b/y", "view/y");
  ExpectRefuted(b.Build(), "is an alias that nobody reads");
}

TEST(CheckPlanTest, RefusesATaskThatNothingStops) {
  PlanBuilder b = Row();
  b.Task("iota", Task::COMPUTE, "compute");
  b.Edge("iota", "c", {"iota/y"});
  ExpectRefuted(b.Build(), "'iota' [task 6] takes nothing");
}

TEST(CheckPlanTest, NamesTheShortestCycleOfASwappedOrder) {
  PlanBuilder b = Row();
  b.Order("compute", {"x", "b", "a", "c", "d", "out"});
  const Plan plan = b.Build();
  ExpectRefuted(plan, "'b' [task 2] waits for 'a/y' [register 1] from 'a'");
  ExpectRefuted(plan, "'a' [task 1] waits for its turn on stream 'compute'");
  ExpectRefuted(plan, "launch 'a' [task 1] before 'b' [task 2]");
}

TEST(CheckPlanTest, NamesTheCopiesThatWouldBreakACycle) {
  PlanBuilder b;
  b.Stream("compute", true);
  b.Task("x", Task::SOURCE, "compute", 2);
  b.Task("out", Task::SINK, "compute", 2);
  b.Edge("x", "out", {"x/y", 64, 1});
  b.Order("compute", {"x", "x", "out", "out"});
  ExpectRefuted(b.Build(), "2 copies of 'x/y' [register 0] instead of 1");
}

TEST(CheckPlanTest, NamesTheOrderEdgeOfACycleWithoutCredit) {
  PlanBuilder b;
  b.Stream("io", false);
  b.Task("x", Task::SOURCE, "io");
  b.Task("a", Task::COMPUTE, "io");
  b.Task("out", Task::SINK, "io");
  b.Edge("x", "a", {"x/y"});
  b.Edge("a", "out", {"a/y"});
  b.Edge("out", "a", {"out done", 0});
  ExpectRefuted(b.Build(), "drop the order edge from 'out' [task 2] to 'a'");
}

TEST(CheckPlanTest, RefusesRegistersThatOverlapWhileBothAreLive) {
  PlanBuilder b = Row();
  Plan plan = b.Build();
  Move(&b, &plan, "b/y", "a/y");
  ExpectRefuted(plan, "nothing makes 'b' [task 2], which uses 'a/y'");
}

TEST(CheckPlanTest, AcceptsBytesSharedOneAfterAnother) {
  PlanBuilder b = Row();
  Plan plan = b.Build();
  Move(&b, &plan, "c/y", "a/y");  // 'b' is done before 'c' on their stream
  EXPECT_EQ(CheckPlan(plan), absl::OkStatus());
}

TEST(CheckPlanTest, RefusesSharedBytesWhereAReaderIsOnAnotherStream) {
  // The same, but another stream may still read a/y when c writes.
  PlanBuilder b = Row();
  b.Stream("io", false);
  b.Task("log", Task::SINK, "io");
  b.Edge("a", "log", {"a/y"});
  Plan plan = b.Build();
  Move(&b, &plan, "c/y", "a/y");
  ExpectRefuted(plan, "nothing makes 'log' [task 6], which uses 'a/y'");
}

TEST(CheckPlanTest, RefusesSharedBytesOfSeveralCopies) {
  PlanBuilder b;
  b.Stream("io", false);
  b.Stream("compute", true);
  b.Task("x", Task::SOURCE, "io");
  b.Task("a", Task::COMPUTE, "compute");
  b.Task("out", Task::SINK, "compute");
  b.Edge("x", "a", {"x/y", 64, 2});
  b.Edge("a", "out", {"a/y"});
  Plan plan = b.Build();
  // The source fills its second copy while 'a' works on the first.
  plan.mutable_registers(b.FindRegister("a/y"))->set_offset(64);
  FitArenas(&plan);
  ExpectRefuted(plan, "share bytes 64 to 128");
}

TEST(CheckPlanTest, RefusesBytesOfAVariable) {
  PlanBuilder b = Train();
  b.Variable("v", "compute");
  b.Update("update", "v/exclusive");
  b.Edge("v", "fc1", {"v/shared", 64, 1, "", actor::Held(2)});
  b.Order("compute", {"w", "v", "fc1", "relu", "sum", "fc1", "relu", "sum", "w",
                      "v", "update"});
  Plan plan = b.Build();
  EXPECT_EQ(CheckPlan(plan), absl::OkStatus());
  Move(&b, &plan, "v/shared", "w/shared");
  Move(&b, &plan, "v/exclusive", "w/shared");
  ExpectRefuted(plan, "but a variable keeps its value");
}

TEST(CheckPlanTest, RefusesPhasesThatDoNotWaitForEachOther) {
  PlanBuilder b;
  b.Stream("io", false);
  b.Variable("w", "io");
  b.Task("read", Task::SINK, "io");
  b.Task("update", Task::COMPUTE, "io");
  b.Edge("w", "read", {"w/shared"});
  b.Update("update", "w/exclusive");
  Plan plan = b.Build();
  EXPECT_EQ(CheckPlan(plan), absl::OkStatus());
  for (int k : {0, 1}) {
    std::string* acts = plan.mutable_tasks(0)
                            ->mutable_outputs(k)
                            ->mutable_pattern()
                            ->mutable_acts();
    for (char& bits : *acts) bits &= 3;
  }
  ExpectRefuted(plan, "'w/shared' [register 0] and 'w/exclusive'");
}

TEST(CheckPlanTest, RefusesInPlaceWithoutAnOrderEdge) {
  PlanBuilder b = Row();
  b.Stream("io", false);
  b.Task("log", Task::SINK, "io");
  b.Task("relu", Task::COMPUTE, "compute");
  b.Task("end", Task::SINK, "compute");
  b.InPlace("relu", "b/y", "relu/y");
  b.Edge("b", "log", {"b/y"});
  b.Edge("relu", "end", {"relu/y"});
  // 'c' reads b/y before on the same stream; 'log' does so at any time.
  ExpectRefuted(b.Build(),
                "an order edge from 'log' [task 6] to 'relu' [task 7]");
  b.Edge("log", "relu", {"log done", 0});
  EXPECT_EQ(CheckPlan(b.Build()), absl::OkStatus());
}

// Of x/y, `viewer` makes the view "view"; `user`, which nothing orders against
// it, is still to use x/y. 'out' is there to read.
PlanBuilder AViewAndAUser(Task::Kind kind, const std::string& viewer,
                          const std::string& user) {
  PlanBuilder b;
  b.Stream("io", false);
  b.Task("x", Task::SOURCE, "io");
  b.Task(viewer, kind, "io");
  b.Task(user, Task::COMPUTE, "io");
  b.Task("out", Task::SINK, "io");
  b.Output("x", {"x/y"});
  b.Slices(viewer, "x/y", "view", 1);
  b.Edge(viewer, "out", {"view"});
  return b;
}

TEST(CheckPlanTest, ASendReadsWhatItGivesOn) {
  PlanBuilder b = AViewAndAUser(Task::SEND, "send", "relu");
  b.InPlace("relu", "x/y", "relu/y");
  b.Edge("relu", "out", {"relu/y"});
  ExpectRefuted(b.Build(), "finish reading that before");
}

// Each view has been made of the two before it: ways back are many.
TEST(CheckPlanTest, ProvesALongChainOfViews) {
  PlanBuilder b;
  b.Stream("io", false);
  b.Task("x", Task::SOURCE, "io");
  b.Output("x", {"view0"});
  constexpr int kViews = 60;
  for (int i = 1; i <= kViews; ++i) {
    const std::string view = "view" + std::to_string(i);
    b.Task(view, Task::COMPUTE, "io");
    b.Slices(view, "view" + std::to_string(i - 1), view, 1);
    if (i < 2) continue;
    const std::string before = "view" + std::to_string(i - 2);
    b.Edge(i == 2 ? "x" : before, view, {before});
  }
  b.Task("log", Task::SINK, "io");
  b.Task("relu", Task::COMPUTE, "io");
  b.Task("out", Task::SINK, "io");
  b.Edge("view" + std::to_string(kViews), "log",
         {"view" + std::to_string(kViews)});
  b.InPlace("relu", "view0", "relu/y");
  b.Edge("relu", "out", {"relu/y"});
  b.Edge("log", "relu", {"log done", 0});
  EXPECT_EQ(CheckPlan(b.Build()), absl::OkStatus());
}

TEST(CheckPlanTest, OrdersReadersOfAVariableAgainstItsWriteBack) {
  // The update runs elsewhere: read-copy, update, write-back.
  PlanBuilder b;
  b.Stream("io", false);
  b.Variable("w", "io");
  b.Task("read", Task::COPY, "io");
  b.Task("update", Task::COMPUTE, "io");
  b.Task("write", Task::COPY, "io");
  b.Task("loss", Task::SINK, "io");
  b.Edge("w", "loss", {"w/shared"});
  b.Edge("w", "read", {"w/exclusive"});
  b.Edge("read", "update", {"read/y"});
  b.Edge("update", "write", {"update/y"});
  b.Edge("w", "write", {"w/exclusive"});
  EXPECT_EQ(CheckPlan(b.Build()), absl::OkStatus());
  // Another reader in the same phase, which nothing orders.
  b.Task("watch", Task::SINK, "io");
  b.Edge("w", "watch", {"w/exclusive"});
  ExpectRefuted(b.Build(), "from 'watch' [task 5] to 'write' [task 3]");
}

TEST(CheckPlanTest, AcceptsViewsOfOneRegisterAtOnce) {
  PlanBuilder b = AViewAndAUser(Task::COMPUTE, "v", "u");
  b.Slices("u", "x/y", "u/y", 1);
  b.Edge("u", "out", {"u/y"});
  EXPECT_EQ(CheckPlan(b.Build()), absl::OkStatus());
}

TEST(CheckPlanTest, AcceptsSlices) {
  PlanBuilder b;
  b.Stream("io", false);
  b.Task("x", Task::SOURCE, "io");
  b.Task("unpack", Task::COMPUTE, "io", 4);
  b.Task("out", Task::SINK, "io", 4);
  b.Output("x", {"x/y", 256, 2});
  b.Slices("unpack", "x/y", "slice", 4);
  b.Edge("unpack", "out", {"slice"});
  EXPECT_EQ(CheckPlan(b.Build()), absl::OkStatus());
}

TEST(CheckPlanTest, RefusesMemoryOfAnotherDevice) {
  PlanBuilder b;
  b.Device("sim:0");
  b.Stream("io", false);
  b.Stream("compute", true, /*device=*/1);
  b.Task("x", Task::SOURCE, "io");
  b.Task("a", Task::COMPUTE, "compute");
  b.Task("out", Task::SINK, "io");
  b.Output("x", {"x/y"});
  b.InPlace("a", "x/y", "a/y");
  b.Edge("a", "out", {"a/y"});
  ExpectRefuted(b.Build(),
                "touches 'x/y' [register 0], which lies on device "
                "'cpu:0'");
}

TEST(CheckPlanTest, RefusesAnArenaOfTheWrongSize) {
  PlanBuilder b = Row();
  Plan plan = b.Build();
  plan.mutable_arenas(0)->set_bytes(4096);
  ExpectRefuted(plan, "has 4096 bytes, its contents need 320");
}

TEST(CheckPlanTest, RefusesWhatIsNoProgram) {
  Plan plan = Train().Build();
  ASSERT_TRUE(CheckPlan(plan).ok());
  plan.set_micro_batches(0);
  EXPECT_TRUE(IsError(CheckPlan(plan), ErrorCode::kBadPlan));
  plan = Train().Build();
  plan.clear_program();
  EXPECT_TRUE(IsError(CheckPlan(plan), ErrorCode::kBadPlan));
  plan = Train().Build();
  plan.mutable_registers(Train().FindRegister("w/exclusive"))->set_state("v");
  absl::Status status = CheckPlan(plan);
  EXPECT_TRUE(IsError(status, ErrorCode::kBadPlan)) << status;
  EXPECT_NE(status.message().find("states 'w' and 'v'"),
            absl::string_view::npos)
      << status;
}

TEST(CheckPlanTest, RefusesUnalignedRegisters) {
  PlanBuilder b = Row();
  Plan plan = b.Build();
  plan.mutable_registers(b.FindRegister("d/y"))->set_offset(264);
  FitArenas(&plan);
  ExpectRefuted(plan, "wants a multiple of 64");
}

TEST(HappensBeforeTest, FollowsMessagesAndStreams) {
  PlanBuilder b = Train();
  const Plan plan = b.Build();
  plan::PlanView view = *plan::PlanView::Create(&plan);
  actor::TableSpec spec = *plan::PlanToActorSpec(view);
  HappensBefore hb = *HappensBefore::Create(spec, 3);
  const uint32_t x = b.FindTask("x"), fc1 = b.FindTask("fc1");
  const uint32_t update = b.FindTask("update"), loss = b.FindTask("loss");
  EXPECT_TRUE(hb.Before({x, 1}, {fc1, 1}));       // by REQ
  EXPECT_TRUE(hb.Before({fc1, 0}, {x, 2}));       // by ACK: two copies
  EXPECT_FALSE(hb.Before({fc1, 0}, {x, 1}));      // a copy is free
  EXPECT_TRUE(hb.Before({update, 0}, {fc1, 2}));  // by the variable
  EXPECT_FALSE(hb.Before({loss, 0}, {update, 0}));
  EXPECT_FALSE(hb.Before({update, 0}, {loss, 0}));
  EXPECT_FALSE(hb.Before({fc1, 1}, {fc1, 1}));
  EXPECT_FALSE(hb.Before({fc1, 1}, {fc1, 0}));
}

// Sources, sinks and what runs on a stream without an order are ordered by
// messages alone.
TEST(HappensBeforeTest, FollowsMessagesWithoutStreams) {
  PlanBuilder b;
  b.Stream("io", false);
  b.Stream("compute", true);
  for (const char* name : {"x", "y"}) b.Task(name, Task::SOURCE, "io");
  for (const char* name : {"decode", "scale"})
    b.Task(name, Task::COMPUTE, "io");
  b.Task("fc1", Task::COMPUTE, "compute");
  for (const char* name : {"loss", "copy"}) b.Task(name, Task::SINK, "io");
  b.Edge("x", "decode", {"x/y"});
  b.Edge("decode", "scale", {"decode/y", 64, 2});
  b.Edge("scale", "copy", {"scale/y"});
  b.Edge("y", "fc1", {"y/y"});
  b.Edge("scale", "fc1", {"scale/y"});
  b.Edge("fc1", "loss", {"fc1/y"});
  const Plan plan = b.Build();
  plan::PlanView view = *plan::PlanView::Create(&plan);
  actor::TableSpec spec = *plan::PlanToActorSpec(view);
  HappensBefore hb = *HappensBefore::Create(spec, 5);
  const uint32_t x = b.FindTask("x"), y = b.FindTask("y");
  const uint32_t decode = b.FindTask("decode"), scale = b.FindTask("scale");
  const uint32_t fc1 = b.FindTask("fc1"), copy = b.FindTask("copy");
  const uint32_t loss = b.FindTask("loss");
  // Through loose acts alone, to one and to a stream.
  EXPECT_TRUE(hb.Before({x, 1}, {copy, 1}));
  EXPECT_TRUE(hb.Before({x, 1}, {copy, 3}));
  EXPECT_FALSE(hb.Before({x, 2}, {copy, 1}));
  EXPECT_TRUE(hb.Before({x, 2}, {fc1, 2}));
  EXPECT_FALSE(hb.Before({x, 3}, {fc1, 2}));
  // Through a stream in between.
  EXPECT_TRUE(hb.Before({x, 2}, {loss, 2}));
  EXPECT_TRUE(hb.Before({y, 0}, {loss, 1}));
  EXPECT_FALSE(hb.Before({y, 2}, {loss, 1}));
  // By copies that come back: one of x, two of decode, one of scale.
  EXPECT_TRUE(hb.Before({decode, 0}, {x, 1}));
  EXPECT_TRUE(hb.Before({scale, 0}, {decode, 2}));
  EXPECT_FALSE(hb.Before({scale, 0}, {decode, 1}));
  EXPECT_TRUE(hb.Before({copy, 0}, {scale, 1}));
  EXPECT_TRUE(hb.Before({fc1, 0}, {scale, 1}));
  EXPECT_FALSE(hb.Before({copy, 0}, {loss, 0}));
  EXPECT_FALSE(hb.Before({loss, 0}, {copy, 0}));
  EXPECT_FALSE(hb.Before({y, 0}, {copy, 0}));
  EXPECT_FALSE(hb.Before({y, 0}, {scale, 0}));
  EXPECT_TRUE(hb.Before({y, 0}, {scale, 1}));  // through fc1
}

// More acts of a source than a byte can count.
TEST(HappensBeforeTest, FollowsManyActs) {
  PlanBuilder b = Train();
  const Plan plan = b.Build();
  plan::PlanView view = *plan::PlanView::Create(&plan);
  actor::TableSpec spec = *plan::PlanToActorSpec(view);
  HappensBefore hb = *HappensBefore::Create(spec, 300);
  const uint32_t x = b.FindTask("x"), fc1 = b.FindTask("fc1");
  const uint32_t loss = b.FindTask("loss"), sum = b.FindTask("sum");
  for (uint32_t act : {100u, 255u, 256u, 299u, 598u}) {
    EXPECT_TRUE(hb.Before({x, act}, {fc1, act}));
    EXPECT_FALSE(hb.Before({x, act + 1}, {fc1, act}));
  }
  EXPECT_TRUE(hb.Before({loss, 254}, {loss, 299}));
  EXPECT_TRUE(hb.Before({loss, 100}, {sum, 2 * 101}));
}

TEST(LiveRangesTest, SaysWhatMayShareBytes) {
  PlanBuilder b = Row();
  const Plan plan = b.Build();
  plan::PlanView view = *plan::PlanView::Create(&plan);
  actor::TableSpec spec = *plan::PlanToActorSpec(view);
  HappensBefore hb =
      *HappensBefore::Create(spec, HappensBefore::PeriodsFor(spec));
  LiveRanges live(spec, hb);
  const uint32_t a = b.FindRegister("a/y"), c = b.FindRegister("c/y");
  EXPECT_TRUE(live.NeverTogether(a, c));
  EXPECT_FALSE(live.NeverTogether(a, b.FindRegister("b/y")));
  EXPECT_FALSE(live.NeverTogether(a, a));
  EXPECT_EQ(live.Of(a, 0).size(), hb.periods());
}

}  // namespace
}  // namespace weft::check
