#include "core/actor/token_world.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/actor/pattern.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft::actor {

TokenCells::TokenCells(const Model& model) {
  std::set<std::pair<uint32_t, uint64_t>> borders;
  for (const auto& [reg, m] : model.memory) {
    for (uint64_t offset : m.offsets) {
      borders.insert({m.arena, offset});
      borders.insert({m.arena, offset + m.bytes});
    }
  }
  std::vector<std::pair<uint32_t, uint64_t>> sorted(borders.begin(),
                                                    borders.end());
  auto index = [&](uint32_t arena, uint64_t at) {
    return static_cast<uint32_t>(std::lower_bound(sorted.begin(), sorted.end(),
                                                  std::make_pair(arena, at)) -
                                 sorted.begin());
  };
  for (const auto& [reg, m] : model.memory) {
    if (m.bytes == 0) continue;
    for (uint64_t offset : m.offsets) {
      ranges_[reg].push_back(
          {index(m.arena, offset), index(m.arena, offset + m.bytes)});
    }
  }
  count_ = sorted.size();
}

std::pair<uint32_t, uint32_t> TokenCells::Of(uint32_t reg,
                                             uint32_t copy) const {
  auto it = ranges_.find(reg);
  if (it == ranges_.end() || copy >= it->second.size()) return {0, 0};
  return it->second[copy];
}

absl::StatusOr<TokenWorld> TokenWorld::Create(const Model* model,
                                              const TokenCells* cells,
                                              uint32_t periods) {
  WEFT_ASSIGN_OR_RETURN(Timing timing, Timing::Create(&model->spec, periods));
  return TokenWorld(model, cells, std::move(timing));
}

TokenWorld::TokenWorld(const Model* model, const TokenCells* cells,
                       Timing timing)
    : model_(model),
      layout_(cells),
      timing_(std::move(timing)),
      cells_(cells->count(), 0) {
  for (const ActorSpec& actor : model->spec.actors) {
    partial_.emplace_back(actor.outputs.size(), 0);
  }
}

void TokenWorld::Take(const Timing::Choice& choice) {
  timing_.Take(choice, this);
  if (timing_.table().refused() != 0) {
    SetFailure(absl::StrCat("message refused: ", timing_.table().refusal()));
  }
}

absl::Status TokenWorld::Final() const {
  return failure_.ok() ? timing_.Final() : failure_;
}

uint64_t TokenWorld::Digest() const {
  uint64_t digest = digest_;
  for (uint64_t state : StateTokens()) digest = Mix(digest, state);
  return digest;
}

uint64_t TokenWorld::Hash() const {
  uint64_t hash = Mix(timing_.Hash(), digest_);
  for (uint64_t token : cells_) hash = Mix(hash, token);
  return hash;
}

void TokenWorld::SetFailure(const std::string& what) {
  if (failure_.ok()) failure_ = MakeError(ErrorCode::kPlanRefuted, what);
}

template <typename Visit>
void TokenWorld::ForEachWrite(const Launch& l, const Visit& visit) {
  for (uint32_t k = 0; k < l.inputs.size(); ++k) {
    if (l.inputs[k] != kNoCopy && InPlace(l, k)) {
      visit(Spec(l.actor).inputs[k].reg, l.inputs[k]);
    }
  }
  for (uint32_t k = 0; k < l.outputs.size(); ++k) {
    if (Writes(l, k)) visit(Spec(l.actor).outputs[k].reg, l.outputs[k]);
  }
}

bool TokenWorld::InPlace(const Launch& l, uint32_t input) const {
  return model_->written_inputs.contains({l.actor, input});
}

bool TokenWorld::Writes(const Launch& l, uint32_t k) const {
  return Spec(l.actor).kind != ActorKind::kVariable &&
         l.outputs[k] != kNoCopy && !model_->views.contains({l.actor, k});
}

void TokenWorld::Start(const Launch& l) {
  CheckReads(l, "starts");
  CheckKept(l);
  const uint64_t busy = Mix(Mix(~uint64_t{0}, l.actor), l.act);
  ForEachWrite(l, [&](uint32_t reg, uint16_t copy) { Fill(reg, copy, busy); });
}

void TokenWorld::CheckKept(const Launch& l) {
  for (uint32_t k = 0; k < l.outputs.size(); ++k) {
    const OutputSpec& out = Spec(l.actor).outputs[k];
    if (!Writes(l, k) || out.alias ||
        (PatternBits(out.pattern, l.act) & kAcquire)) {
      continue;
    }
    auto [first, last] = layout_->Of(out.reg, l.outputs[k]);
    for (uint32_t c = first; c < last; ++c) {
      if (cells_[c] == partial_[l.actor][k]) continue;
      SetFailure(absl::StrCat("overwritten: r", out.reg, " between acts of ",
                              timing_.Name(l.actor)));
    }
  }
}

void TokenWorld::Fill(uint32_t reg, uint16_t copy, uint64_t token) {
  auto [first, last] = layout_->Of(reg, copy);
  std::fill(cells_.begin() + first, cells_.begin() + last, token);
}

bool TokenWorld::OverwritesInput(const Launch& l, uint32_t input) const {
  if (InPlace(l, input)) return true;
  if (!Spec(l.actor).inputs[input].aliased) return false;
  for (uint32_t k = 0; k < l.outputs.size(); ++k) {
    if (Spec(l.actor).outputs[k].alias && Writes(l, k)) return true;
  }
  return false;
}

void TokenWorld::CheckReads(const Launch& l, const char* when) {
  for (uint32_t k = 0; k < l.inputs.size(); ++k) {
    if (l.inputs[k] == kNoCopy) continue;
    const uint32_t reg = Spec(l.actor).inputs[k].reg;
    const Content& content = contents_[{reg, l.inputs[k]}];
    const std::string what =
        absl::StrCat("r", reg, "[", l.inputs[k], "] when act ", l.act, " of ",
                     timing_.Name(l.actor), " ", when);
    if (content.gives != l.takes[k]) {
      SetFailure(absl::StrCat("not written yet: ", what));
    }
    auto [first, last] = layout_->Of(reg, l.inputs[k]);
    for (uint32_t c = first; c < last; ++c) {
      if (cells_[c] != content.token) {
        SetFailure(absl::StrCat("overwritten: ", what));
      }
    }
  }
}

void TokenWorld::Finish(const Launch& l) {
  uint64_t token = Mix(Mix(1, l.actor), l.act);
  for (uint32_t k = 0; k < l.inputs.size(); ++k) {
    if (l.inputs[k] == kNoCopy) continue;
    token =
        Mix(token, contents_[{Spec(l.actor).inputs[k].reg, l.inputs[k]}].token);
  }
  CheckStillThere(l);
  for (uint32_t k = 0; k < l.inputs.size(); ++k) {
    if (l.inputs[k] == kNoCopy || !InPlace(l, k)) continue;
    const uint32_t reg = Spec(l.actor).inputs[k].reg;
    const uint64_t updated = Mix(token, k);
    Fill(reg, l.inputs[k], updated);
    contents_[{reg, l.inputs[k]}].token = updated;
  }
  for (uint32_t k = 0; k < l.outputs.size(); ++k) Give(l, k, token);
  if (Spec(l.actor).kind == ActorKind::kSink) digest_ += token;
}

void TokenWorld::CheckStillThere(const Launch& l) {
  Launch rest = l;
  for (uint32_t k = 0; k < rest.inputs.size(); ++k) {
    if (OverwritesInput(l, k)) rest.inputs[k] = kNoCopy;
  }
  CheckReads(rest, "finishes");
  const uint64_t busy = Mix(Mix(~uint64_t{0}, l.actor), l.act);
  ForEachWrite(l, [&](uint32_t reg, uint16_t copy) {
    auto [first, last] = layout_->Of(reg, copy);
    for (uint32_t c = first; c < last; ++c) {
      if (cells_[c] == busy) continue;
      SetFailure(absl::StrCat("two write at once: r", reg, "[", copy,
                              "] in act ", l.act, " of ",
                              timing_.Name(l.actor)));
    }
  });
}

void TokenWorld::Give(const Launch& l, uint32_t k, uint64_t token) {
  if (l.outputs[k] == kNoCopy) return;
  const OutputSpec& out = Spec(l.actor).outputs[k];
  uint64_t& partial = partial_[l.actor][k];
  if (PatternBits(out.pattern, l.act) & kAcquire) partial = 0;
  partial = Mix(Mix(token, k), partial);
  if (Writes(l, k)) Fill(out.reg, l.outputs[k], partial);
  if (!(PatternBits(out.pattern, l.act) & kGive)) return;
  Content& content = contents_[{out.reg, l.outputs[k]}];
  content.gives = ++gives_[out.reg];
  content.token = partial;
  if (Spec(l.actor).kind == ActorKind::kVariable) {
    auto [first, last] = layout_->Of(out.reg, l.outputs[k]);
    content.token = first == last ? 0 : cells_[first];
  } else if (model_->views.contains({l.actor, k})) {
    for (uint32_t in = 0; in < l.inputs.size(); ++in) {
      if (!Spec(l.actor).inputs[in].aliased) continue;
      content.token =
          contents_[{Spec(l.actor).inputs[in].reg, l.inputs[in]}].token;
    }
  }
}

std::vector<uint64_t> TokenWorld::StateTokens() const {
  std::vector<uint64_t> tokens;
  for (uint32_t i = 0; i < model_->spec.actors.size(); ++i) {
    if (Spec(i).kind != ActorKind::kVariable) continue;
    for (const OutputSpec& out : Spec(i).outputs) {
      auto [first, last] = layout_->Of(out.reg, 0);
      if (first != last) tokens.push_back(cells_[first]);
    }
  }
  return tokens;
}

}  // namespace weft::actor
