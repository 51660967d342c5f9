#include "core/plan/validate_wire.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/plan/validate_ops.h"

namespace weft::plan {

absl::Status WireValidator::CheckChannels() {
  const uint32_t ranks = std::max(plan_.ranks(), 1u);
  if (ranks > kMaxRanks || plan_.rank() >= ranks) {
    return Bad("the plan is of rank ", plan_.rank(), " of ", ranks,
               "; at most ", kMaxRanks, " are possible");
  }
  for (int c = 0; c < plan_.channels_size(); ++c) {
    const Channel& channel = plan_.channels(c);
    const std::string name = ChannelName(channel);
    if (channel.peer() >= ranks || channel.peer() == plan_.rank()) {
      return Bad(name, " of rank ", plan_.rank(), " leads to rank ",
                 channel.peer(), " of ", ranks);
    }
    if (channel.copies() == 0 || channel.copies() > kMaxCopies) {
      return Bad(name, " has ", channel.copies(), " copies; 1 to ", kMaxCopies,
                 " are possible");
    }
    WEFT_RETURN_IF_ERROR(CheckTensor(name, channel.tensor(), true));
    if (c > 0 && plan_.channels(c - 1).id() >= channel.id()) {
      return Bad(name, " is not in the order of ids, or has another's");
    }
    WEFT_RETURN_IF_ERROR(CheckRead(channel, name));
  }
  mapped_of_.resize(plan_.channels_size() + 1, 0);
  for (int c = 0; c < plan_.channels_size(); ++c) {
    const uint32_t read = plan_.channels(c).read();
    if (read == 0) continue;
    if (mapped_of_[read] != 0) {
      return Bad(ChannelName(plan_.channels(static_cast<int>(read) - 1)),
                 " answers two channels, also ",
                 ChannelName(plan_.channels(c)));
    }
    mapped_of_[read] = static_cast<uint32_t>(c) + 1;
  }
  for (int c = 0; c < plan_.channels_size(); ++c) {
    if (!plan_.channels(c).lands() || mapped_of_[c + 1] != 0) continue;
    return Bad(ChannelName(plan_.channels(c)),
               " is to land in a value that nobody lends");
  }
  return absl::OkStatus();
}

absl::Status WireValidator::CheckRead(const Channel& channel,
                                      const std::string& name) const {
  if (channel.read() == 0) return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(In(absl::StrCat("what answers ", name),
                          channel.read() - 1, plan_.channels_size()));
  const Channel& read = plan_.channels(static_cast<int>(channel.read()) - 1);
  if (channel.tensor().dtype() == 0 || channel.lands() || read.read() != 0 ||
      read.lands() != (read.tensor().dtype() != 0) ||
      read.receives() == channel.receives() || read.peer() != channel.peer() ||
      read.copies() != channel.copies()) {
    return Bad(name, " is mapped, but ", ChannelName(read),
               " cannot say that its value has been read");
  }
  if (!read.lands()) return absl::OkStatus();
  return CheckSame(absl::StrCat(name, " and ", ChannelName(read), " carry"),
                   channel.tensor(), read.tensor());
}

absl::Status WireValidator::CheckTask(const Task& task,
                                      const std::string& name) {
  const bool post = task.kind() == Task::POST;
  if ((post ? task.outputs_size() : task.inputs_size()) == 0) {
    return Bad(name, " has nothing to fill or to give");
  }
  if (task.channel() == 0 && plan_.channels_size() == 0) {
    return absl::OkStatus();
  }
  const int c = static_cast<int>(task.channel()) - 1;
  if (c < 0 || c >= plan_.channels_size()) {
    return Bad(name, " is at channel ", c, " of ", plan_.channels_size());
  }
  const Channel& channel = plan_.channels(c);
  if (channel.receives() != (task.kind() != Task::SEND)) {
    return Bad(name, " is at the wrong end of ", ChannelName(channel));
  }
  if (!wire_tasks_.insert({c, task.kind()}).second) {
    return Bad(name, " is the second of its kind at ", ChannelName(channel));
  }
  if (plan_.streams(task.stream()).worker() != 0) {
    return Bad(name, " is not on worker 0, which drives the wire");
  }
  const bool mapped = channel.read() != 0;
  const bool sends = task.kind() == Task::SEND;
  const bool elsewhere = mapped || channel.lands();
  uint32_t r = post ? task.outputs(0).register_() : task.inputs(0).register_();
  if (task.kind() == Task::RECV) {
    WEFT_ASSIGN_OR_RETURN(r, CheckRecv(task, name, mapped));
  }
  const Register& reg = plan_.registers(static_cast<int>(r));
  const int tensors =
      channel.tensor().dtype() == 0 || (elsewhere && !sends) ? 0 : 1;
  if (reg.tensors_size() != tensors) {
    return Bad(name, " has ", reg.tensors_size(), " tensors at ",
               ChannelName(channel), ", which carries ", tensors);
  }
  if (!sends && reg.copies() != channel.copies()) {
    return Bad(name, " has ", reg.copies(), " copies at ", ChannelName(channel),
               ", which has ", channel.copies());
  }
  if (mapped && sends) {
    WEFT_RETURN_IF_ERROR(CheckShared(task, name, r));
  }
  if (mapped && task.kind() == Task::RECV) {
    WEFT_RETURN_IF_ERROR(CheckPeer(task, name, channel));
  }
  if (channel.lands() && sends) {
    WEFT_RETURN_IF_ERROR(CheckLanded(task, name, c));
  }
  if (tensors == 0) return absl::OkStatus();
  return CheckSame(absl::StrCat("what ", name, " and its channel carry"),
                   reg.tensors(0), channel.tensor());
}

absl::StatusOr<uint32_t> WireValidator::CheckRecv(const Task& task,
                                                  const std::string& name,
                                                  bool mapped) {
  const auto posted = std::find_if(
      task.inputs().begin(), task.inputs().end(), [&](const InputPort& in) {
        const Task& from = plan_.tasks((*producer_)[in.register_()]);
        return from.kind() == Task::POST && from.channel() == task.channel() &&
               from.outputs(0).register_() == in.register_();
      });
  if (posted == task.inputs().end()) {
    return Bad(name, " takes what no POST of its channel gives");
  }
  const bool lands =
      plan_.channels(static_cast<int>(task.channel()) - 1).lands();
  for (const OutputPort& out : task.outputs()) {
    const Register& given = plan_.registers(out.register_());
    // Others are edges of order.
    if (mapped || (given.bytes() == 0 && given.alias_of() == 0)) continue;
    if (given.alias_of() != (lands ? LentBy(task) : posted->register_()) + 1) {
      return Bad(name, " gives something else than what it has received");
    }
    if (lands) WEFT_RETURN_IF_ERROR(CheckWhole(name, out.register_()));
  }
  return posted->register_();
}

uint32_t WireValidator::LentBy(const Task& recv) {
  const int send = EndOf(mapped_of_[recv.channel()], Task::SEND);
  if (send < 0 || plan_.tasks(send).inputs_size() == 0) {
    return ~uint32_t{0} - 1;
  }
  return plan_.tasks(send).inputs(0).register_();
}

absl::Status WireValidator::CheckWhole(const std::string& name,
                                       uint32_t landed) const {
  const Register& reg = plan_.registers(static_cast<int>(landed));
  const Register& lent = plan_.registers(static_cast<int>(reg.alias_of()) - 1);
  if (reg.alias_offset() != 0 || reg.bytes() != lent.bytes() ||
      reg.copies() != lent.copies() || reg.tensors_size() != 1 ||
      lent.tensors_size() != 1 ||
      reg.tensors(0).offset() != lent.tensors(0).offset()) {
    return Bad(name, " has ", RegisterName(plan_, landed),
               " land, which is another part of what was lent");
  }
  return CheckSame(absl::StrCat("what ", name, " has land and was lent"),
                   reg.tensors(0), lent.tensors(0));
}

absl::Status WireValidator::CheckLanded(const Task& task,
                                        const std::string& name, int c) const {
  const uint32_t r = task.inputs(0).register_();
  const uint32_t parent = plan_.registers(r).alias_of();
  const Task* from =
      parent == 0 ? nullptr : &plan_.tasks((*producer_)[parent - 1]);
  if (from == nullptr || from->kind() != Task::RECV ||
      from->channel() != mapped_of_[c + 1]) {
    return Bad(name, " says that ", RegisterName(plan_, r),
               " has landed, which does not lie in what was lent");
  }
  return CheckWhole(name, r);
}

absl::Status WireValidator::CheckShared(const Task& task,
                                        const std::string& name, uint32_t r) {
  const Channel& channel = plan_.channels(static_cast<int>(task.channel()) - 1);
  const bool lent =
      plan_.channels(static_cast<int>(channel.read()) - 1).lands();
  uint32_t root = r;
  while (plan_.registers(root).alias_of() != 0) {
    root = plan_.registers(root).alias_of() - 1;
  }
  const Register& reg = plan_.registers(static_cast<int>(r));
  if (plan_.arenas(plan_.registers(root).arena()).kind() != Arena::SHARED) {
    return Bad(name, " offers ", RegisterName(plan_, r),
               ", which does not lie in shared memory");
  }
  // Both ends count the copies by the acts; one copy is at one place. What is
  // lent comes back as another value, which each act has of its own.
  const bool each = task.inputs(0).pattern().acts().empty();
  if ((lent && !each) ||
      (reg.copies() != 1 && (reg.copies() != channel.copies() || !each))) {
    return Bad(name, " offers ", RegisterName(plan_, r), " with ", reg.copies(),
               " copies at ", ChannelName(channel), ", which has ",
               channel.copies());
  }
  // From when it is given until as late as SEND itself would let it go.
  const int holder = EndOf(channel.read(), Task::RECV);
  if (holder >= 0) {
    for (const InputPort& in : plan_.tasks(holder).inputs()) {
      // Lent: RECV gives it on, or nobody wants it any more.
      if (in.register_() == r && (lent || !in.aliased()) &&
          in.pattern().acts() == task.inputs(0).pattern().acts()) {
        return absl::OkStatus();
      }
    }
  }
  return Bad(name, " offers ", RegisterName(plan_, r),
             ", which nothing holds until it has been read");
}

int WireValidator::EndOf(uint32_t channel, Task::Kind kind) {
  if (end_of_.empty()) {
    end_of_.resize(plan_.channels_size() + 1, {-1, -1});
    for (int t = 0; t < plan_.tasks_size(); ++t) {
      const Task& task = plan_.tasks(t);
      if (task.channel() == 0 || task.channel() >= end_of_.size()) continue;
      if (task.kind() == Task::SEND) end_of_[task.channel()].first = t;
      if (task.kind() == Task::RECV) end_of_[task.channel()].second = t;
    }
  }
  return kind == Task::SEND ? end_of_[channel].first : end_of_[channel].second;
}

absl::Status WireValidator::CheckPeer(const Task& task, const std::string& name,
                                      const Channel& channel) const {
  const uint64_t alignment = std::max(plan_.devices(0).alignment(), 1u);
  int there = 0;
  for (const OutputPort& out : task.outputs()) {
    const Register& reg = plan_.registers(out.register_());
    if (reg.bytes() == 0) continue;
    // Its bytes are those of the value: beyond are others of its owner.
    if (++there > 1 || reg.alias_of() != 0 || reg.tensors_size() != 1 ||
        reg.tensors(0).offset() != 0 ||
        reg.bytes() >= TensorBytes(reg.tensors(0)) + alignment ||
        plan_.arenas(reg.arena()).kind() != Arena::PEER ||
        reg.lent() !=
            plan_.channels(static_cast<int>(channel.read()) - 1).lands() ||
        reg.copies() != channel.copies()) {
      return Bad(name, " gives ", RegisterName(plan_, out.register_()),
                 ", which is not what lies at its peer");
    }
    WEFT_RETURN_IF_ERROR(
        CheckSame(absl::StrCat("what ", name, " and its channel have"),
                  reg.tensors(0), channel.tensor()));
  }
  return absl::OkStatus();
}

absl::Status WireValidator::CheckEnds() const {
  if (plan_.channels_size() == 0) return absl::OkStatus();
  size_t ends = 0;
  for (const Channel& channel : plan_.channels()) {
    ends += channel.receives() ? 2 : 1;
  }
  if (wire_tasks_.size() == ends) return absl::OkStatus();
  return Bad("the channels of the plan have ", wire_tasks_.size(),
             " tasks at their ends; ", ends, " are needed");
}

}  // namespace weft::plan
