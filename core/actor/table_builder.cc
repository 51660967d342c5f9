// Builds an ActorTable from its spec, and refuses specs that contradict
// themselves.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/actor/actor.h"
#include "core/actor/pattern.h"
#include "core/actor/port_check.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft::actor {

// Fills a table from its spec, one actor at a time.
struct ActorTable::Builder {
  const TableSpec& spec;
  ActorTable table;
  absl::flat_hash_map<uint64_t, uint32_t> index_ = {};  // actors, by id

  absl::Status Run() {
    WEFT_RETURN_IF_ERROR(IndexActors());
    for (const StreamSpec& stream : spec.streams) {
      WEFT_RETURN_IF_ERROR(AddStream(stream));
    }
    for (uint32_t i = 0; i < spec.actors.size(); ++i) {
      WEFT_RETURN_IF_ERROR(AddActor(i));
    }
    WEFT_RETURN_IF_ERROR(CheckOrders());
    ResolvePosts();
    table.unfinished_.assign(1, table.parts_);
    return absl::OkStatus();
  }

  absl::Status IndexActors() {
    uint32_t last = 0;
    table.first_index_ = std::numeric_limits<uint32_t>::max();
    for (uint32_t i = 0; i < spec.actors.size(); ++i) {
      ActorId id = spec.actors[i].id;
      table.first_index_ = std::min(table.first_index_, id.index());
      last = std::max(last, id.index());
      if (static_cast<size_t>(spec.actors[i].kind) >= kNumKinds) {
        return BadActor(spec.actors[i],
                        absl::StrCat("unknown kind ",
                                     static_cast<int>(spec.actors[i].kind)));
      }
      if (!index_.try_emplace(id.value, i).second) {
        return BadActor(spec.actors[i], "two actors have this id");
      }
    }
    table.by_id_ = index_;
    if (spec.actors.empty()) return absl::OkStatus();
    // A worker's actors lie close together; give up on a dense index where the
    // spec makes it much larger than the table.
    uint64_t range = uint64_t{last} - table.first_index_ + 1;
    if (range > 64 * uint64_t{spec.actors.size()} + 1024) range = 0;
    table.by_index_.assign(range, kNoActor);
    bool complete = range != 0;
    for (uint32_t i = 0; i < spec.actors.size() && range != 0; ++i) {
      uint32_t& slot =
          table.by_index_[spec.actors[i].id.index() - table.first_index_];
      if (slot != kNoActor) complete = false;
      if (slot == kNoActor) slot = i;
    }
    if (complete) table.by_id_ = {};
    return absl::OkStatus();
  }

  absl::Status AddStream(const StreamSpec& s) {
    Stream stream;
    stream.ordered = s.ordered;
    if (s.ordered) {
      stream.begin = static_cast<uint32_t>(table.order_.size());
      stream.count = static_cast<uint32_t>(s.order.size());
      for (uint32_t i : s.order) {
        if (i >= spec.actors.size()) {
          return MakeError(
              ErrorCode::kBadPlan,
              absl::StrCat("order of stream ", s.stream, " names actor ", i,
                           " of ", spec.actors.size()));
        }
        table.order_.push_back(i);
      }
      stream.turn = s.order.empty() ? kNoActor : s.order[0];
      if (!s.order.empty()) ++table.parts_;
    }
    table.streams_.push_back(stream);
    return absl::OkStatus();
  }

  absl::StatusOr<uint32_t> StreamOf(const ActorSpec& actor) const {
    for (uint32_t s = 0; s < spec.streams.size(); ++s) {
      if (spec.streams[s].rank == actor.id.rank() &&
          spec.streams[s].stream == actor.id.stream()) {
        return s;
      }
    }
    return BadActor(actor, "its stream is not in the table");
  }

  absl::Status AddActor(uint32_t i) {
    const ActorSpec& s = spec.actors[i];
    const KindRow& row = RowOf(s.kind);
    if (s.inputs.size() < row.min_inputs || s.inputs.size() > row.max_inputs ||
        s.outputs.size() < row.min_outputs ||
        s.outputs.size() > row.max_outputs) {
      return BadActor(
          s, absl::StrCat("a ", row.name, " cannot have ", s.inputs.size(),
                          " inputs and ", s.outputs.size(), " outputs"));
    }
    if (s.acts_per_period == 0) return BadActor(s, "it never acts");
    Actor a;
    a.id = s.id;
    a.kind = s.kind;
    a.acts_per_period = s.acts_per_period;
    WEFT_ASSIGN_OR_RETURN(a.stream, StreamOf(s));
    a.in_begin = static_cast<uint32_t>(table.in_.size());
    a.in_count = static_cast<uint16_t>(s.inputs.size());
    a.out_begin = static_cast<uint32_t>(table.out_.size());
    a.out_count = static_cast<uint16_t>(s.outputs.size());
    uint32_t messages = 0;
    for (const InputSpec& in : s.inputs) {
      WEFT_RETURN_IF_ERROR(AddInput(i, in));
      if (table.in_.back().bits & kTake) ++a.blocked;
      if (!in.aliased) ++messages;
    }
    for (const OutputSpec& out : s.outputs) {
      WEFT_RETURN_IF_ERROR(AddOutput(i, out));
      messages += static_cast<uint32_t>(out.readers.size());
    }
    a.leased = row.leased;
    if (row.leased) {
      ++a.blocked;
      table.leased_.push_back(i);
    }
    AddPosts(s, &a);
    table.actors_.push_back(a);
    if (!spec.streams[a.stream].ordered) ++table.parts_;
    EffectsSize& size = table.effects_size_;
    size.inputs = std::max<uint32_t>(size.inputs, a.in_count);
    size.outputs = std::max<uint32_t>(size.outputs, a.out_count);
    size.messages = std::max(size.messages, messages);
    return absl::OkStatus();
  }

  // The release rule. `host`: the receiver looks at the data on the host.
  bool LeavesAtLaunch(const ActorSpec& from, ActorId to, bool host) const {
    if (DoneAtLaunch(from) && index_.count(to.value) != 0) return true;
    if (host || !from.id.SameStream(to)) return false;
    // The order of the stream protects only work that is in it: neither what
    // the session or a wire does, nor, on a stream without order, the posts of
    // a collective.
    if (OutsideStreamOrder(from)) return false;
    auto it = index_.find(to.value);
    return it != index_.end() && !OutsideStreamOrder(spec.actors[it->second]);
  }

  bool DoneAtLaunch(const ActorSpec& actor) const {
    // What these begin goes on.
    if (actor.kind == ActorKind::kSend ||
        actor.kind == ActorKind::kCollective) {
      return false;
    }
    absl::StatusOr<uint32_t> stream = StreamOf(actor);
    return stream.ok() && spec.streams[*stream].done_at_launch;
  }

  bool OutsideStreamOrder(const ActorSpec& actor) const {
    if (RowOf(actor.kind).late) return true;
    if (actor.kind != ActorKind::kCollective) return false;
    absl::StatusOr<uint32_t> stream = StreamOf(actor);
    return !stream.ok() || !spec.streams[*stream].ordered;
  }

  uint32_t AddPattern(const std::string& pattern) {
    uint32_t offset = static_cast<uint32_t>(table.patterns_.size());
    if (pattern.size() == 1) return offset;  // kept in the port
    table.patterns_.insert(table.patterns_.end(), pattern.begin(),
                           pattern.end());
    return offset;
  }

  // False where another of `ports` has this register. Where there are many, the
  // index is kept, to find them by.
  template <typename Spec>
  static bool NotePort(
      uint32_t i, uint32_t reg, const std::vector<Spec>& ports, size_t index,
      absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t>* many) {
    if (ports.size() > kFewPorts) {
      return many->try_emplace({i, reg}, static_cast<uint32_t>(index)).second;
    }
    const auto same = [&](const Spec& port) { return port.reg == reg; };
    return std::count_if(ports.begin(), ports.end(), same) == 1;
  }

  // Every message of the actor, those that leave at launch first: as one list
  // where all acts are alike, else as one list a port.
  void AddPosts(const ActorSpec& s, Actor* a) {
    std::vector<Message> at_launch, at_tick;
    const auto flush = [&](auto* list) {
      list->posts = static_cast<uint32_t>(table.posts_.size());
      list->at_launch = static_cast<uint16_t>(at_launch.size());
      list->at_tick = static_cast<uint16_t>(at_tick.size());
      for (auto* messages : {&at_launch, &at_tick}) {
        table.posts_.insert(table.posts_.end(), messages->begin(),
                            messages->end());
        messages->clear();
      }
    };
    a->simple = IsSimple(s);
    a->regular = IsRegular(s);
    for (size_t k = 0; k < s.outputs.size(); ++k) {
      for (const ReaderSpec& reader : s.outputs[k].readers) {
        const Message m = Message::Req(reader.actor, s.outputs[k].reg, 0, 0);
        const bool now = LeavesAtLaunch(s, reader.actor, reader.host);
        (now ? at_launch : at_tick).push_back(m);
      }
      if (!a->simple) flush(&table.out_[a->out_begin + k]);
    }
    for (size_t k = 0; k < s.inputs.size(); ++k) {
      const InputSpec& in = s.inputs[k];
      InPort& port = table.in_[a->in_begin + k];
      port.post = kNoPost;
      if (in.aliased) continue;
      const uint32_t reg =
          in.ack_register == ~uint32_t{0} ? in.reg : in.ack_register;
      const Message m = Message::Ack(in.producer, reg, 0, 0);
      port.at_launch = LeavesAtLaunch(s, in.producer, false);
      if (a->simple) {
        (port.at_launch ? at_launch : at_tick).push_back(m);
      } else {
        port.post = static_cast<uint32_t>(table.posts_.size());
        table.posts_.push_back(m);
      }
    }
    if (a->simple) flush(a);
  }

  static bool IsSimple(const ActorSpec& s) {
    if (RowOf(s.kind).leased) return false;
    size_t messages = s.inputs.size();
    for (const InputSpec& in : s.inputs) {
      if (in.aliased || in.copies != 1 || in.ack_divisor != 1) return false;
      if (Shortest(in.pattern) != EveryAct()) return false;
    }
    for (const OutputSpec& out : s.outputs) {
      if (out.alias || out.copies != 1 || out.acks_per_copy == 0) return false;
      if (Shortest(out.pattern) != EveryAct()) return false;
      messages += out.readers.size();
    }
    return messages <= 65535;
  }

  static bool IsRegular(const ActorSpec& s) {
    const auto each_act = [](const auto& port) {
      return Shortest(port.pattern) == EveryAct();
    };
    return std::all_of(s.inputs.begin(), s.inputs.end(),
                       [&](const InputSpec& in) {
                         return each_act(in) && in.ack_divisor == 1;
                       }) &&
           std::all_of(s.outputs.begin(), s.outputs.end(), each_act);
  }

  // Tells each message to which port of this table it goes, if to any.
  void ResolvePosts() {
    table.num_in_ = static_cast<uint32_t>(table.in_.size());
    table.num_out_ = static_cast<uint32_t>(table.out_.size());
    for (Message& m : table.posts_) table.Hint(&m);
  }

  absl::Status AddInput(uint32_t i, const InputSpec& s) {
    const ActorSpec& actor = spec.actors[i];
    std::string pattern = Shortest(s.pattern);
    WEFT_RETURN_IF_ERROR(
        CheckPort(actor, s.reg, s.copies, pattern, kTake | kAck));
    WEFT_RETURN_IF_ERROR(
        CheckAlternates(actor, s.reg, pattern, kTake, kAck, true));
    if (s.ack_divisor == 0 || s.copies % s.ack_divisor != 0) {
      return BadActor(actor,
                      absl::StrCat("r", s.reg, ": ", s.copies,
                                   " copies are not slices of whole copies"));
    }
    InPort port;
    port.reg = s.reg;
    port.actor = i;
    port.copies = static_cast<uint16_t>(s.copies);
    port.pattern_length = static_cast<uint16_t>(pattern.size());
    port.pattern = AddPattern(pattern);
    port.bits = static_cast<uint8_t>(pattern[0]);
    port.divisor = static_cast<uint16_t>(s.ack_divisor);
    if (!NotePort(i, s.reg, actor.inputs, table.in_.size(), &table.many_in_)) {
      return BadActor(actor, absl::StrCat("two inputs read r", s.reg));
    }
    table.in_.push_back(port);
    table.queue_bound_ += s.copies;  // REQs
    return absl::OkStatus();
  }

  absl::Status AddOutput(uint32_t i, const OutputSpec& s) {
    const ActorSpec& actor = spec.actors[i];
    std::string pattern = Shortest(s.pattern);
    WEFT_RETURN_IF_ERROR(
        CheckPort(actor, s.reg, s.copies, pattern, kAcquire | kGive | kHome));
    WEFT_RETURN_IF_ERROR(
        CheckAlternates(actor, s.reg, pattern, kAcquire, kGive, !s.alias));
    if (s.acks_per_copy > 65535 || s.readers.size() > 65535) {
      return BadActor(actor, absl::StrCat("r", s.reg, " has too many readers"));
    }
    OutPort port;
    port.reg = s.reg;
    port.actor = i;
    port.copies = port.home = static_cast<uint16_t>(s.copies);
    port.acks_per_copy = static_cast<uint16_t>(s.acks_per_copy);
    port.alias = s.alias;
    port.pattern_length = static_cast<uint16_t>(pattern.size());
    port.pattern = AddPattern(pattern);
    port.bits = static_cast<uint8_t>(pattern[0]);
    port.acks = static_cast<uint32_t>(table.acks_left_.size());
    if (!s.alias) table.acks_left_.resize(port.acks + s.copies, 0);
    if (!NotePort(i, s.reg, actor.outputs, table.out_.size(),
                  &table.many_out_)) {
      return BadActor(actor, absl::StrCat("two outputs write r", s.reg));
    }
    table.out_.push_back(port);
    if (!s.alias) {
      table.queue_bound_ += uint64_t{s.copies} * s.acks_per_copy;  // ACKs
    }
    return absl::OkStatus();
  }

  // An order holds the actors of its stream, each as often as it acts.
  absl::Status CheckOrders() const {
    std::vector<uint32_t> times(spec.actors.size(), 0);
    for (uint32_t s = 0; s < spec.streams.size(); ++s) {
      if (!spec.streams[s].ordered) continue;
      for (uint32_t i : spec.streams[s].order) {
        if (table.actors_[i].stream != s) {
          return BadActor(spec.actors[i],
                          "it is in the order of another stream");
        }
        ++times[i];
      }
    }
    for (uint32_t i = 0; i < spec.actors.size(); ++i) {
      if (!spec.streams[table.actors_[i].stream].ordered) continue;
      if (times[i] != spec.actors[i].acts_per_period) {
        return BadActor(spec.actors[i],
                        absl::StrCat("it acts ", spec.actors[i].acts_per_period,
                                     " times a period, but is ", times[i],
                                     " times in its stream's order"));
      }
    }
    return absl::OkStatus();
  }
};

absl::StatusOr<ActorTable> ActorTable::Create(const TableSpec& spec) {
  Builder builder{spec, ActorTable()};
  WEFT_RETURN_IF_ERROR(builder.Run());
  return std::move(builder.table);
}

}  // namespace weft::actor
