// What a profile says of figures that are given: no clock here, no session.

#include "runtime/observe/profile.h"

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/plan/kernel_cost.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "plugins/abi/weft_op_ids.h"
#include "runtime/observe/profile_report.h"
#include "runtime/testing/plan_builder.h"

namespace weft::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::In;
using testing::Out;
using testing::PlanBuilder;
using Task = plan::Task;

// data -> decode (worker 1) -> two equal products (worker 0) -> a negation on a
// device of its own, driven by worker 0.
plan::Plan MakePlan() {
  PlanBuilder b("train");
  b.proto().set_graph("net");
  const uint32_t host = b.AddDevice("cpu:0", /*is_inline=*/true);
  const uint32_t dev = b.AddDevice("sim:0", /*is_inline=*/false);
  const uint32_t io = b.AddStream("cpu:0/io", host, 1, /*ordered=*/false);
  const uint32_t s = b.AddStream("cpu:0/compute", host, 0, /*ordered=*/true);
  const uint32_t d = b.AddStream("sim:0/compute", dev, 0, /*ordered=*/true);
  const uint32_t raw = b.AddRegister("raw", host, {8, 8});
  const uint32_t x = b.AddRegister("x", host, {8, 8});
  const uint32_t y = b.AddRegister("y", host, {8, 8});
  const uint32_t z = b.AddRegister("z", host, {8, 8});
  const uint32_t zd = b.AddRegister("zd", dev, {8, 8});
  const uint32_t n = b.AddRegister("n", dev, {8, 8});
  const uint32_t source = b.AddTask(Task::SOURCE, "data", io, 1, "train");
  b.Output(source, raw);
  const uint32_t decode = b.AddTask(Task::COMPUTE, "decode", io);
  b.Input(decode, raw).Output(decode, x);
  b.Launch(decode, WEFT_OP_NEG, {In(0)}, {Out(0)});
  const uint32_t fc1 = b.AddTask(Task::COMPUTE, "fc1", s);
  b.Input(fc1, x).Output(fc1, y);
  b.Launch(fc1, WEFT_OP_MAT_MUL, {In(0), In(0)}, {Out(0)});
  const uint32_t fc2 = b.AddTask(Task::COMPUTE, "fc2", s);
  b.Input(fc2, y).Output(fc2, z);
  b.Launch(fc2, WEFT_OP_MAT_MUL, {In(0), In(0)}, {Out(0)});
  const uint32_t up = b.AddTask(Task::COPY, "up", d);
  b.Input(up, z).Output(up, zd);
  const uint32_t neg = b.AddTask(Task::COMPUTE, "neg", d);
  b.Input(neg, zd).Output(neg, n);
  b.Launch(neg, WEFT_OP_NEG, {In(0)}, {Out(0)});
  // Tasks share the kernels of equal descriptions.
  b.proto().mutable_tasks(fc2)->mutable_ops(0)->set_kernel(
      b.proto().tasks(fc1).ops(0).kernel());
  b.Order(s, {fc1, fc2}).Order(d, {up, neg});
  return b.Build();
}

// Two steps in 20 us. Worker 0 was in its loop for 19: 6 in the products, 1
// submitting, 2 + 3 + 1 waiting, so 6 for itself.
void Fill(ProfileLog* log) {
  std::vector<WorkerProfile*> workers = log->AddProgram(MakePlan());
  ASSERT_EQ(workers.size(), 2u);
  EXPECT_FALSE(workers[0]->recording());
  log->Start(1'000'000);
  EXPECT_TRUE(workers[0]->recording());
  workers[0]->SetSlots({{2, 0}, {3, 0}, {4, -1, 512}, {5, 0}});
  workers[1]->SetSlots({{0, -1, 256}, {1, 0}});
  for (int step = 0; step < 2; ++step) {
    workers[0]->AddLaunch(0, 2'000);
    workers[0]->AddLaunch(1, 1'000);
    workers[0]->AddLaunch(2, 3'000);
    workers[0]->AddLaunch(3, 500);
    workers[0]->AddSubmit(500);
    workers[0]->AddWait(Waiting::kData, 1'000);
    workers[0]->AddWait(Waiting::kDevice, 1'500);
    workers[0]->AddWait(Waiting::kOther, 500);
    workers[1]->AddLaunch(0, 100);
    workers[1]->AddLaunch(1, 200);
  }
  workers[0]->AddRun(19'000);
  workers[1]->AddRun(10'000);
  log->Stop(1'020'000, 2);
}

ProfileReport Report() {
  ProfileLog log("train");
  Fill(&log);
  // A product of 1024 operations takes at least 512 ns, or its 768 bytes 384.
  return *MakeProfileReport(log, {{"cpu:0", 2.0, 2.0, "a test"}});
}

TEST(KernelCostTest, IsThatOfTheOp) {
  const plan::Plan plan = MakePlan();
  absl::StatusOr<Cost> cost =
      plan::KernelCost(plan.kernels(plan.tasks(2).ops(0).kernel()));
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_EQ(cost->flops, 2 * 8 * 8 * 8);
  EXPECT_EQ(cost->bytes, 3 * 8 * 8 * 4);
}

TEST(KernelCostTest, RefusesWhatIsNoKernel) {
  const plan::Plan plan = MakePlan();
  plan::Kernel kernel = plan.kernels(plan.tasks(2).ops(0).kernel());
  kernel.mutable_inputs(0)->set_dims(1, 7);  // [8,7] by [8,8]
  EXPECT_TRUE(IsError(plan::KernelCost(kernel).status(), ErrorCode::kBadPlan));
  kernel = plan.kernels(0);
  kernel.set_op(99'999);
  EXPECT_TRUE(IsError(plan::KernelCost(kernel).status(), ErrorCode::kBadPlan));
  kernel = plan.kernels(0);
  kernel.add_attributes()->set_name("axis");
  EXPECT_TRUE(IsError(plan::KernelCost(kernel).status(), ErrorCode::kBadPlan));
}

TEST(ProfileTest, DataTasksFollowFromSourcesAlone) {
  // The products do too, by way of the data that they multiply; a task that
  // reads a variable or a counter would not.
  EXPECT_THAT(DataTasks(MakePlan()),
              ElementsAre(true, true, true, true, true, true));
  plan::Plan plan = MakePlan();
  plan.mutable_tasks(0)->set_binding("counter:step");
  EXPECT_THAT(DataTasks(plan),
              ElementsAre(false, false, false, false, false, false));
}

TEST(ProfileTest, RecordsItsProgramOnly) {
  ProfileLog log("eval");
  EXPECT_TRUE(log.AddProgram(MakePlan()).empty());
  EXPECT_TRUE(log.workers().empty());
}

TEST(ProfileTest, RowsAreKernelsWorstFirst) {
  const ProfileReport report = Report();
  ASSERT_EQ(report.rows.size(), 5u);
  // Equal products are one row; 4 of them took 6000 ns of which 2048 must be.
  const ProfileRow& product = report.rows[1];
  EXPECT_EQ(product.op, "MatMul");
  EXPECT_EQ(product.shape, "8x8");
  EXPECT_THAT(product.nodes, ElementsAre("fc1", "fc2"));
  EXPECT_EQ(product.calls, 4u);
  EXPECT_EQ(product.ns, 6'000u);
  EXPECT_EQ(product.flops, 1024);
  EXPECT_DOUBLE_EQ(product.gflops, 4 * 1024 / 6000.0);
  EXPECT_DOUBLE_EQ(product.flops_share, 4 * 1024 / 6000.0 / 2);
  EXPECT_DOUBLE_EQ(product.gbytes, 4 * 768 / 6000.0);
  EXPECT_DOUBLE_EQ(product.lost_ns, 6000 - 2048);
  // Of a device without ceilings all time counts as lost.
  const ProfileRow& copy = report.rows[0];
  EXPECT_EQ(copy.op, "copy");
  EXPECT_THAT(copy.nodes, ElementsAre("up"));
  EXPECT_EQ(copy.bytes, 512);
  EXPECT_EQ(copy.bytes_share, 0);
  EXPECT_DOUBLE_EQ(copy.lost_ns, 6'000);
  // The same op on two devices is two rows, on two lines of time.
  EXPECT_EQ(report.rows[2].op, "Neg");
  EXPECT_EQ(report.lines[report.rows[2].line].name, "sim:0/compute");
  EXPECT_EQ(report.rows[3].op, "source");
  // 512 bytes at 2 a ns: 256 ns would do, it took 200. Nothing is lost.
  EXPECT_EQ(report.rows[4].op, "Neg");
  EXPECT_EQ(report.lines[report.rows[4].line].name, "worker 1");
  EXPECT_EQ(report.rows[4].lost_ns, 0);
  EXPECT_GT(report.rows[4].bytes_share, 1);
}

TEST(ProfileTest, PartsOfEachLineAddUpToTheWindow) {
  const ProfileReport report = Report();
  ASSERT_EQ(report.lines.size(), 3u);
  for (const ProfileLine& line : report.lines) {
    EXPECT_EQ(line.kernels + line.submitting + line.run_time + line.data +
                  line.device + line.idle,
              20'000u)
        << line.name;
  }
  const ProfileLine& worker = report.lines[0];
  EXPECT_EQ(worker.kernels, 6'000u);  // not those of its device
  EXPECT_EQ(worker.submitting, 1'000u);
  EXPECT_EQ(worker.run_time, 6'000u);
  EXPECT_EQ(worker.data, 2'000u);
  EXPECT_EQ(worker.device, 3'000u);
  EXPECT_EQ(worker.idle, 2'000u);  // 1 us outside its loop
  EXPECT_DOUBLE_EQ(worker.run_time_share, 6.0 / 13);
  EXPECT_FALSE(report.lines[2].worker);
  EXPECT_EQ(report.lines[2].kernels, 7'000u);
  EXPECT_EQ(report.lines[2].idle, 13'000u);
}

TEST(ProfileTest, TextHasTheTableAndTheSums) {
  EXPECT_EQ(ProfileText(Report(), /*top=*/2),
            R"(program 'train' of 'net': 2 steps of 0.010 ms
most of cpu:0, on this device, now: 2.0 GFLOP/s, 2.0 GB/s (a test)

 lost ms       ms of step  calls  GFLOP/s of max     GB/s of max  where          op, first result, nodes
   0.003    0.003   30.0%      1                      0.2         sim:0/compute  copy  up
   0.002    0.003   30.0%      2      0.7    34%      0.5    26%  worker 0       MatMul 8x8  fc1, fc2
   0.001    0.001    8.0%      3                                                 3 more

worker 0 (cpu:0/compute, sim:0/compute)
            0.003   30.0%  kernels
            0.001    5.0%  submitting
            0.003   30.0%  run-time: 46.15% of the time that it was busy
            0.001   10.0%  waiting for data
            0.002   15.0%  waiting for a device
            0.001   10.0%  idle
            0.010  100.0%  a step

worker 1 (cpu:0/io)
            0.000    3.0%  kernels
            0.005   47.0%  run-time: 94.00% of the time that it was busy
            0.000    0.0%  waiting for data
            0.005   50.0%  idle
            0.010  100.0%  a step

sim:0/compute
            0.004   35.0%  kernels
            0.006   65.0%  idle
            0.010  100.0%  a step
)");
}

TEST(ProfileTest, JsonHasEverything) {
  const auto json = nlohmann::json::parse(ProfileJson(Report()));
  EXPECT_EQ(json["steps"], 2);
  EXPECT_DOUBLE_EQ(json["step_ms"], 0.01);
  ASSERT_EQ(json["rows"].size(), 5u);
  EXPECT_EQ(json["rows"][1]["op"], "MatMul");
  EXPECT_EQ(json["rows"][1]["nodes"].size(), 2u);
  EXPECT_EQ(json["rows"][1]["calls"], 2);
  EXPECT_DOUBLE_EQ(json["rows"][1]["ms"], 0.003);
  EXPECT_EQ(json["ceilings"][0]["gflops"], 2.0);
  EXPECT_DOUBLE_EQ(json["lines"][0]["run_time_ms"], 0.003);
}

TEST(ProfileTest, NothingRecordedIsNoReport) {
  ProfileLog log("train");
  log.AddProgram(MakePlan());
  absl::Status status = MakeProfileReport(log, {}).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kInternal));
  EXPECT_THAT(std::string(status.message()), HasSubstr("no step"));
}

}  // namespace
}  // namespace weft::runtime
