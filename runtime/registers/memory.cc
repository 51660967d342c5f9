#include "runtime/registers/memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/align.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "glog/logging.h"

namespace weft::runtime {
namespace {

std::string Describe(const StateEntry& s) {
  return absl::StrCat(DTypeName(s.dtype), "[", absl::StrJoin(s.dims, ","),
                      "] at byte ", s.offset, " of device ", s.device);
}

}  // namespace

// ---- ProgramMemory --------------------------------------------------------

Spot ProgramMemory::RegisterSpot(uint32_t reg, uint64_t tensor_offset) const {
  Spot spot;
  uint32_t at = reg;
  const plan::Register* r = &plan_->registers(static_cast<int>(reg));
  uint64_t offset = tensor_offset;
  // Aliases of aliases: each level adds its offset, at most one has slices.
  while (r->alias_of() != 0) {
    at = r->alias_of() - 1;
    const plan::Register* root = &plan_->registers(static_cast<int>(at));
    offset += r->alias_offset();
    if (r->copies() > root->copies() && root->copies() != 0) {
      spot.slices *= r->copies() / root->copies();
      spot.slice_stride = r->alias_stride();
    }
    r = root;
  }
  if (r->overlay_of() != 0) {
    r = &plan_->registers(static_cast<int>(r->overlay_of() - 1));
  }
  if (plan_->arenas(static_cast<int>(r->arena())).kind() == plan::Arena::PEER) {
    const PeerBlock& peer = peers_.at(at);
    spot.block = &peer.block;
    spot.offset = offset;
    spot.copy_stride = r->copies() > 1 ? peer.stride : 0;
    return spot;
  }
  const Region& region = arenas_[r->arena()];
  spot.block = region.block;
  spot.offset = region.base + r->offset() + offset;
  spot.copy_stride = r->copies() > 1 ? r->bytes() : 0;
  return spot;
}

Spot ProgramMemory::ScratchSpot(uint32_t stream, uint64_t offset) const {
  const Region& region = scratch_.at(stream);
  Spot spot;
  spot.block = region.block;
  spot.offset = region.base + offset;
  return spot;
}

Spot ProgramMemory::PrivateSpot(uint32_t plan_device, uint64_t offset) const {
  const Region& region = private_.at(plan_device);
  Spot spot;
  spot.block = region.block;
  spot.offset = region.base + offset;
  return spot;
}

Spot ProgramMemory::ConstantSpot(uint32_t constant) const {
  Spot spot;
  spot.block = constants_[constant].block;
  spot.offset = constants_[constant].base;
  return spot;
}

void ProgramMemory::SetPeer(uint32_t reg, const char* host, uint64_t stride) {
  PeerBlock& peer = peers_.at(reg);
  peer.block.host = const_cast<char*>(host);  // written where lent: check.h
  peer.stride = stride;
}

Device* ProgramMemory::device(uint32_t plan_device) const {
  return devices_[plan_device];
}

// ---- SessionMemory --------------------------------------------------------

SessionMemory::SessionMemory(std::vector<Device*> devices, uint64_t sync_ns)
    : sync_ns_(sync_ns) {
  for (Device* device : devices) {
    auto entry = std::make_unique<PerDevice>();
    entry->device = device;
    for (Block* b : {&entry->state, &entry->overlay, &entry->constants}) {
      b->device = device;
    }
    devices_.push_back(std::move(entry));
  }
}

SessionMemory::~SessionMemory() {
  for (auto& d : devices_) {
    d->stream.reset();
    for (Block* b : {&d->state, &d->overlay, &d->constants}) {
      if (b->mem == 0) continue;
      absl::Status freed = d->device->Free(b->mem);
      if (!freed.ok()) LOG(ERROR) << freed;
    }
  }
}

absl::StatusOr<ProgramMemory*> SessionMemory::Reserve(const plan::Plan& plan) {
  WEFT_ASSIGN_OR_RETURN(std::vector<int> device_of, MatchDevices(plan));
  auto program = std::make_unique<ProgramMemory>();
  program->plan_ = &plan;
  for (int d : device_of) program->devices_.push_back(devices_[d]->device);
  WEFT_RETURN_IF_ERROR(ReserveStates(plan, device_of));
  WEFT_RETURN_IF_ERROR(ReserveArenas(plan, device_of, program.get()));
  WEFT_RETURN_IF_ERROR(ReserveConstants(plan, device_of, program.get()));
  ReservePeers(plan, program.get());
  programs_.push_back(std::move(program));
  return programs_.back().get();
}

absl::StatusOr<std::vector<int>> SessionMemory::MatchDevices(
    const plan::Plan& plan) const {
  std::vector<int> result;
  for (const plan::Device& wanted : plan.devices()) {
    int found = -1;
    for (int i = 0; i < static_cast<int>(devices_.size()); ++i) {
      if (devices_[i]->device->Name() == wanted.name()) found = i;
    }
    if (found < 0) {
      std::vector<std::string> have;
      for (const auto& d : devices_) have.push_back(d->device->Name());
      return MakeError(
          ErrorCode::kDeviceNotFound,
          absl::StrCat("program '", plan.program(), "' needs device '",
                       wanted.name(), "'; the session has ",
                       absl::StrJoin(have, ", ")));
    }
    const DeviceInfo& info = devices_[found]->device->info();
    if (info.is_inline != wanted.inline_() ||
        (wanted.host_mapped() && !info.host_mapped)) {
      return MakeError(
          ErrorCode::kBadPlan,
          absl::StrCat("the plan was made for a device '", wanted.name(),
                       "' with other abilities (inline, host-mapped)"));
    }
    result.push_back(found);
  }
  return result;
}

absl::Status SessionMemory::ReserveStates(const plan::Plan& plan,
                                          const std::vector<int>& device_of) {
  for (const plan::Register& r : plan.registers()) {
    if (r.state().empty() || r.overlay_of() != 0 || r.alias_of() != 0) {
      continue;
    }
    const plan::Arena& arena = plan.arenas(static_cast<int>(r.arena()));
    if (arena.kind() != plan::Arena::STATE || r.tensors_size() != 1) {
      return MakeError(ErrorCode::kBadPlan,
                       absl::StrCat("state '", r.state(),
                                    "' is not one tensor in a state arena"));
    }
    const plan::TensorDesc& tensor = r.tensors(0);
    StateEntry entry;
    entry.name = r.state();
    entry.device = device_of[arena.device()];
    entry.offset = r.offset() + tensor.offset();
    entry.dtype = static_cast<DType>(tensor.dtype());
    entry.dims.assign(tensor.dims().begin(), tensor.dims().end());
    entry.bytes = DTypeSize(entry.dtype);
    for (int64_t dim : entry.dims) entry.bytes *= static_cast<uint64_t>(dim);
    auto [at, added] = states_.emplace(entry.name, entry);
    const StateEntry& old = at->second;
    if (!added && (old.device != entry.device || old.offset != entry.offset ||
                   old.dtype != entry.dtype || old.dims != entry.dims)) {
      return MakeError(
          ErrorCode::kBadPlan,
          absl::StrCat("state '", entry.name, "' is ", Describe(entry),
                       " in program '", plan.program(), "' but ", Describe(old),
                       " in another"));
    }
  }
  return absl::OkStatus();
}

absl::Status SessionMemory::Grow(Block* block, uint64_t bytes,
                                 const char* what) {
  if (bytes <= block->bytes) return absl::OkStatus();
  if (block->mem != 0 || block->host != nullptr) {
    return MakeError(
        ErrorCode::kBadPlan,
        absl::StrCat(
            "a program loaded after the first run needs ", bytes, " bytes of ",
            what, " on ",
            block->device == nullptr ? "the host" : block->device->Name(),
            "; the session has ", block->bytes));
  }
  block->bytes = bytes;
  return absl::OkStatus();
}

absl::Status SessionMemory::ReserveArenas(const plan::Plan& plan,
                                          const std::vector<int>& device_of,
                                          ProgramMemory* program) {
  std::vector<uint64_t> overlay(devices_.size(), 0);
  std::vector<bool> has_state(devices_.size(), false);
  for (const plan::Arena& arena : plan.arenas()) {
    int d = device_of[arena.device()];
    PerDevice& device = *devices_[d];
    ProgramMemory::Region region;
    if (arena.kind() == plan::Arena::STATE) {
      if (has_state[d]) {
        return MakeError(ErrorCode::kBadPlan,
                         absl::StrCat("device '", device.device->Name(),
                                      "' has two state arenas"));
      }
      has_state[d] = true;
      WEFT_RETURN_IF_ERROR(Grow(&device.state, arena.bytes(), "state"));
      region = {&device.state, 0};
    } else if (arena.kind() == plan::Arena::SHARED) {
      WEFT_RETURN_IF_ERROR(Grow(&shared_, arena.bytes(), "shared memory"));
      region = {&shared_, 0};
    } else if (arena.kind() != plan::Arena::PEER) {
      uint64_t alignment =
          std::max<uint32_t>(device.device->info().alignment, 1);
      uint64_t base = AlignUp(overlay[d], alignment);
      overlay[d] = base + arena.bytes();
      region = {&device.overlay, base};
      if (arena.kind() == plan::Arena::SCRATCH) {
        program->scratch_[arena.stream()] = region;
      } else if (arena.kind() == plan::Arena::PRIVATE) {
        program->private_[arena.device()] = region;
      }
    }
    program->arenas_.push_back(region);
  }
  for (size_t d = 0; d < devices_.size(); ++d) {
    WEFT_RETURN_IF_ERROR(
        Grow(&devices_[d]->overlay, overlay[d], "working memory"));
  }
  return absl::OkStatus();
}

void SessionMemory::ReservePeers(const plan::Plan& plan,
                                 ProgramMemory* program) const {
  for (int r = 0; r < plan.registers_size(); ++r) {
    const plan::Register& reg = plan.registers(r);
    if (reg.bytes() == 0 || reg.alias_of() != 0 ||
        plan.arenas(static_cast<int>(reg.arena())).kind() !=
            plan::Arena::PEER) {
      continue;
    }
    program->peers_[static_cast<uint32_t>(r)].block.bytes =
        reg.bytes() * reg.copies();
  }
}

absl::Status SessionMemory::ReserveConstants(const plan::Plan& plan,
                                             const std::vector<int>& device_of,
                                             ProgramMemory* program) {
  std::vector<uint64_t> end;
  for (const auto& d : devices_) end.push_back(d->constants_filled);
  size_t first_pending = pending_.size();
  for (const plan::Constant& constant : plan.constants()) {
    int d = device_of[constant.device()];
    uint64_t alignment =
        std::max<uint32_t>(devices_[d]->device->info().alignment, 1);
    uint64_t base = AlignUp(end[d], alignment);
    end[d] = base + constant.data().size();
    program->constants_.push_back({&devices_[d]->constants, base});
    pending_.push_back({d, base, &constant.data()});
  }
  for (size_t d = 0; d < devices_.size(); ++d) {
    absl::Status grown = Grow(&devices_[d]->constants, end[d], "constants");
    if (!grown.ok()) {
      pending_.resize(first_pending);
      return grown;
    }
    devices_[d]->constants_filled = end[d];
  }
  return absl::OkStatus();
}

absl::Status SessionMemory::AllocateBlock(Block* block) {
  if (block->bytes == 0) return absl::OkStatus();
  if (block->mem == 0) {
    WEFT_ASSIGN_OR_RETURN(block->mem, block->device->Alloc(block->bytes));
  }
  // On its own: an attempt before may have failed in between.
  if (!block->device->info().host_mapped || block->host != nullptr) {
    return absl::OkStatus();
  }
  WEFT_ASSIGN_OR_RETURN(void* host,
                        block->device->HostMap(block->mem, 0, block->bytes));
  if (host == nullptr) {
    return MakeError(ErrorCode::kDeviceFailed,
                     absl::StrCat("device ", block->device->Name(),
                                  ", host_map: maps nothing, though the device "
                                  "says that the host reaches its memory"));
  }
  block->host = static_cast<char*>(host);
  return absl::OkStatus();
}

absl::Status SessionMemory::Allocate() {
  for (auto& d : devices_) {
    WEFT_RETURN_IF_ERROR(AllocateBlock(&d->state));
    WEFT_RETURN_IF_ERROR(AllocateBlock(&d->overlay));
    WEFT_RETURN_IF_ERROR(AllocateBlock(&d->constants));
  }
  std::vector<bool> used(devices_.size(), false);
  absl::Status status = SubmitConstants(&used);
  // After a failure as well: copies that were accepted read the plans and write
  // memory that the caller may be about to free.
  for (size_t d = 0; d < devices_.size(); ++d) {
    if (!used[d]) continue;
    status.Update(devices_[d]->stream->Sync(sync_ns_, &busy_));
  }
  if (status.ok()) pending_.clear();
  return status;
}

absl::Status SessionMemory::SubmitConstants(std::vector<bool>* used) {
  for (const PendingConstant& c : pending_) {
    if (c.data->empty()) continue;
    WEFT_ASSIGN_OR_RETURN(Stream * stream, StreamOf(c.device));
    WEFT_RETURN_IF_ERROR(
        stream->Copy(AtDevice(devices_[c.device]->constants.mem, c.offset),
                     AtHost(c.data->data()), c.data->size()));
    (*used)[c.device] = true;
  }
  return absl::OkStatus();
}

uint64_t SessionMemory::PlannedBytes(int device) const {
  const PerDevice& d = *devices_[device];
  return d.state.bytes + d.overlay.bytes + d.constants.bytes;
}

absl::StatusOr<Stream*> SessionMemory::StreamOf(int device) {
  PerDevice& d = *devices_[device];
  if (d.stream == nullptr) {
    WEFT_ASSIGN_OR_RETURN(d.stream, d.device->OpenStream());
  }
  return d.stream.get();
}

absl::Status SessionMemory::CopyState(const StateEntry& state, char* host,
                                      uint64_t bytes, bool write) {
  if (bytes != state.bytes) {
    return MakeError(ErrorCode::kInternal,
                     absl::StrCat("state '", state.name, "' has ", state.bytes,
                                  " bytes, the caller has ", bytes));
  }
  if (bytes == 0) return absl::OkStatus();
  WEFT_ASSIGN_OR_RETURN(Stream * stream, StreamOf(state.device));
  const PerDevice& at = *devices_[state.device];
  const weft_place device = AtDevice(at.state.mem, state.offset);
  if (at.device->info().is_inline) {  // done on return
    return write ? stream->Copy(device, AtHost(host), bytes)
                 : stream->Copy(AtHost(host), device, bytes);
  }
  // By way of bytes that stay, should the device not come to an end.
  std::unique_ptr<char[]> stage(new char[bytes]);
  if (write) memcpy(stage.get(), host, bytes);
  const weft_place here = AtHost(stage.get());
  absl::Status done = write ? stream->Copy(device, here, bytes)
                            : stream->Copy(here, device, bytes);
  if (done.ok()) done = stream->Sync(sync_ns_, &busy_);
  if (busy_) kept_.push_back(std::move(stage));
  if (done.ok() && !write) memcpy(host, stage.get(), bytes);
  return done;
}

absl::Status SessionMemory::ReadState(const StateEntry& state,
                                      absl::Span<char> out) {
  return CopyState(state, out.data(), out.size(), /*write=*/false);
}

absl::Status SessionMemory::WriteState(const StateEntry& state,
                                       absl::Span<const char> data) {
  return CopyState(state, const_cast<char*>(data.data()), data.size(),
                   /*write=*/true);
}

}  // namespace weft::runtime
