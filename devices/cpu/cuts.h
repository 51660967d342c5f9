// Which part of a whole tensor an op makes: attribute `cuts`, of ops whose
// elements depend on their position. Four numbers for each cut, in their
// order: {dim, parts, index, groups}. This is the arithmetic of
// core/ops/cuts.h again, for this plugin; a test holds the two equal.
//
//   Cuts cuts;
//   if (!cuts.Read(op, dims, rank)) return nullptr;
//   cuts.ForEachRun(begin, end, [&](int64_t position, int64_t at, int64_t n) {
//     // elements [at, at + n) here are [position, position + n) of the whole
//   });
//
// Without the attribute there is one run: the whole.
//
// Threading: immutable once read.
#ifndef WEFT_DEVICES_CPU_CUTS_H_
#define WEFT_DEVICES_CPU_CUTS_H_

#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

class Cuts {
 public:
  // `dims` are those of the part. Records a failure where they do not fit.
  bool Read(const Op& op, const int64_t* dims, int rank) {
    const std::vector<int64_t> words = op.Ints("cuts");
    if (!op.Check(words.size() % 4 == 0, "cuts that are not four numbers")) {
      return false;
    }
    local_.assign(dims, dims + rank);
    std::vector<int64_t> whole = local_;
    int64_t last_dim = -1, together = 0;
    for (size_t i = words.size(); i > 0; i -= 4) {
      const int64_t *w = &words[i - 4], dim = w[0], groups = w[3];
      if (!op.Check(dim >= 0 && dim < rank && w[1] > 0 && w[2] >= 0 &&
                        w[2] < w[1] && groups > 0 && whole[dim] % groups == 0,
                    "cuts that do not fit")) {
        return false;
      }
      const int64_t block = whole[dim] / groups;
      cuts_.push_back({dim, w[1], w[2], block});
      whole[dim] *= w[1];
      if (dim > last_dim) together = 0;
      if (dim >= last_dim) together = Divisor(together, block);
      last_dim = std::max(last_dim, dim);
    }
    count_ = 1;
    strides_.assign(rank, 1);
    for (int d = rank - 1; d >= 0; --d) {
      strides_[d] = count_;
      count_ *= whole[d];
    }
    if (last_dim >= 0) run_ = together * strides_[last_dim];
    return true;
  }

  // Elements of the whole.
  int64_t count() const { return count_; }

  // Of the whole, of an element here.
  int64_t PositionOf(int64_t at) const {
    if (cuts_.empty()) return at;
    int64_t x[WEFT_MAX_RANK] = {};
    for (size_t d = local_.size(); d-- > 0;) {
      x[d] = at % local_[d];
      at /= local_[d];
    }
    for (const Cut& cut : cuts_) {
      int64_t& i = x[cut.dim];
      i = (i / cut.block * cut.parts + cut.index) * cut.block + i % cut.block;
    }
    int64_t position = 0;
    for (size_t d = 0; d < local_.size(); ++d) position += x[d] * strides_[d];
    return position;
  }

  // Elements [begin, end) here, run by run.
  template <class F>
  void ForEachRun(int64_t begin, int64_t end, F f) const {
    while (begin < end) {
      const int64_t n = std::min(end - begin, run_ - begin % run_);
      f(PositionOf(begin), begin, n);
      begin += n;
    }
  }

 private:
  struct Cut {
    int64_t dim, parts, index, block;
  };

  // The greatest of both; of 0 and x, x.
  static int64_t Divisor(int64_t a, int64_t b) {
    while (b != 0) {
      const int64_t rest = a % b;
      a = b;
      b = rest;
    }
    return a;
  }

  std::vector<Cut> cuts_;  // the last first
  std::vector<int64_t> local_, strides_;
  int64_t count_ = 0;
  // Elements that lie together in the whole: all, where nothing is cut.
  int64_t run_ = std::numeric_limits<int64_t>::max();
};

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_CUTS_H_
