// TokenWorld: a timing with memory, for the explorer. Memory holds a token per
// byte range: what wrote it, from what.
//
//   const TokenCells cells(model);
//   WEFT_ASSIGN_OR_RETURN(TokenWorld world,
//                         TokenWorld::Create(&model, &cells, periods));
//   world.Take(world.Choices()[0]);
//
// A reader finds the token that its REQ promised, when it starts and still when
// it finishes, or failure() says what it found instead.
//
// Threading: thread-compatible. Ownership: a value, whose copies are
// independent; borrows the model and the cells.
#ifndef WEFT_CORE_ACTOR_TOKEN_WORLD_H_
#define WEFT_CORE_ACTOR_TOKEN_WORLD_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/actor/explorer.h"
#include "core/actor/timing.h"

namespace weft::actor {

// Arenas cut at every border of a register copy: equal cells hold equal tokens.
class TokenCells {
 public:
  explicit TokenCells(const Model& model);

  size_t count() const { return count_; }
  // [first, last) of copy `copy`; empty where it has no bytes.
  std::pair<uint32_t, uint32_t> Of(uint32_t reg, uint32_t copy) const;

 private:
  absl::flat_hash_map<uint32_t, std::vector<std::pair<uint32_t, uint32_t>>>
      ranges_;
  size_t count_ = 0;
};

class TokenWorld : private Timing::Work {
 public:
  static absl::StatusOr<TokenWorld> Create(const Model* model,
                                           const TokenCells* cells,
                                           uint32_t periods);

  std::vector<Timing::Choice> Choices() const { return timing_.Choices(); }
  void Take(const Timing::Choice& choice);

  // The first thing that went wrong.
  const absl::Status& failure() const { return failure_; }
  // Nothing is left to choose: is everything done?
  absl::Status Final() const;
  // Of what sinks read and variables keep.
  uint64_t Digest() const;
  uint64_t Hash() const;

 private:
  // What a copy of a register was given with.
  struct Content {
    uint64_t token = 0;
    uint64_t gives = 0;  // of the register, up to this one
  };

  TokenWorld(const Model* model, const TokenCells* cells, Timing timing);

  const ActorSpec& Spec(uint32_t i) const { return model_->spec.actors[i]; }
  void SetFailure(const std::string& what);

  void Start(const Launch& l) override;
  void Finish(const Launch& l) override;

  bool InPlace(const Launch& l, uint32_t input) const;
  // Whether the act writes the bytes of its output `k`.
  bool Writes(const Launch& l, uint32_t k) const;
  // The input is overwritten by this act itself, so it is checked only at the
  // start.
  bool OverwritesInput(const Launch& l, uint32_t input) const;
  template <typename Visit>
  void ForEachWrite(const Launch& l, const Visit& visit);
  void Fill(uint32_t reg, uint16_t copy, uint64_t token);
  void Give(const Launch& l, uint32_t k, uint64_t token);

  void CheckReads(const Launch& l, const char* when);
  // What it has accumulated so far is as it left it.
  void CheckKept(const Launch& l);
  // What it reads is as it was when it started, except what it changes itself.
  void CheckStillThere(const Launch& l);

  // What variables hold.
  std::vector<uint64_t> StateTokens() const;

  const Model* model_;
  const TokenCells* layout_;
  Timing timing_;
  std::vector<uint64_t> cells_;
  std::map<std::pair<uint32_t, uint16_t>, Content> contents_;
  std::map<uint32_t, uint64_t> gives_;
  std::vector<std::vector<uint64_t>> partial_;  // by actor and output
  uint64_t digest_ = 0;
  absl::Status failure_;
};

}  // namespace weft::actor

#endif  // WEFT_CORE_ACTOR_TOKEN_WORLD_H_
