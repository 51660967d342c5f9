// Passes over a rank's graph keep what its collectives give, bit for bit, and
// the order in which its nodes do not block.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/collectives/testing.h"
#include "compiler/pass/registry.h"
#include "core/ops/expr.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Kind = CollectiveKind;

constexpr int kRanks = 8;

class PassesTest : public testing::Test {
 protected:
  PassesTest() : programs_(kRanks) {
    for (int r = 0; r < kRanks; ++r) graphs_.emplace_back("g");
  }

  // y = collective(x * 2 + 1) * 0.25: regions of elementwise nodes end and
  // begin at the collective. All is exact: the reference of a region rounds
  // once.
  void Add(const Collective& c, const TensorType& type) {
    const std::vector<Literal> operands = Operands(c, type, Values::kExact);
    for (int r = 0; r < kRanks; ++r) {
      Collective mine = c;
      mine.rank = r;
      const int32_t last = graphs_[r].id_bound() - 1;
      if (last >= 0) mine.after = {last};
      GraphEmitter emit(&graphs_[r], c.name, "");
      Value x;
      const bool one_gives =
          c.kind == Kind::kBroadcast || c.kind == Kind::kScatter;
      if (!one_gives || r == c.root) {
        std::vector<int64_t> dims = DimsOf(type.shape);
        auto variable =
            graphs_[r].Add("weft.Variable", absl::StrCat(c.name, "/x"), {},
                           {{"dtype", type.dtype}, {"shape", dims}});
        ASSERT_TRUE(variable.ok());
        x = Expr(emit, (*variable)->output(0)) * 2.0 + 1.0;
      }
      auto y = AddCollective(&graphs_[r], mine, x, type);
      ASSERT_TRUE(y.ok()) << y.status();
      if (y->valid()) {
        emit.Emit("weft.Output", {Expr(emit, *y) * 0.25}, {{"name", c.name}},
                  0);
      }
      ASSERT_TRUE(emit.status().ok()) << emit.status();
      AddFeed(&programs_[r], c, operands[r]);
    }
  }

  std::vector<InterpretResult> Results() {
    for (int r = 0; r < kRanks; ++r) programs_[r].graph = &graphs_[r];
    auto results = InterpretJob(programs_, JobOrder::kInOrder);
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? *std::move(results)
                        : std::vector<InterpretResult>(kRanks);
  }

  void ExpectPassesToKeepIt() {
    const std::vector<InterpretResult> before = Results();
    auto pipeline = MakeNamedPipeline("default");
    ASSERT_TRUE(pipeline.ok());
    int nodes = 0, fused = 0;
    for (Graph& graph : graphs_) {
      nodes -= graph.num_nodes();
      PassContext context;
      auto changed = pipeline->Run(graph, context);
      ASSERT_TRUE(changed.ok()) << changed.status();
      nodes += graph.num_nodes();
      for (const Node* node : std::as_const(graph).Nodes()) {
        fused += node->Is(OpId::kFused) ? 1 : 0;
      }
    }
    EXPECT_LT(nodes, 0) << "the passes had nothing to do";
    EXPECT_GT(fused, 0);
    const std::vector<InterpretResult> after = Results();
    for (int r = 0; r < kRanks; ++r) {
      EXPECT_TRUE(before[r].outputs == after[r].outputs) << "rank " << r;
    }
  }

  std::vector<Graph> graphs_;
  std::vector<RankProgram> programs_;
};

Collective Make(Kind kind, CollectiveAlgorithm algorithm) {
  Collective c;
  c.kind = kind;
  c.algorithm = algorithm;
  c.name = absl::StrCat(Name(kind), "/", Name(algorithm));
  for (int p = 0; p < kRanks; ++p) c.ranks.push_back(p);
  c.root = 3;
  c.hosts = {{0, 1, 2, 3}, {4, 5, 6, 7}};
  c.chunk_elements = 3;
  return c;
}

class EachAlgorithmTest : public PassesTest,
                          public testing::WithParamInterface<Collective> {};

TEST_P(EachAlgorithmTest, IsKept) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    Collective c = GetParam();
    absl::StrAppend(&c.name, "/", DTypeName(dtype));
    Add(c, {dtype, {64}});
  }
  ExpectPassesToKeepIt();
}

std::vector<Collective> All() {
  std::vector<Collective> all;
  for (int kind = 0; kind < kNumCollectiveKinds; ++kind) {
    const Collective any =
        Make(static_cast<Kind>(kind), CollectiveAlgorithm::kDirect);
    for (CollectiveAlgorithm algorithm : AlgorithmsFor(any.kind, any.group())) {
      all.push_back(Make(any.kind, algorithm));
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, EachAlgorithmTest, testing::ValuesIn(All()),
                         [](const testing::TestParamInfo<Collective>& info) {
                           std::string name = info.param.name;
                           for (char& ch : name) {
                             if (ch == '-' || ch == '/') ch = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace weft
