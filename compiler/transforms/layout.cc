#include "compiler/transforms/layout.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/transforms/rewrite.h"
#include "core/base/status_macros.h"
#include "core/ops/expr.h"
#include "core/ops/image_layout.h"

namespace weft {
namespace {

bool FillsBlocks(const Shape& s) {
  return s.rank() == 4 && s.dim(1) > 0 && s.dim(1) % kChannelBlock == 0;
}

// One pixel an image: both layouts are the same bytes.
bool SameBytes(const Shape& s) { return s.dim(2) * s.dim(3) == 1; }

bool IsConvolution(const Node& node) {
  return node.Is(OpId::kConv) || node.Is(OpId::kConvGradInput) ||
         node.Is(OpId::kConvGradWeights);
}

// The shape that broadcasts to an image in blocks as `s` does to the image, and
// has its bytes. False where the bytes would have to move.
bool BroadcastInBlocks(const Shape& s, Shape* stored) {
  *stored = Shape(std::vector<int64_t>());
  if (s.num_elements() == 1) return true;
  if (s.rank() > 4) return false;
  std::vector<int64_t> dims(4 - s.rank(), 1);
  dims.insert(dims.end(), s.dims().begin(), s.dims().end());
  if (dims[1] == 1) {
    *stored = {dims[0], 1, dims[2], dims[3], 1};
    return true;
  }
  *stored = {dims[0], dims[1] / kChannelBlock, 1, 1, kChannelBlock};
  return dims[1] % kChannelBlock == 0 && dims[2] * dims[3] == 1;
}

// How a node would compute on blocks.
struct Form {
  AttrMap attrs;
  std::vector<int> inputs;   // operands that are images in blocks
  std::vector<int> outputs;  // results that are
};

class LayoutChooser {
 public:
  LayoutChooser(Graph* graph, const PassSettings& settings)
      : graph_(*graph), settings_(settings) {}

  absl::StatusOr<bool> Run() {
    WEFT_ASSIGN_OR_RETURN(std::vector<const Node*> order,
                          std::as_const(graph_).TopologicalOrder());
    inside_.assign(graph_.id_bound(), false);
    forms_.resize(graph_.id_bound());
    bool any = false;
    for (const Node* node : order) {
      forms_[node->id()] = FormOf(*node);
      if (!IsConvolution(*node) || !Takes(*node)) continue;
      inside_[node->id()] = any = true;
    }
    if (!any) return false;
    Grow(order);
    return Rewrite(order);
  }

 private:
  std::optional<Form> FormOf(const Node& node) const;
  Form ImageForm(const Node& node) const;
  bool Takes(const Node& node);
  bool DeviceTakes(const Node& node, const Form& form) const;
  void Grow(const std::vector<const Node*>& order);
  bool Pays(const Node& node) const;
  bool IsBlocked(Value v) const;
  bool ReadsInside(int32_t reader, int position) const;

  absl::StatusOr<bool> Rewrite(const std::vector<const Node*>& order);
  absl::StatusOr<Node*> Build(const Node& node);
  absl::StatusOr<Value> Operand(const Node& node, int i);
  absl::Status TurnBack(const Node& node, int output);
  GraphEmitter EmitterFor(const Node& node, absl::string_view scope);

  Graph& graph_;
  const PassSettings& settings_;
  std::vector<bool> inside_;                  // by node id: in a region
  std::vector<std::optional<Form>> forms_;    // none: stays as it is
  std::vector<std::optional<bool>> takes_;    // the device's answers
  absl::flat_hash_map<Value, Value> turned_;  // a value of the old graph
};

// ---- What could be in blocks ------------------------------------------------

Form LayoutChooser::ImageForm(const Node& node) const {
  const ImageUses& uses = *ImagesOf(node.schema().id);
  Form form;
  form.attrs = node.attrs();
  for (const ImageUse& use : uses.inputs) {
    if (use.index >= static_cast<int>(node.inputs().size()) ||
        !node.input(use.index).valid() ||
        !FillsBlocks(graph_.type(node.input(use.index)).shape)) {
      continue;
    }
    form.inputs.push_back(use.index);
    form.attrs.Set(use.attr, kNchw16c);
  }
  for (const ImageUse& use : uses.outputs) {
    if (!FillsBlocks(node.output_type(use.index).shape)) continue;
    form.outputs.push_back(use.index);
    form.attrs.Set(use.attr, kNchw16c);
  }
  return form;
}

std::optional<Form> LayoutChooser::FormOf(const Node& node) const {
  if (!IsPure(node) || HasControlEdges(graph_, node)) return std::nullopt;
  const OpView view = graph_.View(node);
  if (ImagesOf(node.schema().id) != nullptr) {
    if (HasBlockedImages(view)) return std::nullopt;
    Form form = ImageForm(node);
    if (form.inputs.empty() && form.outputs.empty()) return std::nullopt;
    return form;
  }
  if (node.num_outputs() != 1 || !FillsBlocks(node.output_type(0).shape)) {
    return std::nullopt;
  }
  const Shape& shape = node.output_type(0).shape;
  Form form;
  form.attrs = node.attrs();
  form.outputs = {0};
  if (node.Is(OpId::kExpand)) {
    form.attrs.Set("shape", DimsOf(ToBlocks(shape)));
  } else if (!node.schema().elementwise) {
    return std::nullopt;
  }
  Shape stored;
  for (int i = 0; i < view.num_inputs(); ++i) {
    if (!view.has_input(i)) return std::nullopt;
    if (view.input(i).shape == shape && node.schema().elementwise) {
      form.inputs.push_back(i);
    } else if (!BroadcastInBlocks(view.input(i).shape, &stored)) {
      return std::nullopt;
    }
  }
  return form;
}

bool LayoutChooser::Takes(const Node& node) {
  const std::optional<Form>& form = forms_[node.id()];
  if (!form.has_value()) return false;
  takes_.resize(graph_.id_bound());
  std::optional<bool>& answer = takes_[node.id()];
  if (!answer.has_value()) answer = DeviceTakes(node, *form);
  return *answer;
}

// Asks about the node in that form, alone in a graph.
bool LayoutChooser::DeviceTakes(const Node& node, const Form& form) const {
  if (!settings_.runs_as_kernel) return false;
  Graph trial("trial");
  std::vector<Value> inputs;
  const OpView view = graph_.View(node);
  for (int i = 0; i < view.num_inputs(); ++i) {
    if (!view.has_input(i)) {
      inputs.push_back({});
      continue;
    }
    Shape shape = view.input(i).shape;
    if (std::count(form.inputs.begin(), form.inputs.end(), i) > 0) {
      shape = ToBlocks(shape);
    } else if (ImagesOf(node.schema().id) == nullptr) {
      BroadcastInBlocks(view.input(i).shape, &shape);
    }
    auto input =
        trial.Add("weft.Input", "", {},
                  {{"dtype", view.input(i).dtype}, {"shape", DimsOf(shape)}});
    if (!input.ok()) return false;
    inputs.push_back((*input)->output(0));
  }
  auto made =
      trial.Add(node.op(), node.name(), inputs, form.attrs, node.num_outputs());
  if (!made.ok()) return false;
  (*made)->device = node.device;
  (*made)->stage = node.stage;
  return settings_.runs_as_kernel(trial, **made);
}

// ---- The region -------------------------------------------------------------

bool LayoutChooser::IsBlocked(Value v) const {
  if (!inside_[v.node]) return false;
  const std::vector<int>& outputs = forms_[v.node]->outputs;
  return std::count(outputs.begin(), outputs.end(), v.index) > 0;
}

bool LayoutChooser::ReadsInside(int32_t reader, int position) const {
  if (!inside_[reader]) return false;
  const std::vector<int>& inputs = forms_[reader]->inputs;
  return std::count(inputs.begin(), inputs.end(), position) > 0;
}

// Whether the bytes that the node would take and give in blocks are no fewer
// than those that would have to be turned for it.
bool LayoutChooser::Pays(const Node& node) const {
  const Form& form = *forms_[node.id()];
  double inside = 0, turned = 0;
  auto add = [&](Value v, bool in) {
    const TensorType& type = graph_.type(v);
    const double bytes = static_cast<double>(type.num_bytes());
    if (in) {
      inside += bytes;
    } else if (!SameBytes(type.shape)) {
      turned += bytes;
    }
  };
  auto read_inside = [this](Value v) {
    const auto uses = graph_.Uses(v);
    return std::any_of(uses.begin(), uses.end(), [this](const auto& use) {
      return ReadsInside(use.first, use.second);
    });
  };
  for (int i : form.inputs) {
    const Value v = node.input(i);
    // What another node has turned comes for nothing.
    if (IsBlocked(v) || !read_inside(v)) add(v, IsBlocked(v));
  }
  for (int o : form.outputs) {
    bool in = false, out = false;
    for (const auto& [reader, position] : graph_.Uses(node.output(o))) {
      (ReadsInside(reader, position) ? in : out) = true;
    }
    if (in) add(node.output(o), true);
    if (out) add(node.output(o), false);
  }
  return inside > 0 && inside >= turned;
}

void LayoutChooser::Grow(const std::vector<const Node*>& order) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const Node* node : order) {
      if (inside_[node->id()] || !forms_[node->id()].has_value()) continue;
      if (IsConvolution(*node) || !Pays(*node) || !Takes(*node)) continue;
      inside_[node->id()] = changed = true;
    }
  }
}

// ---- Rewriting --------------------------------------------------------------

GraphEmitter LayoutChooser::EmitterFor(const Node& node,
                                       absl::string_view scope) {
  GraphEmitter emit(&graph_, std::string(scope),
                    absl::StrCat("layout: turns an image at the border of a "
                                 "region in blocks of ",
                                 kChannelBlock, " channels"));
  emit.set_placement(node.device, node.stage);
  return emit;
}

// Operand `i` of a node of the region as that reads it.
absl::StatusOr<Value> LayoutChooser::Operand(const Node& node, int i) {
  const Value v = node.input(i);
  if (!v.valid()) return v;
  const Form& form = *forms_[node.id()];
  const bool image = std::count(form.inputs.begin(), form.inputs.end(), i) > 0;
  if (!image && ImagesOf(node.schema().id) != nullptr) return v;
  if (image) {
    auto known = turned_.find(v);
    if (known != turned_.end()) return known->second;
  }
  GraphEmitter emit =
      EmitterFor(node, absl::StrCat(graph_.node(v)->name(), "/in_blocks"));
  const Expr x(emit, v);
  const Shape shape = x.shape();
  Value made;
  if (!image) {
    Shape stored;
    BroadcastInBlocks(shape, &stored);
    made = shape.rank() == 0 ? v : ReshapeTo(x, stored).value();
  } else {
    made = SameBytes(shape) ? ReshapeTo(x, ToBlocks(shape)) : ToBlocks(x);
    turned_[v] = made;
  }
  WEFT_RETURN_IF_ERROR(emit.status());
  return made;
}

absl::StatusOr<Node*> LayoutChooser::Build(const Node& node) {
  std::vector<Value> operands;
  for (int i = 0; i < static_cast<int>(node.inputs().size()); ++i) {
    WEFT_ASSIGN_OR_RETURN(Value operand, Operand(node, i));
    operands.push_back(operand);
  }
  const Form& form = *forms_[node.id()];
  WEFT_ASSIGN_OR_RETURN(
      Node * made, graph_.Add(node.op(), absl::StrCat(node.name(), "/blocks"),
                              operands, form.attrs, node.num_outputs()));
  made->device = node.device;
  made->stage = node.stage;
  made->provenance = node.provenance;
  made->provenance.push_back(absl::StrCat("layout: ", node.name(),
                                          ", images in blocks of ",
                                          kChannelBlock, " channels"));
  return made;
}

// Readers outside the region get the result in its old layout.
absl::Status LayoutChooser::TurnBack(const Node& node, int output) {
  const Value old = node.output(output);
  if (graph_.Uses(old).empty()) return absl::OkStatus();
  GraphEmitter emit = EmitterFor(node, absl::StrCat(node.name(), "/as_planes"));
  const Expr x(emit, turned_.at(old));
  const Shape shape = graph_.type(old).shape;
  const Value made = SameBytes(shape) ? ReshapeTo(x, shape) : FromBlocks(x);
  WEFT_RETURN_IF_ERROR(emit.status());
  return graph_.ReplaceUses(old, made);
}

absl::StatusOr<bool> LayoutChooser::Rewrite(
    const std::vector<const Node*>& order) {
  std::vector<int32_t> old;
  for (const Node* node : order) {
    if (!inside_[node->id()]) continue;
    old.push_back(node->id());
    WEFT_ASSIGN_OR_RETURN(Node * made, Build(*node));
    const std::vector<int>& images = forms_[node->id()]->outputs;
    for (int o = 0; o < node->num_outputs(); ++o) {
      if (std::count(images.begin(), images.end(), o) > 0) {
        turned_[node->output(o)] = made->output(o);
      } else {
        WEFT_RETURN_IF_ERROR(
            graph_.ReplaceUses(node->output(o), made->output(o)));
      }
    }
  }
  for (auto id = old.rbegin(); id != old.rend(); ++id) {
    const Node& node = *graph_.node(*id);
    for (int o : forms_[*id]->outputs) {
      WEFT_RETURN_IF_ERROR(TurnBack(node, o));
    }
    WEFT_RETURN_IF_ERROR(graph_.Remove(*id));
  }
  return true;
}

class LayoutPass : public Pass {
 public:
  absl::string_view Name() const override { return "layout"; }
  absl::StatusOr<bool> Run(Graph& graph, PassContext& context) override {
    return LayoutChooser(&graph, context.settings).Run();
  }
};

}  // namespace

std::unique_ptr<Pass> CreateLayoutPass() {
  return std::make_unique<LayoutPass>();
}

}  // namespace weft
