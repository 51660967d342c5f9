// Every kind by every algorithm that can do it, dtype, reduction, number of
// ranks and length against plain loops. All ranks run by id, so no order of
// nodes can block.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/collectives/testing.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Kind = CollectiveKind;

constexpr DType kDTypes[] = {DType::kF32,  DType::kF64, DType::kF16,
                             DType::kBF16, DType::kI32, DType::kI64};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax,
                             ReduceOp::kMin};

// Hosts of two where that divides the ranks, else one host.
std::vector<std::vector<int>> HostsOf(int ranks) {
  if (ranks % 2 != 0) return {};
  std::vector<std::vector<int>> hosts;
  for (int p = 0; p < ranks; p += 2) hosts.push_back({p, p + 1});
  return hosts;
}

class SweepTest : public testing::TestWithParam<Kind> {
 protected:
  // `length` elements a rank along the axis, by every algorithm. `jobs` counts.
  void Run(Collective c, const TensorType& type) {
    const std::vector<Literal> operands = Operands(c, type, Values::kExact);
    const std::vector<Literal> expected = ExpectedResults(c, type, operands);
    for (CollectiveAlgorithm algorithm : AlgorithmsFor(c.kind, c.group())) {
      c.algorithm = algorithm;
      auto results = RunCollective(c, type, operands);
      ASSERT_TRUE(results.ok()) << results.status();
      for (size_t p = 0; p < expected.size(); ++p) {
        ASSERT_TRUE((*results)[p] == expected[p])
            << Describe(c) << " by " << Name(algorithm) << ", " << Name(c.op)
            << " of " << type.ToString() << ", position " << p;
      }
      ++jobs_;
    }
  }

  // A group in descending and scattered order for odd numbers of ranks.
  Collective Make(int ranks) const {
    Collective c;
    c.kind = GetParam();
    c.name = "t";
    for (int p = 0; p < ranks; ++p) {
      c.ranks.push_back(ranks % 2 == 0 ? p : 2 * (ranks - 1 - p));
    }
    c.root = ranks / 3;
    c.hosts = HostsOf(ranks);
    return c;
  }

  int jobs_ = 0;
};

TEST_P(SweepTest, EqualsPlainLoops) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    Collective c = Make(ranks);
    const int64_t parts = Splits(c.kind) ? ranks : 1;
    for (DType dtype : kDTypes) {
      for (ReduceOp op : kOps) {
        if (!Reduces(c.kind) && op != ReduceOp::kSum) continue;
        c.op = op;
        for (int64_t length : {0, 1, 13}) {
          Run(c, {dtype, {length * parts}});
        }
        if (op == ReduceOp::kSum) Run(c, {dtype, {1000 / parts * parts}});
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(jobs_, 100);
}

TEST_P(SweepTest, AlongInnerAxes) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    Collective c = Make(ranks);
    for (int axis : {0, 1, -1}) {
      c.axis = axis;
      c.join_axis = axis == -1 ? 0 : 2;
      std::vector<int64_t> dims = {2, 3, 5};
      if (Splits(c.kind)) dims[axis < 0 ? 2 : axis] *= ranks;
      for (int64_t chunk : {0, 1, 4}) {
        c.chunk_elements = chunk;
        Run(c, {DType::kF32, Shape(dims)});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(SweepTest, Scalars) {
  Collective c = Make(4);
  if (Splits(c.kind) || c.kind == Kind::kAllGather || c.kind == Kind::kGather) {
    GTEST_SKIP() << "a scalar has no axis";
  }
  Run(c, {DType::kBF16, {}});
}

INSTANTIATE_TEST_SUITE_P(Kinds, SweepTest,
                         testing::Values(Kind::kAllReduce, Kind::kReduceScatter,
                                         Kind::kAllGather, Kind::kBroadcast,
                                         Kind::kReduce, Kind::kGather,
                                         Kind::kScatter, Kind::kAllToAll),
                         [](const testing::TestParamInfo<Kind>& info) {
                           std::string name(Name(info.param));
                           for (char& ch : name) ch = ch == '-' ? '_' : ch;
                           return name;
                         });

}  // namespace
}  // namespace weft
