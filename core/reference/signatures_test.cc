// The parts that members of a mesh do make what the whole op gives: of every
// op, every signature, on one axis and on two.
#include "core/ops/signatures.h"

#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/mesh/mesh.h"
#include "core/ops/system_attrs.h"
#include "core/reference/eager.h"
#include "core/reference/evaluate.h"
#include "core/reference/gradient_check.h"
#include "core/reference/schema_check.h"
#include "core/reference/signature_uses.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

// One op of a member or of the whole, which keeps what an OpView looks at.
struct Instance {
  const OpSchema* schema = nullptr;
  AttrMap attrs;
  std::vector<TensorType> inputs, outputs;

  OpView View() const { return {*schema, "n", attrs, inputs, outputs}; }
};

Instance InstanceOf(const OpUse& use, const std::string& dtype) {
  Instance op;
  op.schema = OpRegistry::Global().FindOrNull(use.op);
  op.attrs = use.attrs;
  for (std::string text : use.inputs) {
    if (!text.empty() && text[0] == 'x') text = dtype + text.substr(1);
    op.inputs.push_back(ParseType(text));
  }
  absl::StatusOr<std::vector<TensorType>> outputs = InferTypes(
      *op.schema, use.op, op.attrs, op.inputs,
      use.num_outputs < 0 ? op.schema->outputs.min : use.num_outputs);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  if (outputs.ok()) op.outputs = *std::move(outputs);
  return op;
}

// The op of a member, by its local attributes.
Instance MemberOf(const Instance& op, const OpSignature& s, int parts,
                  int index) {
  Instance out = op;
  absl::StatusOr<AttrMap> attrs = LocalAttrs(op.View(), s, parts, index);
  EXPECT_TRUE(attrs.ok()) << attrs.status();
  if (attrs.ok()) out.attrs = *std::move(attrs);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    out.inputs[i].shape = *PartShape(op.inputs[i].shape, s.inputs[i], parts);
  }
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    out.outputs[i].shape = *PartShape(op.outputs[i].shape, s.outputs[i], parts);
  }
  return out;
}

absl::StatusOr<std::vector<Literal>> Run(const Instance& op,
                                         const std::vector<Literal>& inputs) {
  if (op.schema->id == OpId::kVariable) {
    EagerEmitter emit;
    Value counter = emit.Add(Literal::Of<int64_t>({2}, {0, 0}));
    Value value = EmitInitialValue(emit, op.View(), counter, 1, 2);
    if (!emit.status().ok()) return emit.status();
    return std::vector<Literal>{emit.literal(value)};
  }
  if (op.schema->id == OpId::kAccumulate) {
    absl::StatusOr<Literal> sum = TreeSum({inputs[0], inputs[0], inputs[0]});
    if (!sum.ok()) return sum.status();
    return std::vector<Literal>{*std::move(sum)};
  }
  return Evaluate(op.View(), inputs);
}

// Makes operands and what members have of them.
class Operands {
 public:
  explicit Operands(const OpUse& use) : use_(use) {}

  Literal Random(const TensorType& type) {
    if (type.dtype == DType::kInvalid) return Literal();
    if (type == TensorType{DType::kI64, {2}}) {  // the counter
      return Literal::Of<int64_t>({2}, {3, 1});
    }
    std::vector<double> values(type.shape.num_elements());
    for (double& v : values) {
      v = IsFloat(type.dtype) ? Uniform(use_.low, use_.high)
                              : std::floor(Uniform(0, use_.integers));
      if (type.dtype == DType::kBool) v = Uniform(0, 1) < 0.5;
    }
    return Literal::FromDoubles(type, values);
  }

  // Of partial values, any that reduce to `whole` but for rounding.
  std::vector<Literal> Deal(const Literal& whole, const NdSbp& sbp,
                            const Mesh& mesh, int axis = 0) {
    if (axis == mesh.num_axes()) return {whole};
    const int n = mesh.axis(axis).size;
    std::vector<Literal> out;
    std::vector<Literal> parts = sbp[axis].is_partial()
                                     ? Partials(whole, sbp[axis].op, n)
                                     : std::vector<Literal>();
    for (int i = 0; i < n; ++i) {
      std::vector<Literal> more;
      if (sbp[axis].is_broadcast() && i > 0) {  // the very same
        more.assign(out.begin(), out.begin() + out.size() / i);
      } else {
        more = Deal(parts.empty() ? PartOf(whole, sbp[axis], n, i) : parts[i],
                    sbp, mesh, axis + 1);
      }
      out.insert(out.end(), more.begin(), more.end());
    }
    return out;
  }

 private:
  double Uniform(double low, double high) {
    return low + (high - low) * ((random_() >> 8) * (1.0 / 16777216.0));
  }

  std::vector<Literal> Partials(const Literal& whole, ReduceOp op, int n) {
    const bool integer = !IsFloat(whole.type().dtype);
    std::vector<double> rest = whole.ToDoubles();
    std::vector<std::vector<double>> parts(n, rest);
    for (size_t e = 0; e < rest.size(); ++e) {
      const int owner = static_cast<int>(random_() % n);
      for (int i = 0; i < n; ++i) {
        if (i == owner) continue;
        double x = Uniform(0.5, 1.5);
        if (integer) x = std::floor(2 * x);
        if (op == ReduceOp::kProd && integer) x = 1;
        if (op == ReduceOp::kSum) rest[e] -= x;
        if (op == ReduceOp::kProd) rest[e] /= x;
        if (op == ReduceOp::kMax) x = rest[e] - x;
        if (op == ReduceOp::kMin) x = rest[e] + x;
        parts[i][e] = x;
      }
      parts[owner][e] = rest[e];
    }
    std::vector<Literal> out;
    for (const std::vector<double>& part : parts) {
      out.push_back(Literal::FromDoubles(whole.type(), part));
    }
    return out;
  }

  const OpUse& use_;
  std::mt19937 random_{17};
};

bool AnyPartial(const std::vector<NdSbp>& sbps) {
  for (const NdSbp& sbp : sbps) {
    for (Sbp s : sbp) {
      if (s.is_partial()) return true;
    }
  }
  return false;
}

double ToleranceOf(DType dtype) {
  if (dtype == DType::kF64) return 1e-11;
  return dtype == DType::kF32 ? 1e-5 : 1e-2;
}

// `members`: by member. Compares with the whole: bit by bit where nothing is
// reduced.
void CheckMembers(const OpUse& use, const Instance& whole,
                  const std::vector<Instance>& members,
                  const std::vector<NdSbp>& inputs,
                  const std::vector<NdSbp>& outputs, const Mesh& mesh) {
  Operands make(use);
  std::vector<Literal> operands;
  std::vector<std::vector<Literal>> dealt(members.size());
  for (size_t i = 0; i < whole.inputs.size(); ++i) {
    std::vector<Literal> parts =
        make.Deal(make.Random(whole.inputs[i]), inputs[i], mesh);
    const bool absent = whole.inputs[i].dtype == DType::kInvalid;
    operands.push_back(absent ? Literal() : WholeOf(parts, inputs[i], mesh));
    for (size_t m = 0; m < members.size(); ++m) dealt[m].push_back(parts[m]);
  }
  absl::StatusOr<std::vector<Literal>> expected = Run(whole, operands);
  ASSERT_TRUE(expected.ok()) << expected.status();
  std::vector<std::vector<Literal>> results(whole.outputs.size());
  for (size_t m = 0; m < members.size(); ++m) {
    absl::StatusOr<std::vector<Literal>> got = Run(members[m], dealt[m]);
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t i = 0; i < results.size(); ++i) {
      results[i].push_back((*got)[i]);
    }
  }
  const bool exact = !AnyPartial(inputs) && !AnyPartial(outputs);
  for (size_t i = 0; i < results.size(); ++i) {
    const Literal joined = WholeOf(results[i], outputs[i], mesh);
    const double tolerance = exact ? 0 : ToleranceOf(whole.outputs[i].dtype);
    if (exact) {
      EXPECT_TRUE(joined == (*expected)[i]) << "result " << i;
    } else {
      EXPECT_EQ(CheckClose((*expected)[i], joined, tolerance), absl::OkStatus())
          << "result " << i;
    }
  }
}

std::vector<NdSbp> Axes(const std::vector<const std::vector<Sbp>*>& by_axis) {
  std::vector<NdSbp> out(by_axis[0]->size());
  for (const std::vector<Sbp>* axis : by_axis) {
    for (size_t i = 0; i < out.size(); ++i) out[i].push_back((*axis)[i]);
  }
  return out;
}

const int kGroups[] = {3};

void CheckOneAxis(const OpUse& use, const Instance& op, int parts) {
  const Mesh mesh = Mesh::Create({{"a", parts}}).value();
  for (const OpSignature& s : SignaturesOf(op.View(), parts, kGroups)) {
    SCOPED_TRACE(absl::StrCat(parts, " members, ", ToString(s)));
    std::vector<Instance> members;
    for (int i = 0; i < parts; ++i) {
      members.push_back(MemberOf(op, s, parts, i));
    }
    CheckMembers(use, op, members, Axes({&s.inputs}), Axes({&s.outputs}), mesh);
  }
}

void CheckTwoAxes(const OpUse& use, const Instance& op) {
  const Mesh mesh = Mesh::Create({{"a", 2}, {"b", 2}}).value();
  for (const OpSignature& a : SignaturesOf(op.View(), 2, kGroups)) {
    const Instance first = MemberOf(op, a, 2, 0),
                   second = MemberOf(op, a, 2, 1);
    for (const OpSignature& b : SignaturesOf(first.View(), 2, kGroups)) {
      SCOPED_TRACE(absl::StrCat(ToString(a), "; ", ToString(b)));
      std::vector<Instance> members;
      for (const Instance* outer : {&first, &second}) {
        for (int i = 0; i < 2; ++i) {
          members.push_back(MemberOf(*outer, b, 2, i));
        }
      }
      CheckMembers(use, op, members, Axes({&a.inputs, &b.inputs}),
                   Axes({&a.outputs, &b.outputs}), mesh);
    }
  }
}

TEST(Signatures, MembersMakeTheWhole) {
  for (const OpUse& use : SignatureUses()) {
    for (const std::string dtype : {"f64", "f32"}) {
      SCOPED_TRACE(absl::StrCat(use.op, "(", absl::StrJoin(use.inputs, ", "),
                                ") of ", dtype));
      const Instance op = InstanceOf(use, dtype);
      if (op.outputs.empty()) continue;
      for (int parts : {2, 3}) CheckOneAxis(use, op, parts);
    }
  }
}

TEST(Signatures, MembersOfTwoAxesMakeTheWhole) {
  for (const OpUse& use : SignatureUses()) {
    SCOPED_TRACE(
        absl::StrCat(use.op, "(", absl::StrJoin(use.inputs, ", "), ")"));
    const Instance op = InstanceOf(use, "f64");
    if (!op.outputs.empty()) CheckTwoAxes(use, op);
  }
}

std::vector<std::string> ListOf(const OpUse& use, std::vector<int> groups = {},
                                int parts = 2) {
  const Instance op = InstanceOf(use, "f32");
  std::vector<std::string> out;
  for (const OpSignature& s : SignaturesOf(op.View(), parts, groups)) {
    out.push_back(ToString(s));
  }
  return out;
}

int64_t Pick(std::mt19937* random, std::vector<int64_t> from) {
  return from[(*random)() % from.size()];
}

// Extents of `count` elements, a product of 2 and 3, in any order.
Ints RandomExtents(std::mt19937* random, int64_t count) {
  Ints dims;
  while (count > 1 && dims.size() + 1 < kMaxRank) {
    const int64_t extent = Pick(random, {1, 2, 3, 4, 6, 12});
    if (count % extent != 0) continue;
    dims.push_back(extent);
    count /= extent;
  }
  dims.push_back(count);
  return dims;
}

std::string TypeText(const Ints& dims) {
  return absl::StrCat("x[", absl::StrJoin(dims, ","), "]");
}

void CheckAll(const OpUse& use) {
  const Instance op = InstanceOf(use, "f32");
  SCOPED_TRACE(
      absl::StrCat(use.op, "(", use.inputs[0], ") ",
                   absl::StrJoin(use.attrs.Find("shape")->ints(), ",")));
  ASSERT_FALSE(op.outputs.empty());
  for (int parts : {2, 3}) CheckOneAxis(use, op, parts);
}

TEST(Signatures, RandomReshapes) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const int64_t count = Pick(&random, {24, 36, 72, 144, 432});
    const Ints from = RandomExtents(&random, count);
    CheckAll({"Reshape",
              {{"shape", RandomExtents(&random, count)}},
              {TypeText(from)}});
  }
}

TEST(Signatures, RandomStridedCopies) {
  std::mt19937 random(2);
  int with_a_cut_operand = 0;
  for (int round = 0; round < 500; ++round) {
    // Of some dimensions, each from end to end, backwards, in part or repeated.
    const Ints from = RandomExtents(&random, 144);
    const Shape shape(from);
    Ints extents, strides;
    int64_t offset = 0;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      const int64_t stride = shape.Strides()[d], extent = from[d];
      switch (Pick(&random, {0, 0, 0, 1, 2, 3})) {
        case 1:
          strides.push_back(-stride);
          extents.push_back(extent);
          offset += stride * (extent - 1);
          break;
        case 2:
          strides.push_back(stride);
          extents.push_back((extent + 1) / 2);
          offset += stride * (extent / 2);
          break;
        case 3:
          strides.push_back(0);
          extents.push_back(6);
          break;
        default:
          strides.push_back(stride);
          extents.push_back(extent);
      }
    }
    const OpUse use = {
        "weft.StridedCopy",
        {{"shape", extents}, {"strides", strides}, {"offset", offset}},
        {TypeText(from)}};
    CheckAll(use);
    for (const std::string& s : ListOf(use)) with_a_cut_operand += s[0] == 'S';
  }
  EXPECT_GT(with_a_cut_operand, 300);
}

TEST(Signatures, EveryOpHasAUseOrAReason) {
  std::set<std::string> used;
  for (const OpUse& use : SignatureUses()) used.insert(use.op);
  const auto without = OpsWithoutSignatures();
  for (const OpSchema* schema : OpRegistry::Global().All()) {
    const bool reason = without.count(schema->name) > 0;
    EXPECT_NE(used.count(schema->name) > 0, reason) << schema->name;
    const bool has = schema->signatures != nullptr || schema->elementwise;
    EXPECT_NE(has, reason) << schema->name;
  }
}

// All lists, to read: a change of one shows.
TEST(Signatures, AreThoseOfTheFile) {
  std::string text;
  for (const OpUse& use : SignatureUses()) {
    absl::StrAppend(&text, use.op, "(", absl::StrJoin(use.inputs, ", "), ")");
    for (const auto& [name, value] : use.attrs) {
      if (value.kind() != AttrKind::kDType) {
        absl::StrAppend(&text, " ", name, "=", ToString(value));
      }
    }
    absl::StrAppend(&text, "\n");
    for (const std::string& s : ListOf(use, {3})) {
      absl::StrAppend(&text, "  ", s, "\n");
    }
  }
  std::ifstream file("core/reference/testdata/signatures.txt");
  const std::string expected((std::istreambuf_iterator<char>(file)),
                             std::istreambuf_iterator<char>());
  EXPECT_EQ(text, expected);
}

TEST(Signatures, OfAProduct) {
  EXPECT_THAT(ListOf({"MatMul", {}, {"x[8,4]", "x[4,12]"}}),
              ElementsAre("B, B -> B", "S(0), B -> S(0)", "B, S(1) -> S(1)",
                          "S(1), S(0) -> P(sum)", "P(sum), B -> P(sum)",
                          "B, P(sum) -> P(sum)"));
  EXPECT_THAT(ListOf({"MatMul", {}, {"x[4]", "x[4,12]"}}, {3}),
              ElementsAre("B, B -> B", "B, S(1) -> S(0)", "B, S(1,3) -> S(0,3)",
                          "S(0), S(0) -> P(sum)", "P(sum), B -> P(sum)",
                          "B, P(sum) -> P(sum)"));
}

TEST(Signatures, OfAProductWithABias) {
  EXPECT_THAT(
      ListOf({"Gemm", {}, {"x[8,4]", "x[4,12]", "x[12]"}}),
      ElementsAre("B, B, B -> B", "S(0), B, B -> S(0)", "B, S(1), S(0) -> S(1)",
                  "S(1), S(0), P(sum) -> P(sum)", "P(sum), B, P(sum) -> P(sum)",
                  "B, P(sum), P(sum) -> P(sum)"));
  EXPECT_THAT(ListOf({"Gemm",
                      {{"activation", "relu"}, {"transB", 1}},
                      {"x[8,4]", "x[12,4]"}}),
              ElementsAre("B, B -> B", "S(0), B -> S(0)", "B, S(0) -> S(1)"));
}

TEST(Signatures, OfWhatBroadcasts) {
  EXPECT_THAT(
      ListOf({"Add", {}, {"x[2,3,12]", "x[12]"}}, {3}),
      ElementsAre("B, B -> B", "S(0), B -> S(0)", "S(2), S(0) -> S(2)",
                  "S(2,3), S(0,3) -> S(2,3)", "P(sum), P(sum) -> P(sum)"));
}

TEST(Signatures, OfAttention) {
  const OpUse use = {"weft.SelfAttention", {{"heads", 4}}, {"x[2,3,24]"}};
  EXPECT_THAT(ListOf(use), ElementsAre("B -> B, B", "S(0) -> S(0), S(0)",
                                       "S(2,3) -> S(2), S(1)"));
  EXPECT_THAT(ListOf(use, {}, 8), ElementsAre("B -> B, B"));  // 4 heads
}

TEST(Signatures, OfAReshapeThatGathersDimensions) {
  EXPECT_THAT(
      ListOf({"Reshape", {{"shape", Ints{32, 12}}}, {"x[8,4,12]"}}, {3}),
      UnorderedElementsAre("B -> B", "S(0) -> S(0)", "S(1) -> S(0,8)",
                           "S(2) -> S(1)", "S(2,3) -> S(1,3)",
                           "P(sum) -> P(sum)", "P(prod) -> P(prod)",
                           "P(max) -> P(max)", "P(min) -> P(min)"));
}

}  // namespace
}  // namespace weft
