#include "compiler/partition/partition.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/placement/device_names.h"
#include "compiler/placement/kernel_desc.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

using Role = PlacedNode::Role;
using Kind = Work::Kind;

void SortUnique(std::vector<int>* v) {
  std::sort(v->begin(), v->end());
  v->erase(std::unique(v->begin(), v->end()), v->end());
}

class Partitioner {
 public:
  Partitioner(const Placement& placement, const RateTable& rates,
              absl::Span<const plan::Device> devices)
      : placed_(placement),
        graph_(placement.graph),
        rates_(rates),
        devices_(devices) {}

  absl::StatusOr<Partition> Run() {
    out_.micro_batches = rates_.micro_batches;
    async_ = UsesAsynchronousDevice();
    main_work_.assign(graph_.id_bound(), -1);
    WEFT_ASSIGN_OR_RETURN(std::vector<const Node*> order,
                          graph_.TopologicalOrder());
    for (size_t i = 0; i < order.size(); ++i) {
      rank_ = static_cast<int>(i);
      AddNode(*order[i]);
    }
    for (const Node* node : order) AddControl(*node);
    LinkReaders();
    PaceIdle();
    return std::move(out_);
  }

 private:
  const PlacedNode& At(int32_t node) const { return placed_.nodes[node]; }

  bool UsesAsynchronousDevice() const {
    for (const Node* node : graph_.Nodes()) {
      if (!devices_[At(node->id()).device].inline_()) return true;
    }
    return false;
  }

  // ---- Streams ----

  int Stream(absl::string_view name, uint32_t device, uint32_t worker,
             bool ordered) {
    std::string full = absl::StrCat(devices_[device].name(), "/", name);
    auto [it, inserted] =
        streams_.try_emplace(full, static_cast<int>(out_.streams.size()));
    if (inserted) out_.streams.push_back({full, device, worker, ordered});
    return it->second;
  }
  int ComputeStream(uint32_t device) {
    return Stream("compute", device, 0, true);
  }
  int IoStream() { return Stream("io", 0, 1, false); }
  int SinkStream() {
    return async_ ? Stream("sink", 0, 0, false) : ComputeStream(0);
  }

  // ---- Works and buffers ----

  Work NewWork(Kind kind, const Node& node, int stream) {
    Work work;
    work.kind = kind;
    work.name = node.name();
    work.node = node.id();
    work.stream = stream;
    work.section = rates_.section[node.id()];
    work.acts = rates_.Acts(node);
    work.rank = rank_;
    work.provenance = node.provenance;
    if (!At(node.id()).reason.empty()) {
      work.provenance.push_back(At(node.id()).reason);
    }
    return work;
  }

  int Append(Work work) {
    out_.works.push_back(std::move(work));
    return static_cast<int>(out_.works.size()) - 1;
  }

  int NewBuffer(TensorType type, std::string name, uint32_t device,
                int producer) {
    Buffer buffer;
    buffer.type = std::move(type);
    buffer.name = std::move(name);
    buffer.device = device;
    buffer.producer = producer;
    out_.buffers.push_back(std::move(buffer));
    return static_cast<int>(out_.buffers.size()) - 1;
  }

  static std::string ValueName(const Node& node, int output) {
    return output == 0 ? node.name() : absl::StrCat(node.name(), ":", output);
  }

  int AddKernel(const plan::Kernel& kernel) {
    auto [it, inserted] = kernels_.try_emplace(
        StableBytes(kernel), static_cast<int>(out_.kernels.size()));
    if (inserted) out_.kernels.push_back(kernel);
    return it->second;
  }

  int AddConstant(const Node& node, uint32_t device) {
    plan::Constant constant =
        DescribeConstant(graph_.View(node).Get("value").tensor(), device);
    auto [it, inserted] = constants_.try_emplace(
        StableBytes(constant), static_cast<int>(out_.constants.size()));
    if (inserted) out_.constants.push_back(std::move(constant));
    return it->second;
  }

  // Where an operand must lie that the kernel of `device` reads (or writes) as
  // `mask` says.
  uint32_t PlaceOf(uint32_t device, uint32_t mask, int position) const {
    bool host = position < 32 && ((mask >> position) & 1) != 0;
    return host && !HostSees(devices_[device]) ? 0 : device;
  }

  WorkOperand Read(Value v, uint32_t device) {
    if (!v.valid()) return {};
    Value root = placed_.Root(v);
    const Node& node = *graph_.node(root);
    if (node.Is(OpId::kConstant)) return {-1, AddConstant(node, device)};
    return {BufferAt(root, device), -1};
  }

  int BufferAt(Value root, uint32_t device) {
    auto it = buffer_at_.find({root, device});
    if (it != buffer_at_.end()) return it->second;
    const int home = Home(root);
    const uint32_t from = out_.buffers[home].device;
    if (from == device) return home;
    int source = home;
    if (from != 0 && device != 0) source = BufferAt(root, 0);
    int copy = AddCopy(source, device);
    buffer_at_[{root, device}] = copy;
    return copy;
  }

  int Home(Value root) {
    auto it = home_.find(root);
    if (it != home_.end()) return it->second;
    // Only variables get their buffer when they are first read.
    const Node& node = *graph_.node(root);
    Work work =
        NewWork(Kind::kShared, node, ComputeStream(At(root.node).device));
    return home_[root] = AddPhase(std::move(work), node);
  }

  // A copy of buffer `from` to `device`, for all that read it there.
  int AddCopy(int from, uint32_t device) {
    const Work& producer = out_.works[out_.buffers[from].producer];
    const Buffer source = out_.buffers[from];
    Work work;
    work.kind = Kind::kCopy;
    work.node = producer.node;
    work.rank = producer.rank;
    work.acts = GivesOf(producer);
    work.section =
        producer.kind == Kind::kAccumulate && rates_.micro_batches > 1
            ? Section::kAfter
            : producer.section;
    work.name = absl::StrCat(source.name, "@", devices_[device].name());
    work.stream = ComputeStream(device == 0 ? source.device : device);
    work.operands = {{from, -1}};
    work.provenance = {absl::StrCat("partition: copies '", source.name,
                                    "' from ", devices_[source.device].name(),
                                    " to ", devices_[device].name())};
    int id = Append(std::move(work));
    int buffer = NewBuffer(source.type, source.name, device, id);
    out_.works[id].results = {buffer};
    return buffer;
  }

  int AddPhase(Work work, const Node& node) {
    work.state = node.name();
    work.acts = 1;
    if (rates_.micro_batches > 1) {
      work.section =
          work.kind == Kind::kShared ? Section::kBefore : Section::kAfter;
    }
    int id = Append(std::move(work));
    int buffer =
        NewBuffer(node.output_type(0), node.name(), At(node.id()).device, id);
    out_.works[id].results = {buffer};
    return buffer;
  }

  void AddNode(const Node& node) {
    switch (At(node.id()).role) {
      case Role::kView:
      case Role::kConstant:
      case Role::kVariable:  // by its readers and updates
        return;
      case Role::kSource:
        return AddSource(node);
      case Role::kSink:
        return AddSink(node);
      case Role::kAccumulate:
        return AddAccumulate(node);
      case Role::kUpdate:
        return AddUpdate(node);
      case Role::kCompute:
        return AddCompute(node);
    }
  }

  void AddResults(const Node& node, int id, uint32_t device,
                  uint32_t host_out) {
    for (int i = 0; i < node.num_outputs(); ++i) {
      int buffer = NewBuffer(node.output_type(i), ValueName(node, i),
                             PlaceOf(device, host_out, i), id);
      out_.works[id].results.push_back(buffer);
      home_[node.output(i)] = buffer;
    }
  }

  void AddSource(const Node& node) {
    Work work = NewWork(Kind::kSource, node, IoStream());
    if (node.Is(OpId::kCounter)) {
      work.binding = absl::StrCat("counter:", graph_.View(node).String("rate"));
    } else {
      work.binding = graph_.View(node).String("source");
    }
    int id = main_work_[node.id()] = Append(std::move(work));
    AddResults(node, id, 0, 0);
  }

  void AddSink(const Node& node) {
    WorkOperand operand = Read(node.input(0), 0);
    Work work = NewWork(Kind::kSink, node, SinkStream());
    work.binding = graph_.View(node).String("name");
    work.operands = {operand};
    main_work_[node.id()] = Append(std::move(work));
  }

  void AddAccumulate(const Node& node) {
    const PlacedNode& placed = At(node.id());
    WorkOperand operand = Read(node.input(0), placed.device);
    Work work = NewWork(Kind::kAccumulate, node, ComputeStream(placed.device));
    work.kernel = AddKernel(placed.kernel);
    work.operands = {operand};
    work.provenance.push_back(absl::StrCat("emit: tree sum over ", work.acts,
                                           " micro-batches, order class TREE"));
    int id = main_work_[node.id()] = Append(std::move(work));
    AddResults(node, id, placed.device, 0);
  }

  void AddCompute(const Node& node) {
    const PlacedNode& placed = At(node.id());
    std::vector<WorkOperand> operands;
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      operands.push_back(Read(node.input(static_cast<int>(i)),
                              PlaceOf(placed.device, placed.kernel.host_in(),
                                      static_cast<int>(i))));
    }
    Work work = NewWork(Kind::kCompute, node,
                        placed.io ? IoStream() : ComputeStream(placed.device));
    work.kernel = AddKernel(placed.kernel);
    work.in_place = placed.in_place;
    work.operands = std::move(operands);
    int id = main_work_[node.id()] = Append(std::move(work));
    AddResults(node, id, placed.device, placed.kernel.host_out());
  }

  void AddUpdate(const Node& node) {
    const PlacedNode& placed = At(node.id());
    const int updated = node.schema().num_updated;
    std::vector<WorkOperand> operands;
    std::vector<int> exclusive(updated, -1);
    for (int i = 0; i < static_cast<int>(node.inputs().size()); ++i) {
      uint32_t place = PlaceOf(placed.device, placed.kernel.host_in(), i);
      if (i >= updated) {
        int self = UpdatedOperand(node, node.input(i));
        operands.push_back(self >= 0 ? operands[self]
                                     : Read(node.input(i), place));
        continue;
      }
      const Node& variable = *graph_.node(node.input(i));
      Work phase = NewWork(Kind::kExclusive, variable,
                           ComputeStream(At(variable.id()).device));
      phase.rank = rank_;
      exclusive[i] = AddPhase(std::move(phase), variable);
      exclusive_of_[variable.id()] = out_.buffers[exclusive[i]].producer;
      const bool away = At(variable.id()).device != place;
      int read = exclusive[i];
      if (away && At(variable.id()).device != 0 && place != 0) {
        read = AddCopy(read, 0);
      }
      operands.push_back({away ? AddCopy(read, place) : read, -1});
    }
    Work work = NewWork(Kind::kUpdate, node, ComputeStream(placed.device));
    work.kernel = AddKernel(placed.kernel);
    work.operands = operands;
    int id = main_work_[node.id()] = Append(std::move(work));
    for (int i = 0; i < node.num_outputs(); ++i) {
      bool in_place =
          i < updated && operands[i].buffer == exclusive[i] &&
          PlaceOf(placed.device, placed.kernel.host_out(), i) == placed.device;
      if (in_place) {
        out_.works[id].results.push_back(Work::kInPlace);
        continue;
      }
      int result =
          NewBuffer(node.output_type(i), ValueName(node, i),
                    PlaceOf(placed.device, placed.kernel.host_out(), i), id);
      out_.works[id].results.push_back(result);
      if (i < updated) AddWriteBack(result, exclusive[i]);
    }
  }

  // Position among the updated variables of the one that `v` is; -1 where it is
  // none. Its shared phase is over when the update acts, so it is read as is.
  int UpdatedOperand(const Node& node, Value v) const {
    if (!v.valid()) return -1;
    for (int i = 0; i < node.schema().num_updated; ++i) {
      if (placed_.Root(v) == node.input(i)) return i;
    }
    return -1;
  }

  void AddWriteBack(int result, int exclusive) {
    const uint32_t home = out_.buffers[exclusive].device;
    int from = result;
    if (out_.buffers[result].device != 0 && home != 0 &&
        out_.buffers[result].device != home) {
      from = AddCopy(result, 0);
    }
    const Work& producer = out_.works[out_.buffers[from].producer];
    Work work;
    work.kind = Kind::kWriteBack;
    work.node = producer.node;
    work.rank = producer.rank;
    work.section = producer.section;
    work.name = absl::StrCat(out_.buffers[exclusive].name, "/write_back");
    work.stream = ComputeStream(home == 0 ? out_.buffers[from].device : home);
    work.operands = {{from, -1}, {exclusive, -1}};
    work.provenance = {
        absl::StrCat("partition: the update runs on ",
                     devices_[out_.buffers[result].device].name(),
                     ", its state lies on ", devices_[home].name())};
    Append(std::move(work));
  }

  // ---- Edges ----

  void AddControl(const Node& node) {
    int to = main_work_[node.id()];
    if (to < 0) return;
    for (int32_t c : node.control_inputs()) {
      int from = main_work_[c];
      if (from >= 0) out_.works[to].after.push_back(from);
    }
    SortUnique(&out_.works[to].after);
  }

  void LinkReaders() {
    for (size_t w = 0; w < out_.works.size(); ++w) {
      for (const WorkOperand& operand : out_.works[w].operands) {
        if (operand.buffer < 0) continue;
        out_.buffers[operand.buffer].readers.push_back(static_cast<int>(w));
      }
    }
    for (Buffer& buffer : out_.buffers) SortUnique(&buffer.readers);
    for (const auto& [variable, exclusive] : exclusive_of_) {
      auto home = home_.find(Value{variable, 0});
      if (home == home_.end()) continue;
      out_.works[exclusive].implied_after = out_.buffers[home->second].readers;
    }
  }

  // A kernel that reads nothing would act without end: it is paced by the step
  // counter, which acts under the lease.
  void PaceIdle() {
    int counter = -1;
    const int num_works = static_cast<int>(out_.works.size());
    for (int w = 0; w < num_works; ++w) {
      const Work& work = out_.works[w];
      if (work.kind != Kind::kCompute) continue;
      bool reads = false;
      for (const WorkOperand& o : work.operands) reads |= o.buffer >= 0;
      if (reads) continue;
      if (counter < 0) counter = StepCounter();
      out_.works[w].paced_by = {counter};
      out_.buffers[counter].readers.push_back(w);
      SortUnique(&out_.buffers[counter].readers);
    }
  }

  int StepCounter() {
    for (const Work& work : out_.works) {
      if (work.kind == Kind::kSource && work.binding == "counter:step") {
        return work.results[0];
      }
    }
    Work work;
    work.kind = Kind::kSource;
    work.name = "weft/pace";
    work.stream = IoStream();
    work.section =
        rates_.micro_batches > 1 ? Section::kBefore : Section::kMicro;
    work.binding = "counter:step";
    work.provenance = {"partition: paces kernels that read nothing"};
    int id = Append(std::move(work));
    int buffer = NewBuffer({DType::kI64, Shape({2})}, "weft/pace", 0, id);
    out_.works[id].results = {buffer};
    return buffer;
  }

  const Placement& placed_;
  const Graph& graph_;
  const RateTable& rates_;
  absl::Span<const plan::Device> devices_;
  Partition out_;
  bool async_ = false;
  int rank_ = 0;
  std::map<std::string, int> streams_;
  std::map<std::string, int> kernels_;
  std::map<std::string, int> constants_;
  std::map<Value, int> home_;  // buffer where the value is made
  std::map<std::pair<Value, uint32_t>, int> buffer_at_;  // copies elsewhere
  std::map<int32_t, int> exclusive_of_;  // variable -> exclusive phase
  std::vector<int> main_work_;           // by node
};

}  // namespace

int GivesOf(const Work& work) {
  return work.kind == Kind::kAccumulate ? 1 : work.acts;
}

std::vector<int> PredecessorsOf(const Partition& parts, int id) {
  const Work& work = parts.works[id];
  std::vector<int> out = work.after;
  out.insert(out.end(), work.implied_after.begin(), work.implied_after.end());
  for (const WorkOperand& operand : work.operands) {
    if (operand.buffer < 0) continue;
    out.push_back(parts.buffers[operand.buffer].producer);
  }
  for (int buffer : work.paced_by) {
    out.push_back(parts.buffers[buffer].producer);
  }
  SortUnique(&out);
  return out;
}

absl::StatusOr<Partition> PartitionGraph(
    const Placement& placement, const RateTable& rates,
    absl::Span<const plan::Device> devices) {
  return Partitioner(placement, rates, devices).Run();
}

}  // namespace weft
