// A device plugin for tests of the run-time, inside the test program.
//
//   fake:0   inline, memory that the host reaches (a CPU)
//   fake:1   works on after a call has returned, memory of its own
//
// fake:1 of FakePlugin has no thread. What is submitted waits in a queue, and
// each poll of a stream does a few entries of that queue, how many a seeded
// generator says. So a test runs many orders of completion, the same ones every
// time. A plugin with signals does the whole queue when it is asked for one.
//
// Kernels: Add, Sub, Mul, Neg, elementwise on f32 of equal shapes. Every result
// and every new allocation is written over with a pattern first, so stale or
// early reads change the numbers.
//
// Threading: thread-safe as the ABI asks. One set of options for the process.
#ifndef WEFT_RUNTIME_TESTING_FAKE_PLUGIN_H_
#define WEFT_RUNTIME_TESTING_FAKE_PLUGIN_H_

#include <cstdint>

#include "plugins/host/plugin.h"

namespace weft::runtime::testing {

struct FakeOptions {
  uint64_t seed = 1;
  // The launch that fails, counted from 0 after SetFakeOptions; -1: none. On
  // fake:1 it fails when it is done, and poisons its stream.
  int64_t fail_launch = -1;
  // Launches of Neg block until ReleaseFake() while set.
  bool block_neg = false;
  // Streams of fake:1 do nothing of what they have to do while set.
  bool hang = false;
  // The stream that cannot be opened, the copy that is refused, the mapping
  // that fails, each counted from 0 after SetFakeOptions.
  int64_t fail_stream = -1;
  int64_t fail_copy = -1;
  int64_t fail_map = -1;
  // Streams cannot be marked while set.
  bool fail_mark = false;
};

void SetFakeOptions(const FakeOptions& options);
void ReleaseFake();
// Launches since SetFakeOptions.
int64_t FakeLaunches();
// Waits (bounded) until a launch of Neg is blocked; false on time-out.
bool WaitForBlockedNeg();

// With sync2.host_signal or without: two plugins.
const Plugin& FakePlugin(bool signals = false);

// Without signals, but fake:1 has a thread for each stream, which calls notify
// after each tick, and says so. `hang` and seeds mean nothing to it; its waits
// have an end all the same.
const Plugin& NotifyingFakePlugin();

// True on a thread that is inside the plugin: what it allocates there is not
// the run-time's.
bool InsideFake();

}  // namespace weft::runtime::testing

#endif  // WEFT_RUNTIME_TESTING_FAKE_PLUGIN_H_
