#include "compiler/partition/partition.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/partition/in_place.h"
#include "compiler/partition/parts_builder.h"
#include "compiler/partition/wire_works.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

using Role = PlacedNode::Role;
using Kind = Work::Kind;

// What works each node becomes, and what waits for what.
class Partitioner {
 public:
  Partitioner(const Placement& placement, const RateTable& rates,
              absl::Span<const plan::Device> devices, int phases)
      : draft_(placement, rates, devices),
        graph_(placement.graph),
        place_(placement.place),
        out_(draft_.parts()),
        wire_(&draft_, graph_),
        in_place_(&draft_, &wire_, graph_, devices[0].alignment()) {
    out_.phases = phases;
  }

  absl::StatusOr<Partition> Run() {
    main_work_.assign(graph_.id_bound(), -1);
    WEFT_ASSIGN_OR_RETURN(std::vector<const Node*> order,
                          graph_.TopologicalOrder(place_));
    WEFT_RETURN_IF_ERROR(wire_.CheckLandings(order));
    for (size_t i = 0; i < order.size(); ++i) {
      draft_.set_rank(static_cast<int>(i));
      AddNode(*order[i]);
    }
    for (const Node* node : order) AddControl(*node);
    LinkReaders();
    PhaseCopies();
    wire_.AddReads();  // by the phases of all readers
    PaceIdle();
    return std::move(out_);
  }

 private:
  void AddNode(const Node& node) {
    switch (draft_.At(node.id()).role) {
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
      case Role::kSend:
        main_work_[node.id()] = wire_.AddSend(node);
        return;
      case Role::kRecv:
        main_work_[node.id()] = wire_.AddRecv(node);
        return;
      case Role::kUpdate:
        return AddUpdate(node);
      case Role::kCompute:
        return AddCompute(node);
    }
  }

  void AddSource(const Node& node) {
    Work work = draft_.NewWork(Kind::kSource, node, draft_.IoStream());
    if (node.Is(OpId::kCounter)) {
      work.binding = absl::StrCat("counter:", graph_.View(node).String("rate"));
      work.first = graph_.View(node).Int("first");
    } else {
      work.binding = graph_.View(node).String("source");
    }
    int id = main_work_[node.id()] = draft_.Append(std::move(work));
    draft_.AddResults(node, id, 0, 0);
  }

  void AddSink(const Node& node) {
    WorkOperand operand = draft_.Read(node.input(0), 0);
    Work work = draft_.NewWork(Kind::kSink, node, draft_.SinkStream());
    work.binding = graph_.View(node).String("name");
    work.operands = {operand};
    main_work_[node.id()] = draft_.Append(std::move(work));
  }

  void AddAccumulate(const Node& node) {
    const PlacedNode& placed = draft_.At(node.id());
    WorkOperand operand = draft_.Read(node.input(0), placed.device);
    Work work = draft_.NewWork(Kind::kAccumulate, node,
                               draft_.ComputeStream(placed.device));
    work.kernel = draft_.AddKernel(placed.kernel);
    work.operands = {operand};
    work.provenance.push_back(absl::StrCat("emit: tree sum over ", work.acts,
                                           " micro-batches, order class TREE"));
    int id = main_work_[node.id()] = draft_.Append(std::move(work));
    draft_.AddResults(node, id, placed.device, 0);
  }

  void AddCompute(const Node& node) {
    const PlacedNode& placed = draft_.At(node.id());
    std::vector<WorkOperand> operands;
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      operands.push_back(
          draft_.Read(node.input(static_cast<int>(i)),
                      draft_.PlaceOf(placed.device, placed.kernel.host_in(),
                                     static_cast<int>(i))));
    }
    Work work = draft_.NewWork(
        Kind::kCompute, node,
        placed.io ? draft_.IoStream() : draft_.ComputeStream(placed.device));
    work.kernel = draft_.AddKernel(placed.kernel);
    work.in_place = placed.in_place;
    work.operands = std::move(operands);
    int id = main_work_[node.id()] = draft_.Append(std::move(work));
    draft_.AddResults(node, id, placed.device, placed.kernel.host_out());
    if (placed.device == 0) in_place_.Put(node, id);
  }

  void AddUpdate(const Node& node) {
    const PlacedNode& placed = draft_.At(node.id());
    const int updated = node.num_updated();
    std::vector<WorkOperand> operands;
    std::vector<int> exclusive(updated, -1);
    for (int i = 0; i < static_cast<int>(node.inputs().size()); ++i) {
      uint32_t place =
          draft_.PlaceOf(placed.device, placed.kernel.host_in(), i);
      if (i >= updated) {
        int self = UpdatedOperand(node, node.input(i));
        operands.push_back(self >= 0 ? operands[self]
                                     : draft_.Read(node.input(i), place));
        continue;
      }
      const Node& variable = *graph_.node(node.input(i));
      Work phase =
          draft_.NewWork(Kind::kExclusive, variable,
                         draft_.ComputeStream(draft_.At(variable.id()).device));
      phase.rank = draft_.rank();
      exclusive[i] = draft_.AddPhase(std::move(phase), variable);
      exclusive_of_[variable.id()] = out_.buffers[exclusive[i]].producer;
      const bool away = draft_.At(variable.id()).device != place;
      int read = exclusive[i];
      if (away && draft_.At(variable.id()).device != 0 && place != 0) {
        read = draft_.AddCopy(read, 0);
      }
      operands.push_back({away ? draft_.AddCopy(read, place) : read, -1});
    }
    Work work = draft_.NewWork(Kind::kUpdate, node,
                               draft_.ComputeStream(placed.device));
    work.kernel = draft_.AddKernel(placed.kernel);
    work.operands = operands;
    int id = main_work_[node.id()] = draft_.Append(std::move(work));
    for (int i = 0; i < node.num_outputs(); ++i) {
      bool in_place = i < updated && operands[i].buffer == exclusive[i] &&
                      draft_.PlaceOf(placed.device, placed.kernel.host_out(),
                                     i) == placed.device;
      if (in_place) {
        out_.works[id].results.push_back(Work::kInPlace);
        continue;
      }
      const int result = draft_.AddResult(
          node, i, id,
          draft_.PlaceOf(placed.device, placed.kernel.host_out(), i));
      if (i < updated) AddWriteBack(result, exclusive[i]);
    }
  }

  // Position among the updated variables of the one that `v` is; -1 where it is
  // none. Its shared phase is over when the update acts, so it is read as is.
  int UpdatedOperand(const Node& node, Value v) const {
    if (!v.valid()) return -1;
    for (int i = 0; i < node.num_updated(); ++i) {
      if (draft_.Root(v) == node.input(i)) return i;
    }
    return -1;
  }

  void AddWriteBack(int result, int exclusive) {
    const uint32_t home = out_.buffers[exclusive].device;
    int from = result;
    if (out_.buffers[result].device != 0 && home != 0 &&
        out_.buffers[result].device != home) {
      from = draft_.AddCopy(result, 0);
    }
    const Work& producer = out_.works[out_.buffers[from].producer];
    Work work;
    work.kind = Kind::kWriteBack;
    work.node = producer.node;
    work.rank = producer.rank;
    work.section = producer.section;
    work.name = absl::StrCat(out_.buffers[exclusive].name, "/write_back");
    work.stream =
        draft_.ComputeStream(home == 0 ? out_.buffers[from].device : home);
    work.operands = {{from, -1}, {exclusive, -1}};
    work.provenance = {
        absl::StrCat("partition: the update runs on ",
                     draft_.DeviceName(out_.buffers[result].device),
                     ", its state lies on ", draft_.DeviceName(home))};
    draft_.Append(std::move(work));
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
      for (int b : out_.works[w].paced_by) {
        out_.buffers[b].readers.push_back(static_cast<int>(w));
      }
    }
    for (Buffer& buffer : out_.buffers) SortUnique(&buffer.readers);
    for (const auto& [variable, exclusive] : exclusive_of_) {
      const int home = draft_.HomeIfAny(Value{variable, 0});
      if (home < 0) continue;
      out_.works[exclusive].implied_after = out_.buffers[home].readers;
    }
  }

  // What another rank or an earlier phase made is copied where it is wanted.
  // Copies of copies come after what they read.
  void PhaseCopies() {
    for (size_t w = out_.works.size(); w-- > 0;) {
      Work& work = out_.works[w];
      if (work.kind != Kind::kCopy || work.section != Section::kMicro) continue;
      int first = out_.phases;
      for (int reader : out_.buffers[work.results[0]].readers) {
        first = std::min(first, out_.works[reader].phase);
      }
      work.phase = std::max(work.phase, first);
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
    for (Work& work : out_.works) {
      if (work.kind == Kind::kSource && work.binding == "counter:step") {
        // What it paces may come before the micro-batches.
        if (out_.micro_batches > 1) work.section = Section::kBefore;
        return work.results[0];
      }
    }
    Work work;
    work.kind = Kind::kSource;
    work.name = "weft/pace";
    work.stream = draft_.IoStream();
    work.section = out_.micro_batches > 1 ? Section::kBefore : Section::kMicro;
    work.binding = "counter:step";
    work.provenance = {"partition: paces kernels that read nothing"};
    int id = draft_.Append(std::move(work));
    int buffer =
        draft_.NewBuffer({DType::kI64, Shape({2})}, "weft/pace", 0, id);
    out_.works[id].results = {buffer};
    return buffer;
  }

  PartsBuilder draft_;
  const Graph& graph_;
  const std::vector<int32_t>& place_;
  Partition& out_;
  WireWorks wire_;
  InPlaceResults in_place_;
  std::map<int32_t, int> exclusive_of_;  // variable -> exclusive phase
  std::vector<int> main_work_;           // by node
};

}  // namespace

uint32_t RunsAhead(const TensorType& type, int acts) {
  constexpr int64_t kBytes = 16 << 10;  // that may be ahead
  constexpr int64_t kMost = 16;
  const int64_t bytes = std::max<int64_t>(1, type.num_bytes());
  const int64_t copies = std::clamp<int64_t>(kBytes / bytes, 2, kMost);
  return static_cast<uint32_t>(std::min<int64_t>(copies, acts));
}

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

absl::StatusOr<Partition> PartitionGraph(const Placement& placement,
                                         const RateTable& rates,
                                         absl::Span<const plan::Device> devices,
                                         int phases) {
  return Partitioner(placement, rates, devices, phases).Run();
}

}  // namespace weft
