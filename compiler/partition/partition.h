// Partition: a placed graph as items of work on streams, with everything that
// moves data between devices made explicit.
//
//   WEFT_ASSIGN_OR_RETURN(Partition parts,
//                         PartitionGraph(placement, rates, devices));
//
// Terms. A *work* is one thing that acts: a kernel, a source, a phase of a
// variable, a copy. A *buffer* is one tensor at one place; every buffer has one
// producing work and any number of reading works. A value that is needed on
// another device gets one more buffer there and one copy, whatever the number
// of its readers. Between two devices that are not the host it goes through the
// host.
//
// Streams: each device has one ordered compute stream, on which its copies lie,
// too; sources and the nodes of "io" lie on the host's I/O stream, by
// readiness, and so do the ends of channels on its wire stream; sinks on the
// host's compute stream or, where a device computes
// asynchronously, on a stream of their own, so that results are reported
// without holding up the order. Worker 0 drives all but I/O.
//
// Mapped channels. The receiver reads the value in the sender's memory: SEND
// says that it is there, and a channel the other way, whose name ends in
// ".read", that all readers are done, until when its RECV holds the value. What
// cannot lie in shared memory itself (state, what another rank sent, values
// that a pipeline keeps) is copied there.
//
// Lent channels. The receiver changes the value in the sender's memory, and the
// channel that says so brings the new value, in place of the lent one.
//
// So that nothing is copied, a Split of which a peer reads or writes a part
// gives parts of its operand where they lie; a weft.ReduceToAll or
// weft.CopyToAll gives its results in place of operands that are shared or lie
// elsewhere; and a Concat of all the parts of one value gives that value.
//
// Variables. A variable has a *shared* phase, in which its value is read, and
// an *exclusive* one, in which it is replaced; each is a work. The update acts
// on the exclusive buffer in place. Where the update runs on another device it
// reads a copy, and a write-back ends it.
//
// What it does not do: order (order/), registers and bytes (memory/, emit/).
//
// Threading: free functions, thread-safe; Partition is a value.
#ifndef WEFT_COMPILER_PARTITION_PARTITION_H_
#define WEFT_COMPILER_PARTITION_PARTITION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/placement/placement.h"
#include "compiler/rates/rates.h"

namespace weft {

struct Buffer {
  // kShared: other ranks read it where it lies. kPeer: it lies at another rank.
  enum class Where : uint8_t { kOwn, kShared, kPeer };

  TensorType type;
  std::string name;  // the user's name of the value
  uint32_t device = 0;
  Where where = Where::kOwn;
  bool lent = false;  // kPeer: works of this rank change it there
  // Lies in the bytes of another one, which its producer reads; -1: in its own.
  int in = -1;
  uint64_t in_offset = 0;
  int copies = 0;  // that both ranks count with; 0: nobody else counts
  int producer = -1;
  std::vector<int> readers;  // works, ascending, each once
};

// An operand of a work: a buffer, a constant, or (neither) absent.
struct WorkOperand {
  int buffer = -1;
  int constant = -1;
};

struct Work {
  enum class Kind : uint8_t {
    kCompute,
    kUpdate,
    kSource,
    kSink,
    kShared,     // phase of a variable
    kExclusive,  // phase of a variable
    kAccumulate,
    kSend,       // operand 0 to `channel`
    kPost,       // result 0 is there for the data of `channel`
    kRecv,       // `channel` has them: result 0 lies where they came
    kCopy,       // operand 0 to result 0
    kWriteBack,  // operand 0 into operand 1, an exclusive buffer
  };
  // A result of an update that is written in place; see `results`.
  static constexpr int kInPlace = -2;

  Kind kind = Kind::kCompute;
  std::string name;
  int32_t node = -1;  // of the placed graph
  int stream = 0;
  Section section = Section::kMicro;
  int phase = 0;  // of a pipeline; see compiler/pipeline/schedule.h
  int acts = 1;
  // Kernels: in the kernel's order. Others: what they read.
  std::vector<WorkOperand> operands;
  // Buffers; kInPlace: over operand i, i the result's index.
  std::vector<int> results;
  // Buffers that are waited for and not used.
  std::vector<int> paced_by;
  // Works that must have acted before, without data: control edges.
  std::vector<int> after;
  // The same, where the protocol sees to it: readers before the exclusive
  // phase.
  std::vector<int> implied_after;
  int kernel = -1;        // index in Partition.kernels
  uint32_t in_place = 0;  // result 0 may be the memory of operand i
  std::string binding;    // sources and sinks
  int64_t first = 0;      // counters: what micro-batches count from
  int channel = -1;       // kSend, kPost, kRecv: index in Partition.channels
  bool late = false;      // kPost: nobody waits for the far end's SEND
  std::string state;      // kShared, kExclusive: the logical name
  // Position in the graph: orders works among equals.
  int rank = 0;
  std::vector<std::string> provenance;
};

struct StreamDraft {
  std::string name;
  uint32_t device = 0;
  uint32_t worker = 0;
  bool ordered = true;
};

struct Partition {
  int micro_batches = 1;
  int phases = 1;  // of the pipeline
  std::vector<Work> works;
  std::vector<Buffer> buffers;
  std::vector<StreamDraft> streams;
  std::vector<plan::Kernel> kernels;      // each once
  std::vector<plan::Constant> constants;  // each once per device
  std::vector<plan::Channel> channels;
};

// Acts of `work` that produce its results, in a period: an Accumulate takes
// `acts` times and gives once.
int GivesOf(const Work& work);

// From so many bytes on the memory of what ranks exchange counts for more than
// a moment's wait for it.
constexpr int64_t kLargeValue = 32 << 10;

// How many acts of a value may be under way between two threads, of this rank
// or of two. Micro-batches follow each other closely: the next comes while the
// last is still read, and what is small may be some more ahead, so that neither
// end sleeps at each of them. A step's value has a step's time.
uint32_t RunsAhead(const TensorType& type, int acts);

// Works that must have acted before `work`: producers of what it reads, control
// and implied edges. Ascending, each once.
std::vector<int> PredecessorsOf(const Partition& parts, int work);

// With `phases` above 1 a node's stage is its phase (AssignRanks, by_rank.h);
// copies are made when they are first read.
absl::StatusOr<Partition> PartitionGraph(const Placement& placement,
                                         const RateTable& rates,
                                         absl::Span<const plan::Device> devices,
                                         int phases = 1);

}  // namespace weft

#endif  // WEFT_COMPILER_PARTITION_PARTITION_H_
