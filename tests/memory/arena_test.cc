// How well the arenas of the built-in models' training plans are packed: beside
// the best that a random search finds for the same blocks, and beside the bytes
// that are live together, of which no packing can have fewer.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "compiler/check/happens_before.h"
#include "compiler/memory/testing/packing_search.h"
#include "compiler/testing/fake_oracle.h"
#include "core/base/align.h"
#include "core/base/os.h"
#include "core/plan/actor_spec.h"
#include "core/plan/plan.h"
#include "core/types/dtype.h"
#include "gtest/gtest.h"
#include "tools/weft/job.h"
#include "tools/weft/programs.h"

namespace weft {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr int kTries = 3000;

// The training plan of a built-in model, with kernels like the CPU's: some take
// workspace, elementwise ones work in place.
plan::Plan TrainPlan(const std::string& model) {
  job::Job job = ParseJob("test", R"(
      name: "test" batch_size: 128 steps: 3
      optimizer { adam {} }
      data { train { idx { images: "a" labels: "b" } } }
      model { builtin { name: ")" + model +
                                      "\" } }")
                     .value();
  absl::Status resolved = ResolveJob("test", &job);
  EXPECT_TRUE(resolved.ok()) << resolved;
  FakeOracle oracle;
  oracle.Answer(OpId::kConv).workspace_bytes = 1 << 20;
  oracle.Answer(OpId::kConvGradInput).workspace_bytes = 2 << 20;
  oracle.Answer(OpId::kConvGradWeights).workspace_bytes = 2 << 20;
  oracle.Answer(OpId::kGemm).workspace_bytes = 64 << 10;
  oracle.Answer(OpId::kRelu).in_place = 1;
  oracle.Answer(OpId::kFused).in_place = 0xff;
  std::vector<plan::Device> devices = {HostDevice()};
  absl::StatusOr<Programs> programs =
      BuildPrograms(RealOs(), job, {Shape({28, 28}), 10, 100, false}, devices,
                    devices[0].name(), oracle);
  EXPECT_TRUE(programs.ok()) << programs.status();
  return programs->plans.at("train");
}

uint64_t BytesOf(const plan::TensorDesc& desc) {
  uint64_t n = 1;
  for (int64_t d : desc.dims()) n *= static_cast<uint64_t>(d);
  return AlignUp(n * DTypeSize(static_cast<DType>(desc.dtype())), kAlignment);
}

// What lies in scratch during one act of `task`, from the plan alone: a value
// lives from the kernel that writes it to the last that reads it; a kernel that
// writes where it reads goes on with the same block.
struct Scratch {
  PackingProblem problem;
  uint64_t live = 0;  // the most bytes that live at one kernel
};

Scratch ScratchOf(const plan::Plan& plan, const plan::Task& task) {
  struct Life {
    uint64_t bytes;
    int first, last;
  };
  std::vector<Life> lives;
  std::map<uint64_t, size_t> at;  // what lies at an offset now
  for (int k = 0; k < task.ops_size(); ++k) {
    const plan::Op& op = task.ops(k);
    const plan::Kernel& kernel = plan.kernels(static_cast<int>(op.kernel()));
    std::vector<uint64_t> read;
    for (const plan::Operand& in : op.inputs()) {
      if (in.where() != plan::Operand::SCRATCH) continue;
      read.push_back(in.offset());
      lives[at.at(in.offset())].last = k;
    }
    for (int r = 0; r < op.outputs_size(); ++r) {
      const plan::Operand& out = op.outputs(r);
      if (out.where() != plan::Operand::SCRATCH) continue;
      if (std::count(read.begin(), read.end(), out.offset()) != 0) continue;
      at[out.offset()] = lives.size();
      lives.push_back({BytesOf(kernel.outputs(r)), k, k});
    }
    if (op.workspace().where() == plan::Operand::SCRATCH) {
      lives.push_back({AlignUp(kernel.workspace_bytes(), kAlignment), k, k});
    }
  }
  Scratch out;
  for (const Life& a : lives) {
    out.problem.bytes.push_back(a.bytes);
    std::vector<bool> row;
    for (const Life& b : lives) {
      row.push_back(a.first <= b.last && b.first <= a.last);
    }
    out.problem.conflict.push_back(std::move(row));
  }
  for (int k = 0; k < task.ops_size(); ++k) {
    uint64_t live = 0;
    for (const Life& a : lives) {
      if (a.first <= k && k <= a.last) live += a.bytes;
    }
    out.live = std::max(out.live, live);
  }
  return out;
}

// The registers of an arena: two conflict unless the protocol orders them.
PackingProblem RegistersOf(const plan::Plan& plan, uint32_t arena) {
  plan::PlanView view = plan::PlanView::Create(&plan).value();
  actor::TableSpec spec = plan::PlanToActorSpec(view).value();
  check::HappensBefore hb =
      check::HappensBefore::Create(spec, check::HappensBefore::PeriodsFor(spec))
          .value();
  check::LiveRanges live(spec, hb);
  std::vector<uint32_t> registers;
  PackingProblem problem;
  for (uint32_t r = 0; r < view.num_registers(); ++r) {
    const plan::Register& reg = view.reg(r);
    if (reg.arena() != arena || reg.alias_of() != 0 || reg.bytes() == 0) {
      continue;
    }
    registers.push_back(r);
    problem.bytes.push_back(AlignUp(reg.bytes() * reg.copies(), kAlignment));
  }
  for (uint32_t a : registers) {
    std::vector<bool> row;
    for (uint32_t b : registers) {
      row.push_back(view.reg(a).copies() > 1 || view.reg(b).copies() > 1 ||
                    !live.NeverTogether(a, b));
    }
    problem.conflict.push_back(std::move(row));
  }
  return problem;
}

void Print(const std::string& model, const char* arena, uint64_t planned,
           uint64_t search, uint64_t live) {
  for (auto [name, bytes] :
       {std::pair<const char*, uint64_t>("planned", planned),
        {"best found by search", search},
        {"live together", live}}) {
    if (bytes == 0) continue;
    std::printf(
        "RESULT\tpacking\t%s %s arena\t%s\t%llu\t%llu\t%llu\t1\tbytes\n",
        model.c_str(), arena, name, static_cast<unsigned long long>(bytes),
        static_cast<unsigned long long>(bytes),
        static_cast<unsigned long long>(bytes));
  }
}

class ArenaTest : public testing::TestWithParam<std::string> {};

TEST_P(ArenaTest, WithinTenPercentOfTheBestFoundBySearch) {
  const plan::Plan plan = TrainPlan(GetParam());
  int compared = 0;
  for (int a = 0; a < plan.arenas_size(); ++a) {
    const plan::Arena& arena = plan.arenas(a);
    uint64_t best = 0, live = 0;
    const char* kind = "activations";
    if (arena.kind() == plan::Arena::SCRATCH) {
      kind = "scratch";
      for (const plan::Task& task : plan.tasks()) {
        if (task.stream() != arena.stream()) continue;
        const Scratch scratch = ScratchOf(plan, task);
        best =
            std::max(best, BestBySearch(scratch.problem, kTries, /*seed=*/1));
        live = std::max(live, scratch.live);
      }
      EXPECT_GE(arena.bytes(), live);
    } else if (arena.kind() == plan::Arena::ACTIVATIONS) {
      best = BestBySearch(RegistersOf(plan, static_cast<uint32_t>(a)), kTries,
                          /*seed=*/1);
    } else {
      continue;
    }
    Print(GetParam(), kind, arena.bytes(), best, live);
    EXPECT_GT(best, 0u);
    EXPECT_LE(static_cast<double>(arena.bytes()), 1.1 * best)
        << kind << " of " << GetParam();
    ++compared;
  }
  EXPECT_EQ(compared, 2);
}

INSTANTIATE_TEST_SUITE_P(Models, ArenaTest, testing::Values("mlp", "lenet"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace weft
