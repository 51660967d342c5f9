// Random programs with random demands on random values, and random choices:
// whatever is asked for, the members of a mesh together compute what one rank
// does, and the plans of all of them are proved as one.
//
//   TEST_PROGRAMS=10000 TEST_SEED=1 .../random_test     a longer run
//   TEST_PROVING=1 .../random_test                      all plans are made
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/pass/registry.h"
#include "compiler/sharding/lower.h"
#include "compiler/sharding/sharding.h"
#include "compiler/testing/fake_oracle.h"
#include "compiler/testing/job_plans.h"
#include "compiler/testing/random_program.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"
#include "core/mesh/sbp.h"
#include "core/ops/signatures.h"
#include "core/reference/job_interpreter.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

int Setting(const char* text, int otherwise) {
  int value = otherwise;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

int Programs(int otherwise) {
  return Setting(std::getenv("TEST_PROGRAMS"), otherwise);
}

int ProveEvery() { return Setting(std::getenv("TEST_PROVING"), 20); }

uint64_t FirstSeed() { return Setting(std::getenv("TEST_SEED"), 1); }

Mesh PickMesh(RandomProgram* program) {
  static const std::vector<int> kSizes[] = {{2},    {3},    {4},
                                            {2, 2}, {2, 3}, {2, 2, 2}};
  std::vector<MeshAxis> axes;
  for (int size : kSizes[program->Below(6)]) {
    axes.push_back({absl::StrCat("a", axes.size()), size});
  }
  auto mesh = Mesh::Create(axes);
  EXPECT_TRUE(mesh.ok()) << mesh.status();
  return *std::move(mesh);
}

// Of the four micro-batches of a step.
Mesh PickSharers(RandomProgram* program) {
  return Mesh::Create({{"data", program->Below(2) == 0 ? 2 : 4}}).value();
}

// Whether a value may be asked to be so.
bool IsLegal(const Graph& graph, Value v, Sbp sbp) {
  if (!sbp.is_partial()) return true;
  const DType dtype = graph.type(v).dtype;
  return !graph.node(v)->Is(OpId::kVariable) &&
         (IsFloat(dtype) || dtype == DType::kI32);
}

// Demands on some values, each on one axis or more: the sensible and the
// absurd.
std::vector<ShardingConstraint> PickDemands(RandomProgram* program,
                                            const Mesh& mesh, bool of_state) {
  const Graph& graph = program->graph();
  std::vector<Value> values;
  for (const Node* node : graph.Nodes()) {
    if (node->num_updated() > 0) continue;
    if (of_state && !node->Is(OpId::kVariable)) continue;
    for (int o = 0; o < node->num_outputs(); ++o) {
      values.push_back(node->output(o));
    }
  }
  std::vector<ShardingConstraint> demands;
  const int wanted = 1 + program->Below(5);
  for (int i = 0; i < wanted && !values.empty(); ++i) {
    const int at = program->Below(static_cast<int>(values.size()));
    const Value v = values[at];
    values.erase(values.begin() + at);
    Shape shape = graph.type(v).shape;
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      std::vector<Sbp> ways = {Sbp::Broadcast(), Sbp::Partial(),
                               Sbp::Partial(ReduceOp::kMax),
                               Sbp::Partial(ReduceOp::kMin)};
      for (int d = 0; d < shape.rank(); ++d) {
        for (int groups : {1, 1, 2, 3}) ways.push_back(Sbp::Split(d, groups));
      }
      const Sbp way = ways[program->Below(static_cast<int>(ways.size()))];
      const auto part = PartShape(shape, way, mesh.axis(axis).size);
      if (!part.ok() || !IsLegal(graph, v, way) || program->Below(4) == 0) {
        continue;
      }
      shape = *part;
      demands.push_back({v, axis, way, "the test"});
    }
  }
  return demands;
}

// A choice that no cost would make: any signature for any node.
class RandomChoice {
 public:
  RandomChoice(RandomProgram* program, const Mesh& mesh)
      : program_(program), graph_(program->graph()), mesh_(mesh) {}

  Sharding Make() {
    sharding_.nodes.resize(graph_.id_bound());
    sharding_.why.resize(graph_.id_bound());
    for (const Node* node : graph_.Nodes()) {
      if (!node->Is(OpId::kVariable)) Choose(*node);
    }
    // State is as its update wants it.
    for (const Node* node : graph_.Nodes()) {
      if (!node->Is(OpId::kVariable)) continue;
      Choose(*node);
      for (auto [reader, position] : graph_.Uses(node->output(0))) {
        if (position >= graph_.node(reader)->num_updated()) continue;
        sharding_.nodes[node->id()].outputs[0] =
            sharding_.nodes[reader].inputs[position];
      }
    }
    return std::move(sharding_);
  }

 private:
  void Choose(const Node& node) {
    NodeSharding& choice = sharding_.nodes[node.id()];
    choice.inputs.resize(node.inputs().size());
    choice.outputs.resize(node.num_outputs());
    AttrMap attrs = node.attrs();
    const OpView view = graph_.View(node);
    std::vector<TensorType> in(view.inputs().begin(), view.inputs().end());
    std::vector<TensorType> out(node.output_types().begin(),
                                node.output_types().end());
    for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
      const int parts = mesh_.axis(axis).size;
      const OpView local(node.schema(), node.name(), attrs, in, out);
      const std::vector<OpSignature> ways = SignaturesOf(local, parts);
      const OpSignature& way =
          ways[program_->Below(static_cast<int>(ways.size()))];
      AttrMap next = *LocalAttrs(local, way, parts, 0);
      for (size_t i = 0; i < in.size(); ++i) {
        choice.inputs[i].push_back(way.inputs[i]);
      }
      for (size_t o = 0; o < out.size(); ++o) {
        choice.outputs[o].push_back(way.outputs[o]);
      }
      ASSERT_TRUE(TakeParts(way.inputs, parts, &in).ok());
      ASSERT_TRUE(TakeParts(way.outputs, parts, &out).ok());
      attrs = std::move(next);
    }
  }

  RandomProgram* program_;
  const Graph& graph_;
  const Mesh& mesh_;
  Sharding sharding_;
};

// Within rounding of another order of sums. "" where they are.
std::string WhyNotEqual(const Literal& got, const Literal& wanted) {
  if (got.type() != wanted.type()) {
    return absl::StrCat(got.type().ToString(), ", not ",
                        wanted.type().ToString());
  }
  const std::vector<double> a = got.ToDoubles(), b = wanted.ToDoubles();
  double size = 1;
  for (double v : b) size = std::max(size, std::fabs(v));
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::fabs(a[i] - b[i]) <= 1e-9 * size) continue;
    return absl::StrCat("element ", i, " is ", a[i], ", not ", b[i]);
  }
  return "";
}

enum class Mode {
  kDemands,  // what ChooseSharding makes of demands
  kChoices,  // random ones
  kShares,   // members that share micro-batches, and demands on state
};

class RandomShardingTest : public testing::Test {
 protected:
  void Run(uint64_t seed, Mode mode, bool compile) {
    const bool shares = mode == Mode::kShares;
    // Only what is trained has micro-batches.
    RandomProgram program(shares ? 2 * seed : seed, shares ? 4 : 2);
    ShardingSpec spec;
    spec.meshes = {shares ? PickSharers(&program) : PickMesh(&program)};
    spec.topology.mapped_bytes = seed % 3 == 0 ? 1 : 0;
    spec.micro_batches = program.micro_batches();
    spec.shares_micro_batches = shares;
    spec.split_gradients = program.Below(2) == 0;
    if (program.Below(2) == 0) {  // where it pays to split
      spec.topology.in_host = {1e-9, 1e-9, 1e12};
      spec.rate.flops_per_s = 1e7;
    }
    if (mode != Mode::kChoices) {
      spec.constraints = PickDemands(&program, spec.mesh(), shares);
    }
    std::string trace =
        absl::StrCat("seed ", seed, " on ", spec.mesh().ToString(), "\n",
                     PrintGraph(program.graph()));
    for (const ShardingConstraint& c : spec.constraints) {
      absl::StrAppend(&trace, program.graph().ValueName(c.value), " is ",
                      ToString(c.sbp), " on axis ", c.axis, "\n");
    }
    SCOPED_TRACE(trace);
    Sharding sharding;
    if (mode == Mode::kChoices) {
      sharding = RandomChoice(&program, spec.mesh()).Make();
    } else {
      auto chosen = ChooseSharding(program.graph(), spec);
      ASSERT_TRUE(chosen.ok()) << chosen.status();
      sharding = *std::move(chosen);
    }
    std::string choices;
    for (const Node* node : program.graph().Nodes()) {
      absl::StrAppend(&choices, node->name(), ": ",
                      ToString(sharding.nodes[node->id()]), "\n");
    }
    SCOPED_TRACE(choices);
    LoweringOptions options;
    options.gather_each_use = program.Below(2) == 0;
    options.bundle_bytes = program.Below(2) == 0 ? 0 : 1000;
    std::vector<Graph> graphs;
    for (int member = 0; member < spec.mesh().size(); ++member) {
      options.member = member;
      auto graph = LowerSharding(program.graph(), spec, sharding, options);
      ASSERT_TRUE(graph.ok()) << graph.status();
      ASSERT_TRUE(VerifyGraph(*graph).ok()) << VerifyGraph(*graph);
      for (const Node* node : std::as_const(*graph).Nodes()) {
        sends_ += node->Is(OpId::kSend) ? 1 : 0;
      }
      graphs.push_back(*std::move(graph));
    }
    const int here = spec.micro_batches / (shares ? spec.mesh().size() : 1);
    ExpectTheSame(program, spec.mesh(), sharding, graphs, here);
    if (compile && !HasFailure()) {
      // Which find more to do on one rank than on another.
      if (program.Below(4) != 0) RunPasses(&graphs);
      CompileOptions compiling;
      compiling.devices = {HostDevice()};
      compiling.micro_batches = here;
      FakeOracle oracle;
      auto job = CompileGraphs(graphs, compiling, oracle);
      ASSERT_TRUE(job.ok()) << job.status();
      ++proved_;
    }
  }

  static void RunPasses(std::vector<Graph>* graphs) {
    const auto passes = MakeNamedPipeline("default");
    ASSERT_TRUE(passes.ok()) << passes.status();
    for (Graph& graph : *graphs) {
      PassContext context;
      const absl::Status status = passes->Run(graph, context).status();
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  // `here`: micro-batches of each member; its own where that is not all.
  void ExpectTheSame(const RandomProgram& program, const Mesh& mesh,
                     const Sharding& sharding, const std::vector<Graph>& graphs,
                     int here) {
    const auto first = [&](int member) {
      return here == program.micro_batches() ? 0 : member * here;
    };
    auto wanted =
        Interpret(program.graph(), program.feeds(), program.micro_feeds());
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    const auto part = [&](const std::string& name, const Literal& whole,
                          int member) {
      const Value v = program.graph().FindNode(name)->output(0);
      return LocalPart(whole, sharding.nodes[v.node].outputs[0], mesh, member);
    };
    std::vector<RankProgram> job(graphs.size());
    for (int member = 0; member < mesh.size(); ++member) {
      job[member].graph = &graphs[member];
      for (const auto& [name, values] : program.feeds()) {
        job[member].feeds[name] = {part(name, values[0], member)};
      }
      for (int i = 0; i < here; ++i) {
        job[member].micro_feeds.push_back(
            program.micro_feeds()[first(member) + i]);
      }
    }
    auto got = InterpretJob(job, JobOrder::kInOrder);
    ASSERT_TRUE(got.ok()) << got.status();
    for (int member = 0; member < mesh.size(); ++member) {
      const InterpretResult& result = (*got)[member];
      for (const auto& [name, values] : wanted->outputs) {
        const std::vector<Literal>& its = result.outputs.at(name);
        const size_t skipped = its.size() < values.size() ? first(member) : 0;
        ASSERT_LE(skipped + its.size(), values.size());
        for (size_t i = 0; i < its.size(); ++i) {
          ASSERT_EQ(WhyNotEqual(its[i], values[skipped + i]), "")
              << "output " << name << " of member " << member;
        }
      }
      for (const auto& [name, value] : wanted->variables) {
        ASSERT_EQ(
            WhyNotEqual(result.variables.at(name), part(name, value, member)),
            "")
            << "variable " << name << " of member " << member;
      }
    }
  }

  int64_t sends_ = 0;
  int proved_ = 0;
};

TEST_F(RandomShardingTest, DemandsAreMet) {
  const int programs = Programs(25);
  for (int i = 0; i < programs; ++i) {
    Run(FirstSeed() + i, Mode::kDemands, /*compile=*/i % ProveEvery() == 0);
    if (HasFailure()) return;
  }
  EXPECT_GE(sends_, 10 * programs);
  EXPECT_GT(proved_, 0);
}

TEST_F(RandomShardingTest, AnyChoiceIsRight) {
  const int programs = Programs(100);
  for (int i = 0; i < programs; ++i) {
    Run(FirstSeed() + i, Mode::kChoices, /*compile=*/i % ProveEvery() == 0);
    if (HasFailure()) return;
  }
  EXPECT_GE(sends_, 10 * programs);
  EXPECT_GT(proved_, 0);
}

TEST_F(RandomShardingTest, SharedMicroBatchesAreAllThere) {
  const int programs = Programs(60);
  for (int i = 0; i < programs; ++i) {
    Run(FirstSeed() + i, Mode::kShares, /*compile=*/i % ProveEvery() == 0);
    if (HasFailure()) return;
  }
  EXPECT_GE(sends_, 10 * programs);
  EXPECT_GT(proved_, 0);
}

}  // namespace
}  // namespace weft
