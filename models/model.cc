#include "models/model.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"
#include "models/args.h"
#include "models/image_input.h"
#include "models/layers.h"

namespace weft::models {
namespace {

struct Row {
  absl::string_view name;
  absl::StatusOr<Graph> (*build)(const ModelArgs&, const ModelInput&);
};

constexpr Row kModels[] = {{"gpt", BuildGpt},
                           {"lenet", BuildLenet},
                           {"mlp", BuildMlp},
                           {"resnet18", BuildResnet18}};

}  // namespace

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const Row& row : kModels) names.emplace_back(row.name);
  return names;
}

absl::StatusOr<Graph> BuildModel(absl::string_view name, const ModelArgs& args,
                                 const ModelInput& input) {
  for (const Row& row : kModels) {
    if (row.name == name) return row.build(args, input);
  }
  return MakeError(ErrorCode::kUnknownModel,
                   absl::StrCat("no built-in model '", name, "'",
                                DidYouMean(name, ModelNames()), "; there are ",
                                absl::StrJoin(ModelNames(), ", ")));
}

absl::StatusOr<Graph> BuildMlp(const ModelArgs& args, const ModelInput& input) {
  ArgReader reader("mlp", args);
  std::vector<int64_t> hidden = reader.Sizes("hidden", "512,512");
  double dropout = reader.Ratio("dropout");
  int64_t classes = reader.Classes(input);
  WEFT_RETURN_IF_ERROR(reader.Done());
  WEFT_RETURN_IF_ERROR(RequireImages("mlp", input));

  Graph graph("mlp");
  LayerBuilder b(&graph);
  Value x = b.Flatten("flatten", InputImage(input, &b));
  int layer = 1;
  for (int64_t size : hidden) {
    x = b.Linear(absl::StrCat("fc", layer), x, size);
    x = b.Relu(absl::StrCat("relu", layer), x);
    x = b.Dropout(absl::StrCat("dropout", layer), x, dropout);
    ++layer;
  }
  b.Output("logits", b.Linear(absl::StrCat("fc", layer), x, classes));
  WEFT_RETURN_IF_ERROR(b.status());
  return graph;
}

absl::StatusOr<Graph> BuildLenet(const ModelArgs& args,
                                 const ModelInput& input) {
  ArgReader reader("lenet", args);
  std::vector<int64_t> channels = reader.Sizes("channels", "32,64");
  std::vector<int64_t> hidden = reader.Sizes("hidden", "128");
  double dropout = reader.Ratio("dropout");
  int64_t classes = reader.Classes(input);
  bool batch_norm = reader.Flag("batch_norm");
  WEFT_RETURN_IF_ERROR(reader.Done());
  WEFT_RETURN_IF_ERROR(RequireImages("lenet", input));

  Graph graph("lenet");
  LayerBuilder b(&graph);
  Value x = InputChannels(input, &b);
  int layer = 1;
  for (int64_t c : channels) {
    x = b.Conv(absl::StrCat("conv", layer), x, c, 3);
    if (batch_norm) x = b.BatchNorm(absl::StrCat("norm", layer), x);
    x = b.Relu(absl::StrCat("conv", layer, "/relu"), x);
    x = b.MaxPool(absl::StrCat("pool", layer), x, 2, 2);
    ++layer;
  }
  x = b.Flatten("flatten", x);
  layer = 1;
  for (int64_t size : hidden) {
    x = b.Linear(absl::StrCat("fc", layer), x, size);
    x = b.Relu(absl::StrCat("fc", layer, "/relu"), x);
    x = b.Dropout(absl::StrCat("dropout", layer), x, dropout);
    ++layer;
  }
  b.Output("logits", b.Linear(absl::StrCat("fc", layer), x, classes));
  WEFT_RETURN_IF_ERROR(b.status());
  return graph;
}

}  // namespace weft::models
