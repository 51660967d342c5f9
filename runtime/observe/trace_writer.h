// A TraceLog as a Chrome trace: JSON for chrome://tracing or Perfetto.
//
//   std::string json = ChromeTraceJson(log, /*rank=*/0);
//
// Each act is a slice: its name is that of the user's node, its process the
// rank, its thread the stream. An arrow leads from the act that gave a copy of
// a register to each act that took it; which act gave what follows from the
// plan, so nothing is recorded for it. Arrows from acts that were not recorded
// are left out.
//
// Threading: free function; no program may run on the log's session meanwhile.
#ifndef WEFT_RUNTIME_OBSERVE_TRACE_WRITER_H_
#define WEFT_RUNTIME_OBSERVE_TRACE_WRITER_H_

#include <cstdint>
#include <string>

#include "runtime/observe/trace.h"

namespace weft::runtime {

std::string ChromeTraceJson(const TraceLog& log, uint32_t rank);

// The act of an output's owner that gives the n-th copy, for an output with
// this pattern (core/actor/spec.h), and the number of copies that an input has
// taken before act `act`. Exposed for tests.
uint64_t ActThatGives(const std::string& pattern, uint64_t n);
uint64_t TakenBefore(const std::string& pattern, uint64_t act);

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_OBSERVE_TRACE_WRITER_H_
