#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/suggest.h"
#include "core/ops/families.h"
#include "core/ops/schema.h"

namespace weft {

absl::string_view OpName(OpId id) {
  switch (id) {
#define WEFT_OP(number, identifier, text) \
  case OpId::k##identifier:               \
    return text;
#include "core/ops/op_ids.inc"
#undef WEFT_OP
  }
  return "";
}

const OpRegistry& OpRegistry::Global() {
  static const OpRegistry* registry = [] {
    auto* r = new OpRegistry();
    RegisterElementwiseOps(r);
    RegisterFusedOps(r);
    RegisterShapeOps(r);
    RegisterSliceOps(r);
    RegisterMovementOps(r);
    RegisterReduceOps(r);
    RegisterRandomOps(r);
    RegisterUpdateOps(r);
    RegisterSystemOps(r);
    RegisterLinearAlgebraOps(r);
    RegisterConvOps(r);
    RegisterPoolOps(r);
    RegisterNormOps(r);
    RegisterAttentionOps(r);
    RegisterLossOps(r);
    return r;
  }();
  return *registry;
}

void OpRegistry::Add(OpSchema schema) {
  std::string name = schema.name;
  by_name_.insert_or_assign(std::move(name), std::move(schema));
}

absl::StatusOr<const OpSchema*> OpRegistry::Find(absl::string_view name) const {
  if (const OpSchema* schema = FindOrNull(name)) return schema;
  // One of our own ops without its prefix is the likeliest slip.
  std::string prefixed = absl::StrCat("weft.", name);
  std::string hint;
  if (FindOrNull(prefixed) != nullptr) {
    hint = absl::StrCat("; did you mean '", prefixed, "'?");
  } else {
    std::vector<std::string> known;
    for (const OpSchema* schema : All()) known.push_back(schema->name);
    hint = DidYouMean(name, known);
  }
  return MakeError(ErrorCode::kUnknownOp,
                   absl::StrCat("no operator '", name, "'", hint));
}

const OpSchema* OpRegistry::FindOrNull(absl::string_view name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &it->second;
}

std::vector<const OpSchema*> OpRegistry::All() const {
  std::vector<const OpSchema*> all;
  all.reserve(by_name_.size());
  for (const auto& [name, schema] : by_name_) all.push_back(&schema);
  std::sort(all.begin(), all.end(),
            [](const OpSchema* a, const OpSchema* b) { return a->id < b->id; });
  return all;
}

}  // namespace weft
