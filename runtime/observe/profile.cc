#include "runtime/observe/profile.h"

#include "absl/strings/match.h"

namespace weft::runtime {

std::vector<WorkerProfile*> ProfileLog::AddProgram(const plan::Plan& plan) {
  std::vector<WorkerProfile*> result;
  if (plan.program() != program_) return result;
  plan_ = plan;
  workers_.clear();
  for (uint32_t w = 0; w < plan.workers(); ++w) {
    workers_.push_back(std::make_unique<WorkerProfile>(&recording_));
    result.push_back(workers_.back().get());
  }
  return result;
}

std::vector<bool> DataTasks(const plan::Plan& plan) {
  std::vector<int> producer(static_cast<size_t>(plan.registers_size()), -1);
  for (int t = 0; t < plan.tasks_size(); ++t) {
    for (const plan::OutputPort& port : plan.tasks(t).outputs()) {
      producer[port.register_()] = t;
    }
  }
  std::vector<bool> data(static_cast<size_t>(plan.tasks_size()));
  // Tasks are in no particular order: until nothing changes.
  for (bool changed = true; changed;) {
    changed = false;
    for (int t = 0; t < plan.tasks_size(); ++t) {
      const plan::Task& task = plan.tasks(t);
      if (data[t]) continue;
      bool brings = task.kind() == plan::Task::SOURCE
                        ? !absl::StartsWith(task.binding(), "counter:")
                        : task.inputs_size() != 0;
      for (const plan::InputPort& port : task.inputs()) {
        const int from = producer[port.register_()];
        brings = brings && from >= 0 && data[from];
      }
      if (!brings) continue;
      data[t] = changed = true;
    }
  }
  return data;
}

}  // namespace weft::runtime
