// The part of a job that names its data: defaults, checks, absolute paths. A
// part of job.h; use that.
//
// Threading: thread-safe functions.
#ifndef WEFT_TOOLS_WEFT_JOB_DATA_H_
#define WEFT_TOOLS_WEFT_JOB_DATA_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/proto/job.pb.h"

namespace weft {

// `job_path` is the job file's. Errors: kBadJob.
absl::Status ResolveData(const std::string& job_path, job::Data* data);

// kBadJob for a NUL byte, up to which the system would read the path; `field`
// is for the message.
absl::Status CheckPath(const std::string& path, absl::string_view field);

// Relative to the job file, absolute then: the resolved job means the same from
// every directory.
std::string AbsolutePath(const std::string& job_path, const std::string& path);

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_JOB_DATA_H_
