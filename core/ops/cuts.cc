#include "core/ops/cuts.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

constexpr char kCuts[] = "cuts";
constexpr size_t kWords = 4;

}  // namespace

AttrSpec Cuts::Spec() { return AttrSpec::Optional(kCuts, AttrKind::kInts); }

absl::StatusOr<Cuts> Cuts::FromOp(const OpView& op, const Shape& local) {
  Cuts out;
  out.local_ = local;
  std::vector<int64_t> dims(local.dims().begin(), local.dims().end());
  const std::vector<int64_t> none;
  const std::vector<int64_t>& words = op.Has(kCuts) ? op.Ints(kCuts) : none;
  const auto refuse = [&] {
    return op.Error(ErrorCode::kBadAttribute,
                    absl::StrCat("attribute 'cuts' ", ToString(op.Get(kCuts)),
                                 " is no list of {dim, parts, index, groups} "
                                 "that give a part of shape ",
                                 local.ToString()));
  };
  if (words.size() % kWords != 0) return refuse();
  // The last cut first: it was made of what those before had left.
  int last_dim = -1;
  int64_t run = 0;  // 0: nothing is cut
  for (size_t i = words.size(); i > 0; i -= kWords) {
    const int64_t* w = &words[i - kWords];
    if (w[0] < 0 || w[0] >= local.rank() || w[1] < 1 || w[2] < 0 ||
        w[2] >= w[1] || w[3] < 1) {
      return refuse();
    }
    const int dim = static_cast<int>(w[0]);
    const int64_t block = dims[dim] / w[3];
    if (dims[dim] % w[3] != 0) return refuse();
    if (__builtin_mul_overflow(dims[dim], w[1], &dims[dim])) return refuse();
    out.cuts_.push_back({dim, w[1], w[2], w[3], block});
    if (dim > last_dim) run = 0;
    if (dim >= last_dim) run = std::gcd(run, block);
    last_dim = std::max(last_dim, dim);
  }
  absl::StatusOr<Shape> whole = Shape::Create(dims);
  if (!whole.ok()) return refuse();
  out.whole_elements_ = whole->num_elements();
  const auto strides = whole->Strides();
  out.whole_strides_.assign(strides.begin(), strides.end());
  out.run_ =
      last_dim < 0 ? local.num_elements() : run * out.whole_strides_[last_dim];
  return out;
}

void Cuts::Append(Sbp sbp, int parts, int index, AttrMap* attrs) {
  if (!sbp.is_split()) return;
  const Attr* before = attrs->Find(kCuts);
  std::vector<int64_t> words =
      before == nullptr ? std::vector<int64_t>() : before->ints();
  words.insert(words.end(), {sbp.dim, parts, index, sbp.groups});
  attrs->Set(kCuts, std::move(words));
}

void Cuts::CopyTo(const OpView& op, AttrMap* attrs) {
  if (op.Has(kCuts)) attrs->Set(kCuts, op.Get(kCuts));
}

int64_t Cuts::PositionOf(int64_t local) const {
  int64_t at[kMaxRank];
  for (int d = local_.rank() - 1; d >= 0; --d) {
    at[d] = local % local_.dim(d);
    local /= local_.dim(d);
  }
  for (const Cut& cut : cuts_) {
    int64_t& x = at[cut.dim];
    x = (x / cut.block * cut.parts + cut.index) * cut.block + x % cut.block;
  }
  int64_t position = 0;
  for (int d = 0; d < local_.rank(); ++d) {
    position += at[d] * whole_strides_[d];
  }
  return position;
}

}  // namespace weft
