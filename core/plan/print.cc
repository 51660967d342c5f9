#include "core/plan/print.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/actor/kinds.h"
#include "core/actor/spec.h"
#include "core/ops/schema.h"
#include "core/plan/plan.h"
#include "core/types/dtype.h"

namespace weft::plan {

namespace {

// "7" and what is wrong with it is all that can be said of a bad index.
template <typename List>
std::string NameAt(const List& list, uint32_t i) {
  if (i >= static_cast<uint32_t>(list.size())) return absl::StrCat("?", i);
  return list.Get(static_cast<int>(i)).name();
}

std::string PrintTensor(const TensorDesc& tensor) {
  return absl::StrCat(tensor.value(), tensor.value().empty() ? "" : " ",
                      DTypeName(static_cast<DType>(tensor.dtype())), "[",
                      absl::StrJoin(tensor.dims(), ","), "]");
}

class Printer {
 public:
  Printer(const Plan& plan, const PrintOptions& options)
      : plan_(plan), options_(options), producer_(plan.registers_size(), -1) {
    for (int t = 0; t < plan.tasks_size(); ++t) {
      for (const OutputPort& out : plan.tasks(t).outputs()) {
        if (out.register_() < producer_.size()) producer_[out.register_()] = t;
      }
    }
  }

  std::string Run() {
    absl::StrAppend(&text_, "plan ", plan_.program(), " of '", plan_.graph(),
                    "': ", plan_.tasks_size(), " tasks, ",
                    plan_.registers_size(), " registers, ", plan_.workers(),
                    " workers, ", plan_.micro_batches(), " micro-batches",
                    plan_.estimate() ? ", ESTIMATE" : "");
    if (plan_.ranks() > 1) {
      absl::StrAppend(&text_, ", rank ", plan_.rank(), " of ", plan_.ranks());
    }
    absl::StrAppend(&text_, "\n");
    PrintPipeline();
    for (int d = 0; d < plan_.devices_size(); ++d) PrintDevice(d);
    for (int a = 0; options_.registers && a < plan_.arenas_size(); ++a) {
      PrintArena(a);
    }
    for (const Channel& channel : plan_.channels()) PrintChannel(channel);
    for (int s = 0; s < plan_.streams_size(); ++s) PrintStream(s);
    for (int t = 0; t < plan_.tasks_size(); ++t) PrintTask(t);
    for (int r = 0; options_.registers && r < plan_.registers_size(); ++r) {
      PrintRegister(r);
    }
    return std::move(text_);
  }

 private:
  std::string RegisterName(uint32_t r) const {
    if (r >= producer_.size()) return absl::StrCat("?", r);
    const Register& reg = plan_.registers(r);
    if (reg.tensors_size() != 0 && !reg.tensors(0).value().empty()) {
      return absl::StrCat(reg.tensors(0).value(), " [r", r, "]");
    }
    return absl::StrCat(
        producer_[r] < 0 ? "?" : plan_.tasks(producer_[r]).name(),
        reg.tensors_size() == 0 ? " done" : "", " [r", r, "]");
  }

  // Phases of micro-batches, in the order in which this rank does them.
  void PrintPipeline() {
    if (!plan_.has_pipeline()) return;
    absl::StrAppend(&text_, "pipeline ", plan_.pipeline().schedule(), ", ",
                    plan_.pipeline().stages(), " stages:");
    std::vector<uint32_t> acts(plan_.tasks_size(), 0);
    std::string last;
    for (const Stream& stream : plan_.streams()) {
      for (uint32_t t : stream.order()) {
        if (t >= acts.size()) continue;
        const uint32_t phase = plan_.tasks(static_cast<int>(t)).phase();
        if (phase == 0) continue;
        std::string act = absl::StrCat(PhaseName(plan_, phase), ".", acts[t]++);
        if (act != last) absl::StrAppend(&text_, " ", act);
        last = std::move(act);
      }
    }
    absl::StrAppend(&text_, "\n");
  }

  void PrintDevice(int d) {
    const Device& device = plan_.devices(d);
    absl::StrAppend(&text_, "device ", device.name(), " [", d, "] ",
                    device.kind(), device.inline_() ? ", inline" : "",
                    device.host_mapped() ? ", host-mapped" : "", ", alignment ",
                    device.alignment(), "\n");
  }

  void PrintArena(int a) {
    const Arena& arena = plan_.arenas(a);
    static constexpr const char* kNames[] = {"activations", "state",  "scratch",
                                             "private",     "shared", "peer"};
    const auto kind = static_cast<uint32_t>(arena.kind());
    absl::StrAppend(&text_, "arena [", a, "] ", kind < 6 ? kNames[kind] : "?",
                    " on ", NameAt(plan_.devices(), arena.device()));
    if (arena.kind() == Arena::SCRATCH) {
      absl::StrAppend(&text_, " of ", NameAt(plan_.streams(), arena.stream()));
    }
    absl::StrAppend(&text_, ", ", arena.bytes(), " bytes\n");
  }

  void PrintChannel(const Channel& channel) {
    absl::StrAppend(
        &text_, ChannelName(channel), ": ",
        channel.tensor().dtype() == 0 ? "order" : PrintTensor(channel.tensor()),
        ", ", channel.copies(), " copies", Mapped(channel),
        channel.lands() ? ", made where it lies" : "", "\n");
  }

  const char* Mapped(const Channel& channel) const {
    if (channel.read() == 0) return "";
    const auto read = static_cast<int>(channel.read()) - 1;
    return read >= 0 && read < plan_.channels_size() &&
                   plan_.channels(read).lands()
               ? ", lent"
               : ", read where it lies";
  }

  void PrintStream(int s) {
    const Stream& stream = plan_.streams(s);
    absl::StrAppend(&text_, "stream ", stream.name(), " [", s, "] on ",
                    NameAt(plan_.devices(), stream.device()), ", worker ",
                    stream.worker(),
                    stream.ordered() ? ", ordered:\n" : ", as ready\n");
    std::vector<uint32_t> order(stream.order().begin(), stream.order().end());
    for (uint32_t t : order) {
      absl::StrAppend(&text_, "    ", NameAt(plan_.tasks(), t), " [t", t,
                      "]\n");
    }
  }

  void PrintTask(int t) {
    const Task& task = plan_.tasks(t);
    const auto kind = static_cast<size_t>(task.kind());
    absl::StrAppend(&text_, "task ", task.name(), " [t", t, "] ",
                    kind < actor::kNumKinds ? actor::kKinds[kind].name : "?",
                    " on ", NameAt(plan_.streams(), task.stream()), ", ",
                    task.acts_per_period(), " acts");
    if (task.phase() != 0) {
      absl::StrAppend(&text_, ", phase ", PhaseName(plan_, task.phase()));
    }
    if (!task.binding().empty()) {
      absl::StrAppend(&text_, ", bound to '", task.binding(), "'");
    }
    const auto channel = static_cast<int>(task.channel()) - 1;
    if (channel >= 0 && channel < plan_.channels_size()) {
      absl::StrAppend(&text_, ", ", ChannelName(plan_.channels(channel)));
    }
    absl::StrAppend(&text_, "\n");
    for (const InputPort& in : task.inputs()) {
      absl::StrAppend(&text_, "    reads ", RegisterName(in.register_()), ": ",
                      PrintInputPattern(in.pattern().acts()),
                      in.aliased() ? ", in place" : "", "\n");
    }
    for (const Op& op : task.ops()) PrintOp(op);
    for (const OutputPort& out : task.outputs()) {
      absl::StrAppend(&text_, "    gives ", RegisterName(out.register_()), ": ",
                      PrintOutputPattern(out.pattern().acts()), "\n");
    }
    if (task.private_bytes() != 0) {
      absl::StrAppend(&text_, "    keeps ", task.private_bytes(), " bytes at ",
                      task.private_offset(), "\n");
    }
    for (const std::string& why : task.provenance()) {
      if (options_.provenance) absl::StrAppend(&text_, "    # ", why, "\n");
    }
  }

  void PrintOp(const Op& op) {
    absl::StrAppend(&text_, "    runs ", op.node(), " = ");
    if (op.kernel() >= static_cast<uint32_t>(plan_.kernels_size())) {
      absl::StrAppend(&text_, "?", op.kernel(), "\n");
      return;
    }
    const Kernel& kernel = plan_.kernels(op.kernel());
    absl::StrAppend(&text_, OpName(static_cast<OpId>(kernel.op())));
    if (options_.operands) {
      absl::StrAppend(&text_, "(", PrintOperands(op.inputs()), ") -> (",
                      PrintOperands(op.outputs()), ")");
      if (op.workspace().where() != Operand::ABSENT) {
        absl::StrAppend(&text_, " with ", kernel.workspace_bytes(),
                        " bytes at ", PrintOperand(op.workspace()));
      }
    }
    absl::StrAppend(&text_, "\n");
  }

  template <typename List>
  static std::string PrintOperands(const List& operands) {
    return absl::StrJoin(operands, ", ",
                         [](std::string* out, const Operand& operand) {
                           out->append(PrintOperand(operand));
                         });
  }

  static std::string PrintOperand(const Operand& at) {
    const std::string tensor =
        at.tensor() == 0 ? "" : absl::StrCat(".", at.tensor());
    switch (at.where()) {
      case Operand::INPUT:
        return absl::StrCat("in", at.index(), tensor);
      case Operand::OUTPUT:
        return absl::StrCat("out", at.index(), tensor);
      case Operand::SCRATCH:
        return absl::StrCat("scratch+", at.offset());
      case Operand::PRIVATE:
        return absl::StrCat("private+", at.offset());
      case Operand::CONSTANT:
        return absl::StrCat("constant", at.index());
      default:
        return "-";
    }
  }

  void PrintRegister(int r) {
    const Register& reg = plan_.registers(r);
    absl::StrAppend(&text_, "register ", RegisterName(r), ": ");
    if (reg.alias_of() != 0) {
      absl::StrAppend(&text_, "in place of ", RegisterName(reg.alias_of() - 1));
      if (reg.alias_offset() != 0 || reg.alias_stride() != 0) {
        absl::StrAppend(&text_, " at ", reg.alias_offset());
      }
      if (reg.alias_stride() != 0) {
        absl::StrAppend(&text_, " + act * ", reg.alias_stride());
      }
    } else {
      absl::StrAppend(&text_, reg.copies(), " x ", reg.bytes(), " bytes");
      if (reg.bytes() != 0) {
        absl::StrAppend(&text_, " at ", reg.offset(), " in arena ",
                        reg.arena());
      }
      absl::StrAppend(&text_, ", ", reg.acks_per_copy(), " acks");
    }
    if (reg.peer_of() != 0) {
      absl::StrAppend(&text_, ", which is ", RegisterName(reg.peer_of() - 1));
    }
    if (reg.overlay_of() != 0) {
      absl::StrAppend(&text_, ", other phase of ",
                      RegisterName(reg.overlay_of() - 1));
    }
    if (!reg.state().empty()) {
      absl::StrAppend(&text_, ", state '", reg.state(), "'");
    }
    for (const TensorDesc& tensor : reg.tensors()) {
      absl::StrAppend(&text_, "; ", PrintTensor(tensor));
    }
    absl::StrAppend(&text_, "\n");
  }

  const Plan& plan_;
  const PrintOptions& options_;
  std::vector<int> producer_;
  std::string text_;
};

bool All(const std::string& acts, char bits) {
  return acts.find_first_not_of(bits) == std::string::npos;
}

std::string Raw(const std::string& acts) {
  return absl::StrCat("pattern ",
                      absl::StrJoin(acts, "", [](std::string* out, char c) {
                        absl::StrAppend(out, static_cast<int>(c));
                      }));
}

// " [t12]", " [r3]" and numbered references change when a plan is renumbered.
std::string WithoutIds(absl::string_view line) {
  std::string result;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line.substr(i, 2) == " [") {
      size_t end = line.find(']', i);
      size_t k = i + 2;
      if (end != absl::string_view::npos && k < end &&
          (line[k] == 't' || line[k] == 'r')) {
        ++k;
      }
      bool digits = end != absl::string_view::npos && k < end;
      for (; digits && k < end; ++k) digits = line[k] >= '0' && line[k] <= '9';
      if (digits) {
        i = end;
        continue;
      }
    }
    result += line[i];
  }
  return result;
}

// A plan as blocks: a heading with the indented lines below it.
std::vector<std::string> Blocks(const Plan& plan) {
  std::vector<std::string> blocks;
  for (absl::string_view line : absl::StrSplit(PrintPlan(plan), '\n')) {
    if (line.empty()) continue;
    if (line[0] == ' ' && !blocks.empty()) {
      absl::StrAppend(&blocks.back(), "\n", WithoutIds(line));
    } else {
      blocks.push_back(WithoutIds(line));
    }
  }
  return blocks;
}

std::string Heading(const std::string& block) {
  // Up to the kind and the details: "task fc1", "register fc1/y".
  std::vector<std::string> words =
      absl::StrSplit(block.substr(0, block.find('\n')), ' ');
  if (words.size() > 2) words.resize(2);
  return absl::StrJoin(words, " ");
}

void AppendBlock(std::string* out, char sign, absl::string_view block) {
  for (absl::string_view line : absl::StrSplit(block, '\n')) {
    absl::StrAppend(out, std::string(1, sign), " ", line, "\n");
  }
}

// Lines of `a` and `b`, which have one heading, that are not in both.
void AppendDifference(std::string* out, const std::string& a,
                      const std::string& b) {
  std::vector<std::string> la = absl::StrSplit(a, '\n');
  std::vector<std::string> lb = absl::StrSplit(b, '\n');
  size_t head = 0;
  while (head < la.size() && head < lb.size() && la[head] == lb[head]) ++head;
  size_t tail = 0;
  while (tail + head < la.size() && tail + head < lb.size() &&
         la[la.size() - 1 - tail] == lb[lb.size() - 1 - tail]) {
    ++tail;
  }
  if (head > 0) absl::StrAppend(out, "  ", la[0], "\n");
  for (size_t i = head; i + tail < la.size(); ++i) {
    absl::StrAppend(out, "- ", la[i], "\n");
  }
  for (size_t i = head; i + tail < lb.size(); ++i) {
    absl::StrAppend(out, "+ ", lb[i], "\n");
  }
}

}  // namespace

std::string PrintInputPattern(const std::string& acts) {
  if (All(acts, actor::kTake | actor::kAck)) return "every act";
  if (acts == actor::Held(acts.size())) {
    return absl::StrCat("held(", acts.size(), ")");
  }
  return Raw(acts);
}

std::string PrintOutputPattern(const std::string& acts) {
  if (All(acts, actor::kAcquire | actor::kGive)) return "every act";
  if (All(acts, actor::kAcquire | actor::kGive | actor::kHome)) {
    return "every act, when all copies are home";
  }
  if (acts == actor::Accumulated(acts.size())) {
    return absl::StrCat("accumulate(", acts.size(), ")");
  }
  if (acts == actor::GivenLast(acts.size())) {
    return absl::StrCat("last(", acts.size(), ")");
  }
  if (acts == actor::Sliced(acts.size())) {
    return absl::StrCat("slices(", acts.size(), ")");
  }
  if (acts == actor::SharedPhase()) return "shared phase";
  if (acts == actor::ExclusivePhase()) return "exclusive phase";
  return Raw(acts);
}

std::string PhaseName(const Plan& plan, uint32_t phase) {
  const uint32_t stages = plan.pipeline().stages();
  return phase <= stages ? absl::StrCat("F", phase - 1)
                         : absl::StrCat("B", 2 * stages - phase);
}

std::string PrintPlan(const Plan& plan, const PrintOptions& options) {
  return Printer(plan, options).Run();
}

std::string DiffPlans(const Plan& a, const Plan& b) {
  std::vector<std::string> blocks_a = Blocks(a);
  std::vector<std::string> blocks_b = Blocks(b);
  // Equal blocks cancel, wherever they are; then blocks of one heading pair up.
  std::multimap<std::string, size_t> in_b;
  for (size_t i = 0; i < blocks_b.size(); ++i) in_b.emplace(blocks_b[i], i);
  std::vector<bool> used_b(blocks_b.size(), false);
  std::vector<std::string> rest_a;
  for (const std::string& block : blocks_a) {
    auto it = in_b.find(block);
    if (it == in_b.end()) {
      rest_a.push_back(block);
    } else {
      used_b[it->second] = true;
      in_b.erase(it);
    }
  }
  std::string out;
  for (const std::string& block : rest_a) {
    size_t match = 0;
    while (match < blocks_b.size() &&
           (used_b[match] || Heading(blocks_b[match]) != Heading(block))) {
      ++match;
    }
    if (match == blocks_b.size()) {
      AppendBlock(&out, '-', block);
    } else {
      used_b[match] = true;
      AppendDifference(&out, block, blocks_b[match]);
    }
  }
  for (size_t i = 0; i < blocks_b.size(); ++i) {
    if (!used_b[i]) AppendBlock(&out, '+', blocks_b[i]);
  }
  return out;
}

}  // namespace weft::plan
