// Input that is wrong, through the real command: each is one typed error with
// its code and the exit code that belongs to it, and leaves nothing half-done.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/os.h"
#include "core/testing/gzip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/harness.h"
#include "tests/fault/case.h"

namespace weft::e2e {
namespace {

using ::testing::HasSubstr;

// Replaces the file `name` of the data set by `change` of it.
std::function<void(const TestJob&)> Change(
    const std::string& name,
    const std::function<std::string(std::string)>& change) {
  return [=](const TestJob& job) {
    WriteText(job.File(name), change(ReadText(job.File(name))));
  };
}

constexpr char kImages[] = "train-images";

TEST(BadInputTest, DataThatIsNotWhole) {
  auto remove = [](const std::string& name) {
    return [=](const TestJob& job) {
      ASSERT_TRUE(RealOs().RemoveAll(job.File(name)).ok());
    };
  };
  const std::string images = kImages;
  CheckCases(
      "data", Mlp(),
      {
          {"missing images",
           Train(),
           "WEFT-5001",
           6,
           {images, "No such file"},
           remove(images)},
          {"missing labels of the evaluation",
           Train(),
           "WEFT-5001",
           6,
           {"test-labels", "No such file"},
           remove("test-labels")},
          {"a directory",
           Train(),
           "WEFT-5001",
           6,
           {images},
           [=](const TestJob& job) {
             ASSERT_TRUE(RealOs().RemoveAll(job.File(images)).ok());
             ASSERT_TRUE(RealOs().MakeDirectories(job.File(images)).ok());
           }},
          {"empty",
           Train(),
           "WEFT-5002",
           6,
           {images, "0 bytes"},
           Change(images, [](const std::string&) { return ""; })},
          {"truncated",
           Train(),
           "WEFT-5002",
           6,
           {images, "[200,8,8]"},
           Change(images,
                  [](const std::string& s) { return s.substr(0, 5000); })},
          {"truncated header",
           Train(),
           "WEFT-5002",
           6,
           {images, "header"},
           Change(images, [](const std::string& s) { return s.substr(0, 9); })},
          {"truncated gzip",
           Train(),
           "WEFT-5002",
           6,
           {images, "ends early"},
           Change(
               images,
               [](const std::string& s) { return Gzip(s).substr(0, 3000); })},
          {"damaged gzip",
           Train(),
           "WEFT-5002",
           6,
           {images, "damaged"},
           Change(images,
                  [](const std::string& s) {
                    std::string zip = Gzip(s);
                    for (size_t i = 40; i < 60; ++i) zip[i] ^= 0x55;
                    return zip;
                  })},
      });
}

// The test job, with `text` as its data and a language model.
std::function<void(const TestJob&)> TextJob(const std::string& text,
                                            const std::string& more = "") {
  return [=](const TestJob& job) {
    WriteText(job.File("words"), text);
    WriteText(job.path(), absl::StrCat(R"(name: "job"
model { builtin { name: "gpt" args { key: "width" value: "8" } } }
data { train { text { path: "words" context: 16 )",
                                       more, R"( } } }
batch_size: 2
steps: 2
)"));
  };
}

TEST(BadInputTest, TextThatCannotBeUsed) {
  const std::string words(200, 'w');
  auto and_folder = [=](const TestJob& job) {
    TextJob(words)(job);
    ASSERT_TRUE(RealOs().MakeDirectories(job.File("folder")).ok());
  };
  CheckCases("text", Mlp(),
             {
                 {"missing text",
                  Train({"data.train.text.path=nothing"}),
                  "WEFT-5001",
                  6,
                  {"nothing", "No such file"},
                  TextJob(words)},
                 {"empty text",
                  Train(),
                  "WEFT-5003",
                  6,
                  {"words", "0 bytes"},
                  TextJob("")},
                 {"a folder without files",
                  Train({"data.train.text.path=folder"}),
                  "WEFT-5003",
                  6,
                  {"folder", "no regular file"},
                  and_folder},
                 {"shorter than the context",
                  Train(),
                  "WEFT-1004",
                  2,
                  {"words", "has 16 tokens", "at least 17", "context is 16"},
                  TextJob(words.substr(0, 16))},
                 {"nothing left to evaluate",
                  Train(),
                  "WEFT-1004",
                  2,
                  {"words", "evaluation part", "has 1 tokens"},
                  TextJob(words, "eval_fraction: 0.004")},
                 {"a vocabulary that the text does not give",
                  Train(),
                  "WEFT-1004",
                  2,
                  {"words", "300 byte pairs"},
                  TextJob(words, "bpe { size: 300 }")},
                 {"a vocabulary below the bytes",
                  Train(),
                  "WEFT-1004",
                  2,
                  {"bpe.size is 100", "257"},
                  TextJob(words, "bpe { size: 100 }")},
                 {"more samples in a step than in the text",
                  Train({"batch_size=100"}),
                  "WEFT-1006",
                  2,
                  {"100", "12 samples", "words"},
                  TextJob(words)},
                 {"a model of fewer tokens",
                  Train({"model.builtin.args.classes=100"}),
                  "WEFT-5004",
                  6,
                  {"words", "is 119", "100 classes"},
                  TextJob(words)},
                 {"a model of fewer positions",
                  Train({"model.builtin.args.context=8"}),
                  "WEFT-1005",
                  2,
                  {"context 8", "16 tokens"},
                  TextJob(words)},
                 {"a model of images",
                  Train({"model.builtin.name=mlp"}),
                  "WEFT-1005",
                  2,
                  {"no argument 'width'"},
                  TextJob(words)},
             });
}

TEST(BadInputTest, DataThatDoesNotFit) {
  const std::string images = kImages;
  CheckCases(
      "data", Mlp(),
      {
          {"garbage",
           Train(),
           "WEFT-5003",
           6,
           {images, "IDX"},
           Change(images,
                  [](const std::string&) { return std::string(999, 'x'); })},
          {"wrong magic",
           Train(),
           "WEFT-5003",
           6,
           {images, "0x00000d03"},
           Change(images,
                  [](std::string s) {
                    s[2] = 0x0d;
                    return s;
                  })},
          {"a size beyond all memory",
           Train(),
           "WEFT-5002",
           6,
           {images},
           Change(images,
                  [](std::string s) {
                    s.replace(4, 12, std::string(12, '\xff'));
                    return s;
                  })},
          {"images without pixels",
           Train(),
           "WEFT-5003",
           6,
           {images, "without any pixel"},
           Change(images,
                  [](std::string s) {
                    s.replace(8, 4, std::string(4, '\0'));
                    return s.substr(0, 16);
                  })},
          {"images as labels",
           Train({"data.train.idx.labels=train-images"}),
           "WEFT-5003",
           6,
           {images}},
          {"labels of another set",
           Train({"data.train.idx.labels=test-labels"}),
           "WEFT-5003",
           6,
           {"200", "103"}},
          {"label out of range",
           Train({"model.builtin.args.classes=3"}),
           "WEFT-5004",
           6,
           {"train-labels", "is 3", "3 classes"}},
          {"batch larger than the data",
           Train({"batch_size=208"}),
           "WEFT-1006",
           2,
           {"208", "200", images}},
          {"other images in the evaluation",
           Train(),
           "WEFT-5003",
           6,
           {"[8,8]", "[7,7]"},
           [](const TestJob& job) {
             WriteImages(job.File("test-images"), job.File("test-labels"),
                         {50, 4, 7, 1});
           }},
      });
}

using Changes = std::vector<std::pair<std::string, std::string>>;

// Puts the model as the command prints it into the job's folder, with one
// defect.
std::function<void(const TestJob&)> Printed(const Changes& changes) {
  static const std::string* text = [] {
    TestJob printer("printer", Mlp());
    Ended shown = printer.Weft({"plan", "show", "job.txtpb", "--graph"}).Wait();
    EXPECT_EQ(shown.exit_code, 0) << shown.err;
    return new std::string(shown.out);
  }();
  return [=](const TestJob& job) {
    std::string changed = *text;
    for (const auto& [from, to] : changes) {
      ASSERT_NE(changed.find(from), std::string::npos) << from;
      changed.replace(changed.find(from), from.size(), to);
    }
    WriteText(job.File("model.graph"), changed);
  };
}

TEST(BadInputTest, GraphText) {
  CheckCases(
      "graph", R"(graph_text { path: "model.graph" })",
      {
          {"missing", Train(), "WEFT-5001", 6, {"model.graph", "No such"}},
          {"unknown op",
           Train(),
           "WEFT-2001",
           3,
           {"model.graph", "'relu1'", "'Rellu'", "did you mean 'Relu'"},
           Printed({{"= Relu(", "= Rellu("}})},
          {"unknown attribute",
           Train(),
           "WEFT-2002",
           3,
           {"'fc1'", "'transC'", "did you mean 'transA'"},
           Printed({{"transB: 1", "transC: 1"}})},
          {"bad attribute",
           Train(),
           "WEFT-2003",
           3,
           {"'fc1'", "transB"},
           Printed({{"transB: 1", "transB: 7"}})},
          {"shape mismatch",
           Train(),
           "WEFT-2004",
           3,
           // The node, both shapes and where they came from.
           {"'fc1' (Gemm)", "[16,64]", "[12,63]",
            "'fc1/weight' (weft.Variable) f32[12,63]",
            "'flatten' (Flatten) f32[16,64]"},
           Printed({{"[12, 64]", "[12, 63]"}, {"f32[12,64]", "f32[12,63]"}})},
          {"syntax",
           Train(),
           "WEFT-2008",
           3,
           {"model.graph: 6:"},
           Printed({{"Gemm(", "Gemm(("}})},
          {"no logits",
           Train(),
           "WEFT-2007",
           3,
           {"logits"},
           Printed({{"\"logits\"", "\"logit\""}})},
          {"too few inputs",
           Train(),
           "WEFT-2006",
           3,
           {"'relu1'"},
           Printed({{"Relu(%fc1)", "Relu()"}})},
          {"a name that checkpoints use",
           Train(),
           "WEFT-2007",
           3,
           {"model.graph: 6:", "'__metadata__'"},
           Printed({{"%fc1 =", "%\"__metadata__\" ="}})},
          {"a name that is no text",
           Train(),
           "WEFT-2007",
           3,
           {"'\\xff'", "UTF-8"},
           Printed({{"%fc1 =", "%\"\\xff\" ="}})},
          {"two outputs of a name",
           Train(),
           "WEFT-2007",
           3,
           {"'logits'", "also given to node"},
           Printed({{"\n}",
                     "\n  %more = weft.Output(%relu1) {name: \"logits\"}"
                     "\n}"}})},
      });
}

TEST(BadInputTest, GraphTextThatDoesNotFit) {
  CheckCases(
      "graph", R"(graph_text { path: "model.graph" })",
      {
          {"an index outside of an axis",
           Train(),
           "WEFT-2014",
           3,
           {"'picked' (Gather)", "index 7", "axis 1 of [16,4]"},
           Printed(
               {{"%output/logits = weft.Output(%fc3)",
                 "%columns = Constant() {value: tensor(i64[4], [0, 1, 2, 7])}"
                 "\n  %picked = Gather(%fc3, %columns) {axis: 1}"
                 "\n  %output/logits = weft.Output(%picked)"}})},
          {"another batch",
           Train({"batch_size=32"}),
           "WEFT-2004",
           3,
           {"'image'", "f32[16,8,8]", "32 samples"},
           Printed({})},
          {"other images",
           Train(),
           "WEFT-2004",
           3,
           {"'image'", "f32[16,4,16]", "f32[16,8,8]"},
           Printed({{"[16, 8, 8]", "[16, 4, 16]"},
                    {"f32[16,8,8]", "f32[16,4,16]"}})},
      });
}

// Adds a line to the job file.
std::function<void(const TestJob&)> JobLine(const std::string& line) {
  return [=](const TestJob& job) {
    WriteText(job.path(), ReadText(job.path()) + line + "\n");
  };
}

// Well formed, but nobody can mean it.
TEST(BadInputTest, ValuesOfAJob) {
  CheckCases(
      "job", Mlp(),
      {
          {"no samples in a step",
           Train({"batch_size=0"}),
           "WEFT-1004",
           2,
           {"batch_size is 0"}},
          {"nothing to train",
           Train({"epochs=0"}),
           "WEFT-1004",
           2,
           {"epochs is 0"}},
          {"division by zero",
           Train({"data.normalize.std=0"}),
           "WEFT-1004",
           2,
           {"std 0"}},
          {"an argument twice",
           Train(),
           "WEFT-1005",
           2,
           {"job.txtpb", "'hidden' twice"},
           [](const TestJob& job) {
             std::string text = ReadText(job.path());
             const size_t at = text.find("args {");
             ASSERT_NE(at, std::string::npos);
             text.insert(at, "args { key: \"hidden\" value: \"3\" } ");
             WriteText(job.path(), text);
           }},
          {"trace beyond the run",
           Train({"observe.trace_steps=100-110"}),
           "WEFT-1004",
           2,
           {"'100-110'", "steps 0 to 37"}},
          {"placement of nothing",
           Train(),
           "WEFT-1004",
           2,
           {"'fc9/.*'", "no node"},
           JobLine(R"(placement { scope: "fc9/.*" device: "cpu" })")},
          {"a pattern that cannot be",
           Train({"optimizer.sgd.decay_exclude=bias("}),
           "WEFT-1005",
           2,
           {"decay_exclude", "'bias('"}},
          {"a name that hides", Train({"name=.."}), "WEFT-1004", 2, {"'..'"}},
          {"a mesh of nothing",
           Train(),
           "WEFT-1004",
           2,
           {"'data' has size 0"},
           JobLine("mesh { axis { name: \"data\" } }")},
      });
}

TEST(BadInputTest, Job) {
  CheckCases("job", Mlp(),
             {
                 {"missing job",
                  {"train", "none.txtpb"},
                  "WEFT-1004",
                  2,
                  {"none.txtpb", "No such file"}},
                 {"unknown field",
                  Train(),
                  "WEFT-1002",
                  2,
                  {"job.txtpb:13:", "'epoch'", "did you mean 'epochs'"},
                  JobLine("epoch: 3")},
                 {"unknown field of a part",
                  Train({"optimizer.sgd.momentun=0.5"}),
                  "WEFT-1002",
                  2,
                  {"momentun", "did you mean 'momentum'"}},
                 {"not a number",
                  Train({"epochs=three"}),
                  "WEFT-1005",
                  2,
                  {"epochs=three"}},
                 {"contradiction",
                  Train({"steps=5"}),
                  "WEFT-1004",
                  2,
                  {"epochs (3)", "steps (5)"}},
                 {"unknown model",
                  Train({"model.builtin.name=lennet"}),
                  "WEFT-2013",
                  3,
                  {"'lennet'", "did you mean 'lenet'"}},
                 {"unknown argument",
                  Train({"model.builtin.args.hiden=3"}),
                  "WEFT-1005",
                  2,
                  {"'hiden'", "did you mean 'hidden'"}},
             });
}

TEST(BadInputTest, CommandLineAndEnvironment) {
  CheckCases(
      "command_line", Mlp(),
      {
          {"unknown flag",
           {"train", "job.txtpb", "--quite"},
           "WEFT-1001",
           2,
           {"--quite", "did you mean '--quiet'"}},
          {"unknown command",
           {"trian", "job.txtpb"},
           "WEFT-1001",
           2,
           {"trian", "did you mean 'train'"}},
          {"unknown variable",
           Train(),
           "WEFT-1003",
           2,
           {"WEFT_SEDE", "did you mean 'WEFT_SEED'"},
           {},
           {{"WEFT_SEDE", "1"}}},
          {"bad variable",
           Train(),
           "WEFT-1005",
           2,
           {"WEFT_SEED", "x"},
           {},
           {{"WEFT_SEED", "x"}}},
          {"an empty variable",
           Train(),
           "WEFT-1005",
           2,
           {"WEFT_RUNS_DIR is empty"},
           {},
           {{"WEFT_RUNS_DIR", ""}}},
          {"an empty flag",
           {"train", "job.txtpb", "--run-dir", ""},
           "WEFT-1005",
           2,
           {"--run-dir"}},
          {"resuming nothing",
           {"train", "--resume", ""},
           "WEFT-1005",
           2,
           {"--resume"}},
          {"a plan of nothing",
           {"plan", "check", ""},
           "WEFT-1005",
           2,
           {"check"}},
          {"a number below 0",
           {"train", "job.txtpb", "--launch-order-seed", "-1"},
           "WEFT-1005",
           2,
           {"-1"}},
          {"a number beyond all",
           {"train", "job.txtpb", "--launch-order-seed=18446744073709551616"},
           "WEFT-1005",
           2,
           {"18446744073709551616"}},
          {"dumps of no pass",
           {"train", "job.txtpb", "--dump-to", "dumps", "--dump-passes",
            "csse"},
           "WEFT-1005",
           2,
           {"'csse'", "cse, dce"}},
          {"dumps to nowhere",
           {"train", "job.txtpb", "--dump-passes", "cse"},
           "WEFT-1005",
           2,
           {"--dump-to"}},
          {"run directory below a file",
           Train(),
           "WEFT-1007",
           2,
           {"job.txtpb/below"},
           {},
           {{"WEFT_RUNS_DIR", "job.txtpb/below"}}},
      });
}

// The first step is good, then the loss is not.
TEST(BadInputTest, ALossThatIsNotFinite) {
  TestJob job("nan", Mlp());
  Ended end = job.Weft(Train({"optimizer.schedule.constant.base=1e30",
                              "checkpoint.every_steps=1"}))
                  .Wait();
  EXPECT_EQ(end.exit_code, 7);
  EXPECT_THAT(end.err, HasSubstr("weft: error WEFT-6001: "));
  EXPECT_THAT(end.err, HasSubstr("at step 2"));
  ASSERT_EQ(job.Runs().size(), 1u);
  // What was good stays, nothing came after it.
  const std::vector<std::string> saved = {"latest", "step_00000001"};
  EXPECT_EQ(ListNames(JoinPath(job.Runs()[0], "ckpt")), saved);
  EXPECT_EQ(job.Weft({"ckpt", "verify", job.Runs()[0]}).Wait().exit_code, 0);
  ExpectNothingHalfWritten(job.folder());
  // The guard can be switched off.
  Ended on = job.Weft(Train({"optimizer.schedule.constant.base=1e30",
                             "guards.stop_on_nan=false"}))
                 .Wait();
  EXPECT_EQ(on.exit_code, 0) << on.err;
}

TEST(BadInputTest, Checkpoints) {
  TestJob job("checkpoints", Mlp());
  Ended trained =
      job.Weft(Train({"epochs=1", "checkpoint.every_steps=5"})).Wait();
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const std::string run = job.Runs()[0];
  const std::string newest = JoinPath(run, "ckpt/step_00000013");
  const std::string older = JoinPath(run, "ckpt/step_00000010");
  struct Defect {
    std::string name;
    std::string file;
    std::function<std::string(std::string)> change;
    std::string text;
  };
  auto flip = [](std::string s) {
    s[s.size() / 2] ^= 1;
    return s;
  };
  auto cut = [](const std::string& s) { return s.substr(0, s.size() - 9); };
  for (const Defect& d : std::vector<Defect>{
           {"a bit", "model.safetensors", flip, "SHA-256"},
           {"a bit of the optimizer", "optim.safetensors", flip, "SHA-256"},
           {"sums", "CHECKSUMS", cut, "CHECKSUMS"},
           {"no sums", "CHECKSUMS", [](auto) { return ""; }, "CHECKSUMS"}}) {
    SCOPED_TRACE(d.name);
    const std::string file = JoinPath(newest, d.file);
    const std::string good = ReadText(file);
    WriteText(file, d.change(good));
    for (const std::vector<std::string>& args :
         std::vector<std::vector<std::string>>{{"eval", run},
                                               {"train", "--resume", run},
                                               {"ckpt", "verify", run}}) {
      Ended end = job.Weft(args).Wait();
      EXPECT_EQ(end.exit_code, 6) << args[0];
      EXPECT_EQ(end.signal, 0);
      EXPECT_THAT(end.err, HasSubstr("WEFT-5006")) << args[0];
      EXPECT_THAT(end.err + end.out, HasSubstr(d.text));
      EXPECT_THAT(end.err + end.out, HasSubstr(newest));
    }
    // The one before it is still there and good.
    EXPECT_EQ(job.Weft({"eval", older}).Wait().exit_code, 0);
    WriteText(file, good);
  }
  EXPECT_EQ(job.Weft({"ckpt", "verify", run}).Wait().exit_code, 0);
  Ended missing = job.Weft({"eval", "nowhere"}).Wait();
  EXPECT_EQ(missing.exit_code, 6);
  EXPECT_THAT(missing.err, HasSubstr("WEFT-5005"));
  Ended foreign =
      job.Weft({"eval", run, "--set", "model.builtin.args.hidden=12,9"}).Wait();
  EXPECT_EQ(foreign.exit_code, 6);
  EXPECT_THAT(foreign.err, HasSubstr("WEFT-5007"));
  EXPECT_THAT(foreign.err, HasSubstr("'fc2/weight' f32[8,12]"));
  ExpectNothingHalfWritten(job.folder());
}

}  // namespace
}  // namespace weft::e2e
