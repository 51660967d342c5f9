#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "models/args.h"
#include "models/image_input.h"
#include "models/layers.h"
#include "models/model.h"

namespace weft::models {
namespace {

constexpr int kStages = 4;
constexpr int kBlocks = 2;  // of a stage

// Two 3x3 convolutions beside a shortcut; norms make biases pointless.
Value BasicBlock(const std::string& name, Value x, int64_t channels,
                 int64_t stride, LayerBuilder* b) {
  auto layer = [&name](absl::string_view part) {
    return absl::StrCat(name, "/", part);
  };
  Value y = b->Conv(layer("conv1"), x, channels, 3, stride, 1, false);
  y = b->Relu(layer("relu1"), b->BatchNorm(layer("norm1"), y));
  y = b->Conv(layer("conv2"), y, channels, 3, 1, 1, false);
  y = b->BatchNorm(layer("norm2"), y);
  if (!b->status().ok()) return {};
  if (b->type(x) != b->type(y)) {
    x = b->Conv(layer("shortcut"), x, channels, 1, stride, 0, false);
    x = b->BatchNorm(layer("shortcut/norm"), x);
  }
  return b->Relu(layer("relu2"), b->Add("Add", layer("add"), {y, x}));
}

}  // namespace

absl::StatusOr<Graph> BuildResnet18(const ModelArgs& args,
                                    const ModelInput& input) {
  ArgReader reader("resnet18", args);
  int64_t width = reader.Count("width", 64);
  int64_t classes = reader.Classes(input);
  WEFT_RETURN_IF_ERROR(reader.Done());
  WEFT_RETURN_IF_ERROR(RequireImages("resnet18", input));

  Graph graph("resnet18");
  LayerBuilder b(&graph);
  Value x = InputChannels(input, &b);
  x = b.Conv("stem", x, width, 3, 1, 1, false);
  x = b.Relu("stem/relu", b.BatchNorm("stem/norm", x));
  for (int stage = 0; stage < kStages; ++stage) {
    for (int block = 0; block < kBlocks; ++block) {
      int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      x = BasicBlock(absl::StrCat("stage", stage + 1, "/block", block + 1), x,
                     width << stage, stride, &b);
    }
  }
  x = b.Flatten("flatten", b.Add("GlobalAveragePool", "pool", {x}));
  b.Output("logits", b.Linear("fc", x, classes));
  WEFT_RETURN_IF_ERROR(b.status());
  return graph;
}

}  // namespace weft::models
