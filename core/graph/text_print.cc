#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/graph/text.h"

namespace weft {
namespace {

std::string Quote(absl::string_view text) {
  return ToString(Attr(std::string(text)));
}

// A finite value as the shortest decimal that reads back as the same bits.
template <typename T>
std::string Decimal(T value) {
  char buffer[64];
  auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  std::string text(buffer, result.ptr);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string DoubleText(double value) { return ToString(Attr(value)); }

// An element as its dtype prints it shortest; bytes are compared afterwards.
std::string ElementText(const Literal& tensor, int64_t i, double as_double) {
  DType dtype = tensor.type().dtype;
  if (dtype == DType::kI64) return absl::StrCat(tensor.data<int64_t>()[i]);
  if (!IsFloat(dtype)) {
    return absl::StrCat(static_cast<int64_t>(as_double));
  }
  if (dtype == DType::kF64 || !std::isfinite(as_double)) {
    return DoubleText(as_double);
  }
  float narrow = static_cast<float>(as_double);
  std::string text = Decimal(narrow);
  double back = 0;
  std::from_chars(text.data(), text.data() + text.size(), back);
  return static_cast<float>(back) == narrow ? text : DoubleText(as_double);
}

// NaNs with a payload do not survive a conversion to double and back.
bool Listable(const Literal& tensor, absl::Span<const double> values) {
  if (tensor.type().dtype == DType::kI64) return true;
  return Literal::FromDoubles(tensor.type(), values) == tensor;
}

bool IsSplat(const Literal& tensor) {
  size_t size = DTypeSize(tensor.type().dtype);
  absl::string_view bytes = tensor.bytes();
  if (size == 0 || bytes.size() < 4 * size) return false;
  return bytes.substr(size) == bytes.substr(0, bytes.size() - size);
}

std::string TensorText(const Literal& tensor, int max_listed) {
  std::string type = tensor.type().ToString();
  int64_t count = tensor.type().shape.num_elements();
  if (IsSplat(tensor)) {
    size_t size = DTypeSize(tensor.type().dtype);
    Literal first({tensor.type().dtype, Shape()},
                  std::string(tensor.bytes().substr(0, size)));
    std::vector<double> value = first.ToDoubles();
    if (Listable(first, value)) {
      return absl::StrCat("tensor(", type, ", splat(",
                          ElementText(first, 0, value[0]), "))");
    }
  }
  if (count <= max_listed) {
    std::vector<double> values = tensor.ToDoubles();
    if (Listable(tensor, values)) {
      std::vector<std::string> items;
      for (int64_t i = 0; i < count; ++i) {
        items.push_back(ElementText(tensor, i, values[i]));
      }
      return absl::StrCat("tensor(", type, ", [", absl::StrJoin(items, ", "),
                          "])");
    }
  }
  return absl::StrCat("tensor(", type, ", \"",
                      absl::Base64Escape(tensor.bytes()), "\")");
}

std::string AttrText(const Attr& attr, int max_listed) {
  if (attr.kind() != AttrKind::kTensor) return ToString(attr);
  return TensorText(attr.tensor(), max_listed);
}

bool IsPlainName(absl::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '/' ||
           c == '-';
  });
}

std::string NodeRef(const Node& node) {
  return absl::StrCat(
      "%", IsPlainName(node.name()) ? node.name() : Quote(node.name()));
}

std::string ValueRef(const Graph& graph, Value v) {
  if (!v.valid()) return "_";
  std::string text = NodeRef(*graph.node(v));
  if (v.index != 0) absl::StrAppend(&text, ":", v.index);
  return text;
}

// `rank` orders control inputs; null: by id.
std::string NodeText(const Graph& graph, const Node& node,
                     const PrintOptions& options,
                     const std::vector<int>* rank) {
  std::string out = absl::StrCat(NodeRef(node), " = ", node.op(), "(");
  std::vector<std::string> parts;
  for (Value v : node.inputs()) parts.push_back(ValueRef(graph, v));
  absl::StrAppend(&out, absl::StrJoin(parts, ", "), ")");
  if (!node.attrs().empty()) {
    parts.clear();
    for (const auto& [name, attr] : node.attrs()) {
      parts.push_back(absl::StrCat(
          name, ": ", AttrText(attr, options.max_listed_elements)));
    }
    absl::StrAppend(&out, " {", absl::StrJoin(parts, ", "), "}");
  }
  if (node.num_outputs() > 0) {
    parts.clear();
    for (const TensorType& type : node.output_types()) {
      parts.push_back(type.ToString());
    }
    absl::StrAppend(&out, " : ", absl::StrJoin(parts, ", "));
  }
  if (!node.control_inputs().empty()) {
    std::vector<int32_t> from(node.control_inputs().begin(),
                              node.control_inputs().end());
    if (rank != nullptr) {
      std::sort(from.begin(), from.end(), [rank](int32_t a, int32_t b) {
        return (*rank)[a] < (*rank)[b];
      });
    }
    parts.clear();
    for (int32_t id : from) parts.push_back(NodeRef(*graph.node(id)));
    absl::StrAppend(&out, " control(", absl::StrJoin(parts, ", "), ")");
  }
  if (!node.device.empty()) {
    absl::StrAppend(&out, " device(", Quote(node.device), ")");
  }
  if (node.stage != -1) absl::StrAppend(&out, " stage(", node.stage, ")");
  if (options.provenance && !node.provenance.empty()) {
    parts.clear();
    for (const std::string& line : node.provenance)
      parts.push_back(Quote(line));
    absl::StrAppend(&out, " origin(", absl::StrJoin(parts, ", "), ")");
  }
  return out;
}

}  // namespace

std::string PrintNode(const Graph& graph, const Node& node,
                      const PrintOptions& options) {
  return NodeText(graph, node, options, nullptr);
}

std::string PrintGraph(const Graph& graph, const PrintOptions& options) {
  std::string out = absl::StrCat("graph ", Quote(graph.name()), " {\n");
  absl::StatusOr<std::vector<const Node*>> order = graph.TopologicalOrder();
  std::vector<const Node*> nodes = order.ok() ? *order : graph.Nodes();
  std::vector<int> rank(graph.id_bound(), 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    rank[nodes[i]->id()] = static_cast<int>(i);
  }
  for (const Node* node : nodes) {
    absl::StrAppend(&out, "  ", NodeText(graph, *node, options, &rank), "\n");
  }
  absl::StrAppend(&out, "}\n");
  return out;
}

}  // namespace weft
