#include "core/mesh/sbp.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/types/reductions.h"

namespace weft {
namespace {

// A dimension as rows of blocks: `outer` times `groups` times `parts` blocks
// of so many bytes.
struct Blocks {
  int64_t rows = 1;
  int64_t bytes = 0;  // of a part's block
};

Blocks BlocksOf(const TensorType& whole, Sbp sbp, int parts) {
  Blocks out;
  int64_t inner = static_cast<int64_t>(DTypeSize(whole.dtype));
  for (int d = 0; d < whole.shape.rank(); ++d) {
    if (d < sbp.dim) out.rows *= whole.shape.dim(d);
    if (d > sbp.dim) inner *= whole.shape.dim(d);
  }
  out.rows *= sbp.groups;
  out.bytes = inner * (whole.shape.dim(sbp.dim) / sbp.groups / parts);
  return out;
}

double Reduced(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kSum:
      return a + b;
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kMin:
      return std::min(a, b);
  }
  return a;
}

absl::Status BadText(absl::string_view text) {
  return MakeError(ErrorCode::kBadValue,
                   absl::StrCat("'", text,
                                "' is no signature; there are B, S(dim), "
                                "S(dim,groups), P(sum), P(prod), P(max), "
                                "P(min) and M"));
}

}  // namespace

std::string ToString(Sbp sbp) {
  switch (sbp.kind) {
    case Sbp::Kind::kBroadcast:
      return "B";
    case Sbp::Kind::kSplit:
      return sbp.groups == 1
                 ? absl::StrCat("S(", sbp.dim, ")")
                 : absl::StrCat("S(", sbp.dim, ",", sbp.groups, ")");
    case Sbp::Kind::kPartial:
      return absl::StrCat("P(", Name(sbp.op), ")");
    case Sbp::Kind::kMicro:
      return "M";
  }
  return "";
}

std::string ToString(const NdSbp& sbp) {
  if (sbp.size() == 1) return ToString(sbp[0]);
  return absl::StrCat("(",
                      absl::StrJoin(sbp, ", ",
                                    [](std::string* out, Sbp s) {
                                      absl::StrAppend(out, ToString(s));
                                    }),
                      ")");
}

std::string ToString(const OpSignature& signature) {
  const auto list = [](const std::vector<Sbp>& sbps) {
    return absl::StrJoin(sbps, ", ", [](std::string* out, Sbp s) {
      absl::StrAppend(out, ToString(s));
    });
  };
  return absl::StrCat(list(signature.inputs), " -> ", list(signature.outputs));
}

absl::StatusOr<Sbp> ParseSbp(absl::string_view text) {
  if (text == "B") return Sbp::Broadcast();
  if (text == "M") return Sbp::Micro();
  if (text.size() < 4 || text[1] != '(' || text.back() != ')') {
    return BadText(text);
  }
  const absl::string_view inside = text.substr(2, text.size() - 3);
  if (text[0] == 'P') {
    for (ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin}) {
      if (inside == Name(op)) return Sbp::Partial(op);
    }
    return BadText(text);
  }
  const std::vector<std::string> numbers = absl::StrSplit(inside, ',');
  int dim = 0, groups = 1;
  if (text[0] != 'S' || numbers.size() > 2 ||
      !absl::SimpleAtoi(numbers[0], &dim) || dim < 0 || dim >= kMaxRank ||
      (numbers.size() == 2 &&
       (!absl::SimpleAtoi(numbers[1], &groups) || groups < 1))) {
    return BadText(text);
  }
  return Sbp::Split(dim, groups);
}

absl::StatusOr<Shape> PartShape(const Shape& whole, Sbp sbp, int parts) {
  if (!sbp.is_split()) return whole;
  if (sbp.dim >= whole.rank()) {
    return MakeError(
        ErrorCode::kShapeMismatch,
        absl::StrCat(ToString(sbp), " splits dimension ", sbp.dim, "; ",
                     whole.ToString(), " has ", whole.rank()));
  }
  std::vector<int64_t> dims(whole.dims().begin(), whole.dims().end());
  const int64_t pieces = int64_t{parts} * sbp.groups;
  if (dims[sbp.dim] % pieces != 0) {
    return MakeError(
        ErrorCode::kShapeMismatch,
        absl::StrCat(ToString(sbp), " cuts dimension ", sbp.dim, " of ",
                     whole.ToString(), " into ", pieces,
                     " pieces of one size (", parts, " members",
                     sbp.groups == 1
                         ? ""
                         : absl::StrCat(" times ", sbp.groups, " groups"),
                     "), which do not divide ", dims[sbp.dim]));
  }
  dims[sbp.dim] /= parts;
  return Shape(dims);
}

absl::StatusOr<Shape> LocalShape(const Shape& whole, const NdSbp& sbp,
                                 const Mesh& mesh) {
  Shape local = whole;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    WEFT_ASSIGN_OR_RETURN(local,
                          PartShape(local, sbp[axis], mesh.axis(axis).size));
  }
  return local;
}

Literal PartOf(const Literal& whole, Sbp sbp, int parts, int index) {
  if (sbp.is_partial() && index != 0) {
    return Literal::Splat(whole.type(), ReductionOf(sbp.op).neutral);
  }
  if (!sbp.is_split()) return whole;
  const Blocks blocks = BlocksOf(whole.type(), sbp, parts);
  std::string bytes;
  bytes.reserve(blocks.rows * blocks.bytes);
  for (int64_t row = 0; row < blocks.rows; ++row) {
    absl::StrAppend(&bytes,
                    whole.bytes().substr((row * parts + index) * blocks.bytes,
                                         blocks.bytes));
  }
  std::vector<int64_t> dims(whole.type().shape.dims().begin(),
                            whole.type().shape.dims().end());
  dims[sbp.dim] /= parts;
  return Literal({whole.type().dtype, Shape(dims)}, std::move(bytes));
}

Literal JoinParts(const std::vector<Literal>& parts, Sbp sbp) {
  if (sbp.is_partial()) {
    std::vector<double> sum = parts[0].ToDoubles();
    for (size_t p = 1; p < parts.size(); ++p) {
      const std::vector<double> more = parts[p].ToDoubles();
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i] = Reduced(sbp.op, sum[i], more[i]);
      }
    }
    return Literal::FromDoubles(parts[0].type(), sum);
  }
  if (!sbp.is_split()) return parts[0];
  const TensorType& part = parts[0].type();
  const int n = static_cast<int>(parts.size());
  std::vector<int64_t> dims(part.shape.dims().begin(), part.shape.dims().end());
  dims[sbp.dim] *= n;
  const TensorType whole = {part.dtype, Shape(dims)};
  const Blocks blocks = BlocksOf(whole, sbp, n);
  std::string bytes;
  bytes.reserve(whole.num_bytes());
  for (int64_t row = 0; row < blocks.rows; ++row) {
    for (const Literal& p : parts) {
      absl::StrAppend(&bytes,
                      p.bytes().substr(row * blocks.bytes, blocks.bytes));
    }
  }
  return Literal(whole, std::move(bytes));
}

Literal LocalPart(const Literal& whole, const NdSbp& sbp, const Mesh& mesh,
                  int member) {
  const std::vector<int> at = mesh.CoordinatesOf(member);
  Literal part = whole;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    part = PartOf(part, sbp[axis], mesh.axis(axis).size, at[axis]);
  }
  return part;
}

Literal WholeOf(const std::vector<Literal>& locals, const NdSbp& sbp,
                const Mesh& mesh) {
  // The last axis counts fastest and was cut last.
  std::vector<Literal> values = locals;
  for (int axis = mesh.num_axes() - 1; axis >= 0; --axis) {
    const size_t n = mesh.axis(axis).size;
    std::vector<Literal> joined;
    for (size_t i = 0; i < values.size(); i += n) {
      joined.push_back(
          JoinParts({values.begin() + i, values.begin() + i + n}, sbp[axis]));
    }
    values = std::move(joined);
  }
  return values[0];
}

}  // namespace weft
