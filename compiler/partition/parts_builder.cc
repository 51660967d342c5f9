#include "compiler/partition/parts_builder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/placement/device_names.h"
#include "compiler/placement/kernel_desc.h"

namespace weft {

using Kind = Work::Kind;

namespace {

std::string ValueName(const Node& node, int output) {
  return output == 0 ? node.name() : absl::StrCat(node.name(), ":", output);
}

bool UsesAsynchronousDevice(const Placement& placed,
                            absl::Span<const plan::Device> devices) {
  for (const Node* node : placed.graph.Nodes()) {
    if (!devices[placed.nodes[node->id()].device].inline_()) return true;
  }
  return false;
}

}  // namespace

PartsBuilder::PartsBuilder(const Placement& placement, const RateTable& rates,
                           absl::Span<const plan::Device> devices)
    : placed_(placement),
      graph_(placement.graph),
      rates_(rates),
      devices_(devices),
      async_(UsesAsynchronousDevice(placement, devices)) {
  out_.micro_batches = rates.micro_batches;
}

int PartsBuilder::NumReaders(Value v) {
  if (num_readers_.empty()) {
    for (const Node* node : graph_.Nodes()) {
      if (At(node->id()).role == PlacedNode::Role::kView) continue;
      for (Value in : node->inputs()) {
        if (in.valid()) ++num_readers_[Root(in)];
      }
    }
  }
  return num_readers_[Root(v)];
}

int PartsBuilder::Stream(absl::string_view name, uint32_t device,
                         uint32_t worker, bool ordered) {
  std::string full = absl::StrCat(devices_[device].name(), "/", name);
  auto [it, inserted] =
      streams_.try_emplace(full, static_cast<int>(out_.streams.size()));
  if (inserted) out_.streams.push_back({full, device, worker, ordered});
  return it->second;
}

int PartsBuilder::SinkStream() {
  return async_ ? Stream("sink", 0, 0, false) : ComputeStream(0);
}

Work PartsBuilder::NewWork(Kind kind, const Node& node, int stream) {
  Work work;
  work.kind = kind;
  work.name = node.name();
  work.node = node.id();
  work.stream = stream;
  work.section = rates_.section[node.id()];
  work.acts = rates_.Acts(node);
  if (out_.phases > 1 && work.section == Section::kMicro) {
    work.phase = std::clamp(node.stage, 0, out_.phases - 1);
  }
  work.rank = rank_;
  work.provenance = node.provenance;
  if (!At(node.id()).reason.empty()) {
    work.provenance.push_back(At(node.id()).reason);
  }
  return work;
}

int PartsBuilder::Append(Work work) {
  out_.works.push_back(std::move(work));
  return static_cast<int>(out_.works.size()) - 1;
}

int PartsBuilder::NewBuffer(TensorType type, std::string name, uint32_t device,
                            int producer) {
  Buffer buffer;
  buffer.type = std::move(type);
  buffer.name = std::move(name);
  buffer.device = device;
  buffer.producer = producer;
  out_.buffers.push_back(std::move(buffer));
  return static_cast<int>(out_.buffers.size()) - 1;
}

int PartsBuilder::AddKernel(const plan::Kernel& kernel) {
  auto [it, inserted] = kernels_.try_emplace(
      StableBytes(kernel), static_cast<int>(out_.kernels.size()));
  if (inserted) out_.kernels.push_back(kernel);
  return it->second;
}

int PartsBuilder::AddConstant(const Node& node, uint32_t device) {
  plan::Constant constant =
      DescribeConstant(graph_.View(node).Get("value").tensor(), device);
  auto [it, inserted] = constants_.try_emplace(
      StableBytes(constant), static_cast<int>(out_.constants.size()));
  if (inserted) out_.constants.push_back(std::move(constant));
  return it->second;
}

uint32_t PartsBuilder::PlaceOf(uint32_t device, uint32_t mask,
                               int position) const {
  bool host = position < 32 && ((mask >> position) & 1) != 0;
  return host && !HostSees(devices_[device]) ? 0 : device;
}

WorkOperand PartsBuilder::Read(Value v, uint32_t device) {
  if (!v.valid()) return {};
  Value root = placed_.Root(v);
  const Node& node = *graph_.node(root);
  if (node.Is(OpId::kConstant)) return {-1, AddConstant(node, device)};
  return {BufferAt(root, device), -1};
}

int PartsBuilder::BufferAt(Value root, uint32_t device) {
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

int PartsBuilder::Home(Value root) {
  auto it = home_.find(root);
  if (it != home_.end()) return it->second;
  // Only variables get their buffer when they are first read.
  const Node& node = *graph_.node(root);
  Work work = NewWork(Kind::kShared, node, ComputeStream(At(root.node).device));
  return home_[root] = AddPhase(std::move(work), node);
}

int PartsBuilder::AddCopy(int from, uint32_t device) {
  const Work& producer = out_.works[out_.buffers[from].producer];
  const Buffer source = out_.buffers[from];
  Work work;
  work.kind = Kind::kCopy;
  work.node = producer.node;
  work.rank = producer.rank;
  work.acts = GivesOf(producer);
  work.section = producer.kind == Kind::kAccumulate && rates_.micro_batches > 1
                     ? Section::kAfter
                     : producer.section;
  if (work.section == Section::kMicro) work.phase = producer.phase;
  work.name = absl::StrCat(source.name, "@", devices_[device].name());
  work.stream = ComputeStream(device == 0 ? source.device : device);
  work.operands = {{from, -1}};
  work.provenance = {absl::StrCat("partition: copies '", source.name, "' from ",
                                  devices_[source.device].name(), " to ",
                                  devices_[device].name())};
  int id = Append(std::move(work));
  int buffer = NewBuffer(source.type, source.name, device, id);
  out_.works[id].results = {buffer};
  return buffer;
}

int PartsBuilder::AddPhase(Work work, const Node& node) {
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

void PartsBuilder::AddResults(const Node& node, int id, uint32_t device,
                              uint32_t host_out) {
  for (int i = 0; i < node.num_outputs(); ++i) {
    home_[node.output(i)] =
        AddResult(node, i, id, PlaceOf(device, host_out, i));
  }
}

int PartsBuilder::AddResult(const Node& node, int output, int id,
                            uint32_t device) {
  const int buffer =
      NewBuffer(node.output_type(output), ValueName(node, output), device, id);
  out_.works[id].results.push_back(buffer);
  return buffer;
}

void SortUnique(std::vector<int>* v) {
  std::sort(v->begin(), v->end());
  v->erase(std::unique(v->begin(), v->end()), v->end());
}

std::pair<int, uint64_t> PartsBuilder::Place(int buffer) const {
  uint64_t offset = 0;
  for (; out_.buffers[buffer].in >= 0; buffer = out_.buffers[buffer].in) {
    offset += out_.buffers[buffer].in_offset;
  }
  return {buffer, offset};
}

void PartsBuilder::PutInto(int buffer, int in, uint64_t offset) {
  out_.buffers[buffer].in = in;
  out_.buffers[buffer].in_offset = offset;
  out_.buffers[buffer].copies = out_.buffers[in].copies;
}

}  // namespace weft
