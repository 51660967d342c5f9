#include "compiler/emit/draft.h"

#include <algorithm>

#include "core/base/align.h"

namespace weft {

uint64_t EmitDraft::Alignment(uint32_t device) const {
  return std::max<uint64_t>(1, options.devices[device].alignment());
}

uint32_t EmitDraft::ArenaOf(uint32_t device, plan::Arena::Kind kind,
                            uint32_t stream) {
  auto [it, inserted] = arenas.try_emplace(
      {device, kind, stream}, static_cast<uint32_t>(plan.arenas_size()));
  if (inserted) {
    plan::Arena* arena = plan.add_arenas();
    arena->set_device(device);
    arena->set_kind(kind);
    arena->set_stream(stream);
    if (kind == plan::Arena::STATE) {
      arena->set_bytes(state.arena_bytes[device]);
    }
  }
  return it->second;
}

uint64_t EmitDraft::TakePrivate(uint32_t device, uint64_t bytes) {
  plan::Arena* arena = plan.mutable_arenas(
      static_cast<int>(ArenaOf(device, plan::Arena::PRIVATE)));
  uint64_t offset = arena->bytes();
  arena->set_bytes(offset + AlignUp(bytes, Alignment(device)));
  return offset;
}

}  // namespace weft
