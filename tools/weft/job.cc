#include "tools/weft/job.h"

#include <cmath>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/pipeline/schedule.h"
#include "core/base/error.h"
#include "core/base/pattern.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"
#include "core/base/utf8.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "tools/weft/job_data.h"
#include "tools/weft/ranks.h"

namespace weft {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

constexpr uint64_t kMaxJobBytes = 4 << 20;
constexpr uint64_t kMaxSteps = uint64_t{1} << 40;
constexpr uint32_t kMaxThreads = 1024;

std::vector<std::string> FieldNames(const Descriptor* message) {
  std::vector<std::string> names;
  for (int i = 0; i < message->field_count(); ++i) {
    names.push_back(message->field(i)->name());
  }
  return names;
}

// Finds the message type that protobuf's text names ("weft.job.Data").
const Descriptor* FindMessage(absl::string_view full_name) {
  return job::Job::descriptor()->file()->pool()->FindMessageTypeByName(
      std::string(full_name));
}

// `Message type "weft.job.Job" has no field named "epoch".`
bool ParseNoField(absl::string_view text, std::string* type,
                  std::string* field) {
  std::vector<std::string> parts = absl::StrSplit(text, '"');
  if (parts.size() < 5 || !absl::StrContains(parts[2], "has no field named")) {
    return false;
  }
  *type = parts[1];
  *field = parts[3];
  return true;
}

// Keeps the first error, as a typed one.
class JobErrors : public google::protobuf::io::ErrorCollector {
 public:
  explicit JobErrors(absl::string_view name) : name_(name) {}

  void AddError(int line, int column, const std::string& message) override {
    if (!status_.ok()) return;
    std::string place =
        line < 0 ? std::string(name_)
                 : absl::StrCat(name_, ":", line + 1, ":", column + 1);
    std::string type, field;
    if (ParseNoField(message, &type, &field)) {
      const Descriptor* descriptor = FindMessage(type);
      std::string hint =
          descriptor ? DidYouMean(field, FieldNames(descriptor)) : "";
      status_ =
          MakeError(ErrorCode::kUnknownField,
                    absl::StrCat(place, ": no field '", field, "' in ",
                                 descriptor ? descriptor->name() : type, hint));
    } else {
      status_ =
          MakeError(ErrorCode::kBadValue, absl::StrCat(place, ": ", message));
    }
  }

  absl::Status status() const {
    return status_.ok() ? MakeError(ErrorCode::kBadValue,
                                    absl::StrCat(name_, ": cannot be parsed"))
                        : status_;
  }

 private:
  absl::string_view name_;
  absl::Status status_;
};

// Protobuf lets the last of two equal keys win.
absl::Status CheckArgsOnce(absl::string_view name, const job::Job& job) {
  if (!job.model().has_builtin()) return absl::OkStatus();
  const job::Builtin& builtin = job.model().builtin();
  const FieldDescriptor* args =
      job::Builtin::descriptor()->FindFieldByName("args");
  const FieldDescriptor* key = args->message_type()->map_key();
  const google::protobuf::Reflection* reflection = builtin.GetReflection();
  std::set<std::string> seen;
  // As they were written: nothing has read the field as a map yet.
  for (int i = 0; i < reflection->FieldSize(builtin, args); ++i) {
    const google::protobuf::Message& entry =
        reflection->GetRepeatedMessage(builtin, args, i);
    std::string text = entry.GetReflection()->GetString(entry, key);
    if (seen.insert(text).second) continue;
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat(name, ": model.builtin.args has the key '",
                                  absl::CEscape(text), "' twice"));
  }
  return absl::OkStatus();
}

constexpr uint64_t kMaxChunkElements = uint64_t{1} << 40;
// What shm does not copy when it is sent: a larger SEND waits for its receiver
// and then for the sender, which computes meanwhile.
constexpr uint64_t kMappedBytes = 4097;
constexpr uint64_t kMaxMappedBytes = uint64_t{1} << 40;
constexpr uint32_t kMaxStages = 4096;

absl::Status Bad(absl::string_view message) {
  return MakeError(ErrorCode::kBadJob, message);
}

absl::Status ResolveModel(const std::string& path, job::Job* job) {
  job::Model* model = job->mutable_model();
  switch (model->kind_case()) {
    case job::Model::kBuiltin:
      return absl::OkStatus();
    case job::Model::kGraphText:
      if (model->graph_text().path().empty()) {
        return Bad("model.graph_text needs a path");
      }
      WEFT_RETURN_IF_ERROR(
          CheckPath(model->graph_text().path(), "model.graph_text.path"));
      model->mutable_graph_text()->set_path(
          AbsolutePath(path, model->graph_text().path()));
      return absl::OkStatus();
    case job::Model::KIND_NOT_SET:
      break;
  }
  return Bad("the job names no model: model { builtin { name: \"mlp\" } }");
}

// Micro-batches and logical shards are two names for one number here.
absl::Status ResolveBatch(job::Job* job) {
  if (!job->has_batch_size()) job->set_batch_size(128);
  if (job->batch_size() == 0) {
    return Bad("batch_size is 0, it must be at least 1");
  }
  uint32_t shards = job->logical_shards();
  if ((shards & (shards - 1)) != 0) {
    return Bad(absl::StrCat("logical_shards is ", shards,
                            ", it must be a power of two"));
  }
  if (shards != 0) {
    if (job->has_micro_batches() && job->micro_batches() != shards) {
      return Bad(absl::StrCat("micro_batches is ", job->micro_batches(),
                              " but logical_shards is ", shards,
                              "; leave micro_batches unset"));
    }
    job->set_micro_batches(shards);
  }
  if (!job->has_micro_batches()) job->set_micro_batches(1);
  if (job->micro_batches() == 0) {
    return Bad("micro_batches is 0, it must be at least 1");
  }
  if (job->batch_size() % job->micro_batches() != 0) {
    return Bad(absl::StrCat(
        "batch_size ", job->batch_size(), " is not a multiple of ",
        shards ? "logical_shards " : "micro_batches ", job->micro_batches()));
  }
  if (job->epochs() != 0 && job->steps() != 0) {
    return Bad(
        absl::StrCat("epochs (", job->epochs(), ") and steps (", job->steps(),
                     ") are both set; choose one (epochs: 0 unsets it)"));
  }
  // Beside steps an explicit 0 takes back the epochs of a file.
  if (job->steps() != 0) job->clear_epochs();
  if (job->steps() == 0 && !job->has_epochs()) job->set_epochs(1);
  if (job->steps() == 0 && job->epochs() == 0) {
    return Bad("epochs is 0 and steps is not set: nothing would be trained");
  }
  if (job->steps() > kMaxSteps) {
    return Bad(
        absl::StrCat("steps is ", job->steps(), ", at most ", kMaxSteps));
  }
  return absl::OkStatus();
}

absl::Status ResolveSchedule(job::Schedule* schedule) {
  if (schedule->kind_case() == job::Schedule::KIND_NOT_SET) {
    schedule->mutable_constant()->set_base(0.1f);
  }
  double base = 0;
  if (schedule->has_constant()) base = schedule->constant().base();
  if (schedule->has_cosine()) base = schedule->cosine().base();
  if (schedule->has_step()) {
    job::Step* step = schedule->mutable_step();
    base = step->base();
    if (step->step_size() == 0) {
      return Bad("schedule.step needs a step_size above 0");
    }
    if (!step->has_gamma()) step->set_gamma(0.1f);
    if (!(step->gamma() > 0) || !std::isfinite(step->gamma())) {
      return Bad(absl::StrCat("schedule.step.gamma is ", step->gamma(),
                              ", it must be above 0 and finite"));
    }
  }
  // Beyond this, counting would go below 0.
  for (const auto& [name, steps] :
       std::vector<std::pair<absl::string_view, uint64_t>>{
           {"constant.warmup_steps", schedule->constant().warmup_steps()},
           {"step.warmup_steps", schedule->step().warmup_steps()},
           {"step.step_size", schedule->step().step_size()},
           {"cosine.warmup_steps", schedule->cosine().warmup_steps()},
           {"cosine.total_steps", schedule->cosine().total_steps()}}) {
    if (steps <= kMaxSteps) continue;
    return Bad(absl::StrCat("optimizer.schedule.", name, " is ", steps,
                            ", at most ", kMaxSteps));
  }
  const float final_rate = schedule->cosine().final();
  if (!(final_rate >= 0) || !std::isfinite(final_rate)) {
    return Bad(absl::StrCat("schedule.cosine.final is ", final_rate,
                            ", expected 0 or more"));
  }
  if (!(base > 0) || !std::isfinite(base)) {
    return Bad(absl::StrCat("optimizer.schedule: base is ", base,
                            ", it must be above 0 and finite"));
  }
  return absl::OkStatus();
}

absl::Status CheckAdam(const job::Adam& adam, absl::string_view name) {
  auto share = [](float x) { return x >= 0 && x < 1; };
  if (!share(adam.beta1()) || !share(adam.beta2()) || !(adam.epsilon() > 0) ||
      !std::isfinite(adam.epsilon())) {
    return Bad(absl::StrCat("optimizer.", name, ": beta1 is ", adam.beta1(),
                            ", beta2 ", adam.beta2(), ", epsilon ",
                            adam.epsilon(),
                            "; expected [0, 1), [0, 1) and a number above 0"));
  }
  return absl::OkStatus();
}

absl::Status CheckDecay(float decay) {
  if (decay >= 0 && std::isfinite(decay)) return absl::OkStatus();
  return Bad(absl::StrCat("optimizer: weight_decay is ", decay,
                          ", expected 0 or more"));
}

void DefaultAdam(job::Adam* adam) {
  if (!adam->has_beta1()) adam->set_beta1(0.9f);
  if (!adam->has_beta2()) adam->set_beta2(0.999f);
  if (!adam->has_epsilon()) adam->set_epsilon(1e-8f);
}

absl::Status ResolveOptimizer(job::Job* job) {
  job::Optimizer* optimizer = job->mutable_optimizer();
  if (optimizer->kind_case() == job::Optimizer::KIND_NOT_SET) {
    optimizer->mutable_sgd()->set_momentum(0.9f);
  }
  if (optimizer->has_adam()) DefaultAdam(optimizer->mutable_adam());
  if (optimizer->has_adamw()) DefaultAdam(optimizer->mutable_adamw());
  if (optimizer->has_adagrad() && !optimizer->adagrad().has_epsilon()) {
    optimizer->mutable_adagrad()->set_epsilon(1e-10f);
  }
  const float epsilon = optimizer->adagrad().epsilon();
  if (optimizer->has_adagrad() && (!(epsilon > 0) || !std::isfinite(epsilon))) {
    return Bad(absl::StrCat("optimizer.adagrad.epsilon is ", epsilon,
                            ", expected a number above 0"));
  }
  if (optimizer->has_adam()) {
    WEFT_RETURN_IF_ERROR(CheckAdam(optimizer->adam(), "adam"));
  }
  if (optimizer->has_adamw()) {
    WEFT_RETURN_IF_ERROR(CheckAdam(optimizer->adamw(), "adamw"));
  }
  for (float decay :
       {optimizer->sgd().weight_decay(), optimizer->adam().weight_decay(),
        optimizer->adamw().weight_decay(),
        optimizer->adagrad().weight_decay()}) {
    WEFT_RETURN_IF_ERROR(CheckDecay(decay));
  }
  const job::Sgd& sgd = optimizer->sgd();
  if (!(sgd.momentum() >= 0 && sgd.momentum() < 1)) {
    return Bad(absl::StrCat("optimizer.sgd.momentum is ", sgd.momentum(),
                            ", expected [0, 1)"));
  }
  if (sgd.nesterov() && sgd.momentum() == 0) {
    return Bad("optimizer.sgd: nesterov needs a momentum");
  }
  if (!(optimizer->clip_norm() >= 0) ||
      !std::isfinite(optimizer->clip_norm())) {
    return Bad(absl::StrCat("optimizer.clip_norm is ", optimizer->clip_norm(),
                            ", expected 0 (off) or a number above it"));
  }
  return ResolveSchedule(optimizer->mutable_schedule());
}

// Of a directory, and of what people read.
absl::Status CheckName(const std::string& name) {
  auto refuse = [&name](absl::string_view why) {
    return Bad(absl::StrCat("name '", absl::CEscape(name), "' ", why,
                            ": it names a directory"));
  };
  if (name[0] == '.') return refuse("may not start with a dot");
  for (char c : name) {
    if (c == '/' || absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      return refuse("may not have a slash or a control character");
    }
  }
  if (!IsUtf8(name)) return refuse("is not UTF-8");
  return absl::OkStatus();
}

absl::Status ResolveDynamic(job::DynamicLossScale* scale) {
  const std::string where = "precision.loss_scale.dynamic.";
  if (!scale->has_init_scale()) scale->set_init_scale(65536);
  if (!scale->has_growth_factor()) scale->set_growth_factor(2);
  if (!scale->has_backoff_factor()) scale->set_backoff_factor(0.5f);
  if (!scale->has_growth_interval()) scale->set_growth_interval(2000);
  if (!(scale->init_scale() >= 1) || !std::isfinite(scale->init_scale())) {
    return Bad(absl::StrCat(where, "init_scale is ", scale->init_scale(),
                            ", expected at least 1 and finite"));
  }
  const float growth = scale->growth_factor();
  if (!(growth > 1) || !std::isfinite(growth)) {
    return Bad(absl::StrCat(where, "growth_factor is ", growth,
                            ", expected above 1 and finite"));
  }
  const float backoff = scale->backoff_factor();
  if (!(backoff > 0 && backoff < 1)) {
    return Bad(absl::StrCat(where, "backoff_factor is ", backoff,
                            ", expected between 0 and 1"));
  }
  // Counted in f32.
  constexpr uint32_t kMost = 1u << 24;
  if (scale->growth_interval() == 0 || scale->growth_interval() > kMost) {
    return Bad(absl::StrCat(where, "growth_interval is ",
                            scale->growth_interval(), ", expected 1 to ",
                            kMost));
  }
  return absl::OkStatus();
}

absl::Status ResolvePrecision(job::Precision* precision) {
  const bool f16 = precision->compute() == job::Precision::F16;
  if (f16 && !precision->has_loss_scale()) {
    precision->mutable_loss_scale()->mutable_dynamic();
  }
  if (!precision->has_loss_scale()) return absl::OkStatus();
  job::LossScale* scale = precision->mutable_loss_scale();
  if (scale->has_fixed()) {
    // Its inverse must be a number too.
    constexpr float kLeast = 1.0f / (1 << 24), kMost = 1 << 30;
    if (scale->fixed() >= kLeast && scale->fixed() <= kMost) {
      return absl::OkStatus();
    }
    return Bad(absl::StrCat("precision.loss_scale.fixed is ", scale->fixed(),
                            ", expected 2^-24 to 2^30"));
  }
  return ResolveDynamic(scale->mutable_dynamic());
}

absl::Status CheckPattern(const std::string& pattern, absl::string_view field) {
  return Annotate(Pattern::Compile(pattern).status(), field);
}

absl::Status CheckPatterns(const job::Job& job) {
  const job::Optimizer& optimizer = job.optimizer();
  for (const std::string& pattern :
       {optimizer.sgd().decay_exclude(), optimizer.adam().decay_exclude(),
        optimizer.adamw().decay_exclude(),
        optimizer.adagrad().decay_exclude()}) {
    WEFT_RETURN_IF_ERROR(CheckPattern(pattern, "optimizer: decay_exclude"));
  }
  for (const job::Placement& p : job.placement()) {
    WEFT_RETURN_IF_ERROR(CheckPattern(p.scope(), "placement.scope"));
  }
  for (const job::Sharding& s : job.sharding()) {
    WEFT_RETURN_IF_ERROR(CheckPattern(s.value(), "sharding.value"));
  }
  return absl::OkStatus();
}

absl::Status ResolvePipeline(job::Pipeline* pipeline) {
  if (pipeline->stages() > kMaxStages) {
    return Bad(absl::StrCat("pipeline.stages is ", pipeline->stages(),
                            ", at most ", kMaxStages, " are possible"));
  }
  if (pipeline->stages() > 0 && pipeline->schedule().empty()) {
    pipeline->set_schedule(std::string(Name(PipelineSchedule::k1F1B)));
  }
  if (pipeline->schedule().empty()) return absl::OkStatus();
  return PipelineScheduleNamed(pipeline->schedule()).status();
}

// What the format has and this version does not do yet: refused, not ignored.
absl::Status CheckSupported(const job::Job& job) {
  if (job.precision().wire() == job::Precision::F16) {
    return Bad("precision.wire is F16; F32 and BF16 are available");
  }
  if (job.precision().wire() == job::Precision::BF16 &&
      job.logical_shards() != 0) {
    return Bad(absl::StrCat(
        "precision.wire is BF16, which rounds what ranks "
        "send; logical_shards is ",
        job.logical_shards(), ", which promises the bits of one rank"));
  }
  if (!job.observe().http().empty()) {
    return Bad("observe.http is not available");
  }
  return absl::OkStatus();
}

// "100-110". That the run has these steps is known later (training_run.cc).
absl::Status CheckTraceSteps(const std::string& text) {
  uint64_t first, last;
  if (text.empty() || ParseTraceSteps(text, &first, &last)) {
    return absl::OkStatus();
  }
  return Bad(absl::StrCat("observe.trace_steps is '", text,
                          "', expected first-last, such as 100-110"));
}

// "a.b.c" -> text of nested messages with `value` as the innermost field.
absl::StatusOr<std::string> NestedText(absl::string_view path,
                                       absl::string_view value,
                                       absl::string_view origin) {
  std::vector<std::string> parts = absl::StrSplit(path, '.');
  const Descriptor* message = job::Job::descriptor();
  std::string open, close;
  for (size_t i = 0; i < parts.size(); ++i) {
    const FieldDescriptor* field = message->FindFieldByName(parts[i]);
    if (field == nullptr) {
      return MakeError(ErrorCode::kUnknownField,
                       absl::StrCat(origin, " ", path, ": no field '", parts[i],
                                    "' in ", message->name(),
                                    DidYouMean(parts[i], FieldNames(message))));
    }
    bool last = i + 1 == parts.size();
    if (field->is_map() && i + 2 == parts.size()) {
      return absl::StrCat(open, parts[i], " { key: \"",
                          absl::CEscape(parts[i + 1]), "\" value: \"",
                          absl::CEscape(value), "\" }", close);
    }
    if (field->is_repeated()) {
      // Each would add one more, with this field alone.
      return MakeError(ErrorCode::kBadValue,
                       absl::StrCat(origin, " ", path, ": '", parts[i],
                                    "' is a list; write it in the job file"));
    }
    bool is_message = field->type() == FieldDescriptor::TYPE_MESSAGE;
    if (is_message == last) {
      return MakeError(ErrorCode::kBadValue,
                       absl::StrCat(origin, " ", path, ": '", parts[i],
                                    last ? "' is a group of fields"
                                         : "' has no fields of its own"));
    }
    if (!last) {
      absl::StrAppend(&open, parts[i], " { ");
      close.append(" }");
      message = field->message_type();
      continue;
    }
    std::string text(value);
    if (field->type() != FieldDescriptor::TYPE_STRING) {
      // One value, not the start of further fields.
      for (char c : value) {
        if (absl::ascii_isalnum(c) || absl::StrContains("+-._", c)) continue;
        return MakeError(ErrorCode::kBadValue,
                         absl::StrCat(origin, " ", path, ": '", value,
                                      "' is not one value"));
      }
    }
    if (field->type() == FieldDescriptor::TYPE_STRING) {
      text = absl::StrCat("\"", absl::CEscape(value), "\"");
    }
    return absl::StrCat(open, parts[i], ": ", text, close);
  }
  return MakeError(ErrorCode::kBadValue, absl::StrCat(origin, ": empty path"));
}

}  // namespace

bool ParseTraceSteps(absl::string_view text, uint64_t* first, uint64_t* last) {
  std::vector<absl::string_view> parts = absl::StrSplit(text, '-');
  return parts.size() <= 2 && absl::SimpleAtoi(parts[0], first) &&
         absl::SimpleAtoi(parts.back(), last) && *first <= *last;
}

absl::StatusOr<job::Job> ParseJob(absl::string_view name,
                                  const std::string& text) {
  JobErrors errors(name);
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  job::Job job;
  if (!parser.ParseFromString(text, &job)) return errors.status();
  WEFT_RETURN_IF_ERROR(CheckArgsOnce(name, job));
  return job;
}

absl::Status SetField(absl::string_view assignment, absl::string_view origin,
                      job::Job* job) {
  std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(assignment, absl::MaxSplits('=', 1));
  if (!absl::StrContains(assignment, '=') || parts.first.empty()) {
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat(origin, " '", assignment,
                                  "': expected field=value, for example "
                                  "optimizer.sgd.momentum=0.9"));
  }
  WEFT_ASSIGN_OR_RETURN(std::string text,
                        NestedText(parts.first, parts.second, origin));
  std::string name = absl::StrCat(origin, " ", assignment);
  JobErrors errors(name);
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  if (!parser.MergeFromString(text, job)) return errors.status();
  // What was read is a list of entries, two of one key perhaps. As a map it has
  // the last one alone, and that is what will be printed.
  if (job->model().has_builtin()) {
    job->mutable_model()->mutable_builtin()->mutable_args();
  }
  return absl::OkStatus();
}

absl::Status ResolveJob(const std::string& path, job::Job* job) {
  if (job->name().empty()) {
    job->set_name(std::filesystem::path(path).stem().string());
  }
  WEFT_RETURN_IF_ERROR(CheckName(job->name()));
  WEFT_RETURN_IF_ERROR(CheckEnums(*job));
  WEFT_RETURN_IF_ERROR(CheckPatterns(*job));
  WEFT_RETURN_IF_ERROR(ResolveModel(path, job));
  WEFT_RETURN_IF_ERROR(ResolveData(path, job->mutable_data()));
  float smoothing = job->loss().softmax_cross_entropy().label_smoothing();
  if (!(smoothing >= 0 && smoothing < 1)) {
    return Bad(
        absl::StrCat("label_smoothing is ", smoothing, ", expected [0, 1)"));
  }
  job->mutable_loss()->mutable_softmax_cross_entropy();
  WEFT_RETURN_IF_ERROR(ResolveOptimizer(job));
  WEFT_RETURN_IF_ERROR(ResolveBatch(job));
  WEFT_RETURN_IF_ERROR(CheckSupported(*job));
  WEFT_RETURN_IF_ERROR(CheckMesh(*job));
  WEFT_RETURN_IF_ERROR(CheckTraceSteps(job->observe().trace_steps()));
  if (job->devices().empty()) job->set_devices("cpu");
  job::Eval* eval = job->mutable_eval();
  if (!eval->has_every_epochs()) eval->set_every_epochs(1);
  const std::string metrics =
      job->data().train().has_text() ? "perplexity" : "accuracy";
  if (eval->metrics().empty()) eval->set_metrics(metrics);
  if (eval->metrics() != metrics) {
    return Bad(absl::StrCat("eval.metrics is '", eval->metrics(),
                            "'; for this data there is: ", metrics));
  }
  job::Checkpoint* checkpoint = job->mutable_checkpoint();
  if (!checkpoint->has_keep()) checkpoint->set_keep(3);
  if (checkpoint->keep() < 2) {
    return Bad(absl::StrCat("checkpoint.keep is ", checkpoint->keep(),
                            "; at least 2 are kept"));
  }
  WEFT_RETURN_IF_ERROR(ResolvePrecision(job->mutable_precision()));
  job->mutable_observe();
  job->mutable_runtime();
  job::Collectives* collectives = job->mutable_collectives();
  if (collectives->algorithm().empty()) collectives->set_algorithm("auto");
  WEFT_RETURN_IF_ERROR(AlgorithmOfJob(*job).status());
  if (!collectives->has_mapped_bytes()) {
    collectives->set_mapped_bytes(kMappedBytes);
  }
  if (collectives->mapped_bytes() > kMaxMappedBytes) {
    return Bad(absl::StrCat("collectives.mapped_bytes is ",
                            collectives->mapped_bytes(), ", at most ",
                            kMaxMappedBytes, " make sense"));
  }
  if (collectives->chunk_elements() > kMaxChunkElements) {
    return Bad(absl::StrCat("collectives.chunk_elements is ",
                            collectives->chunk_elements(), ", at most ",
                            kMaxChunkElements, " make sense"));
  }
  WEFT_RETURN_IF_ERROR(ResolvePipeline(job->mutable_pipeline()));
  job::Guards* guards = job->mutable_guards();
  if (!guards->has_stop_on_nan()) guards->set_stop_on_nan(true);
  if (job->runtime().register_copies() > 64) {
    return Bad("runtime.register_copies is above 64");
  }
  const double recompute = job->runtime().recompute();
  if (!(recompute >= 0 && recompute <= 100)) {  // NaN too
    return Bad(absl::StrCat("runtime.recompute is ", recompute,
                            ", expected 0 to 100 percent of a step"));
  }
  if (job->runtime().threads() > kMaxThreads) {
    return Bad(absl::StrCat("runtime.threads is ", job->runtime().threads(),
                            ", at most ", kMaxThreads));
  }
  return absl::OkStatus();
}

absl::StatusOr<job::Job> LoadJob(Os& os, const std::string& path,
                                 const Environment& env,
                                 const std::vector<std::string>& sets) {
  absl::StatusOr<std::string> text = os.ReadFile(path, kMaxJobBytes);
  if (!text.ok()) {
    return MakeError(ErrorCode::kBadJob, text.status().message());
  }
  WEFT_ASSIGN_OR_RETURN(job::Job job, ParseJob(path, *text));
  for (const WeftVariable& variable : WeftVariables()) {
    std::optional<std::string> value = env.Get(std::string(variable.name));
    if (variable.job_field.empty() || !value.has_value()) continue;
    WEFT_RETURN_IF_ERROR(SetField(absl::StrCat(variable.job_field, "=", *value),
                                  variable.name, &job));
  }
  for (const std::string& set : sets) {
    WEFT_RETURN_IF_ERROR(SetField(set, "--set", &job));
  }
  WEFT_RETURN_IF_ERROR(Annotate(ResolveJob(path, &job), path));
  return job;
}

}  // namespace weft
