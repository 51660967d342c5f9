#include "tools/weft/prepare.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "runtime/session/device_oracle.h"
#include "tools/weft/job.h"
#include "tools/weft/memory_limit.h"

namespace weft {
namespace {

absl::StatusOr<data::ImageData> LoadIdx(Os& os, const job::Idx& idx) {
  return data::LoadImageData(os, idx.images(), idx.labels());
}

data::ReaderOptions TrainReader(const job::Job& job) {
  data::ReaderOptions options;
  options.batch = job.batch_size();
  options.micro_batches = job.micro_batches();
  options.seed = job.seed();
  options.shuffle = job.data().shuffle();
  options.tail = job.data().tail() == job::Data::DROP ? data::Tail::kDrop
                                                      : data::Tail::kCarry;
  return options;
}

// Evaluation runs with the micro-batch of training: one model, one shape.
data::ReaderOptions EvalReader(const job::Job& job) {
  data::ReaderOptions options;
  options.batch = job.batch_size() / job.micro_batches();
  options.training = false;
  return options;
}

absl::Status LoadData(const TrainOptions& options, Prepared* out) {
  const job::Job& job = out->job;
  const job::Idx& train = job.data().train().idx();
  WEFT_ASSIGN_OR_RETURN(out->train_data, LoadIdx(*options.os, train));
  WEFT_RETURN_IF_ERROR(
      data::CheckBatch(out->train_data, job.batch_size(), train.images()));
  out->train_reader =
      std::make_unique<data::BatchReader>(&out->train_data, TrainReader(job));
  out->total_steps = job.steps() != 0
                         ? static_cast<int64_t>(job.steps())
                         : out->train_reader->StepsOf(job.epochs());
  if (!job.data().has_eval()) return absl::OkStatus();
  const job::Idx& eval = job.data().eval().idx();
  WEFT_ASSIGN_OR_RETURN(out->eval_data, LoadIdx(*options.os, eval));
  if (out->eval_data->image != out->train_data.image) {
    return MakeError(
        ErrorCode::kDataFormat,
        absl::StrCat("images of '", eval.images(), "' are ",
                     out->eval_data->image.ToString(), ", those of '",
                     train.images(), "' ", out->train_data.image.ToString()));
  }
  out->eval_reader =
      std::make_unique<data::BatchReader>(&*out->eval_data, EvalReader(job));
  return absl::OkStatus();
}

absl::Status CheckAllLabels(const Prepared& prepared) {
  const job::Data& data = prepared.job.data();
  int64_t classes = prepared.programs.classes;
  WEFT_RETURN_IF_ERROR(data::CheckLabels(prepared.train_data, classes,
                                         data.train().idx().labels()));
  if (!prepared.eval_data.has_value()) return absl::OkStatus();
  return data::CheckLabels(*prepared.eval_data, classes,
                           data.eval().idx().labels());
}

// What a session allocates on each device: one state for all programs, and the
// rest of the largest of them, since they overlay.
std::vector<uint64_t> PlannedBytes(const Prepared& prepared) {
  const size_t devices = prepared.devices.pointers().size();
  std::vector<uint64_t> state(devices), largest(devices);
  for (const auto& [name, plan] : prepared.programs.plans) {
    std::vector<uint64_t> own(devices);
    for (const plan::Arena& arena : plan.arenas()) {
      const uint32_t d = arena.device();
      if (arena.kind() == plan::Arena::STATE) {
        state[d] = std::max<uint64_t>(state[d], arena.bytes());
      } else {
        own[d] += arena.bytes();
      }
    }
    for (size_t d = 0; d < devices; ++d) {
      largest[d] = std::max(largest[d], own[d]);
    }
  }
  for (size_t d = 0; d < devices; ++d) state[d] += largest[d];
  return state;
}

// Before anything of that size is allocated.
absl::Status CheckMemory(Os& os, const Prepared& prepared) {
  const std::vector<uint64_t> planned = PlannedBytes(prepared);
  const std::vector<Device*> devices = prepared.devices.pointers();
  for (size_t d = 0; d < devices.size(); ++d) {
    const uint64_t there = devices[d]->info().memory_bytes;
    if (there == 0 || planned[d] <= there) continue;
    return MakeError(
        ErrorCode::kOutOfMemory,
        absl::StrCat(devices[d]->Name(), ": the plan takes ", planned[d],
                     " bytes, the device has ", there));
  }
  // The first device works in this process's memory, which also holds the
  // state once more on its way to and from checkpoints.
  const uint64_t host =
      planned[0] + StateBytes(prepared.programs.graphs.at("train"));
  const MemoryLimit limit = HostMemoryLimit(os);
  if (host <= limit.bytes) return absl::OkStatus();
  return MakeError(
      ErrorCode::kOutOfMemory,
      absl::StrCat(devices[0]->Name(), ": the plan and buffers take ", host,
                   " bytes, ", limit.name, " leaves ", limit.bytes));
}

}  // namespace

double Prepared::EpochOf(uint64_t step) const {
  return static_cast<double>(step) * job.batch_size() /
         static_cast<double>(train_data.samples);
}

std::vector<std::string> TrainingMetrics(const job::Job& job) {
  std::vector<std::string> names = {"loss", "weight", "correct",
                                    "learning_rate"};
  if (job.optimizer().clip_norm() > 0) names.push_back("grad_norm");
  return names;
}

absl::StatusOr<job::Job> ReadJob(const TrainOptions& options) {
  std::string path = options.job_path;
  if (path.empty()) path = JoinPath(options.resume, "resolved_job.txtpb");
  return LoadJob(*options.os, path, options.env, options.sets);
}

absl::StatusOr<std::unique_ptr<Prepared>> Prepare(const TrainOptions& options,
                                                  const job::Job& job) {
  auto out = std::make_unique<Prepared>();
  out->job = job;
  out->threads =
      runtime::HostThreads::Install(*options.os, job.runtime().threads());
  WEFT_ASSIGN_OR_RETURN(out->devices,
                        JobDevices::Open(job.devices(), options.plugins));
  WEFT_RETURN_IF_ERROR(LoadData(options, out.get()));
  DataInfo info;
  info.image = out->train_data.image;
  info.classes = data::CountClasses(out->train_data);
  info.total_steps = out->total_steps;
  info.has_eval = out->eval_data.has_value();
  runtime::DeviceOracle oracle(out->devices.pointers());
  ProgramOptions program_options;
  program_options.dumps = options.dumps;
  program_options.launch_order_seed = options.launch_order_seed;
  program_options.max_state_bytes = HostMemoryLimit(*options.os).bytes;
  absl::StatusOr<Programs> programs =
      BuildPrograms(*options.os, job, info, out->devices.plan(),
                    out->devices.compute(), oracle, program_options);
  WEFT_RETURN_IF_ERROR(oracle.status());
  if (!programs.ok()) return programs.status();
  out->programs = *std::move(programs);
  WEFT_RETURN_IF_ERROR(CheckMemory(*options.os, *out));
  WEFT_RETURN_IF_ERROR(CheckAllLabels(*out));
  return out;
}

}  // namespace weft
