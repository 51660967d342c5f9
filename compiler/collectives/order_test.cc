// Order classes: the bits of a reduction depend on the class alone, and several
// collectives in one job do not disturb each other.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/collectives/schedule.h"
#include "compiler/collectives/testing.h"
#include "core/base/error.h"
#include "core/reference/evaluate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Algorithm = CollectiveAlgorithm;
using Kind = CollectiveKind;
using testing::HasSubstr;

constexpr Kind kReductions[] = {Kind::kAllReduce, Kind::kReduceScatter,
                                Kind::kReduce};

Collective Make(Kind kind, int ranks) {
  Collective c;
  c.kind = kind;
  c.name = "t";
  for (int p = 0; p < ranks; ++p) c.ranks.push_back(p);
  c.root = ranks / 2;
  if (ranks % 4 == 0) {
    for (int p = 0; p < ranks; p += 4) {
      c.hosts.push_back({p, p + 1, p + 2, p + 3});
    }
  }
  return c;
}

void ExpectSame(const Collective& c, const TensorType& type,
                const std::vector<Literal>& operands,
                const std::vector<Literal>& expected) {
  auto results = RunCollective(c, type, operands);
  ASSERT_TRUE(results.ok()) << results.status();
  for (size_t p = 0; p < expected.size(); ++p) {
    ASSERT_TRUE((*results)[p] == expected[p])
        << Describe(c) << " by " << Name(c.algorithm) << " in chunks of "
        << c.chunk_elements << ", " << type.ToString() << ", position " << p;
  }
}

// x[p] summed from block + 1 around to block, for each of the balanced blocks.
Literal RingSum(const std::vector<Literal>& x) {
  const int n = static_cast<int>(x.size());
  std::vector<float> y;
  const int64_t total = x[0].type().shape.num_elements();
  const std::vector<int64_t> sizes = BlockSizes(total, n);
  for (int block = 0; block < n; ++block) {
    for (int64_t i = 0; i < sizes[block]; ++i) {
      const size_t at = y.size();
      float sum = x[(block + 1) % n].data<float>()[at];
      for (int k = 2; k <= n; ++k) {
        sum += x[(block + k) % n].data<float>()[at];
      }
      y.push_back(sum);
    }
  }
  return Literal::Of<float>({total}, std::move(y));
}

// Products are as sensitive to their order as sums are.
TEST(OrderTest, EveryAlgorithmOfTreeGivesTheSameBits) {
  for (Kind kind : kReductions) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      Collective c = Make(kind, ranks);
      const int64_t parts = Splits(kind) ? ranks : 1;
      for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
        const TensorType type = {dtype, {101 * parts}};
        for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd}) {
          c.op = op;
          const auto operands = Operands(c, type, Values::kRandom);
          const auto expected = ExpectedResults(c, type, operands);
          for (Algorithm algorithm : AlgorithmsFor(kind, c.group())) {
            if (OrderClassOf(kind, algorithm) != OrderClass::kTree) continue;
            c.algorithm = algorithm;
            for (int64_t chunk : {0, 5, 64}) {
              c.chunk_elements = chunk;
              ExpectSame(c, type, operands, expected);
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

TEST(OrderTest, SoDoesDoublingOfMoreRanks) {
  for (int ranks : {16, 32}) {
    Collective c = Make(Kind::kAllReduce, ranks);
    c.algorithm = Algorithm::kDoubling;
    for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
      const TensorType type = {dtype, {21}};
      const auto operands = Operands(c, type, Values::kRandom);
      for (int64_t mapped : {0, 1}) {
        c.topology.mapped_bytes = mapped;
        ExpectSame(c, type, operands, ExpectedResults(c, type, operands));
      }
    }
  }
}

TEST(OrderTest, RingIsOneOrderForAllItsKinds) {
  bool differs = false;
  for (int ranks = 2; ranks <= 8; ++ranks) {
    const TensorType type = {DType::kF32, {13 * ranks}};
    Collective c = Make(Kind::kAllReduce, ranks);
    c.algorithm = Algorithm::kRing;
    const auto operands = Operands(c, type, Values::kRandom);
    const Literal sum = RingSum(operands);
    const auto tree = ExpectedResults(c, type, operands);
    differs = differs || !(tree[0] == sum);
    for (int64_t chunk : {0, 5}) {
      c.chunk_elements = chunk;
      c.kind = Kind::kAllReduce;
      ExpectSame(c, type, operands, std::vector<Literal>(ranks, sum));
      c.kind = Kind::kReduce;
      std::vector<Literal> at_root(ranks);
      at_root[c.root] = sum;
      ExpectSame(c, type, operands, at_root);
      c.kind = Kind::kReduceScatter;
      std::vector<Literal> parts;
      for (int p = 0; p < ranks; ++p) {
        auto part = sum.data<float>().subspan(13 * p, 13);
        parts.push_back(Literal::Of<float>(
            {13}, std::vector<float>(part.begin(), part.end())));
      }
      ExpectSame(c, type, operands, parts);
    }
  }
  EXPECT_TRUE(differs) << "the operands do not show the order";
}

// 8 micro-batches: on one rank, or on 2, 4 and 8 with the rest summed across.
TEST(OrderTest, TreeContinuesTheTreeOfAccumulate) {
  const TensorType type = {DType::kF32, {37}};
  const auto batches =
      Operands(Make(Kind::kAllReduce, 8), type, Values::kRandom);
  auto whole = TreeSum(batches);
  ASSERT_TRUE(whole.ok());
  for (int ranks : {2, 4, 8}) {
    Collective c = Make(Kind::kAllReduce, ranks);
    c.algorithm = Algorithm::kThreeStage;
    std::vector<Literal> sums;
    const size_t each = 8 / ranks;
    for (int r = 0; r < ranks; ++r) {
      auto sum = TreeSum(absl::MakeSpan(batches).subspan(r * each, each));
      ASSERT_TRUE(sum.ok());
      sums.push_back(*sum);
    }
    ExpectSame(c, type, sums, std::vector<Literal>(ranks, *whole));
  }
}

// The bf16 operands cross as f32 and are rounded once.
TEST(OrderTest, NarrowSumsAreWideOnTheWire) {
  Graph graph("g");
  Collective c = Make(Kind::kAllReduce, 4);
  c.algorithm = Algorithm::kTree;
  ASSERT_TRUE(AddToGraph(&graph, c, {DType::kBF16, {8}}).ok());
  int sends = 0, casts = 0;
  for (const Node* node : graph.Nodes()) {
    if (node->Is(OpId::kCast)) ++casts;
    if (!node->Is(OpId::kSend)) continue;
    ++sends;
    EXPECT_EQ(graph.type(node->input(0)).dtype, DType::kF32);
  }
  EXPECT_GT(sends, 0);
  EXPECT_EQ(casts, 2);
}

// ---- Several in one job

class JobTest : public testing::Test {
 protected:
  explicit JobTest(int ranks = 6) : programs_(ranks) {
    for (int r = 0; r < ranks; ++r) graphs_.emplace_back(absl::StrCat("r", r));
    for (int r = 0; r < ranks; ++r) programs_[r].graph = &graphs_[r];
  }

  // To the graph of `rank`.
  void Add(Collective c, int rank) {
    c.rank = rank;
    ASSERT_TRUE(AddToGraph(&graphs_[rank], c, type_).ok());
    const auto operands = Operands(c, type_, Values::kRandom);
    for (size_t p = 0; p < c.ranks.size(); ++p) {
      if (c.ranks[p] == rank) AddFeed(&programs_[rank], c, operands[p]);
    }
  }

  const TensorType type_ = {DType::kF32, {24}};
  std::vector<Graph> graphs_;
  std::vector<RankProgram> programs_;
};

// Groups that overlap, as a ring, a tree, halving-doubling and all-to-all, in
// chunks that interleave.
TEST_F(JobTest, OverlappingGroups) {
  std::vector<Collective> all(4);
  all[0].ranks = {0, 1, 2, 3};
  all[0].algorithm = Algorithm::kHalvingDoubling;
  all[1].ranks = {5, 2, 3, 4};
  all[1].algorithm = Algorithm::kThreeStage;
  all[2].ranks = {1, 4};
  all[2].algorithm = Algorithm::kTree;
  all[3].ranks = {4, 0, 2};
  all[3].kind = Kind::kAllToAll;
  all[3].algorithm = Algorithm::kDirect;
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].name = absl::StrCat("c", i);
    all[i].chunk_elements = 3;
    for (int rank : all[i].ranks) Add(all[i], rank);
  }
  auto results = InterpretJob(programs_, JobOrder::kInOrder);
  ASSERT_TRUE(results.ok()) << results.status();
  for (const Collective& c : all) {
    const auto expected =
        ExpectedResults(c, type_, Operands(c, type_, Values::kRandom));
    for (size_t p = 0; p < c.ranks.size(); ++p) {
      EXPECT_TRUE((*results)[c.ranks[p]].outputs[c.name].at(0) == expected[p])
          << c.name << ", rank " << c.ranks[p];
    }
  }
}

// What the header asks of callers is needed: ranks that add two collectives in
// two orders wait for each other.
TEST_F(JobTest, TwoOrdersBlock) {
  Collective a, b;
  a.name = "a";
  b.name = "b";
  a.ranks = b.ranks = {0, 1};
  a.algorithm = b.algorithm = Algorithm::kTree;
  Add(a, 0);
  Add(b, 0);
  Add(b, 1);
  Add(a, 1);
  absl::Status status = InterpretJob(programs_, JobOrder::kInOrder).status();
  EXPECT_THAT(status.message(), HasSubstr("no rank can go on"));
  auto ready = InterpretJob(programs_, JobOrder::kReady);
  EXPECT_TRUE(ready.ok()) << ready.status();
}

// Passes after this one may give the operand a later id than the collective
// has: its nodes still come in their order.
class RenumberedTest : public JobTest {
 protected:
  // All algorithms of the kind, one after another, in every rank's graph.
  void AddAll(Kind kind, bool chain) {
    Collective c = Make(kind, 6);
    c.chunk_elements = 2;
    for (Algorithm algorithm : AlgorithmsFor(kind, c.group())) {
      c.algorithm = algorithm;
      c.name = absl::StrCat(Name(kind), "/", Name(algorithm));
      for (int rank : c.ranks) {
        if (chain) c.after = {graphs_[rank].id_bound() - 1};
        if (c.after == std::vector<int32_t>{-1}) c.after.clear();
        Add(c, rank);
      }
    }
  }

  void Renumber() {
    for (Graph& graph : graphs_) {
      for (const Node* node : std::as_const(graph).Nodes()) {
        if (!node->Is(OpId::kVariable)) continue;
        const Value x = node->output(0);
        auto anew = graph.Add("Identity", "", {x});
        ASSERT_TRUE(anew.ok());
        ASSERT_TRUE(graph.ReplaceUses(x, (*anew)->output(0)).ok());
        for (int32_t user : graph.ControlUses(node->id())) {
          graph.AddControlInput(user, (*anew)->id());
        }
      }
    }
  }

  void ExpectToFinish() {
    auto results = InterpretJob(programs_, JobOrder::kInOrder);
    EXPECT_TRUE(results.ok()) << results.status();
  }
};

TEST_F(RenumberedTest, WhereAllRanksGive) {
  AddAll(Kind::kAllReduce, false);
  AddAll(Kind::kAllToAll, false);
  AddAll(Kind::kReduceScatter, false);
  AddAll(Kind::kAllGather, false);
  Renumber();
  ExpectToFinish();
}

TEST_F(RenumberedTest, WhereSomeOnlyReceive) {
  for (int kind = 0; kind < kNumCollectiveKinds; ++kind) {
    AddAll(static_cast<Kind>(kind), true);
  }
  Renumber();
  ExpectToFinish();
}

// ---- Ranks that disagree

class DisagreeTest : public JobTest {
 protected:
  DisagreeTest() : JobTest(2) {
    for (Collective& c : c_) {
      c.name = "fc1/grad";
      c.ranks = {0, 1};
      c.algorithm = Algorithm::kDirect;
    }
  }

  // Rank 1's description differs; the error names both.
  void Expect(const TensorType& type1, const std::string& text0,
              const std::string& text1) {
    c_[1].rank = 1;
    ASSERT_TRUE(AddToGraph(&graphs_[0], c_[0], type_).ok());
    ASSERT_TRUE(AddToGraph(&graphs_[1], c_[1], type1).ok());
    absl::Status status = InterpretJob(programs_).status();
    EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kBadGraph);
    EXPECT_THAT(status.message(), HasSubstr("'fc1/grad'"));
    EXPECT_THAT(status.message(), HasSubstr("rank 0 has 'all-reduce"));
    EXPECT_THAT(status.message(), HasSubstr("rank 1 has '"));
    EXPECT_THAT(status.message(), HasSubstr(text0));
    EXPECT_THAT(status.message(), HasSubstr(text1));
  }

  Collective c_[2];
};

TEST_F(DisagreeTest, Length) {
  Expect({DType::kF32, {25}}, "sum.f32[24]", "sum.f32[25]");
}
TEST_F(DisagreeTest, DType) {
  Expect({DType::kF64, {24}}, "sum.f32[24]", "sum.f64[24]");
}
TEST_F(DisagreeTest, Op) {
  c_[1].op = ReduceOp::kMax;
  Expect(type_, "all-reduce.sum.", "all-reduce.max.");
}
TEST_F(DisagreeTest, Algorithm) {
  c_[1].algorithm = Algorithm::kRing;
  Expect(type_, ".direct.", ".ring.");
}
TEST_F(DisagreeTest, Kind) {
  c_[1].kind = Kind::kReduce;
  Expect(type_, "all-reduce.sum", "'reduce.sum");
}
TEST_F(DisagreeTest, Group) {
  c_[1].ranks = {1, 0};
  Expect(type_, ".0-1", ".1,0");
}

TEST_F(JobTest, AMissingRankIsNamed) {
  Collective c;
  c.name = "g";
  c.ranks = {0, 1, 2, 3};
  c.algorithm = Algorithm::kThreeStage;
  for (int rank : {0, 1, 3}) Add(c, rank);
  absl::Status status = InterpretJob(programs_).status();
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kBadGraph);
  EXPECT_THAT(status.message(), HasSubstr("rank 0 receives from rank 2"));
  EXPECT_THAT(status.message(), HasSubstr("'g#all-reduce.sum.f32[24]"));
  // The same where the job is too small for the group.
  programs_.resize(2);
  status = InterpretJob(programs_).status();
  EXPECT_THAT(status.message(), HasSubstr("the job has ranks 0-1"));
}

}  // namespace
}  // namespace weft
