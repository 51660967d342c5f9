#include "core/ops/signature_rules.h"

#include <cstdint>
#include <utility>

#include "core/base/status_macros.h"

namespace weft {
namespace {

Sbp SbpOf(int dim, int groups) {
  if (dim == kSummed) return Sbp::Partial();
  return dim == kWhole ? Sbp::Broadcast() : Sbp::Split(dim, groups);
}

// Linear in the operands of any of these lists, each taken together.
std::vector<std::vector<int>> LinearIn(const OpView& op) {
  switch (op.schema().id) {
    case OpId::kAdd:
    case OpId::kSub:
      return {{0, 1}};
    case OpId::kMul:
      return {{0}, {1}};
    case OpId::kDiv:  // that of integers rounds
      return IsFloat(op.input(0).dtype) ? std::vector<std::vector<int>>{{0}}
                                        : std::vector<std::vector<int>>{};
    case OpId::kNeg:
    case OpId::kGeluGrad:
      return {{0}};
    default:
      return {};
  }
}

// Every number of `from` is one of `to`.
bool Holds(DType from, DType to) {
  if (from == to) return true;
  if (!IsFloat(from) || !IsFloat(to)) return false;
  return DTypeSize(to) > DTypeSize(from);
}

// To fewer digits, the sum of what is rounded is not what is rounded of the
// sum; but the greater of two stays the greater.
void AddCast(const OpView& op, SignatureList* list) {
  const DType from = op.input(0).dtype, to = op.output(0).dtype;
  if (from == DType::kBool || to == DType::kBool) return;
  if (Holds(from, to)) list->Partial(ReduceOp::kSum, {0});
  if (from == to || (IsFloat(from) && IsFloat(to))) {
    list->Partial(ReduceOp::kMax, {0});
    list->Partial(ReduceOp::kMin, {0});
  }
}

void AddPartials(const OpView& op, SignatureList* list) {
  for (const std::vector<int>& operands : LinearIn(op)) {
    list->Partial(ReduceOp::kSum, operands);
  }
  switch (op.schema().id) {
    case OpId::kMul:
      return list->Partial(ReduceOp::kProd, {0, 1});
    case OpId::kMax:
      return list->Partial(ReduceOp::kMax, {0, 1});
    case OpId::kMin:
      return list->Partial(ReduceOp::kMin, {0, 1});
    case OpId::kCast:
      return AddCast(op, list);
    case OpId::kIdentity:
      return list->AnyPartial({0});
    case OpId::kWhere:
      return list->AnyPartial({1, 2});
    default:
      return;
  }
}

}  // namespace

void SignatureList::Split(std::vector<int> inputs, std::vector<int> outputs,
                          int groups) {
  OpSignature signature;
  for (int dim : inputs) signature.inputs.push_back(SbpOf(dim, groups));
  for (int dim : outputs) signature.outputs.push_back(SbpOf(dim, groups));
  Add(std::move(signature));
}

void SignatureList::Partial(ReduceOp reduce, const std::vector<int>& inputs) {
  OpSignature signature;
  signature.inputs.resize(op_.num_inputs());
  for (int i : inputs) {
    if (i < op_.num_inputs()) signature.inputs[i] = Sbp::Partial(reduce);
  }
  signature.outputs.resize(op_.outputs().size(), Sbp::Partial(reduce));
  Add(std::move(signature));
}

void SignatureList::AnyPartial(const std::vector<int>& inputs) {
  if (op_.output(0).dtype == DType::kBool) return;
  for (ReduceOp reduce :
       {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin}) {
    Partial(reduce, inputs);
  }
}

void SignatureList::Add(OpSignature signature) {
  signature.inputs.resize(op_.num_inputs());
  signature.outputs.resize(op_.outputs().size());
  for (int i = 0; i < op_.num_inputs(); ++i) {
    if (!op_.has_input(i)) signature.inputs[i] = Sbp::Broadcast();
  }
  list_.push_back(std::move(signature));
}

int BroadcastDim(const Shape& from, const Shape& to, int dim) {
  const int own = dim - (to.rank() - from.rank());
  return own >= 0 && from.dim(own) == to.dim(dim) ? own : kWhole;
}

std::vector<OpSignature> ElementwiseSignatures(const OpView& op) {
  SignatureList list(op);
  const Shape& to = op.output(0).shape;
  for (int d = 0; d < to.rank(); ++d) {
    std::vector<int> inputs;
    for (const TensorType& type : op.inputs()) {
      inputs.push_back(BroadcastDim(type.shape, to, d));
    }
    list.Split(std::move(inputs), std::vector<int>(op.outputs().size(), d));
  }
  AddPartials(op, &list);
  return list.Take();
}

void SplitAlike(const OpView& op, int rank, int except, SignatureList* list) {
  for (int d = 0; d < rank; ++d) {
    if (d == except) continue;
    const auto dims = [d, rank](absl::Span<const TensorType> types) {
      std::vector<int> out;
      for (const TensorType& type : types) {
        out.push_back(type.shape.rank() == rank ? d : kWhole);
      }
      return out;
    };
    list->Split(dims(op.inputs()), dims(op.outputs()));
  }
}

OpSchema::LocalAttrsFn LocalResultShape(std::string attr) {
  return [attr = std::move(attr)](const OpView& op,
                                  const OpSignature& signature, int parts,
                                  int index, AttrMap* attrs) -> absl::Status {
    if (!signature.outputs[0].is_split()) return absl::OkStatus();
    WEFT_ASSIGN_OR_RETURN(
        const Shape local,
        PartShape(op.output(0).shape, signature.outputs[0], parts));
    attrs->Set(attr,
               std::vector<int64_t>(local.dims().begin(), local.dims().end()));
    return absl::OkStatus();
  };
}

OpSchema::LocalAttrsFn LocalDimOf(std::string attr) {
  return
      [attr = std::move(attr)](const OpView& op, const OpSignature& signature,
                               int parts, int index, AttrMap* attrs) {
        if (!signature.outputs[0].is_split()) return absl::OkStatus();
        std::vector<int64_t> dims = op.Ints(attr);
        dims[signature.outputs[0].dim] /= parts;
        attrs->Set(attr, std::move(dims));
        return absl::OkStatus();
      };
}

}  // namespace weft
