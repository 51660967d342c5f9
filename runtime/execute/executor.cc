#include "runtime/execute/executor.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace weft::runtime {

bool Executor::MoveOperands(const Launch& launch,
                            const actor::Effects& effects) {
  const Move* move = moves_.data() + launch.first_move;
  for (const Move* end = move + launch.num_moves; move != end; ++move) {
    uint16_t copy = move->output ? effects.outputs()[move->port]
                                 : effects.inputs()[move->port];
    if (copy == actor::kNoCopy) return false;
    uint64_t offset = move->spot.OffsetOf(copy);
    if (move->host) {
      move->where->host = move->spot.block->host + offset;
    } else {
      move->where->offset = offset;
    }
  }
  return true;
}

absl::Status Executor::RunOther(const TaskRecord& record,
                                const actor::Effects& effects, uint64_t step) {
  switch (record.mode) {
    case TaskRecord::Mode::kPhased: {
      const Phase& phase = phases_[record.first + effects.phase()];
      return RunLaunches(record, phase.first, phase.count, effects, step);
    }
    case TaskRecord::Mode::kSend:
    case TaskRecord::Mode::kPost:
      return RunWire(record, effects);
    default:
      return RunHost(record, effects, step);
  }
}

absl::Status Executor::RunObserved(const actor::Effects& effects, uint64_t step,
                                   LaunchObserver* observer) {
  const TaskRecord& r = records_[effects.actor()];
  auto after = [&](const Launch& launch) {
    observer->Launched(static_cast<uint32_t>(&launch - launches_.data()));
  };
  switch (r.mode) {
    case TaskRecord::Mode::kNothing:
      return absl::OkStatus();
    case TaskRecord::Mode::kLaunch:
      return RunLaunches(r, r.first, r.count, effects, step, after);
    case TaskRecord::Mode::kPhased: {
      const Phase& phase = phases_[r.first + effects.phase()];
      return RunLaunches(r, phase.first, phase.count, effects, step, after);
    }
    case TaskRecord::Mode::kSource:
    case TaskRecord::Mode::kSink:
    case TaskRecord::Mode::kSend:
    case TaskRecord::Mode::kPost:
      break;
  }
  absl::Status status = RunOther(r, effects, step);
  observer->Launched(static_cast<uint32_t>(launches_.size()) + effects.actor());
  return status;
}

std::vector<LaunchInfo> Executor::DescribeLaunches() const {
  // Launches first, then the readers and consumers, by actor.
  std::vector<LaunchInfo> infos(launches_.size() + records_.size());
  auto describe = [&](const TaskRecord& r, uint32_t first, uint32_t count) {
    for (uint32_t i = first; i < first + count; ++i) {
      const bool kernel = launches_[i].kernel != nullptr;
      infos[i].task = r.task;
      infos[i].op = kernel ? static_cast<int32_t>(launches_[i].op) : -1;
      infos[i].bytes = kernel ? 0 : 2 * launches_[i].bytes;
    }
  };
  for (size_t a = 0; a < records_.size(); ++a) {
    const TaskRecord& r = records_[a];
    LaunchInfo& host = infos[launches_.size() + a];
    host.task = r.task;
    switch (r.mode) {
      case TaskRecord::Mode::kNothing:
        break;
      case TaskRecord::Mode::kLaunch:
        describe(r, r.first, r.count);
        break;
      case TaskRecord::Mode::kPhased:
        for (uint32_t p = r.first; p < r.first + r.count; ++p) {
          describe(r, phases_[p].first, phases_[p].count);
        }
        break;
      case TaskRecord::Mode::kSource:
      case TaskRecord::Mode::kSink:
      case TaskRecord::Mode::kSend:
      case TaskRecord::Mode::kPost:
        for (uint32_t i = r.first; i < r.first + r.count; ++i) {
          host.bytes += slots_[i].tensor.bytes;
        }
        break;
    }
  }
  return infos;
}

absl::Status Executor::RunWire(const TaskRecord& record,
                               const actor::Effects& effects) {
  const bool send = record.mode == TaskRecord::Mode::kSend;
  char* data = nullptr;
  uint64_t bytes = 0;
  if (record.count != 0) {  // else the edge is one of order
    const HostSlot& slot = slots_[record.first];
    data = slot.spot.HostAt((send ? effects.inputs() : effects.outputs())[0]);
    bytes = slot.tensor.bytes;
  }
  return send ? channels_->Send(record.channel, data, bytes)
              : channels_->Post(record.channel, data, bytes);
}

absl::Status Executor::RunHost(const TaskRecord& record,
                               const actor::Effects& effects, uint64_t step) {
  const bool source = record.mode == TaskRecord::Mode::kSource;
  absl::Span<const uint16_t> copies =
      source ? effects.outputs() : effects.inputs();
  for (uint32_t i = record.first; i < record.first + record.count; ++i) {
    const HostSlot& slot = slots_[i];
    uint16_t copy = copies[slot.port];
    if (copy == actor::kNoCopy) {
      return NoCopy(record, Launch{}, effects, step);
    }
    tensors_[i].data = slot.spot.HostAt(copy);
  }
  absl::Span<const HostTensor> tensors(tensors_.data() + record.first,
                                       record.count);
  absl::Status status;
  if (record.counter) {
    const int64_t value[2] = {
        static_cast<int64_t>(step),
        static_cast<int64_t>(record.first_micro + effects.phase())};
    for (const HostTensor& t : tensors) memcpy(t.data, value, sizeof(value));
  } else if (source) {
    status = record.reader->Fill(step, effects.phase(), tensors);
  } else {
    status = record.consumer->Consume(step, effects.phase(), tensors);
  }
  if (status.ok()) return status;
  return Failed(status, record, Launch{}, effects, step);
}

std::string Executor::Describe(const TaskRecord& record, uint32_t op,
                               uint64_t step, uint32_t phase) const {
  const plan::Task& task = plan_->tasks(static_cast<int>(record.task));
  const std::string& node =
      static_cast<int>(op) < task.ops_size() &&
              !task.ops(static_cast<int>(op)).node().empty()
          ? task.ops(static_cast<int>(op)).node()
          : task.name();
  const plan::Stream& stream = plan_->streams(static_cast<int>(record.stream));
  return absl::StrCat("node '", node, "' (task ", record.task, ", device ",
                      plan_->devices(static_cast<int>(stream.device())).name(),
                      ", program '", plan_->program(), "', step ", step,
                      ", act ", phase, ")");
}

absl::Status Executor::NoCopy(const TaskRecord& record, const Launch& launch,
                              const actor::Effects& effects,
                              uint64_t step) const {
  return MakeError(
      ErrorCode::kBadPlan,
      absl::StrCat(Describe(record, launch.op, step, effects.phase()),
                   ": an operand's port holds nothing in this act"));
}

absl::Status Executor::Failed(const absl::Status& status,
                              const TaskRecord& record, const Launch& launch,
                              const actor::Effects& effects,
                              uint64_t step) const {
  return Annotate(status, Describe(record, launch.op, step, effects.phase()));
}

}  // namespace weft::runtime
