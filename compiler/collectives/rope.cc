#include "compiler/collectives/rope.h"

#include <algorithm>
#include <utility>

namespace weft {

void Rope::Cut(int64_t at) {
  auto it = pieces_.upper_bound(at);
  if (it == pieces_.begin()) return;
  --it;
  const int64_t head = at - it->first;
  RopePiece& piece = it->second;
  if (head == 0 || head >= piece.length) return;
  const RopePiece tail = {piece.value, piece.offset + head,
                          piece.length - head};
  piece.length = head;
  pieces_.emplace(at, tail);
}

void Rope::Put(int64_t begin, RopePiece piece) {
  if (piece.length == 0) return;
  const int64_t end = begin + piece.length;
  Cut(begin);
  Cut(end);
  pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(end));
  pieces_.emplace(begin, piece);
}

std::vector<RopePiece> Rope::Pieces(int64_t begin, int64_t end) const {
  std::vector<RopePiece> pieces;
  auto it = pieces_.upper_bound(begin);
  if (it != pieces_.begin()) --it;
  for (; it != pieces_.end() && it->first < end; ++it) {
    RopePiece piece = it->second;
    const int64_t skipped = std::max<int64_t>(begin - it->first, 0);
    piece.length =
        std::min(it->first + piece.length, end) - it->first - skipped;
    piece.offset += skipped;
    if (piece.length <= 0) continue;
    const bool continues =
        !pieces.empty() && pieces.back().value == piece.value &&
        pieces.back().offset + pieces.back().length == piece.offset;
    if (continues) {
      pieces.back().length += piece.length;
    } else {
      pieces.push_back(piece);
    }
  }
  return pieces;
}

Value Rope::Materialise(const RopePiece& piece) {
  if (piece.length == emit_->type(piece.value).shape.num_elements()) {
    return piece.value;
  }
  Value& slice = slices_[{piece.value, piece.offset, piece.length}];
  if (!slice.valid()) {
    slice = emit_->Emit1(
        "Slice", {piece.value},
        {{"starts", std::vector<int64_t>{piece.offset}},
         {"ends", std::vector<int64_t>{piece.offset + piece.length}}});
  }
  return slice;
}

Value Rope::Get(int64_t begin, int64_t end) {
  std::vector<Value> values;
  for (const RopePiece& piece : Pieces(begin, end)) {
    values.push_back(Materialise(piece));
  }
  if (values.size() == 1) return values[0];
  Value whole = emit_->Emit1("Concat", values, {{"axis", 0}});
  Put(begin, {whole, 0, end - begin});
  return whole;
}

}  // namespace weft
