// The job: file, environment and flags made one checked message.
//
//   WEFT_ASSIGN_OR_RETURN(job::Job job,
//       LoadJob(RealOs(), "job.txtpb", env, {"optimizer.sgd.momentum=0.9"}));
//
// Precedence: defaults < file < WEFT_ variables < --set. Every field of the
// result is filled in, so its text form (resolved_job.txtpb) repeats the run.
// Paths in the file are relative to the file.
//
// Errors: kUnknownField with place and "did you mean"; kBadValue for a value of
// the wrong form, with place; kBadJob for fields that contradict each other or
// ask for what this version does not do, naming both sides.
//
// Threading: thread-safe functions.
#ifndef WEFT_TOOLS_WEFT_JOB_H_
#define WEFT_TOOLS_WEFT_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/env.h"
#include "core/base/os.h"
#include "core/proto/job.pb.h"

namespace weft {

absl::StatusOr<job::Job> LoadJob(Os& os, const std::string& path,
                                 const Environment& env,
                                 const std::vector<std::string>& sets);

// The parts of LoadJob, for tests and for tools that have the text already.

// `name` stands for the file in messages ("job.txtpb:3:5: ...").
absl::StatusOr<job::Job> ParseJob(absl::string_view name,
                                  const std::string& text);

// "optimizer.sgd.momentum=0.9", "model.builtin.args.hidden=256". `origin` is
// for messages: "--set", "WEFT_SEED".
absl::Status SetField(absl::string_view assignment, absl::string_view origin,
                      job::Job* job);

// Fills in defaults and checks; `path` makes file names absolute.
absl::Status ResolveJob(const std::string& path, job::Job* job);

// With every field of a resolved job, those that are zero too.
std::string JobText(const job::Job& job);

// kBadJob where a field holds a number that its enumeration does not have.
absl::Status CheckEnums(const job::Job& job);

// What differs between two resolved jobs, for people: "modified: epochs: 3 ->
// 5; added: ...". Empty where nothing does.
std::string JobChanges(const job::Job& before, const job::Job& after);

// observe.trace_steps: "7" or "100-110", first <= last. False for anything
// else.
bool ParseTraceSteps(absl::string_view text, uint64_t* first, uint64_t* last);

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_JOB_H_
