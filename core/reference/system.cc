#include "core/ops/learning_rate.h"
#include "core/reference/evaluators.h"

namespace weft {
namespace reference {
namespace {

absl::Status Copy(const OpView& op, absl::Span<const Tensor> in,
                  std::vector<Tensor>* out) {
  (*out)[0].v = in[0].v;
  return absl::OkStatus();
}

int ScheduleOf(const OpView& op) {
  const std::string& schedule = op.String("schedule");
  if (schedule == "step") return WEFT_SCHEDULE_STEP;
  if (schedule == "cosine") return WEFT_SCHEDULE_COSINE;
  return WEFT_SCHEDULE_CONSTANT;
}

absl::Status LearningRate(const OpView& op, absl::Span<const Tensor> in,
                          std::vector<Tensor>* out) {
  auto step = static_cast<int64_t>(in[0].v[0]);
  (*out)[0].v[0] =
      WeftLearningRate(ScheduleOf(op), op.Float("base"), op.Int("warmup_steps"),
                       op.Int("total_steps"), op.Int("step_size"),
                       op.Float("gamma"), op.Float("final"), step);
  return absl::OkStatus();
}

}  // namespace

void AddSystemEvaluators(EvaluatorTable* table) {
  table->Add(OpId::kCopy, Copy);
  table->Add(OpId::kLearningRate, LearningRate);
}

}  // namespace reference
}  // namespace weft
