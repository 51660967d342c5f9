// A job's secret: what its ranks know and nobody else, so that a stranger who
// finds an address of theirs gets no answer.
//
//   WEFT_ASSIGN_OR_RETURN(Secret secret, NewJobSecret());   // a launcher
//   WEFT_ASSIGN_OR_RETURN(Secret secret, ReadJobSecret(spec));  // a rank
//
// It travels by an inherited descriptor, by a file that its owner alone may
// read, or by a meeting point (meeting_point.h); never by an argument, the
// environment or a log, and is in no core file.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_RUNTIME_RENDEZVOUS_JOB_SECRET_H_
#define WEFT_RUNTIME_RENDEZVOUS_JOB_SECRET_H_

#include "absl/status/statusor.h"
#include "core/base/secret.h"
#include "runtime/rendezvous/worker_spec.h"

namespace weft::runtime {

// 32 random bytes as hex.
absl::StatusOr<Secret> NewJobSecret();

// From spec.secret_fd, which is closed, or spec.secret_file; empty where there
// is neither. Space around it does not count. kBadLaunch: it cannot be read,
// has less than 16 bytes or more than 4096, or is a file that others may read.
absl::StatusOr<Secret> ReadJobSecret(const WorkerSpec& spec);

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_RENDEZVOUS_JOB_SECRET_H_
