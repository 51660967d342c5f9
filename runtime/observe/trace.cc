#include "runtime/observe/trace.h"

#include <algorithm>

namespace weft::runtime {

std::vector<ActRecord> WorkerTrace::Records() const {
  std::vector<ActRecord> result;
  size_t size = records_.size();
  size_t n = static_cast<size_t>(std::min<uint64_t>(added_, size));
  for (size_t i = 0; i < n; ++i) {
    result.push_back(records_[(next_ + size - n + i) % size]);
  }
  return result;
}

std::vector<WorkerTrace*> TraceLog::AddProgram(const plan::Plan& plan) {
  auto program = std::make_unique<Program>();
  program->plan = plan;
  std::vector<WorkerTrace*> result;
  for (uint32_t w = 0; w < plan.workers(); ++w) {
    program->workers.push_back(std::make_unique<WorkerTrace>(
        options_.first_step, options_.last_step, options_.records_per_worker));
    result.push_back(program->workers.back().get());
  }
  programs_.push_back(std::move(program));
  return result;
}

}  // namespace weft::runtime
