// The most that a device does, measured through its own kernels: what a profile
// compares with.
//
//   WEFT_ASSIGN_OR_RETURN(runtime::Ceiling most,
//                         MeasureCeiling(device, DType::kF32));
//   most.gflops;   // of the best large MatMul
//   most.gbytes;   // of the best large copy, read and written
//
// Takes some hundreds of milliseconds and up to 128 MiB of the device. The
// figures are of this device at this moment: with other work beside it they are
// lower than they could be.
//
// It opens a stream: measure before a session takes those that the device has.
//
// Threading: nothing else may run on the device meanwhile.
#ifndef WEFT_TOOLS_WEFT_CEILINGS_H_
#define WEFT_TOOLS_WEFT_CEILINGS_H_

#include "absl/status/statusor.h"
#include "core/types/dtype.h"
#include "plugins/host/device.h"
#include "runtime/observe/profile_report.h"

namespace weft {

// `dtype`: of the MatMul; where the device has none in it, f32. A ceiling that
// the device gives no means to measure is 0. Errors: those of the device.
absl::StatusOr<runtime::Ceiling> MeasureCeiling(Device* device, DType dtype);

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_CEILINGS_H_
