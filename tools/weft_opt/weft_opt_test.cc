#include "tools/weft_opt/weft_opt.h"

#include <sstream>

#include "gtest/gtest.h"

namespace weft {
namespace {

struct Ran {
  int code;
  std::string out;
  std::string err;
};

Ran Opt(const std::vector<std::string>& args, const std::string& input = "") {
  std::istringstream in(input);
  std::ostringstream out, err;
  int code = WeftOpt(args, in, out, err);
  return {code, out.str(), err.str()};
}

constexpr char kGraph[] = R"(graph "g" {
  %x = weft.Input() {dtype: f32, shape: [4]}
  %a = Neg(%x)
  %b = Neg(%a)
  %y = weft.Output(%b) {name: "y"}
})";

TEST(WeftOptTest, RunsPasses) {
  Ran r = Opt({"--passes=algebraic_simplify,dce"}, kGraph);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out, R"(graph "g" {
  %x = weft.Input() {dtype: f32, shape: [4]} : f32[4]
  %y = weft.Output(%x) {name: "y"}
}
)");
  EXPECT_EQ(Opt({"--pipeline=default"}, kGraph).out, r.out);
}

TEST(WeftOptTest, WithoutPassesItFormats) {
  Ran r = Opt({"-"}, kGraph);
  EXPECT_EQ(r.code, 0);
  EXPECT_NE(r.out.find("%b = Neg(%a) : f32[4]"), std::string::npos) << r.out;
}

TEST(WeftOptTest, HelpShowsAnExampleThatRuns) {
  Ran r = Opt({"--help"});
  EXPECT_EQ(r.code, 0);
  size_t from = r.out.find("echo '") + 6;
  size_t to = r.out.find("}' | weft-opt ", from);
  ASSERT_NE(to, std::string::npos) << r.out;
  size_t flags = to + 14;
  std::string flag = r.out.substr(flags, r.out.find('\n', flags) - flags);
  Ran example = Opt({flag}, r.out.substr(from, to + 1 - from));
  EXPECT_EQ(example.code, 0) << example.err;
  EXPECT_EQ(example.out.find("Neg"), std::string::npos) << example.out;
}

TEST(WeftOptTest, DecomposesChosenOperators) {
  const std::string graph = R"(graph "g" {
    %x = weft.Input() {dtype: f32, shape: [2, 4]}
    %a = Softmax(%x)
    %b = LogSoftmax(%a)
    %y = weft.Output(%b) {name: "y"}
  })";
  Ran r =
      Opt({"--passes=decompose", "--decompose=Softmax", "--provenance"}, graph);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out.find(" Softmax("), std::string::npos) << r.out;
  EXPECT_NE(r.out.find(" LogSoftmax("), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("origin(\"decompose: part of a (Softmax)\")"),
            std::string::npos)
      << r.out;
}

TEST(WeftOptTest, ErrorsHaveNumbersAndExitCodes) {
  Ran r = Opt({"--passess=dce"}, kGraph);
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("WEFT-1001"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("did you mean '--passes'?"), std::string::npos) << r.err;
  EXPECT_EQ(Opt({"--passes=dcee"}, kGraph).code, 2);
  EXPECT_EQ(Opt({"--passes=dce", "--pipeline=default"}, kGraph).code, 2);
  EXPECT_EQ(Opt({"--seed=many"}, kGraph).code, 2);
  EXPECT_EQ(Opt({"a", "b"}).code, 2);
  r = Opt({}, "graph \"g\" {\n  %x = Rellu()\n}");
  EXPECT_EQ(r.code, 3);
  EXPECT_NE(r.err.find("WEFT-2001: standard input: 2:8"), std::string::npos)
      << r.err;
  r = Opt({"/nowhere/graph.txt"});
  EXPECT_EQ(r.code, 6);
  EXPECT_NE(r.err.find("/nowhere/graph.txt"), std::string::npos) << r.err;
  EXPECT_TRUE(r.out.empty());
}

}  // namespace
}  // namespace weft
