// Where the output of ranks goes: to files, to the launcher's own, to both.
//
// By torchrun's flags, a number for all ranks or a list for some of this host:
//   --redirects=3        stdout and stderr to the file only (1: stdout, 2:
//                        stderr, 0: neither)
//   --tee=0:3,2:2        both of the first and stderr of the third to the file
//                        and to the console
// What neither flag names goes to the console only. Without them everything
// goes to the files, and the console shows the first rank and warnings of the
// others.
//
//   WEFT_ASSIGN_OR_RETURN(StreamRules rules, ParseStreamRules("", "3", 4));
//   LineSplitter lines;
//   lines.Add(bytes, [&](absl::string_view line) { ... });
//
// Threading: thread-compatible.
#ifndef WEFT_RUNTIME_LAUNCH_STREAMS_H_
#define WEFT_RUNTIME_LAUNCH_STREAMS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::launch {

enum class Stream { kOut = 0, kErr = 1 };

enum class Show {
  kAll,
  kAllButErrors,  // that are in error files too, of which the launcher tells
  kWarnings,      // of the log and of the command
  kNone,
};

struct StreamRule {
  bool file = false;
  Show console = Show::kNone;
  // Results: the first rank's stdout goes through as it is.
  bool bare = false;
};

class StreamRules {
 public:
  // One rule for each stream of each rank of this host.
  const StreamRule& of(uint32_t local_rank, Stream stream) const {
    return rules_[2 * local_rank + static_cast<uint32_t>(stream)];
  }

 private:
  friend absl::StatusOr<StreamRules> ParseStreamRules(absl::string_view,
                                                      absl::string_view,
                                                      uint32_t, bool);
  std::vector<StreamRule> rules_;
};

// `first_host`: has rank 0. kBadLaunch: a value that is none, a rank that is
// not there.
absl::StatusOr<StreamRules> ParseStreamRules(absl::string_view redirects,
                                             absl::string_view tee,
                                             uint32_t local_ranks,
                                             bool first_host);

// Whether a line is a warning or worse, by its form.
bool IsWarning(absl::string_view line);

// Whether a line begins, or is the last of, an error as the command prints it.
bool BeginsError(absl::string_view line);
bool EndsError(absl::string_view line);

// Lines out of bytes as they come. One that is longer than 64 KiB is cut in
// parts.
class LineSplitter {
 public:
  using Take = std::function<void(absl::string_view line)>;  // without "\n"
  void Add(absl::string_view bytes, const Take& take);
  // The last line, which had no end.
  void Finish(const Take& take);

 private:
  std::string part_;
};

}  // namespace weft::launch

#endif  // WEFT_RUNTIME_LAUNCH_STREAMS_H_
