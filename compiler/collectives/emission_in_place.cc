// A three-stage all-reduce in place: each rank lends every other one the block
// that this one owns; the owner reduces the blocks of all and leaves the result
// in all. Nothing is copied where the operand is nobody else's.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/collectives/emission.h"

namespace weft {

Value CollectiveEmission::RunInPlace(Value operand) {
  const size_t n = c_.ranks.size();
  operand_ = operand.node;
  // All blocks but the last are whole lines of memory.
  const int64_t elements = graph_->type(operand).shape.num_elements();
  const int64_t line =
      kInPlaceAlignment / static_cast<int64_t>(DTypeSize(dtype_));
  const int64_t block = ((elements + n - 1) / n + line - 1) / line * line;
  std::vector<int64_t> sizes(n, block);
  sizes.back() = elements - block * (static_cast<int64_t>(n) - 1);
  const std::vector<Value> parts =
      emit_->Emit("Split", {operand}, {{"split", sizes}}, static_cast<int>(n));

  const auto attrs = [&](const CollectiveMove& move, size_t step, int peer) {
    const int owner = step == 0 ? move.to : move.from;
    AttrMap a = {{"channel", Channel(move, step, 0)},
                 {"peer", c_.ranks[peer]},
                 {"rate", c_.rate}};
    if (step == 0) {
      a.Set("mapped", 1);
      a.Set("lent", 1);
    } else {
      a.Set("lands", Channel({move.to, move.from}, 0, 0));
    }
    if (peer == move.to) return a;
    a.Set("dtype", dtype_);
    a.Set("shape", std::vector<int64_t>{sizes[owner]});
    return a;
  };
  const auto say = [&](size_t step) {
    emit_->set_provenance(absl::StrCat(provenance_, ", in place, step ",
                                       schedule_.steps[step].name));
  };
  const auto send = [&](size_t step, const std::vector<Value>& blocks) {
    say(step);
    for (const CollectiveMove& move : sends_[step]) {
      emit_->Emit("weft.Send", {blocks[move.to]}, attrs(move, step, move.to),
                  0);
      last_send_ = Ordered(last_send_);
    }
    hold_ = last_send_;
  };
  const auto receive = [&](size_t step, Value mine) {
    say(step);
    std::vector<Value> blocks(n, mine);
    for (const CollectiveMove& move : receives_[step]) {
      blocks[move.from] =
          emit_->Emit1("weft.Recv", {}, attrs(move, step, move.from));
      Ordered(hold_);
    }
    return blocks;
  };

  send(0, parts);
  const std::vector<Value> operands = receive(0, parts[me_]);
  const std::vector<Value> results = emit_->Emit(
      "weft.ReduceToAll", operands, {{"reduction", std::string(Name(c_.op))}},
      static_cast<int>(n));
  send(1, results);
  const std::vector<Value> whole = receive(1, results[me_]);
  emit_->set_provenance(absl::StrCat(provenance_, ", in place, result"));
  return emit_->Emit1("Concat", whole, {{"axis", 0}});
}

}  // namespace weft
