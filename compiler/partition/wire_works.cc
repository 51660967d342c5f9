#include "compiler/partition/wire_works.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/placement/kernel_desc.h"
#include "core/base/channel_name.h"
#include "core/base/error.h"

namespace weft {
namespace {

using Kind = Work::Kind;

bool HasData(const Node& end) {
  return end.Is(OpId::kSend) ? !end.inputs().empty() : end.num_outputs() > 0;
}

}  // namespace

absl::Status WireWorks::CheckLandings(
    absl::Span<const Node* const> order) const {
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

int WireWorks::ChannelCopies(const Node& node, const TensorType* type,
                             int acts) const {
  const OpView view = graph_.View(node);
  const bool alone = type == nullptr || HasAMicroBatch(view, *type);
  return std::max(static_cast<int>(view.Int("copies")),
                  alone ? 1 : static_cast<int>(RunsAhead(*type, acts)));
}

bool WireWorks::HasAMicroBatch(const OpView& end,
                               const TensorType& type) const {
  return out_.phases == 1 && type.num_bytes() >= kLargeValue &&
         !PartsOf(end.String("channel")).agreed.empty();
}

int WireWorks::AddChannel(const Node& node, const TensorType* type, int acts) {
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

int WireWorks::AddReadChannel(int c) {
  plan::Channel read;
  read.set_name(absl::StrCat(out_.channels[c].name(), ".read"));
  read.set_peer(out_.channels[c].peer());
  read.set_receives(!out_.channels[c].receives());
  read.set_copies(out_.channels[c].copies());
  out_.channels.push_back(std::move(read));
  out_.channels[c].set_read(static_cast<uint32_t>(out_.channels.size()));
  return static_cast<int>(out_.channels.size()) - 1;
}

int WireWorks::AddSend(const Node& node) {
  if (!graph_.View(node).String("lands").empty()) return AddLanded(node);
  const bool data = !node.inputs().empty();
  const bool mapped = data && graph_.View(node).Int("mapped") != 0;
  WorkOperand operand;
  if (data) operand = draft_.Read(node.input(0), 0);
  Work work = draft_.NewWork(Kind::kSend, node, draft_.WireStream());
  work.channel =
      AddChannel(node, data ? &graph_.type(node.input(0)) : nullptr, work.acts);
  const bool lent = mapped && graph_.View(node).Int("lent") != 0;
  if (lent) operand.buffer = ToLend(work, node.input(0), operand.buffer);
  if (mapped) {
    operand.buffer =
        Shared(operand.buffer, work.acts,
               static_cast<int>(out_.channels[work.channel].copies()));
  }
  if (data) work.operands = {operand};
  const Work like = work;
  const int id = draft_.Append(std::move(work));
  if (lent) {
    lent_[graph_.View(node).String("channel")] = {like.channel, operand.buffer};
  } else if (mapped) {
    HoldUntilRead(like, operand.buffer);
  }
  return id;
}

int WireWorks::ToLend(const Work& send, Value value, int buffer) {
  const Work& producer = out_.works[out_.buffers[buffer].producer];
  if (GivesOf(producer) == send.acts && draft_.NumReaders(value) == 1) {
    return buffer;
  }
  const int copy = draft_.AddCopy(buffer, 0);
  Work& work = out_.works[out_.buffers[copy].producer];
  work.acts = send.acts;
  work.section = send.section;
  work.phase = send.phase;
  return copy;
}

int WireWorks::AddLandingChannel(const Node& node, const TensorType& type,
                                 int acts, int lent) {
  const int c = AddChannel(node, &type, acts);
  out_.channels[c].set_lands(true);
  out_.channels[lent].set_read(static_cast<uint32_t>(c) + 1);
  return c;
}

int WireWorks::AddLanded(const Node& node) {
  const Lent& lent = lent_.at(graph_.View(node).String("lands"));
  WorkOperand operand = draft_.Read(node.input(0), 0);
  Work work = draft_.NewWork(Kind::kSend, node, draft_.WireStream());
  work.channel = AddLandingChannel(node, graph_.type(node.input(0)), work.acts,
                                   lent.channel);
  if (out_.buffers[operand.buffer].in != lent.buffer) {
    operand.buffer = draft_.AddCopy(operand.buffer, 0);
    draft_.PutInto(operand.buffer, lent.buffer, 0);
    out_.works[out_.buffers[operand.buffer].producer].paced_by = {lent.buffer};
  }
  work.operands = {operand};
  return draft_.Append(std::move(work));
}

void WireWorks::HoldUntilRead(const Work& send, int buffer) {
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

int WireWorks::Shared(int from, int acts, int channel_copies) {
  const Buffer& buffer = out_.buffers[from];
  const Work& producer = out_.works[buffer.producer];
  // What is sent again and again stays where it is.
  const int copies = GivesOf(producer) == acts ? channel_copies : 1;
  // In place of what lies there.
  if (buffer.in >= 0 && draft_.WhereOf(from) == Buffer::Where::kShared &&
      buffer.copies == copies) {
    return from;
  }
  auto known = shared_.find({from, copies});
  if (known != shared_.end()) return known->second;
  const bool movable = producer.kind == Kind::kCompute ||
                       producer.kind == Kind::kAccumulate ||
                       producer.kind == Kind::kCopy;
  const bool counts = GivesOf(producer) == 1 || out_.phases == 1;
  const bool itself =
      movable && counts && buffer.in < 0 && buffer.where == Buffer::Where::kOwn;
  const int shared = itself ? from : draft_.AddCopy(from, 0);
  out_.buffers[shared].where = Buffer::Where::kShared;
  out_.buffers[shared].copies = copies;
  return shared_[{from, copies}] = shared;
}

int WireWorks::AddRecv(const Node& node) {
  Work post = draft_.NewWork(Kind::kPost, node, draft_.WireStream());
  const bool data = node.num_outputs() > 0;
  const bool mapped = data && graph_.View(node).Int("mapped") != 0;
  const std::string& lands = graph_.View(node).String("lands");
  const Lent* lent = lands.empty() ? nullptr : &lent_.at(lands);
  post.channel =
      lent != nullptr
          ? AddLandingChannel(node, node.output_type(0), post.acts,
                              lent->channel)
          : AddChannel(node, data ? &node.output_type(0) : nullptr, post.acts);
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
  const int id = draft_.Append(std::move(recv));
  if (!data) return id;
  draft_.AddResults(node, id, 0, 0);
  const int channel = out_.works[id].channel;
  const int result = out_.works[id].results[0];
  if (in >= 0) draft_.PutInto(result, in, 0);
  if (!mapped) return id;
  Buffer& there = out_.buffers[result];
  there.where = Buffer::Where::kPeer;
  there.copies = static_cast<int>(out_.channels[channel].copies());
  there.lent = graph_.View(node).Int("lent") != 0;
  if (there.lent) {
    lent_[graph_.View(node).String("channel")] = {channel, result};
  } else {
    mapped_.push_back(id);
  }
  return id;
}

void WireWorks::AddReads() {
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

}  // namespace weft
