#include "compiler/check/memory_proof.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "compiler/check/port_events.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft::check {

namespace {

using plan::PlanView;
using plan::Use;

template <typename... Args>
absl::Status Refuted(const Args&... args) {
  return MakeError(ErrorCode::kPlanRefuted, absl::StrCat(args...));
}

// ---------------------------------------------------------------------------
// Aliases

// A port that touches the memory of a root register.
struct Access {
  uint32_t task = 0;
  uint32_t from = 0;    // the task whose act `first` is, mostly the same
  uint32_t reg = 0;     // through which it touches it
  uint32_t slices = 1;  // of `reg` in one copy of the root
  Events first;         // take, or acquire-and-give
  Events last;          // ack, or give
};

class AliasProof {
 public:
  AliasProof(const PlanView& view, const HappensBefore& hb)
      : view_(view), hb_(hb) {}

  absl::Status Run() {
    std::vector<std::vector<uint32_t>> trees(view_.num_registers());
    for (uint32_t r = 0; r < view_.num_registers(); ++r) {
      trees[view_.root(r)].push_back(r);
    }
    for (uint32_t root = 0; root < trees.size(); ++root) {
      if (trees[root].empty() || view_.reg(root).bytes() == 0) continue;
      WEFT_RETURN_IF_ERROR(CheckTree(root, trees[root]));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckTree(uint32_t root, const std::vector<uint32_t>& tree) {
    std::vector<Access> reads, writes;
    for (uint32_t r : tree) {
      for (Use use : view_.readers(r)) {
        if (!Touches(use)) continue;
        reads.push_back(ReadOf(use));
        if (view_.writes_input(use)) writes.push_back(reads.back());
        if (const uint32_t landing = Lends(use); landing != 0) {
          writes.push_back(WriteOfPeer(use, landing));
        }
      }
      if (const Use post = view_.producer(r);
          view_.task(post.task).kind() == plan::Task::POST) {
        AddWritesOfWire(post, r, &writes);
      }
      if (r == root) continue;
      const Use producer = view_.producer(r);
      if (view_.writes_output(producer)) writes.push_back(WriteOf(producer));
    }
    if (!writes.empty() && !view_.reg(root).lent() &&
        view_.proto().arenas(view_.reg(root).arena()).kind() ==
            plan::Arena::PEER) {
      return Refuted(view_.TaskName(writes[0].task), " writes ",
                     view_.RegisterName(root), ", which is another rank's");
    }
    for (const Access& write : writes) {
      for (const Access& read : reads) {
        if (read.task == write.task || read.task == write.from) continue;
        // In place of an operand without a register of its own: other readers
        // may see the value before or after, as long as the plan says which.
        const bool made = IsMadeOf(read.reg, write.reg);
        if (made && view_.producer(write.reg).task == write.task) continue;
        WEFT_RETURN_IF_ERROR(CheckPair(root, read, write, /*either=*/made));
      }
    }
    // Who writes without reading what was there comes before or after others.
    for (size_t i = 0; i < writes.size(); ++i) {
      for (size_t k = i + 1; k < writes.size(); ++k) {
        if (writes[i].task == writes[k].task) continue;
        WEFT_RETURN_IF_ERROR(CheckPair(root, writes[i], writes[k], true));
      }
    }
    return absl::OkStatus();
  }

  Access ReadOf(Use use) const {
    const plan::InputPort& in = view_.task(use.task).inputs(use.port);
    return {use.task,
            use.task,
            in.register_(),
            view_.slices(in.register_()),
            Events(in.pattern().acts(), actor::kTake),
            Events(in.pattern().acts(), actor::kAck)};
  }

  Access WriteOf(Use use) const {
    const plan::OutputPort& out = view_.task(use.task).outputs(use.port);
    Events give(out.pattern().acts(), actor::kGive);
    Events acquire(out.pattern().acts(), actor::kAcquire);
    if (acquire.empty()) acquire = give;
    return {use.task, use.task, out.register_(), view_.slices(out.register_()),
            acquire,  give};
  }

  // Whether the task looks at what it takes there, and not only gives it on.
  bool Touches(Use use) const {
    const plan::Task& task = view_.task(use.task);
    if (!task.inputs(use.port).aliased()) return true;
    if (task.kind() == plan::Task::COPY) return use.port == 0;
    if (task.kind() != plan::Task::COMPUTE && task.kind() != plan::Task::RECV) {
      return true;
    }
    for (const plan::Op& op : task.ops()) {
      for (const plan::Operand& in : op.inputs()) {
        if (in.where() == plan::Operand::INPUT && in.index() == use.port) {
          return true;
        }
      }
    }
    return view_.writes_input(use);
  }

  // Where the task lends what it takes there, the channel that says that it has
  // landed, 1 + index; 0 elsewhere.
  uint32_t Lends(Use use) const {
    const plan::Task& task = view_.task(use.task);
    if (task.kind() != plan::Task::SEND || task.channel() == 0) return 0;
    const auto channel = [&](uint32_t c) -> const plan::Channel& {
      return view_.proto().channels(static_cast<int>(c) - 1);
    };
    const uint32_t read = use.port == 0 ? channel(task.channel()).read() : 0;
    return read != 0 && channel(read).lands() ? read : 0;
  }

  // What a peer makes of what `send` lends it, until RECV says so.
  Access WriteOfPeer(Use send, uint32_t landing) const {
    const uint32_t lent = view_.task(send.task).inputs(send.port).register_();
    Access write = ReadOf(send);
    for (Use use : view_.readers(lent)) {
      const plan::Task& recv = view_.task(use.task);
      if (recv.kind() == plan::Task::RECV && recv.channel() == landing) {
        write = WriteOfRecv(use);
      }
    }
    write.from = send.task;
    write.first = ReadOf(send).first;
    return write;
  }

  // What the wire makes of what `post` gives, until RECV has it.
  void AddWritesOfWire(Use post, uint32_t posted,
                       std::vector<Access>* writes) const {
    for (Use use : view_.readers(posted)) {
      if (view_.task(use.task).kind() != plan::Task::RECV) continue;
      Access write = WriteOfRecv(use);
      write.from = post.task;
      write.first = WriteOf(post).last;
      writes->push_back(write);
    }
  }

  // The end of what comes where RECV takes it.
  Access WriteOfRecv(Use use) const {
    const plan::Task& recv = view_.task(use.task);
    const uint32_t into = recv.inputs(use.port).register_();
    for (int k = 0; k < recv.outputs_size(); ++k) {
      if (view_.reg(recv.outputs(k).register_()).alias_of() == into + 1) {
        return WriteOf({use.task, static_cast<uint32_t>(k)});
      }
    }
    return ReadOf(use);  // nobody wants it
  }

  // Whether who reads `reg` means to read what was written into `of`: it is
  // made of that, step by step.
  bool IsMadeOf(uint32_t reg, uint32_t of) const {
    std::vector<uint32_t> queue = {reg};
    std::set<uint32_t> seen = {reg};
    for (size_t head = 0; head < queue.size(); ++head) {
      const uint32_t at = queue[head];
      if (at == of) return true;
      if (view_.reg(at).alias_of() == 0) continue;
      for (const plan::InputPort& in :
           view_.task(view_.producer(at).task).inputs()) {
        if (view_.root(in.register_()) == view_.root(reg) &&
            seen.insert(in.register_()).second) {
          queue.push_back(in.register_());
        }
      }
    }
    return false;
  }

  // Acts of `read` (which may write, too) and `write` on the same memory, in
  // every period: the first is done before the second, or `either` before the
  // other.
  absl::Status CheckPair(uint32_t root, const Access& read, const Access& write,
                         bool either) const {
    const uint32_t reads = read.first.Count(hb_.acts(read.from));
    for (uint32_t k = 0; k < reads; ++k) {
      const uint32_t n = k / read.slices;
      const ActRef read_begin{read.from, read.first.Act(k)};
      const ActRef read_end{read.task, read.last.Act(k)};
      if (read_end.act >= hb_.acts(read.task)) continue;
      for (uint32_t s = 0; s < write.slices; ++s) {
        const uint32_t m = n * write.slices + s;
        const ActRef write_begin{write.from, write.first.Act(m)};
        const ActRef write_end{write.task, write.last.Act(m)};
        if (write_end.act >= hb_.acts(write.task)) continue;
        if (!Overlap(root, read, k, write, m)) continue;
        if (hb_.Before(read_end, write_begin)) continue;
        if (either && hb_.Before(write_end, read_begin)) continue;
        return Refuted(view_.TaskName(write.task), " writes ",
                       view_.RegisterName(write.reg), " in place of ",
                       view_.RegisterName(read.reg), ", but nothing makes ",
                       view_.TaskName(read.task),
                       " finish reading that before: an order edge from ",
                       view_.TaskName(read.task), " to ",
                       view_.TaskName(write.task), " is missing");
      }
    }
    return absl::OkStatus();
  }

  // Whether the k-th copy read and the m-th copy written share bytes.
  bool Overlap(uint32_t root, const Access& read, uint32_t k,
               const Access& write, uint32_t m) const {
    const uint32_t copies = view_.reg(root).copies();
    const uint64_t a = view_.offset(read.reg, k % (copies * read.slices));
    const uint64_t b = view_.offset(write.reg, m % (copies * write.slices));
    return a < b + view_.reg(write.reg).bytes() &&
           b < a + view_.reg(read.reg).bytes();
  }

  const PlanView& view_;
  const HappensBefore& hb_;
};

// ---------------------------------------------------------------------------
// Overlap

// Bytes that something owns, in one arena.
struct Block {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint32_t reg = 0;
  uint32_t copy = 0;
};

class OverlapProof {
 public:
  OverlapProof(const PlanView& view, const HappensBefore& hb,
               const LiveRanges& live)
      : view_(view), hb_(hb), live_(live) {}

  absl::Status Run() const {
    std::vector<std::vector<Block>> arenas(view_.proto().arenas_size());
    for (uint32_t r = 0; r < view_.num_registers(); ++r) {
      const plan::Register& reg = view_.reg(r);
      if (reg.alias_of() != 0 || reg.bytes() == 0) continue;
      if (view_.proto().arenas(reg.arena()).kind() == plan::Arena::PEER) {
        continue;  // in the bytes of its owner
      }
      for (uint32_t c = 0; c < reg.copies(); ++c) {
        const uint64_t begin = view_.offset(r, c);
        arenas[reg.arena()].push_back({begin, begin + reg.bytes(), r, c});
      }
    }
    for (std::vector<Block>& blocks : arenas) {
      std::sort(blocks.begin(), blocks.end(),
                [](const Block& a, const Block& b) {
                  return std::tie(a.begin, a.reg, a.copy) <
                         std::tie(b.begin, b.reg, b.copy);
                });
      const bool variables =
          std::any_of(blocks.begin(), blocks.end(),
                      [this](const Block& b) { return IsVariable(b.reg); });
      WEFT_RETURN_IF_ERROR(variables ? SweepPairs(blocks) : Sweep(blocks));
    }
    return absl::OkStatus();
  }

 private:
  // What holds a block that is open, by the index of its begin.
  struct Holder {
    const Block* block;
    const LiveRanges::Range* range;
  };
  using Holders = std::map<uint32_t, Holder>;

  // Blocks by their begin; those that reach into the next one stay open. Their
  // ranges follow one another in time, each over before the next begins, so
  // one more has to fit between two of them only, not beside all.
  absl::Status Sweep(absl::Span<const Block> blocks) const {
    Holders holders;
    const auto ends_later = [](const Block* a, const Block* b) {
      return a->end > b->end;
    };
    std::priority_queue<const Block*, std::vector<const Block*>,
                        decltype(ends_later)>
        open(ends_later);
    for (const Block& block : blocks) {
      for (; !open.empty() && open.top()->end <= block.begin; open.pop()) {
        const Block& over = *open.top();
        for (const LiveRanges::Range& range : live_.Of(over.reg, over.copy)) {
          holders.erase(hb_.index(range.begin));
        }
      }
      for (const LiveRanges::Range& range : live_.Of(block.reg, block.copy)) {
        auto [at, inserted] =
            holders.try_emplace(hb_.index(range.begin), Holder{&block, &range});
        if (inserted && Fits(holders, at)) continue;
        return SweepPairs(blocks);  // knows what to say of it
      }
      open.push(&block);
    }
    return absl::OkStatus();
  }

  bool Fits(const Holders& holders, Holders::const_iterator at) const {
    const auto after = std::next(at);
    return (at == holders.begin() ||
            live_.Ordered(*std::prev(at)->second.range, *at->second.range)) &&
           (after == holders.end() ||
            live_.Ordered(*at->second.range, *after->second.range));
  }

  // The same, pair by pair.
  absl::Status SweepPairs(absl::Span<const Block> blocks) const {
    std::vector<const Block*> open;
    for (const Block& block : blocks) {
      auto over = [&](const Block* b) { return b->end <= block.begin; };
      open.erase(std::remove_if(open.begin(), open.end(), over), open.end());
      for (const Block* other : open) {
        WEFT_RETURN_IF_ERROR(CheckPair(*other, block));
      }
      open.push_back(&block);
    }
    return absl::OkStatus();
  }

  bool IsVariable(uint32_t r) const {
    return view_.task(view_.producer(r).task).kind() == plan::Task::VARIABLE;
  }

  absl::Status CheckPair(const Block& a, const Block& b) const {
    const bool overlay = view_.reg(a.reg).overlay_of() == b.reg + 1 ||
                         view_.reg(b.reg).overlay_of() == a.reg + 1;
    const auto where = [&] {
      return absl::StrCat(view_.RegisterName(a.reg), " and ",
                          view_.RegisterName(b.reg), " share bytes ", b.begin,
                          " to ", std::min(a.end, b.end), " of arena ",
                          view_.reg(a.reg).arena());
    };
    if (!overlay && (IsVariable(a.reg) || IsVariable(b.reg))) {
      return Refuted(where(), ", but a variable keeps its value");
    }
    auto conflict = live_.Conflict(a.reg, a.copy, b.reg, b.copy);
    if (!conflict.has_value()) return absl::OkStatus();
    // The one that is acquired later overwrites the other.
    const bool a_first =
        !hb_.Before(conflict->second.begin, conflict->first.begin);
    const LiveRanges::Range& early =
        a_first ? conflict->first : conflict->second;
    const LiveRanges::Range& late =
        a_first ? conflict->second : conflict->first;
    uint32_t reader = early.ends[0].actor;
    for (ActRef end : early.ends) {
      if (!hb_.Before(end, late.begin)) reader = end.actor;
    }
    return Refuted(where(), ", and nothing makes ", view_.TaskName(reader),
                   ", which uses ", view_.RegisterName(a_first ? a.reg : b.reg),
                   ", finish before ", view_.TaskName(late.begin.actor),
                   " writes ", view_.RegisterName(a_first ? b.reg : a.reg));
  }

  const PlanView& view_;
  const HappensBefore& hb_;
  const LiveRanges& live_;
};

// The tasks at the receiving end of a mapped channel.
struct MappedEnd {
  int recv = -1;
  int read = -1;  // SEND that says that the value has been read
};

// All readers of what act k of RECV gave are done before act k of SEND says so.
absl::Status ProveRead(const PlanView& view, const LiveRanges& live,
                       const HappensBefore& hb, MappedEnd end, uint32_t reg) {
  const uint32_t copies = view.reg(reg).copies();
  for (uint32_t copy = 0; copy < copies; ++copy) {
    const absl::Span<const LiveRanges::Range> ranges = live.Of(reg, copy);
    for (size_t i = 0; i < ranges.size(); ++i) {
      const ActRef said{static_cast<uint32_t>(end.read),
                        static_cast<uint32_t>(i) * copies + copy};
      if (said.act >= hb.acts(said.actor)) continue;
      for (ActRef reader : ranges[i].ends) {
        if (reader == said || hb.Before(reader, said)) continue;
        return Refuted(view.TaskName(said.actor), " tells the owner of ",
                       view.RegisterName(reg), " that it has been read, but ",
                       "nothing makes ", view.TaskName(reader.actor),
                       " finish before that");
      }
    }
  }
  return absl::OkStatus();
}

// What each task keeps from act to act is in nobody else's bytes.
absl::Status ProvePrivate(const PlanView& view) {
  struct Kept {
    uint32_t device;
    uint64_t begin, end;
    uint32_t task;
  };
  std::vector<Kept> kept;
  for (uint32_t t = 0; t < view.num_tasks(); ++t) {
    const plan::Task& task = view.task(t);
    auto keep = [&](uint64_t offset, uint64_t bytes) {
      if (bytes == 0) return;
      kept.push_back({view.device_of(t), offset, offset + bytes, t});
    };
    keep(task.private_offset(), task.private_bytes());
    if (task.kind() == plan::Task::ACCUMULATE) continue;
    for (const plan::Op& op : task.ops()) {
      const plan::Kernel& kernel = view.proto().kernels(op.kernel());
      for (int k = 0; k < op.inputs_size(); ++k) {
        if (op.inputs(k).where() == plan::Operand::PRIVATE) {
          keep(op.inputs(k).offset(), plan::TensorBytes(kernel.inputs(k)));
        }
      }
      for (int k = 0; k < op.outputs_size(); ++k) {
        if (op.outputs(k).where() == plan::Operand::PRIVATE) {
          keep(op.outputs(k).offset(), plan::TensorBytes(kernel.outputs(k)));
        }
      }
    }
  }
  std::sort(kept.begin(), kept.end(), [](const Kept& a, const Kept& b) {
    return std::tie(a.device, a.begin, a.task) <
           std::tie(b.device, b.begin, b.task);
  });
  for (size_t i = 0; i < kept.size(); ++i) {
    for (size_t k = i + 1;
         k < kept.size() && kept[k].device == kept[i].device &&
         kept[k].begin < kept[i].end;
         ++k) {
      if (kept[k].task == kept[i].task) continue;
      return Refuted(view.TaskName(kept[i].task), " and ",
                     view.TaskName(kept[k].task),
                     " both keep something in private bytes ", kept[k].begin,
                     " to ", std::min(kept[i].end, kept[k].end));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ProveAliases(const PlanView& view, const HappensBefore& hb) {
  return AliasProof(view, hb).Run();
}

absl::Status ProveMemory(const PlanView& view, const HappensBefore& hb,
                         const LiveRanges& live) {
  WEFT_RETURN_IF_ERROR(OverlapProof(view, hb, live).Run());
  return ProvePrivate(view);
}

absl::Status ProveMapped(const PlanView& view, const HappensBefore& hb,
                         const LiveRanges& live) {
  std::map<uint32_t, MappedEnd> ends;  // by 1 + index of the channel `read`
  for (uint32_t t = 0; t < view.num_tasks(); ++t) {
    const plan::Task& task = view.task(t);
    if (task.channel() == 0) continue;
    const plan::Channel& channel =
        view.proto().channels(static_cast<int>(task.channel()) - 1);
    if (task.kind() == plan::Task::RECV && channel.read() != 0) {
      ends[channel.read()].recv = static_cast<int>(t);
    }
    if (task.kind() == plan::Task::SEND && channel.read() == 0) {
      ends[task.channel()].read = static_cast<int>(t);
    }
  }
  for (const auto& [channel, end] : ends) {
    if (end.recv < 0 || end.read < 0) continue;
    for (const plan::OutputPort& out :
         view.task(static_cast<uint32_t>(end.recv)).outputs()) {
      if (view.reg(out.register_()).bytes() == 0) continue;
      WEFT_RETURN_IF_ERROR(ProveRead(view, live, hb, end, out.register_()));
    }
  }
  return absl::OkStatus();
}

}  // namespace weft::check
