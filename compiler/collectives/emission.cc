#include "compiler/collectives/emission.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/channel_name.h"
#include "core/base/tree_fold.h"
#include "core/ops/expr.h"
#include "core/types/reductions.h"

namespace weft {
namespace {

// Results of a node, as plugins/abi has it, WEFT_MAX_OPERANDS.
constexpr size_t kMostResults = 64;

}  // namespace

CollectiveEmission::CollectiveEmission(Graph* graph, GraphEmitter* emit,
                                       const Collective& c,
                                       const CollectiveSchedule& schedule,
                                       DType dtype, int64_t elements,
                                       std::string agreed,
                                       std::string provenance)
    : graph_(graph),
      emit_(emit),
      c_(c),
      schedule_(schedule),
      dtype_(dtype),
      narrow_(c.narrow && dtype == DType::kF32),
      agreed_(std::move(agreed)),
      provenance_(std::move(provenance)),
      me_(static_cast<int>(std::find(c.ranks.begin(), c.ranks.end(), c.rank) -
                           c.ranks.begin())),
      block_sizes_(BlockSizes(elements, schedule.num_blocks)) {
  for (const CollectiveStep& step : schedule.steps) {
    sends_.emplace_back();
    receives_.emplace_back();
    for (const CollectiveMove& move : step.moves) {
      if (move.from == me_) sends_.back().push_back(move);
      if (move.to == me_) receives_.back().push_back(move);
    }
  }
  const int64_t largest = block_sizes_[0];
  chunk_elements_ = c.chunk_elements == 0 ? std::max<int64_t>(largest, 1)
                                          : std::min(c.chunk_elements, largest);
  const int64_t count = (largest + chunk_elements_ - 1) / chunk_elements_;
  for (int64_t i = 0; i < count; ++i) {
    Chunk chunk{{0}, Rope(emit)};
    for (int block : schedule.order) {
      chunk.begin.push_back(chunk.begin.back() + PieceLength(i, block));
    }
    chunks_.push_back(std::move(chunk));
  }
}

int64_t CollectiveEmission::PieceBegin(int64_t index, int block) const {
  return std::min(index * chunk_elements_, block_sizes_[block]);
}

int64_t CollectiveEmission::PieceLength(int64_t index, int block) const {
  return PieceBegin(index + 1, block) - PieceBegin(index, block);
}

void CollectiveEmission::Start(Value value, const std::vector<int>& blocks) {
  operand_ = value.node;
  if (BlocksPart() && blocks.size() == block_sizes_.size()) {
    const std::vector<Value> parts =
        emit_->Emit("Split", {value}, {{"split", block_sizes_}},
                    static_cast<int>(blocks.size()));
    for (size_t block = 0; block < parts.size(); ++block) {
      chunks_[0].rope.Put(chunks_[0].begin[block],
                          {parts[block], 0, block_sizes_[block]});
    }
    return;
  }
  std::vector<int64_t> at(schedule_.num_blocks, -1);  // of a block in `value`
  int64_t next = 0;
  for (int block : blocks) {
    at[block] = next;
    next += block_sizes_[block];
  }
  for (size_t i = 0; i < chunks_.size(); ++i) {
    for (int place = 0; place < schedule_.num_blocks; ++place) {
      const int block = schedule_.order[place];
      if (at[block] < 0) continue;
      chunks_[i].rope.Put(
          chunks_[i].begin[place],
          {value, at[block] + PieceBegin(i, block), PieceLength(i, block)});
    }
  }
}

bool CollectiveEmission::BlocksPart() const {
  return Splits(c_.kind) && schedule_.steps.size() == 1 &&
         chunks_.size() == 1 && block_sizes_.size() <= kMostResults &&
         block_sizes_.back() > 0;
}

void CollectiveEmission::Run() {
  const size_t steps = schedule_.steps.size();
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) Sends(0, chunk);
  for (size_t step = 0; step < steps; ++step) {
    hold_ = last_send_;
    for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      Receives(step, chunk);
      Sends(step + 1, chunk);
    }
  }
}

Value CollectiveEmission::Result(const std::vector<int>& blocks) {
  emit_->set_provenance(absl::StrCat(provenance_, ", result"));
  std::vector<int> place_of(schedule_.num_blocks);
  for (int place = 0; place < schedule_.num_blocks; ++place) {
    place_of[schedule_.order[place]] = place;
  }
  Rope whole(emit_);
  int64_t end = 0;
  for (int block : blocks) {
    for (Chunk& chunk : chunks_) {
      const int place = place_of[block];
      if (Length(chunk, place, 1) == 0) continue;
      for (const RopePiece& piece :
           chunk.rope.Pieces(chunk.begin[place], chunk.begin[place + 1])) {
        whole.Put(end, piece);
        end += piece.length;
      }
    }
  }
  return result_ = whole.Get(0, end);
}

void CollectiveEmission::Finish() {
  if (!emit_->status().ok()) return;
  for (const auto& [kept, travelled] : narrowed_) {
    if (!graph_->Uses(kept).empty() || kept == result_) continue;
    graph_->Remove(kept.node).IgnoreError();
  }
}

void CollectiveEmission::Sends(size_t step, size_t index) {
  if (step >= schedule_.steps.size()) return;
  Chunk& chunk = chunks_[index];
  emit_->set_provenance(
      absl::StrCat(provenance_, ", step ", schedule_.steps[step].name));
  for (const CollectiveMove& move : sends_[step]) {
    const int64_t begin = chunk.begin[move.source];
    const int64_t end = chunk.begin[move.source + move.count];
    if (begin == end) continue;
    emit_->Emit("weft.Send", {Travelling(&chunk, begin, end)},
                EndAttrs(move, step, index, move.to, end - begin), 0);
    last_send_ = Ordered(last_send_);
  }
}

void CollectiveEmission::Receives(size_t step, size_t index) {
  Chunk& chunk = chunks_[index];
  emit_->set_provenance(
      absl::StrCat(provenance_, ", step ", schedule_.steps[step].name));
  std::vector<CollectiveMove> contributions;
  for (const CollectiveMove& move : receives_[step]) {
    const int64_t length = Length(chunk, move.target, move.count);
    if (length == 0) continue;
    if (move.action == CollectiveAction::kContribute) {
      contributions.push_back(move);
      continue;
    }
    const int64_t begin = chunk.begin[move.target];
    Value value = Receive(move, step, index);
    if (move.action == CollectiveAction::kReduceLeft) {
      value = Reduced(value, chunk.rope.Get(begin, begin + length));
    } else if (move.action == CollectiveAction::kReduceRight) {
      value = Reduced(chunk.rope.Get(begin, begin + length), value);
    }
    chunk.rope.Put(begin, {value, 0, length});
  }
  if (!contributions.empty()) {
    Contributions(std::move(contributions), step, index);
  }
}

Value CollectiveEmission::Receive(const CollectiveMove& move, size_t step,
                                  size_t index) {
  // The length at the receiver is the length at the sender.
  const int64_t length = Length(chunks_[index], move.target, move.count);
  const Value value = Recv(EndAttrs(move, step, index, move.from, length),
                           narrow_ ? DType::kBF16 : dtype_, length);
  if (!narrow_) return value;
  const Value wide = Cast(Expr(*emit_, value), dtype_).value();
  narrowed_[wide] = value;
  return wide;
}

Value CollectiveEmission::Recv(AttrMap attrs, DType dtype, int64_t length) {
  attrs.Set("dtype", dtype);
  attrs.Set("shape", std::vector<int64_t>{length});
  const Value value = emit_->Emit1("weft.Recv", {}, std::move(attrs));
  Ordered(hold_);
  return value;
}

AttrMap CollectiveEmission::ChannelAttrs(const CollectiveMove& move,
                                         size_t step, size_t index,
                                         int peer) const {
  return {{"channel", Channel(move, step, index)},
          {"peer", c_.ranks[peer]},
          {"rate", c_.rate}};
}

AttrMap CollectiveEmission::EndAttrs(const CollectiveMove& move, size_t step,
                                     size_t index, int peer,
                                     int64_t length) const {
  AttrMap attrs = ChannelAttrs(move, step, index, peer);
  const DType sent = narrow_ ? DType::kBF16 : dtype_;
  if (c_.topology.Maps(length * static_cast<int64_t>(DTypeSize(sent))) &&
      SameHost(c_.hosts, move.from, move.to)) {
    attrs.Set("mapped", 1);
  }
  return attrs;
}

Value CollectiveEmission::Travelling(Chunk* chunk, int64_t begin, int64_t end) {
  const Value value = chunk->rope.Get(begin, end);
  if (!narrow_) return value;
  const auto known = narrowed_.find(value);
  if (known != narrowed_.end()) return known->second;
  const Expr narrow = Cast(Expr(*emit_, value), DType::kBF16);
  const Value kept = Cast(narrow, dtype_).value();
  chunk->rope.Put(begin, {kept, 0, end - begin});
  narrowed_[kept] = narrow.value();
  return narrow.value();
}

int32_t CollectiveEmission::Ordered(int32_t before) {
  if (!emit_->status().ok()) return before;
  const int32_t id = graph_->id_bound() - 1;
  if (before >= 0) {
    graph_->AddControlInput(id, before);
    return id;
  }
  // A Send of step 0 reads the operand: an edge would only be in passes' way.
  if (operand_ >= 0 && graph_->node(id)->Is(OpId::kRecv)) {
    graph_->AddControlInput(id, operand_);
  }
  for (int32_t node : c_.after) graph_->AddControlInput(id, node);
  return id;
}

// The tree of the class TREE as a binary counter: parts come by position, and
// two sums of the same size become one as soon as both are there. So no more
// than log2 of the parts are kept.
void CollectiveEmission::Contributions(std::vector<CollectiveMove> moves,
                                       size_t step, size_t index) {
  std::sort(moves.begin(), moves.end(),
            [](const CollectiveMove& a, const CollectiveMove& b) {
              return a.from < b.from;
            });
  Chunk& chunk = chunks_[index];
  const int64_t begin = chunk.begin[moves[0].target];
  const int64_t length = Length(chunk, moves[0].target, moves[0].count);
  TreeFold<Value> sum([this](Value a, Value b) { return Reduced(a, b); });
  bool mine = false;
  for (const CollectiveMove& move : moves) {
    if (!mine && move.from > me_) {
      sum.Take(chunk.rope.Get(begin, begin + length));
      mine = true;
    }
    sum.Take(Receive(move, step, index));
  }
  if (!mine) sum.Take(chunk.rope.Get(begin, begin + length));
  chunk.rope.Put(begin, {sum.Total(), 0, length});
}

Value CollectiveEmission::Reduced(Value left, Value right) {
  return emit_->Emit1(ReductionOf(c_.op).of_two, {left, right});
}

std::string CollectiveEmission::Channel(const CollectiveMove& move, size_t step,
                                        size_t chunk) const {
  return ChannelName(c_.name, agreed_,
                     absl::StrCat(step, ".", chunk, ".", c_.ranks[move.from],
                                  ">", c_.ranks[move.to]));
}

}  // namespace weft
