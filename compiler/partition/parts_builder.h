// PartsBuilder: a Partition under construction. It knows streams, kernels and
// constants (each once) and where values lie: who asks for a value on a device
// gets a buffer there, and the copies that this takes are made at that time.
//
//   PartsBuilder parts(placement, rates, devices);
//   Work work = parts.NewWork(Work::Kind::kCompute, node, stream);
//   work.operands = {parts.Read(node.input(0), device)};
//   int id = parts.Append(std::move(work));
//   parts.AddResults(node, id, device, host_out);
//
// Nodes come in topological order: the results of a node are known before they
// are read. A variable's shared phase is made when it is first read.
//
// Terms: partition.h. What it does not do: decide what works a node becomes.
//
// Threading: thread-compatible. Ownership: borrows its arguments.
#ifndef WEFT_COMPILER_PARTITION_PARTS_BUILDER_H_
#define WEFT_COMPILER_PARTITION_PARTS_BUILDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/partition/partition.h"
#include "compiler/placement/placement.h"
#include "compiler/rates/rates.h"

namespace weft {

// Ascending, each once.
void SortUnique(std::vector<int>* v);

class PartsBuilder {
 public:
  PartsBuilder(const Placement& placement, const RateTable& rates,
               absl::Span<const plan::Device> devices);

  const PlacedNode& At(int32_t node) const { return placed_.nodes[node]; }
  Value Root(Value v) const { return placed_.Root(v); }
  // Nodes that read what `v` is, through views.
  int NumReaders(Value v);
  const std::string& DeviceName(uint32_t device) const {
    return devices_[device].name();
  }
  Partition& parts() { return out_; }

  // Works are made from now on for the node at this position of the graph.
  void set_rank(int rank) { rank_ = rank; }
  int rank() const { return rank_; }

  // --- Streams: indices in Partition::streams ---
  int ComputeStream(uint32_t device) {
    return Stream("compute", device, 0, true);
  }
  int IoStream() { return Stream("io", 0, 1, false); }
  int SinkStream();
  int WireStream() { return Stream("wire", 0, 0, false); }

  // --- Works and what they use: indices in Partition ---
  Work NewWork(Work::Kind kind, const Node& node, int stream);
  int Append(Work work);
  int AddKernel(const plan::Kernel& kernel);
  int NewBuffer(TensorType type, std::string name, uint32_t device,
                int producer);
  // The results of work `id`, which computes `node` on `device`; bit i of
  // `host_out`: result i lies on the host. These are the homes of the values.
  void AddResults(const Node& node, int id, uint32_t device, uint32_t host_out);
  // One result of `node` at `device`, which readers do not find: whoever adds
  // it says what becomes of it.
  int AddResult(const Node& node, int output, int id, uint32_t device);

  // --- Where values lie ---

  // Where an operand must lie that the kernel of `device` reads (or writes) as
  // `mask` says.
  uint32_t PlaceOf(uint32_t device, uint32_t mask, int position) const;
  // A value on a device; an absent one is an absent operand.
  WorkOperand Read(Value v, uint32_t device);
  // A copy of buffer `from` to `device`, for all that read it there.
  int AddCopy(int from, uint32_t device);
  // A phase of the variable `node`. Returns its buffer.
  int AddPhase(Work work, const Node& node);
  // The buffer where a value is made; -1 where nobody has read it yet.
  int HomeIfAny(Value root) const {
    auto it = home_.find(root);
    return it == home_.end() ? -1 : it->second;
  }

  // --- Buffers in the bytes of others ---

  // The buffer whose bytes `buffer` has, and where in them it begins.
  std::pair<int, uint64_t> Place(int buffer) const;
  Buffer::Where WhereOf(int buffer) const {
    return out_.buffers[Place(buffer).first].where;
  }
  // From now on it lies in `in`, which the producer of `buffer` reads.
  void PutInto(int buffer, int in, uint64_t offset);

 private:
  int Stream(absl::string_view name, uint32_t device, uint32_t worker,
             bool ordered);
  int AddConstant(const Node& node, uint32_t device);
  int BufferAt(Value root, uint32_t device);
  int Home(Value root);

  const Placement& placed_;
  const Graph& graph_;
  const RateTable& rates_;
  absl::Span<const plan::Device> devices_;
  const bool async_;
  Partition out_;
  int rank_ = 0;
  std::map<std::string, int> streams_;
  std::map<std::string, int> kernels_;
  std::map<std::string, int> constants_;
  std::map<Value, int> num_readers_;  // by root; empty: not counted yet
  std::map<Value, int> home_;         // buffer where the value is made
  std::map<std::pair<Value, uint32_t>, int> buffer_at_;  // copies elsewhere
};

}  // namespace weft

#endif  // WEFT_COMPILER_PARTITION_PARTS_BUILDER_H_
