#include "tools/weft/profiler.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/plan/kernel_cost.h"
#include "core/types/dtype.h"
#include "runtime/bus/futex_word.h"
#include "tools/weft/ceilings.h"
#include "tools/weft/scalar_sinks.h"

namespace weft {
namespace {

constexpr uint64_t kMostSteps = 1'000'000;

// Of the kernel with the most operations on a device, which is what its ceiling
// should be measured in. kInvalid where the device runs no kernel.
absl::StatusOr<DType> HeaviestType(const plan::Plan& plan, uint32_t device) {
  DType type = DType::kInvalid;
  double most = -1;
  for (const plan::Kernel& kernel : plan.kernels()) {
    if (kernel.device() != device) continue;
    WEFT_ASSIGN_OR_RETURN(Cost cost, plan::KernelCost(kernel));
    if (cost.flops <= most) continue;
    const DType first = kernel.inputs_size() == 0
                            ? DType::kInvalid
                            : static_cast<DType>(kernel.inputs(0).dtype());
    type = IsFloat(first) ? first : DType::kF32;
    most = cost.flops;
  }
  return type;
}

}  // namespace

absl::Status CheckWindow(const ProfileWindow& window) {
  if (window.steps != 0 && window.steps <= kMostSteps &&
      window.warm_up <= kMostSteps) {
    return absl::OkStatus();
  }
  return MakeError(ErrorCode::kBadValue,
                   absl::StrCat("a profile of ", window.steps, " steps after ",
                                window.warm_up, " others: 1 to ", kMostSteps,
                                " steps after at most ", kMostSteps));
}

absl::StatusOr<std::unique_ptr<Profiler>> Profiler::Create(
    const Prepared& prepared, const ProfileWindow& window) {
  WEFT_RETURN_IF_ERROR(CheckWindow(window));
  std::unique_ptr<Profiler> profiler(new Profiler(window));
  const plan::Plan& plan = prepared.programs.plans.at("train");
  const std::vector<Device*> devices = prepared.devices.pointers();
  for (uint32_t d = 0; d < devices.size(); ++d) {
    WEFT_ASSIGN_OR_RETURN(DType type, HeaviestType(plan, d));
    if (type == DType::kInvalid) continue;
    WEFT_ASSIGN_OR_RETURN(runtime::Ceiling most,
                          MeasureCeiling(devices[d], type));
    profiler->ceilings_.push_back(std::move(most));
  }
  return profiler;
}

uint64_t Profiler::NextStop(uint64_t first, uint64_t step) const {
  const uint64_t begin = first + window_.warm_up;
  if (step < begin) return begin;
  const uint64_t end = begin + window_.steps;
  return step < end ? end : ~uint64_t{0};
}

absl::StatusOr<uint64_t> Profiler::Run(runtime::Session* session,
                                       uint64_t first, uint64_t step,
                                       uint64_t steps,
                                       const runtime::RunOptions& run) {
  const uint64_t begin = first + window_.warm_up;
  const bool recorded = step >= begin && step < begin + window_.steps;
  if (recorded) log_.Start(runtime::NowNs());
  absl::StatusOr<uint64_t> done = session->Run("train", step, steps, run);
  if (recorded) log_.Stop(runtime::NowNs(), done.value_or(0));
  return done;
}

absl::StatusOr<runtime::ProfileReport> Profiler::Report() const {
  return runtime::MakeProfileReport(log_, ceilings_);
}

absl::StatusOr<runtime::ProfileReport> Profile(const TrainOptions& options,
                                               const ProfileWindow& window) {
  WEFT_RETURN_IF_ERROR(CheckWindow(window));
  WEFT_ASSIGN_OR_RETURN(job::Job job, ReadJob(options));
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Prepared> prepared,
                        Prepare(options, job));
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Profiler> profiler,
                        Profiler::Create(*prepared, window));
  std::fprintf(options.talk,
               "weft: %llu steps after %llu others, device %s, threads %u\n",
               static_cast<unsigned long long>(window.steps),
               static_cast<unsigned long long>(window.warm_up),
               prepared->devices.Describe().c_str(),
               prepared->threads->count());
  // The metrics are computed as in training, and go nowhere.
  ScalarSinks sinks(
      TrainingMetrics(job),
      [](uint64_t, const ScalarSinks::Values&) { return absl::OkStatus(); });
  runtime::SessionOptions session_options =
      SessionOptionsOf(options, *prepared);
  session_options.profile = profiler->log();
  WEFT_ASSIGN_OR_RETURN(
      auto session,
      runtime::Session::Create(prepared->devices.pointers(), session_options));
  runtime::Bindings train = sinks.bindings();
  train.sources["train"] = prepared->train_reader.get();
  const auto& plans = prepared->programs.plans;
  WEFT_RETURN_IF_ERROR(session->LoadProgram(plans.at("init"), {}));
  WEFT_RETURN_IF_ERROR(session->LoadProgram(plans.at("train"), train));
  WEFT_RETURN_IF_ERROR(session->Run("init", 0, 1).status());
  const uint64_t end = window.warm_up + window.steps;
  for (uint64_t step = 0; step < end;) {
    const uint64_t stop = profiler->NextStop(0, step);
    WEFT_ASSIGN_OR_RETURN(uint64_t done,
                          profiler->Run(session.get(), 0, step, stop - step));
    step += done;
  }
  return profiler->Report();
}

}  // namespace weft
