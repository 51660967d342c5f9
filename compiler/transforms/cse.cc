#include "compiler/transforms/cse.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/transforms/rewrite.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

void AppendBytes(std::string* out, const void* data, size_t size) {
  absl::StrAppend(out, size, ":");
  out->append(static_cast<const char*>(data), size);
}

// Equal exactly where the attributes are equal bit for bit: text would lose the
// payload of a NaN, operator== the sign of a zero.
void AppendAttr(std::string* out, const Attr& attr) {
  absl::StrAppend(out, static_cast<int>(attr.kind()), "=");
  switch (attr.kind()) {
    case AttrKind::kInt:
      absl::StrAppend(out, attr.i());
      break;
    case AttrKind::kFloat: {
      double value = attr.f();
      AppendBytes(out, &value, sizeof(value));
      break;
    }
    case AttrKind::kString:
      AppendBytes(out, attr.s().data(), attr.s().size());
      break;
    case AttrKind::kInts:
      AppendBytes(out, attr.ints().data(), attr.ints().size() * 8);
      break;
    case AttrKind::kFloats:
      AppendBytes(out, attr.floats().data(), attr.floats().size() * 8);
      break;
    case AttrKind::kStrings:
      absl::StrAppend(out, attr.strings().size(), "*");
      for (const std::string& s : attr.strings()) {
        AppendBytes(out, s.data(), s.size());
      }
      break;
    case AttrKind::kDType:
      absl::StrAppend(out, static_cast<uint32_t>(attr.dtype()));
      break;
    case AttrKind::kTensor:
      absl::StrAppend(out, attr.tensor().type().ToString());
      AppendBytes(out, attr.tensor().bytes().data(),
                  attr.tensor().bytes().size());
      break;
  }
}

// Nodes with the same key compute the same in the same place.
std::string Key(const Node& node) {
  std::string key =
      absl::StrCat(node.op(), "/", node.num_outputs(), "/", node.stage, "/");
  AppendBytes(&key, node.device.data(), node.device.size());
  std::vector<Value> inputs(node.inputs().begin(), node.inputs().end());
  if (node.schema().commutative && inputs.size() >= 2 &&
      inputs[1] < inputs[0]) {
    std::swap(inputs[0], inputs[1]);
  }
  for (Value v : inputs) absl::StrAppend(&key, "i", v.node, ",", v.index);
  for (int32_t from : node.control_inputs()) absl::StrAppend(&key, "c", from);
  for (const auto& [name, attr] : node.attrs()) {
    absl::StrAppend(&key, "a", name, ":");
    AppendAttr(&key, attr);
  }
  return key;
}

class CsePass : public Pass {
 public:
  absl::string_view Name() const override { return "cse"; }

  absl::StatusOr<bool> Run(Graph& graph, PassContext&) override {
    WEFT_ASSIGN_OR_RETURN(std::vector<const Node*> order,
                          static_cast<const Graph&>(graph).TopologicalOrder());
    absl::flat_hash_map<std::string, int32_t> first;
    bool changed = false;
    // Operands are merged before their readers, so one sweep finds all.
    for (const Node* node : order) {
      if (!IsPure(*node) || node->Is(OpId::kCopy)) continue;
      auto [it, inserted] = first.emplace(Key(*node), node->id());
      if (inserted) continue;
      const Node& same = *graph.node(it->second);
      std::vector<Value> replacements;
      for (int i = 0; i < same.num_outputs(); ++i) {
        replacements.push_back(same.output(i));
      }
      WEFT_RETURN_IF_ERROR(ReplaceNode(&graph, node->id(), replacements));
      changed = true;
    }
    return changed;
  }
};

}  // namespace

std::unique_ptr<Pass> CreateCsePass() { return std::make_unique<CsePass>(); }

}  // namespace weft
