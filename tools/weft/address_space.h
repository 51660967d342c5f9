// Little address space (ulimit -v): libraries below Weft that generate code do
// not all survive where the system maps no more, so what they will need is
// asked for in advance.
//
//   SpareAddressSpace();  // first of all, in main
//   WEFT_RETURN_IF_ERROR(CheckAddressSpace(planned_bytes));
//
// Threading: SpareAddressSpace before there are threads, CheckAddressSpace
// anywhere.
#ifndef WEFT_TOOLS_WEFT_ADDRESS_SPACE_H_
#define WEFT_TOOLS_WEFT_ADDRESS_SPACE_H_

#include <cstdint>

#include "absl/status/status.h"

namespace weft {

// Where address space is limited, keeps the allocator from reserving tens of
// megabytes of it for each thread.
void SpareAddressSpace();

// kOutOfMemory unless `bytes`, and what kernels and threads take on top, can be
// mapped now.
absl::Status CheckAddressSpace(uint64_t bytes);

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_ADDRESS_SPACE_H_
