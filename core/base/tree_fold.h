// TreeFold: parts that come one after another, reduced as a balanced tree by
// position, the order class TREE: ((0+1) + (2+3)) + 4. It works as a binary
// counter: two sums of the same number of parts become one as soon as both are
// there, so no more than log2 of the parts are kept.
//
//   TreeFold<double> sum([](double a, double b) { return a + b; });
//   for (double x : parts) sum.Take(x);
//   sum.Total();
//
// Threading: thread-compatible.
#ifndef WEFT_CORE_BASE_TREE_FOLD_H_
#define WEFT_CORE_BASE_TREE_FOLD_H_

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace weft {

template <typename T>
class TreeFold {
 public:
  // `both`: (earlier parts, later parts) -> their sum.
  explicit TreeFold(std::function<T(T, T)> both) : both_(std::move(both)) {}

  void Take(T part) {
    for (size_t bits = ++taken_; bits % 2 == 0; bits /= 2) {
      part = both_(sums_.back(), part);
      sums_.pop_back();
    }
    sums_.push_back(part);
  }

  // Of all that was taken. Pre-condition: something was. Ends the fold.
  T Total() {
    for (; sums_.size() > 1; sums_.pop_back()) {
      sums_[sums_.size() - 2] = both_(sums_[sums_.size() - 2], sums_.back());
    }
    return sums_[0];
  }

 private:
  std::function<T(T, T)> both_;
  std::vector<T> sums_;
  size_t taken_ = 0;
};

}  // namespace weft

#endif  // WEFT_CORE_BASE_TREE_FOLD_H_
