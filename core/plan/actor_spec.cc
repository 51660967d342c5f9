#include "core/plan/actor_spec.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace weft::plan {

namespace {

actor::InputSpec ToInput(const PlanView& view, const InputPort& in,
                         const ActorSpecOptions& options) {
  const uint32_t r = in.register_();
  const uint32_t root = view.root(r);
  actor::InputSpec spec;
  spec.reg = r;
  spec.copies = view.reg(r).copies();
  spec.producer = ActorIdOf(view, view.producer(root).task, options);
  spec.ack_register = root;
  spec.ack_divisor = view.slices(r);
  spec.pattern = in.pattern().acts();
  spec.aliased = in.aliased();
  return spec;
}

actor::OutputSpec ToOutput(const PlanView& view, const OutputPort& out,
                           const ActorSpecOptions& options) {
  const uint32_t r = out.register_();
  actor::OutputSpec spec;
  spec.reg = r;
  spec.copies = view.reg(r).copies();
  spec.acks_per_copy = view.reg(r).acks_per_copy();
  spec.pattern = out.pattern().acts();
  spec.alias = view.reg(r).alias_of() != 0;
  for (Use reader : view.readers(r)) {
    spec.readers.push_back(
        {ActorIdOf(view, reader.task, options), view.reads_on_host(reader)});
  }
  return spec;
}

void AddChannelPorts(const PlanView& view, const Task& task,
                     actor::ActorSpec* a) {
  if (task.channel() == 0) return;
  const uint32_t c = task.channel() - 1;
  const uint32_t copies = view.proto().channels(static_cast<int>(c)).copies();
  const auto gives = [&](uint32_t reg) {
    actor::OutputSpec out;
    out.reg = reg;
    out.copies = copies;
    out.readers = {{FarEnd(view, c), /*host=*/true}};
    a->outputs.push_back(std::move(out));
  };
  const auto takes = [&](uint32_t reg) {
    actor::InputSpec in;
    in.reg = reg;
    in.copies = copies;
    in.producer = FarEnd(view, c);
    in.aliased = true;  // no ACK
    a->inputs.push_back(std::move(in));
  };
  if (task.kind() == Task::POST) gives(CreditRegister(view, c));
  if (task.kind() == Task::RECV) takes(DataRegister(view, c));
  if (task.kind() == Task::SEND) {
    takes(CreditRegister(view, c));
    gives(DataRegister(view, c));
  }
}

}  // namespace

actor::ActorId FarEnd(const PlanView& view, uint32_t c) {
  return actor::ActorId::Make(view.proto().channels(static_cast<int>(c)).peer(),
                              0, c);
}

actor::ActorId ActorIdOf(const PlanView& view, uint32_t t,
                         const ActorSpecOptions& options) {
  return actor::ActorId::Make(options.rank, view.task(t).stream(),
                              options.first_index + t);
}

absl::StatusOr<actor::TableSpec> PlanToActorSpec(
    const PlanView& view, const ActorSpecOptions& options) {
  const Plan& plan = view.proto();
  const uint64_t last = uint64_t{options.first_index} + view.num_tasks();
  if (last > uint64_t{1} << actor::ActorId::kIndexBits ||
      options.rank >> actor::ActorId::kRankBits != 0) {
    return MakeError(ErrorCode::kBadPlan,
                     absl::StrCat("rank ", options.rank, " or task ids up to ",
                                  last, " do not fit into an actor id"));
  }
  auto wanted = [&](uint32_t stream) {
    return options.worker == kAllWorkers ||
           plan.streams(stream).worker() == options.worker;
  };
  actor::TableSpec spec;
  std::vector<uint32_t> local(view.num_tasks(), 0);
  for (uint32_t t = 0; t < view.num_tasks(); ++t) {
    const Task& task = view.task(t);
    if (!wanted(task.stream())) continue;
    local[t] = static_cast<uint32_t>(spec.actors.size());
    actor::ActorSpec a;
    a.id = ActorIdOf(view, t, options);
    a.kind = static_cast<actor::ActorKind>(task.kind());
    a.name = task.name();
    a.acts_per_period = task.acts_per_period();
    for (const InputPort& in : task.inputs()) {
      a.inputs.push_back(ToInput(view, in, options));
    }
    for (const OutputPort& out : task.outputs()) {
      a.outputs.push_back(ToOutput(view, out, options));
    }
    if (options.channels) AddChannelPorts(view, task, &a);
    spec.actors.push_back(std::move(a));
  }
  for (int s = 0; s < plan.streams_size(); ++s) {
    if (!wanted(s)) continue;
    actor::StreamSpec stream;
    stream.rank = options.rank;
    stream.stream = s;
    stream.ordered = plan.streams(s).ordered();
    const auto device = static_cast<int>(plan.streams(s).device());
    stream.done_at_launch =
        options.worker != kAllWorkers && plan.devices(device).inline_();
    for (uint32_t t : plan.streams(s).order()) {
      stream.order.push_back(local[t]);
    }
    spec.streams.push_back(std::move(stream));
  }
  return spec;
}

}  // namespace weft::plan
