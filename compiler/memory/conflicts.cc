#include "compiler/memory/conflicts.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

using check::ActRef;
using check::HappensBefore;
using check::LiveRanges;

// Rows become columns. Swaps ever smaller squares across the diagonal.
void Transpose(uint64_t (&block)[64]) {
  uint64_t mask = 0x00000000ffffffffu;
  for (int width = 32; width != 0; width /= 2, mask ^= mask << width) {
    for (int i = 0; i < 64; i = ((i | width) + 1) & ~width) {
      const uint64_t moved = ((block[i] >> width) ^ block[i | width]) & mask;
      block[i] ^= moved << width;
      block[i | width] ^= moved;
    }
  }
}

// A range that a register is live, by when it begins.
struct Begin {
  uint32_t index = 0;  // of its first act in the order of acts
  int row = 0;
  const LiveRanges::Range* range = nullptr;
};

// Ranges in order of their begin. Rows that follow one another there have
// successive numbers wherever it is possible, so that they are set as a run.
class BeginList {
 public:
  void Add(Begin begin) { begins_.push_back(begin); }

  void Sort() {
    std::stable_sort(
        begins_.begin(), begins_.end(),
        [](const Begin& a, const Begin& b) { return a.index < b.index; });
  }

  template <typename Number>
  void NumberRows(const Number& number) {
    for (Begin& b : begins_) b.row = number(b.row);
    run_end_.resize(begins_.size());
    for (size_t k = begins_.size(); k-- > 0;) {
      const bool goes_on =
          k + 1 < begins_.size() && begins_[k + 1].row == begins_[k].row + 1;
      run_end_[k] = goes_on ? run_end_[k + 1] : k + 1;
    }
  }

  size_t size() const { return begins_.size(); }
  const Begin& operator[](size_t k) const { return begins_[k]; }
  absl::Span<const Begin> all() const { return begins_; }

  // The first that does not begin before act `index`.
  size_t From(uint32_t index) const {
    return std::lower_bound(
               begins_.begin(), begins_.end(), index,
               [](const Begin& b, uint32_t i) { return b.index < i; }) -
           begins_.begin();
  }
  // The first from `from` on for which `is` holds, which holds from there on.
  template <typename Is>
  size_t First(size_t from, const Is& is) const {
    size_t to = size();
    while (from < to) {
      const size_t middle = from + (to - from) / 2;
      if (is(middle)) {
        to = middle;
      } else {
        from = middle + 1;
      }
    }
    return from;
  }

  void SetRows(int row, size_t from, size_t to, ConflictMatrix* out) const {
    while (from < to) {
      const size_t end = std::min(run_end_[from], to);
      out->SetRun(row, begins_[from].row,
                  begins_[from].row + static_cast<int>(end - from));
      from = end;
    }
  }

 private:
  std::vector<Begin> begins_;
  std::vector<size_t> run_end_;  // by place: where the run that it is in ends
};

// Two ranges are in conflict where the one that begins later, in the order of
// acts, does not wait for the end of the other; that the earlier one waits for
// the later one is not possible. Acts of a stream wait for more and more, so of
// those that begin in a stream those in conflict lie side by side.
class ConflictFinder {
 public:
  ConflictFinder(const LiveRanges& live, const HappensBefore& hb)
      : live_(live), hb_(hb), streams_(hb.streams()) {}

  RegisterConflicts Run(absl::Span<const uint32_t> registers,
                        absl::Span<const uint32_t> copies) {
    for (size_t i = 0; i < registers.size(); ++i) {
      if (copies[i] > 1) continue;
      for (const LiveRanges::Range& range : live_.Of(registers[i], 0)) {
        const uint32_t stream = hb_.stream(range.begin.actor);
        BeginList& list =
            stream == HappensBefore::kLoose ? loose_ : streams_[stream];
        list.Add({hb_.index(range.begin), static_cast<int>(i), &range});
      }
    }
    RegisterConflicts out;
    NumberRows(registers, &out.registers);
    out.matrix = ConflictMatrix(static_cast<int>(registers.size()));
    FindClocks();
    for (const BeginList& list : streams_) AddConflictsOf(list, &out.matrix);
    AddConflictsOf(loose_, &out.matrix);
    for (size_t i = 0; i < registers.size(); ++i) {
      if (copies[i] < 2) continue;
      out.matrix.SetRun(row_[i], 0, out.matrix.size());
    }
    out.matrix.Mirror();
    return out;
  }

 private:
  void NumberRows(absl::Span<const uint32_t> registers,
                  std::vector<uint32_t>* by_row) {
    row_.assign(registers.size(), -1);
    const auto number = [&](int i) {
      if (row_[i] < 0) {
        row_[i] = static_cast<int>(by_row->size());
        by_row->push_back(registers[i]);
      }
      return row_[i];
    };
    for (BeginList& list : streams_) {
      list.Sort();
      list.NumberRows(number);
    }
    loose_.Sort();
    loose_.NumberRows(number);
    // What is never live, or has several copies.
    for (size_t i = 0; i < registers.size(); ++i) {
      number(static_cast<int>(i));
    }
  }

  // Of loose begins: what any of those up to here waits for, and what all from
  // here on wait for.
  void FindClocks() {
    const size_t width = streams_.size();
    const size_t n = loose_.size();
    most_.resize(n * width);
    least_.resize(n * width);
    for (size_t k = 0; k < n; ++k) {
      absl::Span<const uint32_t> clock = hb_.clock(loose_[k].range->begin);
      for (size_t s = 0; s < width; ++s) {
        most_[k * width + s] =
            std::max(clock[s], k == 0 ? 0 : most_[(k - 1) * width + s]);
      }
    }
    for (size_t k = n; k-- > 0;) {
      absl::Span<const uint32_t> clock = hb_.clock(loose_[k].range->begin);
      for (size_t s = 0; s < width; ++s) {
        const uint32_t later =
            k + 1 == n ? clock[s] : least_[(k + 1) * width + s];
        least_[k * width + s] = std::min(clock[s], later);
      }
    }
  }

  absl::Span<const uint32_t> Clock(const std::vector<uint32_t>& clocks,
                                   size_t k) const {
    return absl::MakeConstSpan(clocks).subspan(k * streams_.size(),
                                               streams_.size());
  }

  void AddConflictsOf(const BeginList& list, ConflictMatrix* out) const {
    for (const Begin& a : list.all()) {
      for (const BeginList& later : streams_) {
        const size_t from = later.From(a.index);
        const size_t to = later.First(from, [&](size_t k) {
          return live_.Ordered(*a.range, *later[k].range);
        });
        later.SetRows(a.row, from, to, out);
      }
      AddLoose(a, out);
    }
  }

  void AddLoose(const Begin& a, ConflictMatrix* out) const {
    const size_t from = loose_.From(a.index);
    size_t sure = from;  // up to here all are in conflict
    for (ActRef end : a.range->ends) {
      if (hb_.stream(end.actor) == HappensBefore::kLoose) continue;
      sure = loose_.First(sure, [&](size_t k) {
        return hb_.BeforeClock(end, Clock(most_, k));
      });
    }
    const size_t to = loose_.First(sure, [&](size_t k) {
      for (ActRef end : a.range->ends) {
        if (!hb_.BeforeClock(end, Clock(least_, k))) return false;
      }
      return true;
    });
    loose_.SetRows(a.row, from, sure, out);
    for (size_t k = sure; k < to; ++k) {
      if (live_.Ordered(*a.range, *loose_[k].range)) continue;
      out->SetRun(a.row, loose_[k].row, loose_[k].row + 1);
    }
  }

  const LiveRanges& live_;
  const HappensBefore& hb_;
  std::vector<BeginList> streams_;
  BeginList loose_;
  std::vector<int> row_;  // by position in the registers that are asked about
  std::vector<uint32_t> most_, least_;  // by loose begin x stream
};

}  // namespace

void ConflictMatrix::SetRun(int i, int from, int to) {
  if (from >= to) return;
  uint64_t* row = MutableRow(i);
  const int first = from / 64, last = (to - 1) / 64;
  const uint64_t head = ~uint64_t{0} << (from % 64);
  const uint64_t tail = ~uint64_t{0} >> (63 - (to - 1) % 64);
  if (first == last) {
    row[first] |= head & tail;
    return;
  }
  row[first] |= head;
  for (int w = first + 1; w < last; ++w) row[w] = ~uint64_t{0};
  row[last] |= tail;
}

void ConflictMatrix::Mirror() {
  uint64_t a[64], b[64];
  for (size_t i = 0; i < words_; ++i) {
    for (size_t j = i; j < words_; ++j) {
      uint64_t* upper = bits_.data() + words_ * 64 * i + j;
      uint64_t* lower = bits_.data() + words_ * 64 * j + i;
      for (size_t k = 0; k < 64; ++k) {
        a[k] = upper[words_ * k];
        b[k] = lower[words_ * k];
      }
      Transpose(a);
      Transpose(b);
      for (size_t k = 0; k < 64; ++k) {
        upper[words_ * k] |= b[k];
        lower[words_ * k] |= a[k];
      }
    }
  }
  for (int i = 0; i < n_; ++i) {
    MutableRow(i)[i / 64] &= ~(uint64_t{1} << (i % 64));
  }
}

RegisterConflicts FindConflicts(const check::LiveRanges& live,
                                const check::HappensBefore& hb,
                                absl::Span<const uint32_t> registers,
                                absl::Span<const uint32_t> copies) {
  return ConflictFinder(live, hb).Run(registers, copies);
}

}  // namespace weft
