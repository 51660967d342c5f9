// The pattern of a port: what it does at each act of its actor, one byte an
// act, repeated for ever. Its length divides the acts of a period. Every reader
// and writer of patterns (plan, compiler, checker, printer, run-time) takes the
// words from here:
//
//   std::string p = Held(4);                  // "\1\0\0\2"
//   if (PatternBits(p, act) & kTake) ...
//
//   input             act 1    2    3    4
//   EveryAct()        t+a     t+a  t+a  t+a   an ordinary operand
//   Held(4)           t        .    .    a    a step value in micro-batches
//
//   output
//   EveryAct()        A+g     A+g  A+g  A+g   an ordinary result
//   Accumulated(4)    A        .    .    g    written from the first act on
//   GivenLast(4)      .        .    .   A+g   kept elsewhere until the last act
//   Sliced(4)         g        g    g    g    an alias: parts of a held input
//   SharedPhase()     A+g      H              a variable, for its readers
//   ExclusivePhase()  H       A+g             a variable, for its update
//
// (t take, a ack, A acquire, g give, H all copies home.)
//
// Threading: pure functions.
#ifndef WEFT_CORE_ACTOR_PATTERN_H_
#define WEFT_CORE_ACTOR_PATTERN_H_

#include <cstdint>
#include <string>

namespace weft::actor {

inline constexpr uint8_t kTake = 1;     // input: needs a REQ
inline constexpr uint8_t kAck = 2;      // input: is done with what it took
inline constexpr uint8_t kAcquire = 1;  // output: needs a free copy
inline constexpr uint8_t kGive = 2;     // output: the copy is ready
inline constexpr uint8_t kHome = 4;     // output: needs all copies free

// Takes and acks, or acquires and gives, at every act. An empty pattern means
// the same.
std::string EveryAct();
// Takes at the first of `acts` acts, acks at the last.
std::string Held(uint32_t acts);
// Acquired at the first of `acts` acts, given at the last.
std::string Accumulated(uint32_t acts);
// Acquired and given at the last of `acts` acts.
std::string GivenLast(uint32_t acts);
// Given at each of `acts` acts, acquired at none: slices of a held input.
std::string Sliced(uint32_t acts);
// The two outputs of a Variable, whose period has two acts.
std::string SharedPhase();
std::string ExclusivePhase();

// What the port does at act `act`, counted from the start of the run.
inline uint8_t PatternBits(const std::string& pattern, uint64_t act) {
  if (pattern.empty()) return kTake | kAck;
  return static_cast<uint8_t>(pattern[act % pattern.size()]);
}

// The same pattern with as few bytes as do: one where all acts are alike, which
// is cheaper to follow. Never empty.
std::string Shortest(const std::string& pattern);

}  // namespace weft::actor

#endif  // WEFT_CORE_ACTOR_PATTERN_H_
