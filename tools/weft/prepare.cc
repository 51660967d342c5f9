#include "tools/weft/prepare.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "runtime/data/image_data.h"
#include "runtime/data/text_data.h"
#include "runtime/pool/cores.h"
#include "runtime/registers/memory.h"
#include "runtime/session/device_oracle.h"
#include "tools/weft/address_space.h"
#include "tools/weft/job.h"
#include "tools/weft/memory_limit.h"

namespace weft {
namespace {

absl::StatusOr<data::ImageData> LoadIdx(Os& os, const job::Idx& idx) {
  WEFT_ASSIGN_OR_RETURN(data::ImageData images,
                        data::LoadImageData(os, idx.images(), idx.labels()));
  if (images.image.num_elements() == 0) {
    return MakeError(
        ErrorCode::kDataFormat,
        absl::StrCat("'", idx.images(), "' has images of shape ",
                     images.image.ToString(), ", without any pixel"));
  }
  return images;
}

data::ReaderOptions TrainReader(const job::Job& job, const RankShare& share) {
  data::ReaderOptions options;
  options.batch = job.batch_size();
  options.micro_batches = share.all_micro_batches;
  options.first_micro_batch = share.first_micro_batch();
  options.seed = job.seed();
  options.shuffle = job.data().shuffle();
  options.tail = job.data().tail() == job::Data::DROP ? data::Tail::kDrop
                                                      : data::Tail::kCarry;
  return options;
}

// Evaluation runs with the micro-batch of training: one model, one shape.
data::ReaderOptions EvalReader(const job::Job& job, const RankShare& share) {
  data::ReaderOptions options;
  options.batch = job.batch_size() / share.all_micro_batches;
  options.training = false;
  return options;
}

absl::Status LoadImages(Os& os, const job::Data& data, Prepared* out) {
  const job::Idx& idx = data.train().idx();
  WEFT_ASSIGN_OR_RETURN(data::ImageData train, LoadIdx(os, idx));
  out->info.image = train.image;
  out->info.classes = data::CountClasses(train);
  out->fingerprint = train.fingerprint;
  out->read_seconds = train.inflate_seconds;
  out->train_data = std::make_unique<data::ImageData>(std::move(train));
  if (!data.has_eval()) return absl::OkStatus();
  const job::Idx& eval_idx = data.eval().idx();
  WEFT_ASSIGN_OR_RETURN(data::ImageData eval, LoadIdx(os, eval_idx));
  if (eval.image != out->info.image) {
    return MakeError(
        ErrorCode::kDataFormat,
        absl::StrCat("images of '", eval_idx.images(), "' are ",
                     eval.image.ToString(), ", those of '", idx.images(), "' ",
                     out->info.image.ToString()));
  }
  out->read_seconds += eval.inflate_seconds;
  out->eval_data = std::make_unique<data::ImageData>(std::move(eval));
  return absl::OkStatus();
}

// Before it is read: a control group would end the process without a word.
absl::Status CheckTextFits(Os& os, const data::TextOptions& options) {
  WEFT_ASSIGN_OR_RETURN(uint64_t bytes, data::TextBytes(os, options.path));
  if (!options.eval_path.empty()) {
    WEFT_ASSIGN_OR_RETURN(uint64_t more,
                          data::TextBytes(os, options.eval_path));
    bytes += more;
  }
  const MemoryLimit limit = HostMemoryLimit(os);
  if (bytes <= limit.bytes / data::kTextCopies) return absl::OkStatus();
  return MakeError(ErrorCode::kOutOfMemory,
                   absl::StrCat("the text of '", options.path, "' has ", bytes,
                                " bytes and takes ", data::kTextCopies,
                                " times as much to encode; ", limit.name,
                                " leaves ", limit.bytes));
}

absl::Status LoadText(Os& os, const job::Data& data, bool check_memory,
                      Prepared* out) {
  const job::Text& train = data.train().text();
  data::TextOptions options;
  options.path = train.path();
  options.eval_path = data.eval().text().path();
  options.eval_fraction = train.eval_fraction();
  options.context = train.context();
  options.stride = train.stride();
  if (train.has_bpe()) options.vocabulary = train.bpe().size();
  if (check_memory) WEFT_RETURN_IF_ERROR(CheckTextFits(os, options));
  WEFT_ASSIGN_OR_RETURN(data::TextData text, data::LoadTextData(os, options));
  out->info.context = options.context;
  out->info.classes = text.vocabulary.size();
  out->fingerprint = text.fingerprint;
  out->read_seconds = text.read_seconds;
  out->eval_bytes = text.eval_bytes;
  out->train_data = std::move(text.train);
  out->eval_data = std::move(text.eval);
  return absl::OkStatus();
}

// What messages about a data set name.
const std::string& ImagesOf(const job::Dataset& set) {
  return set.has_idx() ? set.idx().images() : set.text().path();
}
const std::string& LabelsOf(const job::Dataset& set) {
  return set.has_idx() ? set.idx().labels() : set.text().path();
}

absl::Status LoadData(const TrainOptions& options, Prepared* out) {
  const job::Job& job = out->job;
  const job::Data& data = job.data();
  WEFT_RETURN_IF_ERROR(
      data.train().has_text()
          ? LoadText(*options.os, data, options.check_memory, out)
          : LoadImages(*options.os, data, out));
  WEFT_RETURN_IF_ERROR(data::CheckBatch(*out->train_data, job.batch_size(),
                                        ImagesOf(data.train())));
  out->train_reader = std::make_unique<data::BatchReader>(
      out->train_data.get(), TrainReader(job, out->share));
  out->total_steps = job.steps() != 0
                         ? static_cast<int64_t>(job.steps())
                         : out->train_reader->StepsOf(job.epochs());
  out->info.total_steps = out->total_steps;
  out->info.has_eval = out->eval_data != nullptr;
  if (out->eval_data == nullptr) return absl::OkStatus();
  out->eval_reader = std::make_unique<data::BatchReader>(
      out->eval_data.get(), EvalReader(job, out->share));
  return absl::OkStatus();
}

// A text that is split has both parts in one file.
absl::Status CheckAllLabels(const Prepared& prepared) {
  const job::Data& data = prepared.job.data();
  int64_t classes = prepared.programs.classes;
  WEFT_RETURN_IF_ERROR(
      prepared.train_data->CheckClasses(classes, LabelsOf(data.train())));
  if (prepared.eval_data == nullptr) return absl::OkStatus();
  return prepared.eval_data->CheckClasses(
      classes, LabelsOf(data.has_eval() ? data.eval() : data.train()));
}

// Before anything of that size is allocated. All ranks of a host take as much.
absl::Status CheckMemory(Os& os, const RankLink& link,
                         const Prepared& prepared) {
  const std::vector<Device*> devices = prepared.devices.pointers();
  // What the session will reserve, and nothing else.
  runtime::SessionMemory memory(devices);
  for (const auto& [name, plan] : prepared.programs.plans) {
    WEFT_RETURN_IF_ERROR(memory.Reserve(plan).status());
  }
  // This process holds the state once more on its way to and from checkpoints,
  // and the memory of devices that is the host's.
  uint64_t host = StateBytes(prepared.programs.training());
  std::vector<std::string> here;
  for (size_t d = 0; d < devices.size(); ++d) {
    const uint64_t planned = memory.PlannedBytes(static_cast<int>(d));
    const uint64_t there = devices[d]->info().memory_bytes;
    if (there != 0 && planned > there) {
      return MakeError(ErrorCode::kOutOfMemory,
                       absl::StrCat(devices[d]->Name(), ": the plan takes ",
                                    planned, " bytes, the device has ", there));
    }
    if (!devices[d]->info().host_memory || planned == 0) continue;
    host += planned;
    here.push_back(devices[d]->Name());
  }
  host *= link.ranks_of_host;
  const MemoryLimit limit = HostMemoryLimit(os);
  if (host <= limit.bytes) {
    return CheckAddressSpace(link.process ? host / link.ranks_of_host : host);
  }
  return MakeError(
      ErrorCode::kOutOfMemory,
      absl::StrCat(here.empty() ? "the host" : absl::StrJoin(here, ", "),
                   ": the plan and buffers take ", host, " bytes, ", limit.name,
                   " leaves ", limit.bytes));
}

// Devices of one kind may still compute other bits, as processors do that have
// other instructions: what they say of themselves tells.
absl::Status CompareDevices(const RankLink& link, Prepared* out) {
  if (link.rendezvous == nullptr) return absl::OkStatus();
  WEFT_ASSIGN_OR_RETURN(std::vector<std::string> kinds,
                        ComputeKinds(out->job.devices(), link.ranks));
  WEFT_ASSIGN_OR_RETURN(
      std::vector<std::string> names,
      link.rendezvous->AllGather(link.rank, "devices",
                                 out->devices.compute_info().name));
  for (size_t rank = 0; rank < kinds.size(); ++rank) {
    absl::StrAppend(&kinds[rank], ", ", names[rank]);
  }
  return TakeKinds(out->job, kinds, &out->share);
}

// Who can read whose memory. What is not first in the list may join no pair.
absl::Status CompareLocalities(const RankLink& link, Prepared* out) {
  if (link.rendezvous == nullptr) return absl::OkStatus();
  std::string mine;
  if (!link.transports.empty()) {
    const TransportInfo& info = link.transports[0].transport->info();
    if (info.shared_memory) mine = info.locality;
  }
  WEFT_ASSIGN_OR_RETURN(
      const std::vector<std::string> localities,
      link.rendezvous->AllGather(link.rank, "localities", mine));
  TakeLocalities(localities, &out->share);
  return absl::OkStatus();
}

}  // namespace

double Prepared::EpochOf(uint64_t step) const {
  return static_cast<double>(step) * job.batch_size() /
         static_cast<double>(train_data->size());
}

std::vector<std::string> TrainingMetrics(const job::Job& job) {
  std::vector<std::string> names = EvaluationMetrics(job);
  names.push_back("learning_rate");
  const bool scaled = job.precision().loss_scale().has_dynamic();
  if (job.optimizer().clip_norm() > 0 || scaled) names.push_back("grad_norm");
  if (scaled) {
    names.push_back(std::string(kLossScaleMetric));
    names.push_back("skipped_steps");
  }
  return names;
}

std::vector<std::string> EvaluationMetrics(const job::Job& job) {
  std::vector<std::string> names = {"loss", "weight"};
  if (!job.data().train().has_text()) names.push_back("correct");
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
  WEFT_ASSIGN_OR_RETURN(
      out->share, ShareOfRank(job, options.link.rank, options.link.ranks));
  out->threads = options.link.threads;
  // Threads of a process have one first core.
  out->binds = options.link.process || out->share.rank == 0;
  if (out->threads == nullptr) {
    WEFT_ASSIGN_OR_RETURN(
        out->own_threads,
        runtime::HostThreads::Install(*options.os, job.runtime().threads(),
                                      job.runtime().bind_threads()));
    out->threads = out->own_threads.get();
  }
  WEFT_ASSIGN_OR_RETURN(
      out->devices, JobDevices::Open(job.devices(), options.plugins,
                                     options.link.rank, options.link.ranks));
  WEFT_RETURN_IF_ERROR(CompareDevices(options.link, out.get()));
  WEFT_RETURN_IF_ERROR(CompareLocalities(options.link, out.get()));
  WEFT_RETURN_IF_ERROR(LoadData(options, out.get()));
  runtime::DeviceOracle oracle(out->devices.pointers());
  ProgramOptions program_options;
  program_options.dumps = options.dumps;
  program_options.launch_order_seed = options.launch_order_seed;
  program_options.share = out->share;
  if (options.check_memory) {
    program_options.max_state_bytes = HostMemoryLimit(*options.os).bytes;
    // Devices are asked about kernels first, which their libraries prepare for.
    WEFT_RETURN_IF_ERROR(CheckAddressSpace(0));
  }
  absl::StatusOr<Programs> programs =
      BuildPrograms(*options.os, job, out->info, out->devices.plan(),
                    out->devices.compute(), oracle, program_options);
  WEFT_RETURN_IF_ERROR(oracle.status());
  if (!programs.ok()) return programs.status();
  out->programs = *std::move(programs);
  if (options.check_memory) {
    WEFT_RETURN_IF_ERROR(CheckMemory(*options.os, options.link, *out));
  }
  WEFT_RETURN_IF_ERROR(CheckAllLabels(*out));
  return out;
}

uint32_t MaxWorkers(uint32_t cores, uint32_t ranks) {
  return cores / ranks <= 1 ? 1 : 0;
}

runtime::SessionOptions SessionOptionsOf(const TrainOptions& options,
                                         const Prepared& prepared) {
  runtime::SessionOptions session;
  session.on_worker_start = [&prepared](size_t worker) {
    if (worker == 0 && prepared.binds) {
      prepared.threads->BindCaller();
    }
  };
  session.ranks_on_cores = options.link.ranks_on_cores;
  session.max_workers =
      MaxWorkers(runtime::AvailableCores(*options.os), session.ranks_on_cores);
  return session;
}

}  // namespace weft
