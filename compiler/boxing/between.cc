#include "compiler/boxing/between.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/boxing/boxing.h"
#include "compiler/boxing/transfers.h"
#include "compiler/collectives/collective.h"
#include "core/base/channel_name.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/ops/expr.h"

namespace weft {
namespace {

absl::string_view ValueOf(const MeshBoxing& b) {
  return b.value.empty() ? b.name : b.value;
}

// What travels: no parts of a reduction. They are split, as `other` is where
// that fits, and else where they can be: so each member is left with its share
// to send or to receive.
NdSbp Travelling(const NdSbp& sbp, const NdSbp& other, const Mesh& mesh,
                 const Shape& whole) {
  NdSbp plain = sbp;
  for (Sbp& s : plain) {
    if (s.is_partial()) s = Sbp::Broadcast();
  }
  for (size_t axis = 0; axis < sbp.size(); ++axis) {
    if (!sbp[axis].is_partial()) continue;
    std::vector<Sbp> ways;
    if (axis < other.size() && other[axis].is_split()) {
      ways.push_back(other[axis]);
    }
    for (int d = 0; d < whole.rank(); ++d) ways.push_back(Sbp::Split(d));
    for (Sbp way : ways) {
      NdSbp next = plain;
      next[axis] = way;
      if (!LocalShape(whole, next, mesh).ok()) continue;
      plain = std::move(next);
      break;
    }
  }
  return plain;
}

std::string MeshText(const Mesh& mesh, const NdSbp& sbp) {
  if (sbp.empty()) return absl::StrCat("rank ", mesh.rank(0));
  return absl::StrCat(ToString(sbp), " on ",
                      absl::StrJoin(mesh.axes(), "x",
                                    [](std::string* out, const MeshAxis& axis) {
                                      absl::StrAppend(out, axis.size);
                                    }),
                      " ranks ", RankRange(mesh.ranks()));
}

// The elements that a transfer takes of what its sender has.
Expr Taken(const Expr& x, const Transfer& t) {
  std::vector<int64_t> starts, ends, axes;
  Expr y = x;
  for (size_t d = 0; d < t.take.size(); ++d) {
    const Interval& first = t.take[d][0];
    if (t.take[d].size() > 1 ||
        first.length == x.shape().dim(static_cast<int>(d))) {
      continue;
    }
    starts.push_back(first.begin);
    ends.push_back(first.begin + first.length);
    axes.push_back(static_cast<int64_t>(d));
  }
  if (!axes.empty()) {
    y = Apply("Slice", {y},
              {{"starts", starts}, {"ends", ends}, {"axes", axes}});
  }
  for (size_t d = 0; d < t.take.size(); ++d) {
    if (t.take[d].size() == 1) continue;
    std::vector<Expr> pieces;
    for (const Interval& piece : t.take[d]) {
      pieces.push_back(
          Apply("Slice", {y},
                {{"starts", std::vector<int64_t>{piece.begin}},
                 {"ends", std::vector<int64_t>{piece.begin + piece.length}},
                 {"axes", std::vector<int64_t>{static_cast<int64_t>(d)}}}));
    }
    y = Apply("Concat", pieces, {{"axis", static_cast<int64_t>(d)}});
  }
  return y;
}

// A rank's part of the copies.
class Copies {
 public:
  Copies(Graph* graph, const MeshBoxing& b, const NdSbp& from, const NdSbp& to,
         const TensorType& whole)
      : graph_(graph),
        b_(b),
        whole_(whole),
        emit_(graph, b.name, ""),
        transfers_(whole.shape, b.from_costs->mesh(), from, b.to_costs->mesh(),
                   to),
        text_(absl::StrCat(MeshText(b.from_costs->mesh(), from), " to ",
                           MeshText(b.to_costs->mesh(), to))),
        to_(to) {
    emit_.set_placement(b.device, b.stage);
  }

  absl::StatusOr<Value> Add(Value local) {
    const Expr x(emit_, local);
    operand_ = local.node;
    for (const Transfer& t : transfers_.all()) {
      if (t.from == b_.rank && t.to != b_.rank) Send(x, t);
    }
    Value result;
    if (b_.to_costs->mesh().MemberOf(b_.rank) >= 0) result = Receive(x);
    WEFT_RETURN_IF_ERROR(emit_.status());
    return result;
  }

 private:
  void Explain(absl::string_view what) {
    emit_.set_provenance(
        absl::StrCat("boxing: '", ValueOf(b_), "' from ", text_, ": ", what));
  }

  std::string Channel(const Transfer& t) const {
    return ChannelName(b_.name, absl::StrCat(whole_.ToString(), " ", text_),
                       absl::StrCat(t.from, ">", t.to));
  }

  void Send(const Expr& x, const Transfer& t) {
    Explain(absl::StrCat("copy to rank ", t.to));
    emit_.Emit("weft.Send", {Taken(x, t)},
               {{"channel", Channel(t)}, {"peer", t.to}}, 0);
    Order(last_send_);
    if (emit_.status().ok()) last_send_ = graph_->id_bound() - 1;
  }

  // The node made last comes after `before`; where that is none, after the
  // operand, which a Send reads anyway, and what the caller said.
  void Order(int32_t before) {
    if (!emit_.status().ok()) return;
    const int32_t id = graph_->id_bound() - 1;
    if (before >= 0) return graph_->AddControlInput(id, before);
    if (operand_ >= 0 && graph_->node(id)->Is(OpId::kRecv)) {
      graph_->AddControlInput(id, operand_);
    }
    for (int32_t node : b_.after) graph_->AddControlInput(id, node);
  }

  Value Receive(const Expr& x) {
    if (whole_.shape.num_elements() == 0) {
      Explain("it is empty");
      const Shape local = *LocalShape(whole_.shape, to_, b_.to_costs->mesh());
      return emit_.Constant(Literal({whole_.dtype, local}, ""));
    }
    const Transfers::Receiver& mine = transfers_.receiver(b_.rank);
    for (const auto& [parts, index] : mine.transfers) {
      const Transfer& t = transfers_.all()[index];
      if (t.from == b_.rank) {
        Explain("what the rank has itself");
        got_.emplace(parts, Taken(x, t));
        continue;
      }
      Explain(absl::StrCat("copy from rank ", t.from));
      got_.emplace(parts, Expr(emit_, emit_.Emit1("weft.Recv", {},
                                                  {{"channel", Channel(t)},
                                                   {"peer", t.from},
                                                   {"dtype", whole_.dtype},
                                                   {"shape", DimsOf(t.shape)},
                                                   {"rate", b_.rate}})));
      Order(last_send_);
    }
    Explain("its parts joined");
    std::vector<Transfers::Run> runs;
    return Joined(mine, &runs);
  }

  // All elements whose first dimensions are in `runs`.
  Expr Joined(const Transfers::Receiver& mine,
              std::vector<Transfers::Run>* runs) {
    const size_t d = runs->size();
    if (d == mine.runs.size()) return Cell(*runs);
    std::vector<Expr> pieces;
    for (const Transfers::Run& run : mine.runs[d]) {
      runs->push_back(run);
      pieces.push_back(Joined(mine, runs));
      runs->pop_back();
    }
    if (pieces.size() == 1) return pieces[0];
    return Apply("Concat", pieces, {{"axis", static_cast<int64_t>(d)}});
  }

  // The part of a transfer that is in these runs.
  Expr Cell(const std::vector<Transfers::Run>& runs) {
    std::vector<int> parts;
    for (const Transfers::Run& run : runs) parts.push_back(run.part);
    Expr y = got_.at(parts);
    std::vector<int64_t> starts, ends, axes;
    for (size_t d = 0; d < runs.size() && y.valid(); ++d) {
      const Interval& in = runs[d].in_transfer;
      if (in.length == y.shape().dim(static_cast<int>(d))) continue;
      starts.push_back(in.begin);
      ends.push_back(in.begin + in.length);
      axes.push_back(static_cast<int64_t>(d));
    }
    if (axes.empty()) return y;
    return Apply("Slice", {y},
                 {{"starts", starts}, {"ends", ends}, {"axes", axes}});
  }

  Graph* graph_;
  const MeshBoxing& b_;
  const TensorType& whole_;
  GraphEmitter emit_;
  const Transfers transfers_;
  const std::string text_;
  const NdSbp& to_;
  int32_t operand_ = -1;
  int32_t last_send_ = -1;
  std::map<std::vector<int>, Expr> got_;  // by parts
};

// The boxing on one of the two meshes.
Boxing OnMesh(const MeshBoxing& b, BoxingCosts* costs, NdSbp from, NdSbp to,
              absl::string_view what) {
  Boxing on;
  on.costs = costs;
  on.rank = b.rank;
  on.from = std::move(from);
  on.to = std::move(to);
  on.name = absl::StrCat(b.name, what);
  on.value = std::string(ValueOf(b));
  on.rate = b.rate;
  on.algorithm = b.algorithm;
  on.chunk_elements = b.chunk_elements;
  on.after = b.after;
  on.device = b.device;
  on.stage = b.stage;
  return on;
}

absl::Status Check(const MeshBoxing& b, Value local, const TensorType& whole) {
  const struct {
    const NdSbp& sbp;
    const Mesh& mesh;
  } sides[] = {{b.from, b.from_costs->mesh()}, {b.to, b.to_costs->mesh()}};
  for (const auto& side : sides) {
    if (static_cast<int>(side.sbp.size()) != side.mesh.num_axes()) {
      return MakeError(
          ErrorCode::kInternal,
          absl::StrCat(ToString(side.sbp), " on mesh ", side.mesh.ToString()));
    }
    for (Sbp s : side.sbp) {
      if (!s.is_micro()) continue;
      return MakeError(
          ErrorCode::kInternal,
          absl::StrCat(
              ToString(side.sbp),
              ": values of different micro-batches are not one value"));
    }
    WEFT_RETURN_IF_ERROR(LocalShape(whole.shape, side.sbp, side.mesh).status());
  }
  const bool has = b.from_costs->mesh().MemberOf(b.rank) >= 0;
  if (has == local.valid()) return absl::OkStatus();
  return MakeError(
      ErrorCode::kInternal,
      absl::StrCat("rank ", b.rank,
                   has ? " gives no operand" : " gives an operand"));
}

absl::StatusOr<Value> AddAll(Graph* graph, const MeshBoxing& b, Value value,
                             const TensorType& whole) {
  WEFT_RETURN_IF_ERROR(Check(b, value, whole));
  const Mesh& from_mesh = b.from_costs->mesh();
  const Mesh& to_mesh = b.to_costs->mesh();
  if (from_mesh == to_mesh) {
    if (from_mesh.MemberOf(b.rank) < 0) return Value();
    return AddBoxing(graph, OnMesh(b, b.to_costs, b.from, b.to, ""), value,
                     whole);
  }
  const NdSbp sent = Travelling(b.from, b.to, from_mesh, whole.shape);
  const NdSbp got = Travelling(b.to, b.from, to_mesh, whole.shape);
  if (value.valid()) {
    WEFT_ASSIGN_OR_RETURN(
        value, AddBoxing(graph, OnMesh(b, b.from_costs, b.from, sent, "/from"),
                         value, whole));
  }
  Copies copies(graph, b, sent, got, whole);
  WEFT_ASSIGN_OR_RETURN(value, copies.Add(value));
  if (!value.valid()) return value;
  return AddBoxing(graph, OnMesh(b, b.to_costs, got, b.to, "/to"), value,
                   whole);
}

}  // namespace

absl::StatusOr<Value> AddMeshBoxing(Graph* graph, const MeshBoxing& b,
                                    Value local, const TensorType& whole) {
  absl::StatusOr<Value> value = AddAll(graph, b, local, whole);
  if (value.ok()) return value;
  return Annotate(
      value.status(),
      absl::StrCat("boxing of '", ValueOf(b), "' from ", ToString(b.from),
                   " on mesh ", b.from_costs->mesh().ToString(), " to ",
                   ToString(b.to), " on mesh ", b.to_costs->mesh().ToString()));
}

}  // namespace weft
