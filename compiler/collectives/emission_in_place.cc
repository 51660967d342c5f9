// Collectives of ranks of one host in each other's memory. A rank lends every
// other one the block that this one owns; the owner leaves the result in all
// blocks, and says so. Nothing is copied where the operand is nobody else's.
//
//                   what is lent             what the owner does
//   all-reduce      parts of the operand     reduces them (weft.ReduceToAll)
//   all-gather      room for the result      writes its part (weft.CopyToAll)
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/collectives/emission.h"

namespace weft {

Value CollectiveEmission::RunInPlace(Value operand) {
  operand_ = operand.node;
  return c_.kind == CollectiveKind::kAllGather ? GatherInPlace(operand)
                                               : SumInPlace(operand);
}

Value CollectiveEmission::SumInPlace(Value operand) {
  const size_t n = c_.ranks.size();
  const int64_t elements = graph_->type(operand).shape.num_elements();
  const int64_t block = BlockInPlace(elements, static_cast<int>(n), dtype_);
  block_sizes_.assign(n, block);
  block_sizes_.back() = elements - block * (static_cast<int64_t>(n) - 1);
  const std::vector<Value> operands = Lent(operand);
  const bool squares = c_.squares != nullptr && IsFloat(dtype_);
  std::vector<Value> results = emit_->Emit(
      "weft.ReduceToAll", operands,
      {{"reduction", std::string(Name(c_.op))}, {"squares", squares ? 1 : 0}},
      static_cast<int>(n) + (squares ? 1 : 0));
  if (squares) {
    *c_.squares = results.back();
    results.pop_back();
  }
  return Landed(results);
}

Value CollectiveEmission::GatherInPlace(Value part) {
  const size_t n = c_.ranks.size();
  const auto whole = block_sizes_[0] * static_cast<int64_t>(n);
  const Value room = emit_->Emit1("weft.Empty", {part},
                                  {{"shape", std::vector<int64_t>{whole}}});
  std::vector<Value> operands = Lent(room);
  operands.push_back(part);
  return Landed(
      emit_->Emit("weft.CopyToAll", operands, {}, static_cast<int>(n)));
}

std::vector<Value> CollectiveEmission::Lent(Value whole) {
  const int n = static_cast<int>(c_.ranks.size());
  emit_->set_provenance(absl::StrCat(provenance_, ", in place, lends"));
  const auto loan = [this](int lender, int owner, int peer) {
    AttrMap attrs = ChannelAttrs({lender, owner}, 0, 0, peer);
    attrs.Set("mapped", 1);
    attrs.Set("lent", 1);
    return attrs;
  };
  std::vector<Value> blocks =
      emit_->Emit("Split", {whole}, {{"split", block_sizes_}}, n);
  ForReceivers([&](int owner) {
    emit_->Emit("weft.Send", {blocks[owner]}, loan(me_, owner, owner), 0);
    last_send_ = Ordered(last_send_);
  });
  hold_ = last_send_;
  ForSenders([&](int lender) {
    blocks[lender] = Recv(loan(lender, me_, lender), dtype_, block_sizes_[me_]);
  });
  return blocks;
}

Value CollectiveEmission::Landed(const std::vector<Value>& results) {
  emit_->set_provenance(absl::StrCat(provenance_, ", in place, lands"));
  const auto landing = [this](int lender, int owner, int peer) {
    AttrMap attrs = ChannelAttrs({owner, lender}, 1, 0, peer);
    attrs.Set("lands", Channel({lender, owner}, 0, 0));
    return attrs;
  };
  ForReceivers([&](int lender) {
    emit_->Emit("weft.Send", {results[lender]}, landing(lender, me_, lender),
                0);
    last_send_ = Ordered(last_send_);
  });
  hold_ = last_send_;
  std::vector<Value> whole(c_.ranks.size(), results[me_]);
  ForSenders([&](int owner) {
    whole[owner] =
        Recv(landing(me_, owner, owner), dtype_, block_sizes_[owner]);
  });
  emit_->set_provenance(absl::StrCat(provenance_, ", in place, result"));
  return emit_->Emit1("Concat", whole, {{"axis", 0}});
}

}  // namespace weft
