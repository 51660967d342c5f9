#include "models/model.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"
#include "models/layers.h"

namespace weft::models {
namespace {

struct Row {
  absl::string_view name;
  absl::StatusOr<Graph> (*build)(const ModelArgs&, const ModelInput&);
};

constexpr Row kModels[] = {{"lenet", BuildLenet}, {"mlp", BuildMlp}};

// Reads a model's arguments; what is left over at the end is unknown.
class ArgReader {
 public:
  ArgReader(absl::string_view model, const ModelArgs& args)
      : model_(model), args_(args) {}

  std::string Text(const std::string& key, std::string fallback) {
    known_.push_back(key);
    auto it = args_.find(key);
    return it == args_.end() ? std::move(fallback) : it->second;
  }

  std::vector<int64_t> Sizes(const std::string& key, std::string fallback) {
    std::string text = Text(key, std::move(fallback));
    std::vector<int64_t> out;
    for (absl::string_view part : absl::StrSplit(text, ',')) {
      int64_t size = 0;
      if (!absl::SimpleAtoi(part, &size) || size < 1 || size > 1 << 24) {
        Fail(key, text, "sizes such as 512,512");
        return {1};
      }
      out.push_back(size);
    }
    return out;
  }

  // The number of classes: the data's, unless the job says another.
  int64_t Classes(const ModelInput& input) {
    std::string text = Text("classes", absl::StrCat(input.classes));
    int64_t classes = 0;
    if (!absl::SimpleAtoi(text, &classes) || classes < 2 || classes > 1 << 24) {
      Fail("classes", text, "a count of at least 2");
      return 2;
    }
    return classes;
  }

  double Ratio(const std::string& key) {
    std::string text = Text(key, "0");
    double ratio = 0;
    if (!absl::SimpleAtod(text, &ratio) || !(ratio >= 0 && ratio < 1)) {
      Fail(key, text, "a ratio in [0, 1)");
      return 0;
    }
    return ratio;
  }

  bool Flag(const std::string& key) {
    std::string text = Text(key, "0");
    if (text != "0" && text != "1") Fail(key, text, "0 or 1");
    return text == "1";
  }

  absl::Status Done() const {
    if (!status_.ok()) return status_;
    for (const auto& [key, value] : args_) {
      bool known = false;
      for (const std::string& k : known_) known = known || k == key;
      if (!known) {
        return MakeError(ErrorCode::kBadValue,
                         absl::StrCat("model '", model_, "' has no argument '",
                                      key, "'", DidYouMean(key, known_)));
      }
    }
    return absl::OkStatus();
  }

 private:
  void Fail(absl::string_view key, absl::string_view text,
            absl::string_view expected) {
    if (!status_.ok()) return;
    status_ = MakeError(ErrorCode::kBadValue,
                        absl::StrCat("model '", model_, "': argument '", key,
                                     "' is '", text, "', expected ", expected));
  }

  absl::string_view model_;
  const ModelArgs& args_;
  std::vector<std::string> known_;
  absl::Status status_;
};

TensorType ImageType(const ModelInput& input) {
  std::vector<int64_t> dims = {input.batch};
  dims.insert(dims.end(), input.image.dims().begin(), input.image.dims().end());
  return {DType::kF32, Shape(dims)};
}

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

  Graph graph("mlp");
  LayerBuilder b(&graph);
  Value x = b.Flatten("flatten", b.Input("image", ImageType(input)));
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

  Graph graph("lenet");
  LayerBuilder b(&graph);
  Value x = b.Input("image", ImageType(input));
  if (input.image.rank() == 2) {
    x = b.Reshape("channel", x,
                  {input.batch, 1, input.image.dim(0), input.image.dim(1)});
  }
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
