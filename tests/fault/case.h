// One row of a table of bad input: what the user has and does, and how the
// command must refuse it.
//
//   CheckCases("data", Mlp(), {{"missing", Train(), "WEFT-5001", 6,
//                               {"No such file"}, RemoveTheFile}});
//
// Where a row is the source of the sample on its error's page, the two must
// agree but for names and numbers. A sample whose row did not come fails the
// test program.
//
// Threading: one thread.
#ifndef WEFT_TESTS_FAULT_CASE_H_
#define WEFT_TESTS_FAULT_CASE_H_

#include <functional>
#include <string>
#include <vector>

#include "tests/e2e/harness.h"

namespace weft::e2e {

// What the user has and does. The defect is put in by `prepare`.
struct Case {
  std::string name;
  std::vector<std::string> args;
  std::string code;
  int exit_code;
  std::vector<std::string> texts;  // all in the message
  std::function<void(const TestJob&)> prepare = {};
  Environ environment = {};
  Limits limits = {};
};

// The arguments of a run of the test job.
std::vector<std::string> Train(const Sets& sets = {});

// An error must not leave a part of anything behind.
void ExpectNothingHalfWritten(const std::string& folder);

// Runs each case in a job of its own, called `group`.
void CheckCases(const std::string& group, const std::string& model,
                const std::vector<Case>& cases);

}  // namespace weft::e2e

#endif  // WEFT_TESTS_FAULT_CASE_H_
