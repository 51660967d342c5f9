#include "compiler/explain/explain.h"

#include <string>
#include <utility>
#include <vector>

#include "compiler/compile.h"
#include "compiler/testing/fake_oracle.h"
#include "core/base/error.h"
#include "core/graph/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ExplainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto graph = ParseGraph(R"(graph "g" {
      %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [2], dims: [8, 4]}
      %fc1/weight = weft.Variable() {dtype: f32, shape: [4, 2]}
      %fc1/product = MatMul(%x, %fc1/weight) origin("autodiff: by hand")
      %act = Relu(%fc1/product) device("sim") origin("fuse: took in 'old/name'")
      %o = weft.Output(%act) {name: "y"}
    })");
    ASSERT_TRUE(graph.ok()) << graph.status();
    FakeOracle oracle;
    CompileOptions options;
    options.devices = {HostDevice(), PrivateDevice("sim:0")};
    auto plan = Compile(*graph, options, oracle);
    ASSERT_TRUE(plan.ok()) << plan.status();
    plan_ = *std::move(plan);
  }

  std::string Explain(absl::string_view name) {
    auto text = ExplainNode(plan_, name);
    return text.ok() ? *text : std::string(text.status().message());
  }

  plan::Plan plan_;
};

TEST_F(ExplainTest, SaysWhereAndWhy) {
  std::string text = Explain("fc1/product");
  EXPECT_THAT(text, HasSubstr("MatMul"));
  EXPECT_THAT(text, HasSubstr("runs on cpu:0, stream cpu:0/compute, worker 0"));
  EXPECT_THAT(text, HasSubstr("reads x f32[8,4] of task 'x'"));
  EXPECT_THAT(text, HasSubstr("why: autodiff: by hand"));
  EXPECT_THAT(text, HasSubstr("why: placement: on the default device"));
  EXPECT_THAT(text, Not(HasSubstr("old/name")));
}

TEST_F(ExplainTest, SaysWhyANodeIsNotWhereItWasWanted) {
  std::string text = Explain("act");
  EXPECT_THAT(text,
              HasSubstr("by host fallback, sim:0 has no kernel for Relu"));
}

TEST_F(ExplainTest, AScopeNamesAllInIt) {
  std::string text = Explain("fc1");
  EXPECT_THAT(text, HasSubstr("fc1/product: MatMul"));
  EXPECT_THAT(text, HasSubstr("fc1/weight: state"));
  EXPECT_THAT(text, Not(HasSubstr("act: Relu")));
}

TEST_F(ExplainTest, FindsWhatAPassHasTakenIn) {
  EXPECT_THAT(Explain("old/name"), HasSubstr("has become part of task"));
}

TEST_F(ExplainTest, UnknownNameSuggestsTheNearest) {
  auto text = ExplainNode(plan_, "fc1/produkt");
  EXPECT_TRUE(IsError(text.status(), ErrorCode::kBadValue));
  EXPECT_THAT(std::string(text.status().message()),
              HasSubstr("did you mean 'fc1/product'"));
  // A scope is a name as well.
  EXPECT_THAT(Explain("fcl"), HasSubstr("did you mean 'fc1'"));
}

TEST(ExplainRanksTest, SaysWhatDoesNotTravel) {
  auto graph = ParseGraph(R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [1], dims: [8]}
    %mine = Relu(%x)
    %offer = weft.Send(%mine) {channel: "a", peer: 1, mapped: 1}
    %theirs = weft.Recv() {channel: "b", peer: 1, dtype: f32, shape: [8], mapped: 1}
    %loan = weft.Recv() {channel: "c", peer: 1, dtype: f32, shape: [8], mapped: 1, lent: 1}
    %sum = Add(%theirs, %loan)
    %back = weft.Send(%sum) {channel: "d", peer: 1, lands: "c"}
  })");
  ASSERT_TRUE(graph.ok()) << graph.status();
  FakeOracle oracle;
  CompileOptions options;
  options.devices = {HostDevice()};
  options.ranks = 2;
  auto plan = Compile(*graph, options, oracle);
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const auto& [node, what] :
       std::vector<std::pair<std::string, std::string>>{
           {"offer", "a value that another rank reads where it lies"},
           {"theirs", "a value of another rank, read where it lies"},
           {"loan", "a value that another rank lends"},
           {"back", "a value left where another rank lent its memory"}}) {
    auto text = ExplainNode(*plan, node);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_THAT(*text, HasSubstr(node + ": " + what));
  }
}

TEST_F(ExplainTest, SaysWhatThereIs) {
  EXPECT_TRUE(IsError(ExplainNode(plan_, "").status(), ErrorCode::kBadValue));
  for (const char* name : {"", "zebra"}) {
    const std::string text = Explain(name);
    EXPECT_THAT(text, HasSubstr("fc1, "));
    EXPECT_THAT(text, HasSubstr("act"));
    EXPECT_THAT(text, Not(HasSubstr("fc1/")));
  }
}

}  // namespace
}  // namespace weft
