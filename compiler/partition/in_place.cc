#include "compiler/partition/in_place.h"

#include <algorithm>

#include "core/ops/to_all.h"

namespace weft {

void InPlaceResults::Put(const Node& node, int id) {
  if (node.Is(OpId::kSplit)) GivePartsInPlace(node, id);
  if (GivesToAll(node.schema())) GiveInPlace(id);
  if (node.Is(OpId::kConcat)) JoinInPlace(node, id);
}

const Node* InPlaceResults::SenderOf(const Node& split) const {
  for (int i = 0; i < split.num_outputs(); ++i) {
    for (auto [reader, position] : graph_.Uses(split.output(i))) {
      const Node* by = graph_.node(reader);
      if (by->Is(OpId::kSend) && graph_.View(*by).Int("mapped") != 0) return by;
    }
  }
  return nullptr;
}

bool InPlaceResults::PartsAreRuns(const Node& node, const Shape& whole) const {
  int64_t axis = graph_.View(node).Int("axis");
  if (axis < 0) axis += whole.rank();
  for (int d = 0; d < axis; ++d) {
    if (whole.dim(d) != 1) return false;
  }
  return true;
}

void InPlaceResults::GivePartsInPlace(const Node& node, int id) {
  if (!PartsAreRuns(node, graph_.type(node.input(0)).shape)) return;
  const Node* sender = SenderOf(node);
  const int whole = out_.works[id].operands[0].buffer;
  if (sender == nullptr || whole < 0 || draft_.NumReaders(node.input(0)) != 1)
    return;
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (draft_.NumReaders(node.output(i)) == 0) return;
    if (node.output_type(i).num_bytes() % alignment_ != 0 &&
        i + 1 < node.num_outputs()) {
      return;
    }
  }
  const Work& split = out_.works[id];
  const int acts =
      draft_.NewWork(Work::Kind::kSend, *sender, split.stream).acts;
  if (acts != split.acts ||
      acts != GivesOf(out_.works[out_.buffers[whole].producer])) {
    return;
  }
  const int shared = wire_.Shared(
      whole, acts, wire_.ChannelCopies(*sender, &node.output_type(0), acts));
  out_.works[id].operands[0].buffer = shared;
  uint64_t offset = 0;
  for (int part : out_.works[id].results) {
    draft_.PutInto(part, shared, offset);
    offset += static_cast<uint64_t>(out_.buffers[part].type.num_bytes());
  }
}

void InPlaceResults::GiveInPlace(int id) {
  const Work& work = out_.works[id];
  const size_t over = std::min(work.results.size(), work.operands.size());
  for (size_t i = 0; i < over; ++i) {
    const int from = work.operands[i].buffer;
    if (from < 0 || draft_.WhereOf(from) == Buffer::Where::kOwn) continue;
    const Node& node = *graph_.node(work.node);
    const int at = static_cast<int>(i);
    if (draft_.NumReaders(node.input(at)) != 1 ||
        draft_.NumReaders(node.output(at)) == 0) {
      continue;
    }
    draft_.PutInto(work.results[i], from, 0);
  }
}

void InPlaceResults::JoinInPlace(const Node& node, int id) {
  const int result = out_.works[id].results[0];
  if (draft_.NumReaders(node.output(0)) == 0 ||
      !PartsAreRuns(node, node.output_type(0).shape)) {
    return;
  }
  uint64_t end = 0;
  int whole = -1;
  for (size_t i = 0; i < out_.works[id].operands.size(); ++i) {
    const int part = out_.works[id].operands[i].buffer;
    if (part < 0 || out_.buffers[part].in < 0 ||
        draft_.NumReaders(node.input(static_cast<int>(i))) != 1) {
      return;
    }
    const auto [in, offset] = draft_.Place(part);
    if ((whole >= 0 && in != whole) || offset != end) return;
    whole = in;
    end += static_cast<uint64_t>(out_.buffers[part].type.num_bytes());
  }
  if (whole < 0 || out_.buffers[whole].where != Buffer::Where::kShared ||
      end != static_cast<uint64_t>(out_.buffers[whole].type.num_bytes())) {
    return;
  }
  draft_.PutInto(result, whole, 0);
  out_.works[id].paced_by = {whole};
}

}  // namespace weft
