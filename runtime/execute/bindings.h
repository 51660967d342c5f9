// What a session plugs into the two ends of a plan: readers that fill what its
// Source tasks produce, and consumers that get what its Sink tasks receive.
//
//   class Ones : public SourceReader {
//     absl::Status Fill(uint64_t step, uint32_t micro,
//                       absl::Span<const HostTensor> out) override {
//       for (const HostTensor& t : out) ...write t.bytes bytes at t.data...
//       return absl::OkStatus();
//     }
//   };
//   Bindings bindings;
//   bindings.sources["data/images"] = &ones;
//
// The names are those of Task.binding in the plan. "counter:micro" and
// "counter:step" are built in (i64[2] = {step, Task.first + micro-batch}) and
// need no entry.
//
// Threading: each reader and consumer is called by one worker thread at a time
// (the worker that drives its stream), for acts in order: micro-batch 0, 1, ...
// of a step, then the next step. It may block on files, not on other actors.
// Ownership: the session borrows readers and consumers; they outlive it.
#ifndef WEFT_RUNTIME_EXECUTE_BINDINGS_H_
#define WEFT_RUNTIME_EXECUTE_BINDINGS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/types/dtype.h"

namespace weft::runtime {

// One tensor in host memory, dense and row-major. Valid during the call only.
struct HostTensor {
  DType dtype = DType::kInvalid;
  absl::Span<const int64_t> dims;
  void* data = nullptr;
  uint64_t bytes = 0;
};

class SourceReader {
 public:
  virtual ~SourceReader() = default;
  // Writes every byte of every tensor. An error aborts the run and is what
  // Session::Run returns, with the task's name before it.
  virtual absl::Status Fill(uint64_t step, uint32_t micro,
                            absl::Span<const HostTensor> out) = 0;
};

class SinkConsumer {
 public:
  virtual ~SinkConsumer() = default;
  // Looks at the tensors and does not write to them.
  virtual absl::Status Consume(uint64_t step, uint32_t micro,
                               absl::Span<const HostTensor> in) = 0;
};

struct Bindings {
  std::map<std::string, SourceReader*> sources;
  std::map<std::string, SinkConsumer*> sinks;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_EXECUTE_BINDINGS_H_
