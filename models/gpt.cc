#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "models/args.h"
#include "models/layers.h"
#include "models/model.h"

namespace weft::models {
namespace {

using Ints = std::vector<int64_t>;

struct Config {
  int64_t batch, tokens;  // of a sample
  int64_t layers, width, heads, context, vocabulary;
  double dropout;
  bool tied;
};

// As GPT-2 starts: normal, and narrower by the number of terms where a layer's
// result is added to the residual stream.
VariableInit Normal() { return VariableInit::Normal(0, 0.02); }
VariableInit Residual(const Config& c) {
  return VariableInit::Normal(0, 0.02 / std::sqrt(2.0 * c.layers));
}

absl::StatusOr<Config> ReadConfig(const ModelArgs& args,
                                  const ModelInput& input) {
  ArgReader reader("gpt", args);
  Config c;
  c.batch = input.batch;
  c.tokens = input.context;
  c.layers = reader.Count("layers", 4, 1, kMaxLayers);
  c.width = reader.Count("width", 128);
  c.heads = reader.Count("heads", 4);
  c.context = reader.Count("context", input.context > 0 ? input.context : 1);
  c.dropout = reader.Ratio("dropout");
  c.tied = reader.Flag("tied", true);
  c.vocabulary = reader.Classes(input);
  WEFT_RETURN_IF_ERROR(reader.Done());
  if (input.context == 0) {
    return MakeError(
        ErrorCode::kBadJob,
        absl::StrCat("model 'gpt' reads tokens, the data gives images ",
                     input.image.ToString(), " (data.train.idx)"));
  }
  if (c.width % c.heads != 0) {
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat("model 'gpt': width ", c.width,
                                  " is not a multiple of heads ", c.heads));
  }
  if (c.context < c.tokens) {
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat("model 'gpt' has context ", c.context,
                                  ", the samples of the data have ", c.tokens,
                                  " tokens (data.train.text.context)"));
  }
  return c;
}

class GptBuilder {
 public:
  GptBuilder(Graph* graph, const Config& config) : b_(graph), c_(config) {}

  absl::Status Build() {
    Value table;
    Value x = Embed(&table);
    for (int64_t i = 1; i <= c_.layers; ++i) {
      std::string block = absl::StrCat("block", i);
      Value y = b_.LayerNorm(block + "/norm1", x);
      x = AddTo(x, block + "/attention", Attention(block + "/attention", y));
      y = b_.LayerNorm(block + "/norm2", x);
      x = AddTo(x, block + "/mlp", Mlp(block + "/mlp", y));
    }
    x = b_.LayerNorm("norm", x);
    if (!c_.tied) {
      table = b_.Variable("head/weight", {c_.vocabulary, c_.width}, Normal());
    }
    b_.Output("logits", b_.Add("Gemm", "head", {x, table}, {{"transB", 1}}));
    return b_.status();
  }

 private:
  int64_t rows() const { return c_.batch * c_.tokens; }

  // Tokens and their positions as vectors [rows, width].
  Value Embed(Value* table) {
    Value tokens = b_.Input("tokens", {DType::kI32, {c_.batch, c_.tokens}});
    *table =
        b_.Variable("embedding/token", {c_.vocabulary, c_.width}, Normal());
    Value positions =
        b_.Variable("embedding/position", {c_.context, c_.width}, Normal());
    Value x = b_.Add("Gather", "embedding/gather", {*table, tokens});
    if (c_.tokens < c_.context) {
      positions = b_.Add("Slice", "embedding/slice", {positions},
                         {{"starts", Ints{0}},
                          {"ends", Ints{c_.tokens}},
                          {"axes", Ints{0}},
                          {"steps", Ints{1}}});
    }
    x = b_.Add("Add", "embedding/add", {x, positions});
    x = b_.Reshape("embedding/rows", x, {rows(), c_.width});
    return b_.Dropout("embedding/dropout", x, c_.dropout);
  }

  // Each token looks at those up to itself.
  Value Attention(const std::string& name, Value x) {
    x = b_.Linear(name + "/qkv", x, 3 * c_.width, Normal());
    x = b_.Reshape(name + "/samples", x, {c_.batch, c_.tokens, 3 * c_.width});
    Value y = b_.SelfAttention(name + "/mix", x, c_.heads, c_.dropout);
    y = b_.Reshape(name + "/rows", y, {rows(), c_.width});
    return b_.Linear(name + "/output", y, c_.width, Residual(c_));
  }

  Value Mlp(const std::string& name, Value x) {
    x = b_.Linear(name + "/up", x, 4 * c_.width, Normal());
    x = b_.Add("weft.Gelu", name + "/gelu", {x}, {{"approximate", "tanh"}});
    return b_.Linear(name + "/down", x, c_.width, Residual(c_));
  }

  Value AddTo(Value x, const std::string& name, Value y) {
    y = b_.Dropout(name + "/output_dropout", y, c_.dropout);
    return b_.Add("Add", name + "/add", {x, y});
  }

  LayerBuilder b_;
  const Config& c_;
};

}  // namespace

absl::StatusOr<Graph> BuildGpt(const ModelArgs& args, const ModelInput& input) {
  WEFT_ASSIGN_OR_RETURN(Config config, ReadConfig(args, input));
  Graph graph("gpt");
  WEFT_RETURN_IF_ERROR(GptBuilder(&graph, config).Build());
  return graph;
}

}  // namespace weft::models
