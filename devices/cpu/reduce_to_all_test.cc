// ReduceToAll against the reference, in place for all, every second or no
// operand, and against the ops that it stands for, exactly.
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "devices/cpu/kernel_harness.h"
#include "gtest/gtest.h"

namespace weft::cpu {
namespace {

const std::pair<const char*, const char*> kReductions[] = {
    {"sum", "Add"}, {"prod", "Mul"}, {"max", "Max"}, {"min", "Min"}};
const DType kTypes[] = {DType::kF32, DType::kF64, DType::kI32,
                        DType::kI64, DType::kF16, DType::kBF16};

// Of 16-bit floats only what rounds nothing.
bool Has(DType dtype, absl::string_view reduction) {
  return DTypeSize(dtype) > 2 || reduction == "max" || reduction == "min";
}

OpCase ReduceToAll(const std::string& reduction, std::vector<Literal> inputs) {
  const int n = static_cast<int>(inputs.size());
  return {"weft.ReduceToAll", {{"reduction", reduction}}, std::move(inputs), n};
}

TEST(ReduceToAllTest, MatchesTheReference) {
  Values values(20);
  for (DType dtype : kTypes) {
    for (const auto& [reduction, op] : kReductions) {
      if (!Has(dtype, reduction)) continue;
      for (int n : {1, 2, 3, 4, 5, 7, 8, 13, 32}) {
        // Of more than one tile, of part of one, of nothing.
        for (const Shape& shape : {Shape({3, 801}), Shape(), Shape({0})}) {
          std::vector<Literal> inputs;
          for (int i = 0; i < n; ++i) {
            inputs.push_back(values.Uniform(dtype, shape, -1.5, 1.5));
          }
          ExpectMatchesReference(ReduceToAll(reduction, std::move(inputs)),
                                 Numerics::kAccumulated);
        }
      }
    }
  }
}

// Neighbours, then neighbours of these; what is left over is last.
Literal Tree(const std::string& op, std::vector<Literal> row) {
  while (row.size() > 1) {
    std::vector<Literal> half;
    for (size_t k = 0; k + 1 < row.size(); k += 2) {
      half.push_back(RunOnCpu({op, {}, {row[k], row[k + 1]}}, {}).value()[0]);
    }
    if (row.size() % 2 == 1) half.push_back(row.back());
    row = std::move(half);
  }
  return row[0];
}

TEST(ReduceToAllTest, IsExactlyTheOpsThatItStandsFor) {
  Values values(21);
  for (DType dtype : kTypes) {
    for (const auto& [reduction, op] : kReductions) {
      if (!Has(dtype, reduction)) continue;
      for (int n : {2, 3, 6, 11, 31}) {
        std::vector<Literal> inputs;
        for (int i = 0; i < n; ++i) {
          inputs.push_back(values.Special(dtype, Shape({1100})));
        }
        const OpCase c = ReduceToAll(reduction, inputs);
        const Literal want = Tree(op, std::move(inputs));
        const std::vector<Literal> got = RunOnCpu(c, {}).value();
        ASSERT_EQ(got.size(), static_cast<size_t>(n));
        for (const Literal& y : got) {
          ExpectClose(y, want, Numerics::kExact, c.ToString());
        }
      }
    }
  }
}

// The bits of weft.SumOfSquares: ranks with and without blocks of their own
// agree.
TEST(ReduceToAllTest, SquaresAreThoseOfWhatComesOut) {
  Values values(24);
  for (DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    for (const std::string reduction : {"sum", "max"}) {
      if (!Has(dtype, reduction)) continue;
      for (int n : {2, 3, 5}) {
        for (const Shape& shape :
             {Shape({4096}), Shape({3, 30001}), Shape({0})}) {
          std::vector<Literal> inputs;
          for (int i = 0; i < n; ++i) {
            inputs.push_back(values.Uniform(dtype, shape, -1.5, 1.5));
          }
          OpCase c = ReduceToAll(reduction, std::move(inputs));
          c.attrs.Set("squares", 1);
          c.num_outputs = n + 1;
          // Sums of three in f32 are rounded twice, the reference's once.
          if (dtype != DType::kF32 || n == 2 || reduction == "max") {
            ExpectMatchesReference(c, Numerics::kAccumulated);
          }
          const std::vector<Literal> got = RunOnCpu(c, {}).value();
          const Literal squares =
              RunOnCpu({"weft.SumOfSquares", {}, {got[0]}}, {}).value()[0];
          EXPECT_TRUE(got[n] == squares) << c.ToString();
        }
      }
    }
  }
}

TEST(CopyToAllTest, MatchesTheReference) {
  Values values(23);
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kU8, DType::kI64}) {
    for (int n : {1, 2, 5}) {
      for (const Shape& shape : {Shape({3, 2801}), Shape(), Shape({0})}) {
        OpCase c{"weft.CopyToAll", {}, {}, n};
        for (int i = 0; i <= n; ++i) {
          c.inputs.push_back(values.Special(dtype, shape));
        }
        ExpectMatchesReference(c, Numerics::kExact);
      }
    }
  }
}

TEST(ReduceToAllTest, TakesWhatItHasLoopsFor) {
  Values values(22);
  const auto status = [&](const char* reduction, DType dtype, int n) {
    const Literal x = values.Uniform(dtype, Shape({4}), 0, 1);
    return RunOnCpu(ReduceToAll(reduction, std::vector<Literal>(n, x)), {})
        .status();
  };
  EXPECT_TRUE(status("sum", DType::kF32, 32).ok());
  for (const absl::Status& none :
       {status("sum", DType::kF32, 33), status("sum", DType::kF16, 2),
        status("prod", DType::kBF16, 2), status("max", DType::kU8, 2)}) {
    EXPECT_EQ(none.code(), absl::StatusCode::kUnimplemented) << none;
  }
}

}  // namespace
}  // namespace weft::cpu
