// Sinks of scalar results: puts together what belongs to one step and hands it
// on.
//
//   ScalarSinks sinks({"loss", "weight"}, [](uint64_t step, auto& values) {
//     return absl::OkStatus();      // values by position of the names
//   });
//   bindings = sinks.bindings();
//
// Threading: the callback runs on the worker that brings a step's last value,
// one call at a time, in the order of steps for sinks of one stream.
#ifndef WEFT_TOOLS_WEFT_SCALAR_SINKS_H_
#define WEFT_TOOLS_WEFT_SCALAR_SINKS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "runtime/execute/bindings.h"

namespace weft {

class ScalarSinks {
 public:
  using Values = std::vector<double>;
  // An error stops the run.
  using OnStep = std::function<absl::Status(uint64_t step, const Values&)>;

  ScalarSinks(std::vector<std::string> names, OnStep on_step);
  ~ScalarSinks();

  runtime::Bindings bindings() const;

 private:
  class Sink;
  struct Partial {
    Values values;
    size_t missing;
  };
  absl::Status Take(size_t index, uint64_t step, double value);

  std::vector<std::string> names_;
  OnStep on_step_;
  std::vector<std::unique_ptr<Sink>> sinks_;
  Mutex mu_;
  std::map<uint64_t, Partial> partial_ WEFT_GUARDED_BY(mu_);
};

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_SCALAR_SINKS_H_
