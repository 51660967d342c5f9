#include "compiler/explain/explain.h"

#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"
#include "core/ops/schema.h"
#include "core/plan/plan.h"
#include "core/types/dtype.h"

namespace weft {
namespace {

using plan::Operand;
using plan::Task;

std::string TypeText(const plan::TensorDesc& tensor) {
  return absl::StrCat(DTypeName(static_cast<DType>(tensor.dtype())), "[",
                      absl::StrJoin(tensor.dims(), ","), "]");
}

// The end of a channel whose value does not travel; empty for others.
std::string InPlaceText(const plan::Plan& plan, const Task& task) {
  if (task.channel() == 0) return "";
  const auto channel = [&](uint32_t c) -> const plan::Channel& {
    return plan.channels(static_cast<int>(c) - 1);
  };
  const plan::Channel& at = channel(task.channel());
  const bool sends = task.kind() == Task::SEND;
  if (task.kind() == Task::POST || (at.read() == 0 && !at.lands())) return "";
  if (at.lands()) {
    return sends ? "a value left where another rank lent its memory"
                 : "a value that another rank left in memory lent to it";
  }
  if (channel(at.read()).lands()) {
    return sends ? "a value lent to another rank"
                 : "a value that another rank lends";
  }
  return sends ? "a value that another rank reads where it lies"
               : "a value of another rank, read where it lies";
}

std::string KindText(Task::Kind kind) {
  switch (kind) {
    case Task::SOURCE:
      return "a source, filled by the session";
    case Task::SINK:
      return "a sink, read by the session";
    case Task::VARIABLE:
      return "state";
    case Task::COPY:
      return "a copy";
    case Task::ACCUMULATE:
      return "a tree sum over micro-batches";
    case Task::SEND:
      return "a value sent to another rank";
    case Task::RECV:
      return "a value received from another rank";
    case Task::POST:
      return "memory posted for a value of another rank";
    default:
      return "a computation";
  }
}

// "fc1" names itself and all of "fc1/...".
bool Names(absl::string_view wanted, absl::string_view name) {
  return name == wanted ||
         (absl::StartsWith(name, wanted) && name[wanted.size()] == '/');
}

// A line of provenance that mentions the node as a whole word.
bool Mentions(absl::string_view line, absl::string_view wanted) {
  static constexpr absl::string_view kInName =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
  for (size_t at = line.find(wanted); at != absl::string_view::npos;
       at = line.find(wanted, at + 1)) {
    const size_t end = at + wanted.size();
    bool begins =
        at == 0 || !absl::StrContains(kInName, line.substr(at - 1, 1));
    bool ends = end == line.size() || line[end] == '/' ||
                !absl::StrContains(kInName, line.substr(end, 1));
    if (begins && ends) return true;
  }
  return false;
}

class Explainer {
 public:
  Explainer(const plan::PlanView& view, absl::string_view name)
      : view_(view), plan_(view.proto()), name_(name) {}

  absl::StatusOr<std::string> Run() {
    for (uint32_t t = 0; t < view_.num_tasks(); ++t) ExplainTask(t);
    if (out_.empty()) {
      for (uint32_t t = 0; t < view_.num_tasks(); ++t) FindMention(t);
    }
    if (!out_.empty()) return out_;
    const std::string hint = DidYouMean(name_, {names_.begin(), names_.end()});
    return MakeError(
        ErrorCode::kBadValue,
        absl::StrCat(
            "program '", plan_.program(), "' has no node '", name_, "'",
            hint.empty() ? absl::StrCat("; it has ", Outermost()) : hint));
  }

  // For who asked for no node.
  absl::Status Missing() {
    for (uint32_t t = 0; t < view_.num_tasks(); ++t) ExplainTask(t);
    return MakeError(
        ErrorCode::kBadValue,
        absl::StrCat("which node? Program '", plan_.program(), "' has ",
                     Outermost(), "; name one of them, or a node in it"));
  }

 private:
  // A node's name, and the scopes that it lies in.
  void AddName(const std::string& name) {
    names_.insert(name);
    for (size_t at = name.rfind('/'); at != std::string::npos && at > 0;
         at = name.rfind('/', at - 1)) {
      if (!names_.insert(name.substr(0, at)).second) return;
    }
  }

  // Nodes in no scope, and the outermost scopes: a few of them.
  std::string Outermost() const {
    constexpr size_t kShown = 20;
    std::vector<std::string> names;
    for (const std::string& name : names_) {
      // Not the chains, which are called after their ends: "fc1..loss".
      if (absl::StrContains(name, '/') || absl::StrContains(name, "..")) {
        continue;
      }
      names.push_back(name);
    }
    if (names.empty()) return "no nodes";
    if (names.size() <= kShown) return absl::StrJoin(names, ", ");
    const size_t more = names.size() - kShown;
    names.resize(kShown);
    return absl::StrCat(absl::StrJoin(names, ", "), " and ", more, " more");
  }

  void ExplainTask(uint32_t t) {
    const Task& task = view_.task(t);
    AddName(task.name());
    const bool kernels = task.kind() == Task::COMPUTE && task.ops_size() > 0;
    if (!kernels) {
      if (Names(name_, task.name())) ExplainActor(t);
      return;
    }
    for (int i = 0; i < task.ops_size(); ++i) {
      AddName(task.ops(i).node());
      if (Names(name_, task.ops(i).node())) ExplainOp(t, i);
    }
    if (task.ops_size() > 1 && task.name() == name_) ExplainActor(t);
  }

  void FindMention(uint32_t t) {
    const Task& task = view_.task(t);
    for (const std::string& line : task.provenance()) {
      if (!Mentions(line, name_)) continue;
      absl::StrAppend(&out_, "'", name_, "' has become part of task ",
                      view_.TaskName(t), "\n");
      Where(t);
      absl::StrAppend(&out_, "  why: ", line, "\n");
    }
  }

  void Where(uint32_t t) {
    const Task& task = view_.task(t);
    const plan::Stream& stream = view_.stream_of(t);
    absl::StrAppend(&out_, "  runs on ", plan_.devices(stream.device()).name(),
                    ", stream ", stream.name(),
                    stream.ordered() ? "" : " (as it becomes ready)",
                    ", worker ", stream.worker(), ", ",
                    task.acts_per_period() == 1
                        ? std::string("once")
                        : absl::StrCat(task.acts_per_period(), " times"),
                    " a step\n");
  }

  std::string From(uint32_t reg) const {
    return absl::StrCat("of task ", view_.TaskName(view_.producer(reg).task));
  }

  void ExplainActor(uint32_t t) {
    const Task& task = view_.task(t);
    const std::string in_place = InPlaceText(view_.proto(), task);
    absl::StrAppend(&out_, task.name(), ": ",
                    in_place.empty() ? KindText(task.kind()) : in_place,
                    ", task ", view_.TaskName(t), "\n");
    Where(t);
    for (const plan::InputPort& in : task.inputs()) {
      absl::StrAppend(&out_, "  reads ", RegisterText(in.register_()), " ",
                      From(in.register_()), "\n");
    }
    for (const plan::OutputPort& out : task.outputs()) {
      absl::StrAppend(&out_, "  gives ", RegisterText(out.register_()),
                      ReadersText(out.register_()), "\n");
    }
    for (const std::string& line : task.provenance()) {
      absl::StrAppend(&out_, "  why: ", line, "\n");
    }
  }

  std::string RegisterText(uint32_t r) const {
    const plan::Register& reg = plan_.registers(r);
    if (reg.tensors_size() == 0) return "an order signal";
    std::vector<std::string> tensors;
    for (const plan::TensorDesc& tensor : reg.tensors()) {
      tensors.push_back(absl::StrCat(tensor.value(), " ", TypeText(tensor)));
    }
    const bool peers = plan_.arenas(view_.reg(view_.root(r)).arena()).kind() ==
                       plan::Arena::PEER;
    return absl::StrCat(absl::StrJoin(tensors, ", "), " in memory of ",
                        peers ? "another rank's " : "",
                        plan_.devices(view_.memory_device(r)).name(), " (",
                        reg.copies(),
                        reg.copies() == 1 ? " copy)" : " copies)");
  }

  std::string ReadersText(uint32_t r) const {
    std::vector<std::string> readers;
    for (plan::Use use : view_.readers(r)) {
      readers.push_back(view_.TaskName(use.task));
    }
    if (readers.empty()) return ", read by nobody";
    return absl::StrCat(" to ", absl::StrJoin(readers, ", "));
  }

  std::string OperandText(const Task& task, const Operand& at,
                          const plan::TensorDesc& desc) const {
    switch (at.where()) {
      case Operand::ABSENT:
        return "nothing";
      case Operand::CONSTANT:
        return absl::StrCat(TypeText(desc), ", a constant");
      case Operand::SCRATCH:
        return absl::StrCat(TypeText(desc), " in scratch");
      case Operand::PRIVATE:
        return absl::StrCat(TypeText(desc), " in memory of its own");
      case Operand::INPUT: {
        const uint32_t r = task.inputs(at.index()).register_();
        return absl::StrCat(plan_.registers(r).tensors(at.tensor()).value(),
                            " ", TypeText(desc), " ", From(r));
      }
      default: {
        const uint32_t r = task.outputs(at.index()).register_();
        return absl::StrCat(TypeText(desc), ReadersText(r));
      }
    }
  }

  void ExplainOp(uint32_t t, int i) {
    const Task& task = view_.task(t);
    const plan::Op& op = task.ops(i);
    const plan::Kernel& kernel = plan_.kernels(op.kernel());
    absl::StrAppend(&out_, op.node(), ": ",
                    OpName(static_cast<OpId>(kernel.op())));
    if (task.ops_size() > 1) {
      absl::StrAppend(&out_, ", kernel ", i + 1, " of ", task.ops_size());
    }
    absl::StrAppend(&out_, " of task ", view_.TaskName(t), "\n");
    Where(t);
    for (int k = 0; k < op.inputs_size(); ++k) {
      absl::StrAppend(&out_, "  reads ",
                      OperandText(task, op.inputs(k), kernel.inputs(k)), "\n");
    }
    for (int k = 0; k < op.outputs_size(); ++k) {
      const bool in_place = op.outputs(k).where() == Operand::INPUT;
      absl::StrAppend(&out_, in_place ? "  replaces " : "  gives ",
                      OperandText(task, op.outputs(k), kernel.outputs(k)),
                      "\n");
    }
    Why(task, op.node());
  }

  // A chain's lines begin with the name of their node.
  void Why(const Task& task, absl::string_view node) {
    const std::string prefix = absl::StrCat("'", node, "': ");
    bool said = false;
    for (absl::string_view line : task.provenance()) {
      if (task.ops_size() > 1 && !absl::ConsumePrefix(&line, prefix)) continue;
      absl::StrAppend(&out_, "  why: ", line, "\n");
      said = said || absl::StartsWith(line, "placement:");
    }
    if (!said) {
      absl::StrAppend(&out_, "  why: placement: on the default device\n");
    }
  }

  const plan::PlanView& view_;
  const plan::Plan& plan_;
  const std::string name_;
  std::set<std::string> names_;  // of nodes and scopes
  std::string out_;
};

}  // namespace

absl::StatusOr<std::string> ExplainNode(const plan::Plan& plan,
                                        absl::string_view name) {
  WEFT_ASSIGN_OR_RETURN(plan::PlanView view, plan::PlanView::Create(&plan));
  if (name.empty()) return Explainer(view, name).Missing();
  return Explainer(view, name).Run();
}

}  // namespace weft
