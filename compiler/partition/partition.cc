#include "compiler/partition/partition.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/partition/parts_builder.h"
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

// What works each node becomes, and what waits for what.
class Partitioner {
 public:
  Partitioner(const Placement& placement, const RateTable& rates,
              absl::Span<const plan::Device> devices, int phases)
      : draft_(placement, rates, devices),
        graph_(placement.graph),
        place_(placement.place),
        alignment_(devices[0].alignment()),
        out_(draft_.parts()) {
    out_.phases = phases;
  }

  absl::StatusOr<Partition> Run() {
    main_work_.assign(graph_.id_bound(), -1);
    WEFT_ASSIGN_OR_RETURN(std::vector<const Node*> order,
                          graph_.TopologicalOrder(place_));
    WEFT_RETURN_IF_ERROR(CheckLandings(order));
    for (size_t i = 0; i < order.size(); ++i) {
      draft_.set_rank(static_cast<int>(i));
      AddNode(*order[i]);
    }
    for (const Node* node : order) AddControl(*node);
    LinkReaders();
    PhaseCopies();
    AddReads();  // by the phases of all readers
    PaceIdle();
    return std::move(out_);
  }

 private:
  // What lands does so in what is lent before, the other way.
  absl::Status CheckLandings(absl::Span<const Node* const> order) const {
    std::map<std::string, const Node*> lent;  // by channel
    for (const Node* node : order) {
      const bool sends = node->Is(OpId::kSend);
      if (!sends && !node->Is(OpId::kRecv)) continue;
      const OpView view = graph_.View(*node);
      if (view.Int("lent") != 0) lent[view.String("channel")] = node;
      const std::string& lands = view.String("lands");
      if (lands.empty()) continue;
      const auto in = lent.find(lands);
      if (in != lent.end() && in->second->Is(OpId::kSend) != sends &&
          HasData(*in->second) && HasData(*node) &&
          graph_.View(*in->second).Int("mapped") != 0 &&
          view.Int("mapped") == 0) {
        continue;
      }
      return view.Error(
          ErrorCode::kBadGraph,
          absl::StrCat("lands in '", lands,
                       "', which no mapped channel the other way has lent"));
    }
    return absl::OkStatus();
  }

  static bool HasData(const Node& end) {
    return end.Is(OpId::kSend) ? !end.inputs().empty() : end.num_outputs() > 0;
  }

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
        return AddSend(node);
      case Role::kRecv:
        return AddRecv(node);
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

  // As many as are in use at once, or those that are good for speed.
  int ChannelCopies(const Node& node, const TensorType* type, int acts) const {
    return std::max(
        static_cast<int>(graph_.View(node).Int("copies")),
        type == nullptr ? 1 : static_cast<int>(RunsAhead(*type, acts)));
  }

  // One end of a channel.
  int AddChannel(const Node& node, const TensorType* type, int acts) {
    const OpView view = graph_.View(node);
    plan::Channel channel;
    channel.set_name(view.String("channel"));
    channel.set_peer(static_cast<uint32_t>(view.Int("peer")));
    channel.set_receives(node.Is(OpId::kRecv));
    channel.set_copies(static_cast<uint32_t>(ChannelCopies(node, type, acts)));
    if (type != nullptr) *channel.mutable_tensor() = DescribeTensor(*type, "");
    out_.channels.push_back(std::move(channel));
    return static_cast<int>(out_.channels.size()) - 1;
  }

  // The one that says that what the mapped channel `c` brings has been read.
  int AddReadChannel(int c) {
    plan::Channel read;
    read.set_name(absl::StrCat(out_.channels[c].name(), ".read"));
    read.set_peer(out_.channels[c].peer());
    read.set_receives(!out_.channels[c].receives());
    read.set_copies(out_.channels[c].copies());
    out_.channels.push_back(std::move(read));
    out_.channels[c].set_read(static_cast<uint32_t>(out_.channels.size()));
    return static_cast<int>(out_.channels.size()) - 1;
  }

  void AddSend(const Node& node) {
    if (!graph_.View(node).String("lands").empty()) return AddLanded(node);
    const bool data = !node.inputs().empty();
    const bool mapped = data && graph_.View(node).Int("mapped") != 0;
    WorkOperand operand;
    if (data) operand = draft_.Read(node.input(0), 0);
    Work work = draft_.NewWork(Kind::kSend, node, draft_.WireStream());
    work.channel = AddChannel(
        node, data ? &graph_.type(node.input(0)) : nullptr, work.acts);
    const bool lent = mapped && graph_.View(node).Int("lent") != 0;
    if (lent) operand.buffer = MadeAsOftenAs(work, operand.buffer);
    if (mapped) {
      operand.buffer =
          Shared(operand.buffer, work.acts,
                 static_cast<int>(out_.channels[work.channel].copies()));
    }
    if (data) work.operands = {operand};
    const Work like = work;
    main_work_[node.id()] = draft_.Append(std::move(work));
    if (lent) {
      lent_[graph_.View(node).String("channel")] = {like.channel,
                                                    operand.buffer};
    } else if (mapped) {
      HoldUntilRead(like, operand.buffer);
    }
  }

  // What is lent comes back as another value: each act lends one of its own.
  int MadeAsOftenAs(const Work& send, int buffer) {
    if (GivesOf(out_.works[out_.buffers[buffer].producer]) == send.acts) {
      return buffer;
    }
    const int copy = draft_.AddCopy(buffer, 0);
    Work& work = out_.works[out_.buffers[copy].producer];
    work.acts = send.acts;
    work.section = send.section;
    work.phase = send.phase;
    return copy;
  }

  // One that lands in what the channel `lent` carries.
  int AddLandingChannel(const Node& node, const TensorType& type, int acts,
                        int lent) {
    const int c = AddChannel(node, &type, acts);
    out_.channels[c].set_lands(true);
    out_.channels[lent].set_read(static_cast<uint32_t>(c) + 1);
    return c;
  }

  // Says that the operand lies where it was lent; it is copied there where it
  // does not.
  void AddLanded(const Node& node) {
    const Lent& lent = lent_.at(graph_.View(node).String("lands"));
    WorkOperand operand = draft_.Read(node.input(0), 0);
    Work work = draft_.NewWork(Kind::kSend, node, draft_.WireStream());
    work.channel = AddLandingChannel(node, graph_.type(node.input(0)),
                                     work.acts, lent.channel);
    if (out_.buffers[operand.buffer].in != lent.buffer) {
      operand.buffer = draft_.AddCopy(operand.buffer, 0);
      PutInto(operand.buffer, lent.buffer, 0);
      out_.works[out_.buffers[operand.buffer].producer].paced_by = {
          lent.buffer};
    }
    work.operands = {operand};
    main_work_[node.id()] = draft_.Append(std::move(work));
  }

  void HoldUntilRead(const Work& send, int buffer) {
    Work post = send;
    post.operands.clear();
    post.channel = AddReadChannel(send.channel);
    Work recv = post;
    post.kind = Kind::kPost;
    recv.kind = Kind::kRecv;
    absl::StrAppend(&post.name, "/read/post");
    absl::StrAppend(&recv.name, "/read");
    recv.after = {draft_.Append(std::move(post))};
    recv.paced_by = {buffer};
    draft_.Append(std::move(recv));
  }

  // The buffer that peers read for `from`, which lies on the host: itself, or a
  // copy where it cannot be in shared memory or has copies of its own.
  // `acts`: of the SEND, whose channel has so many copies.
  int Shared(int from, int acts, int channel_copies) {
    const Buffer& buffer = out_.buffers[from];
    const Work& producer = out_.works[buffer.producer];
    // What is sent again and again stays where it is.
    const int copies = GivesOf(producer) == acts ? channel_copies : 1;
    // In place of what lies there.
    if (buffer.in >= 0 && WhereOf(from) == Buffer::Where::kShared &&
        buffer.copies == copies) {
      return from;
    }
    auto known = shared_.find({from, copies});
    if (known != shared_.end()) return known->second;
    const bool movable = producer.kind == Kind::kCompute ||
                         producer.kind == Kind::kAccumulate ||
                         producer.kind == Kind::kCopy;
    const bool counts = GivesOf(producer) == 1 || out_.phases == 1;
    const bool itself = movable && counts && buffer.in < 0 &&
                        buffer.where == Buffer::Where::kOwn;
    const int shared = itself ? from : draft_.AddCopy(from, 0);
    out_.buffers[shared].where = Buffer::Where::kShared;
    out_.buffers[shared].copies = copies;
    return shared_[{from, copies}] = shared;
  }

  void AddRecv(const Node& node) {
    Work post = draft_.NewWork(Kind::kPost, node, draft_.WireStream());
    const bool data = node.num_outputs() > 0;
    const bool mapped = data && graph_.View(node).Int("mapped") != 0;
    const std::string& lands = graph_.View(node).String("lands");
    const Lent* lent = lands.empty() ? nullptr : &lent_.at(lands);
    post.channel = lent != nullptr
                       ? AddLandingChannel(node, node.output_type(0), post.acts,
                                           lent->channel)
                       : AddChannel(node, data ? &node.output_type(0) : nullptr,
                                    post.acts);
    post.late = graph_.View(node).Int("late") != 0;
    Work recv = post;
    recv.kind = Kind::kRecv;
    absl::StrAppend(&post.name, "/post");
    const int posted = draft_.Append(std::move(post));
    int in = -1;  // what comes lies there
    if (lent != nullptr) {
      in = lent->buffer;
      recv.after = {posted};
      recv.paced_by = {in};
    } else if (!data || mapped) {
      recv.after = {posted};
    } else {
      in = draft_.NewBuffer(node.output_type(0),
                            absl::StrCat(node.name(), "/post"), 0, posted);
      out_.works[posted].results = {in};
      recv.operands = {{in, -1}};
    }
    const int id = main_work_[node.id()] = draft_.Append(std::move(recv));
    if (!data) return;
    draft_.AddResults(node, id, 0, 0);
    const int channel = out_.works[id].channel;
    const int result = out_.works[id].results[0];
    if (in >= 0) PutInto(result, in, 0);
    if (!mapped) return;
    Buffer& there = out_.buffers[result];
    there.where = Buffer::Where::kPeer;
    there.copies = static_cast<int>(out_.channels[channel].copies());
    there.lent = graph_.View(node).Int("lent") != 0;
    if (there.lent) {
      lent_[graph_.View(node).String("channel")] = {channel, result};
    } else {
      mapped_.push_back(id);
    }
  }

  // The sender is told when the last reader is done.
  void AddReads() {
    for (int id : mapped_) {
      const Work& recv = out_.works[id];
      Work read = recv;
      read.kind = Kind::kSend;
      absl::StrAppend(&read.name, "/read");
      read.channel = AddReadChannel(recv.channel);
      read.results.clear();
      read.after = {id};
      for (int reader : out_.buffers[recv.results[0]].readers) {
        const Work& by = out_.works[reader];
        read.after.push_back(reader);
        read.rank = std::max(read.rank, by.rank);
        if (recv.acts == by.acts) {
          read.section = std::max(read.section, by.section);
          read.phase = std::max(read.phase, by.phase);
        } else if (out_.micro_batches > 1) {
          read.section = Section::kAfter;  // of all micro-batches
        }
      }
      SortUnique(&read.after);
      draft_.Append(std::move(read));
    }
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
    if (placed.device != 0) return;
    if (node.Is(OpId::kSplit)) GivePartsInPlace(node, id);
    if (node.Is(OpId::kReduceToAll)) ReduceInPlace(id);
    if (node.Is(OpId::kConcat)) JoinInPlace(node, id);
  }

  // ---- Results where operands lie ----
  //
  // Only such as somebody reads: who reads them lets go of the operand.

  // The buffer whose bytes `buffer` has, and where in them it begins.
  std::pair<int, uint64_t> Place(int buffer) const {
    uint64_t offset = 0;
    for (; out_.buffers[buffer].in >= 0; buffer = out_.buffers[buffer].in) {
      offset += out_.buffers[buffer].in_offset;
    }
    return {buffer, offset};
  }
  Buffer::Where WhereOf(int buffer) const {
    return out_.buffers[Place(buffer).first].where;
  }

  void PutInto(int buffer, int in, uint64_t offset) {
    out_.buffers[buffer].in = in;
    out_.buffers[buffer].in_offset = offset;
    out_.buffers[buffer].copies = out_.buffers[in].copies;
  }

  // Nodes that read what `v` is, through views.
  int NumReaders(Value v) {
    if (num_readers_.empty()) {
      for (const Node* node : graph_.Nodes()) {
        if (draft_.At(node->id()).role == Role::kView) continue;
        for (Value in : node->inputs()) {
          if (in.valid()) ++num_readers_[draft_.Root(in)];
        }
      }
    }
    return num_readers_[draft_.Root(v)];
  }

  // Null where no part of it is lent.
  const Node* LenderOf(const Node& split) const {
    for (int i = 0; i < split.num_outputs(); ++i) {
      for (auto [reader, position] : graph_.Uses(split.output(i))) {
        const Node* by = graph_.node(reader);
        if (by->Is(OpId::kSend) && graph_.View(*by).Int("lent") != 0) return by;
      }
    }
    return nullptr;
  }

  // Of a value that nobody else reads, and of which a part is lent.
  void GivePartsInPlace(const Node& node, int id) {
    const Node* lender = LenderOf(node);
    const int whole = out_.works[id].operands[0].buffer;
    if (lender == nullptr || whole < 0 || NumReaders(node.input(0)) != 1)
      return;
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (NumReaders(node.output(i)) == 0) return;
      if (node.output_type(i).num_bytes() % alignment_ != 0 &&
          i + 1 < node.num_outputs()) {
        return;
      }
    }
    const Work& split = out_.works[id];
    const int acts = draft_.NewWork(Kind::kSend, *lender, split.stream).acts;
    if (acts != split.acts ||
        acts != GivesOf(out_.works[out_.buffers[whole].producer])) {
      return;
    }
    const int shared =
        Shared(whole, acts, ChannelCopies(*lender, &node.output_type(0), acts));
    out_.works[id].operands[0].buffer = shared;
    uint64_t offset = 0;
    for (int part : out_.works[id].results) {
      PutInto(part, shared, offset);
      offset += static_cast<uint64_t>(out_.buffers[part].type.num_bytes());
    }
  }

  // Each result over its operand, where that lies in shared memory or at
  // another rank, and nobody else reads it.
  void ReduceInPlace(int id) {
    const Work& work = out_.works[id];
    for (size_t i = 0; i < work.results.size(); ++i) {
      const int from = work.operands[i].buffer;
      if (from < 0 || WhereOf(from) == Buffer::Where::kOwn) continue;
      const Node& node = *graph_.node(work.node);
      const int at = static_cast<int>(i);
      if (NumReaders(node.input(at)) != 1 || NumReaders(node.output(at)) == 0) {
        continue;
      }
      PutInto(work.results[i], from, 0);
    }
  }

  // Of parts that lie one after another in one buffer and are all of it.
  void JoinInPlace(const Node& node, int id) {
    const int result = out_.works[id].results[0];
    if (NumReaders(node.output(0)) == 0) return;
    uint64_t end = 0;
    int whole = -1;
    for (size_t i = 0; i < out_.works[id].operands.size(); ++i) {
      const int part = out_.works[id].operands[i].buffer;
      if (part < 0 || out_.buffers[part].in < 0 ||
          NumReaders(node.input(static_cast<int>(i))) != 1) {
        return;
      }
      const auto [in, offset] = Place(part);
      if ((whole >= 0 && in != whole) || offset != end) return;
      whole = in;
      end += static_cast<uint64_t>(out_.buffers[part].type.num_bytes());
    }
    if (whole < 0 || out_.buffers[whole].where != Buffer::Where::kShared ||
        end != static_cast<uint64_t>(out_.buffers[whole].type.num_bytes())) {
      return;
    }
    PutInto(result, whole, 0);
    out_.works[id].paced_by = {whole};
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

  // A lent channel, and the buffer that is lent.
  struct Lent {
    int channel = -1;
    int buffer = -1;
  };

  PartsBuilder draft_;
  const Graph& graph_;
  const std::vector<int32_t>& place_;
  const uint32_t alignment_;  // of what lies on the host
  Partition& out_;
  std::map<int32_t, int> exclusive_of_;        // variable -> exclusive phase
  std::vector<int> main_work_;                 // by node
  std::map<std::pair<int, int>, int> shared_;  // buffer, copies -> shared one
  std::vector<int> mapped_;                    // kRecv works
  std::map<std::string, Lent> lent_;           // by the channel's name
  std::map<Value, int> num_readers_;           // see NumReaders
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
