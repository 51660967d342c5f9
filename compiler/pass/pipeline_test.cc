#include "compiler/pass/pipeline.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "compiler/pass/registry.h"
#include "core/base/error.h"
#include "core/base/os.h"
#include "core/graph/text.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

Graph Sample() {
  auto graph = ParseGraph(R"(graph "g" {
%x = weft.Input() {dtype: f32, shape: [2]}
%a = Identity(%x)
%b = Relu(%a)
%c = Relu(%a)
%d = Add(%b, %c)
%e = Neg(%d)
%o = weft.Output(%d) {name: "d"}
})");
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

std::string Directory(const std::string& name) {
  const char* base = std::getenv("TEST_TMPDIR");
  return absl::StrCat(base != nullptr ? base : "/tmp", "/", name);
}

class Breaks : public Pass {
 public:
  absl::string_view Name() const override { return "breaks"; }
  absl::StatusOr<bool> Run(Graph& graph, PassContext&) override {
    graph.AddControlInput(graph.FindNode("b")->id(), graph.FindNode("d")->id());
    return true;
  }
};

class Fails : public Pass {
 public:
  absl::string_view Name() const override { return "fails"; }
  absl::StatusOr<bool> Run(Graph&, PassContext&) override {
    return MakeError(ErrorCode::kNoGradient, "because");
  }
};

TEST(PipelineTest, DefaultPipelineRuns) {
  Graph g = Sample();
  auto pipeline = MakeNamedPipeline("default");
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  PassContext context;
  auto changed = pipeline->Run(g, context);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_TRUE(*changed);
  EXPECT_EQ(g.num_nodes(), 3) << PrintGraph(g);
  std::string once = PrintGraph(g);
  changed = pipeline->Run(g, context);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_FALSE(*changed);
  EXPECT_EQ(PrintGraph(g), once);
}

TEST(PipelineTest, DumpsChangedPassesThatMatch) {
  Graph g = Sample();
  PipelineOptions options;
  options.dump_to = Directory("dumps");
  options.dump_passes = "cse|dce|decompose";
  auto pipeline = MakePipeline(
      {"algebraic_simplify", "cse", "dce", "dce", "decompose"}, options);
  ASSERT_TRUE(pipeline.ok());
  PassContext context;
  context.settings.decompose = [](const Node&) { return false; };
  ASSERT_TRUE(pipeline->Run(g, context).ok());
  auto files = RealOs().List(options.dump_to);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(*files, (std::vector<std::string>{
                        "002.cse.after.txt", "002.cse.before.txt",
                        "003.dce.after.txt", "003.dce.before.txt"}));
  auto text =
      RealOs().ReadFile(options.dump_to + "/003.dce.after.txt", 1 << 20);
  ASSERT_TRUE(text.ok());
  EXPECT_TRUE(ParseGraph(*text).ok());
}

TEST(PipelineTest, ADefectOfAPassIsNamed) {
  Graph g = Sample();
  Pipeline pipeline;
  pipeline.Add(std::make_unique<Breaks>());
  PassContext context;
  absl::Status status = pipeline.Run(g, context).status();
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kInternal) << status;
  EXPECT_NE(status.message().find("breaks"), absl::string_view::npos);
}

TEST(PipelineTest, AnErrorOfAPassKeepsItsCode) {
  Graph g = Sample();
  Pipeline pipeline;
  pipeline.Add(std::make_unique<Fails>());
  PassContext context;
  absl::Status status = pipeline.Run(g, context).status();
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kNoGradient) << status;
  EXPECT_NE(status.message().find("fails"), absl::string_view::npos);
}

TEST(PipelineTest, BadSettingsAreRefused) {
  EXPECT_EQ(ErrorCodeOf(MakePipeline({"cze"}).status()), ErrorCode::kBadValue);
  EXPECT_NE(MakePipeline({"cze"}).status().message().find("'cse'"),
            absl::string_view::npos);
  EXPECT_EQ(ErrorCodeOf(MakeNamedPipeline("defalt").status()),
            ErrorCode::kBadValue);
  Graph g = Sample();
  PassContext context;
  PipelineOptions options;
  options.dump_to = Directory("other");
  options.dump_passes = "(";
  EXPECT_EQ(ErrorCodeOf(Pipeline(options).Run(g, context).status()),
            ErrorCode::kBadValue);
  options.dump_passes = ".*";
  options.dump_to = "/proc/nowhere/dumps";
  EXPECT_EQ(ErrorCodeOf(Pipeline(options).Run(g, context).status()),
            ErrorCode::kWriteFailed);
}

TEST(RegistryTest, EveryPassIsListedUnderItsName) {
  for (const PassInfo& info : ListPasses()) {
    auto pass = CreatePass(info.name);
    ASSERT_TRUE(pass.ok()) << info.name;
    EXPECT_EQ((*pass)->Name(), info.name);
    EXPECT_FALSE(info.summary.empty());
  }
}

}  // namespace
}  // namespace weft
