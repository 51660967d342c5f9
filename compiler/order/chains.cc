#include "compiler/order/chains.h"

#include <map>

namespace weft {
namespace {

using Kind = Work::Kind;

class ChainFormer {
 public:
  ChainFormer(const Partition& parts, int max_chain_ops)
      : parts_(parts), max_chain_ops_(max_chain_ops) {}

  std::vector<Unit> Run(absl::Span<const int> linear) {
    unit_of_.assign(parts_.works.size(), -1);
    FindWaitedFor();
    for (int w : linear) {
      const Work& work = parts_.works[w];
      if (work.kind == Kind::kCompute && !LiesElsewhere(work)) {
        Join(w);
      } else {
        Open(w);
      }
    }
    return std::move(units_);
  }

 private:
  // What lies in a buffer is given by a task that reads it.
  bool LiesElsewhere(const Work& work) const {
    for (int result : work.results) {
      if (result >= 0 && parts_.buffers[result].in >= 0) return true;
    }
    return false;
  }

  int Open(int w) {
    const Work& work = parts_.works[w];
    unit_of_[w] = static_cast<int>(units_.size());
    units_.push_back({{w}, work.stream, work.acts, work.section, work.phase});
    return unit_of_[w];
  }

  void Join(int w) {
    const Work& work = parts_.works[w];
    auto open = open_.find(work.stream);
    int unit = open == open_.end() ? -1 : open->second;
    if (unit >= 0 && MayJoin(work, w, unit)) {
      units_[unit].works.push_back(w);
      unit_of_[w] = unit;
    } else {
      unit = Open(w);
    }
    open_[work.stream] = waited_for_[w] || Ends(work) ? -1 : unit;
  }

  bool MayJoin(const Work& work, int w, int unit) const {
    const Unit& chain = units_[unit];
    if (chain.acts != work.acts || chain.section != work.section ||
        chain.phase != work.phase ||
        static_cast<int>(chain.works.size()) >= max_chain_ops_) {
      return false;
    }
    for (int p : PredecessorsOf(parts_, w)) {
      if (unit_of_[p] > unit) return false;
    }
    return true;
  }

  // Works that another stream waits for by a control edge.
  void FindWaitedFor() {
    waited_for_.assign(parts_.works.size(), false);
    for (const Work& work : parts_.works) {
      for (int before : work.after) {
        if (parts_.works[before].stream != work.stream) {
          waited_for_[before] = true;
        }
      }
    }
  }

  // Whether the chain must end after `work`.
  bool Ends(const Work& work) const {
    for (int result : work.results) {
      if (result < 0) continue;
      const Buffer& buffer = parts_.buffers[result];
      // In memory that is not the stream's own: no scratch of a chain.
      if (buffer.device != parts_.streams[work.stream].device ||
          buffer.where != Buffer::Where::kOwn) {
        return true;
      }
      for (int r : buffer.readers) {
        const Work& reader = parts_.works[r];
        if (reader.kind == Kind::kSink) continue;
        if (reader.stream != work.stream) return true;
        if (reader.kind == Kind::kCopy && !OnlyForSinks(reader)) return true;
        if (reader.kind == Kind::kWriteBack) return true;
      }
    }
    return false;
  }

  bool OnlyForSinks(const Work& copy) const {
    for (int r : parts_.buffers[copy.results[0]].readers) {
      if (parts_.works[r].kind != Kind::kSink) return false;
    }
    return true;
  }

  const Partition& parts_;
  const int max_chain_ops_;
  std::vector<Unit> units_;
  std::vector<int> unit_of_;      // by work
  std::vector<bool> waited_for_;  // by work
  std::map<int, int> open_;       // by stream: the chain that may grow
};

}  // namespace

std::vector<Unit> FormChains(const Partition& parts,
                             absl::Span<const int> linear, int max_chain_ops) {
  return ChainFormer(parts, max_chain_ops).Run(linear);
}

}  // namespace weft
