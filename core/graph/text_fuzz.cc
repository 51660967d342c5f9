// Any bytes give a graph or a typed error; a graph passes through its own text
// unchanged.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/error.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::string_view text(reinterpret_cast<const char*>(data), size);
  weft::ParseLimits limits;
  limits.tensor_bytes = 1 << 16;
  absl::StatusOr<weft::Graph> graph = weft::ParseGraph(text, limits);
  if (!graph.ok()) {
    // A defect of ours carries no number of its own.
    if (weft::ErrorCodeOf(graph.status()) == weft::ErrorCode::kInternal)
      abort();
    return 0;
  }
  (void)weft::VerifyGraph(*graph);
  weft::PrintOptions options;
  options.provenance = true;
  std::string once = weft::PrintGraph(*graph, options);
  absl::StatusOr<weft::Graph> again = weft::ParseGraph(once, limits);
  if (!again.ok() || weft::PrintGraph(*again, options) != once) abort();
  return 0;
}
