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

// A score that no softmax sees: exp(x - max) is exactly 0 for it.
constexpr float kHidden = -1e30f;

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
  c.layers = reader.Count("layers", 4);
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
    Value visible = CausalMask();
    for (int64_t i = 1; i <= c_.layers; ++i) {
      std::string block = absl::StrCat("block", i);
      Value y = b_.LayerNorm(block + "/norm1", x);
      x = AddTo(x, block + "/attention",
                Attention(block + "/attention", y, visible));
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

  // bool [tokens, tokens]: may row i look at column j?
  Value CausalMask() {
    auto iota = [&](absl::string_view name, const Ints& shape, int axis) {
      return b_.Add("weft.Iota", name, {},
                    {{"shape", shape}, {"dtype", DType::kI32}, {"axis", axis}});
    };
    Value row = iota("mask/row", {c_.tokens, 1}, 0);
    Value column = iota("mask/column", {1, c_.tokens}, 1);
    hidden_ = b_.Scalar("mask/hidden", kHidden);
    return b_.Add("LessOrEqual", "mask", {column, row});
  }

  // [rows, width] -> [batch, heads, tokens, width / heads], or with the last
  // two exchanged.
  Value ToHeads(const std::string& name, Value x, bool exchange) {
    x = b_.Reshape(name + "/heads", x,
                   {c_.batch, c_.tokens, c_.heads, c_.width / c_.heads});
    Ints perm = exchange ? Ints{0, 2, 3, 1} : Ints{0, 2, 1, 3};
    return b_.Add("Transpose", name + "/transpose", {x}, {{"perm", perm}});
  }

  Value Attention(const std::string& name, Value x, Value visible) {
    x = b_.Linear(name + "/qkv", x, 3 * c_.width, Normal());
    std::vector<Value> qkv = b_.SplitColumns(name + "/split", x, 3);
    // Scaled before the product: it has tokens / (width / heads) times as many
    // elements.
    double size = static_cast<double>(c_.width / c_.heads);
    Value scale = b_.Scalar(name + "/scale_factor",
                            static_cast<float>(1 / std::sqrt(size)));
    Value q = b_.Add("Mul", name + "/scaled", {qkv[0], scale});
    q = ToHeads(name + "/q", q, /*exchange=*/false);
    Value k = ToHeads(name + "/k", qkv[1], /*exchange=*/true);
    Value v = ToHeads(name + "/v", qkv[2], /*exchange=*/false);
    Value scores = b_.Add("MatMul", name + "/scores", {q, k});
    scores = b_.Add("Where", name + "/masked", {visible, scores, hidden_});
    Value weights = b_.Add("Softmax", name + "/softmax", {scores});
    weights = b_.Dropout(name + "/dropout", weights, c_.dropout);
    Value y = b_.Add("MatMul", name + "/mix", {weights, v});
    y = b_.Add("Transpose", name + "/join", {y}, {{"perm", Ints{0, 2, 1, 3}}});
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
  Value hidden_;
};

}  // namespace

absl::StatusOr<Graph> BuildGpt(const ModelArgs& args, const ModelInput& input) {
  WEFT_ASSIGN_OR_RETURN(Config config, ReadConfig(args, input));
  Graph graph("gpt");
  WEFT_RETURN_IF_ERROR(GptBuilder(&graph, config).Build());
  return graph;
}

}  // namespace weft::models
