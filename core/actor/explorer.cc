#include "core/actor/explorer.h"

#include <algorithm>
#include <utility>

#include "core/actor/timing.h"
#include "core/actor/token_world.h"
#include "core/base/error.h"

namespace weft::actor {

namespace {

// One timing; `choose(n)` picks one of n steps.
template <typename Choose>
Exploration RunOnce(const Model& model, uint32_t periods,
                    const Choose& choose) {
  Exploration result;
  const TokenCells cells(model);
  absl::StatusOr<TokenWorld> created =
      TokenWorld::Create(&model, &cells, periods);
  if (!created.ok()) {
    result.status = created.status();
    return result;
  }
  TokenWorld world = *std::move(created);
  for (;;) {
    std::vector<Timing::Choice> choices = world.Choices();
    ++result.states;
    if (choices.empty() || !world.failure().ok()) break;
    const auto pick = choose(static_cast<uint32_t>(choices.size()));
    result.choices.push_back(pick);
    world.Take(choices[pick]);
  }
  result.status = world.Final();
  result.digest = world.Digest();
  return result;
}

}  // namespace

Exploration ExploreRandom(const Model& model, uint32_t periods, uint64_t seed) {
  uint64_t state = Mix(0, seed);
  return RunOnce(model, periods, [&](uint32_t n) {
    return static_cast<uint32_t>(PickRandom(&state, n));
  });
}

Exploration Replay(const Model& model, uint32_t periods,
                   const std::vector<uint32_t>& choices) {
  size_t at = 0;
  return RunOnce(model, periods, [&](uint32_t n) {
    return at < choices.size() ? std::min(choices[at++], n - 1) : 0;
  });
}

Exploration ExploreAll(const Model& model, uint32_t periods,
                       uint64_t max_states) {
  Exploration result;
  const TokenCells cells(model);
  absl::StatusOr<TokenWorld> created =
      TokenWorld::Create(&model, &cells, periods);
  if (!created.ok()) {
    result.status = created.status();
    return result;
  }
  struct Frame {
    TokenWorld world;
    std::vector<Timing::Choice> choices;
    uint32_t next = 0;
  };
  absl::flat_hash_set<uint64_t> seen;
  std::vector<Frame> stack;
  bool has_digest = false;
  TokenWorld first = *std::move(created);
  std::vector<Timing::Choice> choices = first.Choices();
  stack.push_back({std::move(first), std::move(choices), 0});
  auto stop = [&](absl::Status status) {
    result.status = std::move(status);
    for (const Frame& frame : stack) {
      if (frame.next > 0) result.choices.push_back(frame.next - 1);
    }
    return result;
  };
  while (!stack.empty()) {
    Frame& top = stack.back();
    if (top.choices.empty()) {
      absl::Status status = top.world.Final();
      if (!status.ok()) return stop(status);
      if (has_digest && top.world.Digest() != result.digest) {
        return stop(MakeError(ErrorCode::kPlanRefuted,
                              "two timings give different results"));
      }
      result.digest = top.world.Digest();
      has_digest = true;
    }
    if (top.next == top.choices.size()) {
      stack.pop_back();
      continue;
    }
    if (result.states >= max_states) return result;
    TokenWorld world = top.world;
    world.Take(top.choices[top.next++]);
    if (!world.failure().ok()) return stop(world.failure());
    if (!seen.insert(world.Hash()).second) continue;
    ++result.states;
    std::vector<Timing::Choice> after = world.Choices();
    stack.push_back({std::move(world), std::move(after), 0});
  }
  result.exhausted = true;
  return result;
}

}  // namespace weft::actor
