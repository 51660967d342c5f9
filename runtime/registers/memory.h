// The memory of a session: where every register of every program lies.
//
// A device gets at most three allocations, all made once by Allocate():
//   state      shared by all programs, addressed by logical name;
//   overlay    activations, scratch and accumulators of the program that runs;
//              programs lie over each other, so it is as large as the largest;
//   constants  of all programs, filled by Allocate().
// Registers that other ranks read lie in a block that is not allocated here
// (SetShared), and what they offer in blocks of theirs (SetPeer).
// Before that each program reserves its place:
//
//   SessionMemory memory(devices);
//   WEFT_ASSIGN_OR_RETURN(const ProgramMemory* train, memory.Reserve(plan));
//   WEFT_RETURN_IF_ERROR(memory.Allocate());
//   Spot spot = train->RegisterSpot(reg, tensor_offset);
//   weft_place place = spot.At(copy);
//
// What was allocated is what the plans say, byte for byte: PlannedBytes() is
// what the device's own counter shows afterwards. It needs reservations only,
// so it also tells, before anything is allocated, what a session would take.
//
// Threading: thread-compatible; read-only, and so thread-safe, after
// Allocate(). Ownership: borrows the devices; frees its memory when destroyed,
// when no device works on it any more.
#ifndef WEFT_RUNTIME_REGISTERS_MEMORY_H_
#define WEFT_RUNTIME_REGISTERS_MEMORY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/proto/plan.pb.h"
#include "core/types/dtype.h"
#include "plugins/host/device.h"

namespace weft::runtime {

// One allocation on a device, or host memory that no device has.
struct Block {
  Device* device = nullptr;
  uint64_t bytes = 0;
  weft_mem mem = 0;      // 0: not allocated yet, or empty
  char* host = nullptr;  // null where the host cannot reach it
};

// Where tensors of all copies of one register lie. Copy k is at
//   offset + (k / slices) * copy_stride + (k % slices) * slice_stride.
struct Spot {
  const Block* block = nullptr;
  uint64_t offset = 0;
  uint64_t copy_stride = 0;
  uint64_t slice_stride = 0;
  uint32_t slices = 1;  // copies of an alias within one copy of its memory

  uint64_t OffsetOf(uint32_t copy) const {
    if (slices == 1) return offset + copy * copy_stride;
    return offset + copy / slices * copy_stride + copy % slices * slice_stride;
  }
  // True where all copies lie at one place.
  bool Fixed() const { return copy_stride == 0 && slice_stride == 0; }
  // For an access by the device that owns the block.
  weft_place At(uint32_t copy) const {
    return AtDevice(block->mem, OffsetOf(copy));
  }
  // For an access through the host. Pre-condition: block->host != nullptr.
  char* HostAt(uint32_t copy) const { return block->host + OffsetOf(copy); }
};

struct StateEntry {
  std::string name;
  int device = 0;       // index in the session
  uint64_t offset = 0;  // in the state block
  uint64_t bytes = 0;
  DType dtype = DType::kInvalid;
  std::vector<int64_t> dims;
};

class SessionMemory;

// The part of one program.
class ProgramMemory {
 public:
  // `tensor_offset` is within the register. Control registers have no spot:
  // pre-condition is that the register has tensors.
  Spot RegisterSpot(uint32_t reg, uint64_t tensor_offset) const;
  Spot ScratchSpot(uint32_t stream, uint64_t offset) const;
  Spot PrivateSpot(uint32_t plan_device, uint64_t offset) const;
  Spot ConstantSpot(uint32_t constant) const;

  // The session's device for one of the plan's.
  Device* device(uint32_t plan_device) const;

  // Where a register of an arena PEER lies: copy k at `host` + k * `stride`.
  void SetPeer(uint32_t reg, const char* host, uint64_t stride);

 private:
  friend class SessionMemory;
  struct Region {
    const Block* block = nullptr;
    uint64_t base = 0;
  };
  const plan::Plan* plan_ = nullptr;  // of the program; outlives this
  std::vector<Device*> devices_;
  std::vector<Region> arenas_;
  std::vector<Region> constants_;
  std::map<uint32_t, Region> scratch_;  // by stream
  std::map<uint32_t, Region> private_;  // by the plan's device
  struct PeerBlock {
    Block block;
    uint64_t stride = 0;
  };
  // By register, of all that lie in an arena PEER.
  std::map<uint32_t, PeerBlock> peers_;
};

class SessionMemory {
 public:
  // `sync_ns`: how long a device may take for constants or state.
  explicit SessionMemory(std::vector<Device*> devices,
                         uint64_t sync_ns = Stream::kLongWaitNs);
  ~SessionMemory();
  SessionMemory(const SessionMemory&) = delete;
  SessionMemory& operator=(const SessionMemory&) = delete;

  // `plan` has passed validation, and outlives the session's memory. Errors:
  // kDeviceNotFound; kBadPlan where state differs from what another program
  // says, or where it needs more than was allocated already.
  absl::StatusOr<ProgramMemory*> Reserve(const plan::Plan& plan);

  // What the programs need together in arenas SHARED, and where it is: before
  // anything asks for spots there. Programs lie over each other.
  uint64_t shared_bytes() const { return shared_.bytes; }
  bool has_shared() const { return shared_.host != nullptr; }
  void SetShared(char* host) { shared_.host = host; }

  // Allocates what is not allocated yet, fills constants. May be called again
  // after later reservations, which then must fit into what is there.
  absl::Status Allocate();

  // A device did not end its work in time: this object must not be destroyed.
  bool busy() const { return busy_; }

  // Of what is reserved so far, by the session's device index.
  uint64_t PlannedBytes(int device) const;

  const std::map<std::string, StateEntry>& states() const { return states_; }
  // Copies between the host and a state at rest, waiting for the device. Where
  // that takes too long, kDeviceFailed, and the caller's bytes are not used
  // any more.
  absl::Status ReadState(const StateEntry& state, absl::Span<char> out);
  absl::Status WriteState(const StateEntry& state, absl::Span<const char> data);

 private:
  struct PerDevice {
    Device* device = nullptr;
    Block state, overlay, constants;
    uint64_t constants_filled = 0;
    std::unique_ptr<Stream> stream;  // for state and constants; made when used
  };
  struct PendingConstant {
    int device = 0;
    uint64_t offset = 0;
    const std::string* data = nullptr;
  };

  absl::StatusOr<std::vector<int>> MatchDevices(const plan::Plan& plan) const;
  absl::Status ReserveArenas(const plan::Plan& plan,
                             const std::vector<int>& device_of,
                             ProgramMemory* program);
  absl::Status ReserveConstants(const plan::Plan& plan,
                                const std::vector<int>& device_of,
                                ProgramMemory* program);
  absl::Status ReserveStates(const plan::Plan& plan,
                             const std::vector<int>& device_of);
  void ReservePeers(const plan::Plan& plan, ProgramMemory* program) const;
  absl::Status Grow(Block* block, uint64_t bytes, const char* what);
  absl::Status AllocateBlock(Block* block);
  // Sets `used` of each device that has accepted a copy.
  absl::Status SubmitConstants(std::vector<bool>* used);
  absl::StatusOr<Stream*> StreamOf(int device);
  absl::Status CopyState(const StateEntry& state, char* host, uint64_t bytes,
                         bool write);

  std::vector<std::unique_ptr<PerDevice>> devices_;
  std::vector<std::unique_ptr<ProgramMemory>> programs_;
  Block shared_;
  const uint64_t sync_ns_;
  bool busy_ = false;
  // What late copies may still touch.
  std::vector<std::unique_ptr<char[]>> kept_;
  std::vector<PendingConstant> pending_;
  std::map<std::string, StateEntry> states_;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_REGISTERS_MEMORY_H_
