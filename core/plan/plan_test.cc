#include "core/plan/plan.h"

#include <functional>
#include <string>

#include "core/actor/actor.h"
#include "core/base/error.h"
#include "core/base/os.h"
#include "core/plan/actor_spec.h"
#include "core/plan/plan_file.h"
#include "core/plan/print.h"
#include "core/plan/testing/plan_builder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A source with four slices, an activation in place, a variable, a sink.
PlanBuilder Small() {
  PlanBuilder b;
  b.Stream("io", false, 0, /*worker=*/1);
  b.Stream("compute", true);
  b.Task("x", Task::SOURCE, "io");
  b.Task("unpack", Task::COMPUTE, "io", 4);
  b.Task("relu", Task::COMPUTE, "compute", 4);
  b.Output("x", {"x/y", 1024, 2});
  b.Slices("unpack", "x/y", "slice", 4);
  b.InPlace("relu", "slice", "relu/y");
  b.Variable("w", "compute");
  b.Task("out", Task::SINK, "compute", 4);
  b.Edge("relu", "out", {"relu/y"});
  b.Edge("w", "out", {"w/shared", 0, 0, "", actor::Held(4)});
  b.Update("out", "w/exclusive");
  b.plan()
      .mutable_tasks(b.FindTask("out"))
      ->mutable_inputs(2)
      ->mutable_pattern()
      ->set_acts(actor::Held(4));
  return b;
}

TEST(PlanViewTest, DerivesOwnersReadersAndAcks) {
  PlanBuilder b = Small();
  const Plan plan = b.Build();
  PlanView view = *PlanView::Create(&plan);
  const uint32_t x = b.FindRegister("x/y"), slice = b.FindRegister("slice");
  const uint32_t y = b.FindRegister("relu/y");
  EXPECT_EQ(view.producer(y), (Use{b.FindTask("relu"), 0}));
  EXPECT_THAT(view.readers(slice), ElementsAre(Use{b.FindTask("relu"), 0}));
  EXPECT_EQ(view.root(y), x);
  EXPECT_EQ(view.slices(y), 4u);
  EXPECT_EQ(view.expected_acks(x), 4u);  // 'out' acks each slice
  EXPECT_EQ(view.expected_acks(slice), 0u);
  EXPECT_EQ(view.TaskName(0), "'x' [task 0]");
  EXPECT_EQ(view.RegisterName(y),
            "'relu/y' [register " + std::to_string(y) + "]");
}

TEST(PlanViewTest, FindsTheBytesOfSlices) {
  PlanBuilder b = Small();
  const Plan plan = b.Build();
  PlanView view = *PlanView::Create(&plan);
  const uint32_t y = b.FindRegister("relu/y");
  EXPECT_EQ(view.offset(y, 0), 0u);
  EXPECT_EQ(view.offset(y, 3), 768u);
  EXPECT_EQ(view.offset(y, 5), 1024u + 256u);
}

TEST(PlanViewTest, KnowsWhatIsWritten) {
  PlanBuilder b = Small();
  const Plan plan = b.Build();
  PlanView view = *PlanView::Create(&plan);
  EXPECT_FALSE(view.writes_output({b.FindTask("unpack"), 0}));  // a view
  EXPECT_TRUE(view.writes_output({b.FindTask("relu"), 0}));
  EXPECT_TRUE(view.writes_output({b.FindTask("x"), 0}));
  EXPECT_FALSE(view.writes_input({b.FindTask("out"), 0}));
  EXPECT_TRUE(view.writes_input({b.FindTask("out"), 2}));
  EXPECT_TRUE(view.reads_on_host({b.FindTask("out"), 0}));
  EXPECT_FALSE(view.reads_on_host({b.FindTask("relu"), 0}));
}

TEST(ActorSpecTest, RoutesAcksToTheOwner) {
  PlanBuilder b = Small();
  const Plan plan = b.Build();
  PlanView view = *PlanView::Create(&plan);
  ActorSpecOptions options;
  options.rank = 3;
  options.first_index = 100;
  actor::TableSpec spec = *PlanToActorSpec(view, options);
  const actor::ActorSpec& out = spec.actors[b.FindTask("out")];
  EXPECT_EQ(out.inputs[0].reg, b.FindRegister("relu/y"));
  EXPECT_EQ(out.inputs[0].ack_register, b.FindRegister("x/y"));
  EXPECT_EQ(out.inputs[0].ack_divisor, 4u);
  EXPECT_EQ(out.inputs[0].producer, actor::ActorId::Make(3, 0, 100));
  EXPECT_TRUE(spec.actors[b.FindTask("relu")].outputs[0].readers[0].host);
}

TEST(ActorSpecTest, TakesTheStreamsOfOneWorker) {
  PlanBuilder b = Small();
  const Plan plan = b.Build();
  PlanView view = *PlanView::Create(&plan);
  ActorSpecOptions options;
  options.worker = 0;
  actor::TableSpec spec = *PlanToActorSpec(view, options);
  ASSERT_EQ(spec.streams.size(), 1u);
  EXPECT_EQ(spec.actors[0].name, "relu");
  EXPECT_THAT(spec.streams[0].order, ElementsAre(0, 0, 0, 0, 1, 1, 2, 2, 2, 2));
  EXPECT_TRUE(actor::ActorTable::Create(spec).ok());
}

struct BadCase {
  const char* what;
  void (*change)(Plan*);
  const char* message;
};

constexpr BadCase kBadCases[] = {
    {"device of stream", [](Plan* p) { p->mutable_streams(0)->set_device(7); },
     "device of stream 'io' [0] is 7"},
    {"worker", [](Plan* p) { p->mutable_streams(0)->set_worker(2); },
     "worker of stream 'io' [0] is 2"},
    {"workers", [](Plan* p) { p->set_workers(~uint32_t{0}); },
     "4294967295 workers; at most 1024"},
    {"alignment", [](Plan* p) { p->mutable_devices(0)->set_alignment(3); },
     "alignment 3"},
    {"no device", [](Plan* p) { p->clear_devices(); }, "no device"},
    {"order", [](Plan* p) { p->mutable_streams(1)->add_order(99); },
     "is 99, but there are only"},
    {"order count", [](Plan* p) { p->mutable_streams(1)->add_order(2); },
     "5 times in its stream's order"},
    {"order of another stream",
     [](Plan* p) { p->mutable_streams(1)->set_order(0, 0); },
     "order of another stream"},
    {"order without order",
     [](Plan* p) { p->mutable_streams(0)->add_order(0); },
     "is not ordered, but has an order"},
    {"arena", [](Plan* p) { p->mutable_registers(0)->set_arena(44); }, "44"},
    {"copies", [](Plan* p) { p->mutable_registers(0)->set_copies(0); },
     "0 copies"},
    {"outside of arena",
     [](Plan* p) { p->mutable_registers(0)->set_offset(1 << 20); },
     "lie outside"},
    {"bytes overflow",
     [](Plan* p) { p->mutable_registers(0)->set_bytes(~uint64_t{0}); },
     "bytes"},
    {"tensor outside",
     [](Plan* p) {
       p->mutable_registers(0)->mutable_tensors(0)->set_offset(4);
     },
     "tensor 0 of register"},
    {"dims",
     [](Plan* p) {
       p->mutable_registers(0)->mutable_tensors(0)->set_dims(0, -1);
     },
     "tensor 0"},
    {"dtype",
     [](Plan* p) {
       p->mutable_registers(0)->mutable_tensors(0)->set_dtype(88);
     },
     "unknown dtype 88"},
    {"an unknown counter",
     [](Plan* p) { p->mutable_tasks(0)->set_binding("counter:epoch"); },
     "is bound to 'counter:epoch'; there are counter:micro"},
    {"a counter of floats",
     [](Plan* p) { p->mutable_tasks(0)->set_binding("counter:step"); },
     "gives 'x/y', which is not i64[2]"},
    {"alias index", [](Plan* p) { p->mutable_registers(1)->set_alias_of(99); },
     "is 98, but there are only"},
    {"alias cycle", [](Plan* p) { p->mutable_registers(1)->set_alias_of(2); },
     "aliases itself"},
    {"alias copies", [](Plan* p) { p->mutable_registers(1)->set_copies(7); },
     "not whole slices"},
    {"alias outside",
     [](Plan* p) { p->mutable_registers(1)->set_alias_offset(1024); },
     "lie outside"},
    {"alias port",
     [](Plan* p) {
       p->mutable_tasks(2)->mutable_inputs(0)->set_aliased(false);
     },
     "its port says not aliased"},
    {"overlay",
     [](Plan* p) {
       p->mutable_arenas(1)->set_bytes(128);
       p->mutable_registers(4)->set_offset(64);
     },
     "same single copy"},
    {"state elsewhere",
     [](Plan* p) { p->mutable_registers(0)->set_state("w"); },
     "which is no variable"},
    {"no producer", [](Plan* p) { p->mutable_tasks(0)->clear_outputs(); },
     "is given by no task"},
    {"two producers",
     [](Plan* p) { p->mutable_tasks(4)->add_outputs()->set_register_(0); },
     "is given by task 'x'"},
    {"register",
     [](Plan* p) { p->mutable_tasks(2)->mutable_inputs(0)->set_register_(77); },
     "is 77"},
    {"stream", [](Plan* p) { p->mutable_tasks(2)->set_stream(9); }, "is 9"},
    {"acts", [](Plan* p) { p->mutable_tasks(2)->set_acts_per_period(0); },
     "acts 0 times"},
    {"phase", [](Plan* p) { p->mutable_tasks(2)->set_phase(3); },
     "is of phase 3, the pipeline has 0 stages"},
    {"stages", [](Plan* p) { p->mutable_pipeline()->set_stages(~uint32_t{0}); },
     "the pipeline has 4294967295 stages"},
    {"pattern",
     [](Plan* p) {
       p->mutable_tasks(2)->mutable_inputs(0)->mutable_pattern()->set_acts(
           "\3\1\2");
     },
     "do not divide"},
    {"binding", [](Plan* p) { p->mutable_tasks(0)->clear_binding(); },
     "bound to nothing"},
    {"kernel",
     [](Plan* p) { p->mutable_tasks(2)->mutable_ops(0)->set_kernel(9); },
     "kernel of 'relu'"},
    {"operand",
     [](Plan* p) {
       p->mutable_tasks(2)->mutable_ops(0)->mutable_inputs(0)->set_index(3);
     },
     "input of operand 0 of 'relu'"},
    {"operand tensor",
     [](Plan* p) {
       p->mutable_tasks(2)->mutable_ops(0)->mutable_inputs(0)->set_tensor(3);
     },
     "tensor of operand 0"},
    {"operand missing",
     [](Plan* p) { p->mutable_tasks(2)->mutable_ops(0)->clear_inputs(); },
     "0 operands"},
    {"scratch without arena",
     [](Plan* p) {
       p->mutable_tasks(2)->mutable_ops(0)->mutable_inputs(0)->set_where(
           Operand::SCRATCH);
     },
     "lie outside of 0 bytes"},
    {"op", [](Plan* p) { p->mutable_kernels(0)->set_op(60000); }, "unknown op"},
    {"constant",
     [](Plan* p) {
       Constant* c = p->add_constants();
       c->set_dtype(1);
       c->add_dims(2);
       c->set_data("123");
     },
     "has 3 bytes, its shape 8"},
    {"private", [](Plan* p) { p->mutable_tasks(2)->set_private_bytes(8); },
     "lie outside"},
};

TEST(ValidateTest, RefusesWhatIsNotWellFormed) {
  const Plan good = Small().Build();
  ASSERT_EQ(Validate(good), absl::OkStatus());
  for (const BadCase& c : kBadCases) {
    Plan bad = good;
    c.change(&bad);
    absl::Status status = Validate(bad);
    ASSERT_FALSE(status.ok()) << c.what;
    EXPECT_TRUE(IsError(status, ErrorCode::kBadPlan)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message)) << c.what;
    PrintPlan(bad);  // does not follow what leads nowhere
  }
}

TEST(ValidateTest, IgnoresPlacesBeforeThereAreAny) {
  Plan plan = Small().Build();
  for (Arena& arena : *plan.mutable_arenas()) arena.set_bytes(0);
  EXPECT_FALSE(Validate(plan).ok());
  EXPECT_EQ(Validate(plan, Placement::kIgnored), absl::OkStatus());
}

TEST(PlanFileTest, RoundTripsAndFindsDamage) {
  const std::string path = testing::TempDir() + "/a.plan";
  Plan plan = Small().Build();
  ASSERT_EQ(SavePlan(RealOs(), path, plan), absl::OkStatus());
  absl::StatusOr<Plan> loaded = LoadPlan(RealOs(), path);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->hash(), PlanHash(plan));
  EXPECT_EQ(PrintPlan(*loaded), PrintPlan(plan));

  std::string bytes = *RealOs().ReadFile(path, 1 << 20);
  for (size_t at : {size_t{3}, bytes.size() / 2, bytes.size() - 1}) {
    std::string damaged = bytes;
    damaged[at] ^= 1;
    ASSERT_EQ(WriteFileAtomically(RealOs(), path, damaged), absl::OkStatus());
    EXPECT_TRUE(IsError(LoadPlan(RealOs(), path).status(), ErrorCode::kBadPlan))
        << at;
  }
  EXPECT_TRUE(
      IsError(LoadPlan(RealOs(), path + ".no").status(), ErrorCode::kBadValue));
}

TEST(PlanFileTest, HashIsOfTheContents) {
  Plan plan = Small().Build();
  const uint64_t hash = PlanHash(plan);
  plan.set_hash(hash);
  EXPECT_EQ(PlanHash(plan), hash);
  plan.set_micro_batches(9);
  EXPECT_NE(PlanHash(plan), hash);
}

TEST(PrintTest, EveryPatternOfTheVocabularyHasItsWord) {
  EXPECT_EQ(PrintInputPattern(""), "every act");
  EXPECT_EQ(PrintInputPattern(actor::EveryAct()), "every act");
  EXPECT_EQ(PrintInputPattern(actor::Held(1)), "every act");
  EXPECT_EQ(PrintInputPattern(actor::Held(4)), "held(4)");
  EXPECT_EQ(PrintInputPattern("\1\2\1\2"), "pattern 1212");
  EXPECT_EQ(PrintOutputPattern(actor::EveryAct()), "every act");
  EXPECT_EQ(PrintOutputPattern(actor::Accumulated(4)), "accumulate(4)");
  EXPECT_EQ(PrintOutputPattern(actor::GivenLast(4)), "last(4)");
  EXPECT_EQ(PrintOutputPattern(actor::Sliced(4)), "slices(4)");
  EXPECT_EQ(PrintOutputPattern(actor::SharedPhase()), "shared phase");
  EXPECT_EQ(PrintOutputPattern(actor::ExclusivePhase()), "exclusive phase");
}

TEST(PrintTest, NamesFirstIdsAfter) {
  const std::string text = PrintPlan(Small().Build());
  EXPECT_THAT(text, HasSubstr("stream compute [1] on cpu:0, worker 0, "
                              "ordered:\n    relu [t2]\n"));
  EXPECT_THAT(text, HasSubstr("task unpack [t1] compute on io, 4 acts\n"
                              "    reads x/y [r0]: held(4), in place\n"
                              "    gives slice [r1]: slices(4)\n"));
  EXPECT_THAT(text, HasSubstr("runs relu = Relu(in0) -> (out0)"));
  EXPECT_THAT(text, HasSubstr("gives w/shared [r3]: shared phase"));
  EXPECT_THAT(text, HasSubstr("other phase of w/shared [r3], state 'w'"));
}

TEST(DiffTest, EqualAndRenumberedPlansDifferInNothing) {
  EXPECT_EQ(DiffPlans(Small().Build(), Small().Build()), "");
  PlanBuilder a, b;
  for (PlanBuilder* p : {&a, &b}) p->Stream("io", false);
  for (const char* name : {"x", "y"}) a.Task(name, Task::SOURCE, "io");
  for (const char* name : {"y", "x"}) b.Task(name, Task::SOURCE, "io");
  for (PlanBuilder* p : {&a, &b}) {
    p->Output("x", {"x/y", 0});
    p->Output("y", {"y/y", 0});
  }
  EXPECT_EQ(DiffPlans(a.Build(), b.Build()), "");
}

TEST(DiffTest, ShowsWhatChanged) {
  const Plan a = Small().Build();
  Plan b = a;
  b.mutable_tasks(2)->mutable_ops(0)->set_node("gelu");
  EXPECT_EQ(DiffPlans(a, b),
            "  task relu compute on compute, 4 acts\n"
            "-     runs relu = Relu(in0) -> (out0)\n"
            "+     runs gelu = Relu(in0) -> (out0)\n");
  b = a;
  b.mutable_tasks(0)->set_name("data");
  EXPECT_THAT(DiffPlans(a, b), HasSubstr("- task x source on io"));
  EXPECT_THAT(DiffPlans(a, b), HasSubstr("+ task data source on io"));
  EXPECT_THAT(DiffPlans(a, b), Not(HasSubstr("relu")));
}

}  // namespace
}  // namespace weft::plan
